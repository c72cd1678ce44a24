"""Products of matrices and vectors."""

from __future__ import annotations

import math

from .. import functional as F
from ..tensor import Tensor
from . import _support
from .data_types import broadcast_arrays
from .elementwise import conj
from .manipulation import moveaxis, permute_dims

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of the matrices in the last two axes; the others broadcast."""
    _support.expect("matmul", x1, x2, kinds="iufc")
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul: expected at least one dimension")
    a, b = _support.promoted("matmul", x1, x2)
    return F.matmul(a, b).astype(a.dtype)  # narrow integers multiply in int32


def matrix_transpose(x: Tensor, /) -> Tensor:
    """``x`` with its last two axes swapped."""
    _support.expect("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected matrices, got shape {x.shape}")
    return F.swapaxes(x, -1, -2)


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[tuple[int, ...], tuple[int, ...]] = 2
) -> Tensor:
    """The sums of products over the last axes of ``x1`` and the first of ``x2``, or over pairs."""
    a, b = _support.promoted("tensordot", x1, x2, kinds="iufc")
    if isinstance(axes, int):
        over1 = tuple(range(a.ndim - axes, a.ndim))
        over2 = tuple(range(axes))
    else:
        over1 = _support.axes_of("tensordot", tuple(axes[0]), a.ndim)
        over2 = _support.axes_of("tensordot", tuple(axes[1]), b.ndim)
    if [a.shape[i] for i in over1] != [b.shape[i] for i in over2]:
        raise ValueError(f"tensordot: axes {axes} of {a.shape} and {b.shape} have other lengths")
    kept1 = tuple(i for i in range(a.ndim) if i not in over1)
    kept2 = tuple(i for i in range(b.ndim) if i not in over2)
    length = math.prod(a.shape[i] for i in over1)
    rows = tuple(a.shape[i] for i in kept1)
    columns = tuple(b.shape[i] for i in kept2)
    left = F.reshape(permute_dims(a, kept1 + over1), (math.prod(rows), length))
    right = F.reshape(permute_dims(b, over2 + kept2), (length, math.prod(columns)))
    return F.reshape(F.matmul(left, right), rows + columns).astype(a.dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sums of products along an axis, of the conjugate of ``x1`` where it is complex."""
    a, b = _support.promoted("vecdot", x1, x2, kinds="iufc")
    least = min(a.ndim, b.ndim)
    if not -least <= axis < 0:
        raise ValueError(f"vecdot: expected an axis from {-least} to -1, got {axis}")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: the vectors of {a.shape} and {b.shape} have other lengths")
    a, b = broadcast_arrays(moveaxis(a, axis, -1), moveaxis(b, axis, -1))
    return F.sum(F.mul(conj(a), b), -1).astype(a.dtype)
