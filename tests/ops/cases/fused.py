"""Chains of elementwise ops as one op; tests/jit/test_fusion.py makes many more of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.tensor import Tensor
from tests.ops.record import Record

Array = np.ndarray


def one_of_each(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """What is written is read again, and one of the results is a bool."""
    dtype = np.dtype(x.dtype).name
    program = (
        f"{dtype} x0, {dtype} x1: t0 = MUL(x0, x1); t1 = TANH(t0); t2 = LT(t1, x0); "
        "t3 = WHERE(t2, t1, x1); t4 = SUB(t3, t0) -> t1, t4"
    )
    first, second = apply(builtin.FusedElementwise(program=program), x, y)
    return first, second


def by_numpy(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    product = x * y
    squashed = np.tanh(product)
    return squashed, np.where(squashed < x, squashed, y) - product


def reduced(mode: str, axis: tuple[int, ...] | None) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean, sum or maximum of x * y + x."""

    def fn(x: Tensor, y: Tensor) -> Tensor:
        dtype = np.dtype(x.dtype).name
        program = f"{dtype} x0, {dtype} x1: t0 = MUL(x0, x1); t1 = ADD(t0, x0) -> t1"
        op = builtin.FusedReduce(program=program, mode=mode, axis=axis, keepdim=False)
        return apply(op, x, y)[0]

    return fn


def reduce_record(mode: str, axis: tuple[int, ...] | None, ref: Callable[..., Array]) -> Record:
    return Record(
        f"FusedReduce {mode} {axis}",
        fn=reduced(mode, axis),
        ref=lambda x, y: ref(x * y + x, axis=axis),
        inputs=lambda rng: [rng.normal(size=(3, 4, 5, 6)), rng.normal(size=(4, 1, 6))],
        ops=("FusedReduce",),
        dtypes=("float32", "float64"),
        channels_last=True,
        scalar=axis is None,
        # More boxes than one along every axis, and more than are held at a time.
        large=lambda rng: [rng.normal(size=(40, 37, 40, 41)), rng.normal(size=(37, 1, 41))],
    )


RECORDS = [
    reduce_record("MEAN", None, np.mean),
    reduce_record("SUM", (0, 2, 3), np.sum),
    reduce_record("SUM", (1,), np.sum),
    reduce_record("MAX", (0, 1), np.max),
    reduce_record("MIN", (3,), np.min),
    reduce_record("SUM_SQR", (2, 3), lambda v, axis: np.sum(v * v, axis=axis)),
    Record(
        "FusedElementwise",
        fn=one_of_each,
        ref=by_numpy,
        inputs=lambda rng: [
            rng.uniform(0.5, 1.5, (2, 3, 4, 5)),
            rng.uniform(-1.5, -0.5, (3, 1, 1)),
        ],
        ops=("FusedElementwise",),
        dtypes=("float32", "float64"),
        channels_last=True,
        scalar=True,
        large=lambda rng: [
            rng.uniform(0.5, 1.5, (4, 64, 50, 50)),
            rng.uniform(-1.5, -0.5, (64, 1, 1)),
        ],
    ),
]
