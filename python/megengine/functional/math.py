"""Reductions, order statistics and norms.

An ``axis`` is an int, a list or tuple of ints, or None for all axes; negative ones count from the
last. Floats are accumulated so that float32 results agree with float64 ones to rounding, at any
length and for any number of threads.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import SupportsIndex, TypeAlias

import numpy as np

from .._core import OpDef
from .._core import apply as _apply
from .._core import call as _call
from .._core import where as _where
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .elemwise import abs as _abs
from .elemwise import maximum as _maximum
from .linalg import matinv, svd
from .matrix import dot, matmul

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "dot",
    "isinf",
    "isnan",
    "matinv",
    "matmul",
    "max",
    "mean",
    "min",
    "norm",
    "normalize",
    "prod",
    "sign",
    "sort",
    "std",
    "sum",
    "svd",
    "topk",
    "var",
]

Axis: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | None"

_ISNAN = builtin.Elemwise(mode="ISNAN")
_ISINF = builtin.Elemwise(mode="ISINF")
_SIGN = builtin.Elemwise(mode="SIGN")
_NOT_EQUAL = builtin.Elemwise(mode="NEQ")
_LESS = builtin.Elemwise(mode="LT")
_SORT = {
    False: builtin.Argsort(order="ASCENDING"),
    True: builtin.Argsort(order="DESCENDING"),
}

_AxisKey: TypeAlias = "int | tuple[int, ...] | None"


def _axis_key(axis: Axis) -> _AxisKey:
    """An axis argument as something that hashes."""
    if axis is None or type(axis) is int:
        return axis
    try:
        if isinstance(axis, Sequence):
            return tuple([operator.index(a) for a in axis])
        return operator.index(axis)
    except TypeError:
        raise TypeError(f"Reduce: expected axis as an int or ints, got {axis!r}") from None


def _expect_tensor(op: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected inp as a Tensor, got {type(value).__name__}")


# Making an op costs more than running it on a few numbers.
@lru_cache(maxsize=4096)
def _reduce_op(mode: str, axis: _AxisKey, keepdims: bool) -> OpDef:
    return builtin.Reduce(mode=mode, axis=axis, keepdim=keepdims)


@lru_cache(maxsize=4096)
def _variance_op(root: bool, axis: _AxisKey, keepdims: bool) -> OpDef:
    return builtin.Variance(root=root, axis=axis, keepdim=keepdims)


@lru_cache(maxsize=4096)
def _norm_op(axis: _AxisKey, keepdims: bool) -> OpDef:
    return builtin.Norm2(axis=axis, keepdim=keepdims)


@lru_cache(maxsize=4096)
def _position_op(name: str, axis: _AxisKey, keepdims: bool) -> OpDef:
    op: OpDef = getattr(builtin, name)(axis=axis, keepdim=keepdims)
    return op


@lru_cache(maxsize=4096)
def _topk_op(k: int, descending: bool, kth_only: bool) -> OpDef:
    return builtin.TopK(k=k, descending=descending, kth_only=kth_only)


# ---- sums, means, extremes ----------------------------------------------------------------------


def sum(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The sum of the elements along some axes.

    Args:
        inp: the tensor.
        axis: the axes to sum over; all without it.
        keepdims: whether the axes stay, with length 1.

    Returns:
        A tensor of the dtype of ``inp``; int32 for bool and for integers below 32 bits. An empty
        sum is 0.

    Raises:
        ValueError: where an axis is out of range or appears twice.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> x = mge.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> F.sum(x)
    Tensor(10.0, device=xpux:0)
    >>> F.sum(x, axis=0)
    Tensor([4. 6.], device=xpux:0)
    """
    return _call(_reduce_op("SUM", _axis_key(axis), bool(keepdims)), inp)


def prod(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The product of the elements along some axes.

    Arguments, dtype and errors are those of :func:`sum`; an empty product is 1. The gradient of an
    element is the product of the others, which holds where some are 0 too.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.prod(mge.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    Tensor([ 2. 12.], device=xpux:0)
    """
    return _call(_reduce_op("PRODUCT", _axis_key(axis), bool(keepdims)), inp)


def mean(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The mean of the elements along some axes.

    Arguments and errors are those of :func:`sum`. The result is float32 (float64 for float64); an
    empty mean is NaN.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.mean(mge.tensor([[1, 2], [3, 5]]), axis=0, keepdims=True)
    Tensor([[2.  3.5]], device=xpux:0)
    """
    return _call(_reduce_op("MEAN", _axis_key(axis), bool(keepdims)), inp)


def max(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The largest element along some axes; NaN where there is one.

    Elements that share the extreme share its gradient equally.

    Args:
        inp: the tensor.
        axis: the axes; all without it.
        keepdims: whether the axes stay, with length 1.

    Raises:
        ValueError: where an axis is out of range or appears twice, or there is nothing to compare.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.max(mge.tensor([[1.0, 5.0], [3.0, 4.0]]), axis=1)
    Tensor([5. 4.], device=xpux:0)
    """
    return _call(_reduce_op("MAX", _axis_key(axis), bool(keepdims)), inp)


def min(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The smallest element along some axes; NaN where there is one.

    Arguments, errors and gradient are those of :func:`max`.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.min(mge.tensor([[1.0, 5.0], [3.0, 4.0]]), axis=1)
    Tensor([1. 3.], device=xpux:0)
    """
    return _call(_reduce_op("MIN", _axis_key(axis), bool(keepdims)), inp)


def argmax(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The position of the largest element along some axes, as int32.

    Of several, it is the first; a NaN counts as the largest. Over more than one axis, positions
    count in row-major order.

    Raises:
        ValueError: where an axis is out of range or appears twice, or there is nothing to compare.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> x = mge.tensor([[1.0, 5.0], [6.0, 4.0]])
    >>> F.argmax(x)
    Tensor(2, dtype=int32, device=xpux:0)
    >>> F.argmax(x, axis=1)
    Tensor([1 0], dtype=int32, device=xpux:0)
    """
    return _call(_position_op("Argmax", _axis_key(axis), bool(keepdims)), inp)


def argmin(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The position of the smallest element along some axes, as int32.

    Of several, it is the first; a NaN counts as the smallest. See :func:`argmax`.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.argmin(mge.tensor([[1.0, 5.0], [6.0, 4.0]]), axis=1)
    Tensor([0 1], dtype=int32, device=xpux:0)
    """
    return _call(_position_op("Argmin", _axis_key(axis), bool(keepdims)), inp)


def var(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The population variance along some axes: the mean of :math:`(x - \bar x)^2`.

    Arguments and errors are those of :func:`sum`. The result is float32 (float64 for float64).

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.var(mge.tensor([[1.0, 3.0], [2.0, 8.0]]), axis=1)
    Tensor([1. 9.], device=xpux:0)
    """
    return _call(_variance_op(False, _axis_key(axis), bool(keepdims)), inp)


def std(inp: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""The population standard deviation along some axes: the square root of :func:`var`.

    Where all elements are equal, the gradient is 0.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.std(mge.tensor([[1.0, 3.0], [2.0, 8.0]]), axis=1)
    Tensor([1. 3.], device=xpux:0)
    """
    return _call(_variance_op(True, _axis_key(axis), bool(keepdims)), inp)


# ---- norms --------------------------------------------------------------------------------------


@named
def norm(
    inp: Tensor, ord: float | None = None, axis: Axis = None, keepdims: bool = False
) -> Tensor:
    r"""The vector norm :math:`(\sum |x|^p)^{1/p}` along some axes.

    Args:
        inp: the tensor; integers are taken as float32.
        ord: p, 2 without it. 0 counts what is not 0 (as int32); ``inf`` and ``-inf`` give the
            largest and the smallest magnitude.
        axis: the axes; may be left out for a vector only.
        keepdims: whether the axes stay, with length 1.

    Raises:
        TypeError: without an axis where ``inp`` has not exactly one, and for an ``ord`` that is no
            number.
        ValueError: where an axis is out of range or appears twice.

    Squares neither overflow nor vanish on the way, and the gradient of a zero vector is 0.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.norm(mge.tensor([3.0, 4.0]))
    Tensor(5.0, device=xpux:0)
    >>> F.norm(mge.tensor([[3.0, -4.0], [1.0, 1.0]]), ord=1, axis=1)
    Tensor([7. 2.], device=xpux:0)
    """
    _expect_tensor("norm", inp)
    if axis is None and inp.ndim != 1:
        raise TypeError("norm: axis is required unless input is a vector")
    p = 2.0 if ord is None else ord
    if isinstance(p, str) or not isinstance(p, (int, float, np.integer, np.floating)):
        raise TypeError(f"norm: expected ord as a number, got {ord!r}")
    if p == 0:
        return sum(_call(_NOT_EQUAL, inp, 0), axis, keepdims)
    if np.dtype(inp.dtype).kind in "biu":
        inp = inp.astype("float32")
    if p == 2:
        return _call(_norm_op(_axis_key(axis), bool(keepdims)), inp)
    magnitude = _abs(inp)
    if p == 1:
        return sum(magnitude, axis, keepdims)
    if math.isinf(p):
        return (max if p > 0 else min)(magnitude, axis, keepdims)
    if math.isnan(p):
        raise ValueError("norm: expected ord as a number, got NaN")
    return _p_norm(magnitude, float(p), axis, bool(keepdims))


def _p_norm(magnitude: Tensor, p: float, axis: Axis, keepdims: bool) -> Tensor:
    """(sum(magnitude ** p)) ** (1 / p), scaled so that powers stay in range."""
    scale = max(magnitude, axis, True).detach()
    scale = _where(_call(_LESS, 0.0, scale), scale, 1.0)
    scale = _where(_call(_LESS, scale, math.inf), scale, 1.0)
    total = sum((magnitude / scale) ** p, axis, True)
    # The root of 0 has no slope; the norm of a zero vector gets none.
    positive = _call(_LESS, 0.0, total)
    root = _where(positive, total, 1.0) ** (1.0 / p)
    out = _where(positive, root, 0.0) * scale
    return out if keepdims else sum(out, axis)


@named
def normalize(
    inp: Tensor, ord: float | None = None, axis: Axis = None, eps: float = 1e-12
) -> Tensor:
    r"""``inp`` divided by its norm along some axes, or by ``eps`` where the norm is smaller.

    Arguments and errors are those of :func:`norm`.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.normalize(mge.tensor([[3.0, 4.0], [0.0, 0.0]]), axis=1)
    Tensor([[0.6 0.8]
     [0.  0. ]], device=xpux:0)
    """
    return inp / _maximum(norm(inp, ord, axis, keepdims=True), eps)


# ---- order --------------------------------------------------------------------------------------


def sort(inp: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    r"""Sorts along the last axis.

    Args:
        inp: a tensor with at least one axis.
        descending: whether the largest comes first.

    Returns:
        The sorted values, and the int32 positions that they came from. Equal elements keep their
        order; NaN is larger than every number.

    Raises:
        ValueError: for a scalar.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.sort(mge.tensor([3.0, 1.0, 2.0]))
    (Tensor([1. 2. 3.], device=xpux:0), Tensor([1 2 0], dtype=int32, device=xpux:0))
    """
    values, positions = _apply(_SORT[bool(descending)], inp)
    return values, positions


def argsort(inp: Tensor, descending: bool = False) -> Tensor:
    r"""The int32 positions that :func:`sort` takes its values from.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.argsort(mge.tensor([3.0, 1.0, 2.0]), descending=True)
    Tensor([0 2 1], dtype=int32, device=xpux:0)
    """
    return _apply(_SORT[bool(descending)], inp)[1]


@named
def topk(
    inp: Tensor,
    k: SupportsIndex,
    descending: bool = True,
    kth_only: bool = False,
    no_sort: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""The k largest elements along the last axis.

    Args:
        inp: a tensor with at least one axis.
        k: how many, an int or an integer Tensor of one element; all where there are fewer.
            A negative one asks for -k elements of the other end: -2 for the two smallest.
        descending: False asks for the smallest.
        kth_only: whether only the last of them is wanted; the axis goes.
        no_sort: allows any order; they come sorted, best first, all the same.

    Returns:
        The values, and their int32 positions. Of equal elements those that come first are taken;
        NaN is larger than every number.

    Raises:
        ValueError: for a scalar, and for a k of 0.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.topk(mge.tensor([3.0, 1.0, 2.0]), 2)
    (Tensor([3. 2.], device=xpux:0), Tensor([0 2], dtype=int32, device=xpux:0))
    """
    _expect_tensor("topk", inp)
    wanted = operator.index(k)
    if wanted < 0:
        wanted, descending = -wanted, not descending
    if inp.ndim > 0:
        wanted = builtins.min(wanted, inp.shape[-1])
    values, positions = _apply(_topk_op(wanted, bool(descending), bool(kth_only)), inp)
    return values, positions


# ---- one element at a time ----------------------------------------------------------------------


def isnan(inp: Tensor) -> Tensor:
    r"""Where elements are NaN, as bool.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.isnan(mge.tensor([1.0, float("nan")]))
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_ISNAN, inp)


def isinf(inp: Tensor) -> Tensor:
    r"""Where elements are infinite, as bool.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.isinf(mge.tensor([1.0, float("-inf")]))
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_ISINF, inp)


def sign(x: Tensor) -> Tensor:
    r"""-1, 0 or 1 as elements are negative, zero or positive, in the dtype of ``x``.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.sign(mge.tensor([-2.0, 0.0, 3.0]))
    Tensor([-1.  0.  1.], device=xpux:0)
    """
    return _call(_SIGN, x)
