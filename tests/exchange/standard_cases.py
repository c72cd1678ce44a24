"""A case for each function of the array API standard; see :mod:`tests.exchange.standard`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from .standard import (
    ALL,
    BOOL,
    CASES,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTS,
    NARROW,
    NUMERIC,
    REAL,
    Arguments,
    Case,
    Draw,
    Named,
    case,
    one_operand,
    two_operands,
)

# ---- element-wise functions ---------------------------------------------------------------------

ONE = {
    "abs": NUMERIC, "acos": INEXACT, "acosh": INEXACT, "asin": INEXACT, "asinh": INEXACT,
    "atan": INEXACT, "atanh": INEXACT, "bitwise_invert": BOOL + INTS, "ceil": REAL,
    "conj": NUMERIC, "cos": INEXACT, "cosh": INEXACT, "exp": INEXACT, "expm1": INEXACT,
    "floor": REAL, "imag": COMPLEX, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC,
    "log": INEXACT, "log10": INEXACT, "log1p": INEXACT, "log2": INEXACT, "logical_not": BOOL,
    "negative": NUMERIC, "positive": NUMERIC, "real": NUMERIC, "reciprocal": INEXACT,
    "round": NUMERIC, "sign": NUMERIC, "signbit": FLOATS, "sin": INEXACT, "sinh": INEXACT,
    "sqrt": INEXACT, "square": NUMERIC, "tan": INEXACT, "tanh": INEXACT, "trunc": REAL,
}  # fmt: skip
TWO = {
    "add": NUMERIC, "atan2": FLOATS, "bitwise_and": BOOL + INTS, "bitwise_or": BOOL + INTS,
    "bitwise_xor": BOOL + INTS, "copysign": FLOATS, "divide": INEXACT, "equal": ALL,
    "floor_divide": REAL, "greater": REAL, "greater_equal": REAL, "hypot": FLOATS, "less": REAL,
    "less_equal": REAL, "logaddexp": FLOATS, "logical_and": BOOL, "logical_or": BOOL,
    "logical_xor": BOOL, "maximum": REAL, "minimum": REAL, "multiply": NUMERIC,
    "nextafter": FLOATS, "not_equal": ALL, "remainder": REAL, "subtract": NUMERIC,
}  # fmt: skip
for _name, _dtypes in ONE.items():
    CASES[_name] = Case(one_operand(_dtypes))
for _name, _dtypes in TWO.items():
    CASES[_name] = Case(two_operands(_dtypes))


def _finite(x: Any) -> Any:
    """Ones for what is not finite: NumPy's answers are not the standard's there."""
    out = np.where(np.isfinite(x), x, 1)
    return out.astype(x.dtype) if isinstance(x, np.ndarray) else out.item()


@case("log1p")
def _log1p(d: Draw) -> Arguments:
    """NumPy's answer is not exact for complex numbers near 0."""
    return [d.array(COMPLEX, small=True) if d.integer(0, 1) else d.array(FLOATS)], {}


@case("reciprocal", signs=False)
def _reciprocal(d: Draw) -> Arguments:
    """How complex numbers divide by 0 and by extreme numbers is not said."""
    if d.integer(0, 1):
        return [d.array(FLOATS)], {}
    x = d.array(COMPLEX, small=True)
    return [np.where(x == 0, x.dtype.type(1), x)], {}


CASES["expm1"] = Case(lambda d: ([_finite(d.array(INEXACT))], {}))


def _nonzero_divisor(d: Draw) -> Arguments:
    """Integers over 0 are not said by the standard."""
    a, b = (_finite(x) for x in d.operands(REAL))
    if np.asarray(b).dtype.kind in "iub":
        b = np.where(b == 0, b.dtype.type(1), b) if isinstance(b, np.ndarray) else b or 1
        # Nor is the least integer over -1.
        if np.asarray(b).dtype.kind == "i":
            b = np.where(b == -1, b.dtype.type(2), b) if isinstance(b, np.ndarray) else abs(b)
    return [a, b], {}


CASES["floor_divide"] = Case(_nonzero_divisor)
CASES["remainder"] = Case(_nonzero_divisor)


@case("bitwise_left_shift", "bitwise_right_shift")
def _shift(d: Draw) -> Arguments:
    a, b = d.operands(INTS)
    other = a if isinstance(a, np.ndarray) else b
    bits = other.dtype.itemsize * 8
    if isinstance(b, np.ndarray):
        bits = min(bits, b.dtype.itemsize * 8)
        return [a, (b.astype("uint64") % bits).astype(b.dtype)], {}
    return [a, abs(b) % bits], {}


@case("pow", ulps=64)
def _pow(d: Draw) -> Arguments:
    kind = d.pick("ifc")
    if kind == "i":
        a, b = d.operands(INTS)
        exponent = np.abs(b.astype("int64") % 7).astype(b.dtype) if isinstance(b, np.ndarray) else 3
        return [a, exponent], {}
    a, b = d.operands(FLOATS, small=kind == "c")
    if kind == "c" and isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        a = a.astype(COMPLEX[FLOATS.index(a.dtype.name)])
    return [a, b], {}


@case("clip", signs=False)  # which of two zeros is the larger is not said
def _clip(d: Draw) -> Arguments:
    dtype = d.pick(REAL)
    x = d.array(dtype)
    low, high = (None if d.integer(0, 3) == 0 else d.number(dtype, small=True) for _ in range(2))
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
    bounds = [low, high]
    for i in (0, 1):
        if bounds[i] is not None and d.integer(0, 1):
            bounds[i] = np.full(d.pick([(), x.shape[-1:]]), bounds[i], dtype)
    return [x, *bounds], {}


# ---- creation -----------------------------------------------------------------------------------


def _dtype(d: Draw, dtypes: list[str]) -> dict[str, Any]:
    return {"dtype": Named(d.pick(dtypes))} if d.integer(0, 1) else {}


@case("arange", dtype="narrow")
def _arange(d: Draw) -> Arguments:
    start, stop, step = d.integer(-9, 9), d.integer(-9, 9), d.pick([-3, -1, 1, 2])
    args: list[Any] = d.pick([[abs(start)], [start, stop], [start, stop, step]])
    if d.integer(0, 2) == 0:
        args = [a / 2 for a in args]
        return args, {"dtype": Named(d.pick(FLOATS))} if d.integer(0, 1) else {}
    signed = ["int8", "int16", "int32", "int64", *FLOATS]
    return args, {"dtype": Named(d.pick(signed))} if d.integer(0, 1) else {}


@case("asarray", dtype="narrow")
def _asarray(d: Draw) -> Arguments:
    dtype = d.pick(ALL)
    array = d.array(dtype, d.shape(least=1), small=True)
    if dtype not in NARROW and d.integer(0, 1):  # an array keeps its dtype
        return [array], d.options(copy=[None, True], dtype=[Named(dtype)])
    return [array.tolist()], {"dtype": Named(dtype)} if d.integer(0, 1) else {}


def _empty_check(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    like = args[0]
    dtype = kwargs["dtype"].name if "dtype" in kwargs else getattr(like, "dtype", "float32")
    assert got.shape == (like if isinstance(like, tuple) else getattr(like, "shape", (like,)))
    assert got.dtype == dtype


@case("empty", check=_empty_check)
@case("zeros", "ones", dtype="narrow")
def _shaped(d: Draw) -> Arguments:
    shape = d.shape()
    return [d.pick([shape, d.integer(0, 4)])], _dtype(d, ALL)


@case("empty_like", check=_empty_check)
@case("zeros_like", "ones_like")
def _like(d: Draw) -> Arguments:
    return [d.array(ALL)], _dtype(d, ALL)


@case("full", dtype="narrow")
def _full(d: Draw) -> Arguments:
    dtype = d.pick(ALL)
    value = d.number(dtype, small=True)
    if dtype.startswith("u"):
        value = abs(value)
    given = {"dtype": Named(dtype)} if d.integer(0, 1) else {}
    return [d.shape(), value], given


@case("full_like")
def _full_like(d: Draw) -> Arguments:
    x = d.array(ALL)
    return [x, d.number(x.dtype.name, small=True)], {}


@case("eye", dtype="narrow")
def _eye(d: Draw) -> Arguments:
    sizes = [d.integer(0, 4), d.pick([None, d.integer(0, 4)])][: d.integer(1, 2)]
    return sizes, {**d.options(k=range(-5, 6)), **_dtype(d, NUMERIC)}


@case("linspace", dtype="narrow", ulps=64, signs=False)
def _linspace(d: Draw) -> Arguments:
    args = [float(d.integer(-9, 9)), float(d.integer(-9, 9)), d.integer(0, 6)]
    return args, {**d.options(endpoint=[True, False]), **_dtype(d, INEXACT)}


@case("meshgrid")
def _meshgrid(d: Draw) -> Arguments:
    dtype = d.pick(ALL)
    vectors = [d.array(dtype, (d.integer(0, 3),)) for _ in range(d.integer(1, 3))]
    return list(vectors), d.options(indexing=["xy", "ij"])


@case("tril", "triu")
def _triangle(d: Draw) -> Arguments:
    return [d.array(ALL, d.shape(2, 4))], d.options(k=range(-4, 5))


@case("from_dlpack")
def _from_dlpack(d: Draw) -> Arguments:
    return [d.array(ALL)], {}


# ---- dtypes -------------------------------------------------------------------------------------


@case("astype", ulps=0)
def _astype(d: Draw) -> Arguments:
    source, target = d.pick(ALL), d.pick(ALL)
    if source in COMPLEX and target not in COMPLEX:
        target = d.pick(COMPLEX)
    small = np.dtype(source).kind in "fc" or np.dtype(target).kind in "iu"
    x = d.array(source, small=small)
    if target.startswith("u") and small:
        x = np.abs(x)
    return [x, Named(target)], d.options(copy=[True, False])


@case("can_cast")
def _can_cast(d: Draw) -> Arguments:
    source = d.pick(ALL)
    return [d.pick([Named(source), np.zeros(1, source)]), Named(d.pick(ALL))], {}


def _limits(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    dtype = args[0].name if isinstance(args[0], Named) else args[0].dtype
    numpy: Any = np.finfo(dtype) if np.dtype(dtype).kind in "fc" else np.iinfo(dtype)
    fields = ["bits", "max", "min"]
    fields += ["eps", "smallest_normal"] if np.dtype(dtype).kind in "fc" else []
    for field in fields:
        value = getattr(got, field)
        assert value == getattr(numpy, field)
        assert type(value) is (int if field == "bits" or isinstance(numpy, np.iinfo) else float)
    assert got.dtype == (numpy.dtype if "eps" in fields else dtype)


@case("finfo", check=_limits)
def _finfo(d: Draw) -> Arguments:
    dtype = d.pick(INEXACT)
    return [d.pick([Named(dtype), np.zeros(1, dtype)])], {}


@case("iinfo", check=_limits)
def _iinfo(d: Draw) -> Arguments:
    dtype = d.pick(INTS)
    return [d.pick([Named(dtype), np.zeros(1, dtype)])], {}


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating",
         "complex floating", "numeric"]  # fmt: skip


@case("isdtype")
def _isdtype(d: Draw) -> Arguments:
    kinds = [d.pick([d.pick(KINDS), Named(d.pick(ALL))]) for _ in range(d.integer(1, 3))]
    return [Named(d.pick(ALL)), d.pick([kinds[0], tuple(kinds)])], {}


@case("result_type")
def _result_type(d: Draw) -> Arguments:
    dtypes = d.promoting(ALL)
    out = [d.pick([Named(t), np.zeros(1, t)]) for t in dtypes]
    numbers = {"b": True, "i": 1, "u": 1, "f": 1.5, "c": 1j}
    if d.integer(0, 1):
        out.insert(d.integer(0, 2), numbers[np.dtype(dtypes[0]).kind])
    return out, {}


@case("broadcast_to")
def _broadcast_to(d: Draw) -> Arguments:
    shape, other = d.shapes(2)
    return [d.array(ALL, shape), np.broadcast_shapes(shape, other)], {}


@case("broadcast_arrays")
def _broadcast_arrays(d: Draw) -> Arguments:
    return [d.array(ALL, s) for s in d.shapes(d.integer(1, 3))], {}


@case("broadcast_shapes")
def _broadcast_shapes(d: Draw) -> Arguments:
    return list(d.shapes(d.integer(1, 3))), {}


# ---- manipulation -------------------------------------------------------------------------------


def _like_shapes(d: Draw, axis: int | None, shape: tuple[int, ...]) -> list[Any]:
    first, second = d.promoting(ALL)
    out = []
    for dtype in (first, second)[: d.integer(1, 2)]:
        own = list(shape)
        if axis is not None and out:
            own[axis] = d.integer(0, 3)
        out.append(d.array(dtype, tuple(own)))
    return out


@case("concat")
def _concat(d: Draw) -> Arguments:
    if d.integer(0, 3) == 0:
        dtype = d.pick(ALL)
        return [[d.array(dtype), d.array(dtype)]], {"axis": None}
    shape = d.shape(1)
    axis = d.axis(len(shape))
    arrays = _like_shapes(d, axis, shape)
    return [d.pick([arrays, tuple(arrays)])], {"axis": axis}


@case("stack")
def _stack(d: Draw) -> Arguments:
    shape = d.shape()
    axis = d.integer(-len(shape) - 1, len(shape))
    return [_like_shapes(d, None, shape)], {"axis": axis}


@case("expand_dims")
def _expand_dims(d: Draw) -> Arguments:
    x = d.array(ALL)
    axis = d.integer(-x.ndim - 1, x.ndim)
    return d.pick([([x, axis], {}), ([x], {"axis": axis})])


@case("squeeze")
def _squeeze(d: Draw) -> Arguments:
    shape = list(d.shape(1, 4))
    ones = d.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    for i in ones:
        shape[i] = 1
    axis = d.pick([ones[0], ones[0] - len(shape), tuple(ones)])
    return [d.array(ALL, tuple(shape)), axis], {}


@case("flip")
def _flip(d: Draw) -> Arguments:
    x = d.array(ALL)
    axis = d.axes(x.ndim)
    return [x], {} if axis is None or axis == () else {"axis": axis}


@case("moveaxis")
def _moveaxis(d: Draw) -> Arguments:
    x = d.array(ALL, d.shape(1, 4))
    count = d.integer(1, x.ndim)
    source = tuple(d.draw(st.permutations(range(x.ndim))))[:count]
    target = tuple(d.draw(st.permutations(range(x.ndim))))[:count]
    if count == 1 and d.integer(0, 1):
        return [x, source[0], target[0] - x.ndim], {}
    return [x, source, target], {}


@case("permute_dims")
def _permute_dims(d: Draw) -> Arguments:
    x = d.array(ALL, d.shape(0, 4))
    return [x, tuple(d.draw(st.permutations(range(x.ndim))))], {}


@case("repeat")
def _repeat(d: Draw) -> Arguments:
    x = d.array(ALL)
    axis = None if x.ndim == 0 or d.integer(0, 2) == 0 else d.axis(x.ndim)
    length = x.size if axis is None else x.shape[axis]
    repeats = d.pick(
        [d.integer(0, 3), d.array(["int32", "int64"], (length,), of=st.integers(0, 3))]
    )
    return [x, repeats], {} if axis is None else {"axis": axis}


@case("reshape")
def _reshape(d: Draw) -> Arguments:
    x = d.array(ALL)
    shape: list[int] = []
    left = x.size
    for _ in range(d.integer(0, 3)):
        n = d.pick([i for i in range(1, 4) if left % i == 0] if left else [0, 1, 2])
        shape.append(n)
        left = left // n if n else left
    if x.size == 0 and 0 not in shape:
        shape.append(0)
    elif x.size:
        shape.append(d.pick([left, -1]))
    return [x, tuple(shape)], d.options(copy=[None, True])


@case("roll")
def _roll(d: Draw) -> Arguments:
    x = d.array(ALL)
    if x.ndim == 0 or d.integer(0, 2) == 0:
        return [x, d.integer(-5, 5)], {}
    axes = d.axes(x.ndim)
    if isinstance(axes, tuple):
        return [x, tuple(d.integer(-5, 5) for _ in axes)], {"axis": axes}
    return [x, d.integer(-5, 5)], {} if axes is None else {"axis": axes}


@case("tile")
def _tile(d: Draw) -> Arguments:
    return [d.array(ALL), d.shape(0, 4, side=2)], {}


@case("unstack")
def _unstack(d: Draw) -> Arguments:
    x = d.array(ALL, d.shape(1))
    return [x], {"axis": d.axis(x.ndim)} if d.integer(0, 1) else {}


# ---- searching, sorting, sets -------------------------------------------------------------------


@case("argmax", "argmin", dtype="narrow")
def _argmax(d: Draw) -> Arguments:
    x = d.array(REAL, d.shape(least=1))
    axis = d.pick([None, d.axis(x.ndim) if x.ndim else None])
    return [x], {"axis": axis, **d.options(keepdims=[True, False])}


@case("count_nonzero", dtype="narrow")
def _count_nonzero(d: Draw) -> Arguments:
    x = d.array(ALL)
    return [x], {"axis": d.axes(x.ndim), **d.options(keepdims=[True, False])}


@case("nonzero", dtype="narrow")
def _nonzero(d: Draw) -> Arguments:
    return [d.array(ALL, d.shape(1))], {}


@case("searchsorted", dtype="narrow")
def _searchsorted(d: Draw) -> Arguments:
    dtype = d.pick(REAL)
    of = st.integers(0 if dtype.startswith("u") else -8, 8)
    x = np.sort(d.array(dtype, (d.integer(0, 5),), of=of))
    options = d.options(side=["left", "right"])
    if d.integer(0, 3) == 0:
        order = np.asarray(d.draw(st.permutations(range(len(x)))), "int64")
        shuffled = np.empty_like(x)
        shuffled[order] = x
        x, options["sorter"] = shuffled, order
    return [x, d.array(dtype, of=of)], options


@case("where")
def _where(d: Draw) -> Arguments:
    condition, *shapes = d.shapes(3)
    operands: list[Any] = [d.array(t, s) for t, s in zip(d.promoting(ALL), shapes, strict=True)]
    if d.integer(0, 3) == 0:
        operands[1] = d.number(operands[0].dtype.name)
    return [d.array("bool", condition), *operands], {}


def _without_nan(d: Draw, dtype: str) -> st.SearchStrategy[Any] | None:
    if dtype not in FLOATS:
        return None
    return st.one_of(st.integers(-3, 3).map(float), st.sampled_from([math.inf, -math.inf]))


@case("sort")
@case("argsort", dtype="narrow")
def _sort(d: Draw) -> Arguments:
    dtype = d.pick(REAL)
    x = d.array(dtype, d.shape(1), of=_without_nan(d, dtype))
    return [x], d.options(axis=range(-x.ndim, x.ndim), descending=[True, False], stable=[True])


def _of_few(d: Draw) -> Arguments:
    return [d.array(ALL, small=True)], {}


for _name in ("unique_all", "unique_counts", "unique_inverse"):
    CASES[_name] = Case(_of_few, dtype="unique", signs=False)
CASES["unique_values"] = Case(_of_few, signs=False)


@case("isin", want=np.isin)  # array-api-strict 2.6 does not look at `invert`
def _isin(d: Draw) -> Arguments:
    dtype = d.pick(INTS)
    x, values = (d.array(dtype, small=True) for _ in range(2))
    return [x, values], d.options(invert=[True, False])


@case("take")
def _take(d: Draw) -> Arguments:
    x = d.array(ALL, d.shape(1, least=1))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    indices = d.array(["int32", "int64", "uint8"], (d.integer(0, 3),), of=st.integers(0, size - 1))
    return [x, indices], {"axis": axis} if x.ndim > 1 or d.integer(0, 1) else {}


@case("take_along_axis")
def _take_along_axis(d: Draw) -> Arguments:
    x = d.array(ALL, d.shape(1, least=1))
    axis = d.axis(x.ndim)
    shape = list(x.shape)
    shape[axis] = d.integer(0, 4)
    size = x.shape[axis]
    indices = d.array(["int32", "int64"], tuple(shape), of=st.integers(0, size - 1))
    return [x, indices], {"axis": axis}


# ---- statistics ---------------------------------------------------------------------------------


@case("all", "any")
def _truth(d: Draw) -> Arguments:
    x = d.array(ALL)
    return [x], {"axis": d.axes(x.ndim), **d.options(keepdims=[True, False])}


@case("sum", "prod", dtype="sum", ulps=16)
def _sum(d: Draw) -> Arguments:
    x = d.array(NUMERIC, small=True)
    kwargs = {"axis": d.axes(x.ndim), **d.options(keepdims=[True, False])}
    if d.integer(0, 3) == 0:
        kwargs["dtype"] = Named(d.pick(COMPLEX if x.dtype.kind == "c" else INEXACT))
    return [x], kwargs


@case("max", "min")
def _max(d: Draw) -> Arguments:
    x = d.array(REAL, d.shape(least=1))
    return [x], {"axis": d.axes(x.ndim), **d.options(keepdims=[True, False])}


@case("mean", ulps=16, signs=False)
def _mean(d: Draw) -> Arguments:
    x = d.array(INEXACT, small=True)
    return [x], {"axis": d.axes(x.ndim), **d.options(keepdims=[True, False])}


@case("var", "std", ulps=64, signs=False)
def _var(d: Draw) -> Arguments:
    x = d.array(FLOATS, small=True)
    options = d.options(correction=[0.0, 1.0, 0.5, 2], keepdims=[True, False])
    return [x], {"axis": d.axes(x.ndim), **options}


@case("cumulative_sum", "cumulative_prod", dtype="sum", signs=False)
def _cumulative(d: Draw) -> Arguments:
    x = d.array(NUMERIC, d.shape(1), small=True)
    kwargs: dict[str, Any] = d.options(include_initial=[True, False])
    if x.ndim > 1 or d.integer(0, 1):
        kwargs["axis"] = d.axis(x.ndim)
    if d.integer(0, 3) == 0:
        kwargs["dtype"] = Named(d.pick(COMPLEX if x.dtype.kind == "c" else INEXACT))
    return [x], kwargs


@case("diff", signs=False)
def _diff(d: Draw) -> Arguments:
    dtype = d.pick(NUMERIC)
    shape = d.shape(1)
    axis = d.axis(len(shape))
    kwargs: dict[str, Any] = {"axis": axis, **d.options(n=[0, 1, 2])}
    for name in ("prepend", "append"):
        if d.integer(0, 2) == 0:
            own = list(shape)
            own[axis] = d.integer(1, 2)
            kwargs[name] = d.array(dtype, tuple(own), small=True)
    return [d.array(dtype, shape, small=True)], kwargs


# ---- products -----------------------------------------------------------------------------------


def _products(d: Draw) -> tuple[str, str]:
    return d.promoting(NUMERIC)


@case("matmul", "linalg.matmul", signs=False)
def _matmul(d: Draw) -> Arguments:
    first, second = _products(d)
    shapes = d.draw(npst.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2,
                                                       min_side=0, max_side=3))  # fmt: skip
    a, b = shapes.input_shapes
    return [d.array(first, a, small=True), d.array(second, b, small=True)], {}


@case("matrix_transpose", "linalg.matrix_transpose")
def _matrix_transpose(d: Draw) -> Arguments:
    return [d.array(ALL, d.shape(2, 4))], {}


@case("tensordot", "linalg.tensordot", signs=False)
def _tensordot(d: Draw) -> Arguments:
    first, second = _products(d)
    shared = d.shape(0, 2)
    a, b = d.shape(0, 2) + shared, shared + d.shape(0, 2)
    arrays = [d.array(first, a, small=True), d.array(second, b, small=True)]
    n = len(shared)
    if d.integer(0, 1):
        return arrays, {"axes": n}
    own = tuple(range(len(a) - n, len(a)))
    return arrays, {"axes": (own[::-1], tuple(range(n))[::-1])}


@case("vecdot", "linalg.vecdot", signs=False)
def _vecdot(d: Draw) -> Arguments:
    first, second = _products(d)
    a, b = d.shapes(2)
    n = d.integer(0, 3)
    return [d.array(first, (*a, n), small=True), d.array(second, (*b, n), small=True)], {}


# ---- linear algebra -----------------------------------------------------------------------------


def _batch(d: Draw) -> tuple[int, ...]:
    return d.shape(0, 1, side=2)


def _square(d: Draw, dtypes: list[str] = INEXACT, side: int | None = None) -> np.ndarray[Any, Any]:
    """Invertible: the diagonal outweighs the rest."""
    n = d.integer(1, 3) if side is None else side
    a = d.array(dtypes, (*_batch(d), n, n), of=st.integers(-2, 2).map(float))
    return (a + 9 * np.eye(n)).astype(a.dtype)


def _hermitian(d: Draw) -> np.ndarray[Any, Any]:
    a = d.array(INEXACT, (*_batch(d), *(2 * (d.integer(1, 3),))), small=True)
    out = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1])
    return out.astype(a.dtype)


@case("linalg.cholesky", ulps=512, signs=False)
def _cholesky(d: Draw) -> Arguments:
    return [_hermitian(d)], d.options(upper=[True, False])


@case("linalg.cross", signs=False)
def _cross(d: Draw) -> Arguments:
    first, second = _products(d)
    a, b = d.shapes(2)
    axis = -d.integer(1, 1 + min(len(a), len(b)))
    shapes = []
    for shape in (a, b):
        own = list(shape)
        own.insert(len(shape) + 1 + axis, 3)
        shapes.append(tuple(own))
    return [d.array(t, s, small=True) for t, s in zip((first, second), shapes, strict=True)], {
        "axis": axis
    }


@case("linalg.det", "linalg.inv", "linalg.slogdet", ulps=4096, signs=False)
def _det(d: Draw) -> Arguments:
    return [_square(d)], {}


@case("linalg.diagonal")
def _diagonal(d: Draw) -> Arguments:
    return [d.array(ALL, d.shape(2, 4))], d.options(offset=range(-4, 5))


@case("linalg.trace", dtype="sum", signs=False)
def _trace(d: Draw) -> Arguments:
    return [d.array(NUMERIC, d.shape(2, 4), small=True)], d.options(offset=range(-4, 5))


def _tensor(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x.numpy())


def _near(got: Any, want: Any, dtype: Any) -> None:
    scale = float(np.max(np.abs(want), initial=1))
    tolerance = 4096 * float(np.finfo(dtype).eps) * scale
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


def _check_eigh(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    values, vectors = _tensor(got.eigenvalues), _tensor(got.eigenvectors)
    assert values.dtype == np.abs(x).dtype
    assert vectors.dtype == x.dtype
    _near(x @ vectors, vectors * values[..., None, :], x.dtype)
    assert (np.diff(values) >= 0).all()


@case("linalg.eigh", check=_check_eigh)
@case("linalg.eigvalsh", ulps=4096, signs=False)
def _eigh(d: Draw) -> Arguments:
    return [_hermitian(d)], {}


def _complex_of(x: np.ndarray[Any, Any]) -> Any:
    return np.result_type(x.dtype, "complex64")


def _check_eig(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    values, vectors = _tensor(got.eigenvalues), _tensor(got.eigenvectors)
    assert values.dtype == vectors.dtype == _complex_of(x)
    _near(x @ vectors, vectors * values[..., None, :], x.dtype)


def _check_eigvals(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    values = _tensor(got)
    assert values.dtype == _complex_of(x)
    _near(values.sum(-1), np.trace(x, axis1=-2, axis2=-1), x.dtype)


@case("linalg.eig", check=_check_eig)
@case("linalg.eigvals", check=_check_eigvals)
def _eig(d: Draw) -> Arguments:
    return [_square(d)], {}


@case("linalg.matrix_norm", ulps=4096)
def _matrix_norm(d: Draw) -> Arguments:
    x = d.array(INEXACT, d.shape(2, 3, least=1), small=True)
    orders = ["fro", "nuc", 1, -1, 2, math.inf, -math.inf]
    return [x], d.options(ord=orders, keepdims=[True, False])


@case("linalg.matrix_power", ulps=4096, signs=False)
def _matrix_power(d: Draw) -> Arguments:
    return [_square(d), d.integer(-2, 4)], {}


@case("linalg.matrix_rank", dtype="narrow")
def _matrix_rank(d: Draw) -> Arguments:
    return [d.array(INEXACT, d.shape(2, 3, least=1), small=True)], {}


@case("linalg.outer", signs=False)
def _outer(d: Draw) -> Arguments:
    dtypes = _products(d)
    return [d.array(t, (d.integer(0, 3),), small=True) for t in dtypes], {}


def _check_pinv(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    assert got.dtype == x.dtype
    _near(x @ _tensor(got) @ x, x, x.dtype)


@case("linalg.pinv", check=_check_pinv)
def _pinv(d: Draw) -> Arguments:
    return [d.array(INEXACT, d.shape(2, 3, least=1), small=True)], {}


def _check_qr(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    q, r = _tensor(got.Q), _tensor(got.R)
    k = x.shape[-2] if kwargs.get("mode") == "complete" else min(x.shape[-2:])
    assert q.shape[-2:] == (x.shape[-2], k)
    assert q.dtype == r.dtype == x.dtype
    _near(q @ r, x, x.dtype)
    _near(np.tril(r, -1), np.zeros_like(r), x.dtype)


@case("linalg.qr", check=_check_qr)
def _qr(d: Draw) -> Arguments:
    return [d.array(INEXACT, d.shape(2, 3, least=1), small=True)], d.options(
        mode=["reduced", "complete"]
    )


@case("linalg.solve", ulps=4096, signs=False)
def _solve(d: Draw) -> Arguments:
    a = _square(d, d.pick([FLOATS, COMPLEX]))
    n = a.shape[-1]
    shape = d.pick([(n,), (*a.shape[:-2], n, 2)])
    return [a, d.array([a.dtype.name], shape, small=True)], {}


def _check_svd(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    u, s, vh = (_tensor(i) for i in (got.U, got.S, got.Vh))
    k = min(x.shape[-2:])
    if kwargs.get("full_matrices", True):
        assert u.shape[-1] == x.shape[-2]
        assert vh.shape[-2] == x.shape[-1]
    else:
        assert u.shape[-1] == vh.shape[-2] == k
    assert s.dtype == np.abs(x).dtype
    assert u.dtype == vh.dtype == x.dtype
    _near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, x.dtype)
    assert (np.diff(s) <= 0).all()


@case("linalg.svd", check=_check_svd)
def _svd(d: Draw) -> Arguments:
    return [d.array(INEXACT, d.shape(2, 3, least=1), small=True)], d.options(
        full_matrices=[True, False]
    )


def _check_svdvals(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
    (x,) = args
    values = _tensor(got)
    assert values.dtype == np.abs(x).dtype
    _near(values, np.linalg.svd(x, compute_uv=False), x.dtype)


@case("linalg.svdvals", check=_check_svdvals)
def _svdvals(d: Draw) -> Arguments:
    return [d.array(INEXACT, d.shape(2, 3, least=1), small=True)], {}


@case("linalg.vector_norm", ulps=512)
def _vector_norm(d: Draw) -> Arguments:
    x = d.array(INEXACT, d.shape(least=1), small=True)
    axis = d.axes(x.ndim)
    options = d.options(ord=[0, 1, 2, 3, 0.5, math.inf, -math.inf], keepdims=[True, False])
    return [x], {"axis": None if axis == () else axis, **options}


# ---- Fourier transforms -------------------------------------------------------------------------


def _check_fft(name: str) -> Any:
    def check(args: list[Any], kwargs: dict[str, Any], got: Any) -> None:
        (x,) = args
        want = getattr(np.fft, name)(x, **kwargs)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        _near(_tensor(got), want, x.dtype)

    return check


def _transform(dtypes: list[str], several: bool) -> Any:
    def draw(d: Draw) -> Arguments:
        x = d.array(dtypes, d.shape(1, least=2, side=5), small=True)
        kwargs: dict[str, Any] = d.options(norm=["backward", "ortho", "forward"])
        if not several:
            return [x], {**kwargs, **d.options(n=range(1, 7), axis=range(-x.ndim, x.ndim))}
        if d.integer(0, 1):
            axes = d.draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
            kwargs["axes"] = axes
            if d.integer(0, 1):
                kwargs["s"] = [d.integer(1, 6) for _ in axes]
        return [x], kwargs

    return draw


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _dtypes = FLOATS if _name in ("rfft", "ihfft") else COMPLEX
    CASES[f"fft.{_name}"] = Case(_transform(_dtypes, several=False), check=_check_fft(_name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _dtypes = FLOATS if _name == "rfftn" else COMPLEX
    CASES[f"fft.{_name}"] = Case(_transform(_dtypes, several=True), check=_check_fft(_name))


@case("fft.fftfreq", "fft.rfftfreq", dtype="narrow")
def _fftfreq(d: Draw) -> Arguments:
    return [d.integer(1, 9)], {**d.options(d=[1.0, 0.5, 3.0]), **_dtype(d, FLOATS)}


@case("fft.fftshift", "fft.ifftshift")
def _fftshift(d: Draw) -> Arguments:
    x = d.array(INEXACT, d.shape(1))
    axes = d.axes(x.ndim)
    return [x], {} if axes in (None, ()) else {"axes": axes}
