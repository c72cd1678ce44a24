"""Chains of elementwise ops as one op; tests/jit/test_fusion.py makes many more of them."""

from __future__ import annotations

import numpy as np

from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.tensor import Tensor
from tests.ops.record import Record


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


RECORDS = [
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
