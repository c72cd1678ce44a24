"""Loaded models train: gradients are those of the same network written with modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.onnx
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.jit import trace


class Net(M.Module):
    """What the file below holds, as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = M.Conv2d(3, 8, 3, padding=1)
        self.bn = M.BatchNorm2d(8)
        self.depth = M.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.fc = M.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.bn(self.conv(x)))
        x = F.max_pool2d(F.relu(self.depth(x)), 2)
        return self.fc(F.mean(x, (2, 3)))


# What each array of the module is called in the file, and its shape there.
NAMES = {
    "conv.weight": ("conv.weight", (8, 3, 3, 3)),
    "conv.bias": ("conv.bias", (8,)),
    "bn.weight": ("bn.weight", (8,)),
    "bn.bias": ("bn.bias", (8,)),
    "bn.running_mean": ("bn.running_mean", (8,)),
    "bn.running_var": ("bn.running_var", (8,)),
    "depth.weight": ("depth.weight", (8, 1, 3, 3)),
    "depth.bias": ("depth.bias", (8,)),
    "fc.weight": ("fc.weight", (5, 8)),
    "fc.bias": ("fc.bias", (5,)),
}


def file_of(net: Net) -> bytes:
    state = net.state_dict()
    initializers = [
        numpy_helper.from_array(np.ascontiguousarray(state[ours].reshape(shape)), name)
        for ours, (name, shape) in NAMES.items()
    ]
    bn = ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", bn, ["b"]),
        helper.make_node("Relu", ["b"], ["r"]),
        helper.make_node("Conv", ["r", "depth.weight", "depth.bias"], ["d"], pads=[1] * 4,
                         strides=[2, 2], group=8),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        initializers,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(proto.SerializeToString())


@pytest.fixture
def batch(rng: np.random.Generator) -> tuple[mge.Tensor, mge.Tensor]:
    images = rng.normal(size=(16, 3, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 5, 16).astype(np.int32)
    images += labels.reshape(-1, 1, 1, 1) * 0.3
    return mge.tensor(images), mge.tensor(labels)


def gradients(net: Any, x: mge.Tensor, labels: mge.Tensor) -> dict[str, np.ndarray]:
    parameters = dict(net.named_parameters())
    with GradManager().attach(list(parameters.values())) as manager:
        manager.backward(F.loss.cross_entropy(net(x), labels))
    found = {name: parameter.grad.numpy() for name, parameter in parameters.items()}
    for parameter in parameters.values():
        parameter.grad = None
    return found


@pytest.mark.parametrize("training", [False, True])
def test_gradients(training: bool, batch: tuple[mge.Tensor, mge.Tensor]) -> None:
    ours = Net()
    ours.bn.running_mean[:] = 0.2
    loaded = mge.onnx.load(file_of(ours))
    assert not loaded.training
    ours.train(training)
    loaded.train(training)
    np.testing.assert_allclose(loaded(batch[0]).numpy(), ours(batch[0]).numpy(), 1e-5, 1e-6)
    wanted, found = gradients(ours, *batch), gradients(loaded, *batch)
    assert set(found) == {NAMES[name][0] for name in wanted}
    for name, value in wanted.items():
        other, shape = NAMES[name]
        np.testing.assert_allclose(found[other], value.reshape(shape), 1e-4, 1e-6, err_msg=name)
    state, kept = loaded.state_dict(), ours.state_dict()
    for name in ("bn.running_mean", "bn.running_var"):
        np.testing.assert_allclose(state[name], kept[name], 1e-5, 1e-6)


@pytest.mark.parametrize("traced", [False, True])
def test_fine_tuning(traced: bool, batch: tuple[mge.Tensor, mge.Tensor]) -> None:
    net = mge.onnx.load(file_of(Net()))
    net.train()
    manager = GradManager().attach(net.parameters())
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: mge.Tensor, labels: mge.Tensor) -> mge.Tensor:
        with manager:
            loss = F.loss.cross_entropy(net(x), labels)
            manager.backward(loss)
        optimizer.step().clear_grad()
        return loss

    run = trace(step) if traced else step
    losses = [float(run(*batch)) for _ in range(15)]
    assert losses[-1] < 0.7 * losses[0]
    net.eval()
    assert float(F.loss.cross_entropy(net(batch[0]), batch[1])) < losses[0]


def test_loss_in_the_file(rng: np.random.Generator) -> None:
    # The weights train through a loss that the file computes, and through a recurrent layer.
    sizes = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32), "fc": (4, 3)}
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.4, size).astype(np.float32), name)
        for name, size in sizes.items()
    ]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "h"], hidden_size=4),
        helper.make_node("Squeeze", ["h", "axis"], ["s"]),
        helper.make_node("MatMul", ["s", "fc"], ["scores"]),
        helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"]),
    ]
    weights.append(numpy_helper.from_array(np.array([0]), "axis"))
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, "n", 3]),
            helper.make_tensor_value_info("labels", TensorProto.INT64, ["n"]),
        ],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    net = mge.onnx.load(proto)
    assert {name for name, _ in net.named_parameters()} == set(sizes)
    x = mge.tensor(rng.normal(size=(6, 9, 3)).astype(np.float32))
    labels = mge.tensor(rng.integers(0, 3, 9).astype(np.int32))
    manager = GradManager().attach(net.parameters())
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        with manager:
            loss = net(x, labels)
            manager.backward(loss)
        optimizer.step().clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.6 * losses[0]
