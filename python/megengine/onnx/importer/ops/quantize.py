"""Quantised tensors. Sums of products of integers are exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import host, op
from ..values import (
    TENSOR_DTYPES,
    AnyTensor,
    Array,
    dtype_from_onnx,
    dtype_of,
    shape_of,
    to_array,
    to_tensor,
)
from .math import round_half_even
from .nn import convolve, or_ones, window_pads
from .tensor import cast_array, cast_value

# ---- to and from integers -----------------------------------------------------------------------


def _spread(v: Any, shape: tuple[int, ...], axis: int, block_size: int) -> Any:
    """A scale or zero point in a shape that broadcasts against the tensor."""
    sizes = shape_of(v)
    if len(sizes) == 0 or (len(sizes) == 1 and sizes[0] == 1):
        return v.reshape(()) if isinstance(v, np.ndarray) else F.reshape(v, (1,) * len(shape))
    i = axis % len(shape)
    if len(sizes) == 1 and not block_size:
        return v.reshape(tuple(sizes[0] if k == i else 1 for k in range(len(shape))))
    if not block_size:
        return v
    wide = np.repeat(to_array(v), block_size, axis=i)
    return np.take(wide, np.arange(shape[i]), i)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits: Any = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def quantized(x: AnyTensor, scale: Any, zero_point: Any, dtype: np.dtype[Any]) -> AnyTensor:
    """Tensors in integers: x / scale rounded, plus the zero point, within the range."""
    low, high = _limits(dtype)
    if isinstance(x, Tensor) and dtype in TENSOR_DTYPES:
        steps = round_half_even(x / _as(scale, x))
        if zero_point is not None:
            steps = steps + _as(zero_point, x)
        return F.clip(steps, float(low), float(high)).astype(dtype)
    array = to_array(x)
    with np.errstate(all="ignore"):
        whole = np.rint(array / to_array(scale)).astype(np.float32)
    if zero_point is not None:
        whole = whole + to_array(zero_point).astype(np.float32)
    return whole.clip(low, high).astype(np.int32).astype(dtype)


def _as(v: Any, x: Tensor) -> Tensor:
    """A scale or zero point as a Tensor in the dtype of x."""
    if isinstance(v, Tensor):
        return v.astype(x.dtype)
    return to_tensor(to_array(v).astype(np.dtype(x.dtype)))


@op("QuantizeLinear", since=10)
def quantize_linear(
    x: AnyTensor,
    scale: AnyTensor,
    zero_point: AnyTensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> AnyTensor:
    dtype = np.dtype(np.uint8)
    if zero_point is not None:
        dtype = dtype_of(zero_point)
    elif output_dtype:
        dtype = dtype_from_onnx(output_dtype)
    wide = dtype_from_onnx(precision) if precision else dtype_of(scale)
    x, scale = cast_value(x, wide), cast_value(scale, wide)
    shape = shape_of(x)
    scale = _spread(scale, shape, axis, block_size)
    if zero_point is not None:
        zero_point = _spread(zero_point, shape, axis, block_size)
    if _is_integer(dtype):
        return quantized(x, scale, zero_point, dtype)
    quotient = to_array(x) / to_array(scale)
    if zero_point is not None:
        quotient = quotient + to_array(zero_point).astype(quotient.dtype)
    return cast_array(quotient, dtype, bool(saturate))


def _dequantized(
    x: Any, scale: Any, zero_point: Any, axis: int, block_size: int, output_dtype: int
) -> Any:
    shape = shape_of(x)
    dtype = dtype_from_onnx(output_dtype) if output_dtype else dtype_of(scale)
    scale = _spread(scale, shape, axis, block_size)
    if isinstance(x, Tensor):
        steps = x.astype(dtype)
        if zero_point is not None:
            steps = steps - _as(_spread(zero_point, shape, axis, block_size), steps)
        return steps * _as(scale, steps)
    steps_array = x.astype(np.float32)
    if zero_point is not None:
        zero = _spread(zero_point, shape, axis, block_size)
        steps_array = steps_array - to_array(zero).astype(np.float32)
    return (steps_array * to_array(scale).astype(np.float32)).astype(dtype)


@op("DequantizeLinear", since=10)
def dequantize_linear(
    x: AnyTensor,
    scale: AnyTensor,
    zero_point: AnyTensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> AnyTensor:
    found = _dequantized(x, scale, zero_point, axis, block_size, output_dtype)
    return to_tensor(found) if dtype_of(found) in TENSOR_DTYPES else found


@host("DequantizeLinear", since=10)
def dequantize_array(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    return np.asarray(_dequantized(x, scale, zero_point, axis, block_size, output_dtype))


# ---- products -----------------------------------------------------------------------------------

_EXACT = 2**24  # whole numbers up to this one are exact in float32


def _steps(x: Tensor, zero_point: AnyTensor | None, terms: int, last: bool) -> Tensor:
    """Integers less their zero point, in a float dtype in which sums of products are exact."""
    dtype = "float32" if terms * 255 * 255 <= _EXACT else "float64"
    steps = x.astype(dtype)
    if zero_point is None:
        return steps
    zero = _as(zero_point, steps)
    if zero.ndim == 1 and zero.size > 1:
        # One for each row of the left matrix, or column of the right.
        zero = zero if last else F.reshape(zero, (zero.size, 1))
    elif zero.ndim == 1:
        zero = F.reshape(zero, ())
    return steps - zero


def _integer_product(
    a: Tensor, b: Tensor, a_zero: AnyTensor | None, b_zero: AnyTensor | None
) -> Tensor:
    terms = a._tuple_shape[-1]
    return F.matmul(_steps(a, a_zero, terms, False), _steps(b, b_zero, terms, True))


@op("MatMulInteger", since=10)
def matmul_integer(
    a: Tensor,
    b: Tensor,
    a_zero_point: AnyTensor | None = None,
    b_zero_point: AnyTensor | None = None,
) -> Tensor:
    return _integer_product(a, b, a_zero_point, b_zero_point).astype("int32")


@op("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Tensor,
    a_scale: AnyTensor,
    a_zero_point: AnyTensor,
    b: Tensor,
    b_scale: AnyTensor,
    b_zero_point: AnyTensor,
    y_scale: AnyTensor,
    y_zero_point: AnyTensor,
) -> AnyTensor:
    product = _integer_product(a, b, a_zero_point, b_zero_point).astype("float32")
    wide = [_as(_column(s, i), product) for i, s in enumerate((a_scale, b_scale, y_scale))]
    factor = wide[2] / (wide[0] * wide[1])
    return quantized(product, factor, _column(y_zero_point, 2), dtype_of(y_zero_point))


def _column(v: AnyTensor, which: int) -> AnyTensor:
    """What the left matrix (0) has for each row as a column; the others as they are."""
    if len(shape_of(v)) == 1:
        if shape_of(v)[0] == 1:
            return v.reshape(())
        if which != 1:
            return v.reshape((shape_of(v)[0], 1))
    return v


@op("ConvInteger", since=10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: AnyTensor | None = None,
    w_zero_point: AnyTensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    sums = _integer_convolution(
        x, w, x_zero_point, w_zero_point, auto_pad, dilations, group, pads, strides
    )
    return sums.astype("int32")


def _integer_convolution(
    x: Tensor,
    w: Tensor,
    x_zero: AnyTensor | None,
    w_zero: AnyTensor | None,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    group: int,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Tensor:
    n = x.ndim - 2
    terms = w.size // w._tuple_shape[0]
    if w_zero is not None and len(shape_of(w_zero)) == 1 and shape_of(w_zero)[0] > 1:
        w_zero = w_zero.reshape((-1,) + (1,) * (n + 1))
    steps, gaps = or_ones(strides, n), or_ones(dilations, n)
    widths = window_pads(auto_pad, pads, x._tuple_shape[2:], w._tuple_shape[2:], steps, gaps)
    a, b = _steps(x, x_zero, terms, True), _steps(w, w_zero, terms, True)
    return convolve(a, b, None, steps, widths, gaps, group)


@op("QLinearConv", since=10)
def qlinear_conv(
    x: Tensor,
    x_scale: AnyTensor,
    x_zero_point: AnyTensor,
    w: Tensor,
    w_scale: AnyTensor,
    w_zero_point: AnyTensor,
    y_scale: AnyTensor,
    y_zero_point: AnyTensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> AnyTensor:
    sums = _integer_convolution(
        x, w, x_zero_point, w_zero_point, auto_pad, dilations, group, pads, strides
    )
    lead = (1, -1) + (1,) * (x.ndim - 2)
    if b is not None:
        sums = sums + F.reshape(b.astype(sums.dtype), lead)
    wide = sums.astype("float32")
    scale = _as(w_scale, wide)
    scale = F.reshape(scale, lead if scale.size > 1 else ())
    factor = _as(y_scale, wide) / (_as(x_scale, wide) * scale)
    return quantized(wide, factor, y_zero_point, dtype_of(y_zero_point))
