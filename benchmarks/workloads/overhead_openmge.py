"""The cost of a call, not of its arithmetic, through OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import normal
from megengine.autodiff import GradManager


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
