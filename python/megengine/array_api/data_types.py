"""Data types: their names, promotion and limits."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .. import functional as F
from ..core.tensor.dtype import bfloat16
from ..tensor import Tensor
from . import _support

__all__ = [
    "astype",
    "bfloat16",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(n) for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(n) for n in ("float16", "float32", "float64"))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@dataclass(frozen=True)
class FloatLimits:
    """What :func:`finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class IntLimits:
    """What :func:`iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def _dtype_of(x: Any) -> np.dtype[Any]:
    return np.dtype(x.dtype if isinstance(x, Tensor) else x)


def astype(x: Tensor, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """``x`` in another dtype; without ``copy``, x itself where it has that dtype.

    Raises:
        TypeError: for complex numbers that would become real.
    """
    _support.expect("astype", x)
    if _support.kind(x.dtype) == "c" and _support.kind(dtype) != "c":
        raise TypeError(f"astype: {x.dtype} does not become {dtype}; take real() or imag()")
    if device is not None:
        x = x.to(device)
    if x.dtype == dtype:
        return F.copy(x) if copy else x
    return x.astype(dtype)


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Tensors broadcast against one another."""
    _support.expect("broadcast_arrays", *arrays)
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which shapes broadcast; ValueError where there is none."""
    return np.broadcast_shapes(*shapes)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """``x`` under a shape to which it broadcasts."""
    _support.expect("broadcast_to", x)
    return x if x.shape == tuple(shape) else F.broadcast_to(x, shape)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether promotion leads from one dtype (or that of a Tensor) to another."""
    source, target = _dtype_of(from_), _dtype_of(to)
    try:
        return _support.promoted_dtype("can_cast", source, target) == target
    except TypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float or complex dtype; for complex ones, of the parts."""
    dtype = _dtype_of(type)
    if _support.kind(dtype) not in "fc":
        raise TypeError(f"finfo: expected a float or complex dtype, got {dtype}")
    limits: Callable[[Any], Any] = ml_dtypes.finfo if dtype == bfloat16 else np.finfo
    i = limits(dtype)
    return FloatLimits(
        bits=int(i.bits),
        eps=float(i.eps),
        max=float(i.max),
        min=float(i.min),
        smallest_normal=float(i.smallest_normal),
        dtype=np.dtype(i.dtype),
    )


def iinfo(type: Any, /) -> IntLimits:
    """The limits of an integer dtype."""
    dtype = _dtype_of(type)
    if _support.kind(dtype) not in "iu":
        raise TypeError(f"iinfo: expected an integer dtype, got {dtype}")
    i = np.iinfo(dtype)
    return IntLimits(int(i.bits), int(i.max), int(i.min), dtype)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind: a dtype, a name of the standard such as "integral", or a tuple.

    Raises:
        ValueError: for a kind that the standard does not name.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: expected one of {', '.join(_KINDS)}; got {kind!r}")
        return _support.kind(dtype) in _KINDS[kind]
    return np.dtype(dtype) == np.dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype to which Tensors and dtypes promote; Python numbers do not count.

    Raises:
        TypeError: where the standard has no rule, as for integers with floats.
    """
    numbers = (builtins.bool, int, float, complex)
    given = [x for x in arrays_and_dtypes if not isinstance(x, numbers)]
    if not given:
        raise ValueError("result_type: expected a Tensor or a dtype")
    return _support.promoted_dtype("result_type", *(_dtype_of(x) for x in given))
