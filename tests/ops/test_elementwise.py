"""Elementwise functions at the points that records keep clear of: specials, kinks, wrong inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.avx2 import outer_run, run_under_avx2
from tests.ops.record import INTS

INF, NAN = float("inf"), float("nan")


def gradients(fn: Any, *arrays: Any, dy: Any = None, dtype: str = "float64") -> list[Any]:
    xs = [mge.tensor(np.asarray(a, dtype), dtype=dtype) for a in arrays]
    gm = GradManager()
    gm.attach(xs)
    with gm:
        y = fn(*xs)
        gm.backward(y, None if dy is None else mge.tensor(np.asarray(dy, dtype), dtype=dtype))
    return [None if x.grad is None else x.grad.numpy() for x in xs]


def mode(name: str, *xs: Any) -> np.ndarray:
    return apply(builtin.Elemwise(mode=name), *xs)[0].numpy()


# ---- special values ----------------------------------------------------------------------------

SPECIALS = np.array(
    [0.0, 1.0, 2.0, 0.5, INF, 1e-45, 3e38, 1e-38, 90.0, NAN] * 2,
    np.float32,
) * np.repeat(np.array([1, -1], np.float32), 10)
REFERENCES = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh,
    "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "log": np.log, "log1p": np.log1p,
    "neg": np.negative, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
    "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name: str, dtype: str) -> None:
    x = SPECIALS.astype(dtype)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64)).astype(dtype)
    got = getattr(F, name)(mge.tensor(x, dtype=dtype)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-14)
    zero = (x == 0) & (want == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pow_follows_c(dtype: str) -> None:
    x, y = np.meshgrid(
        np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -8, INF, -INF, NAN]),
        np.array([0.0, -0.0, 1, -1, 2, 3, -3, 0.5, -0.5, 1 / 3, INF, -INF, NAN, 1e10]),
    )
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    got = F.pow(mge.tensor(x, dtype=dtype), mge.tensor(y, dtype=dtype)).numpy()
    np.testing.assert_allclose(got, want.astype(dtype), rtol=1e-6)
    # A single exponent may take another path.
    for exponent in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -0.5, 1.7):
        with np.errstate(all="ignore"):
            want = np.power(x[0], np.full(11, exponent))
        got = F.pow(mge.tensor(x[0], dtype=dtype), exponent).numpy()
        np.testing.assert_allclose(got, want.astype(dtype), rtol=1e-6)
        real = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[real]), np.signbit(want[real]))


def test_extremes_of_activations() -> None:
    x = mge.tensor([-INF, -1e4, -90.0, 0.0, 90.0, 1e4, 2e38, INF])
    np.testing.assert_allclose(
        F.softplus(x).numpy(), [0, 0, np.exp(-90.0), np.log(2), 90, 1e4, 2e38, INF], rtol=1e-5
    )
    np.testing.assert_allclose(
        F.logsigmoid(x).numpy(), [-INF, -1e4, -90, -np.log(2), -np.exp(-90.0), 0, 0, 0], rtol=1e-5
    )
    np.testing.assert_allclose(
        F.sigmoid(x).numpy(), [0, 0, np.exp(-90.0), 0.5, 1, 1, 1, 1], rtol=1e-5
    )
    np.testing.assert_allclose(
        F.silu(x).numpy(), [0, 0, -90 * np.exp(-90.0), 0, 90, 1e4, 2e38, INF], rtol=1e-6
    )
    np.testing.assert_allclose(F.gelu(x).numpy(), [0, 0, 0, 0, 90, 1e4, 2e38, INF], rtol=1e-6)
    np.testing.assert_allclose(F.hswish(x).numpy(), [0, 0, 0, 0, 90, 1e4, 2e38, INF], rtol=1e-6)
    np.testing.assert_allclose(F.logaddexp(x, x).numpy(), x.numpy() + np.log(2), rtol=1e-6)
    for fn in (F.softplus, F.logsigmoid, F.sigmoid, F.silu, F.gelu, F.tanh):
        (dx,) = gradients(fn, [-INF, -1e4, -90.0, 0.0, 90.0, 1e4, INF], dtype="float32")
        assert np.isfinite(dx).all(), fn
    assert [
        np.isfinite(d).all() for d in gradients(F.logaddexp, [-INF, INF, 1e4], [-INF, INF, -INF])
    ] == [True, True]


def test_gelu_keeps_its_tail() -> None:
    from math import erfc, sqrt

    x = np.linspace(-12, 5, 2001, dtype=np.float32)
    want = [float(v) * 0.5 * erfc(-float(v) / sqrt(2)) for v in x]
    np.testing.assert_allclose(F.gelu(mge.tensor(x)).numpy(), want, rtol=5e-7)


def test_huge_arguments_of_sine() -> None:
    x = np.array([1e5, 1e10, 1e22, 3e38, -3e38, 123456789.0], np.float32)
    for fn, ref in ((F.sin, np.sin), (F.cos, np.cos), (F.tan, np.tan)):
        np.testing.assert_allclose(fn(mge.tensor(x)).numpy(), ref(x.astype(np.float64)), rtol=1e-6)


def test_nan_wins() -> None:
    a, b = mge.tensor([NAN, 1.0, NAN]), mge.tensor([1.0, NAN, NAN])
    assert np.isnan(F.maximum(a, b).numpy()).all()
    assert np.isnan(F.minimum(a, b).numpy()).all()
    assert np.isnan(F.relu(a).numpy()).tolist() == [True, False, True]
    assert np.isnan(F.clip(a, 0, 1).numpy()).tolist() == [True, False, True]
    assert np.isnan(F.prelu(a, 0.1).numpy()).tolist() == [True, False, True]
    assert np.isnan(mode("SIGN", a)).tolist() == [True, False, True]


def test_round_goes_away_from_zero() -> None:
    x = [0.5, 1.5, -0.5, -1.5, 2.5, 0.49999997, -0.2, 8388609.0, INF]
    want = [1, 2, -1, -2, 3, 0, -0.0, 8388609, INF]
    got = F.round(mge.tensor(x)).numpy()
    np.testing.assert_array_equal(got, want)
    assert np.signbit(got[6])


# ---- division ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_float_division_follows_python(dtype: str) -> None:
    values = np.array([0.0, -0.0, 1, -1, 3, -3, 5.5, -5.5, 0.1, 1e4, INF, -INF, NAN])
    a, b = (v.astype(dtype) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        quotient = np.floor_divide(a, b).astype(np.float64)
        remainder = np.mod(a, b)
    x, y = mge.tensor(a, dtype=dtype), mge.tensor(b, dtype=dtype)
    np.testing.assert_allclose(F.mod(x, y).numpy(), remainder, rtol=1e-6)
    got = F.floor_div(x, y).numpy()
    if dtype != "float16":  # whose quotients NumPy rounds before it takes the floor
        np.testing.assert_allclose(got, quotient, rtol=1e-6)
    big = mge.tensor([1e30, -1e30, 3e38], dtype="float32")
    three = np.array([1e30, -1e30, 3e38], np.float32).astype(float) % 3
    np.testing.assert_allclose(F.mod(big, 3.0).numpy(), three)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100], dtype)
    if info.min < 0:
        values = np.concatenate([values, np.array([-1, -2, -3, -7, -100], dtype)])
    a, b = np.meshgrid(values, values)
    with np.errstate(all="ignore"):
        want_q, want_r = np.floor_divide(a, b), np.mod(a, b)
    x, y = mge.tensor(a, dtype=dtype), mge.tensor(b, dtype=dtype)
    np.testing.assert_array_equal(F.floor_div(x, y).numpy(), np.where(b == 0, 0, want_q))
    np.testing.assert_array_equal(F.mod(x, y).numpy(), np.where(b == 0, 0, want_r))
    assert F.div(x, y).dtype == (np.float32 if dtype != "float64" else np.float64)


def test_integers_wrap_and_shift() -> None:
    x = mge.tensor([127, -128, 100], dtype="int8")
    np.testing.assert_array_equal((x + x).numpy(), np.array([-2, 0, -56], np.int8))
    np.testing.assert_array_equal((x * x).numpy(), np.array([1, 0, 16], np.int8))
    np.testing.assert_array_equal(abs(x).numpy(), np.array([127, -128, 100], np.int8))
    y = mge.tensor([5, -5, 1 << 30], dtype="int32")
    for count in (-1, 32, 33, 1 << 20):
        np.testing.assert_array_equal(F.left_shift(y, count).numpy(), [0, 0, 0])
        np.testing.assert_array_equal(F.right_shift(y, count).numpy(), [0, -1, 0])
    z = mge.tensor([200], dtype="uint8")
    np.testing.assert_array_equal(F.right_shift(z, 9).numpy(), [0])
    np.testing.assert_array_equal(
        mode(
            "RMULH",
            mge.tensor([100, -100, -128], dtype="int8"),
            mge.tensor([100, 100, -128], dtype="int8"),
        ),
        [78, -78, 127],
    )
    np.testing.assert_array_equal(
        mode("RMULH", mge.tensor([100, 5], dtype="uint8"), mge.tensor([100, 100], dtype="uint8")),
        [39, 2],
    )


# ---- gradients at kinks and edges --------------------------------------------------------------


def test_gradients_at_kinks() -> None:
    (dx,) = gradients(F.abs, [-1, 0, 1])
    np.testing.assert_array_equal(dx, [-1, 0, 1])
    (dx,) = gradients(F.relu, [-1, 0, 1])
    np.testing.assert_array_equal(dx, [0, 0, 1])
    (dx,) = gradients(F.relu6, [-1, 0, 1, 6, 7])
    np.testing.assert_array_equal(dx, [0, 0, 1, 0, 0])
    (dx,) = gradients(F.leaky_relu, [-1, 0, 1])
    np.testing.assert_array_equal(dx, [0.01, 1, 1])
    for bounds in ((-1, 1), (-1, None), (None, 1)):
        (dx,) = gradients(lambda x, b=bounds: F.clip(x, *b), [-2, -1, 0, 1, 2])
        np.testing.assert_array_equal(dx, [bounds[0] is None, 1, 1, 1, bounds[1] is None])


def test_ties_share() -> None:
    for fn in (F.maximum, F.minimum):
        dx, dy = gradients(fn, [1, 2, 3], [1, 3, 2])
        np.testing.assert_array_equal(dx + dy, 1)
        assert dx[0] == 0.5
        (dx,) = gradients(lambda x, f=fn: f(x, x), [1, 2, 3], dy=[1, 10, 100])
        np.testing.assert_array_equal(dx, [1, 10, 100])


def test_gradient_of_clip_in_its_bounds() -> None:
    dx, low, high = gradients(F.clip, [-2, -1, 0, 1, 2], [-1] * 5, [1] * 5)
    np.testing.assert_array_equal(dx, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(low, [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(high, [0, 0, 0, 0, 1])
    assert [float(d[0]) for d in gradients(F.clip, [0.0], [3.0], [2.0])] == [0, 1, 0]
    crossed = F.clip(mge.tensor([1.0, 2.0, 5.0]), 3, 2)
    np.testing.assert_array_equal(crossed.numpy(), [3, 3, 2])


def test_gradient_of_pow() -> None:
    dx, dy = gradients(F.pow, [0, 0, 0, -2, -2, 2], [0, 1, 2, 3, 2, 0.5])
    np.testing.assert_allclose(dx, [0, 1, 0, 12, -4, 0.5 * 2**-0.5])
    np.testing.assert_allclose(dy[:3], 0)
    np.testing.assert_allclose(dy[5], 2**0.5 * np.log(2))
    (dx,) = gradients(lambda x: x**2, [-1, 0, 3])
    np.testing.assert_allclose(dx, [-2, 0, 6])
    (dx,) = gradients(lambda x: x**0, [-1, 0, 3])
    np.testing.assert_allclose(dx, [0, 0, 0])
    (dx,) = gradients(lambda x: 2**x, [-1, 0, 3])
    np.testing.assert_allclose(dx, np.log(2) * np.array([0.5, 1, 8]))


def test_broadcast_gradients_are_summed() -> None:
    a, b = gradients(F.mul, np.ones((2, 3)), np.full((3, 1, 1), 2.0))
    np.testing.assert_array_equal(a, np.full((2, 3), 6.0))
    np.testing.assert_array_equal(b, np.full((3, 1, 1), 6.0))


# ---- layouts and sizes -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int8", "float64"])
@pytest.mark.parametrize("size", [1, 7, 1023, 1025, 5000])
def test_strided_operands(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    a = (rng.normal(size=(3, size, 5)) * 5).astype(dtype)
    x = mge.tensor(a, dtype=dtype)
    views = [
        (x, a), (x[:, ::-1], a[:, ::-1]), (x[..., ::2], a[..., ::2]),
        (x[1], a[1]), (x[:, :1], a[:, :1]), (x[:, :, 2:3], a[:, :, 2:3]),
    ]  # fmt: skip
    for p, u in views:
        for q, v in views:
            if u.shape[-1] != v.shape[-1] and 1 not in (u.shape[-1], v.shape[-1]):
                continue
            np.testing.assert_array_equal(F.less(p, q).numpy(), np.less(u, v))
            if dtype != "bool":
                np.testing.assert_array_equal(F.maximum(p, q).numpy(), np.maximum(u, v))


def test_transposed_operands_of_any_size() -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (70, 300), (130, 5, 257)):
        a = rng.normal(size=shape).astype(np.float32)
        b = rng.normal(size=shape[::-1]).astype(np.float32)
        x, y = mge.tensor(a), mge.tensor(b)
        axes = tuple(range(len(shape)))[::-1]
        t = apply(builtin.Dimshuffle(pattern=axes), y)[0]
        np.testing.assert_array_equal((x + t).numpy(), a + b.T)
        np.testing.assert_array_equal((t - x).numpy(), b.T - a)
        np.testing.assert_array_equal((t < x).numpy(), a > b.T)
        half = apply(builtin.Dimshuffle(pattern=axes), y.astype("float16"))[0]
        np.testing.assert_array_equal((half + half).numpy(), (b.astype("f2") * 2).T)


def test_large_results() -> None:
    # Large enough to be written around the caches, with a tail.
    rng = np.random.default_rng(0)
    a, b = (rng.random(2**23 + 13, np.float32) for _ in range(2))
    x, y = mge.tensor(a), mge.tensor(b)
    np.testing.assert_array_equal((x + y).numpy(), a + b)
    np.testing.assert_array_equal((x * 2).numpy(), a * 2)
    np.testing.assert_array_equal(F.relu(x - y).numpy(), np.maximum(a - b, 0))


def test_empty() -> None:
    x = mge.tensor(np.zeros((0, 3), np.float32))
    assert (x + mge.tensor(np.ones((1, 3), np.float32))).shape == (0, 3)
    assert F.exp(x).shape == (0, 3)


# ---- casts -------------------------------------------------------------------------------------

DTYPES = [
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_casts_follow_numpy(source: str, target: str) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        a = np.concatenate(
            [rng.normal(size=300) * 10.0**k for k in (-8, -4, 0, 2, 4, 6, 9, 12)]
            + [np.array([0.0, -0.0, 0.4, -0.6, 65504, 65519.99, 65520, 6e-8, 2.9e-8])]
        ).astype(source)
        if a.dtype.kind == "f":
            a = np.concatenate([a, np.array([NAN, INF, -INF], source)])
            if target in ("uint32", "uint64"):  # NumPy's own answer outside depends on the machine
                a = a[(a > -1) & (a.astype("float64") < 2.0 ** (8 * np.dtype(target).itemsize))]
        want = a.astype(target)
    x = mge.tensor(a, dtype=source)
    got = x.astype(target).numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(x[::-2].astype(target).numpy(), want[::-2])


def test_bfloat16_rounds_once() -> None:
    # Half way between two bfloat16 numbers, and a bit more than float32 can tell.
    x = np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40])
    got = mge.tensor(x, dtype="float64").astype("bfloat16").astype("float64").numpy()
    np.testing.assert_array_equal(got, [1, 1 + 2.0**-7, 1 + 2.0**-7])


# ---- wrong inputs ------------------------------------------------------------------------------


def test_wrong_inputs_raise() -> None:
    x, flag = mge.tensor([1.0, 2.0]), mge.tensor([True, False])
    with pytest.raises(TypeError, match="AND"):
        F.logical_and(x, x)
    with pytest.raises(TypeError, match="NOT"):
        F.logical_not(mge.tensor([1, 2]))
    with pytest.raises(TypeError, match="SHL"):
        F.left_shift(x, x)
    with pytest.raises(TypeError, match="ADD"):
        _ = flag + flag
    with pytest.raises(TypeError, match="NEGATE"):
        _ = -flag
    with pytest.raises(ValueError, match=r"ADD.*\(2,\).*\(3,\)"):
        _ = x + mge.tensor([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="EXP"):
        apply(builtin.Elemwise(mode="EXP"), x, x)
    with pytest.raises(ValueError, match="mode"):
        builtin.Elemwise(mode="NO_SUCH_MODE")
    with pytest.raises(ValueError, match="clip"):
        F.clip(x)


# ---- accuracy ----------------------------------------------------------------------------------

# The limit of each function in units in the last place; tools/ulp.py checks all 2^32 inputs.
LIMITS = {
    "exp": 1.1, "expm1": 1.5, "log": 1.0, "log1p": 1.5, "sqrt": 0.5, "sin": 0.51, "cos": 0.51,
    "tan": 0.51, "asin": 0.51, "acos": 0.51, "atan": 0.51, "sinh": 0.51, "cosh": 0.51, "tanh": 1.5,
    "asinh": 0.51, "acosh": 0.51, "atanh": 0.51,
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_units_in_the_last_place(name: str) -> None:
    x = np.arange(12345, 2**32, 65537, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64))
        rounded = want.astype(np.float32)
    got = getattr(F, name)(mge.tensor(x)).numpy()
    finite = np.isfinite(rounded) & np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    unit = np.exp2(np.maximum(np.frexp(want[finite])[1] - 24, -149).astype(float))
    assert np.max(np.abs(got[finite] - want[finite]) / unit) <= LIMITS[name]


def test_what_fast_gelu_is_off_by() -> None:
    x = np.arange(12345, 2**32, 65537, dtype=np.uint32).view(np.float32)
    x = x[np.abs(x) < 1e30]
    exact = x.astype(np.float64)
    below = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in exact])
    got = apply(builtin.Elemwise(mode="FAST_GELU"), mge.tensor(x))[0].numpy()
    assert (np.abs(got - exact * below) <= 2**-22.5 * np.abs(exact) + 1e-45).all()
    slope = below + exact * np.exp(-np.minimum(exact**2, 1e3) / 2) / math.sqrt(2 * math.pi)
    one = mge.tensor(np.ones_like(x))
    got = apply(builtin.Elemwise(mode="FAST_GELU_GRAD"), mge.tensor(x), one)[0].numpy()
    assert np.abs(got - slope).max() <= 2**-21.9
    special = np.float32([np.inf, -np.inf, np.nan, -0.0])
    got = apply(builtin.Elemwise(mode="FAST_GELU"), mge.tensor(special))[0].numpy()
    np.testing.assert_array_equal(got, np.float32([np.inf, 0, np.nan, -0.0]))


@outer_run
def test_this_file_under_avx2() -> None:
    run_under_avx2(__file__)
