"""Records of the elementwise functions, and of the modes of Elemwise that only gradients use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import FLOATS, INTS, Array, Record

Inputs = Callable[[np.random.Generator], list[Array]]
Function = Callable[..., Array]

_erf = np.vectorize(math.erf, otypes=[float])
_erfc = np.vectorize(math.erfc, otypes=[float])


def _between(low: float, high: float, kinks: tuple[float, ...] = (), count: int = 1) -> Inputs:
    """Uniform numbers in (low, high), at least 0.05 from every kink."""

    def inputs(rng: np.random.Generator) -> list[Array]:
        out = []
        for _ in range(count):
            x = rng.uniform(low, high, (2, 3, 4))
            for kink in kinks:
                near = np.abs(x - kink) < 0.05
                x = np.where(near, kink + np.where(x < kink, -0.1, 0.1), x)
            out.append(x)
        return out

    return inputs


def _broadcasting(low: float, high: float) -> Inputs:
    return lambda rng: [rng.uniform(low, high, (2, 3, 4)), rng.uniform(low, high, (3, 1))]


def _apart(rng: np.random.Generator) -> list[Array]:
    """Two arrays that broadcast and are nowhere closer than 0.1."""
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 1))
    return [np.where(np.abs(a - b) < 0.1, a + 0.3, a), b]


def _large(count: int = 1) -> Inputs:
    return lambda rng: [rng.uniform(0.1, 0.9, (300, 301)) for _ in range(count)]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * _erfc(-x / math.sqrt(2)))


def _round_away(x: Array) -> Array:
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def _record(
    name: str, fn: Callable[..., mge.Tensor], ref: Function, inputs: Inputs, **more: object
) -> Record:
    more.setdefault("scalar", True)
    return Record(name, fn, ref, inputs, ops=("Elemwise",), **more)  # type: ignore[arg-type]


def _unary(
    name: str, ref: Function, low: float, high: float, kinks: tuple[float, ...] = (), **more: object
) -> Record:
    return _record(name, getattr(F, name), ref, _between(low, high, kinks), large=_large(), **more)


def _mode(mode: str, ref: Function, inputs: Inputs, **more: object) -> Record:
    op = builtin.Elemwise(mode=mode)
    return _record(f"Elemwise-{mode}", lambda *x: apply(op, *x)[0], ref, inputs, **more)


_NO_BOOL = FLOATS + INTS
_SIGNED = (*FLOATS, "int8", "int16", "int32", "int64")
_KEEP = {d: d for d in _NO_BOOL}
_TRUTH = dict.fromkeys(_NO_BOOL, "bool")

_UNARY = [
    _unary("abs", np.abs, -2, 2, (0,), dtypes=_SIGNED, out_dtype=_KEEP),
    _unary("acos", np.arccos, -0.9, 0.9),
    _unary("asin", np.arcsin, -0.9, 0.9),
    _unary("atan", np.arctan, -3, 3, out_dtype={"float16": "float32"}),
    _unary("asinh", np.arcsinh, -3, 3),
    _unary("acosh", np.arccosh, 1.2, 4, empty=True),
    _unary("atanh", np.arctanh, -0.9, 0.9),
    _unary("ceil", np.ceil, -3, 3, tuple(range(-3, 4)), order=0, dtypes=_NO_BOOL, out_dtype=_KEEP),
    _unary(
        "floor", np.floor, -3, 3, tuple(range(-3, 4)), order=0, dtypes=_NO_BOOL, out_dtype=_KEEP
    ),
    _unary(
        "round",
        _round_away,
        -3,
        3,
        (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5),
        order=0,
        dtypes=_NO_BOOL,
        out_dtype=_KEEP,
    ),
    _unary("cos", np.cos, -9, 9),
    _unary("sin", np.sin, -9, 9),
    _unary("tan", np.tan, -1.2, 1.2),
    _unary("cosh", np.cosh, -3, 3),
    _unary("sinh", np.sinh, -3, 3),
    _unary("tanh", np.tanh, -3, 3),
    _unary("exp", np.exp, -3, 3),
    _unary("expm1", np.expm1, -3, 3),
    _unary("log", np.log, 0.2, 5),
    _unary("log1p", np.log1p, -0.8, 5),
    _unary("erf", _erf, -3, 3),
    _unary("neg", np.negative, -3, 3, dtypes=_SIGNED, out_dtype=_KEEP),
    _unary("sqrt", np.sqrt, 0.2, 5),
    _unary("square", np.square, -3, 3, dtypes=_SIGNED, out_dtype=_KEEP),
    _unary("relu", lambda x: np.maximum(x, 0), -3, 3, (0,), dtypes=_SIGNED, out_dtype=_KEEP),
    _unary("relu6", lambda x: np.clip(x, 0, 6), -3, 9, (0, 6), dtypes=_SIGNED, out_dtype=_KEEP),
    _unary("sigmoid", _sigmoid, -4, 4),
    _unary("logsigmoid", lambda x: -_softplus(-x), -4, 4),
    _unary("softplus", _softplus, -4, 4),
    _unary("silu", lambda x: x * _sigmoid(x), -4, 4),
    _unary("gelu", _gelu, -4, 4),
    _unary("hsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, -5, 5, (-3, 3)),
    _unary("hswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, -5, 5, (-3, 3)),
]

_BINARY = [
    _record(
        "add", F.add, np.add, _broadcasting(-3, 3), dtypes=_SIGNED, out_dtype=_KEEP, large=_large(2)
    ),
    _record("sub", F.sub, np.subtract, _broadcasting(-3, 3), dtypes=_SIGNED, out_dtype=_KEEP),
    _record(
        "mul",
        F.mul,
        np.multiply,
        _broadcasting(-3, 3),
        dtypes=_SIGNED,
        out_dtype=_KEEP,
        large=_large(2),
    ),
    _record("div", F.div, np.divide, _broadcasting(0.5, 3)),
    _record(
        "floor_div",
        F.floor_div,
        np.floor_divide,
        _broadcasting(1.2, 9),
        order=0,
        dtypes=_NO_BOOL,
        out_dtype=_KEEP,
    ),
    _record(
        "mod",
        F.mod,
        np.mod,
        lambda rng: [
            rng.uniform(0.1, 0.9, (2, 3, 4)) + 2.0 * rng.integers(-3, 4, (2, 3, 4)),
            np.full((3, 1), 2.0),
        ],
        grad=(0,),
        dtypes=_SIGNED,
        out_dtype=_KEEP,
    ),
    _record("pow", F.pow, np.power, _broadcasting(0.5, 3)),
    _record("maximum", F.maximum, np.maximum, _apart, dtypes=_SIGNED, out_dtype=_KEEP),
    _record("minimum", F.minimum, np.minimum, _apart, dtypes=_SIGNED, out_dtype=_KEEP),
    _record("atan2", F.atan2, np.arctan2, _broadcasting(0.5, 3)),
    _record("logaddexp", F.logaddexp, np.logaddexp, _broadcasting(-3, 3)),
    _record(
        "prelu",
        F.prelu,
        lambda x, w: np.where(x > 0, x, x * w),
        lambda rng: [*_between(-2, 2, (0,))(rng), rng.uniform(0.1, 0.5, (3, 1))],
    ),
    _record(
        "leaky_relu",
        lambda x: F.leaky_relu(x, 0.25),
        lambda x: np.where(x > 0, x, x * 0.25),
        _between(-2, 2, (0,)),
    ),
    _record("equal", F.equal, np.equal, _apart, order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH),
    _record(
        "not_equal", F.not_equal, np.not_equal, _apart, order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH
    ),
    _record("less", F.less, np.less, _apart, order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH),
    _record(
        "less_equal",
        F.less_equal,
        np.less_equal,
        _apart,
        order=0,
        dtypes=_NO_BOOL,
        out_dtype=_TRUTH,
    ),
    _record("greater", F.greater, np.greater, _apart, order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH),
    _record(
        "greater_equal",
        F.greater_equal,
        np.greater_equal,
        _apart,
        order=0,
        dtypes=_NO_BOOL,
        out_dtype=_TRUTH,
    ),
]


def _bools(rng: np.random.Generator) -> list[Array]:
    return [rng.random((2, 3, 4)) < 0.5, rng.random((3, 1)) < 0.5]


def _shifts(rng: np.random.Generator) -> list[Array]:
    return [rng.integers(0, 30, (2, 3, 4)), rng.integers(0, 3, (3, 1))]


_LOGIC = [
    _record(
        "logical_and",
        F.logical_and,
        np.logical_and,
        _bools,
        order=0,
        dtypes=("float32",),
        scalar=False,
        layouts=False,
    ),
    _record(
        "logical_or",
        F.logical_or,
        np.logical_or,
        _bools,
        order=0,
        dtypes=("float32",),
        scalar=False,
        layouts=False,
    ),
    _record(
        "logical_xor",
        F.logical_xor,
        np.logical_xor,
        _bools,
        order=0,
        dtypes=("float32",),
        scalar=False,
        layouts=False,
    ),
    _record(
        "logical_not",
        F.logical_not,
        np.logical_not,
        lambda rng: _bools(rng)[:1],
        order=0,
        dtypes=("float32",),
        scalar=False,
        layouts=False,
    ),
    _record(
        "left_shift",
        F.left_shift,
        lambda x, y: np.left_shift(x, y).astype(np.int64),
        _shifts,
        order=0,
        int_data=True,
        dtypes=("uint8", "int16", "int32", "int64"),
        out_dtype=_KEEP,
    ),
    _record(
        "right_shift",
        F.right_shift,
        np.right_shift,
        _shifts,
        order=0,
        int_data=True,
        dtypes=INTS,
        out_dtype=_KEEP,
    ),
]

_TERNARY = [
    _record(
        "clip",
        lambda x: F.clip(x, -1, 1),
        lambda x: np.clip(x, -1, 1),
        _between(-2, 2, (-1, 1)),
        dtypes=_SIGNED,
        out_dtype=_KEEP,
        large=_large(),
    ),
    _record(
        "clip-lower",
        lambda x: F.clip(x, lower=-1),
        lambda x: np.maximum(x, -1),
        _between(-2, 2, (-1,)),
        dtypes=_SIGNED,
        out_dtype=_KEEP,
    ),
    _record(
        "clip-upper",
        lambda x: F.clip(x, upper=1),
        lambda x: np.minimum(x, 1),
        _between(-2, 2, (1,)),
        dtypes=_SIGNED,
        out_dtype=_KEEP,
    ),
    _record(
        "clip-tensors",
        F.clip,
        lambda x, a, b: np.minimum(np.maximum(x, a), b),
        lambda rng: [*_between(-2, 2, (-1, 1))(rng), np.full((3, 1), -1.0), np.full((4,), 1.0)],
    ),
]


def _data_and_upstream(low: float, high: float, kinks: tuple[float, ...] = ()) -> Inputs:
    return lambda rng: [*_between(low, high, kinks)(rng), rng.normal(size=(2, 3, 4))]


def _fast_tanh(x: Array) -> Array:
    return x * (27 + x * x) / (27 + 9 * x * x)


def _density(x: Array) -> Array:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


_MODES = [
    _mode("ABS_GRAD", lambda x, g: np.sign(x) * g, _data_and_upstream(-2, 2, (0,))),
    _mode("RELU6_GRAD", lambda x, g: g * ((x > 0) & (x < 6)), _data_and_upstream(-2, 8, (0, 6))),
    _mode(
        "HSIGMOID_GRAD", lambda x, g: g / 6 * (np.abs(x) < 3), _data_and_upstream(-5, 5, (-3, 3))
    ),
    _mode(
        "H_SWISH_GRAD",
        lambda x, g: g * np.where(x < -3, 0, np.where(x > 3, 1, (2 * x + 3) / 6)),
        _data_and_upstream(-5, 5, (-3, 3)),
    ),
    _mode("SIGMOID_GRAD", lambda y, g: g * y * (1 - y), _data_and_upstream(0.1, 0.9)),
    _mode("TANH_GRAD", lambda y, g: g * (1 - y * y), _data_and_upstream(-0.9, 0.9)),
    _mode("SOFTPLUS_GRAD", lambda x, g: g * _sigmoid(x), _data_and_upstream(-3, 3)),
    _mode(
        "SILU_GRAD",
        lambda x, g: g * _sigmoid(x) * (1 + x * _sigmoid(-x)),
        _data_and_upstream(-3, 3),
    ),
    _mode(
        "GELU_GRAD",
        lambda x, g: g * (0.5 * _erfc(-x / math.sqrt(2)) + x * _density(x)),
        _data_and_upstream(-3, 3),
    ),
    _mode("FAST_GELU", lambda x: x * 0.5 * _erfc(-x / math.sqrt(2)), _between(-7, 7)),
    _mode(
        "FAST_GELU_GRAD",
        lambda x, g: g * (0.5 * _erfc(-x / math.sqrt(2)) + x * _density(x)),
        _data_and_upstream(-7, 7),
    ),
    _mode("FAST_TANH", _fast_tanh, _between(-3, 3)),
    _mode(
        "FAST_TANH_GRAD",
        lambda x, g: g * (9 - x * x) ** 2 / (9 * (3 + x * x) ** 2),
        _data_and_upstream(-2, 2),
    ),
    _mode("ASINH_GRAD", lambda x, g: g / np.sqrt(1 + x * x), _data_and_upstream(-2, 2)),
    _mode("ACOSH_GRAD", lambda x, g: g / np.sqrt(x * x - 1), _data_and_upstream(1.5, 3)),
    _mode("ATANH_GRAD", lambda x, g: g / (1 - x * x), _data_and_upstream(-0.8, 0.8)),
    _mode("SWITCH_GT0", lambda x, g: g * (x > 0), _data_and_upstream(-2, 2, (0,))),
    _mode(
        "PRELU_GRAD",
        lambda x, g, w: np.where(x > 0, g, g * w),
        lambda rng: [*_data_and_upstream(-2, 2, (0,))(rng), rng.uniform(0.1, 0.5, (3, 1))],
    ),
    _mode(
        "COND_LEQ_MOV",
        lambda a, b, c: c * (a <= b),
        lambda rng: [*_apart(rng), rng.normal(size=(4,))],
    ),
    _mode(
        "COND_LT_MOV",
        lambda a, b, c: c * (a < b),
        lambda rng: [*_apart(rng), rng.normal(size=(4,))],
    ),
    _mode(
        "FUSE_MUL_ADD3",
        lambda a, b, c: a * b + c,
        lambda rng: [*_apart(rng), rng.normal(size=(4,))],
        dtypes=_SIGNED,
        out_dtype=_KEEP,
    ),
    _mode(
        "FUSE_MUL_ADD4",
        lambda a, b, c, d: a * b + c * d,
        lambda rng: [*_apart(rng), *_apart(rng)],
        dtypes=_SIGNED,
        out_dtype=_KEEP,
    ),
    _mode(
        "FUSE_ADD_RELU",
        lambda a, b: np.maximum(a + b, 0),
        lambda rng: [
            np.where(np.arange(24).reshape(2, 3, 4) % 2 == 0, 1.0, -1.0)
            * rng.uniform(0.6, 2, (2, 3, 4)),
            rng.uniform(-0.5, 0.5, (3, 1)),
        ],
    ),
    _mode("FUSE_ADD_SIGMOID", lambda a, b: _sigmoid(a + b), _apart),
    _mode("FUSE_ADD_TANH", lambda a, b: np.tanh(a + b), _apart),
    _mode(
        "FUSE_ADD_H_SWISH",
        lambda a, b: (a + b) * np.clip(a + b + 3, 0, 6) / 6,
        _broadcasting(-1.4, 1.4),
    ),
    _mode("ERFC", _erfc, _between(-2, 3)),
    _mode("RSQRT", lambda x: 1 / np.sqrt(x), _between(0.2, 5)),
    _mode("SIGN", np.sign, _between(-2, 2, (0,)), order=0, dtypes=_SIGNED, out_dtype=_KEEP),
    _mode("ISNAN", np.isnan, _between(-2, 2), order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH),
    _mode("ISINF", np.isinf, _between(-2, 2), order=0, dtypes=_NO_BOOL, out_dtype=_TRUTH),
]


def _cast(dtype: str) -> Callable[[mge.Tensor], mge.Tensor]:
    return lambda x: x.astype(dtype)


_CASTS = [
    Record(
        "cast-float64",
        _cast("float64"),
        lambda x: x.astype(float),
        _between(-9, 9),
        ops=("TypeCvt",),
        dtypes=_NO_BOOL,
        out_dtype=dict.fromkeys(_NO_BOOL, "float64"),
        scalar=True,
    ),
    Record(
        "cast-int32",
        _cast("int32"),
        lambda x: np.trunc(x).astype(np.int64),
        _between(1, 9),
        ops=("TypeCvt",),
        order=0,
        dtypes=_NO_BOOL,
        out_dtype=dict.fromkeys(_NO_BOOL, "int32"),
        scalar=True,
    ),
]

RECORDS = _UNARY + _BINARY + _LOGIC + _TERNARY + _MODES + _CASTS
