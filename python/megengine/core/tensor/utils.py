"""Conversions that functions of the public modules, and some programs, use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ... import _core
from ..._core import CompNode, apply, result_type
from ...device import as_device
from ...tensor import Tensor
from .dtype import is_dtype_equal, is_quantize
from .subgraph import interpret_subgraph, subgraph, subgraph_fn

__all__ = [
    "Const",
    "apply",
    "as_device",
    "astensor1d",
    "astensor1d_cpp",
    "astype_cpp",
    "cast_tensors",
    "convert_inputs",
    "convert_inputs_cpp",
    "convert_single_value",
    "convert_single_value_cpp",
    "dtype_promotion",
    "get_convert_inputs",
    "get_device",
    "interpret_subgraph",
    "is_dtype_equal",
    "is_quantize",
    "isscalar",
    "make_const",
    "make_shape_tuple",
    "result_type",
    "set_convert_inputs",
    "subgraph",
    "subgraph_fn",
]

_convert_inputs_enabled = True


def get_convert_inputs() -> bool:
    """Whether :func:`convert_inputs` converts; True at first."""
    return _convert_inputs_enabled


def set_convert_inputs(flag: bool) -> bool:
    """Sets whether :func:`convert_inputs` converts its arguments, or gives them back as they are.

    Returns:
        what was set before.
    """
    global _convert_inputs_enabled
    before, _convert_inputs_enabled = _convert_inputs_enabled, bool(flag)
    return before


def dtype_promotion(*args: Any) -> np.dtype[Any]:
    """The dtype of an operation on these values, given one by one or as one list.

    >>> dtype_promotion(Const([1.0]), 2)
    dtype('float32')
    """
    return result_type(*_one_by_one(args))


def _one_by_one(args: Sequence[Any]) -> Sequence[Any]:
    return args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args


def get_device(*inputs: Any) -> CompNode:
    """The device of the first Tensor among inputs, given one by one or as a list.

    The default device where there is none.

    >>> import megengine as mge
    >>> get_device([1, mge.tensor([1.0], device="cpu0")])
    CompNode("cpu0:0" from "cpu0:0")
    """
    for x in _one_by_one(inputs):
        if isinstance(x, Tensor):
            return x.device
    return _core.default_device()


def Const(value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A Tensor of constant value.

    >>> Const(1, dtype="float32")
    Tensor(1.0, device=xpux:0)
    """
    return Tensor(value, dtype=dtype, device=device)


def make_const(*args: Any, **kwargs: Any) -> NoReturn:
    """Would put a constant into a static graph of the reference.

    Raises:
        NotImplementedError: always. :func:`Const` makes a Tensor.
    """
    raise NotImplementedError("make_const: there are no static graphs here; Const() makes a Tensor")


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
    if not _convert_inputs_enabled:
        return args
    given = [a for a in args if a is not None]
    dtype = result_type(*given)
    device = device or get_device(given)
    return tuple(None if a is None else convert_single_value(a, dtype, device) for a in args)


def convert_inputs_cpp(*args: Any) -> tuple[Tensor | None, ...]:
    """:func:`convert_inputs` with the device as the last argument."""
    return convert_inputs(*args[:-1], device=args[-1])


def convert_single_value_cpp(v: Any, dtype: Any, device: Any) -> Tensor:
    """:func:`convert_single_value` by position."""
    return convert_single_value(v, dtype, device)


def astype_cpp(x: Tensor, dtype: Any) -> Tensor:
    """``x.astype(dtype)`` as a function."""
    return x.astype(dtype)


def astensor1d_cpp(x: Any, dtype: Any, device: Any, reference: Sequence[Any]) -> Tensor:
    """:func:`astensor1d` by position."""
    return astensor1d(x, *reference, dtype=dtype, device=device)


def _normalize_axis(ndim: int, axis: int | Sequence[int], reverse: bool = False) -> int | list[int]:
    """Axes as numbers from 0 on; a list of them sorted, the highest first with ``reverse``."""

    def normal(a: int) -> int:
        assert -ndim <= a < ndim, f"axis {a} is out of bounds for tensor of dimension {ndim}"
        return a % ndim

    if isinstance(axis, (list, tuple)):
        axes = sorted((normal(a) for a in axis), reverse=reverse)
        assert len(set(axes)) == len(axes), f"axis {axis} contains duplicated indices"
        return axes
    assert isinstance(axis, int)
    return normal(axis)


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
