"""Whole training steps: forward, backward and the optimizer, through PyTorch."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from benchmarks.workloads import Work, workload
from benchmarks.workloads.torch_peer import training


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


@workload
def adam_25m() -> Work:
    params = [torch.randn(1000, 500, requires_grad=True) for _ in range(50)]
    optimizer = torch.optim.Adam(params, lr=1e-3)
    for p in params:
        p.grad = torch.randn(1000, 500)
    return Work(optimizer.step)
