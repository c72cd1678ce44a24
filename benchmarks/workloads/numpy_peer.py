"""The workloads that NumPy has, through NumPy: a peer that is always installed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.workloads import Maker, Work

WORKLOADS: dict[str, Maker] = {}
rng = np.random.default_rng(0)
Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def workload(maker: Maker) -> Maker:
    """Registers a workload under the name of its function."""
    WORKLOADS[maker.__name__] = maker
    return maker


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def repeat(f: Callable[[], object], calls: int) -> Work:
    def step() -> None:
        for _ in range(calls):
            f()

    return Work(step, calls)


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
