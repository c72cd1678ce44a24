"""Comparisons, logic and bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import host, op
from ..values import Array, shape_of, to_array, to_tensor


def _relation(
    name: str, function: Callable[[Any, Any], Any], on_array: Callable[[Any, Any], Any]
) -> None:
    @op(name)
    def run_legacy(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        if broadcast and axis is not None:
            y = F.reshape(y, shape_of(y) + (1,) * (x.ndim - axis % x.ndim - y.ndim))
        return run(x, y)

    @op(name, since=7)
    def run(x: Tensor, y: Tensor) -> Tensor:
        return function(x, y)

    @host(name, since=7)
    def run_on_arrays(x: Array, y: Array) -> Array:
        return np.asarray(on_array(x, y), dtype=np.bool_)


_relation("Equal", F.equal, np.equal)
_relation("Greater", F.greater, np.greater)
_relation("GreaterOrEqual", F.greater_equal, np.greater_equal)
_relation("Less", F.less, np.less)
_relation("LessOrEqual", F.less_equal, np.less_equal)
_relation("And", F.logical_and, np.logical_and)
_relation("Or", F.logical_or, np.logical_or)
_relation("Xor", F.logical_xor, np.logical_xor)


@op("Not")
def logical_not(x: Tensor) -> Tensor:
    return F.logical_not(x)


@host("Not")
def logical_not_of_array(x: Array) -> Array:
    return np.logical_not(x)


@op("IsNaN")
def is_nan(x: Tensor) -> Tensor:
    return F.isnan(x)


@op("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = F.isinf(x)
    if not detect_negative:
        found = F.logical_and(found, x > 0)
    if not detect_positive:
        found = F.logical_and(found, x < 0)
    return found


# ---- bits ---------------------------------------------------------------------------------------
# There are no bits of Tensors: they are read back, and no gradient is lost.


def _bits(name: str, function: Callable[..., Any]) -> None:
    @op(name)
    def run(*xs: Tensor) -> Tensor:
        return to_tensor(run_on_arrays(*map(to_array, xs)))

    @host(name)
    def run_on_arrays(*xs: Array) -> Array:
        return np.asarray(reduce(function, xs) if len(xs) > 1 else function(xs[0]))


_bits("BitwiseAnd", np.bitwise_and)
_bits("BitwiseNot", np.bitwise_not)
_bits("BitwiseOr", np.bitwise_or)
_bits("BitwiseXor", np.bitwise_xor)


@host("BitShift")
def bit_shift_of_arrays(x: Array, y: Array, *, direction: str) -> Array:
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"BitShift: expected direction 'LEFT' or 'RIGHT', got {direction!r}")
    # A shift by the whole width or more is undefined in C. Here it leaves nothing but the sign.
    width = x.dtype.itemsize * 8
    if direction == "RIGHT":
        return np.where(
            y < width, x >> np.minimum(y, width - 1).astype(x.dtype), np.where(x < 0, -1, 0)
        ).astype(x.dtype)
    return np.where(y < width, x << np.minimum(y, width - 1).astype(x.dtype), 0).astype(x.dtype)
