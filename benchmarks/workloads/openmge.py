"""What the workloads through OpenMGE share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work
from megengine.autodiff import GradManager

rng = np.random.default_rng(0)


def normal(*shape: int) -> mge.Tensor:
    """Standard normal numbers."""
    return mge.random.normal(size=shape)


def features(n: int, channels: int, height: int, width: int) -> mge.Tensor:
    """Standard normal numbers, channels-last: as convolutions leave them."""
    return normal(n, height, width, channels).transpose(0, 3, 1, 2)


def integers(high: int, *shape: int) -> mge.Tensor:
    """Integers from 0 to high - 1, int32."""
    return mge.tensor(rng.integers(0, high, shape).astype(np.int32))


def training(net: M.Module, x: mge.Tensor, labels: mge.Tensor, optimizer: optim.Optimizer) -> Work:
    """Forward, backward and a step of the optimizer."""
    gm = GradManager().attach(net.parameters())

    def step() -> None:
        with gm:
            loss = F.loss.cross_entropy(net(x), labels)
            gm.backward(loss)
        optimizer.step().clear_grad()

    return Work(step)


def backward(f: Callable[[], mge.Tensor], wrt: list[mge.Tensor]) -> Work:
    """Work that runs f and takes the gradients of its sum."""
    gm = GradManager().attach(wrt)

    def step() -> None:
        with gm:
            gm.backward(f().sum())
        for t in wrt:
            t.grad = None

    return Work(step)
