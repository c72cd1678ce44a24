"""Pooling beside float64 NumPy: ties, NaN, infinities, odd sizes, and the order of the elements."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.avx2 import outer_run, run_under_avx2
from tests.ops.record import Array

INF, NAN = np.inf, np.nan
FORMATS = ("rows", "channels_last", "sliced", "reversed", "transposed")
Pair = tuple[int, int]


def laid_out(a: Array, form: str, dtype: str = "float32") -> mge.Tensor:
    """`a` as a tensor whose elements lie in memory as `form` says."""
    if form == "channels_last":
        return mge.tensor(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), dtype=dtype).transpose(
            0, 3, 1, 2
        )
    if form == "sliced":
        wide = np.full((*a.shape[:2], a.shape[2] + 2, 2 * a.shape[3] + 1), 99.0)
        wide[:, :, 1:-1, 1::2] = a
        return mge.tensor(wide, dtype=dtype)[:, :, 1:-1, 1::2]
    if form == "reversed":
        return mge.tensor(a[:, :, ::-1, ::-1].copy(), dtype=dtype)[:, :, ::-1, ::-1]
    if form == "transposed":
        return mge.tensor(a.swapaxes(2, 3).copy(), dtype=dtype).transpose(0, 1, 3, 2)
    return mge.tensor(a, dtype=dtype)


class Windows:
    """The windows over images of one size, tap by tap, and where each tap lies in the image."""

    def __init__(self, size: Pair, window: Pair, stride: Pair, pad: Pair) -> None:
        self.size, self.window, self.stride, self.pad = size, window, stride, pad
        taps, outs = [], []
        for n, k, s, p in zip(size, window, stride, pad, strict=True):
            outs.append((n + 2 * p - k) // s + 1)
            taps.append(np.arange(outs[-1])[:, None] * s - p + np.arange(k))
        self.out = tuple(outs)
        rows, cols = taps[0][:, None, :, None], taps[1][None, :, None, :]
        inside = (rows >= 0) & (rows < size[0]) & (cols >= 0) & (cols < size[1])
        flat = rows.clip(0, size[0] - 1) * size[1] + cols.clip(0, size[1] - 1)
        self.inside = inside.reshape(*self.out, -1)  # (out_h, out_w, taps)
        self.where = flat.reshape(*self.out, -1)

    def values(self, x: Array, fill: float) -> Array:
        """(N, C, out_h, out_w, taps), with `fill` in the padding."""
        flat = x.reshape(*x.shape[:2], -1)
        return np.where(self.inside, flat[:, :, self.where], fill)

    def maxima(self, x: Array) -> tuple[Array, Array]:
        """The maximum of each window, and the first tap in the image that has it (or a NaN)."""
        taps = self.values(x, -INF)
        best = taps.max(-1)
        same = (taps == best[..., None]) | (np.isnan(taps) & np.isnan(best)[..., None])
        return best, (same & self.inside).argmax(-1)

    def counts(self, padding: bool) -> Array:
        """What sums are divided by."""
        return np.full(self.out, np.prod(self.window)) if padding else self.inside.sum(-1)

    def spread(self, dy: Array) -> Array:
        """dy of (N, C, out_h, out_w, taps), added up where the taps lie."""
        n, c = dy.shape[:2]
        dx = np.zeros((n * c, self.size[0] * self.size[1]))
        flat = np.where(self.inside, dy, 0).reshape(n * c, -1)
        for plane, g in zip(dx, flat, strict=True):
            np.add.at(plane, self.where.ravel(), g)
        return dx.reshape(n, c, *self.size)


def pool(mode: str, w: Windows) -> object:
    return builtin.Pooling(
        mode=mode,
        pad_h=w.pad[0], pad_w=w.pad[1],
        stride_h=w.stride[0], stride_w=w.stride[1],
        window_h=w.window[0], window_w=w.window[1],
    )  # fmt: skip


def pick(w: Windows) -> object:
    return builtin.MaxPoolPick(
        mode="MAX",
        pad_h=w.pad[0], pad_w=w.pad[1],
        stride_h=w.stride[0], stride_w=w.stride[1],
        window_h=w.window[0], window_w=w.window[1],
        height=w.size[0], width=w.size[1],
    )  # fmt: skip


def awkward(rng: np.random.Generator, *shape: int) -> Array:
    """Few different numbers, so that ties are common, with some NaN and infinities."""
    a = rng.integers(-2, 3, shape).astype("float64")
    a[rng.random(shape) < 0.05] = NAN
    a[rng.random(shape) < 0.05] = INF
    a[rng.random(shape) < 0.3] = -INF
    return a


def check_max(x: Array, w: Windows, form: str, dtype: str = "float32") -> None:
    rng = np.random.default_rng(1)
    best, first = w.maxima(x)
    t = laid_out(x, form, dtype)
    y, index = apply(pool("MAX", w), t)
    np.testing.assert_array_equal(y.numpy().astype("float64"), best)
    np.testing.assert_array_equal(index.numpy(), first)
    if dtype in ("int8", "uint8"):
        return
    # Small integers: sums of them are exact, in any order and dtype.
    dy = rng.integers(-3, 4, best.shape).astype("float64")
    gm = GradManager().attach([t])
    with gm:
        gm.backward(apply(pool("MAX", w), t)[0], laid_out(dy, form, dtype))
    chosen = np.arange(w.inside.shape[-1]) == first[..., None]
    want = w.spread(np.where(chosen, dy[..., None], 0))
    np.testing.assert_array_equal(t.grad.numpy().astype("float64"), want)
    g = rng.integers(-3, 4, x.shape).astype("float64")
    picked = apply(pick(w), laid_out(g, form, dtype), index)[0]
    want = np.take_along_axis(w.values(g, 0.0), first[..., None], -1)[..., 0]
    np.testing.assert_array_equal(picked.numpy().astype("float64"), want)


def check_average(x: Array, w: Windows, form: str, dtype: str = "float32") -> None:
    tolerance = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    rng = np.random.default_rng(2)
    for padding, mode in ((True, "AVERAGE"), (False, "AVERAGE_COUNT_EXCLUDE_PADDING")):
        t = laid_out(x, form, dtype)
        counts = w.counts(padding)
        with np.errstate(invalid="ignore"):
            want = w.values(x, 0.0).sum(-1) / counts
        gm = GradManager().attach([t])
        dy = rng.integers(-3, 4, want.shape).astype("float64")
        with gm:
            y = apply(pool(mode, w), t)[0]
            gm.backward(y, laid_out(dy, form, dtype))
        np.testing.assert_allclose(
            y.numpy().astype("float64"), want, rtol=tolerance, atol=3 * tolerance
        )
        share = np.broadcast_to((dy / counts)[..., None], (*dy.shape, w.inside.shape[-1]))
        np.testing.assert_allclose(
            t.grad.numpy().astype("float64"),
            w.spread(share),
            rtol=tolerance,
            atol=6 * tolerance * np.abs(dy / counts).max(initial=1) * max(1, w.window[0]),
        )


SHAPES = [
    # images, window, stride, pad
    ((2, 3, 9, 11), (3, 3), (2, 2), (1, 1)),
    ((1, 2, 7, 70), (3, 3), (1, 1), (1, 1)),
    ((1, 2, 8, 70), (2, 2), (2, 2), (0, 0)),
    ((5, 7, 7, 7), (3, 3), (1, 1), (1, 1)),
    ((5, 7, 7, 7), (7, 7), (1, 1), (0, 0)),  # one output
    ((3, 11, 5, 6), (5, 6), (2, 3), (0, 0)),
    ((1, 1, 6, 1100), (5, 2), (3, 1), (2, 1)),  # wider than a part of a row
    ((1, 2, 2, 1601), (1, 4), (1, 3), (0, 2)),
    ((1, 1, 40, 1), (7, 1), (4, 1), (3, 0)),  # a column
    ((2, 3, 1, 40), (1, 7), (1, 4), (0, 3)),  # a row
    ((1, 3, 1, 1), (1, 1), (1, 1), (0, 0)),
    ((1, 2, 3, 2), (4, 6), (1, 1), (3, 5)),  # more padding than image
    ((2, 2, 3, 3), (9, 9), (2, 4), (4, 4)),  # of padding, but for a corner
    ((1, 2, 20, 37), (2, 1), (3, 4), (1, 0)),  # elements in no window
    ((2, 19, 6, 6), (2, 2), (2, 2), (1, 1)),
    ((1, 2, 18, 33), (17, 16), (1, 1), (3, 4)),  # more than 256 taps
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_shapes(case: tuple[tuple[int, ...], Pair, Pair, Pair], form: str) -> None:
    shape, *rest = case
    w = Windows((shape[2], shape[3]), *rest)
    rng = np.random.default_rng(0)
    check_max(awkward(rng, *shape), w, form)
    check_average(rng.integers(-9, 10, shape).astype("float64"), w, form)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 6, 7])
def test_windows_and_strides(window: int, stride: int) -> None:
    rng = np.random.default_rng(window * 8 + stride)
    for pad in {0, window // 2, window - 1}:
        for height, width in ((window, 64 + window), (8 + pad, 21), (13, 8)):
            w = Windows((height, width), (window, window), (stride, stride), (pad, pad))
            check_max(awkward(rng, 2, 2, height, width), w, "rows")
            check_average(rng.integers(-9, 10, (2, 2, height, width)).astype("float64"), w, "rows")


@pytest.mark.parametrize("form", ["rows", "channels_last"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8"])
def test_dtypes(dtype: str, form: str) -> None:
    rng = np.random.default_rng(3)
    for shape, *rest in SHAPES[:8]:
        w = Windows((shape[2], shape[3]), *rest)
        if dtype in ("int8", "uint8"):
            info = np.iinfo(dtype)
            check_max(rng.integers(info.min, info.min + 3, shape).astype("float64"), w, form, dtype)
            check_max(rng.integers(info.max - 2, info.max + 1, shape) * 1.0, w, form, dtype)
            continue
        check_max(awkward(rng, *shape), w, form, dtype)
        check_average(rng.integers(-9, 10, shape).astype("float64"), w, form, dtype)


def test_random_windows() -> None:
    rng = np.random.default_rng(4)

    def pair(low: int, high: int) -> Pair:
        return (int(rng.integers(low, high)), int(rng.integers(low, high)))

    done = 0
    while done < 100:
        size, window, stride = pair(1, 24), pair(1, 8), pair(1, 6)
        pad = (int(rng.integers(0, window[0])), int(rng.integers(0, window[1])))
        if any(n + 2 * p < k for n, k, p in zip(size, window, pad, strict=True)):
            continue
        done += 1
        w = Windows(size, window, stride, pad)
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 20)), *size)
        form = FORMATS[done % len(FORMATS)]
        check_max(awkward(rng, *shape), w, form)
        check_average(rng.integers(-9, 10, shape).astype("float64"), w, form)


def test_averages_of_what_is_not_finite() -> None:
    a = np.arange(48.0).reshape(1, 1, 6, 8)
    a[0, 0, 0, 0], a[0, 0, 2, 5], a[0, 0, 3, 5], a[0, 0, 5, 7] = NAN, INF, -INF, INF
    for window, stride, pad in itertools.product((2, 3), (1, 2), (0, 1)):
        w = Windows((6, 8), (window, window), (stride, stride), (pad, pad))
        with np.errstate(invalid="ignore"):
            want = w.values(a, 0.0).sum(-1) / window**2
        y = F.avg_pool2d(mge.tensor(a), window, stride, pad, mode="average")
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, (3, 5), (7, 9), (14, 18), (1, 18), (14, 1)])
def test_adaptive(size: int | Pair) -> None:
    out = (size, size) if isinstance(size, int) else size
    rng = np.random.default_rng(5)
    stride = (14 // out[0], 18 // out[1])
    window = (14 - (out[0] - 1) * stride[0], 18 - (out[1] - 1) * stride[1])
    w = Windows((14, 18), window, stride, (0, 0))
    a = rng.standard_normal((3, 5, 14, 18)).astype("float32").astype("float64")
    for form in FORMATS:
        y = F.adaptive_max_pool2d(laid_out(a, form), size)
        np.testing.assert_array_equal(y.numpy(), w.maxima(a)[0])
        y = F.adaptive_avg_pool2d(laid_out(a, form), size)
        np.testing.assert_allclose(y.numpy(), w.values(a, 0.0).mean(-1), rtol=2e-6, atol=1e-6)


def test_no_elements() -> None:
    for shape in ((0, 3, 8, 8), (2, 0, 8, 8)):
        for f in (F.max_pool2d, F.avg_pool2d):
            x = F.zeros(shape)
            gm = GradManager().attach([x])
            with gm:
                y = f(x, 3, 2, 1)
                gm.backward(y.sum())
            assert y.shape == (*shape[:2], 4, 4)
            assert x.grad.shape == shape


def test_far_padding() -> None:
    """Padding and windows far wider than the image take no memory of their size."""
    far = 1 << 20
    x = mge.tensor([[[[1.0, 3.0, 2.0]]]])
    y = F.max_pool2d(x, (1, 2 * far + 3), (1, 1), (0, far))
    np.testing.assert_array_equal(y.numpy(), [[[[3.0]]]])
    y = F.avg_pool2d(x, (1, 2 * far + 1), (1, 1), (0, far))
    np.testing.assert_array_equal(y.numpy(), [[[[2.0, 2.0, 2.0]]]])


def every_result() -> list[bytes]:
    """Forward and backward of all sorts, to compare bit by bit."""
    out = []
    rng = np.random.default_rng(6)
    for shape, window, stride, pad in SHAPES:
        for form in ("rows", "channels_last"):
            x = laid_out(rng.standard_normal(shape), form)
            for mode in ("MAX", "AVERAGE"):
                gm = GradManager().attach([x])
                with gm:
                    w = Windows((shape[2], shape[3]), window, stride, pad)
                    y = apply(pool(mode, w), x)[0]
                    gm.backward((y * y).sum())
                out += [y.numpy().tobytes(), x.grad.numpy().tobytes()]
                x.grad = None
    return out


def test_any_number_of_threads() -> None:
    before = device.get_num_threads()
    try:
        device.set_num_threads(1)
        want = every_result()
        for n in (2, 3, 7):
            device.set_num_threads(n)
            assert every_result() == want
    finally:
        device.set_num_threads(before)


@outer_run
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs AVX2")
def test_avx2() -> None:
    picked = "shapes or strides or dtypes or random or finite or far"
    run_under_avx2(__file__, "-x", "-k", picked)
