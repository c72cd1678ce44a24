"""Arithmetic and functions of one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .... import functional as F
from ...._core import call
from ....core.ops import builtin
from ....tensor import Tensor
from ..registry import host, op
from ..values import AnyTensor, Array, dtype_of, is_float, shape_of, to_array, to_tensor


def like(result: Any, x: Tensor) -> Tensor:
    """A result in the dtype of the input, which some functions widen."""
    return result if result.dtype == x.dtype else result.astype(x.dtype)


# ---- one input ----------------------------------------------------------------------------------


# Files of the first operator sets say which inputs may be overwritten, as consumed_inputs; nothing
# is, here.


def _unary(
    name: str, function: Callable[[Tensor], Tensor], on_array: Callable[[Array], Any] | None
) -> None:
    @op(name)
    def run(x: Tensor, *, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
        return like(function(x), x)

    if on_array is None:
        return

    @host(name)
    def run_on_array(x: Array, *, consumed_inputs: tuple[int, ...] = ()) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(on_array(x), dtype=x.dtype)


def _abs(x: Tensor) -> Tensor:
    return x if dtype_of(x).kind == "u" else F.abs(x)


def round_half_even(x: Tensor) -> Tensor:
    """The nearest whole numbers; halves go to the even one."""
    nearest = F.round(x)  # halves go away from zero
    tie = F.equal(F.abs(nearest - x), 0.5)
    return F.where(tie, 2.0 * F.round(x * 0.5), nearest)


def _reciprocal(x: Tensor) -> Tensor:
    return 1.0 / x


for _name, _function, _array_function in [
    ("Abs", _abs, np.abs),
    ("Acos", F.acos, None),
    ("Acosh", F.acosh, None),
    ("Asin", F.asin, None),
    ("Asinh", F.asinh, None),
    ("Atan", F.atan, None),
    ("Atanh", F.atanh, None),
    ("Ceil", F.ceil, np.ceil),
    ("Cos", F.cos, np.cos),
    ("Cosh", F.cosh, None),
    ("Erf", F.erf, None),
    ("Exp", F.exp, np.exp),
    ("Floor", F.floor, np.floor),
    ("Log", F.log, np.log),
    ("Neg", F.neg, np.negative),
    ("Reciprocal", _reciprocal, np.reciprocal),
    ("Relu", F.relu, None),
    ("Round", round_half_even, np.rint),
    ("Sigmoid", F.sigmoid, None),
    ("Sign", F.sign, np.sign),
    ("Sin", F.sin, np.sin),
    ("Sinh", F.sinh, None),
    ("Softplus", F.softplus, None),
    ("Sqrt", F.sqrt, np.sqrt),
    ("Tan", F.tan, None),
    ("Tanh", F.tanh, np.tanh),
]:
    _unary(_name, _function, _array_function)


# ---- activations with attributes ----------------------------------------------------------------


@op("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
    return F.where(x > 0, x, alpha * F.expm1(F.minimum(x, 0.0)))


@op("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.maximum(x, 0.0) + F.minimum(alpha * F.expm1(F.minimum(x, 0.0) / alpha), 0.0)


@op("Selu")
def selu_1(
    x: Tensor,
    *,
    alpha: float = 1.6732,
    gamma: float = 1.0507,
    consumed_inputs: tuple[int, ...] = (),
) -> Tensor:
    return selu(x, alpha=alpha, gamma=gamma)


@op("Selu", since=6)
def selu(
    x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Tensor:
    return gamma * F.where(x > 0, x, alpha * F.expm1(F.minimum(x, 0.0)))


@op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
    return F.leaky_relu(x, alpha)


@op("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.where(x > alpha, x, F.zeros_like(x))


@op("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: tuple[int, ...] = ()
) -> Tensor:
    return F.clip(alpha * x + beta, 0.0, 1.0)


@op("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return like(F.hswish(x), x)


@op("Softsign")
def softsign(x: Tensor) -> Tensor:
    return x / (1.0 + F.abs(x))


@op("Mish")
def mish(x: Tensor) -> Tensor:
    return x * F.tanh(F.softplus(x))


@op("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1.0 else x * F.sigmoid(alpha * x)


@op("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1.0 + F.tanh(inner))
    if approximate != "none":
        raise ValueError(f"Gelu: expected approximate 'none' or 'tanh', got {approximate!r}")
    return F.gelu(x)


@op("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    below, above = x < -lambd, x > lambd
    return like(F.where(below, x + bias, F.where(above, x - bias, F.zeros_like(x))), x)


@op("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
    # Before version 7, and in files that kept to it, the slope has a value for each channel.
    if slope.ndim == 1 and x.ndim > 2 and slope.size > 1 and x._tuple_shape[-1] != slope.size:
        slope = F.reshape(slope, (slope.size,) + (1,) * (x.ndim - 2))
    return like(F.where(x < 0, x * slope, x), x)


@op("Clip")
def clip_by_attributes(
    x: Tensor,
    *,
    min: float | None = None,
    max: float | None = None,
    consumed_inputs: tuple[int, ...] = (),
) -> Tensor:
    return F.clip(x, min, max) if min is not None or max is not None else x


@op("Clip", since=11)
def clip(x: Tensor, min: AnyTensor | None = None, max: AnyTensor | None = None) -> Tensor:
    low, high = (b.item() if isinstance(b, np.ndarray) else b for b in (min, max))
    if low is None or high is None or low > high:
        x = x if low is None else F.maximum(x, low)
        return x if high is None else F.minimum(x, high)
    return F.clip(x, low, high)


@host("Clip", since=11)
def clip_array(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    if min is not None:
        x = np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


# ---- two inputs ---------------------------------------------------------------------------------


def _aligned(x: Any, y: Any, axis: int | None, broadcast: int) -> Any:
    """The second input, as operator sets before 7 broadcast it: along an axis of the first."""
    if not broadcast or axis is None:
        return y
    lead, ndim = axis % max(x.ndim, 1), len(shape_of(x))
    return y.reshape(shape_of(y) + (1,) * (ndim - lead - len(shape_of(y))))


def _binary(
    name: str, function: Callable[[Any, Any], Any], on_array: Callable[[Any, Any], Any]
) -> None:
    @op(name)
    def run_legacy(
        x: Tensor,
        y: Tensor,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: tuple[int, ...] = (),
    ) -> Tensor:
        return like(function(x, _aligned(x, y, axis, broadcast)), x)

    @host(name)
    def run_legacy_on_arrays(
        x: Array,
        y: Array,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: tuple[int, ...] = (),
    ) -> Array:
        return run_on_arrays(x, _aligned(x, y, axis, broadcast))

    @op(name, since=7)
    def run(x: Tensor, y: Tensor) -> Tensor:
        return like(function(x, y), x)

    @host(name, since=7)
    def run_on_arrays(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(on_array(x, y)).astype(x.dtype, copy=False)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    kind = dtype_of(x).kind
    if kind == "u":
        return x // y
    if kind != "i":
        return x / y
    # Integers are divided towards zero.
    quotient = F.abs(x) // F.abs(y)
    return F.where(F.equal(x < 0, y < 0), quotient, -quotient)


def _divide_arrays(x: Array, y: Array) -> Any:
    if x.dtype.kind == "u":
        return x // y
    if x.dtype.kind != "i":
        return x / y
    safe = np.where(y == 0, 1, y)
    return np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))


def _power(x: Any, y: Any) -> Any:
    if isinstance(x, Tensor) and dtype_of(x).kind in "iu" and not is_float(dtype_of(y)):
        # Exact, where float32 is not.
        return to_tensor(np.power(to_array(x), to_array(y)))
    return x**y


_binary("Add", lambda x, y: x + y, np.add)
_binary("Sub", lambda x, y: x - y, np.subtract)
_binary("Mul", lambda x, y: x * y, np.multiply)
_binary("Div", _divide, _divide_arrays)
_binary("Pow", _power, np.power)


@op("Mod")
def mod(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    if dtype_of(x).kind == "u":
        return like(x % y, x)
    if not fmod:
        return like(x % y, x)
    rest = F.abs(x) % F.abs(y)  # of the sign of x
    return like(F.where(x < 0, -rest, rest), x)


@host("Mod")
def mod_of_arrays(x: Array, y: Array, *, fmod: int = 0) -> Array:
    return np.asarray(np.fmod(x, y) if fmod else np.mod(x, y), dtype=x.dtype)


# ---- any number of inputs -----------------------------------------------------------------------


def _fold_tensors(
    name: str, function: Callable[[Any, Any], Any], on_array: Callable[[Any, Any], Any]
) -> None:
    @op(name)
    def run(*xs: Tensor, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
        return like(reduce(function, xs), xs[0])

    @host(name)
    def run_on_arrays(*xs: Array, consumed_inputs: tuple[int, ...] = ()) -> Array:
        return np.asarray(reduce(on_array, xs), dtype=xs[0].dtype)


_fold_tensors("Max", F.maximum, np.maximum)
_fold_tensors("Min", F.minimum, np.minimum)
_fold_tensors("Sum", F.add, np.add)


@op("Mean")
def mean(*xs: Tensor, consumed_inputs: tuple[int, ...] = ()) -> Tensor:
    return reduce(F.add, xs) / float(len(xs))


# ---- matrices -----------------------------------------------------------------------------------


@op("MatMul")
def matmul(x: Tensor, y: Tensor) -> Tensor:
    if dtype_of(x).kind in "iu":
        return to_tensor(np.matmul(to_array(x), to_array(y)))
    return F.matmul(x, y)


@host("MatMul")
def matmul_of_arrays(x: Array, y: Array) -> Array:
    return np.asarray(np.matmul(x, y))


@op("Gemm")
def gemm_with_broadcast(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@op("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    out = F.matmul(a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    if alpha != 1.0:
        out = out * alpha
    if c is None:
        return out
    return out + (c if beta == 1.0 else c * beta)


@op("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return F.einsum(equation.replace(" ", ""), *xs)


@op("CumSum")
def cumsum(x: Tensor, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    i = int(axis.item()) % max(x.ndim, 1)
    return call(builtin.Cumsum(axis=i, exclusive=bool(exclusive), reverse=bool(reverse)), x)


@host("CumSum")
def cumsum_of_array(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return scan_array(np.cumsum, x, int(axis.item()), bool(exclusive), bool(reverse), 0)


def scan_array(
    function: Any, x: Array, axis: int, exclusive: bool, reverse: bool, start: int
) -> Array:
    """Running sums or products, from either end, with or without the element itself."""
    if reverse:
        x = np.flip(x, axis)
    if exclusive:
        width = [(1, 0) if i == axis % x.ndim else (0, 0) for i in range(x.ndim)]
        x = np.pad(x, width, constant_values=start)
        x = np.delete(x, -1, axis)
    out = np.asarray(function(x, axis=axis), dtype=x.dtype)
    return np.flip(out, axis) if reverse else out


@op("Det")
def det(x: Tensor) -> Tensor:
    # The value comes from NumPy, and its slope is known: det(x) times the transposed inverse.
    array = to_array(x)
    value = to_tensor(np.asarray(np.linalg.det(array), dtype=array.dtype))
    if not np.all(value.numpy()):
        return value  # where there is no inverse, no gradient is given
    inverse = np.linalg.inv(array) * value.numpy()[..., None, None]
    slope = to_tensor(np.ascontiguousarray(np.swapaxes(inverse, -1, -2), dtype=array.dtype))
    return value + F.sum((x - x.detach()) * slope, (-2, -1))
