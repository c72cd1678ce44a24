"""Records of complex numbers. Inputs and results are the parts, so that every check applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
from tests.ops.record import Array, Record

PARTS: dict[str, Any] = {"dtypes": ("float32", "float64")}
ARITHMETIC = ("Complex", "RealPart", "ImagPart", "ComplexElemwise")


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(s) for s in shapes]


def _away_from_zero(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [
        rng.uniform(0.3, 2.0, s) * np.where(rng.random(s) < 0.5, -1.0, 1.0) for s in shapes
    ]


def _on_parts(f: Callable[..., Any]) -> Callable[..., Any]:
    """f of complex tensors as a function of their parts: (re, im, re, im, ...)."""

    def run(*parts: mge.Tensor) -> Any:
        out = f(*(F.complex(re, im) for re, im in zip(parts[::2], parts[1::2], strict=True)))
        return (F.real(out), F.imag(out)) if np.dtype(out.dtype).kind == "c" else out

    return run


def _ref_on_parts(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(*parts: Array) -> Any:
        out = np.asarray(f(*(re + 1j * im for re, im in zip(parts[::2], parts[1::2], strict=True))))
        return (out.real, out.imag) if out.dtype.kind == "c" else out

    return run


def _record(
    name: str,
    fn: Callable[..., Any],
    ref: Callable[..., Any],
    inputs: Callable[[np.random.Generator], list[Array]],
    ops: tuple[str, ...] = ARITHMETIC,
    **more: Any,
) -> Record:
    return Record(
        f"complex-{name}",
        fn=_on_parts(fn),
        ref=_ref_on_parts(ref),
        inputs=inputs,
        ops=ops,
        **(PARTS | more),
    )


FOUR = _normal((3, 4), (3, 4), (3, 4), (3, 4))
BROADCAST = _normal((3, 1), (3, 1), (2, 1, 4), (2, 1, 4))
LARGE = _normal(*[(300, 301)] * 4)
WIDE = {"float32": (4e-6, 4e-6), "float64": (1e-12, 1e-12)}
PRODUCT = {"float32": (3e-6, 2e-5), "float64": (1e-12, 1e-12)}

RECORDS = [
    _record("make", lambda z: z, lambda z: z, _normal((3, 4), (3, 4)), scalar=True),
    Record(
        "complex-make-broadcast",
        fn=lambda a, b: (F.real(F.complex(a, b)), F.imag(F.complex(a, b))),
        ref=lambda a, b: (a + 0 * b, b + 0 * a),
        inputs=_normal((3, 1), (1, 4)),
        large=_normal((700, 1), (1, 301)),
        ops=ARITHMETIC,
        **PARTS,
    ),
    Record(
        "polar",
        fn=lambda r, t: (F.real(F.polar(r, t)), F.imag(F.polar(r, t))),
        ref=lambda r, t: (r * np.cos(t), r * np.sin(t)),
        inputs=_normal((3, 4), (3, 4)),
        ops=ARITHMETIC,
        **PARTS,
    ),
    _record("add", lambda z, w: z + w, lambda z, w: z + w, FOUR, scalar=True, large=LARGE),
    _record("add-broadcast", lambda z, w: z + w, lambda z, w: z + w, BROADCAST),
    _record("sub", lambda z, w: z - w, lambda z, w: z - w, FOUR),
    _record("mul", lambda z, w: z * w, lambda z, w: z * w, FOUR, scalar=True, large=LARGE),
    _record("mul-broadcast", lambda z, w: z * w, lambda z, w: z * w, BROADCAST),
    _record("mul-real", lambda z: z * 2.5 - 1, lambda z: z * 2.5 - 1, _normal((3, 4), (3, 4))),
    _record(
        "mul-complex-number", lambda z: (1 - 2j) * z, lambda z: (1 - 2j) * z, _normal((5,), (5,))
    ),
    _record(
        "div",
        lambda z, w: z / w,
        lambda z, w: z / w,
        _away_from_zero((3, 4), (3, 4), (3, 4), (3, 4)),
        scalar=True,
        tol=WIDE,
    ),
    _record("neg", lambda z: -z, lambda z: -z, _normal((3, 4), (3, 4))),
    _record("square", F.square, np.square, _normal((3, 4), (3, 4)), tol=WIDE),
    _record("abs", F.abs, np.abs, _away_from_zero((3, 4), (3, 4)), scalar=True),
    _record("exp", F.exp, np.exp, _normal((3, 4), (3, 4)), tol=WIDE),
    _record("log", F.log, np.log, _away_from_zero((3, 4), (3, 4)), tol=WIDE),
    _record(
        "equal",
        F.equal,
        np.equal,
        lambda rng: [rng.integers(0, 2, 20).astype(float) for _ in "1234"],
    ),
    _record(
        "not-equal",
        F.not_equal,
        np.not_equal,
        lambda rng: [rng.integers(0, 2, 20).astype(float) for _ in "1234"],
    ),
    _record(
        "sum", lambda z: F.sum(z, 1), lambda z: np.sum(z, 1), _normal((3, 4), (3, 4)), tol=WIDE
    ),
    _record(
        "mean",
        lambda z: F.mean(z, 0),
        lambda z: np.mean(z, 0),
        _normal((3, 4), (3, 4)),
        empty=False,
    ),
    _record("cumsum", lambda z: F.cumsum(z, 1), lambda z: np.cumsum(z, 1), _normal((3, 4), (3, 4))),
    _record(
        "matmul",
        F.matmul,
        np.matmul,
        _normal((3, 4), (3, 4), (4, 2), (4, 2)),
        tol=PRODUCT,
        empty=False,
    ),
    _record(
        "matmul-batch",
        F.matmul,
        np.matmul,
        _normal((2, 3, 4), (2, 3, 4), (2, 4, 2), (2, 4, 2)),
        tol=PRODUCT,
    ),
    _record(
        "linear",
        F.linear,
        lambda x, w, b: x @ w.T + b,
        _normal((3, 4), (3, 4), (2, 4), (2, 4), (2,), (2,)),
        tol=PRODUCT,
        empty=False,
    ),
    _record(
        "moves",
        lambda z, w: F.transpose(F.concat([z[:, ::-1], w.reshape(3, 4)], axis=1), (1, 0)),
        lambda z, w: np.concatenate([z[:, ::-1], w.reshape(3, 4)], 1).T,
        _normal((3, 4), (3, 4), (4, 3), (4, 3)),
        empty=False,
    ),
    _record(
        "rows", lambda z: z[[2, 0, 2]], lambda z: z[[2, 0, 2]], _normal((3, 4), (3, 4)), empty=False
    ),
    _record(
        "where",
        lambda z, w: F.where(_MASK, z, w),
        lambda z, w: np.where(_MASK.numpy(), z, w),
        FOUR,
        empty=False,
    ),
    Record(
        "complex-real-of-real",
        fn=lambda x: (F.real(x), F.imag(x)),
        ref=lambda x: (x, np.zeros_like(x)),
        inputs=_normal((3, 4)),
        ops=ARITHMETIC,
        order=1,
    ),
    _record(
        "gather",
        lambda z: F.gather(z, 0, mge.tensor([[0, 2, 2, 1]])),
        lambda z: np.take_along_axis(z, np.array([[0, 2, 2, 1]]), 0),
        _normal((3, 4), (3, 4)),
        empty=False,
    ),
]
_MASK = mge.tensor(np.arange(12).reshape(3, 4) % 3 == 0)
