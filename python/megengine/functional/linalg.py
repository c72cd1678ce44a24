"""Linear algebra: inverses, singular values, cross products.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from .._core import apply as _apply
from .._core import call as _call
from ..core.ops import builtin
from ..tensor import Tensor
from .elemwise import TensorLike, mul, sub
from .tensor import concat, transpose, zeros_like

__all__ = ["cross", "matinv", "svd"]

_INVERSE = builtin.MatrixInverse()
_CROSS = builtin.CrossProduct()
_SVD = {
    (full, uv): builtin.SVD(full_matrices=full, compute_uv=uv)
    for full in (False, True)
    for uv in (False, True)
}


def _floats(op: str, inp: Tensor) -> Tensor:
    if not isinstance(inp, Tensor):
        raise TypeError(f"{op}: expected a Tensor, got {type(inp).__name__}")
    return inp.astype("float32") if inp.dtype.kind in "biu" else inp


def matinv(inp: Tensor) -> Tensor:
    """The inverse of each matrix in the last two axes.

    Args:
        inp: ``(..., n, n)``. Integers become float32; float16 and bfloat16 compute in float32.

    Returns:
        ``(..., n, n)``.

    Raises:
        ValueError: if a matrix is not square, or singular.

    Example:
        >>> F.matinv(mge.tensor([[2.0, 0.0], [1.0, 1.0]]))
        Tensor([[ 0.5  0. ]
         [-0.5  1. ]], device=xpux:0)
    """
    return _call(_INVERSE, _floats("matinv", inp))


def svd(
    inp: Tensor, full_matrices: bool = False, compute_uv: bool = True
) -> tuple[Tensor, Tensor, Tensor] | Tensor:
    """The singular value decomposition ``U @ diag(s) @ V`` of each matrix in the last two axes.

    Args:
        inp: ``(..., m, n)``. Integers become float32; float16 and bfloat16 compute in float32.
        full_matrices: complete U and V to square matrices.
        compute_uv: False computes the singular values only.

    Returns:
        ``(U, s, V)``, with k = min(m, n): U is ``(..., m, k)`` with orthonormal columns, ``s``
        ``(..., k)``, descending, and V ``(..., k, n)`` with orthonormal rows. With
        ``full_matrices`` U is ``(..., m, m)`` and V ``(..., n, n)``. Without ``compute_uv``, ``s``
        alone.

        Each column of U and its row of V may both change sign. The vectors of equal singular values
        can turn among themselves, so that a function of them has a gradient only if it does not
        depend on that; the part that does is taken as 0. The gradient of U and V needs
        ``full_matrices=False``, unless the matrix is square.

    Raises:
        ValueError: if a matrix holds NaN or infinity.

    Example:
        >>> U, s, V = F.svd(mge.tensor([[3.0, 0.0], [0.0, -4.0]]))
        >>> s
        Tensor([4. 3.], device=xpux:0)
    """
    out = _apply(_SVD[bool(full_matrices), bool(compute_uv)], _floats("svd", inp))
    return (out[0], out[1], out[2]) if compute_uv else out[0]


def _move_axis(
    op: str, x: Tensor, source: SupportsIndex, target: SupportsIndex, ndim: int
) -> Tensor:
    """A transposed view with one axis at another place; ``ndim`` is that of x."""
    places = []
    for axis in (source, target):
        try:
            at = operator.index(axis)
        except TypeError as error:
            raise TypeError(f"{op}: {error}") from None
        if not -ndim <= at < ndim:
            raise ValueError(f"{op}: axis {at} is out of range for {ndim} dimensions")
        places.append(at % ndim)
    if places[0] == places[1]:
        return x
    order = [i for i in range(ndim) if i != places[0]]
    order.insert(places[1], places[0])
    return transpose(x, order)


def cross(
    a: TensorLike,
    b: TensorLike,
    axisa: SupportsIndex = -1,
    axisb: SupportsIndex = -1,
    axisc: SupportsIndex = -1,
    axis: SupportsIndex | None = None,
) -> Tensor:
    """The cross product of vectors of 2 or 3 numbers, as NumPy's ``cross``.

    It is orthogonal to both vectors, and as long as the parallelogram between them is large. A
    vector of 2 numbers lies in the plane where the third is 0; the product of two such is only the
    third number of the result.

    Args:
        a: the first vectors.
        b: the second ones; all axes but that of the vectors broadcast.
        axisa: the axis of ``a`` that holds its vectors.
        axisb: the same of ``b``.
        axisc: the axis of the result that holds its vectors, if it has one.
        axis: stands for all three.

    Raises:
        ValueError: if a vector has neither 2 nor 3 numbers, or the shapes do not fit.

    Example:
        >>> F.cross(mge.tensor([1.0, 0.0, 0.0]), mge.tensor([0.0, 1.0, 0.0]))
        Tensor([0. 0. 1.], device=xpux:0)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (v if isinstance(v, Tensor) else Tensor(v) for v in (a, b))
    x, y = _move_axis("cross", x, axisa, -1, x.ndim), _move_axis("cross", y, axisb, -1, y.ndim)
    for v in (x, y):
        if v.shape[-1] not in (2, 3):
            raise ValueError(f"cross: expected vectors of 2 or 3 numbers, got {v.shape[-1]}")
    if x.shape[-1] == y.shape[-1] == 2:
        return sub(mul(x[..., 0], y[..., 1]), mul(x[..., 1], y[..., 0]))
    x, y = (v if v.shape[-1] == 3 else concat([v, zeros_like(v[..., :1])], axis=-1) for v in (x, y))
    out = _call(_CROSS, x, y)
    return _move_axis("cross", out, -1, axisc, out.ndim)
