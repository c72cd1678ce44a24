"""The programs of the article "Functional, Module and optimizer", and calls of what it lists.

The article leaves the middle of functions out; the lines here are those that it shows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.optimizer as optim
from megengine import Parameter, Tensor
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply, squeeze_cpp
from megengine.core.ops import builtin
from megengine.core.tensor.utils import as_device, get_device
from megengine.module import Module


def concat(inps: Sequence[Tensor], axis: int = 0, device: Any = None) -> Tensor:
    if len(inps) == 1:
        return inps[0]

    if device is None:
        device = get_device(inps)
    device = as_device(device)
    (result,) = apply(builtin.Concat(axis=axis, comp_node=device.to_c()), *inps)
    return result


def diag(inp: Tensor, k: int = 0) -> Tensor:
    op = builtin.Diag(k=k)
    (result,) = apply(op, inp)
    return result


def squeeze(inp: Tensor, axis: Any = None) -> Tensor:
    return squeeze_cpp(inp, axis)


class Simple(Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Parameter([1.23], dtype=np.float32)

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.a
        return x  # noqa: RET504 - as the article has it


class Pair(Module):
    """A module with a child and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.simple = Simple()
        self.mean = Tensor([0.5])

    def forward(self, x: Tensor) -> Tensor:
        return self.simple(x) - self.mean


def functions() -> None:
    print(concat([mge.tensor([1.0, 2.0]), mge.tensor([3.0])]))
    print(concat([mge.tensor([1.0, 2.0])]))
    print(concat([mge.tensor([[1.0], [2.0]]), mge.tensor([[3.0], [4.0]])], axis=1))
    print(diag(mge.tensor([1.0, 2.0]), 1))
    print(diag(mge.tensor([[1.0, 2.0], [3.0, 4.0]])))
    print(squeeze(mge.tensor([[1.0, 2.0]]), 0))


def modules() -> None:
    print(Simple()(mge.tensor([2.0])))
    net = Pair()
    listed: dict[str, Iterable[Any]] = {
        "buffers": net.buffers(),
        "parameters": net.parameters(),
        "tensors": net.tensors(),
        "children": net.children(),
        "named_buffers": net.named_buffers(),
        "named_parameters": net.named_parameters(),
        "named_tensors": net.named_tensors(),
        "named_modules": net.named_modules(),
        "named_children": net.named_children(),
    }
    for name, items in listed.items():
        print(name, list(items))
    state = net.state_dict()
    print(list(state.items()), state["mean"].flags.writeable)
    state["mean"] = np.array([7.0], dtype=np.float32)
    net.load_state_dict(state)
    print(net(mge.tensor([2.0])))
    print(net.training, net.quantize_disabled, net.name)


def optimizing() -> None:
    model = Simple()
    gm = GradManager().attach(model.parameters())
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    dataset = [(mge.tensor([1.0]), mge.tensor([3.0])), (mge.tensor([2.0]), mge.tensor([6.0]))]

    for data, label in dataset:
        with gm:
            pred = model(data)
            loss = F.loss.square_loss(pred, label)
            gm.backward(loss)
            optimizer.step().clear_grad()
        print(loss, model.a)


PROGRAMS = [functions, modules, optimizing]
