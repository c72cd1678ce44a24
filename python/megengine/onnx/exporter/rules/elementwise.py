"""Elementwise functions and conversions of dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..builder import Arg, Builder, Call, is_float
from ..registry import RefusedError, exports

Names = list[str]

# Functions that are an operator of ONNX each.
OPERATORS = {
    "RELU": "Relu",
    "ABS": "Abs",
    "ACOS": "Acos",
    "ASIN": "Asin",
    "ATAN": "Atan",
    "CEIL": "Ceil",
    "COS": "Cos",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "LOG": "Log",
    "NEGATE": "Neg",
    "SIGMOID": "Sigmoid",
    "SIN": "Sin",
    "TANH": "Tanh",
    "ERF": "Erf",
    "SINH": "Sinh",
    "COSH": "Cosh",
    "ASINH": "Asinh",
    "ACOSH": "Acosh",
    "ATANH": "Atanh",
    "TAN": "Tan",
    "SQRT": "Sqrt",
    "SIGN": "Sign",
    "SOFTPLUS": "Softplus",
    "H_SWISH": "HardSwish",
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "TRUE_DIV": "Div",
    "POW": "Pow",
    "MAX": "Max",
    "MIN": "Min",
}
COMPARISONS = {"LT": "Less", "LEQ": "LessOrEqual", "EQ": "Equal", "NEQ": "Equal"}
LOGICAL = {"AND": ("And", "BitwiseAnd"), "OR": ("Or", "BitwiseOr"), "XOR": ("Xor", "BitwiseXor")}

Function = Callable[[Builder, Names, np.dtype[Any]], str]
FUNCTIONS: dict[str, Function] = {}


def _function(mode: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        FUNCTIONS[mode] = function
        return function

    return register


@exports("Elemwise")
def elemwise(g: Builder, call: Call) -> str:
    """Operands become one dtype first, that of the result unless it is a comparison."""
    mode = str(call["mode"])
    if mode == "WHERE":
        condition, a, b = call.inputs
        return g.emit("Where", condition, g.cast(a, call.dtype), g.cast(b, call.dtype))
    if mode in ("ISNAN", "ISINF"):
        return g.emit("IsNaN" if mode == "ISNAN" else "IsInf", call.inputs[0])
    if mode in COMPARISONS:
        return _comparison(g, mode, call.inputs)
    if mode == "NOT" and call.dtype == np.bool_:
        return g.emit("Not", call.inputs[0])
    if mode in LOGICAL or mode == "NOT":
        return _logical(g, mode, call)
    if mode not in OPERATORS and mode not in FUNCTIONS:
        if mode.endswith("_GRAD"):
            raise RefusedError(
                "gradients are not exported: export what comes before the backward pass"
            )
        raise RefusedError("ONNX has no such function, nor operators to make it of")
    # Runtimes have arithmetic of 8- and 16-bit integers and of bools in few places.
    narrow = call.dtype.kind in "iu" and call.dtype.itemsize < 4
    dtype = np.dtype("int32") if narrow or call.dtype == np.bool_ else call.dtype
    operands = [g.cast(x, dtype) for x in call.inputs]
    if mode == "CLIP" and _is_plain_clip(call.inputs):
        result = g.emit("Clip", *operands)
    elif mode == "PRELU" and _fits_from_the_right(call.inputs[1], call.inputs[0]):
        result = g.emit("PRelu", *operands)
    elif mode in OPERATORS:
        result = g.emit(OPERATORS[mode], *operands)
    else:
        result = FUNCTIONS[mode](g, operands, dtype)
    return g.cast(result, call.dtype, given=dtype)


@exports("TypeCvt")
def type_cvt(g: Builder, call: Call) -> str:
    """Cast."""
    return g.cast(call.inputs[0], call.dtype)


def _is_plain_clip(inputs: tuple[Arg, ...]) -> bool:
    """Whether the bounds are numbers in the order that ONNX expects."""
    low, high = (x.constant if x.ndim == 0 else None for x in inputs[1:])
    return low is not None and high is not None and bool(low <= high)


def _fits_from_the_right(x: Arg, to: Arg) -> bool:
    """Whether x broadcasts to the other without changing its shape."""
    return x.ndim <= to.ndim and all(
        n == 1 or n == m for n, m in zip(x.shape[::-1], to.shape[::-1], strict=False)
    )


def _comparison(g: Builder, mode: str, inputs: tuple[Arg, ...]) -> str:
    dtypes = {x.dtype for x in inputs}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*(x.dtype for x in inputs))
    if dtype.kind in "biu" and dtype.itemsize < 4:
        dtype = np.dtype("int32")
    result = g.emit(COMPARISONS[mode], *(g.cast(x, dtype) for x in inputs))
    return g.emit("Not", result) if mode == "NEQ" else result


def _logical(g: Builder, mode: str, call: Call) -> str:
    if call.dtype == np.bool_:
        return g.emit(LOGICAL[mode][0], *call.inputs)
    if g.opset < 18:
        raise RefusedError("operators on the bits of integers came with opset 18: export with that")
    if mode == "NOT":
        return g.emit("BitwiseNot", call.inputs[0])
    return g.emit(LOGICAL[mode][1], *(g.cast(x, call.dtype) for x in call.inputs))


# ---- functions that are made of several operators ----------------------------------------------


def _c(g: Builder, number: float, dtype: np.dtype[Any]) -> str:
    return g.scalar(number, dtype)


@_function("SQUARE")
def _square(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Mul", x[0], x[0])


@_function("RSQRT")
def _rsqrt(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Reciprocal", g.emit("Sqrt", x[0]))


@_function("FAST_TANH")
def _fast_tanh(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # x (27 + x^2) / (27 + 9 x^2)
    square = _square(g, x, t)
    top = g.emit("Mul", x[0], g.emit("Add", square, _c(g, 27, t)))
    return g.emit("Div", top, g.emit("Add", g.emit("Mul", square, _c(g, 9, t)), _c(g, 27, t)))


@_function("EXPM1")
def _expm1(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # tanh(x / 2) (exp(x) + 1), which keeps the digits of small x
    half = g.emit("Tanh", g.emit("Mul", x[0], _c(g, 0.5, t)))
    return g.emit("Mul", half, g.emit("Add", g.emit("Exp", x[0]), _c(g, 1, t)))


@_function("LOG1P")
def _log1p(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # log(u) x / (u - 1) with u = 1 + x, after Kahan: what rounding took from x is put back.
    one = _c(g, 1, t)
    u = g.emit("Add", x[0], one)
    log = g.emit("Log", u)
    rest = g.emit("Sub", u, one)
    small = g.emit("Less", g.emit("Abs", x[0]), one)
    gone = g.emit("Equal", rest, _c(g, 0, t))
    ratio = g.emit("Div", x[0], g.emit("Where", gone, one, rest))
    kahan = g.emit("Where", gone, x[0], g.emit("Mul", log, ratio))
    return g.emit("Where", small, kahan, log)


@_function("ERFC")
def _erfc(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Sub", _c(g, 1, t), g.emit("Erf", x[0]))


@_function("LOGSIGMOID")
def _logsigmoid(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Neg", g.emit("Softplus", g.emit("Neg", x[0])))


@_function("RELU6")
def _relu6(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Clip", x[0], _c(g, 0, t), _c(g, 6, t))


@_function("HSIGMOID")
def _hsigmoid(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("HardSigmoid", x[0], alpha=1 / 6, beta=0.5)


@_function("SILU")
def _silu(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Mul", x[0], g.emit("Sigmoid", x[0]))


@_function("GELU")
@_function("FAST_GELU")
def _gelu(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    if g.opset >= 20:
        return g.emit("Gelu", x[0])
    erf = g.emit("Erf", g.emit("Div", x[0], _c(g, math.sqrt(2), t)))
    twice = g.emit("Mul", x[0], g.emit("Add", erf, _c(g, 1, t)))
    return g.emit("Mul", twice, _c(g, 0.5, t))


@_function("ROUND")
def _round(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # Halves go away from zero; ONNX's Round sends them to even numbers.
    if not is_float(t):
        return x[0]
    size = g.emit("Abs", x[0])
    down = g.emit("Floor", size)
    up = g.emit("GreaterOrEqual", g.emit("Sub", size, down), _c(g, 0.5, t))
    whole = g.emit("Add", down, g.cast(up, t, given="bool"))
    return g.emit("Mul", g.emit("Sign", x[0]), whole)


@_function("FLOOR_DIV")
def _floor_div(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    if is_float(t):
        return g.emit("Floor", g.emit("Div", *x))
    return g.emit("Div", g.emit("Sub", x[0], g.emit("Mod", *x)), x[1])


@_function("MOD")
def _mod(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    if not is_float(t):
        return g.emit("Mod", *x)  # with the sign of the divisor
    rest = g.emit("Mod", *x, fmod=1)  # with that of the dividend
    zero = _c(g, 0, t)
    signs = g.emit("Less", g.emit("Mul", g.emit("Sign", rest), g.emit("Sign", x[1])), zero)
    return g.emit("Where", signs, g.emit("Add", rest, x[1]), rest)


@_function("SHL")
def _shl(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Mul", x[0], g.emit("Pow", _c(g, 2, t), x[1]))


@_function("SHR")
def _shr(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return _floor_div(g, [x[0], g.emit("Pow", _c(g, 2, t), x[1])], t)


@_function("LOG_SUM_EXP")
def _log_sum_exp(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    gap = g.emit("Neg", g.emit("Abs", g.emit("Sub", *x)))
    return g.emit("Add", g.emit("Max", *x), _log1p(g, [g.emit("Exp", gap)], t))


@_function("ATAN2")
def _atan2(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # atan(y / x), turned by half a circle on the left; a quarter where x is 0
    y, x_ = x
    zero = _c(g, 0, t)
    left = g.emit("Less", x_, zero)
    middle = g.emit("Equal", x_, zero)
    below = g.emit("Less", y, zero)
    half = g.emit("Where", below, _c(g, -math.pi, t), _c(g, math.pi, t))
    angle = g.emit("Atan", g.emit("Div", y, g.emit("Where", middle, _c(g, 1, t), x_)))
    turned = g.emit("Where", left, g.emit("Add", angle, half), angle)
    quarter = g.emit("Mul", g.emit("Sign", y), _c(g, math.pi / 2, t))
    return g.emit("Where", middle, quarter, turned)


@_function("SWITCH_GT0")
def _switch_gt0(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    zero = _c(g, 0, t)
    return g.emit("Where", g.emit("Greater", x[0], zero), x[1], zero)


@_function("COND_LEQ_MOV")
def _cond_leq_mov(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Where", g.emit("LessOrEqual", x[0], x[1]), x[2], _c(g, 0, t))


@_function("COND_LT_MOV")
def _cond_lt_mov(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Where", g.emit("Less", x[0], x[1]), x[2], _c(g, 0, t))


@_function("CLIP")
def _clip(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    # Where the bounds cross, the lower one counts first.
    return g.emit("Where", g.emit("Less", x[0], x[1]), x[1], g.emit("Min", x[0], x[2]))


@_function("PRELU")
def _prelu(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    positive = g.emit("Greater", x[0], _c(g, 0, t))
    return g.emit("Where", positive, x[0], g.emit("Mul", *x))


@_function("FUSE_MUL_ADD3")
def _mul_add3(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Add", g.emit("Mul", x[0], x[1]), x[2])


@_function("FUSE_MUL_ADD4")
def _mul_add4(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Add", g.emit("Mul", x[0], x[1]), g.emit("Mul", x[2], x[3]))


@_function("FUSE_ADD_RELU")
def _add_relu(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Relu", g.emit("Add", *x))


@_function("FUSE_ADD_SIGMOID")
def _add_sigmoid(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Sigmoid", g.emit("Add", *x))


@_function("FUSE_ADD_TANH")
def _add_tanh(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("Tanh", g.emit("Add", *x))


@_function("FUSE_ADD_H_SWISH")
def _add_h_swish(g: Builder, x: Names, t: np.dtype[Any]) -> str:
    return g.emit("HardSwish", g.emit("Add", *x))
