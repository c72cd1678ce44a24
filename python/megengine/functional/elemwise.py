"""Functions of one element at a time.

Operands may be Tensors, numbers, or what NumPy makes an array of. They broadcast, and mixed dtypes
promote: numbers are weak, so that ``float16 + 1.5`` is float16, and integers that meet
floats become float32. Results keep the memory format of the largest operand.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .._core import call as _call
from ..core.ops import builtin
from ..core.tensor.array_method import _elwise as _elwise
from ..tensor import Tensor

__all__ = [
    "abs",
    "add",
    "acos",
    "asin",
    "atan",
    "atan2",
    "asinh",
    "acosh",
    "atanh",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "div",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_div",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logaddexp",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "neg",
    "not_equal",
    "pow",
    "right_shift",
    "round",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
]

TensorLike: TypeAlias = "Tensor | npt.ArrayLike"

# Made once: a call then costs what the binding costs.
_ABS = builtin.Elemwise(mode="ABS")
_ACOS = builtin.Elemwise(mode="ACOS")
_ACOSH = builtin.Elemwise(mode="ACOSH")
_ADD = builtin.Elemwise(mode="ADD")
_AND = builtin.Elemwise(mode="AND")
_ASIN = builtin.Elemwise(mode="ASIN")
_ASINH = builtin.Elemwise(mode="ASINH")
_ATAN = builtin.Elemwise(mode="ATAN")
_ATAN2 = builtin.Elemwise(mode="ATAN2")
_ATANH = builtin.Elemwise(mode="ATANH")
_CEIL = builtin.Elemwise(mode="CEIL")
_CLIP = builtin.Elemwise(mode="CLIP")
_COS = builtin.Elemwise(mode="COS")
_COSH = builtin.Elemwise(mode="COSH")
_EQ = builtin.Elemwise(mode="EQ")
_ERF = builtin.Elemwise(mode="ERF")
_EXP = builtin.Elemwise(mode="EXP")
_EXPM1 = builtin.Elemwise(mode="EXPM1")
_FLOOR = builtin.Elemwise(mode="FLOOR")
_FLOOR_DIV = builtin.Elemwise(mode="FLOOR_DIV")
_GELU = builtin.Elemwise(mode="GELU")
_HSIGMOID = builtin.Elemwise(mode="HSIGMOID")
_H_SWISH = builtin.Elemwise(mode="H_SWISH")
_LEQ = builtin.Elemwise(mode="LEQ")
_LOG = builtin.Elemwise(mode="LOG")
_LOG1P = builtin.Elemwise(mode="LOG1P")
_LOGSIGMOID = builtin.Elemwise(mode="LOGSIGMOID")
_LOG_SUM_EXP = builtin.Elemwise(mode="LOG_SUM_EXP")
_LT = builtin.Elemwise(mode="LT")
_MAX = builtin.Elemwise(mode="MAX")
_MIN = builtin.Elemwise(mode="MIN")
_MOD = builtin.Elemwise(mode="MOD")
_MUL = builtin.Elemwise(mode="MUL")
_NEGATE = builtin.Elemwise(mode="NEGATE")
_NEQ = builtin.Elemwise(mode="NEQ")
_NOT = builtin.Elemwise(mode="NOT")
_OR = builtin.Elemwise(mode="OR")
_POW = builtin.Elemwise(mode="POW")
_PRELU = builtin.Elemwise(mode="PRELU")
_RELU = builtin.Elemwise(mode="RELU")
_RELU6 = builtin.Elemwise(mode="RELU6")
_ROUND = builtin.Elemwise(mode="ROUND")
_SHL = builtin.Elemwise(mode="SHL")
_SHR = builtin.Elemwise(mode="SHR")
_SIGMOID = builtin.Elemwise(mode="SIGMOID")
_SILU = builtin.Elemwise(mode="SILU")
_SIN = builtin.Elemwise(mode="SIN")
_SINH = builtin.Elemwise(mode="SINH")
_SOFTPLUS = builtin.Elemwise(mode="SOFTPLUS")
_SQRT = builtin.Elemwise(mode="SQRT")
_SQUARE = builtin.Elemwise(mode="SQUARE")
_SUB = builtin.Elemwise(mode="SUB")
_TAN = builtin.Elemwise(mode="TAN")
_TANH = builtin.Elemwise(mode="TANH")
_TRUE_DIV = builtin.Elemwise(mode="TRUE_DIV")
_XOR = builtin.Elemwise(mode="XOR")


def abs(x: TensorLike) -> Tensor:
    """Absolute value of each element.

    The dtype is kept; bool raises TypeError.

    >>> F.abs(mge.tensor([-1.5, 0.0, 2.0]))
    Tensor([1.5 0.  2. ], device=xpux:0)
    """
    return _call(_ABS, x)


def acos(x: TensorLike) -> Tensor:
    """Inverse cosine in radians, in [0, π]; NaN outside [-1, 1].

    Integers give float32.

    >>> F.acos(mge.tensor([1.0, 0.0, -1.0]))
    Tensor([0.     1.5708 3.1416], device=xpux:0)
    """
    return _call(_ACOS, x)


def acosh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1.

    Integers give float32.

    >>> F.acosh(mge.tensor([1.0, 2.0, 3.0]))
    Tensor([0.     1.317  1.7627], device=xpux:0)
    """
    return _call(_ACOSH, x)


def add(x: TensorLike, y: TensorLike) -> Tensor:
    """The sum x + y.

    The dtype is kept; bool raises TypeError.

    >>> F.add(mge.tensor([1.0, 2.0]), 10.0)
    Tensor([11. 12.], device=xpux:0)
    """
    return _call(_ADD, x, y)


def asin(x: TensorLike) -> Tensor:
    """Inverse sine in radians, in [-π/2, π/2]; NaN outside [-1, 1].

    Integers give float32.

    >>> F.asin(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-1.5708  0.      1.5708], device=xpux:0)
    """
    return _call(_ASIN, x)


def asinh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic sine.

    Integers give float32.

    >>> F.asinh(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.8814  0.      0.8814], device=xpux:0)
    """
    return _call(_ASINH, x)


def atan(x: TensorLike) -> Tensor:
    """Inverse tangent in radians, in [-π/2, π/2].

    Everything but float64 and bfloat16 gives float32.

    >>> F.atan(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.7854  0.      0.7854], device=xpux:0)
    """
    # float16 becomes float32 in the reference, which programs may rely on.
    if isinstance(x, Tensor) and x.dtype == np.float16:
        x = x.astype("float32")
    return _call(_ATAN, x)


def atan2(y: TensorLike, x: TensorLike) -> Tensor:
    """The angle of the point (x, y) in radians, in [-π, π].

    Integers give float32.

    >>> F.atan2(mge.tensor([1.0, -1.0]), mge.tensor([0.0, -1.0]))
    Tensor([ 1.5708 -2.3562], device=xpux:0)
    """
    return _call(_ATAN2, y, x)


def atanh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic tangent; ±inf at ±1 and NaN beyond.

    Integers give float32.

    >>> F.atanh(mge.tensor([-0.5, 0.0, 0.5]))
    Tensor([-0.5493  0.      0.5493], device=xpux:0)
    """
    return _call(_ATANH, x)


def ceil(x: TensorLike) -> Tensor:
    """The smallest whole number that is not less than each element. No gradient.

    The dtype is kept; bool raises TypeError.

    >>> F.ceil(mge.tensor([-1.5, 0.2, 2.0]))
    Tensor([-1.  1.  2.], device=xpux:0)
    """
    return _call(_CEIL, x)


def clip(x: TensorLike, lower: TensorLike | None = None, upper: TensorLike | None = None) -> Tensor:
    """Each element, brought into [lower, upper].

    NaN stays NaN. The gradient passes where lower <= x <= upper. Where lower > upper, elements
    below lower become lower and all others upper.

    Args:
        x: the input.
        lower: the lower bound, a number or a tensor that broadcasts with ``x``; None for none.
        upper: the upper bound, alike.

    Raises:
        ValueError: if both bounds are None.

    >>> F.clip(mge.tensor([-2.0, 0.5, 2.0]), -1, 1)
    Tensor([-1.   0.5  1. ], device=xpux:0)
    >>> F.clip(mge.tensor([-2.0, 0.5, 2.0]), lower=0)
    Tensor([0.  0.5 2. ], device=xpux:0)
    """
    if lower is not None and upper is not None:
        return _call(_CLIP, x, lower, upper)
    if lower is None and upper is None:
        raise ValueError("clip: at least one of 'lower' or 'upper' must not be None")
    # An integer has no infinity; nor has it a gradient, which maximum would halve at the bound.
    if isinstance(x, Tensor) and x.dtype.kind in "iu":
        return _call(_MIN, x, upper) if lower is None else _call(_MAX, x, lower)
    if lower is None:
        return _call(_CLIP, x, -math.inf, upper)
    return _call(_CLIP, x, lower, math.inf)


def cos(x: TensorLike) -> Tensor:
    """Cosine of radians, right for arguments of any size.

    Integers give float32.

    >>> F.cos(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([ 1.      0.5403 -0.4161], device=xpux:0)
    """
    return _call(_COS, x)


def cosh(x: TensorLike) -> Tensor:
    """Hyperbolic cosine.

    Integers give float32.

    >>> F.cosh(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([1.     1.5431 3.7622], device=xpux:0)
    """
    return _call(_COSH, x)


def div(x: TensorLike, y: TensorLike) -> Tensor:
    """The quotient x / y. Integers give float32.

    >>> F.div(mge.tensor([1.0, 3.0]), 2.0)
    Tensor([0.5 1.5], device=xpux:0)
    """
    return _call(_TRUE_DIV, x, y)


def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x == y, as bool.

    >>> F.equal(mge.tensor([1.0, 2.0]), 2.0)
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_EQ, x, y)


def erf(x: TensorLike) -> Tensor:
    """The error function, 2/√π times the integral of exp(-t²) from 0 to x.

    Integers give float32.

    >>> F.erf(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.8427  0.      0.8427], device=xpux:0)
    """
    return _call(_ERF, x)


def exp(x: TensorLike) -> Tensor:
    """The exponential function of each element.

    Integers give float32.

    >>> F.exp(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([1.     2.7183 7.3891], device=xpux:0)
    """
    return _call(_EXP, x)


def expm1(x: TensorLike) -> Tensor:
    """exp(x) - 1, with all digits where x is small.

    Integers give float32.

    >>> F.expm1(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([0.     1.7183 6.3891], device=xpux:0)
    """
    return _call(_EXPM1, x)


def floor(x: TensorLike) -> Tensor:
    """The largest whole number that is not greater than each element. No gradient.

    The dtype is kept; bool raises TypeError.

    >>> F.floor(mge.tensor([-1.5, 0.2, 2.0]))
    Tensor([-2.  0.  2.], device=xpux:0)
    """
    return _call(_FLOOR, x)


def floor_div(x: TensorLike, y: TensorLike) -> Tensor:
    """The largest whole number not greater than x / y, as Python's ``//``.

    No gradient. Integers divided by 0 give 0.

    The dtype is kept; bool raises TypeError.

    >>> F.floor_div(mge.tensor([7.0, -7.0]), 2.0)
    Tensor([ 3. -4.], device=xpux:0)
    """
    return _call(_FLOOR_DIV, x, y)


def gelu(x: TensorLike) -> Tensor:
    """Each x times Φ(x), the normal distribution function (Hendrycks and Gimpel, 2016).

    The exact form, not the one by tanh; the lower tail keeps its digits.

    Integers give float32.

    >>> F.gelu(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.1587  0.      0.8413], device=xpux:0)
    """
    return _call(_GELU, x)


def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x > y, as bool.

    >>> F.greater(mge.tensor([1.0, 3.0]), 2.0)
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_LT, y, x)


def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x >= y, as bool.

    >>> F.greater_equal(mge.tensor([1.0, 3.0]), 3.0)
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_LEQ, y, x)


def hsigmoid(x: TensorLike) -> Tensor:
    """The function relu6(x + 3) / 6, a piecewise linear sigmoid (Howard et al., 2019).

    Integers give float32.

    >>> F.hsigmoid(mge.tensor([-3.0, 0.0, 1.5]))
    Tensor([0.   0.5  0.75], device=xpux:0)
    """
    return _call(_HSIGMOID, x)


def hswish(x: TensorLike) -> Tensor:
    """Each x times relu6(x + 3) / 6 (Howard et al., 2019).

    Integers give float32.

    >>> F.hswish(mge.tensor([-3.0, 0.0, 1.5]))
    Tensor([0.    0.    1.125], device=xpux:0)
    """
    return _call(_H_SWISH, x)


def leaky_relu(inp: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """``inp`` where it is not negative, else ``inp`` times ``negative_slope``.

    Integers give float32.

    >>> F.leaky_relu(mge.tensor([-2.0, 1.0]), 0.1)
    Tensor([-0.2  1. ], device=xpux:0)
    """
    return _call(_PRELU, inp, negative_slope)


def left_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """Integers x times 2 to the power y.

    Counts below 0, or of the width and more, push every bit out.

    Anything but integers raises TypeError.

    >>> F.left_shift(mge.tensor([1, 3]), 2)
    Tensor([ 4 12], dtype=int32, device=xpux:0)
    """
    return _call(_SHL, x, y)


def less(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x < y, as bool.

    >>> F.less(mge.tensor([1.0, 3.0]), 2.0)
    Tensor([ True False], dtype=bool, device=xpux:0)
    """
    return _call(_LT, x, y)


def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x <= y, as bool.

    >>> F.less_equal(mge.tensor([1.0, 3.0]), 1.0)
    Tensor([ True False], dtype=bool, device=xpux:0)
    """
    return _call(_LEQ, x, y)


def log(x: TensorLike) -> Tensor:
    """Natural logarithm; -inf at 0 and NaN below.

    Integers give float32.

    >>> F.log(mge.tensor([1.0, 2.0, 4.0]))
    Tensor([0.     0.6931 1.3863], device=xpux:0)
    """
    return _call(_LOG, x)


def log1p(x: TensorLike) -> Tensor:
    """log(1 + x), with all digits where x is small.

    Integers give float32.

    >>> F.log1p(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([0.     0.6931 1.0986], device=xpux:0)
    """
    return _call(_LOG1P, x)


def logaddexp(x: TensorLike, y: TensorLike) -> Tensor:
    """log(exp(x) + exp(y)) without overflow.

    Integers give float32.

    >>> F.logaddexp(mge.tensor([0.0, 100.0]), 0.0)
    Tensor([  0.6931 100.    ], device=xpux:0)
    """
    return _call(_LOG_SUM_EXP, x, y)


def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether both of two bool tensors are true.

    Anything but bool raises TypeError.

    >>> F.logical_and(mge.tensor([True, False]), True)
    Tensor([ True False], dtype=bool, device=xpux:0)
    """
    return _call(_AND, x, y)


def logical_not(x: TensorLike) -> Tensor:
    """The opposite of each element of a bool tensor.

    Anything but bool raises TypeError.

    >>> F.logical_not(mge.tensor([True, False]))
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_NOT, x)


def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether at least one of two bool tensors is true.

    Anything but bool raises TypeError.

    >>> F.logical_or(mge.tensor([True, False]), False)
    Tensor([ True False], dtype=bool, device=xpux:0)
    """
    return _call(_OR, x, y)


def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether exactly one of two bool tensors is true.

    Anything but bool raises TypeError.

    >>> F.logical_xor(mge.tensor([True, False]), True)
    Tensor([False  True], dtype=bool, device=xpux:0)
    """
    return _call(_XOR, x, y)


def logsigmoid(inp: TensorLike) -> Tensor:
    """log(1 / (1 + exp(-x))), finite wherever x is.

    Integers give float32.

    >>> F.logsigmoid(mge.tensor([-100.0, 0.0, 2.0]))
    Tensor([-100.       -0.6931   -0.1269], device=xpux:0)
    """
    return _call(_LOGSIGMOID, inp)


def maximum(x: TensorLike, y: TensorLike) -> Tensor:
    """The larger of x and y; NaN where either is NaN. Equal elements share the gradient.

    The dtype is kept; bool raises TypeError.

    >>> F.maximum(mge.tensor([1.0, 3.0]), 2.0)
    Tensor([2. 3.], device=xpux:0)
    """
    return _call(_MAX, x, y)


def minimum(x: TensorLike, y: TensorLike) -> Tensor:
    """The smaller of x and y; NaN where either is NaN. Equal elements share the gradient.

    The dtype is kept; bool raises TypeError.

    >>> F.minimum(mge.tensor([1.0, 3.0]), 2.0)
    Tensor([1. 2.], device=xpux:0)
    """
    return _call(_MIN, x, y)


def mod(x: TensorLike, y: TensorLike) -> Tensor:
    """The remainder of floor_div, with the sign of y, as Python's ``%``.

    Integers modulo 0 give 0.

    The dtype is kept; bool raises TypeError.

    >>> F.mod(mge.tensor([7.0, -7.0]), 3.0)
    Tensor([1. 2.], device=xpux:0)
    """
    return _call(_MOD, x, y)


def mul(x: TensorLike, y: TensorLike) -> Tensor:
    """The product x * y.

    The dtype is kept; bool raises TypeError.

    >>> F.mul(mge.tensor([1.0, 2.0]), 10.0)
    Tensor([10. 20.], device=xpux:0)
    """
    return _call(_MUL, x, y)


def neg(x: TensorLike) -> Tensor:
    """The negative of each element.

    The dtype is kept; bool raises TypeError.

    >>> F.neg(mge.tensor([-1.0, 0.5, 2.0]))
    Tensor([ 1.  -0.5 -2. ], device=xpux:0)
    """
    return _call(_NEGATE, x)


def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x != y, as bool.

    >>> F.not_equal(mge.tensor([1.0, 2.0]), 2.0)
    Tensor([ True False], dtype=bool, device=xpux:0)
    """
    return _call(_NEQ, x, y)


def pow(x: TensorLike, y: TensorLike) -> Tensor:
    """Each x to the power y, as C's ``pow``. Integers give float32.

    The gradient in x is right at 0 and below; in y it is 0 where x is 0, NaN where x < 0.

    >>> F.pow(mge.tensor([2.0, 3.0]), 2.0)
    Tensor([4. 9.], device=xpux:0)
    """
    return _call(_POW, x, y)


def prelu(x: TensorLike, y: TensorLike) -> Tensor:
    """Each x where it is not negative, else x times the slope y (He et al., 2015).

    Integers give float32.

    >>> F.prelu(mge.tensor([-2.0, 1.0]), 0.1)
    Tensor([-0.2  1. ], device=xpux:0)
    """
    return _call(_PRELU, x, y)


def relu(x: TensorLike) -> Tensor:
    """max(x, 0). NaN stays NaN.

    The dtype is kept; bool raises TypeError.

    >>> F.relu(mge.tensor([-1.0, 0.5, 2.0]))
    Tensor([0.  0.5 2. ], device=xpux:0)
    """
    return _call(_RELU, x)


def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6).

    The dtype is kept; bool raises TypeError.

    >>> F.relu6(mge.tensor([-1.0, 3.0, 8.0]))
    Tensor([0. 3. 6.], device=xpux:0)
    """
    return _call(_RELU6, x)


def right_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """Integers x over 2 to the power y, rounded down.

    Counts below 0, or of the width and more, push every bit out.

    Anything but integers raises TypeError.

    >>> F.right_shift(mge.tensor([4, -5]), 1)
    Tensor([ 2 -3], dtype=int32, device=xpux:0)
    """
    return _call(_SHR, x, y)


def round(x: TensorLike) -> Tensor:
    """The nearest whole number; halves go away from zero. No gradient.

    The dtype is kept; bool raises TypeError.

    >>> F.round(mge.tensor([-1.5, 0.4, 2.5]))
    Tensor([-2.  0.  3.], device=xpux:0)
    """
    return _call(_ROUND, x)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)).

    Integers give float32.

    >>> F.sigmoid(mge.tensor([-2.0, 0.0, 2.0]))
    Tensor([0.1192 0.5    0.8808], device=xpux:0)
    """
    return _call(_SIGMOID, x)


def silu(x: TensorLike) -> Tensor:
    """Each x times sigmoid(x), also known as swish.

    Integers give float32.

    >>> F.silu(mge.tensor([-2.0, 0.0, 2.0]))
    Tensor([-0.2384  0.      1.7616], device=xpux:0)
    """
    return _call(_SILU, x)


def sin(x: TensorLike) -> Tensor:
    """Sine of radians, right for arguments of any size.

    Integers give float32.

    >>> F.sin(mge.tensor([0.0, 1.0, 2.0]))
    Tensor([0.     0.8415 0.9093], device=xpux:0)
    """
    return _call(_SIN, x)


def sinh(x: TensorLike) -> Tensor:
    """Hyperbolic sine.

    Integers give float32.

    >>> F.sinh(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-1.1752  0.      1.1752], device=xpux:0)
    """
    return _call(_SINH, x)


def softplus(inp: TensorLike) -> Tensor:
    """log(1 + exp(x)), finite wherever x is.

    Integers give float32.

    >>> F.softplus(mge.tensor([-2.0, 0.0, 100.0]))
    Tensor([  0.1269   0.6931 100.    ], device=xpux:0)
    """
    return _call(_SOFTPLUS, inp)


def sqrt(x: TensorLike) -> Tensor:
    """Square root; NaN below 0.

    Integers give float32.

    >>> F.sqrt(mge.tensor([0.0, 2.0, 4.0]))
    Tensor([0.     1.4142 2.    ], device=xpux:0)
    """
    return _call(_SQRT, x)


def square(x: TensorLike) -> Tensor:
    """The square of each element.

    The dtype is kept; bool raises TypeError.

    >>> F.square(mge.tensor([-1.0, 0.5, 2.0]))
    Tensor([1.   0.25 4.  ], device=xpux:0)
    """
    return _call(_SQUARE, x)


def sub(x: TensorLike, y: TensorLike) -> Tensor:
    """The difference x - y.

    The dtype is kept; bool raises TypeError.

    >>> F.sub(mge.tensor([1.0, 2.0]), 10.0)
    Tensor([-9. -8.], device=xpux:0)
    """
    return _call(_SUB, x, y)


def tan(x: TensorLike) -> Tensor:
    """Tangent of radians, right for arguments of any size.

    Integers give float32.

    >>> F.tan(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-1.5574  0.      1.5574], device=xpux:0)
    """
    return _call(_TAN, x)


def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent.

    Integers give float32.

    >>> F.tanh(mge.tensor([-1.0, 0.0, 1.0]))
    Tensor([-0.7616  0.      0.7616], device=xpux:0)
    """
    return _call(_TANH, x)
