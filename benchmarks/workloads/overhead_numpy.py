"""The cost of a call, not of its arithmetic, through NumPy."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.numpy_peer import normal


@workload
def add_10() -> Work:
    a, b = normal(10), normal(10)
    return repeat(lambda: a + b, 10000)


@workload
def chain_32() -> Work:
    a, w = normal(32, 32), normal(32, 32)
    return repeat(lambda: (np.maximum(a @ w, 0) * 2 + 1).reshape(-1, 16).sum(1), 1000)


@workload
def reshape() -> Work:
    a = normal(4, 4)
    return repeat(lambda: a.reshape(2, 8), 10000)


@workload
def getitem() -> Work:
    a = normal(8, 8)
    return repeat(lambda: a[1:3, 2], 10000)
