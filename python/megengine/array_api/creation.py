"""Creation functions. Numbers become float32, int32, complex64 and bool without a dtype."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .. import functional as F
from ..device import get_default_device
from ..tensor import Tensor
from ..utils import dlpack
from . import _support
from .data_types import broadcast_to

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_DEFAULTS = {"f": "float32", "c": "complex64", "i": "int32"}


def _default(array: np.ndarray[Any, Any]) -> Any:
    """The dtype of Python numbers that NumPy has read."""
    return _DEFAULTS.get(array.dtype.kind, array.dtype)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Numbers from ``start`` (0 where only one is given) up to ``stop``, without it."""
    array = np.arange(0, start, step) if stop is None else np.arange(start, stop, step)
    return Tensor(array, dtype=dtype or _default(array), device=device)


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A Tensor of numbers, nested sequences, or any array; shared where copy is not True.

    Raises:
        ValueError: for ``copy=False`` where a copy is needed.
    """
    if isinstance(obj, Tensor):
        same = (dtype is None or obj.dtype == dtype) and device is None
        if copy is False and not same:
            raise ValueError("asarray: another dtype or device needs a copy")
        if same:
            return F.copy(obj) if copy else obj
        moved = obj if device is None else obj.to(device)
        return F.copy(moved) if dtype is None or moved.dtype == dtype else moved.astype(dtype)
    if copy is False:
        if dtype is None and hasattr(obj, "__dlpack__"):
            return dlpack.from_dlpack(obj, device=device, copy=False)
        raise ValueError("asarray: numbers, and arrays of another dtype, need a copy")
    array = np.asarray(obj)
    own = hasattr(obj, "dtype") or hasattr(obj, "__array__")
    return Tensor(array, dtype=dtype or (array.dtype if own else _default(array)), device=device)


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor whose elements nobody should rely on; they are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """:func:`empty` of the shape, dtype and device of ``x``."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    return Tensor(np.eye(n_rows, n_cols, k), dtype=dtype or "float32", device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor in the memory of another array; see :mod:`megengine.utils.dlpack`."""
    return dlpack.from_dlpack(x, device=device, copy=copy)


def full(
    shape: int | tuple[int, ...],
    fill_value: _support.Number,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """A Tensor of one number."""
    number = np.asarray(fill_value)
    array = np.full(shape, number, dtype=dtype or _default(number))
    return Tensor(array, dtype=array.dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: _support.Number, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """:func:`full` of the shape, dtype and device of ``x``."""
    _support.expect("full_like", x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` numbers evenly spaced from ``start`` to ``stop``."""
    array = np.linspace(start, stop, num, endpoint=endpoint)
    return Tensor(array, dtype=dtype or _default(array), device=device)


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Vectors as the coordinates of a grid.

    Raises:
        ValueError: for what is no vector, and an ``indexing`` other than "xy" and "ij".
    """
    _support.expect("meshgrid", *arrays)
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: expected indexing 'xy' or 'ij', got {indexing!r}")
    if any(x.ndim != 1 for x in arrays):
        raise ValueError("meshgrid: expected vectors")
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = 1, 0
    shape = [0] * len(arrays)
    for x, place in zip(arrays, places, strict=True):
        shape[place] = x.shape[0]
    out = []
    for x, place in zip(arrays, places, strict=True):
        along = [1] * len(arrays)
        along[place] = x.shape[0]
        out.append(broadcast_to(F.reshape(x, along), tuple(shape)))
    return tuple(out)


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor of ones; float32 without a dtype."""
    return full(shape, 1, dtype=dtype or "float32", device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """:func:`ones` of the shape, dtype and device of ``x``."""
    return full_like(x, 1, dtype=dtype, device=device)


def _triangle(op: str, x: Tensor, k: int, above: bool = False) -> Tensor:
    _support.expect(op, x)
    if x.ndim < 2:
        raise ValueError(f"{op}: expected matrices, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    mask = Tensor(np.tri(rows, columns, k, dtype=bool) != above, device=x.device)
    return F.where(broadcast_to(mask, x.shape), x, zeros_like(x))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal, zeros above."""
    return _triangle("tril", x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal, zeros below."""
    return _triangle("triu", x, k - 1, above=True)


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor of zeros; float32 without a dtype."""
    return full(shape, 0, dtype=dtype or "float32", device=device or get_default_device())


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """:func:`zeros` of the shape, dtype and device of ``x``."""
    return full_like(x, 0, dtype=dtype, device=device)
