"""Element-wise functions.

Where the core has no kernel NumPy computes, and asking for a gradient raises NotImplementedError:
complex numbers in exp, log, sqrt, sign and their like, integer powers, bits of integers, and
copysign, hypot, nextafter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Tensor
from . import _support

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def _math(op: str, function: Callable[..., Tensor], numpy: Any, x: Tensor) -> Tensor:
    """A function of floats by the core, of complex numbers by NumPy."""
    _support.expect(op, x, kinds="fc")
    return _support.in_numpy(op, numpy, x) if _support.kind(x.dtype) == "c" else function(x)


def _complex_expm1(z: Any) -> Any:
    """exp(z) - 1 without cancellation, and with the special values of the standard."""
    a, b = z.astype(np.complex128).real, z.imag.astype(np.float64)
    # exp(a) cos(b) - 1, in parts that are as small as the result
    real = np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2
    imag = np.exp(a) * np.sin(b)
    real = np.where(b == 0, np.expm1(a), np.where(a == -np.inf, -1.0, real))
    real = np.where((a == np.inf) & ~np.isfinite(b), np.inf, real)
    imag = np.where(b == 0, b, np.where((a == -np.inf) & ~np.isfinite(b), 0.0, imag))
    out = np.empty(z.shape, np.complex128)
    # Where exp(a) is too large for a float, though its products need not be.
    large = np.isfinite(a) & (a > 600)
    whole = np.exp(np.where(large, z, 0).astype(np.complex128))
    out.real = np.where(large, whole.real, real)
    out.imag = np.where(large & (b != 0), whole.imag, imag)
    return out.astype(z.dtype)


def _complex_log1p(z: Any) -> Any:
    """log(1 + z) without cancellation near 0."""
    a, b = z.astype(np.complex128).real, z.imag.astype(np.float64)
    above = np.array(z, np.complex128)
    above.real += 1  # z + 1 would lose the sign of an imaginary -0.0
    out = np.asarray(np.log(above))
    out.real = np.where(np.abs(z) < 0.5, np.log1p(a * (a + 2) + b * b) / 2, out.real)
    return out.astype(z.dtype)


def _whole(op: str, numpy: Any, x: Tensor) -> Tensor:
    """A function that gives whole numbers: integers stay, and no gradient is lost."""
    _support.expect(op, x, kinds="iufc")
    if _support.kind(x.dtype) in "iu":
        return x
    return _support.from_array(numpy(x.numpy()), x.device)


def _bits(op: str, logical: Any, numpy: Any, x1: Any, x2: Any) -> Tensor:
    a, b = _support.promoted(op, x1, x2, kinds="biu")
    return logical(a, b) if _support.kind(a.dtype) == "b" else _support.in_numpy(op, numpy, a, b)


def abs(x: Tensor, /) -> Tensor:
    """The magnitude."""
    _support.expect("abs", x, kinds="iufc")
    return x if _support.kind(x.dtype) == "u" else F.abs(x)


def acos(x: Tensor, /) -> Tensor:
    """The arc cosine of floats or complex numbers."""
    return _math("acos", F.acos, np.arccos, x)


def acosh(x: Tensor, /) -> Tensor:
    """The area hyperbolic cosine of floats or complex numbers."""
    return _math("acosh", F.acosh, np.arccosh, x)


def add(x1: Any, x2: Any, /) -> Tensor:
    """The sum."""
    return F.add(*_support.promoted("add", x1, x2, kinds="iufc"))


def asin(x: Tensor, /) -> Tensor:
    """The arc sine of floats or complex numbers."""
    return _math("asin", F.asin, np.arcsin, x)


def asinh(x: Tensor, /) -> Tensor:
    """The area hyperbolic sine of floats or complex numbers."""
    return _math("asinh", F.asinh, np.arcsinh, x)


def atan(x: Tensor, /) -> Tensor:
    """The arc tangent of floats or complex numbers."""
    return _math("atan", F.atan, np.arctan, x)


def atan2(x1: Any, x2: Any, /) -> Tensor:
    """The angle of the point (x2, x1)."""
    return F.atan2(*_support.promoted("atan2", x1, x2, kinds="f"))


def atanh(x: Tensor, /) -> Tensor:
    """The area hyperbolic tangent of floats or complex numbers."""
    return _math("atanh", F.atanh, np.arctanh, x)


def bitwise_and(x1: Any, x2: Any, /) -> Tensor:
    """The and of bits, or of bools."""
    return _bits("bitwise_and", F.logical_and, np.bitwise_and, x1, x2)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """The opposite of each bit, or of bools."""
    _support.expect("bitwise_invert", x, kinds="biu")
    if _support.kind(x.dtype) == "b":
        return F.logical_not(x)
    return _support.in_numpy("bitwise_invert", np.invert, x)


def bitwise_left_shift(x1: Any, x2: Any, /) -> Tensor:
    """Integers times a power of 2."""
    return F.left_shift(*_support.promoted("bitwise_left_shift", x1, x2, kinds="iu"))


def bitwise_or(x1: Any, x2: Any, /) -> Tensor:
    """The or of bits, or of bools."""
    return _bits("bitwise_or", F.logical_or, np.bitwise_or, x1, x2)


def bitwise_right_shift(x1: Any, x2: Any, /) -> Tensor:
    """Integers over a power of 2, rounded down."""
    return F.right_shift(*_support.promoted("bitwise_right_shift", x1, x2, kinds="iu"))


def bitwise_xor(x1: Any, x2: Any, /) -> Tensor:
    """The xor of bits, or of bools."""
    return _bits("bitwise_xor", F.logical_xor, np.bitwise_xor, x1, x2)


def ceil(x: Tensor, /) -> Tensor:
    """The smallest whole number not below each element."""
    return _whole("ceil", np.ceil, x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements, no smaller than ``min`` and no larger than ``max``; the dtype is that of x."""
    _support.expect("clip", x, kinds="iuf")
    out = x
    for bound, function in ((min, F.maximum), (max, F.minimum)):
        if bound is not None:
            limit = bound.astype(x.dtype) if isinstance(bound, Tensor) else bound
            out = function(*_support.promoted("clip", out, limit))
    return out


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate; x itself where it is real."""
    _support.expect("conj", x, kinds="iufc")
    if _support.kind(x.dtype) != "c":
        return x
    return F.complex(F.real(x), F.neg(F.imag(x)))


def copysign(x1: Any, x2: Any, /) -> Tensor:
    """The magnitude of x1 with the sign of x2."""
    a, b = _support.promoted("copysign", x1, x2, kinds="f")
    return _support.in_numpy("copysign", np.copysign, a, b)


def cos(x: Tensor, /) -> Tensor:
    """The cosine of floats or complex numbers."""
    return _math("cos", F.cos, np.cos, x)


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine of floats or complex numbers."""
    return _math("cosh", F.cosh, np.cosh, x)


def divide(x1: Any, x2: Any, /) -> Tensor:
    """The quotient of floats or complex numbers."""
    return F.div(*_support.promoted("divide", x1, x2, kinds="fc"))


def equal(x1: Any, x2: Any, /) -> Tensor:
    """Where elements are equal."""
    return F.equal(*_support.promoted("equal", x1, x2, kinds="biufc"))


def exp(x: Tensor, /) -> Tensor:
    """The exponential of floats or complex numbers."""
    return _math("exp", F.exp, np.exp, x)


def expm1(x: Tensor, /) -> Tensor:
    """The exponential minus 1 of floats or complex numbers."""
    return _math("expm1", F.expm1, _complex_expm1, x)


def floor(x: Tensor, /) -> Tensor:
    """The largest whole number not above each element."""
    return _whole("floor", np.floor, x)


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """The quotient, rounded down; infinities divide as in :func:`divide`."""
    a, b = _support.promoted("floor_divide", x1, x2, kinds="iuf")
    out = F.floor_div(a, b)
    if _support.kind(a.dtype) != "f":
        return out
    infinite = F.logical_or(F.isinf(a), F.isinf(b))
    return F.where(infinite, F.div(a.detach(), b.detach()), out)


def greater(x1: Any, x2: Any, /) -> Tensor:
    """Where x1 > x2."""
    return F.greater(*_support.promoted("greater", x1, x2, kinds="iuf"))


def greater_equal(x1: Any, x2: Any, /) -> Tensor:
    """Where x1 >= x2."""
    return F.greater_equal(*_support.promoted("greater_equal", x1, x2, kinds="iuf"))


def hypot(x1: Any, x2: Any, /) -> Tensor:
    """The length of the vector (x1, x2)."""
    a, b = _support.promoted("hypot", x1, x2, kinds="f")
    return _support.in_numpy("hypot", np.hypot, a, b)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part of complex numbers."""
    _support.expect("imag", x, kinds="c")
    return F.imag(x)


def isfinite(x: Tensor, /) -> Tensor:
    """Where elements are neither infinite nor NaN."""
    _support.expect("isfinite", x, kinds="iufc")
    return _support.from_array(np.isfinite(x.numpy()), x.device)


def isinf(x: Tensor, /) -> Tensor:
    """Where elements are infinite."""
    _support.expect("isinf", x, kinds="iufc")
    return _support.from_array(np.isinf(x.numpy()), x.device)


def isnan(x: Tensor, /) -> Tensor:
    """Where elements are NaN."""
    _support.expect("isnan", x, kinds="iufc")
    return F.not_equal(x, x)


def less(x1: Any, x2: Any, /) -> Tensor:
    """Where x1 < x2."""
    return F.less(*_support.promoted("less", x1, x2, kinds="iuf"))


def less_equal(x1: Any, x2: Any, /) -> Tensor:
    """Where x1 <= x2."""
    return F.less_equal(*_support.promoted("less_equal", x1, x2, kinds="iuf"))


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm of floats or complex numbers."""
    return _math("log", F.log, np.log, x)


def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10."""
    return _math("log10", lambda v: F.log(v) / math.log(10), np.log10, x)


def log1p(x: Tensor, /) -> Tensor:
    """The logarithm of 1 + x of floats or complex numbers."""
    return _math("log1p", F.log1p, _complex_log1p, x)


def log2(x: Tensor, /) -> Tensor:
    """The logarithm to base 2."""
    return _math("log2", lambda v: F.log(v) / math.log(2), np.log2, x)


def logaddexp(x1: Any, x2: Any, /) -> Tensor:
    """The logarithm of a sum of exponentials."""
    return F.logaddexp(*_support.promoted("logaddexp", x1, x2, kinds="f"))


def logical_and(x1: Any, x2: Any, /) -> Tensor:
    """Where both are true."""
    return F.logical_and(*_support.promoted("logical_and", x1, x2, kinds="b"))


def logical_not(x: Tensor, /) -> Tensor:
    """Where an element is false."""
    _support.expect("logical_not", x, kinds="b")
    return F.logical_not(x)


def logical_or(x1: Any, x2: Any, /) -> Tensor:
    """Where one is true."""
    return F.logical_or(*_support.promoted("logical_or", x1, x2, kinds="b"))


def logical_xor(x1: Any, x2: Any, /) -> Tensor:
    """Where exactly one is true."""
    return F.logical_xor(*_support.promoted("logical_xor", x1, x2, kinds="b"))


def maximum(x1: Any, x2: Any, /) -> Tensor:
    """The larger element; NaN where one is."""
    return F.maximum(*_support.promoted("maximum", x1, x2, kinds="iuf"))


def minimum(x1: Any, x2: Any, /) -> Tensor:
    """The smaller element; NaN where one is."""
    return F.minimum(*_support.promoted("minimum", x1, x2, kinds="iuf"))


def multiply(x1: Any, x2: Any, /) -> Tensor:
    """The product."""
    return F.mul(*_support.promoted("multiply", x1, x2, kinds="iufc"))


def negative(x: Tensor, /) -> Tensor:
    """The elements with the other sign."""
    _support.expect("negative", x, kinds="iufc")
    return F.neg(x)


def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The next float after x1 in the direction of x2."""
    a, b = _support.promoted("nextafter", x1, x2, kinds="f")
    return _support.in_numpy("nextafter", np.nextafter, a, b)


def not_equal(x1: Any, x2: Any, /) -> Tensor:
    """Where elements differ."""
    return F.not_equal(*_support.promoted("not_equal", x1, x2, kinds="biufc"))


def positive(x: Tensor, /) -> Tensor:
    """The elements as they are."""
    _support.expect("positive", x, kinds="iufc")
    return x


def pow(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power x2. Negative powers of integers raise ValueError."""
    a, b = _support.promoted("pow", x1, x2, kinds="iufc")
    if _support.kind(a.dtype) == "f":
        return F.pow(a, b)
    return _support.in_numpy("pow", np.power, a, b)


def real(x: Tensor, /) -> Tensor:
    """The real part; x itself where it is real."""
    _support.expect("real", x, kinds="iufc")
    return F.real(x) if _support.kind(x.dtype) == "c" else x


def reciprocal(x: Tensor, /) -> Tensor:
    """1 over each element."""
    _support.expect("reciprocal", x, kinds="fc")
    return F.div(1.0, x)


def remainder(x1: Any, x2: Any, /) -> Tensor:
    """What :func:`floor_divide` leaves, with the sign of the divisor."""
    return F.mod(*_support.promoted("remainder", x1, x2, kinds="iuf"))


def round(x: Tensor, /) -> Tensor:
    """The nearest whole number; halves go to the even one."""
    return _whole("round", np.round, x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; z / abs(z) of complex numbers; NaN of NaN."""
    _support.expect("sign", x, kinds="iufc")
    if _support.kind(x.dtype) == "f":
        return F.where(F.not_equal(x, x), x, F.sign(x))
    return _support.in_numpy(
        "sign",
        lambda v: (
            np.where(v == 0, v, v / np.abs(v)).astype(v.dtype)
            if v.dtype.kind == "c"
            else np.sign(v)
        ),
        x,
    )


def signbit(x: Tensor, /) -> Tensor:
    """Where the sign is negative, that of -0.0 and of NaN too."""
    _support.expect("signbit", x, kinds="f")
    return _support.from_array(np.signbit(x.numpy()), x.device)


def sin(x: Tensor, /) -> Tensor:
    """The sine of floats or complex numbers."""
    return _math("sin", F.sin, np.sin, x)


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine of floats or complex numbers."""
    return _math("sinh", F.sinh, np.sinh, x)


def sqrt(x: Tensor, /) -> Tensor:
    """The square root of floats or complex numbers."""
    return _math("sqrt", F.sqrt, np.sqrt, x)


def square(x: Tensor, /) -> Tensor:
    """The elements times themselves."""
    _support.expect("square", x, kinds="iufc")
    return F.mul(x, x)


def subtract(x1: Any, x2: Any, /) -> Tensor:
    """The difference."""
    return F.sub(*_support.promoted("subtract", x1, x2, kinds="iufc"))


def tan(x: Tensor, /) -> Tensor:
    """The tangent of floats or complex numbers."""
    return _math("tan", F.tan, np.tan, x)


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent of floats or complex numbers."""
    return _math("tanh", F.tanh, np.tanh, x)


def trunc(x: Tensor, /) -> Tensor:
    """The whole number next to 0."""
    return _whole("trunc", np.trunc, x)
