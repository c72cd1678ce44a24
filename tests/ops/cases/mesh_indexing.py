"""Reading and writing at every combination of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from megengine._core import apply
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

FLAGS = {"slice": (True, True, False, False), "index": (False, False, False, True)}


def items(**axes: str) -> list[tuple[int, bool, bool, bool, bool]]:
    return [(int(name[1:]), *FLAGS[kind]) for name, kind in axes.items()]


def fn(name: str, what: list[Any]) -> Callable[..., Any]:
    op = getattr(builtin, name)(items=what)
    return lambda *inputs: apply(op, *inputs)[0]


def read_ref(x: Array, i: Array, j: Array) -> Array:
    return x[i][:, :, j]


def set_ref(x: Array, v: Array, i: Array, j: Array) -> Array:
    out = x.copy()
    out[np.ix_(i, np.arange(x.shape[1]), j)] = v
    return out


def incr_ref(x: Array, v: Array, i: Array, j: Array) -> Array:
    out = x.copy()
    np.add.at(out, np.ix_(i, np.arange(x.shape[1]), j), v)
    return out


def batch_read_ref(x: Array, i: Array, j: Array) -> Array:
    out = np.zeros((len(x), i.shape[1], x.shape[2], j.shape[1]))
    for b in range(len(x)):
        out[b] = x[b][i[b]][:, :, j[b]]
    return out


def batch_set_ref(x: Array, v: Array, i: Array, j: Array) -> Array:
    return np.stack([set_ref(*parts) for parts in zip(x, v, i, j, strict=True)])


def batch_incr_ref(x: Array, v: Array, i: Array, j: Array) -> Array:
    return np.stack([incr_ref(*parts) for parts in zip(x, v, i, j, strict=True)])


def read(rng: np.random.Generator) -> list[Array]:
    return [rng.standard_normal((4, 3, 5)), rng.integers(-4, 4, 6), rng.integers(-5, 5, 3)]


def write(rng: np.random.Generator, repeat: bool = True) -> list[Array]:
    i, j = rng.permutation(4)[:2], rng.permutation(5)[:3]
    if repeat:
        i, j = rng.integers(0, 4, 2), rng.integers(-5, 5, 3)
    return [rng.standard_normal((4, 3, 5)), rng.standard_normal((2, 3, 3)), i, j]


def batch_read(rng: np.random.Generator) -> list[Array]:
    i, j = rng.integers(-4, 4, (2, 6)), rng.integers(-5, 5, (2, 3))
    return [rng.standard_normal((2, 4, 3, 5)), i, j]


def batch_write(rng: np.random.Generator) -> list[Array]:
    parts = [write(rng, repeat=False) for _ in range(2)]
    return [np.stack(a) for a in zip(*parts, strict=True)]


TWO = items(a0="index", a2="index")
BATCH = items(a1="index", a3="index")

RECORDS = [
    Record("MeshIndexing", fn("MeshIndexing", TWO), read_ref, read, ("MeshItems",), empty=False),
    Record(
        "MeshIndexing-slice",
        lambda x, i: apply(
            builtin.MeshIndexing(items=items(a0="slice", a1="index")), x, *bounds(1, 3), i
        )[0],
        lambda x, i: x[1:3][:, i],
        lambda rng: [rng.standard_normal((4, 3, 5)), rng.integers(-3, 3, 4)],
        ("MeshItems",),
        empty=False,
    ),
    Record(
        "SetMeshIndexing",
        fn("SetMeshIndexing", TWO),
        set_ref,
        lambda rng: write(rng, repeat=False),
        ("MeshItems",),
        empty=False,
    ),
    Record(
        "IncrMeshIndexing",
        fn("IncrMeshIndexing", TWO),
        incr_ref,
        write,
        ("MeshItems",),
        empty=False,
    ),
    Record(
        "BatchedMeshIndexing",
        fn("BatchedMeshIndexing", BATCH),
        batch_read_ref,
        batch_read,
        ("MeshItems",),
    ),
    Record(
        "BatchedSetMeshIndexing",
        fn("BatchedSetMeshIndexing", BATCH),
        batch_set_ref,
        batch_write,
        ("MeshItems",),
        empty=False,
    ),
    Record(
        "BatchedIncrMeshIndexing",
        fn("BatchedIncrMeshIndexing", BATCH),
        batch_incr_ref,
        batch_write,
        ("MeshItems",),
        empty=False,
    ),
]


def bounds(*numbers: int) -> list[Any]:
    from megengine import tensor

    return [tensor(n) for n in numbers]
