"""NumPy's view of our dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ... import _core

__all__ = ["bfloat16", "is_bfloat16", "is_differentible_dtype", "is_dtype_equal"]

bfloat16 = np.dtype(ml_dtypes.bfloat16)


def _plain_array(data: Any) -> tuple[np.ndarray, bool]:
    """What the core reads: an aligned native array, and whether it holds bfloat16 bits."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"tensor: {error}") from None
    if array.dtype == bfloat16:
        return array.view(np.uint16), True
    if array.dtype.kind == "u" and array.dtype.itemsize >= 4:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > (
        16 if array.dtype.kind == "c" else 8
    ):
        raise TypeError(
            f"tensor: expected numbers or booleans, got {type(data).__name__} of dtype "
            f"{array.dtype}"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return array, False


_core._set_numpy(
    np, _plain_array, [bfloat16 if n == "bfloat16" else np.dtype(n) for n in _core.dtype_names()]
)


def is_bfloat16(dtype: Any) -> bool:
    """Whether a dtype is bfloat16.

    >>> is_bfloat16("bfloat16"), is_bfloat16("float32")
    (True, False)
    """
    return dtype == "bfloat16" or dtype == bfloat16


def is_differentible_dtype(dtype: Any) -> bool:
    """Whether tensors of a dtype have gradients: the float types and the complex ones.

    >>> is_differentible_dtype("float16"), is_differentible_dtype("int32")
    (True, False)
    """
    return is_bfloat16(dtype) or np.dtype(dtype).kind in "fc"


def is_dtype_equal(a: Any, b: Any) -> bool:
    """Whether two dtypes, or names of dtypes, are one.

    >>> is_dtype_equal("float32", np.float32)
    True
    """
    return np.dtype(bfloat16 if is_bfloat16(a) else a) == np.dtype(
        bfloat16 if is_bfloat16(b) else b
    )
