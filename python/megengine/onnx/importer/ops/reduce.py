"""Sums, means, extremes and their positions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import host, op
from ..values import Array, dtype_of, is_float, to_array, to_tensor
from .math import like

_Axes = tuple[int, ...]


def _sum(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return F.sum(x, axes, keep)


def _largest(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return _extreme(F.max, np.max, x, axes, keep)


def _smallest(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return _extreme(F.min, np.min, x, axes, keep)


def _extreme(function: Any, on_array: Any, x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    if dtype_of(x) == np.bool_ or 0 in x._tuple_shape:
        found = _host_extreme(on_array, to_array(x), axes, keep)
        return to_tensor(found)
    return function(x, axes, keep)


def _host_extreme(function: Any, x: Array, axes: _Axes, keep: bool) -> Array:
    if x.dtype == np.bool_:
        every = np.any if function is np.max else np.all
        return np.asarray(every(x, axis=axes, keepdims=keep))
    if x.size:
        initial: dict[str, Any] = {}
    else:
        # The extreme of nothing: what every number improves on.
        limits = np.finfo(x.dtype) if is_float(x.dtype) else np.iinfo(x.dtype)
        worst = limits.min if function is np.max else limits.max
        if is_float(x.dtype):
            worst = -np.inf if function is np.max else np.inf
        initial = {"initial": worst}
    return np.asarray(function(x, axis=axes, keepdims=keep, **initial), dtype=x.dtype)


def _l2(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return F.norm(x, 2, axes, keep)


def _l1(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return F.sum(F.abs(x), axes, keep)


def _log_sum(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return F.log(F.sum(x, axes, keep))


def _log_sum_exp(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    if not is_float(dtype_of(x)) or 0 in x._tuple_shape:
        return F.log(F.sum(F.exp(x), axes, keep))
    return F.logsumexp(x, axes, keep)


def _sum_square(x: Tensor, axes: _Axes, keep: bool) -> Tensor:
    return F.sum(x * x, axes, keep)


def _reduction(
    name: str,
    function: Callable[[Tensor, _Axes, bool], Tensor],
    on_array: Callable[[Array, _Axes, bool], Any] | None,
    axes_are_input: int,
) -> None:
    def compute(x: Tensor, axes: Any, keepdims: int) -> Tensor:
        every = tuple(range(x.ndim)) if axes is None else tuple(int(a) % x.ndim for a in axes)
        return like(function(x, every, bool(keepdims)), x) if every else _of_one(function, x)

    def compute_array(x: Array, axes: Any, keepdims: int) -> Array:
        assert on_array is not None
        every = tuple(range(x.ndim)) if axes is None else tuple(int(a) for a in axes)
        return np.asarray(on_array(x, every, bool(keepdims)), dtype=x.dtype)

    @op(name)
    def by_attribute(
        x: Tensor, *, axes: tuple[int, ...] | None = None, keepdims: int = 1
    ) -> Tensor:
        return compute(x, axes or None, keepdims)

    @op(name, since=axes_are_input)
    def by_input(
        x: Tensor, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        if axes is None or axes.size == 0:
            return compute(x, () if noop_with_empty_axes else None, keepdims)
        return compute(x, axes, keepdims)

    if on_array is None:
        return

    @host(name)
    def by_attribute_on_array(
        x: Array, *, axes: tuple[int, ...] | None = None, keepdims: int = 1
    ) -> Array:
        return compute_array(x, axes or None, keepdims)

    @host(name, since=axes_are_input)
    def by_input_on_array(
        x: Array, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        if axes is None or axes.size == 0:
            return compute_array(x, () if noop_with_empty_axes else None, keepdims)
        return compute_array(x, axes, keepdims)


def _of_one(function: Callable[[Tensor, _Axes, bool], Tensor], x: Tensor) -> Tensor:
    """The reduction of each element by itself: what noop_with_empty_axes asks for."""
    return like(function(F.expand_dims(x, x.ndim), (x.ndim,), False), x)


def _with(function: Any) -> Callable[[Array, _Axes, bool], Any]:
    return lambda x, axes, keep: function(x, axis=axes, keepdims=keep)


for _name, _function, _on_array, _version in [
    ("ReduceSum", _sum, _with(np.sum), 13),
    ("ReduceProd", F.prod, _with(np.prod), 18),
    ("ReduceMean", F.mean, None, 18),
    ("ReduceMax", _largest, lambda *a: _host_extreme(np.max, *a), 18),
    ("ReduceMin", _smallest, lambda *a: _host_extreme(np.min, *a), 18),
    ("ReduceL1", _l1, None, 18),
    ("ReduceL2", _l2, None, 18),
    ("ReduceLogSum", _log_sum, None, 18),
    ("ReduceLogSumExp", _log_sum_exp, None, 18),
    ("ReduceSumSquare", _sum_square, None, 18),
]:
    _reduction(_name, _function, _on_array, _version)  # type: ignore[arg-type]


def _position(name: str, function: Any, on_array: Any) -> None:
    @op(name)
    def run(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        i = axis % x.ndim
        if not select_last_index:
            return function(x, i, bool(keepdims)).astype("int64")
        backward = x[(slice(None),) * i + (slice(None, None, -1),)]
        return (x._tuple_shape[i] - 1) - function(backward, i, bool(keepdims)).astype("int64")

    @host(name)
    def run_on_array(
        x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Array:
        if not select_last_index:
            return np.asarray(on_array(x, axis=axis, keepdims=bool(keepdims)), dtype=np.int64)
        found = on_array(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
        return np.asarray(x.shape[axis] - 1 - found, dtype=np.int64)


_position("ArgMax", F.argmax, np.argmax)
_position("ArgMin", F.argmin, np.argmin)
