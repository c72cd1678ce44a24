"""Records of inverses, singular values, cross products, sums of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import megengine.functional as F
from tests.ops.record import Array, Record

COVERED_ELSEWHERE = {"MultinomialRNG": "ops/test_linalg.py"}

# The inverse multiplies errors by the condition of its matrix, which is below 10 here.
CONDITIONED = {
    "float32": (2e-5, 2e-5),
    "float64": (1e-12, 1e-12),
    "float16": (5e-3, 5e-3),
    "bfloat16": (4e-2, 4e-2),
}
SUMS = {"float32": (5e-6, 2e-5), "float64": (1e-12, 1e-12)}
FLOAT_PAIR: dict[str, Any] = {"dtypes": ("float32", "float64")}
SHARED: dict[str, Any] = {"exact_threads": False}  # oneDNN may cut long sums among threads


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(s) for s in shapes]


def _with_singular_values(
    values: list[float], *shape: int
) -> Callable[[np.random.Generator], list[Array]]:
    """A matrix (..., m, n) with these singular values, which are well apart."""

    def make(rng: np.random.Generator) -> list[Array]:
        u, _, v = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
        return [u * np.array(values) @ v]

    return make


def _ref_signless(f: Callable[..., Any]) -> Callable[[Array], Any]:
    def run(x: Array) -> Any:
        u, s, v = np.linalg.svd(x, full_matrices=False)
        return f(u, s, v)

    return run


def _projections(u: Any, s: Any, v: Any) -> Any:
    """Functions of U, s and V that do not depend on the signs of the vectors."""
    weights = 1.0 / (1.0 + s)
    return (u * u) @ (v * v), (u * weights[..., None, :]) @ v, s


def _svd_of(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: f(*F.svd(x))


def _einsum(equation: str, *shapes: tuple[int, ...], **more: Any) -> Record:
    name = "einsum-" + equation.replace("->", "-to-").replace(",", "_").replace("...", ".")
    return Record(
        name,
        fn=lambda *xs: F.einsum(equation, *xs),
        ref=lambda *xs: np.einsum(equation, *xs),
        inputs=_normal(*shapes),
        ops=("MatrixMul", "Reduce"),
        **({"tol": SUMS, "order": 1} | FLOAT_PAIR | SHARED | more),
    )


RECORDS = [
    Record(
        "matinv",
        fn=F.matinv,
        ref=np.linalg.inv,
        inputs=_with_singular_values([3.0, 2.0, 1.0, 0.5], 4, 4),
        ops=("MatrixInverse",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=lambda: [[np.ones((0, 0))], [np.ones((0, 3, 3))]],
        layouts=False,  # one row that repeats is no invertible matrix
    ),
    Record(
        "matinv-batch",
        fn=F.matinv,
        ref=np.linalg.inv,
        inputs=_with_singular_values([3.0, 2.0, 1.0], 2, 5, 3, 3),
        large=_with_singular_values([3.0, 2.0, 1.0, 0.5] * 4, 400, 16, 16),
        ops=("MatrixInverse",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=False,
    ),
    Record(
        "matinv-blocks",
        fn=F.matinv,
        ref=np.linalg.inv,
        inputs=_with_singular_values([1.0 + i % 7 for i in range(150)], 150, 150),
        large=_with_singular_values([1.0 + i % 7 for i in range(500)], 500, 500),
        ops=("MatrixInverse",),
        tol=CONDITIONED,
        grad=(),
        empty=False,
        layouts=False,
    ),
    Record(
        "svd-values",
        fn=lambda x: F.svd(x, compute_uv=False),
        ref=lambda x: np.linalg.svd(x, compute_uv=False),
        inputs=_with_singular_values([3.0, 2.0, 1.0], 2, 4, 3),
        large=_normal((300, 300)),
        ops=("SVD",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=lambda: [[np.ones((0, 3))], [np.ones((2, 3, 0))], [np.ones((0, 3, 2))]],
    ),
    Record(
        "svd-tall",
        fn=_svd_of(_projections),
        ref=_ref_signless(_projections),
        inputs=_with_singular_values([3.0, 2.0, 1.0], 2, 5, 3),
        ops=("SVD",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=False,
        **FLOAT_PAIR,
    ),
    Record(
        "svd-wide",
        fn=_svd_of(_projections),
        ref=_ref_signless(_projections),
        inputs=_with_singular_values([3.0, 2.0, 1.0], 3, 4),
        ops=("SVD",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=False,
        **FLOAT_PAIR,
    ),
    Record(
        "svd-square-full",
        fn=lambda x: _projections(*F.svd(x, full_matrices=True)),
        ref=_ref_signless(_projections),
        inputs=_with_singular_values([4.0, 3.0, 2.0, 1.0], 4, 4),
        ops=("SVD",),
        tol=CONDITIONED,
        grad_tol=(1e-5, 1e-6),
        empty=False,
        **FLOAT_PAIR,
    ),
    Record(
        "cross",
        fn=F.cross,
        ref=np.cross,
        inputs=_normal((4, 3), (4, 3)),
        large=_normal((40000, 3), (40000, 3)),
        ops=("CrossProduct",),
        tol={"float32": (2e-6, 4e-6)},
    ),
    Record(
        "cross-broadcast",
        fn=lambda a, b: F.cross(a, b, axisa=0, axisc=1),
        ref=lambda a, b: np.cross(a, b, axisa=0, axisc=1),
        inputs=_normal((3, 4, 1), (5, 3)),
        ops=("CrossProduct",),
        tol={"float32": (2e-6, 4e-6)},
        empty=False,
    ),
    Record(
        "cross-plane-and-space",
        fn=F.cross,
        ref=lambda a, b: np.cross(np.concatenate([a, np.zeros((*a.shape[:-1], 1))], -1), b),
        inputs=_normal((4, 2), (4, 3)),
        ops=("CrossProduct",),
        tol={"float32": (2e-6, 4e-6)},
    ),
    Record(
        "cross-plane",
        fn=F.cross,
        ref=lambda a, b: a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
        inputs=_normal((4, 2), (4, 2)),
        ops=("CrossProduct",),
        tol={"float32": (2e-6, 4e-6)},
        dtypes=("float32", "float64"),
    ),
    Record(
        "cross-integers",
        fn=F.cross,
        ref=np.cross,
        inputs=lambda rng: [rng.integers(-4, 5, (6, 3)).astype(float) for _ in range(2)],
        ops=("CrossProduct",),
        dtypes=("int8", "int16", "int32", "int64"),
        out_dtype={"int8": "int8", "int16": "int16", "int64": "int64"},
        grad=(),
    ),
    _einsum("ij,jk->ik", (3, 4), (4, 5)),
    _einsum("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    _einsum("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2), empty=False),
    _einsum("ij,kj,kl->il", (3, 4), (5, 4), (5, 2), empty=False),
    _einsum("i,j->ij", (3,), (4,), order=2),
    _einsum("ij,ij->i", (3, 4), (3, 4)),
    _einsum("bii->bi", (2, 3, 3)),
    _einsum("ij->ji", (3, 4), order=2),
    _einsum("ijk->j", (3, 4, 2)),
    _einsum("ij,j->i", (3, 4), (1,), empty=False),
    _einsum("ab,cb,ad,d->c", (3, 4), (2, 4), (3, 5), (5,), empty=False),
]
