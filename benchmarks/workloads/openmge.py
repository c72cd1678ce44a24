"""The workloads through OpenMGE."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Maker, Work
from megengine.autodiff import GradManager

WORKLOADS: dict[str, Maker] = {}
rng = np.random.default_rng(0)


def workload(maker: Maker) -> Maker:
    """Registers a workload under the name of its function."""
    WORKLOADS[maker.__name__] = maker
    return maker


def normal(*shape: int) -> mge.Tensor:
    return mge.random.normal(size=shape)


def integers(high: int, *shape: int) -> mge.Tensor:
    return mge.tensor(rng.integers(0, high, shape).astype(np.int32))


def repeat(f: Callable[[], object], calls: int) -> Work:
    """`calls` calls of f in one step, for what takes microseconds."""

    def step() -> None:
        for _ in range(calls):
            f()

    return Work(step, calls)


# ---- overhead: the cost of a call, not of its arithmetic --------------------------------------


@workload
def add_10() -> Work:
    a, b = normal(10), normal(10)
    return repeat(lambda: a + b, 10000)


@workload
def chain_32() -> Work:
    a, w = normal(32, 32), normal(32, 32)
    return repeat(lambda: (F.relu(F.matmul(a, w)) * 2 + 1).reshape(-1, 16).sum(1), 1000)


@workload
def reshape() -> Work:
    a = normal(4, 4)
    return repeat(lambda: a.reshape(2, 8), 10000)


@workload
def getitem() -> Work:
    a = normal(8, 8)
    return repeat(lambda: a[1:3, 2], 10000)


@workload
def backward_10() -> Work:
    a = mge.Parameter(normal(10))
    gm = GradManager().attach([a])

    def f() -> None:
        with gm:
            gm.backward((a * a).sum())
        a.grad = None

    return repeat(f, 1000)


# ---- ops ---------------------------------------------------------------------------------------


@workload
def add_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: x + x)


@workload
def exp_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.exp(x))


@workload
def sum_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.sum(x))


@workload
def sum_columns() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: F.sum(x, 0))


@workload
def softmax_rows() -> Work:
    x = normal(8192, 1024)
    return Work(lambda: F.softmax(x, axis=-1))


@workload
def layer_norm_rows() -> Work:
    x, norm = normal(8192, 1024), M.LayerNorm(1024)
    return Work(lambda: norm(x))


@workload
def sort_rows() -> Work:
    x = normal(1024, 4096)
    return Work(lambda: F.sort(x))


@workload
def topk_rows() -> Work:
    x = normal(1024, 10000)
    return Work(lambda: F.topk(x, 10, descending=True))


@workload
def transpose_copy() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: F.transpose(x, (1, 0)) + 0)


@workload
def embedding() -> Work:
    table, rows = normal(50000, 256), integers(50000, 65536)
    return Work(lambda: F.embedding(rows, table))


@workload
def matmul_64() -> Work:
    a, b = normal(64, 64), normal(64, 64)
    return repeat(lambda: F.matmul(a, b), 1000)


@workload
def matmul_1024() -> Work:
    a, b = normal(1024, 1024), normal(1024, 1024)
    return Work(lambda: F.matmul(a, b))


@workload
def conv3x3() -> Work:
    x, conv = normal(16, 64, 56, 56), M.Conv2d(64, 64, 3, padding=1)
    return Work(lambda: conv(x))


@workload
def max_pool() -> Work:
    x = normal(16, 64, 112, 112)
    return Work(lambda: F.max_pool2d(x, 3, 2, 1))


@workload
def batch_norm() -> Work:
    x, norm = normal(16, 64, 56, 56), M.BatchNorm2d(64)
    return Work(lambda: norm(x))


# ---- training steps ----------------------------------------------------------------------------


def training(net: M.Module, x: mge.Tensor, labels: mge.Tensor, optimizer: optim.Optimizer) -> Work:
    """Forward, backward and a step of the optimizer."""
    gm = GradManager().attach(net.parameters())

    def step() -> None:
        with gm:
            loss = F.loss.cross_entropy(net(x), labels)
            gm.backward(loss)
        optimizer.step().clear_grad()

    return Work(step)


def perceptron(*sizes: int) -> M.Module:
    """Linear layers with ReLU between them."""
    layers: list[M.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        layers += [M.Linear(n_in, n_out), M.ReLU()]
    return M.Sequential(*layers[:-1])


@workload
def mlp_small() -> Work:
    net = perceptron(16, 64, 64, 4)
    sgd = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, normal(8, 16), integers(4, 8), sgd)


@workload
def mlp() -> Work:
    net = perceptron(784, 1024, 1024, 10)
    return training(net, normal(128, 784), integers(10, 128), optim.Adam(net.parameters(), lr=1e-3))


class Flatten(M.Module):
    """(N, C, H, W) to (N, C*H*W)."""

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """Flattens all but the first axis."""
        return F.flatten(x, 1)


@workload
def lenet() -> Work:
    net = M.Sequential(
        M.Conv2d(1, 6, 5), M.ReLU(), M.MaxPool2d(2),
        M.Conv2d(6, 16, 5), M.ReLU(), M.MaxPool2d(2), Flatten(),
        M.Linear(256, 120), M.ReLU(), M.Linear(120, 84), M.ReLU(), M.Linear(84, 10),
    )  # fmt: skip
    sgd = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, normal(64, 1, 28, 28), integers(10, 64), sgd)


class BasicBlock(M.Module):
    """Two 3x3 convolutions and a shortcut (He et al., 2015)."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = M.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = M.BatchNorm2d(n_out)
        self.conv2 = M.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = M.BatchNorm2d(n_out)
        self.shortcut: M.Module = M.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = M.Sequential(
                M.Conv2d(n_in, n_out, 1, stride, bias=False), M.BatchNorm2d(n_out)
            )

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """The block's output, (N, n_out, H/stride, W/stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(M.Module):
    """ResNet-18 for 224x224 images and 1000 classes (He et al., 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = M.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = M.BatchNorm2d(64)
        blocks: list[M.Module] = []
        n_in = 64
        for n_out, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            blocks += [BasicBlock(n_in, n_out, stride), BasicBlock(n_out, n_out, 1)]
            n_in = n_out
        self.blocks = M.Sequential(*blocks)
        self.fc = M.Linear(512, 1000)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """Logits, (N, 1000)."""
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(F.mean(self.blocks(x), (2, 3)))


@workload
def resnet18() -> Work:
    net = ResNet18()
    sgd = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, normal(16, 3, 224, 224), integers(1000, 16), sgd)


@workload
def adam_25m() -> Work:
    params = [mge.Parameter(normal(1000, 500)) for _ in range(50)]
    optimizer = optim.Adam(params, lr=1e-3)
    for p in params:
        p.grad = normal(1000, 500)
    return Work(optimizer.step)
