"""Whole training steps: forward, backward and the optimizer, through OpenMGE."""

from __future__ import annotations

import itertools

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import integers, normal, training


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


@workload
def adam_25m() -> Work:
    params = [mge.Parameter(normal(1000, 500)) for _ in range(50)]
    optimizer = optim.Adam(params, lr=1e-3)
    for p in params:
        p.grad = normal(1000, 500)
    return Work(optimizer.step)
