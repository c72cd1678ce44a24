"""Statistical and utility functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Tensor
from . import _support
from .manipulation import concat
from .searching import count_nonzero

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def _accumulator(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in the dtype of its sums: that asked for, or at least int32 for integers."""
    if dtype is not None:
        return x if x.dtype == dtype else x.astype(dtype)
    kind = _support.kind(x.dtype)
    narrow = kind in "iu" and x.dtype.itemsize < 4
    return x.astype("int32" if kind == "i" else "uint32") if narrow else x


def _reduced(op: str, function: Any, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = _support.axes_of(op, axis, x.ndim)
    return function(x, list(axes), keepdims) if axes else x


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along axes. Integers below 32 bits add up in int32, unsigned ones in uint32."""
    _support.expect("sum", x, kinds="iufc")
    return _reduced("sum", F.sum, _accumulator(x, dtype), axis, keepdims)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product along axes; dtypes are those of :func:`sum`."""
    _support.expect("prod", x, kinds="iufc")
    x = _accumulator(x, dtype)
    if _support.kind(x.dtype) == "c":
        axes = _support.axes_of("prod", axis, x.ndim)
        return _support.in_numpy("prod", lambda v: v.prod(axes, keepdims=keepdims), x)
    return _reduced("prod", F.prod, x, axis, keepdims)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes; NaN where there is one."""
    _support.expect("max", x, kinds="iuf")
    return _reduced("max", F.max, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes; NaN where there is one."""
    _support.expect("min", x, kinds="iuf")
    return _reduced("min", F.min, x, axis, keepdims)


def _count(op: str, x: Tensor, axis: Axis) -> int:
    return math.prod(x.shape[a] for a in _support.axes_of(op, axis, x.ndim))


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean of floats or complex numbers along axes."""
    _support.expect("mean", x, kinds="fc")
    if _support.kind(x.dtype) == "c":
        total = _reduced("mean", F.sum, x, axis, keepdims)
        return F.div(total, float(_count("mean", x, axis)))
    return _reduced("mean", F.mean, x, axis, keepdims).astype(x.dtype)


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance along axes: squared distances from the mean over n - correction."""
    _support.expect("var", x, kinds="f")
    n = _count("var", x, axis)
    distance = F.sub(x, mean(x, axis=axis, keepdims=True))
    total = sum(F.mul(distance, distance), axis=axis, keepdims=keepdims)
    left = n - correction
    return F.div(total, float(left) if left > 0 else 0.0).astype(x.dtype)


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation along axes: the square root of :func:`var`."""
    _support.expect("std", x, kinds="f")
    return F.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _along(op: str, x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{op}: expected an axis for a Tensor of {x.ndim} dimensions")
    return _support.axes_of(op, 0 if axis is None else axis, x.ndim)[0]


def _with_initial(x: Tensor, at: int, initial: float) -> Tensor:
    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    first = Tensor(np.full(shape, initial, x.dtype), dtype=x.dtype, device=x.device)
    return F.concat([first, x], axis=at)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Tensor:
    """The sums of the first elements along an axis; dtypes are those of :func:`sum`."""
    _support.expect("cumulative_sum", x, kinds="iufc")
    at = _along("cumulative_sum", x, axis)
    x = _accumulator(x, dtype)
    if _support.kind(x.dtype) == "c":
        out = _support.in_numpy("cumulative_sum", lambda v: np.cumsum(v, at), x)
    else:
        out = F.cumsum(x, at) if x.size else x
    return _with_initial(out, at, 0) if include_initial else out


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Tensor:
    """The products of the first elements along an axis, without a gradient."""
    _support.expect("cumulative_prod", x, kinds="iufc")
    at = _along("cumulative_prod", x, axis)
    x = _accumulator(x, dtype)
    out = _support.in_numpy("cumulative_prod", lambda v: np.cumprod(v, at, dtype=v.dtype), x)
    return _with_initial(out, at, 1) if include_initial else out


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes are true, or not 0."""
    _support.expect("all", x)
    count = count_nonzero(x, axis=axis, keepdims=keepdims)
    return F.equal(count, _count("all", x, axis))


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element along axes is true, or not 0."""
    _support.expect("any", x)
    return F.greater(count_nonzero(x, axis=axis, keepdims=keepdims), 0)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, ``n`` times; ``x`` itself for 0."""
    _support.expect("diff", x, kinds="iufc")
    (at,) = _support.axes_of("diff", axis, x.ndim)
    if n == 0:
        return x
    parts = [p for p in (prepend, x, append) if p is not None]
    x = concat(parts, axis=at) if len(parts) > 1 else x
    before = (slice(None),) * at
    for _ in range(n):
        x = F.sub(x[(*before, slice(1, None))], x[(*before, slice(None, -1))])
    return x
