"""What flows between the steps of a graph."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from ... import _core
from ...tensor import Tensor

Array: TypeAlias = np.ndarray[Any, Any]

AnyTensor: TypeAlias = Tensor | Array

# A Tensor, an array on the host, a sequence of these, or None: an input or optional without value.
Value: TypeAlias = Tensor | Array | list[Any] | None

TENSOR_DTYPES = frozenset(np.dtype(getattr(ml_dtypes, name, name)) for name in _core.dtype_names())


class Constant:
    """An array known when the model is loaded, with the Tensor of it once one is asked for."""

    __slots__ = ("_tensor", "array")

    def __init__(self, array: Array) -> None:
        self.array = array
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The Tensor of the array."""
        if self._tensor is None:
            self._tensor = to_tensor(self.array)
        return self._tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.array,)


def to_tensor(value: Any) -> Tensor:
    """A Tensor of a value, in its dtype."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype not in TENSOR_DTYPES:
            raise NotImplementedError(
                f"expected a dtype that Tensors have, got {dtype_name(array.dtype)}"
            )
        return Tensor(array, dtype=array.dtype)
    raise TypeError(f"expected a tensor, got {_kind(value)}")


def to_array(value: Any) -> Array:
    """The elements of a value on the host. Reading a Tensor back waits for it to be computed."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    raise TypeError(f"expected a tensor, got {_kind(value)}")


def to_any(value: Any) -> AnyTensor:
    """The value itself, where it is a tensor of either kind."""
    return value if isinstance(value, Tensor) else to_array(value)


def _kind(value: Any) -> str:
    if value is None:
        return "an optional without value"
    return "a sequence" if isinstance(value, list) else type(value).__name__


def shape_of(value: AnyTensor) -> tuple[int, ...]:
    """The shape as ints, inside traced calls too."""
    return value._tuple_shape if isinstance(value, Tensor) else value.shape


def dtype_of(value: AnyTensor) -> np.dtype[Any]:
    """The dtype, as a NumPy one."""
    return np.dtype(value.dtype)


def dtype_from_onnx(elem_type: int) -> np.dtype[Any]:
    """The NumPy dtype of an element type of ONNX; strings are objects.

    Raises:
        ValueError: where there is no such type.
    """
    if elem_type == TensorProto.STRING:
        return np.dtype(object)
    try:
        return np.dtype(tensor_dtype_to_np_dtype(elem_type))
    except KeyError:
        raise ValueError(f"ONNX has no element type {elem_type}") from None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype; ``string`` for objects."""
    return "string" if dtype.kind in "OUS" else dtype.name


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether Tensors of the dtype hold real numbers: float16, bfloat16, float32 and float64."""
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)
