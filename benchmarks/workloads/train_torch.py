"""Whole training steps: forward, backward and the optimizer, through PyTorch."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, torch_peer, workload
from benchmarks.workloads.torch_peer import images, workload_of_images


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


@workload_of_images
def resnet18() -> Work:
    net = ResNet18().to(memory_format=torch_peer.memory_format)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return training(net, images(16, 3, 224, 224), torch.randint(0, 1000, (16,)), sgd)


@workload
def adam_25m() -> Work:
    params = [torch.randn(1000, 500, requires_grad=True) for _ in range(50)]
    optimizer = torch.optim.Adam(params, lr=1e-3)
    for p in params:
        p.grad = torch.randn(1000, 500)
    return Work(optimizer.step)
