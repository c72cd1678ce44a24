"""The same workloads through PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Maker, Work

WORKLOADS: dict[str, Maker] = {}
memory_format = torch.contiguous_format
torch.manual_seed(0)


def use_channels_last() -> None:
    """Makes the networks and images that follow channels-last."""
    global memory_format
    memory_format = torch.channels_last


def workload(maker: Maker) -> Maker:
    """Registers a workload under the name of its function."""
    WORKLOADS[maker.__name__] = maker
    return maker


def images(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).contiguous(memory_format=memory_format)


def repeat(f: Callable[[], object], calls: int) -> Work:
    def step() -> None:
        for _ in range(calls):
            f()

    return Work(step, calls)


def forward(f: Callable[[], object]) -> Work:
    """Work that records no gradients."""

    def step() -> None:
        with torch.no_grad():
            f()

    return Work(step)


@workload
def add_10() -> Work:
    a, b = torch.randn(10), torch.randn(10)
    return repeat(lambda: a + b, 10000)


@workload
def chain_32() -> Work:
    a, w = torch.randn(32, 32), torch.randn(32, 32)
    return repeat(lambda: (F.relu(torch.matmul(a, w)) * 2 + 1).reshape(-1, 16).sum(1), 1000)


@workload
def reshape() -> Work:
    a = torch.randn(4, 4)
    return repeat(lambda: a.reshape(2, 8), 10000)


@workload
def getitem() -> Work:
    a = torch.randn(8, 8)
    return repeat(lambda: a[1:3, 2], 10000)


@workload
def backward_10() -> Work:
    a = torch.randn(10, requires_grad=True)

    def f() -> None:
        (a * a).sum().backward()
        a.grad = None

    return repeat(f, 1000)


@workload
def add_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: x + x)


@workload
def exp_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: torch.exp(x))


@workload
def sum_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: torch.sum(x))


@workload
def sum_columns() -> Work:
    x = torch.randn(4096, 4096)
    return forward(lambda: x.sum(0))


@workload
def softmax_rows() -> Work:
    x = torch.randn(8192, 1024)
    return forward(lambda: F.softmax(x, -1))


@workload
def layer_norm_rows() -> Work:
    x, norm = torch.randn(8192, 1024), nn.LayerNorm(1024)
    return forward(lambda: norm(x))


@workload
def sort_rows() -> Work:
    x = torch.randn(1024, 4096)
    return forward(lambda: torch.sort(x))


@workload
def topk_rows() -> Work:
    x = torch.randn(1024, 10000)
    return forward(lambda: torch.topk(x, 10))


@workload
def transpose_copy() -> Work:
    x = torch.randn(4096, 4096)
    return forward(lambda: x.t().contiguous())


@workload
def embedding() -> Work:
    table, rows = torch.randn(50000, 256), torch.randint(0, 50000, (65536,))
    return forward(lambda: F.embedding(rows, table))


@workload
def matmul_64() -> Work:
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    return repeat(lambda: a @ b, 1000)


@workload
def matmul_1024() -> Work:
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return Work(lambda: a @ b)


@workload
def conv3x3() -> Work:
    x, conv = images(16, 64, 56, 56), nn.Conv2d(64, 64, 3, padding=1)
    conv = conv.to(memory_format=memory_format)
    return forward(lambda: conv(x))


@workload
def max_pool() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.max_pool2d(x, 3, 2, 1))


@workload
def batch_norm() -> Work:
    x, norm = images(16, 64, 56, 56), nn.BatchNorm2d(64)
    return forward(lambda: norm(x))


def training(
    net: nn.Module, x: torch.Tensor, labels: torch.Tensor, optimizer: torch.optim.Optimizer
) -> Work:
    """Forward, backward and a step of the optimizer."""

    def step() -> None:
        F.cross_entropy(net(x), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return Work(step)


def perceptron(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@workload
def mlp_small() -> Work:
    net = perceptron(16, 64, 64, 4)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, torch.randn(8, 16), torch.randint(0, 4, (8,)), sgd)


@workload
def mlp() -> Work:
    net = perceptron(784, 1024, 1024, 10)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    return training(net, torch.randn(128, 784), torch.randint(0, 10, (128,)), adam)


@workload
def lenet() -> Work:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)), sgd)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al., 2015)."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for 224x224 images and 1000 classes (He et al., 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(64)
        blocks: list[nn.Module] = []
        n_in = 64
        for n_out, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            blocks += [BasicBlock(n_in, n_out, stride), BasicBlock(n_out, n_out, 1)]
            n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (N, 1000)."""
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


@workload
def resnet18() -> Work:
    net = ResNet18().to(memory_format=memory_format)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, images(16, 3, 224, 224), torch.randint(0, 1000, (16,)), sgd)


@workload
def adam_25m() -> Work:
    params = [torch.randn(1000, 500, requires_grad=True) for _ in range(50)]
    optimizer = torch.optim.Adam(params, lr=1e-3)
    for p in params:
        p.grad = torch.randn(1000, 500)
    return Work(optimizer.step)
