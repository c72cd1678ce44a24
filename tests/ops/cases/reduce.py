"""Reductions, norms, order statistics and running sums."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine.functional as F
from megengine._core import call
from megengine.core.ops import builtin
from tests.ops.record import FLOATS, INTS, Array, Record

INT32_SUMS = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
FLOAT32_MEANS = dict.fromkeys(("float16", "bfloat16", *INTS), "float32")


def normal(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    """One input of standard normal numbers."""
    return lambda rng: [rng.standard_normal(shape)]


def distinct(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    """One input whose elements lie at least 0.1 apart, so that no order is left open."""
    return lambda rng: [rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1.0]


def near_one(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    """One input of numbers around 1 and -1."""
    return lambda rng: [rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)]


def reduced(
    name: str,
    fn: Callable[..., Any],
    ref: Callable[..., Any],
    inputs: Callable[..., Any],
    op: str,
    **options: Any,
) -> list[Record]:
    """Records over the axes that take different paths: all, rows, columns, middle, several."""
    cases: Sequence[tuple[str, Any, bool, tuple[int, ...]]] = (
        ("all", None, False, (3, 4, 5)),
        ("rows", -1, False, (4, 35)),
        ("columns", 0, True, (35, 4)),
        ("middle", 1, False, (3, 7, 4)),
        ("images", (0, 2, 3), True, (2, 3, 4, 5)),
        ("ends", [0, -1], False, (3, 4, 5)),
    )
    out = []
    for case, axis, keepdims, shape in cases:
        numpy_axis = tuple(axis) if isinstance(axis, list) else axis
        out.append(
            Record(
                f"{name}-{case}",
                fn=lambda x, axis=axis, keepdims=keepdims: fn(x, axis, keepdims),
                ref=lambda x, axis=numpy_axis, keepdims=keepdims: ref(
                    x, axis=axis, keepdims=keepdims
                ),
                inputs=inputs(*shape),
                ops=(op,),
                scalar=axis is None,
                large=normal(70, 33, 40) if case == "all" else None,
                **options,
            )
        )
    return out


def exact_sum(x: Array, **options: Any) -> Any:
    return np.sum(x, **options, dtype=np.float64 if x.dtype.kind == "f" else np.int64)


def exact_prod(x: Array, **options: Any) -> Any:
    return np.prod(x, **options, dtype=np.float64 if x.dtype.kind == "f" else np.int64)


def as_float(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function on integers as on floats, without a warning for an empty mean."""

    def quiet(x: Array, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return fn(np.asarray(x, np.float64), **options)

    return quiet


def argument(fn: Callable[..., Any]) -> Callable[..., Any]:
    """argmax or argmin over several axes: NumPy's take one."""

    def position(x: Array, axis: Any, keepdims: bool) -> Any:
        axes = tuple(range(x.ndim)) if axis is None else np.atleast_1d(axis)
        axes = tuple(int(a) % x.ndim for a in axes)
        kept = [a for a in range(x.ndim) if a not in axes]
        count = int(np.prod([x.shape[a] for a in axes]))
        flat = x.transpose(kept + list(axes)).reshape([x.shape[a] for a in kept] + [count])
        found = fn(flat, -1)
        return np.expand_dims(found, axes) if keepdims else found

    return position


def l2(x: Array, **options: Any) -> Any:
    return np.sqrt(np.sum(np.asarray(x, np.float64) ** 2, **options))


def norm_over(x: Any, axis: Any, keepdims: bool) -> Any:
    return F.norm(x, None, tuple(range(x.ndim)) if axis is None else axis, keepdims)


def sum_squares(x: Any, axis: Any, keepdims: bool) -> Any:
    axes = axis if axis is None or isinstance(axis, int) else tuple(axis)
    return call(builtin.Reduce(mode="SUM_SQR", axis=axes, keepdim=keepdims), x)


def sorted_with_positions(x: Array, descending: bool) -> tuple[Array, Array]:
    order = np.argsort(-x if descending else x, axis=-1, kind="stable")
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def best(k: int, descending: bool = True) -> Callable[[Array], tuple[Array, Array]]:
    def reference(x: Array) -> tuple[Array, Array]:
        values, order = sorted_with_positions(x, descending)
        return values[..., :k], order[..., :k]

    return reference


def kth(k: int) -> Callable[[Array], tuple[Array, Array]]:
    def reference(x: Array) -> tuple[Array, Array]:
        values, order = sorted_with_positions(x, True)
        return values[..., k - 1], order[..., k - 1]

    return reference


def cumsum_op(axis: int, exclusive: bool, reverse: bool) -> Callable[[Any], Any]:
    op = builtin.Cumsum(axis=axis, exclusive=exclusive, reverse=reverse)
    return lambda x: call(op, x)


def cumsum_ref(axis: int, exclusive: bool, reverse: bool) -> Callable[[Array], Array]:
    def reference(x: Array) -> Array:
        y = np.flip(x, axis) if reverse else x
        y = np.cumsum(y, axis) - (y if exclusive else 0)
        return np.flip(y, axis) if reverse else y

    return reference


ALL = (*FLOATS, *INTS)
RECORDS = [
    *reduced("sum", F.sum, exact_sum, normal, "Reduce", dtypes=ALL, out_dtype=INT32_SUMS),
    *reduced(
        "prod",
        F.prod,
        exact_prod,
        near_one,
        "Reduce",
        dtypes=(*FLOATS, "int8", "int16", "int32", "int64"),
        out_dtype=INT32_SUMS,
    ),
    *reduced("sum_squares", sum_squares, lambda x, **o: exact_sum(x * x, **o), normal, "Reduce"),
    *reduced(
        "mean", F.mean, as_float(np.mean), normal, "Reduce", dtypes=ALL, out_dtype=FLOAT32_MEANS
    ),
    *reduced("max", F.max, np.max, distinct, "Reduce", dtypes=ALL),
    *reduced("min", F.min, np.min, distinct, "Reduce", dtypes=ALL),
    *reduced("argmax", F.argmax, argument(np.argmax), distinct, "Argmax", dtypes=FLOATS),
    *reduced("argmin", F.argmin, argument(np.argmin), distinct, "Argmin", dtypes=FLOATS),
    *reduced(
        "var", F.var, as_float(np.var), normal, "Variance", dtypes=ALL, out_dtype=FLOAT32_MEANS
    ),
    *reduced(
        "std", F.std, as_float(np.std), normal, "Variance", dtypes=ALL, out_dtype=FLOAT32_MEANS
    ),
    *reduced("norm", norm_over, l2, normal, "Norm2"),
    Record(
        "norm-1",
        fn=lambda x: F.norm(x, 1, 1),
        ref=lambda x: np.sum(np.abs(x), 1),
        inputs=near_one(3, 5),
        ops=("Reduce",),
    ),
    Record(
        "norm-3",
        fn=lambda x: F.norm(x, 3, 1),
        ref=lambda x: np.sum(np.abs(x) ** 3, 1) ** (1 / 3),
        inputs=near_one(3, 5),
        tol={"float16": (4e-3, 1e-3), "bfloat16": (3e-2, 1e-2)},
    ),
    Record(
        "norm-inf",
        fn=lambda x: F.norm(x, float("inf"), 1),
        ref=lambda x: np.max(np.abs(x), 1),
        inputs=distinct(3, 5),
    ),
    Record(
        "norm-minus-inf",
        fn=lambda x: F.norm(x, float("-inf"), 1),
        ref=lambda x: np.min(np.abs(x), 1),
        inputs=lambda rng: [rng.permutation(15).reshape(3, 5) * 0.1 + 0.3],
    ),
    Record(
        "normalize",
        fn=lambda x: F.normalize(x, axis=1),
        ref=lambda x: x / np.sqrt(np.sum(x * x, 1, keepdims=True)),
        inputs=normal(3, 5),
        ops=("Norm2",),
        tol={"float16": (2e-3, 1e-4), "bfloat16": (1.5e-2, 1e-3)},
    ),
    Record(
        "sort",
        fn=F.sort,
        ref=lambda x: sorted_with_positions(x, False),
        inputs=distinct(3, 20),
        ops=("Argsort",),
        dtypes=ALL,
        large=normal(40, 1000),
    ),
    Record(
        "sort-descending",
        fn=lambda x: F.sort(x, descending=True),
        ref=lambda x: sorted_with_positions(x, True),
        inputs=distinct(2, 3, 11),
        ops=("Argsort",),
    ),
    Record(
        "topk",
        fn=lambda x: F.topk(x, 3),
        ref=best(3),
        inputs=distinct(4, 20),
        ops=("TopK",),
        dtypes=("float32", "float64", "float16"),
        large=normal(40, 3000),
    ),
    Record(
        "topk-smallest",
        fn=lambda x: F.topk(x, 15, descending=False),
        ref=best(15, descending=False),
        inputs=distinct(4, 20),
        ops=("TopK",),
    ),
    Record(
        "topk-kth",
        fn=lambda x: F.topk(x, 2, kth_only=True),
        ref=kth(2),
        inputs=distinct(2, 3, 20),
        ops=("TopK",),
    ),
    *(
        Record(
            f"cumsum-{axis}-{'exclusive' if exclusive else 'inclusive'}{'-reverse' * reverse}",
            fn=cumsum_op(axis, exclusive, reverse),
            ref=cumsum_ref(axis, exclusive, reverse),
            inputs=normal(3, 12, 9),
            ops=("Cumsum",),
            large=normal(40, 120, 9),
        )
        for axis, exclusive, reverse in (
            (0, False, False),
            (1, True, False),
            (2, False, True),
            (-1, True, True),
        )
    ),
    Record(
        "cumsum",
        fn=lambda x: F.cumsum(x, 1),
        ref=lambda x: np.cumsum(x, 1),
        inputs=lambda rng: [rng.uniform(0, 9, (3, 5))],
        ops=("Cumsum",),
        dtypes=ALL,
    ),
]

RANDOM_OPS = (
    "BetaRNG",
    "Dropout",
    "DropoutMask",
    "GammaRNG",
    "GaussianRNG",
    "PermutationRNG",
    "PoissonRNG",
    "ShuffleRNG",
    "UniformRNG",
)
COVERED_ELSEWHERE = dict.fromkeys(RANDOM_OPS, "ops/test_random.py")
