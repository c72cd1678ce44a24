"""The linear algebra extension of the standard.

Inverses, singular values, norms and products have gradients. The other decompositions, determinants
and ``solve`` are NumPy's, and raise NotImplementedError where a gradient is asked for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import functional as F
from ..tensor import Tensor
from . import _support, statistical
from .data_types import broadcast_arrays
from .elementwise import abs as _abs
from .elementwise import conj
from .linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from .manipulation import expand_dims, moveaxis

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eig(NamedTuple):
    """What :func:`eig` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eigh(NamedTuple):
    """What :func:`eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """What :func:`qr` returns."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """What :func:`slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    """What :func:`svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _matrices(op: str, x: Tensor, square: bool = False, kinds: str = "fc") -> None:
    _support.expect(op, x, kinds=kinds)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ValueError(f"{op}: expected {'square ' * square}matrices, got shape {x.shape}")


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular L with L @ L^H = x, or its conjugate transpose; x is positive definite."""
    _matrices("cholesky", x, square=True)
    out = _support.in_numpy("linalg.cholesky", np.linalg.cholesky, x)
    return conj(matrix_transpose(out)) if upper else out


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products of the vectors of 3 numbers along an axis."""
    a, b = _support.promoted("cross", x1, x2, kinds="iufc")
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(f"cross: expected vectors of 3 numbers, got {a.shape} and {b.shape}")
    a, b = broadcast_arrays(moveaxis(a, axis, -1), moveaxis(b, axis, -1))
    parts = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts.append(F.sub(F.mul(a[..., j], b[..., k]), F.mul(a[..., k], b[..., j])))
    return moveaxis(F.stack(parts, -1), -1, axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices."""
    _matrices("det", x, square=True)
    return _support.in_numpy("linalg.det", np.linalg.det, x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices; those above the main one have positive offsets."""
    _matrices("diagonal", x, kinds="biufc")
    rows, columns = np.arange(max(-offset, 0), x.shape[-2]), np.arange(max(offset, 0), x.shape[-1])
    length = min(len(rows), len(columns))
    at = rows[:length] * x.shape[-1] + columns[:length]
    flat = F.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return flat[..., Tensor(at, dtype="int32", device=x.device)]


def _eigen(op: str, x: Tensor, numpy: Any) -> list[Tensor]:
    """Results of NumPy, which are real where all of them are, as complex numbers."""
    _matrices(op, x, square=True)
    _support.expect_no_gradient(f"linalg.{op}", x)
    dtype = np.result_type(x.dtype, np.complex64)
    return [_support.from_array(a.astype(dtype, copy=False), x.device) for a in numpy(x.numpy())]


def eig(x: Tensor, /) -> Eig:
    """The eigenvalues and eigenvectors of square matrices, as complex numbers."""
    return Eig(*_eigen("eig", x, np.linalg.eig))


def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues of :func:`eig`."""
    return _eigen("eigvals", x, lambda v: [np.linalg.eigvals(v)])[0]


def eigh(x: Tensor, /) -> Eigh:
    """The eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices."""
    _matrices("eigh", x, square=True)
    values = _support.in_numpy("linalg.eigh", lambda v: np.linalg.eigh(v)[0], x)
    return Eigh(values, _support.in_numpy("linalg.eigh", lambda v: np.linalg.eigh(v)[1], x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of :func:`eigh`."""
    _matrices("eigvalsh", x, square=True)
    return _support.in_numpy("linalg.eigvalsh", np.linalg.eigvalsh, x)


def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices; ValueError for singular ones."""
    _matrices("inv", x, square=True)
    if _support.kind(x.dtype) == "c":
        return _support.in_numpy("linalg.inv", np.linalg.inv, x)
    return F.matinv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    _matrices("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        function = {"nuc": statistical.sum, 2: statistical.max, -2: statistical.min}[ord]
        out = function(values, axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        over = -2 if math.isfinite(ord) else -1
        sums = statistical.sum(_abs(x), axis=over)
        out = (statistical.max if ord > 0 else statistical.min)(sums, axis=-1)
    else:
        raise ValueError(f"matrix_norm: expected 'fro', 'nuc', 1, 2 or inf, got ord={ord!r}")
    return expand_dims(expand_dims(out, axis=-1), axis=-1) if keepdims else out


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Square matrices to a whole power; a negative one is that of the inverse."""
    _matrices("matrix_power", x, square=True)
    base = inv(x) if n < 0 else x
    identity = Tensor(np.eye(x.shape[-1]), dtype=x.dtype, device=x.device)
    out = F.add(F.sub(x, x), identity) if n == 0 else None
    left = n if n > 0 else -n
    while left:
        if left & 1:
            out = base if out is None else matmul(out, base)
        left >>= 1
        base = matmul(base, base) if left else base
    return base if out is None else out


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than ``rtol`` times the largest, as int32."""
    _matrices("matrix_rank", x)
    rank = np.linalg.matrix_rank(x.numpy(), rtol=rtol)
    return Tensor(np.asarray(rank), dtype="int32", device=x.device)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    a, b = _support.promoted("outer", x1, x2, kinds="iufc")
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: expected vectors, got shapes {a.shape} and {b.shape}")
    return F.mul(expand_dims(a, axis=1), expand_dims(b, axis=0))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses of matrices."""
    _matrices("pinv", x)
    return _support.in_numpy("linalg.pinv", lambda v: np.linalg.pinv(v, rtol=rtol), x)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QR:
    """Orthonormal Q and upper triangular R with Q @ R = x; ``mode`` is reduced or complete."""
    _matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: expected mode 'reduced' or 'complete', got {mode!r}")
    kind: Any = mode
    first = _support.in_numpy("linalg.qr", lambda v: np.linalg.qr(v, kind)[0], x)
    return QR(first, _support.in_numpy("linalg.qr", lambda v: np.linalg.qr(v, kind)[1], x))


def slogdet(x: Tensor, /) -> Slogdet:
    """The signs, and the logarithms of the magnitudes, of determinants."""
    _matrices("slogdet", x, square=True)
    sign = _support.in_numpy("linalg.slogdet", lambda v: np.linalg.slogdet(v)[0], x)
    return Slogdet(sign, _support.in_numpy("linalg.slogdet", lambda v: np.linalg.slogdet(v)[1], x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions of x1 @ x = x2; x2 is one vector, or matrices."""
    a, b = _support.promoted("solve", x1, x2, kinds="fc")
    _matrices("solve", a, square=True)

    def solved(m: Any, v: Any) -> Any:
        return np.linalg.solve(m, v[..., None])[..., 0] if v.ndim == 1 else np.linalg.solve(m, v)

    return _support.in_numpy("linalg.solve", solved, a, b)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """The singular value decompositions x = U @ diag(S) @ Vh."""
    _matrices("svd", x)
    if _support.kind(x.dtype) != "c":
        return SVD(*F.svd(x, full_matrices))

    def part(i: int) -> Tensor:
        return _support.in_numpy("linalg.svd", lambda v: np.linalg.svd(v, full_matrices)[i], x)

    return SVD(part(0), part(1), part(2))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, descending."""
    _matrices("svdvals", x)
    if _support.kind(x.dtype) == "c":
        return _support.in_numpy("linalg.svdvals", np.linalg.svdvals, x)
    values = F.svd(x, compute_uv=False)
    assert isinstance(values, Tensor)
    return values


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of matrices; dtypes are those of ``sum``."""
    _matrices("trace", x, kinds="iufc")
    return statistical.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """The p-norms of vectors along axes; ``ord`` is p, and may be 0 or infinite."""
    _support.expect("vector_norm", x, kinds="fc")
    magnitude = _abs(x)
    axes = list(_support.axes_of("vector_norm", axis, x.ndim))
    if ord == 0:
        counted = F.not_equal(magnitude, 0).astype(magnitude.dtype)
        return F.sum(counted, axes, keepdims) if axes else counted
    return F.norm(magnitude, ord, axes, keepdims) if axes else magnitude
