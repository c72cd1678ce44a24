"""Shapes, joins, indexing and assignment, gather and scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import FLOATS, INTS, Array, Record

ALL = (*FLOATS, *INTS)
SIGNED = (*FLOATS, "int8", "int16", "int32", "int64")  # sums of the inputs fit these

COVERED_ELSEWHERE = dict.fromkeys(
    ("Fill", "FillLike", "Linspace", "Arange", "Eye"), "ops/test_creation.py"
) | {"NonZero": "ops/test_indexing.py"}


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sequence[Array]]:
    """A generator of float inputs of these shapes."""
    return lambda rng: [rng.standard_normal(shape) * 3 for shape in shapes]


def indexed(
    *shapes: tuple[int, ...], index: tuple[tuple[int, ...], int], more: int = 1
) -> Callable[[np.random.Generator], Sequence[Array]]:
    """Float inputs, and `more` index arrays of a shape with positions in [-n, n)."""
    shape, n = index

    def make(rng: np.random.Generator) -> list[Array]:
        data = [rng.standard_normal(s) * 3 for s in shapes]
        return data + [rng.integers(-n, n, shape) for _ in range(more)]

    return make


def put(x: mge.Tensor, key: Any, value: Any) -> mge.Tensor:
    """A copy of x with x[key] = value."""
    out = F.copy(x)
    out[key] = value
    return out


def put_ref(x: Array, key: Any, value: Any) -> Array:
    out = x.copy()
    out[key] = value
    return out


def one(op: Any, *inputs: mge.Tensor) -> mge.Tensor:
    return apply(op, *inputs)[0]


def along(index: Array, axis: int) -> tuple[Array, ...]:
    """What addresses x at `index` along an axis."""
    key = list(np.indices(index.shape))
    key[axis] = index
    return tuple(key)


def scatter(x: mge.Tensor, axis: int, index: mge.Tensor, v: mge.Tensor) -> mge.Tensor:
    return F.scatter(F.copy(x), axis, index, v)


def add_at_ref(x: Array, key: Any, v: Array) -> Array:
    out = x.copy()
    np.add.at(out, key, v)
    return out


SLICE = np.s_[1:, ::-2, -3:3]


def basic_op(name: str) -> Any:
    """The op of that name with the indices of SLICE."""
    none = -(2**63)
    return getattr(builtin, name)(
        axis=(0, 1, 2), start=(1, none, -3), stop=(none, none, 3), step=(1, -2, 1)
    )


SHAPES = [
    Record(
        "reshape",
        fn=lambda x: F.reshape(x, (4, -1)),
        ref=lambda x: x.reshape(4, -1),
        inputs=normal((2, 3, 4)),
        dtypes=ALL,
        empty=False,
        ops=("Reshape",),
    ),
    Record(
        "flatten",
        fn=lambda x: F.flatten(x, 1),
        ref=lambda x: x.reshape(x.shape[0], -1) if x.size else x.reshape(0, 12),
        inputs=normal((2, 3, 2, 2)),
        ops=("Reshape",),
    ),
    Record(
        "transpose",
        fn=lambda x: F.transpose(x, (2, "x", 0, 1)),
        ref=lambda x: x.transpose(2, 0, 1)[:, None],
        inputs=normal((2, 3, 4)),
        dtypes=ALL,
        ops=("Dimshuffle",),
    ),
    Record(
        "broadcast_to",
        fn=lambda x: F.broadcast_to(x, (2, 3, 5, 4)),
        ref=lambda x: np.broadcast_to(x, (2, 3, 5, 4)),
        inputs=normal((3, 1, 4)),
        dtypes=ALL,
        empty=False,
        ops=("Broadcast",),
    ),
    Record(
        "expand_dims",
        fn=lambda x: F.expand_dims(x, (0, -1)),
        ref=lambda x: x[None, ..., None],
        inputs=normal((2, 3)),
        scalar=True,
        ops=("AddAxis",),
    ),
    Record(
        "squeeze",
        fn=lambda x: F.squeeze(x, -2),
        ref=lambda x: x[..., 0, :],
        inputs=normal((3, 1, 2)),
        ops=("RemoveAxis",),
    ),
    Record("copy", fn=F.copy, ref=np.copy, inputs=normal((2, 3)), scalar=True, ops=("Copy",)),
    Record(
        "identity",
        fn=lambda x: one(builtin.Identity(), x),
        ref=np.copy,
        inputs=normal((2, 3)),
        scalar=True,
        ops=("Identity",),
    ),
    Record(
        "contiguous",
        fn=lambda x: one(builtin.Contiguous(), x),
        ref=np.copy,
        inputs=normal((2, 3, 2, 4)),
        scalar=True,
        ops=("Contiguous",),
    ),
    Record(
        "concat",
        fn=lambda *x: F.concat(x, axis=1),
        ref=lambda *x: np.concatenate(x, axis=1),
        inputs=normal((2, 3, 2, 2), (2, 1, 2, 2), (2, 4, 2, 2)),
        dtypes=ALL,
        ops=("Concat", "Split"),
        large=normal((8, 64, 32, 8), (8, 32, 32, 8)),
    ),
    Record(
        "concat-last",
        fn=lambda *x: F.concat(x, axis=-1),
        ref=lambda *x: np.concatenate(x, axis=-1),
        inputs=normal((3, 2), (3, 1)),
        ops=("Concat", "Split"),
        large=normal((5000, 30), (5000, 100), (5000, 1)),
    ),
    Record(
        "stack",
        fn=lambda *x: F.stack(x, axis=1),
        ref=lambda *x: np.stack(x, axis=1),
        inputs=normal((2, 3), (2, 3), (2, 3)),
        dtypes=ALL,
        scalar=False,
        ops=("Stack", "Split"),
    ),
    Record(
        "split",
        fn=lambda x: tuple(F.split(x, [1, 3], axis=-1)),
        ref=lambda x: tuple(np.split(x, [1, 3], axis=-1)),
        inputs=normal((2, 3, 6)),
        ops=("Split", "Concat"),
    ),
    Record(
        "split-many",
        fn=lambda x: tuple(F.split(x, 13)),
        ref=lambda x: tuple(np.array_split(x, 13)),
        inputs=normal((20, 2)),
        ops=("Split", "Concat"),
    ),
    Record(
        "repeat",
        fn=lambda x: F.repeat(x, 3, axis=1),
        ref=lambda x: np.repeat(x, 3, axis=1),
        inputs=normal((2, 3, 2)),
    ),
    Record(
        "repeat-counts",
        fn=lambda x: F.repeat(x, [2, 0, 1], axis=-1),
        ref=lambda x: np.repeat(x, [2, 0, 1], axis=-1),
        inputs=normal((2, 3)),
    ),
    Record(
        "tile",
        fn=lambda x: F.tile(x, (2, 1, 3)),
        ref=lambda x: np.tile(x, (2, 1, 3)),
        inputs=normal((2, 3)),
    ),
    Record(
        "roll",
        fn=lambda x: F.roll(x, (1, -5), (0, 2)),
        ref=lambda x: np.roll(x, (1, -5), (0, 2)),
        inputs=normal((2, 3, 4)),
    ),
    Record(
        "roll-flat",
        fn=lambda x: F.roll(x, 4),
        ref=lambda x: np.roll(x, 4),
        inputs=normal((2, 3)),
        scalar=True,
    ),
    Record(
        "swapaxes",
        fn=lambda x: F.swapaxes(x, 0, -1),
        ref=lambda x: np.swapaxes(x, 0, -1),
        inputs=normal((2, 3, 4)),
    ),
    Record("diag", fn=F.diag, ref=np.diag, inputs=normal((3, 4)), empty=False, ops=("Diag",)),
    Record(
        "diag-of-vector",
        fn=lambda x: F.diag(x, -2),
        ref=lambda x: np.diag(x, -2),
        inputs=normal((3,)),
        empty=False,
    ),
    Record(
        "meshgrid",
        fn=lambda x, y, z: tuple(F.meshgrid(x, y, z)),
        ref=lambda x, y, z: tuple(np.meshgrid(x, y, z)),
        inputs=normal((2,), (3,), (4,)),
        empty=False,
    ),
]

BASIC = [
    Record(
        "getitem-basic",
        fn=lambda x: x[SLICE],
        ref=lambda x: x[SLICE],
        inputs=normal((3, 4, 5)),
        dtypes=ALL,
        ops=("Subtensor", "SetSubtensor"),
    ),
    Record(
        "getitem-ints",
        fn=lambda x: x[..., -1, None, ::-1],
        ref=lambda x: x[..., -1, None, ::-1],
        inputs=normal((2, 3, 4)),
        ops=("Subtensor",),
    ),
    Record(
        "flip",
        fn=lambda x: x[:, ::-1],
        ref=lambda x: x[:, ::-1],
        inputs=normal((2, 3, 2, 2)),
        ops=("Subtensor",),
    ),
    Record(
        "setitem-basic",
        fn=lambda x, v: put(x, SLICE, v),
        ref=lambda x, v: put_ref(x, SLICE, v),
        inputs=normal((3, 4, 5), (2, 1, 1)),
        dtypes=ALL,
        empty=False,
        ops=("SetSubtensor",),
    ),
    Record(
        "setitem-all",
        fn=lambda x, v: put(x, ..., v),
        ref=lambda x, v: put_ref(x, ..., v),
        inputs=normal((3, 4), (4,)),
        empty=False,
        ops=("SetSubtensor",),
    ),
    Record(
        "incr-basic",
        fn=lambda x, v: one(basic_op("IncrSubtensor"), x, v),
        ref=lambda x, v: put_ref(x, SLICE, x[SLICE] + v),
        inputs=normal((3, 4, 5), (2, 1)),
        empty=False,
        ops=("IncrSubtensor",),
    ),
]

ADVANCED = [
    Record(
        "getitem-rows",
        fn=lambda x, i: x[i],
        ref=lambda x, i: x[i],
        inputs=indexed((4, 3), index=((2, 5), 4)),
        dtypes=ALL,
        empty=lambda: [[np.ones((4, 0)), np.array([1, 2])], [np.ones((4, 2)), np.zeros(0, int)]],
        ops=("IndexingMultiAxisVec", "IndexingIncrMultiAxisVec"),
        large=indexed((300, 64), index=((9000,), 300)),
    ),
    Record(
        "getitem-columns",
        fn=lambda x, i: x[:, i],
        ref=lambda x, i: x[:, i],
        inputs=indexed((3, 4, 2, 2), index=((5,), 4)),
        ops=("IndexingMultiAxisVec", "IndexingIncrMultiAxisVec"),
        empty=False,
        large=indexed((64, 300), index=((3000,), 300)),
    ),
    Record(
        "getitem-arrays",
        fn=lambda x, i, j: x[i, 1:, F.expand_dims(j, 1)],
        ref=lambda x, i, j: x[i, 1:, j[:, None]],
        inputs=indexed((4, 3, 4), index=((5,), 4), more=2),
        empty=False,
        ops=("IndexingMultiAxisVec", "IndexingIncrMultiAxisVec"),
    ),
    Record(
        "getitem-mask",
        fn=lambda x, m: x[m],
        ref=lambda x, m: x[m],
        inputs=lambda rng: [rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.5],
        dtypes=ALL,
        ops=("CondTake",),
        large=lambda rng: [rng.standard_normal((300, 400)), rng.random((300, 400)) < 0.5],
    ),
    Record(
        "getitem-mask-axis",
        fn=lambda x, m: x[:, m],
        ref=lambda x, m: x[:, m],
        inputs=lambda rng: [rng.standard_normal((3, 4, 2)), np.array([True, False, True, True])],
        empty=False,
        ops=("IndexingMultiAxisVec",),
    ),
    Record(
        "cond_take",
        fn=lambda m, x: F.cond_take(m, x)[0],
        ref=lambda m, x: x[m],
        inputs=lambda rng: [rng.random((3, 4)) < 0.5, rng.standard_normal((3, 4))],
        scalar=True,
        ops=("CondTake",),
    ),
    Record(
        "setitem-rows",
        fn=lambda x, v, i: put(x, i, v),
        ref=lambda x, v, i: put_ref(x, i, v),
        inputs=indexed((4, 3), (7, 3), index=((7,), 4)),
        dtypes=ALL,
        empty=False,
        ops=("IndexingSetMultiAxisVec", "IndexingMultiAxisVec"),
        large=indexed((300, 64), (9000, 64), index=((9000,), 300)),
    ),
    Record(
        "setitem-arrays",
        fn=lambda x, v, i, j: put(x, (i, slice(None, None, -2), j), v),
        ref=lambda x, v, i, j: put_ref(x, (i, slice(None, None, -2), j), v),
        inputs=indexed((4, 3, 4), (6, 1), index=((6,), 4), more=2),
        empty=False,
        ops=("IndexingSetMultiAxisVec",),
    ),
    Record(
        "setitem-mask",
        fn=lambda x, m: put(x, m, F.sum(x) * 2),
        ref=lambda x, m: put_ref(x, m, x.sum() * 2),
        inputs=lambda rng: [rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.5],
        dtypes=("float32", "float64"),
        tol={"float32": (1e-5, 1e-5)},
        ops=("Elemwise",),
    ),
    Record(
        "incr-arrays",
        fn=lambda x, v, i: one(builtin.IndexingIncrMultiAxisVec(vec_axis=(1,), at=1), x, v, i),
        ref=lambda x, v, i: add_at_ref(x, (slice(None), i), v),
        inputs=indexed((2, 4, 3), (2, 7, 3), index=((7,), 4)),
        dtypes=SIGNED,
        empty=False,
        ops=("IndexingIncrMultiAxisVec", "IndexingMultiAxisVec"),
        large=indexed((2, 50, 300), (2, 700, 300), index=((700,), 50)),
    ),
    Record(
        "gather",
        fn=lambda x, i: F.gather(x, 1, i),
        ref=lambda x, i: np.take_along_axis(x, i, 1),
        inputs=indexed((3, 4, 2), index=((3, 5, 2), 4)),
        dtypes=ALL,
        empty=False,
        ops=("Gather", "ScatterAdd"),
        large=indexed((30, 40, 50), index=((30, 60, 50), 40)),
    ),
    Record(
        "gather-fewer",
        fn=lambda x, i: F.gather(x, -1, i),
        ref=lambda x, i: np.take_along_axis(x[:2], i, -1),
        inputs=indexed((3, 4), index=((2, 5), 4)),
        empty=False,
        ops=("Gather", "ScatterAdd"),
        layouts=False,
    ),
    Record(
        "scatter",
        fn=lambda x, v, i: scatter(x, 0, i, v),
        ref=lambda x, v, i: put_ref(x, along(i, 0), v),
        inputs=indexed((4, 3), (6, 3), index=((6, 3), 4)),
        dtypes=ALL,
        empty=False,
        ops=("Scatter", "Gather"),
        large=indexed((40, 300), (600, 300), index=((600, 300), 40)),
    ),
    Record(
        "scatter_add",
        fn=lambda x, v, i: one(builtin.ScatterAdd(axis=1), x, i, v),
        ref=lambda x, v, i: add_at_ref(x, along(i, 1), v),
        inputs=indexed((3, 4), (3, 6), index=((3, 6), 4)),
        dtypes=SIGNED,
        empty=False,
        ops=("ScatterAdd", "Gather"),
        large=indexed((300, 40), (300, 600), index=((300, 600), 40)),
    ),
    Record(
        "indexing_one_hot",
        fn=lambda x, i: F.indexing_one_hot(x, i, axis=1),
        ref=lambda x, i: np.take_along_axis(x, i[:, None], 1)[:, 0],
        inputs=lambda rng: [rng.standard_normal((3, 4, 2)), rng.integers(0, 4, (3, 2))],
        dtypes=ALL,
        ops=("IndexingOneHot",),
    ),
    Record(
        "set_one_hot",
        fn=lambda x, v, i: one(builtin.IndexingSetOneHot(axis=1), x, i, v),
        ref=lambda x, v, i: put_ref(x, along(i[:, None], 1), v),
        inputs=lambda rng: [
            rng.standard_normal((3, 4)),
            rng.standard_normal((3, 1)),
            rng.integers(0, 4, 3),
        ],
        dtypes=ALL,
        ops=("IndexingSetOneHot",),
    ),
    Record(
        "where",
        fn=F.where,
        ref=np.where,
        inputs=lambda rng: [
            rng.random((3, 1)) < 0.5,
            rng.standard_normal((3, 4)),
            rng.standard_normal(4),
        ],
        dtypes=ALL,
        empty=False,
        scalar=True,
    ),
]

ITEMS = [
    Record(
        "items-get",
        fn=lambda x, a, b: one(
            builtin.Subtensor(
                items=[(0, False, False, False, True), (1, True, False, True, False)]
            ),
            x,
            a,
            b,
            mge.tensor(2),
        ),
        ref=lambda x, a, b: x[a, b::2],
        inputs=lambda rng: [rng.standard_normal((3, 5)), np.array(1), np.array(-3)],
        layouts=False,
        empty=False,
        ops=("IndexItems",),
    ),
    Record(
        "items-set-vec",
        fn=lambda x, v, a, i: one(
            builtin.IndexingSetMultiAxisVec(
                [(0, True, False, False, False), (1, False, False, False, True)]
            ),
            x,
            v,
            a,
            i,
        ),
        ref=lambda x, v, a, i: put_ref(x, (slice(a, None), i), v),
        inputs=lambda rng: [
            rng.standard_normal((3, 4)),
            rng.standard_normal((2, 5)),
            np.array(1),
            rng.integers(-4, 4, 5),
        ],
        layouts=False,
        empty=False,
        ops=("IndexItems",),
    ),
    Record(
        "items-incr",
        fn=lambda x, v, a: one(
            builtin.IncrSubtensor(items=[(1, False, True, False, False)]), x, v, a
        ),
        ref=lambda x, v, a: put_ref(x, np.s_[:, :a], x[:, :a] + v),
        inputs=lambda rng: [rng.standard_normal((3, 4)), rng.standard_normal(2), np.array(2)],
        layouts=False,
        empty=False,
        ops=("IndexItems",),
    ),
]

RECORDS = SHAPES + BASIC + ADVANCED + ITEMS
