"""Whole training steps: forward, backward and the optimizer, through OpenMGE."""

from __future__ import annotations

import itertools

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import integers, normal
from megengine.autodiff import GradManager


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
