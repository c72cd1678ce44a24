"""Single ops at sizes that take milliseconds, through NumPy."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.numpy_peer import normal, rng


@workload
def add_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: x + x)


@workload
def exp_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: np.exp(x))


@workload
def sum_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: x.sum())


@workload
def sum_columns() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: x.sum(0))


@workload
def sort_rows() -> Work:
    x = normal(1024, 4096)
    return Work(lambda: (np.sort(x), np.argsort(x)))


@workload
def transpose_copy() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: np.ascontiguousarray(x.T))


@workload
def embedding() -> Work:
    table, rows = normal(50000, 256), rng.integers(0, 50000, 65536)
    return Work(lambda: table[rows])


@workload
def matmul_64() -> Work:
    a, b = normal(64, 64), normal(64, 64)
    return repeat(lambda: a @ b, 1000)


@workload
def matmul_1024() -> Work:
    a, b = normal(1024, 1024), normal(1024, 1024)
    return Work(lambda: a @ b)
