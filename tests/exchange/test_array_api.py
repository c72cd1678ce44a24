"""The array API standard: values against NumPy's, promotion, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import megengine as mge
import megengine.array_api as xp

FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
REAL = INTS + FLOATS
NUMERIC = REAL + COMPLEX
SHAPES = [(), (5,), (0, 3), (2, 3)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.5]


def array_of(dtype, shape, seed=0):
    """Small numbers of any dtype."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if kind in "iu":
        return np.asarray(rng.integers(1 if kind == "u" else -5, 6, shape)).astype(dtype)
    x = rng.normal(0, 2, shape)
    return np.asarray(x + 1j * rng.normal(size=shape) if kind == "c" else x).astype(dtype)


def accumulator(dtype):
    """The dtype of sums: at least 32 bits."""
    if dtype not in INTS or dtype.endswith("64"):
        return dtype
    return "uint32" if dtype.startswith("u") else "int32"


def same(got, want, rtol=None):
    want = np.asarray(want)
    assert isinstance(got, mge.Tensor)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if rtol is None:
        rtol = {"f": 64, "c": 64}.get(want.dtype.kind, 0)
        rtol *= np.finfo(want.dtype).eps if rtol else 0
    np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=rtol)


ONE = {
    "abs": NUMERIC, "acos": FLOATS + COMPLEX, "acosh": FLOATS + COMPLEX, "asin": FLOATS + COMPLEX,
    "asinh": FLOATS + COMPLEX, "atan": FLOATS + COMPLEX, "atanh": FLOATS + COMPLEX,
    "bitwise_invert": ["bool", *INTS], "ceil": REAL, "conj": NUMERIC, "cos": FLOATS + COMPLEX,
    "cosh": FLOATS + COMPLEX, "exp": FLOATS + COMPLEX, "expm1": FLOATS + COMPLEX, "floor": REAL,
    "imag": COMPLEX, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC,
    "log": FLOATS + COMPLEX, "log10": FLOATS + COMPLEX, "log1p": FLOATS + COMPLEX,
    "log2": FLOATS + COMPLEX, "logical_not": ["bool"], "negative": NUMERIC, "positive": NUMERIC,
    "real": COMPLEX, "reciprocal": FLOATS + COMPLEX, "round": NUMERIC, "sign": NUMERIC,
    "signbit": FLOATS, "sin": FLOATS + COMPLEX, "sinh": FLOATS + COMPLEX,
    "sqrt": FLOATS + COMPLEX, "square": NUMERIC, "tan": FLOATS + COMPLEX,
    "tanh": FLOATS + COMPLEX, "trunc": REAL,
}  # fmt: skip
TWO = {
    "add": NUMERIC, "atan2": FLOATS, "bitwise_and": ["bool", *INTS],
    "bitwise_left_shift": INTS, "bitwise_or": ["bool", *INTS], "bitwise_right_shift": INTS,
    "bitwise_xor": ["bool", *INTS], "copysign": FLOATS, "divide": FLOATS + COMPLEX,
    "equal": ["bool", *NUMERIC], "floor_divide": REAL, "greater": REAL, "greater_equal": REAL,
    "hypot": FLOATS, "less": REAL, "less_equal": REAL, "logaddexp": FLOATS,
    "logical_and": ["bool"], "logical_or": ["bool"], "logical_xor": ["bool"], "maximum": REAL,
    "minimum": REAL, "multiply": NUMERIC, "nextafter": FLOATS, "not_equal": ["bool", *NUMERIC],
    "pow": FLOATS + COMPLEX, "remainder": REAL, "subtract": NUMERIC,
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name):
    for dtype in ONE[name]:
        for shape in SHAPES:
            a = array_of(dtype, shape)
            with np.errstate(all="ignore"):
                numpy = getattr(np, name)
                want = np.asarray(numpy(a))
            if name in ("ceil", "floor", "trunc", "round"):
                want = want.astype(dtype)
            same(getattr(xp, name)(xp.asarray(a)), want)


@pytest.mark.parametrize("name", TWO)
def test_two_operands(name):
    for dtype in TWO[name]:
        for shape in SHAPES:
            a, b = array_of(dtype, shape, 1), array_of(dtype, shape, 2)
            if name in ("floor_divide", "remainder"):
                b = np.where(b == 0, b.dtype.type(1), b)
            if "shift" in name:
                b = np.abs(b)
            with np.errstate(all="ignore"):
                want = getattr(np, name)(a, b)
            same(getattr(xp, name)(xp.asarray(a), xp.asarray(b)), want)


@pytest.mark.parametrize("name", [n for n, d in ONE.items() if "float32" in d])
def test_special_values(name):
    a = np.array(SPECIAL, "float64")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = getattr(np, name)(a)
    got = getattr(xp, name)(xp.asarray(a)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-14)
    if want.dtype == np.float64:
        zeros = (want == 0) & ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all"])
def test_reductions(name, axis):
    for dtype in ("float32", "float64") if name in ("mean", "std", "var") else REAL:
        a = array_of(dtype, (3, 4))
        want = np.asarray(getattr(np, name)(a, axis=axis, keepdims=True))
        if name in ("sum", "prod") and dtype in INTS:
            want = want.astype(accumulator(dtype))
        same(getattr(xp, name)(xp.asarray(a), axis=axis, keepdims=True), want)
    if name in ("std", "var"):
        want = getattr(np, name)(a, axis=axis, ddof=1)
        same(getattr(xp, name)(xp.asarray(a), axis=axis, correction=1), want)


@pytest.mark.parametrize("dtype", REAL)
def test_order(dtype):
    a = array_of(dtype, (4, 5))
    x = xp.asarray(a)
    same(xp.sort(x, axis=0), np.sort(a, axis=0))
    same(xp.sort(x, descending=True), np.sort(a)[:, ::-1])
    same(xp.argsort(x, axis=0), np.argsort(a, axis=0, kind="stable").astype("int32"))
    same(xp.argmax(x, axis=1), np.argmax(a, axis=1).astype("int32"))
    same(xp.argmin(x), np.asarray(np.argmin(a)).astype("int32"))
    v = np.sort(a[0])
    for side in ("left", "right"):
        want = np.searchsorted(v, a, side).astype("int32")
        same(xp.searchsorted(xp.asarray(v), x, side=side), want)


@pytest.mark.parametrize("dtype", ["bool", *NUMERIC])
def test_sets(dtype):
    a = array_of(dtype, (3, 4))
    values, first, inverse, counts = np.unique(a, True, True, True)
    got = xp.unique_all(xp.asarray(a))
    same(got.values, values)
    same(got.indices, first.astype("int32"))
    same(got.inverse_indices, inverse.astype("int32"))
    same(got.counts, counts.astype("int32"))
    assert xp.unique_values(xp.asarray([float("nan")] * 2)).shape == (2,)


@pytest.mark.parametrize("dtype", ["bool", *NUMERIC])
def test_manipulation(dtype):
    a = array_of(dtype, (2, 3, 4))
    x = xp.asarray(a)
    same(xp.concat([x, x], axis=1), np.concatenate([a, a], 1))
    same(xp.concat([x, x], axis=None), np.concatenate([a, a], None))
    same(xp.stack([x, x], axis=-1), np.stack([a, a], -1))
    same(xp.flip(x), np.flip(a))
    same(xp.flip(x, axis=(0, 2)), np.flip(a, (0, 2)))
    same(xp.moveaxis(x, (0, 1), (-1, 0)), np.moveaxis(a, (0, 1), (-1, 0)))
    same(xp.permute_dims(x, (2, 0, 1)), a.transpose(2, 0, 1))
    same(xp.expand_dims(x, axis=1), np.expand_dims(a, 1))
    same(xp.squeeze(xp.expand_dims(x, axis=1), axis=1), a)
    same(xp.reshape(x, (4, -1)), a.reshape(4, -1))
    same(xp.roll(x, 2), np.roll(a, 2))
    same(xp.roll(x, (1, -2), axis=(0, 2)), np.roll(a, (1, -2), (0, 2)))
    same(xp.repeat(x, 2, axis=1), np.repeat(a, 2, 1))
    same(xp.tile(x, (2, 1)), np.tile(a, (2, 1)))
    same(xp.broadcast_to(x, (2, 2, 3, 4)), np.broadcast_to(a, (2, 2, 3, 4)))
    for got, want in zip(xp.unstack(x, axis=1), a.transpose(1, 0, 2), strict=True):
        same(got, want)
    same(xp.tril(x, k=1), np.tril(a, 1))
    same(xp.triu(x, k=-1), np.triu(a, -1))
    places = np.array([[[1, 0, -1]], [[2, 2, 3]]])
    same(xp.take(x, xp.asarray([1, 0]), axis=2), np.take(a, [1, 0], 2))
    want = np.take_along_axis(a, np.broadcast_to(places, (2, 3, 3)), 2)
    same(xp.take_along_axis(x, xp.asarray(places)), want)
    same(xp.where(xp.asarray(a == 0), x, x), a)
    for got, want in zip(xp.nonzero(x), np.nonzero(a), strict=True):
        same(got, want.astype("int32"))
    same(xp.count_nonzero(x, axis=1), np.count_nonzero(a, axis=1).astype("int32"))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_products_and_running_sums(dtype):
    a, b = array_of(dtype, (2, 3, 4), 1), array_of(dtype, (2, 4, 3), 2)
    x, y = xp.asarray(a), xp.asarray(b)
    same(xp.matmul(x, y), a @ b, rtol=1e-4)
    same(xp.matrix_transpose(x), a.transpose(0, 2, 1))
    same(xp.tensordot(x, y, axes=((1, 2), (2, 1))), np.tensordot(a, b, ((1, 2), (2, 1))), rtol=1e-4)
    same(xp.tensordot(x, y, axes=0), np.tensordot(a, b, 0))
    same(xp.vecdot(x, x), np.vecdot(a, a), rtol=1e-4)
    wide = accumulator(dtype)
    want = np.cumsum(a, 1).astype(wide)
    same(xp.cumulative_sum(x, axis=1), want)
    same(xp.cumulative_prod(x, axis=1), np.cumprod(a, 1).astype(wide))
    zeros = np.zeros_like(want[:, :1])
    full = xp.cumulative_sum(x, axis=1, include_initial=True)
    same(full, np.concatenate([zeros, want], 1))
    same(xp.diff(x, axis=1, prepend=x[:, :1]), np.diff(a, axis=1, prepend=a[:, :1]))


def test_creation():
    same(xp.arange(3), np.arange(3, dtype="int32"))
    same(xp.arange(1, 2, 0.25), np.arange(1, 2, 0.25, dtype="float32"))
    same(xp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, False).astype("float32"))
    same(xp.eye(2, 3, k=1), np.eye(2, 3, 1, "float32"))
    same(xp.full((2,), True), np.full((2,), True))
    same(xp.full((), 2**40, dtype="int64"), np.full((), 2**40))
    same(xp.zeros((0, 2), dtype=xp.int16), np.zeros((0, 2), "int16"))
    same(xp.ones_like(xp.asarray([True])), np.ones(1, bool))
    same(xp.asarray([1, 2]), np.array([1, 2], "int32"))
    same(xp.asarray([1j]), np.array([1j], "complex64"))
    same(xp.asarray(np.arange(2)), np.arange(2))
    for indexing in ("xy", "ij"):
        vectors = [np.arange(n, dtype="int32") for n in (2, 3, 4)]
        got = xp.meshgrid(*map(xp.asarray, vectors), indexing=indexing)
        for g, w in zip(got, np.meshgrid(*vectors, indexing=indexing), strict=True):
            same(g, w)


def test_promotion():
    assert xp.result_type(xp.int8, xp.uint8) == xp.int16
    assert xp.result_type(xp.float32, xp.complex128, 1.0) == xp.complex128
    same(xp.add(xp.asarray([1], dtype="int8"), xp.asarray([2], dtype="uint8")), np.int16([3]))
    same(xp.add(xp.asarray([1], dtype="int8"), 1), np.int8([2]))
    same(xp.add(xp.asarray([1.0]), 1j), np.complex64([1 + 1j]))
    with pytest.raises(TypeError, match="does not promote int32, float32"):
        xp.add(xp.asarray([1]), xp.asarray([1.0]))
    with pytest.raises(TypeError, match="has no place beside int32"):
        xp.add(xp.asarray([1]), 0.5)
    assert xp.can_cast(xp.int8, xp.int32)
    assert not xp.can_cast(xp.int32, xp.int8)
    assert xp.isdtype(xp.uint8, ("bool", "integral"))
    with pytest.raises(ValueError, match="isdtype: expected one of"):
        xp.isdtype(xp.uint8, "numbers")


def test_inspection():
    x = mge.tensor([1.0])
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"expected one of 2021\.12"):
        x.__array_namespace__(api_version="2030.12")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == xp.float32
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16", "uint32", "uint64"}
    assert info.capabilities()["max dimensions"] == 8
    assert xp.zeros(1, device=info.devices()[0]).shape == (1,)
    assert xp.finfo(xp.float32).eps == float(np.finfo("float32").eps)
    assert xp.finfo(xp.bfloat16).bits == 16
    assert xp.iinfo(xp.int8).min == -128


def test_the_array_object():
    x = xp.asarray([[[1, 2]]])
    assert x.mT.shape == (1, 2, 1)
    assert x.to_device("cpu0").tolist() == [[[1, 2]]]
    with pytest.raises(ValueError, match="mT: expected at least two axes"):
        _ = x[0, 0].mT
    with pytest.raises(ValueError, match="to_device: expected stream=None"):
        x.to_device("cpu0", stream=1)


def test_gradients_flow_or_are_refused():
    x = mge.Tensor([1.0, 2.0])
    with mge.autodiff.GradManager().attach([x]) as gm:
        gm.backward(xp.sum(xp.multiply(xp.exp(x), x)))
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 2]) * [2, 3], rtol=1e-6)
    refused = pytest.raises(NotImplementedError, match=r"array_api\.hypot: it has no gradient")
    with mge.autodiff.GradManager().attach([x]), refused:
        xp.hypot(x, x)


def transforms():
    """Functions of the extension fft of a (3, 6) input, and whether they take complex numbers."""
    for norm in ("backward", "ortho", "forward"):
        for n in (None, 4, 7):
            for axis in (0, -1):
                options = {"n": n, "axis": axis, "norm": norm}
                for name in ("fft", "ifft", "irfft", "hfft"):
                    yield name, options, True
                for name in ("rfft", "ihfft", "fft"):
                    yield name, options, False
        for name in ("fftn", "ifftn", "irfftn"):
            yield name, {"s": [4, 5], "axes": [0, 1], "norm": norm}, True
        yield "rfftn", {"axes": [1, 0], "norm": norm}, False


def test_gradients_of_transforms():
    """y = A x, so that the gradient g of the real part of <w, y> has <g, x> = Re <w, y>."""
    rng = np.random.default_rng(0)

    def drawn(shape, like):
        out = rng.normal(size=shape)
        return out + 1j * rng.normal(size=shape) if np.iscomplexobj(like) else out

    def inner(a, b):
        return float(np.sum(a.conj() * b).real)

    for name, options, takes_complex in transforms():
        function = getattr(xp.fft, name)
        data = drawn((3, 6), 1j if takes_complex else 1.0)
        x = mge.Tensor(data, dtype=data.dtype)
        with mge.autodiff.GradManager().attach([x]) as gm:
            y = function(x, **options)
            w = drawn(y.shape, y.numpy())
            gm.backward(y, mge.Tensor(w, dtype=y.dtype))
        want = inner(w, getattr(np.fft, name)(data, **options))
        assert x.grad.dtype == x.dtype
        np.testing.assert_allclose(inner(x.grad.numpy(), data), want, rtol=1e-10, atol=1e-10)
        # In any other direction too.
        other = drawn(data.shape, data)
        want = inner(w, getattr(np.fft, name)(other, **options))
        np.testing.assert_allclose(inner(x.grad.numpy(), other), want, rtol=1e-10, atol=1e-10)


def test_second_gradients_of_transforms():
    a = np.random.default_rng(0).normal(size=8)
    x = mge.Tensor(a, dtype="float64")

    def power(v):
        return xp.sum(xp.square(xp.real(xp.fft.fft(v))))

    with mge.autodiff.GradManager().attach([x]) as outer:
        with mge.autodiff.GradManager().attach([x]) as gm:
            gm.backward(power(x))
        outer.backward(xp.sum(xp.multiply(x.grad, x.grad)))
    # power is x' B x of a symmetric B: the gradient of |2 B x|^2 is 8 B B x.
    b = np.real(np.fft.fft(np.eye(8)))
    b = b.T @ b
    np.testing.assert_allclose(x.grad.numpy() - 2 * b @ a, 8 * b @ b @ a, rtol=1e-10)


def test_transforms_keep_single_precision_and_share_memory():
    x = xp.asarray([1.0, 2.0, 3.0])
    assert xp.fft.rfft(x).dtype == xp.fft.fft(x).dtype == xp.complex64
    assert xp.fft.irfft(xp.fft.rfft(x), n=3).dtype == xp.float32
    for call, match in (
        (lambda: xp.fft.fft(x, n=0), "expected n >= 1"),
        (lambda: xp.fft.fft(x, norm="unitary"), "expected norm"),
        (lambda: xp.fft.fft(x[:0]), "has no elements"),
        (lambda: xp.fft.irfft(x[:1]), "at least 2 elements or n"),
        (lambda: xp.fft.fftn(x, s=[1, 2]), "2 lengths for 1 dimensions"),
        (lambda: xp.fft.fftn(x, s=[1, 2], axes=[0]), "2 lengths for 1 axes"),
        (lambda: xp.fft.fftfreq(0), "expected n >= 1"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="rfft: expected a dtype of the kinds float"):
        xp.fft.rfft(xp.asarray([1j]))
    with pytest.raises(TypeError, match="fftfreq: expected a float dtype"):
        xp.fft.fftfreq(3, dtype=xp.int32)


def test_complex_log1p_near_zero():
    z = np.array([1e-9 + 1e-9j, -1e-12 + 1e-5j, 0.001j, 1e-300 + 0j], "complex128")
    got = xp.log1p(xp.asarray(z)).numpy()
    series = z - z**2 / 2 + z**3 / 3 - z**4 / 4 + z**5 / 5
    np.testing.assert_allclose(got.real, series.real, rtol=1e-8)
    np.testing.assert_allclose(got.imag, series.imag, rtol=1e-8)


def test_errors():
    x = xp.asarray([[1.0, 2.0]])
    with pytest.raises(TypeError, match="exp: expected a dtype of the kinds float, complex"):
        xp.exp(xp.asarray([1]))
    with pytest.raises(ValueError, match="nonzero: expected at least one dimension"):
        xp.nonzero(xp.asarray(1))
    with pytest.raises(ValueError, match="squeeze: expected axes of length 1"):
        xp.squeeze(x, axis=1)
    with pytest.raises(IndexError, match="expand_dims: axis 4"):
        xp.expand_dims(x, axis=4)
    with pytest.raises(ValueError, match="another dtype or device needs a copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(TypeError, match="take real"):
        xp.astype(xp.asarray([1j]), xp.float32)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_linalg(dtype):
    la, tight = xp.linalg, 1e-3 if dtype in ("float32", "complex64") else 1e-10
    a = array_of(dtype, (2, 3, 3), 3)
    a = (a @ a.conj().transpose(0, 2, 1) + np.eye(3)).astype(dtype)  # Hermitian, positive
    b = array_of(dtype, (2, 3, 4), 4)
    x, y = xp.asarray(a), xp.asarray(b)
    same(la.cholesky(x), np.linalg.cholesky(a), tight)
    same(la.det(x), np.linalg.det(a), tight)
    same(la.inv(x), np.linalg.inv(a), tight)
    same(la.solve(x, y), np.linalg.solve(a, b), tight)
    same(la.eigvalsh(x), np.linalg.eigvalsh(a), tight)
    same(la.svdvals(y), np.linalg.svdvals(b), tight)
    same(la.pinv(y), np.linalg.pinv(b), tight)
    same(la.slogdet(x).logabsdet, np.linalg.slogdet(a)[1], tight)
    same(la.matrix_rank(y), np.linalg.matrix_rank(b).astype("int32"))
    same(la.diagonal(y, offset=1), np.linalg.diagonal(b, offset=1))
    same(la.trace(y, offset=-1), np.linalg.trace(b, offset=-1), tight)
    same(la.outer(y[0, 0], y[1, 1]), np.outer(b[0, 0], b[1, 1]), tight)
    same(la.cross(x, x[::-1], axis=-2), np.cross(a, a[::-1], axis=-2), tight)
    for n in (-1, 0, 1, 3):
        same(la.matrix_power(x, n), np.linalg.matrix_power(a, n), tight)
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        want = np.linalg.matrix_norm(b, ord=ord, keepdims=True)
        same(la.matrix_norm(y, ord=ord, keepdims=True), want, tight)
    for ord in (0, 1, 2, 3, np.inf, -np.inf):
        want = np.linalg.vector_norm(b, ord=ord, axis=1).astype(a.real.dtype)
        same(la.vector_norm(y, ord=ord, axis=1), want, tight)
    q, r = la.qr(y)
    same(xp.matmul(q, r), b, tight)
    values, vectors = la.eigh(x)
    scaled = xp.multiply(vectors, xp.astype(xp.expand_dims(values, axis=1), dtype))
    same(xp.matmul(x, vectors), scaled.numpy(), tight)
    u, s, vh = la.svd(y, full_matrices=False)
    scaled = xp.multiply(u, xp.astype(xp.expand_dims(s, axis=1), dtype))
    same(xp.matmul(scaled, vh), b, tight)
    with pytest.raises(ValueError, match="det: expected square matrices"):
        la.det(y)
