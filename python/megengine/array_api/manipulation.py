"""Manipulation functions."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import _support

__all__ = [
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis; flattened first where it is None."""
    tensors = _support.promoted("concat", *arrays)
    if axis is None:
        return F.concat([F.reshape(x, (-1,)) for x in tensors])
    return F.concat(tensors, axis=axis)


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """``x`` with a new axis of length 1; IndexError where there is no such place."""
    _support.expect("expand_dims", x)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims: axis {axis} is out of range for {x.ndim + 1} dimensions")
    return F.expand_dims(x, axis)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``x`` with axes reversed; all of them without ``axis``."""
    _support.expect("flip", x)
    axes = _support.axes_of("flip", axis, x.ndim)
    return x[tuple(slice(None, None, -1 if i in axes else 1) for i in range(x.ndim))] if axes else x


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """``x`` with some axes at other places."""
    _support.expect("moveaxis", x)
    sources = _support.axes_of("moveaxis", source, x.ndim)
    targets = _support.axes_of("moveaxis", destination, x.ndim)
    if len(sources) != len(targets):
        raise ValueError("moveaxis: expected as many destinations as sources")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute_dims(x, tuple(order))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """``x`` with its axes in another order."""
    _support.expect("permute_dims", x)
    return F.transpose(x, _support.axes_of("permute_dims", tuple(axes), x.ndim))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times; along the flattened ``x`` without an axis."""
    _support.expect("repeat", x)
    return F.repeat(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order under a new shape.

    Raises:
        ValueError: for ``copy=False`` where ``x`` does not lie in row-major order.
    """
    _support.expect("reshape", x)
    if copy:
        return F.reshape(F.copy(x), shape)
    if copy is False and not x.numpy().flags.c_contiguous:
        raise ValueError("reshape: elements that are not in row-major order need a copy")
    return F.reshape(x, shape)


def roll(
    x: Tensor,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Tensor:
    """Elements moved along axes, those that fall off come back at the other end."""
    _support.expect("roll", x)
    if x.size == 0:
        return x
    return F.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` without axes of length 1; ValueError for others."""
    _support.expect("squeeze", x)
    axes = _support.axes_of("squeeze", axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: expected axes of length 1, got {axis} of shape {x.shape}")
    return F.squeeze(x, axes) if axes else x


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return F.stack(_support.promoted("stack", *arrays), axis=axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """``x`` several times along each axis."""
    _support.expect("tile", x)
    ndim = max(x.ndim, len(repetitions))
    counts = (1,) * (ndim - len(repetitions)) + tuple(repetitions)
    if ndim == 0:
        return x
    return F.tile(F.reshape(x, (1,) * (ndim - x.ndim) + x.shape), counts)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of ``x`` along an axis, without it."""
    _support.expect("unstack", x)
    (at,) = _support.axes_of("unstack", axis, x.ndim)
    before: tuple[Any, ...] = (slice(None),) * at
    return tuple(x[(*before, i)] for i in range(x.shape[at]))
