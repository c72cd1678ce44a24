"""Searching, sorting, sets and indexing. Positions are int32, the default index dtype."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from .. import functional as F
from ..tensor import Tensor
from . import _support
from .data_types import broadcast_to
from .manipulation import moveaxis

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "isin",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


class UniqueAll(NamedTuple):
    """What :func:`unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What :func:`unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What :func:`unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the largest element."""
    _support.expect("argmax", x, kinds="iuf")
    return F.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the smallest element."""
    _support.expect("argmin", x, kinds="iuf")
    return F.argmin(x, axis, keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """How many elements are not 0."""
    _support.expect("count_nonzero", x)
    counts = np.count_nonzero(x.numpy(), axis=axis, keepdims=keepdims)
    return Tensor(counts, dtype="int32", device=x.device)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Where elements of ``x1`` are among those of ``x2``, or are not; NaN is nowhere."""
    a, b = _support.promoted("isin", x1, x2)
    return _support.from_array(np.isin(a.numpy(), b.numpy(), invert=invert), a.device)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not 0, a vector for each axis."""
    _support.expect("nonzero", x)
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least one dimension")
    mask = x if _support.kind(x.dtype) == "b" else F.not_equal(x, 0)
    return tuple(F.non_zero(mask, as_tuple=True))


def searchsorted(
    x1: Tensor,
    x2: Any,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where the elements of ``x2``, a Tensor or a number, belong in the sorted vector ``x1``."""
    _support.expect("searchsorted", x1, kinds="iuf")
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: expected a vector, got shape {x1.shape}")
    if isinstance(x2, Tensor):
        _support.expect("searchsorted", x2, kinds="iuf")
    else:
        x1, x2 = _support.promoted("searchsorted", x1, x2, kinds="iuf")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: expected side 'left' or 'right', got {side!r}")
    order = None if sorter is None else sorter.numpy()
    places = np.searchsorted(x1.numpy(), x2.numpy(), "left" if side == "left" else "right", order)
    return Tensor(places, dtype="int32", device=x1.device)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of ``x1`` where the condition is true, of ``x2`` elsewhere."""
    _support.expect("where", condition, kinds="b")
    a, b = _support.promoted("where", x1, x2)
    return F.where(condition, a, b)


def _sorted(op: str, x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    _support.expect(op, x, kinds="iuf")
    (at,) = _support.axes_of(op, axis, x.ndim)
    values, places = F.sort(moveaxis(x, at, -1), descending)
    return moveaxis(values, -1, at), moveaxis(places, -1, at)


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions that :func:`sort` takes its elements from."""
    return _sorted("argsort", x, axis, descending)[1]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis; always stable, NaN is the largest."""
    return _sorted("sort", x, axis, descending)[0]


def _unique(op: str, x: Tensor) -> UniqueAll:
    _support.expect(op, x)
    values, first, inverse, counts = np.unique(
        x.numpy(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    inverse = inverse.reshape(x.shape)
    places = (Tensor(a, dtype="int32", device=x.device) for a in (first, inverse, counts))
    return UniqueAll(_support.from_array(values, x.device), *places)


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements, where each is first, which each was, and how often it is there."""
    return _unique("unique_all", x)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how often each is there."""
    found = _unique("unique_counts", x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and which of them each element of ``x`` is."""
    found = _unique("unique_inverse", x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements, sorted; each NaN is one of its own."""
    return _unique("unique_values", x).values


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements of ``x`` at positions along an axis, which a vector may do without."""
    _support.expect("take", x)
    _support.expect("take", indices, kinds="iu")
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: expected an axis for a Tensor of {x.ndim} dimensions")
    (at,) = _support.axes_of("take", 0 if axis is None else axis, x.ndim)
    return x[(*(slice(None),) * at, indices.astype("int32"))]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis, each at a position of its own; the other axes broadcast."""
    _support.expect("take_along_axis", x)
    _support.expect("take_along_axis", indices, kinds="iu")
    (at,) = _support.axes_of("take_along_axis", axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: expected indices of {x.ndim} dimensions")

    def without(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:at], 1, *shape[at + 1 :])

    shape = list(np.broadcast_shapes(without(x.shape), without(indices.shape)))
    shape[at] = indices.shape[at]
    places = broadcast_to(indices, tuple(shape))
    shape[at] = x.shape[at]
    return F.gather(broadcast_to(x, tuple(shape)), at, places.astype("int32"))
