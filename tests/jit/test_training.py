"""Whole training steps: 20 traced ones end in the weights of 20 plain ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.jit import trace

T = mge.tensor
Array = np.ndarray[Any, Any]
STEPS = 20


# ---- networks ------------------------------------------------------------------------------------


def mlp(*sizes: int) -> M.Module:
    layers: list[M.Module] = []
    for i, o in itertools.pairwise(sizes):
        layers += [M.Linear(i, o), M.ReLU()]
    return M.Sequential(*layers[:-1])


class Flatten(M.Module):
    def forward(self, x: mge.Tensor) -> mge.Tensor:
        return F.flatten(x, 1)


def lenet() -> M.Module:
    return M.Sequential(
        M.Conv2d(1, 6, 5),
        M.ReLU(),
        M.MaxPool2d(2),
        M.Conv2d(6, 16, 5),
        M.ReLU(),
        M.MaxPool2d(2),
        Flatten(),
        M.Linear(256, 84),
        M.ReLU(),
        M.Linear(84, 10),
    )


class Block(M.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.body = M.Sequential(
            M.Conv2d(i, o, 3, stride, 1, bias=False),
            M.BatchNorm2d(o),
            M.ReLU(),
            M.Conv2d(o, o, 3, 1, 1, bias=False),
            M.BatchNorm2d(o),
        )
        same = stride == 1 and i == o
        self.shortcut = (
            M.Identity()
            if same
            else M.Sequential(M.Conv2d(i, o, 1, stride, bias=False), M.BatchNorm2d(o))
        )

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(M.Module):
    """ResNet-18 with a quarter of the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = M.Sequential(M.Conv2d(3, 16, 7, 2, 3, bias=False), M.BatchNorm2d(16), M.ReLU())
        blocks, i = [], 16
        for k, o in enumerate((16, 32, 64, 128)):
            for j in range(2):
                blocks.append(Block(i, o, 2 if j == 0 and k else 1))
                i = o
        self.blocks = M.Sequential(*blocks)
        self.fc = M.Linear(i, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        x = self.blocks(F.max_pool2d(self.stem(x), 3, 2, 1))
        return self.fc(F.mean(x, (2, 3)))


class Encoder(M.Module):
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = M.LayerNorm(width), M.LayerNorm(width)
        self.qkv, self.out = M.Linear(width, 3 * width), M.Linear(width, width)
        self.up, self.down = M.Linear(width, 4 * width), M.Linear(4 * width, width)
        self.drop = M.Dropout(0.1)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        n, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        weights = F.softmax(
            F.matmul(q, k, transpose_b=True) * (width // self.heads) ** -0.5, axis=-1
        )
        y = F.matmul(weights, v).transpose(0, 2, 1, 3).reshape(n, length, width)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class ViT(M.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = M.Sequential(*[Encoder(32, 4) for _ in range(2)])
        self.norm, self.fc = M.LayerNorm(32), M.Linear(32, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        return self.fc(F.mean(self.norm(self.layers(x)), 1))


class LastOf(M.Module):
    """A recurrent network and a classifier of its last output."""

    def __init__(self, recurrent: Callable[..., M.Module]) -> None:
        super().__init__()
        self.recurrent = recurrent(12, 16, num_layers=2)
        self.fc = M.Linear(16, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        return self.fc(self.recurrent(x)[0][-1])


class Cell(M.Module):
    """A recurrent network as a loop over its cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.fc = M.LSTMCell(12, 16), M.Linear(16, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        h, c = F.zeros((x.shape[1], 16)), F.zeros((x.shape[1], 16))
        for t in range(x.shape[0]):
            h, c, *_ = self.cell(x[t], (h, c))
        return self.fc(h)


# A network, the shape of its input (batch at axis 0 but for recurrent ones), how it is trained.
Optimizer = Callable[[Any], optim.Optimizer]


def sgd(p: Any) -> optim.Optimizer:
    return optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-4)


def adam(p: Any) -> optim.Optimizer:
    return optim.Adam(p, lr=1e-3)


def adamw(p: Any) -> optim.Optimizer:
    return optim.AdamW(p, lr=1e-3)


NETWORKS: dict[str, tuple[Callable[[], M.Module], tuple[int, ...], Optimizer]] = {
    "mlp_tiny": (lambda: mlp(16, 64, 64, 10), (8, 16), sgd),
    "mlp": (lambda: mlp(784, 128, 128, 10), (32, 784), adam),
    "lenet": (lenet, (8, 1, 28, 28), sgd),
    "resnet18": (ResNet, (4, 3, 32, 32), sgd),
    "vit": (ViT, (4, 9, 32), adamw),
    "lstm": (lambda: LastOf(M.LSTM), (7, 4, 12), adam),
    "rnn": (lambda: LastOf(M.RNN), (7, 4, 12), adam),
    "lstm_cell": (Cell, (7, 4, 12), adam),
}


# ---- training ------------------------------------------------------------------------------------


def weights_after(
    make: Callable[[], M.Module],
    shape: tuple[int, ...],
    make_optimizer: Optimizer,
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    batches: tuple[int, ...] = (),
) -> dict[str, Array]:
    """The state after 20 steps, and the losses; `batches` are the sizes, one after the other."""
    mge.random.seed(11)
    net = make()
    opt = make_optimizer(net.parameters())
    gm = GradManager().attach(net.parameters())

    @wrap
    def step(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
        with gm:
            loss = F.loss.cross_entropy(net(x), y)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss

    rng = np.random.default_rng(2)
    losses = []
    for i in range(STEPS):
        dims = list(shape)
        if batches:
            dims[0] = batches[i % len(batches)]
        x = T(rng.standard_normal(dims).astype("float32"))
        count = dims[1] if len(dims) == 3 and dims[2] == 12 else dims[0]
        losses.append(step(x, T(rng.integers(0, 10, count).astype("int32"))).item())
    state = {k: np.array(v) for k, v in net.state_dict().items()}
    return {**state, "losses": np.array(losses, "float32")}


def assert_close(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        scale = max(float(np.abs(array).max()), 1e-3)
        apart = np.abs(got[name] - array)
        if name.endswith("qkv.bias"):
            # Softmax does not see what is added to all keys: the true gradient of their bias is 0,
            # and Adam makes steps of what rounding leaves.
            apart = np.delete(apart.reshape(3, -1), 1, axis=0)
        assert apart.max() <= 1e-5 * scale, name


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    make, shape, optimizer = NETWORKS[name]
    plain = weights_after(make, shape, optimizer, lambda f: f)
    assert np.isfinite(plain["losses"]).all()
    assert plain["losses"][-1] != plain["losses"][0]
    assert_close(weights_after(make, shape, optimizer, trace(symbolic=True)), plain)


def test_changing_batch_sizes() -> None:
    sizes = (8, 3, 8, 5, 3, 1)
    plain = weights_after(lenet, (8, 1, 28, 28), sgd, lambda f: f, sizes)
    assert_close(weights_after(lenet, (8, 1, 28, 28), sgd, trace, sizes), plain)


OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=1e-3),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.01),
    "adadelta": lambda p: optim.Adadelta(p, lr=1.0),
    "lamb": lambda p: optim.LAMB(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    args = (lambda: mlp(6, 16, 10), (5, 6), OPTIMIZERS[name])
    assert_close(weights_after(*args, trace(symbolic=True)), weights_after(*args, lambda f: f))


# ---- what surrounds a step -----------------------------------------------------------------------


class Trainer:
    """Schedules, clipping, accumulation and averages, as programs write them."""

    def __init__(self, traced: bool) -> None:
        mge.random.seed(4)
        self.net = M.Sequential(
            M.Linear(6, 12), M.BatchNorm1d(12), M.ReLU(), M.Dropout(0.3), M.Linear(12, 3)
        )
        self.average = {k: T(v) for k, v in self.net.state_dict().items()}
        self.opt = optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.schedule = optim.MultiStepLR(self.opt, [5, 9])
        self.gm = GradManager().attach(self.net.parameters())
        self.run = trace(self.step, symbolic=True) if traced else self.step
        self.norms: list[float] = []

    def step(self, x: mge.Tensor, y: mge.Tensor, last: bool) -> dict[str, mge.Tensor]:
        with self.gm:
            logits = self.net(x)
            loss = F.loss.cross_entropy(logits, y)
            self.gm.backward(loss / 2)  # two batches for each step
        if last:
            self.norms.append(float(optim.clip_grad_norm(self.net.parameters(), 0.5)))
            optim.clip_grad_value(self.net.parameters(), -0.2, 0.2)
            self.opt.step().clear_grad()
            for k, v in self.net.state_dict(keep_var=True).items():
                self.average[k]._reset(self.average[k] * 0.9 + v.detach() * 0.1)
        return {"loss": loss, "right": F.sum(F.argmax(logits, axis=1) == y)}

    def fit(self) -> list[Any]:
        rng = np.random.default_rng(8)
        out: list[Any] = []
        for i in range(24):
            x = T(rng.standard_normal((9, 6)).astype("float32"))
            seen = self.run(x, T(rng.integers(0, 3, 9).astype("int32")), i % 2 == 1)
            out.append({k: v.item() for k, v in seen.items()})
            if i % 2 == 1:
                self.schedule.step()
        out += [self.norms, self.opt.param_groups[0]["lr"]]
        out += [v.numpy().tolist() for v in self.average.values()]
        return out + [v.tolist() for v in self.net.state_dict().values()]


def flat(value: Any) -> list[float]:
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [y for v in value for y in flat(v)] if isinstance(value, list) else [float(value)]


def test_schedules_clipping_accumulation_and_averages() -> None:
    """Masks of dropout and running statistics too."""
    got, want = flat(Trainer(traced=True).fit()), flat(Trainer(traced=False).fit())
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_training_and_evaluation_take_turns() -> None:
    def run(traced: bool) -> list[Any]:
        mge.random.seed(4)
        net = M.Sequential(M.Linear(6, 12), M.BatchNorm1d(12), M.Dropout(0.5), M.Linear(12, 2))
        forward = trace(net, symbolic=True) if traced else net
        rng = np.random.default_rng(8)
        out = []
        for i in range(12):
            net.train(i % 3 != 2)
            out.append(forward(T(rng.standard_normal((5, 6)).astype("float32"))).numpy().tolist())
        return flat(out) + flat([v.tolist() for v in net.state_dict().values()])

    np.testing.assert_allclose(run(True), run(False), rtol=1e-5, atol=1e-6)
