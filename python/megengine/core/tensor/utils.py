"""Conversions that functions of the public modules, and some programs, use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._core import CompNode, apply, result_type
from ...tensor import Tensor
from .dtype import is_dtype_equal

__all__ = [
    "Const",
    "apply",
    "astensor1d",
    "cast_tensors",
    "convert_inputs",
    "convert_single_value",
    "dtype_promotion",
    "get_device",
    "is_dtype_equal",
    "isscalar",
    "make_shape_tuple",
    "result_type",
]

dtype_promotion = result_type


def get_device(inputs: Iterable[Any]) -> CompNode:
    """The device of the first Tensor among inputs, or the default device.

    >>> import megengine as mge
    >>> get_device([1, mge.tensor([1.0], device="cpu0")])
    CompNode("cpu0:0" from "cpu0:0")
    """
    for x in inputs:
        if isinstance(x, Tensor):
            return x.device
    return _core.default_device()


def Const(value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor of constant value.

    >>> Const(1, dtype="float32")
    Tensor(1.0, device=xpux:0)
    """
    return Tensor(value, dtype=dtype, device=device)


def convert_single_value(v: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor of v; a Tensor that has this dtype already is given back.

    >>> convert_single_value([1, 2], dtype="float32")
    Tensor([1. 2.], device=xpux:0)
    """
    if isinstance(v, Tensor):
        return v if dtype is None or is_dtype_equal(v.dtype, dtype) else v.astype(dtype)
    return Tensor(v, dtype=dtype, device=device)


def convert_inputs(*args: Any, device: Any = None) -> tuple[Tensor | None, ...]:
    """Each argument as a Tensor of the dtype to which all promote; None stays None.

    >>> convert_inputs(Const([1.0, 2.0]), 3)
    (Tensor([1. 2.], device=xpux:0), Tensor(3.0, device=xpux:0))
    """
    given = [a for a in args if a is not None]
    dtype = result_type(*given)
    device = device or get_device(given)
    return tuple(None if a is None else convert_single_value(a, dtype, device) for a in args)


def cast_tensors(*args: Tensor, promote: bool = False) -> tuple[Tensor, ...]:
    """The Tensors in one dtype: the one they promote to, or float32 without ``promote``."""
    dtype = result_type(*args) if promote else np.dtype("float32")
    return tuple(convert_single_value(a, dtype) for a in args)


def isscalar(x: Any) -> bool:
    """Whether x is a number or a Tensor or array of no dimensions.

    >>> isscalar(1.0), isscalar(Const([1.0]))
    (True, False)
    """
    return x.ndim == 0 if isinstance(x, Tensor) else bool(np.isscalar(x) or np.ndim(x) == 0)


def astensor1d(x: Any, *reference: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """x, a number or a sequence of numbers and 0-d Tensors, as a 1-d Tensor.

    >>> astensor1d([1, Const(2)], dtype="int32")
    Tensor([1 2], dtype=int32, device=xpux:0)

    Raises:
        ValueError: if x has more than one dimension.
    """
    device = device or get_device(reference)
    if not isinstance(x, Tensor):
        x = Tensor(x, dtype=dtype, device=device)
    if x.ndim > 1:
        raise ValueError(f"astensor1d: expected at most one dimension, got shape {x.shape}")
    x = x.reshape(-1) if x.ndim == 0 else x
    return convert_single_value(x, dtype)


def make_shape_tuple(shape: int | Tensor | Sequence[Any]) -> tuple[int, ...]:
    """A shape given as ints, Tensors or a mixture, nested or not, as a tuple of ints.

    >>> make_shape_tuple((2, Const([3, 4])))
    (2, 3, 4)
    """
    if isinstance(shape, Tensor):
        return _core.make_shape(shape)
    if isinstance(shape, (list, tuple)):
        return tuple(n for part in shape for n in make_shape_tuple(part))
    return _core.make_shape(shape)
