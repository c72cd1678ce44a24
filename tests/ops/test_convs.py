"""Special things about windows, padding and the convolutions beside the plain ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin

T = mge.tensor


def data(*shape: int) -> mge.Tensor:
    return T(np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape))


# ---- windows -------------------------------------------------------------------------------------


def test_windows_share_memory_but_are_values() -> None:
    """A write to windows or to the image is seen on one side only."""
    x = data(1, 1, 4, 4)
    before = x.numpy().copy()
    windows = F.sliding_window(x, 3)
    copied = windows.numpy().copy()
    x[0, 0, 0, 0] = 5.0
    np.testing.assert_array_equal(windows.numpy(), copied)
    del x
    windows[0, 0, 0, 0, 1, 1] = 9.0
    want = np.lib.stride_tricks.sliding_window_view(before, (3, 3), (2, 3)).copy()
    want[0, 0, 0, 0, 1, 1] = 9.0
    np.testing.assert_array_equal(windows.numpy(), want)


def test_windows_survive_ops_in_place() -> None:
    """Elementwise ops on windows that nobody else holds do not write over neighbours."""
    windows = F.sliding_window(data(1, 1, 5, 5), 3)
    want = windows.numpy() * 2 + 1
    windows *= 2
    windows += 1
    np.testing.assert_allclose(windows.numpy(), want, rtol=1e-6)


def test_padded_windows_of_nothing() -> None:
    assert F.sliding_window(F.zeros((0, 2, 4, 4)), 3, 1).shape == (0, 2, 4, 4, 3, 3)
    assert F.sliding_window_transpose(F.zeros((0, 2, 4, 4, 3, 3)), 4, 3, 1).shape == (0, 2, 4, 4)


# ---- regions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight_shape", [(2, 1, 1, 3, 3), (2, 2, 3, 3)])
def test_other_regions_do_not_count(weight_shape: tuple[int, ...]) -> None:
    """NaN in another region does not reach the output, nor the gradients."""
    x = np.ones((1, 2, 4, 4), "float32")
    regions = np.zeros((1, 4, 4), "int32")
    x[:, :, 0, 0] = np.nan
    regions[:, 0, 0] = 7
    weight = mge.Parameter(np.ones(weight_shape, "float32"))
    inp = T(x)
    rin, rout = T(regions), T(np.zeros((1, 4, 4), "int32"))
    groups = 2 if len(weight_shape) == 5 else 1
    with GradManager().attach([inp, weight]) as gm:
        y = F.region_restricted_conv(inp, weight, rin, rout, padding=1, groups=groups)
        gm.backward(y.sum())
    assert np.isfinite(y.numpy()).all()
    assert np.isfinite(weight.grad.numpy()).all()
    assert (inp.grad.numpy()[:, :, 0, 0] == 0).all()


def test_reflected_regions() -> None:
    """A border that repeats pixels repeats their regions."""
    layer = M.RegionRestrictedConv(2, 2, 3, groups=2, padding=1, padding_mode="reflect")
    ones = T(np.ones((1, 4, 4), "int32"))
    plain = M.Conv2d(2, 2, 3, groups=2, padding=1, padding_mode="reflect")
    plain.weight, plain.bias = layer.weight, layer.bias
    x = data(1, 2, 4, 4)
    np.testing.assert_allclose(layer(x, ones, ones).numpy(), plain(x).numpy(), rtol=2e-6, atol=2e-6)


# ---- the reversed kernel ---------------------------------------------------------------------


def test_deformable_convolution_reverses_its_kernel() -> None:
    """Offsets belong to positions: only the weights turn round."""
    x, w = data(1, 2, 5, 5), data(3, 2, 3, 3)
    offset, mask = data(1, 18, 5, 5), F.ones((1, 9, 5, 5))
    turned = T(w.numpy()[..., ::-1, ::-1].copy())
    got = F.deformable_conv2d(x, w, offset, mask, padding=1, conv_mode="convolution")
    want = F.deformable_conv2d(x, turned, offset, mask, padding=1)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
def test_modules_reverse_their_kernels(dtype: str) -> None:
    layers = [
        (M.Conv1d, (1, 2, 7)),
        (M.Conv2d, (1, 2, 5, 6)),
        (M.Conv3d, (1, 2, 4, 5, 4)),
        (M.ConvTranspose2d, (1, 2, 4, 3)),
    ]
    for cls, shape in layers:
        plain = cls(2, 3, 2, bias=False)
        turned = cls(2, 3, 2, bias=False, conv_mode="convolution")
        w = (plain.weight * 8).astype(dtype)
        axes = (..., *(slice(None, None, -1),) * (len(shape) - 2))
        plain.weight, turned.weight = mge.Parameter(w[axes]), mge.Parameter(w)
        x = (data(*shape) * 8).astype(dtype)
        got, want = turned(x), plain(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype("float32").numpy(), want.astype("float32").numpy())


# ---- activations and modes -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["identity", "relu", "sigmoid", "h_swish"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_conv_bias_is_its_parts(mode: str, dtype: str) -> None:
    x, w, b = (data(*s).astype(dtype) for s in [(2, 3, 5, 5), (4, 3, 3, 3), (1, 4, 1, 1)])
    y = F.quantized.conv_bias_activation(x, w, b, padding=1, nonlinear_mode=mode)
    plain = F.conv2d(x, w, b, padding=1)
    steps = {"identity": lambda v: v, "relu": F.relu, "sigmoid": F.sigmoid, "h_swish": F.hswish}
    want = steps[mode](plain)
    assert y.dtype == want.dtype
    np.testing.assert_array_equal(y.astype("float32").numpy(), want.astype("float32").numpy())


def test_fields_that_change_nothing() -> None:
    """Programs pass the reference's hints to its ops; formats that are not there raise."""
    x, w = data(1, 1, 3, 3), data(1, 1, 2, 2)
    hints = {"strategy": "PROFILE", "workspace_limit": 1 << 20, "compute_mode": "default"}
    op = builtin.Convolution(stride_h=1, stride_w=1, format="NCHW", scope="", **hints)
    np.testing.assert_array_equal(apply(op, x, w)[0].numpy(), F.conv2d(x, w).numpy())
    with pytest.raises(ValueError, match="format NCHW"):
        builtin.Convolution(format="NHWCD4")
    with pytest.raises(TypeError, match="has no field 'stride'"):
        builtin.Convolution(stride=1)


def test_dtypes_that_come_later_say_so() -> None:
    x, w, b = data(1, 1, 3, 3), data(1, 1, 2, 2), data(1, 1, 1, 1)
    for dtype in ("qint8", "int8", "float16", "no such dtype"):
        with pytest.raises(NotImplementedError, match="not there yet"):
            F.quantized.conv_bias_activation(x, w, b, dtype=dtype)
        with pytest.raises(NotImplementedError, match="not there yet"):
            F.quantized.batch_conv_bias_activation(x, w.reshape(1, 1, 1, 2, 2), b, dtype=dtype)
        with pytest.raises(NotImplementedError, match="not there yet"):
            F.quantized.conv_transpose2d(x, w, dtype=dtype)
    with pytest.raises(TypeError, match="quantised"):
        apply(builtin.ConvBias(dtype="float16"), x, w, b)


def test_integers_in_conv_bias() -> None:
    x, w = T(np.arange(9).reshape(1, 1, 3, 3)), T(np.array([1, -1, 1, -2]).reshape(1, 1, 2, 2))
    y = F.quantized.conv_bias_activation(x, w, T(np.array([3])), nonlinear_mode="relu")
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y.numpy(), np.maximum(F.conv2d(x, w).numpy() + 3, 0))


# ---- bad input -----------------------------------------------------------------------------------


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.sliding_window(data(1, 1, 4, 4), 5), ValueError, "within the padded height of 4"),
    (lambda: F.sliding_window(data(4, 4), 2), ValueError, "expected .N, C, H, W."),
    (lambda: F.sliding_window(data(1, 1, 4, 4), 2, stride=0), ValueError, "stride"),
    (lambda: F.sliding_window(data(1, 1, 4, 4), 2, padding=-1), ValueError, "padding"),
    (
        lambda: F.sliding_window_transpose(data(1, 1, 3, 3, 2, 2), 5, 2),
        ValueError,
        r"expected windows of shape \(1, 1, 4, 4, 2, 2\)",
    ),
    (lambda: F.sliding_window_transpose(data(1, 1, 4, 4), 5, 2), ValueError, "windows of shape"),
    (
        lambda: F.sliding_window_transpose(data(1, 1, 3, 3, 2, 2) > 0, 4, 2),
        TypeError,
        "expected numbers, got bool",
    ),
    (lambda: F.pixel_shuffle(data(1, 3, 2, 2), 2), ValueError, "divisible by 4"),
    (lambda: F.pixel_shuffle(data(3, 2), 1), ValueError, "expected .*C, H, W"),
    (lambda: F.pixel_shuffle(data(1, 4, 2, 2), 0), ValueError, "factor"),
    (lambda: F.pixel_shuffle(data(1, 4, 2, 2), 2**40), ValueError, "factor"),
    (lambda: F.local_response_norm(data(1, 4, 2, 2), 4), ValueError, "odd"),
    (lambda: F.local_response_norm(data(4, 2, 2)), ValueError, "N, C, H, W"),
    (lambda: F.local_response_norm(T(np.ones((1, 1, 1, 1), "int32"))), TypeError, "float dtype"),
    (lambda: F.nn.pad(data(3), ((1, -1),)), ValueError, ">= 0"),
    (lambda: F.nn.pad(data(3), ((1, 1), (0, 0))), ValueError, "up to 1 pairs"),
    (lambda: F.nn.pad(data(3), ((3, 0),), "reflect"), ValueError, "below the size 3"),
    (lambda: F.nn.pad(data(0), ((1, 0),), "replicate"), ValueError, "empty"),
    (lambda: F.nn.pad(data(3), ((1, 0),), "wrap"), ValueError, "mode"),
    (
        lambda: F.local_conv2d(data(1, 2, 5, 5), data(1, 2, 3, 2, 3, 3, 4)),
        ValueError,
        "3 x 3 positions",
    ),
    (lambda: F.local_conv2d(data(1, 3, 5, 5), data(1, 3, 3, 2, 3, 3, 4)), ValueError, "channels"),
    (lambda: F.local_conv2d(data(1, 2, 5, 5), data(4, 2, 3, 3)), ValueError, "groups, OH, OW"),
    (
        lambda: F.local_conv2d(data(1, 2, 5, 5), data(1, 3, 3, 2, 3, 3, 4), conv_mode="x"),
        ValueError,
        "conv_mode",
    ),
    (
        lambda: M.LocalConv2d(2, 2, 3, 3, 5),
        ValueError,
        "does not fit into an input of 3 x 3",
    ),
    (
        lambda: F.region_restricted_conv(
            data(1, 2, 3, 3), data(2, 1, 1, 3, 3), data(1, 3, 3), data(1, 1, 1), groups=2
        ),
        TypeError,
        "regions of an integer dtype",
    ),
    (
        lambda: F.region_restricted_conv(
            data(1, 2, 3, 3), data(2, 1, 1, 3, 3), T([[[0]]]), T([[[0]]]), groups=2
        ),
        ValueError,
        r"rin of shape \(1, 3, 3\)",
    ),
    (
        lambda: F.region_restricted_conv(
            data(1, 2, 3, 3), data(2, 1, 1, 3, 3), T([[[0] * 3] * 3]), T([[0]]), groups=2
        ),
        ValueError,
        r"rout of shape \(1, 1, 1\)",
    ),
    (
        lambda: F.region_restricted_conv(
            data(1, 2, 3, 3), data(2, 2, 3, 3), T([[[0] * 3] * 3]), T([[[0]]]), groups=2
        ),
        ValueError,
        "for 2 groups",
    ),
    (
        lambda: F.quantized.conv_bias_activation(
            data(1, 1, 3, 3), data(2, 1, 2, 2), data(1, 3, 1, 1)
        ),
        ValueError,
        "bias|broadcast",
    ),
    (
        lambda: F.quantized.conv_bias_activation(
            data(1, 1, 3, 3), data(2, 1, 2, 2), data(1, 2, 1, 1), nonlinear_mode="tanh"
        ),
        ValueError,
        "nonlinear_mode",
    ),
    (
        lambda: F.quantized.batch_conv_bias_activation(
            data(2, 1, 3, 3), data(3, 2, 1, 2, 2), data(1, 2, 1, 1)
        ),
        ValueError,
        "N, out, in, kh, kw",
    ),
    (lambda: M.BatchMatMulActivation(2, 3, 4, nonlinear_mode="tanh"), ValueError, "nonlinear_mode"),
]


@pytest.mark.parametrize(("call", "error", "says"), ERRORS)
def test_errors_name_what_is_wrong(
    call: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        call()


STEPPING = """
import numpy as np, megengine as mge, megengine.functional as F
from megengine.autodiff import GradManager
mge.device.set_num_threads(1)
rng = np.random.default_rng(0)
kept = []
for c in (4, 8, 16):
    for size in (16, 8, 4):
        x = mge.tensor(rng.normal(size=(4, size, size, c)).astype("float32")).transpose(0, 3, 1, 2)
        w = mge.tensor(rng.normal(size=(2 * c, c, 1, 1)).astype("float32"))
        gm = GradManager().attach([w])
        for k in range(30):
            with gm:
                y = F.conv2d(x, w, stride=2)
                gm.backward(y, y * 0 + 1)
            kept += [bytes(100 + k), [w.grad.numpy()]]
            w.grad = None
            if k % 7 == 0:
                del kept[::2]
        met = x.numpy()[:, :, ::2, ::2].sum((0, 2, 3))
        np.testing.assert_allclose(kept[-1][0][:, :, 0, 0], np.tile(met, (2 * c, 1)), rtol=1e-4)
"""


def test_gradients_of_stepping_kernels_stay_in_their_memory() -> None:
    """oneDNN's own kernel for AVX2 wrote beyond its memory here, which ends in a crash."""
    env = {**os.environ, "MGE_CPU_ISA": "avx2"}
    run = subprocess.run([sys.executable, "-c", STEPPING], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# ---- kernels of 3 x 3 ----------------------------------------------------------------------------

# Samples, channels in and out, rows and columns, padding: odd sizes, halves of registers, panels
# that are not full, samples that are taken in several parts, more padding than the kernel reaches.
TRANSFORMED = [
    (2, 16, 16, 14, 14, (1, 1)),
    (3, 32, 48, 13, 15, (1, 1)),
    (3, 16, 64, 12, 9, (0, 0)),
    (3, 48, 16, 9, 12, (2, 0)),
    (1, 16, 24, 31, 17, (1, 1)),
    (4, 32, 8, 11, 11, (1, 2)),
    (2, 16, 16, 9, 8, (4, 3)),
    (2, 16, 16, 80, 81, (1, 1)),
    (8, 128, 144, 7, 7, (1, 1)),
]


def correlation(x: Any, w: Any, dy: Any, padding: tuple[int, int]) -> list[Any]:
    """What a convolution gives, and its gradients, in float64."""
    x, w, dy = (np.asarray(t, np.float64) for t in (x, w, dy))
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    rows, columns = dy.shape[2:]
    y, dx, dw = np.zeros_like(dy), np.zeros_like(padded), np.zeros_like(w)
    for i in range(3):
        for j in range(3):
            at = (slice(None), slice(None), slice(i, i + rows), slice(j, j + columns))
            y += np.einsum("nchw,oc->nohw", padded[at], w[:, :, i, j], optimize=True)
            dx[at] += np.einsum("nohw,oc->nchw", dy, w[:, :, i, j], optimize=True)
            dw[:, :, i, j] = np.einsum("nchw,nohw->oc", padded[at], dy, optimize=True)
    inside = tuple(slice(p, p + n) for p, n in zip(padding, x.shape[2:], strict=True))
    return [y, dx[(slice(None), slice(None), *inside)], dw]


def convolved(x: Any, w: Any, dy: Any, padding: tuple[int, int], dtype: str = "float32") -> Any:
    a, b = T(x, dtype=dtype), mge.Parameter(w, dtype=dtype)
    with GradManager().attach([a, b]) as gm:
        y = F.conv2d(a, b, padding=padding)
        gm.backward(y, T(dy, dtype=dtype))
    return [t.numpy() for t in (y, a.grad, b.grad)]


@pytest.mark.parametrize("case", TRANSFORMED)
def test_kernels_of_3x3_and_their_gradients(case: Any) -> None:
    """Winograd's transforms keep every digit that sums of so many terms have."""
    n, channels, out, h, w, padding = case
    rng = np.random.default_rng(h)
    x, weight = rng.standard_normal((n, channels, h, w)), rng.standard_normal((out, channels, 3, 3))
    dy = rng.standard_normal((n, out, h + 2 * padding[0] - 2, w + 2 * padding[1] - 2))
    x, weight, dy = (t.astype("float32") for t in (x, weight, dy))
    wanted = correlation(x, weight, dy, padding)
    terms = (9 * channels, 9 * out, n * h * w)
    for got, want, count in zip(convolved(x, weight, dy, padding), wanted, terms, strict=True):
        error = np.abs(got - want)
        assert np.sqrt((error**2).mean()) < 3e-8 * count
        assert error.max() < 2e-7 * count


def test_transformed_kernels_are_no_less_exact() -> None:
    """Beside what is summed as the definition says, which kernels with a group axis still are."""
    rng = np.random.default_rng(2)
    x, w, dy = (
        rng.standard_normal(s).astype("float32")
        for s in ((4, 128, 28, 28), (128, 128, 3, 3), (4, 128, 28, 28))
    )
    exact = correlation(x, w, dy, (1, 1))
    a, b = T(x), mge.Parameter(w[None])
    with GradManager().attach([a, b]) as gm:
        y = F.conv2d(a, b, padding=1, groups=1)
        gm.backward(y, T(dy))
    direct = [y.numpy(), a.grad.numpy(), b.grad.numpy()[0]]
    limits = (1.0, 1.0, 2.0)  # sums of the weights' gradients cancel each other
    for got, plain, want, limit in zip(
        convolved(x, w, dy, (1, 1)), direct, exact, limits, strict=True
    ):
        mine, other = (np.sqrt(((t - want) ** 2).mean()) for t in (got, plain))
        assert 0 < mine < limit * other


def test_3x3_kernels_take_any_layout_and_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    x, w, dy = (
        rng.standard_normal(s).astype("float32")
        for s in ((4, 16, 20, 22), (32, 16, 3, 3), (4, 32, 20, 22))
    )
    want = convolved(x, w, dy, (1, 1))
    before = mge.device.get_num_threads()
    try:
        for threads in (1, 3):
            mge.device.set_num_threads(threads)
            for got, one in zip(convolved(x, w, dy, (1, 1)), want, strict=True):
                np.testing.assert_array_equal(got, one)
    finally:
        mge.device.set_num_threads(before)
    # Views whose elements lie elsewhere: columns that are turned, and every second channel.
    turned, spread = T(x[..., ::-1].copy())[..., ::-1], T(np.repeat(dy, 2, axis=1))[:, ::2]
    weight = mge.Parameter(w)
    with GradManager().attach([turned, weight]) as gm:
        y = F.conv2d(turned, weight, padding=1)
        gm.backward(y, spread)
    for got, one in zip((y, turned.grad, weight.grad), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), one)
    kernels = T(np.ascontiguousarray(w.transpose(1, 0, 3, 2))).transpose(1, 0, 3, 2)
    np.testing.assert_allclose(F.conv2d(T(x), kernels, padding=1).numpy(), want[0], atol=1e-4)


def test_new_kernels_of_3x3_are_transformed_again() -> None:
    """A step changes weights in place; what was kept for a second use belongs to the old ones."""
    rng = np.random.default_rng(4)
    x, w, dy = (
        rng.standard_normal(s).astype("float32")
        for s in ((3, 16, 12, 12), (16, 16, 3, 3), (3, 16, 12, 12))
    )
    weight = mge.Parameter(w)
    for factor in (1.0, -0.5, 3.0):
        weight[...] = T(w) * factor
        for _ in range(3):
            a = T(x)
            with GradManager().attach([a]) as gm:
                y = F.conv2d(a, weight, padding=1)
                gm.backward(y, T(dy))
            want = correlation(x, w * factor, dy, (1, 1))
            np.testing.assert_allclose(y.numpy(), want[0], atol=1e-4)
            np.testing.assert_allclose(a.grad.numpy(), want[1], atol=1e-4)


def test_gradients_of_gradients_of_3x3_kernels() -> None:
    """By a difference along a direction, in float64 beside float32."""
    rng = np.random.default_rng(5)
    x, w, dy, v = (
        rng.standard_normal(s)
        for s in ((3, 16, 10, 10), (16, 16, 3, 3), (3, 16, 10, 10), (3, 16, 10, 10))
    )

    def second(dtype: str) -> Any:
        a, b = T(x, dtype=dtype), T(w, dtype=dtype)
        with GradManager().attach([b]) as outer:
            with GradManager().attach([a]) as inner:
                y = F.conv2d(a, b, padding=1)
                inner.backward((y * y).sum() + (y * T(dy, dtype=dtype)).sum())
            outer.backward((a.grad * T(v, dtype=dtype)).sum())
        return b.grad.numpy()

    want = second("float64")
    np.testing.assert_allclose(second("float32"), want, atol=2e-6 * np.abs(want).max())


def test_what_is_not_finite_reaches_a_tile() -> None:
    x = np.zeros((4, 16, 12, 12), np.float32)
    x[1, 3, 6, 6] = np.nan
    y = F.conv2d(T(x), F.ones((16, 16, 3, 3)), padding=1).numpy().copy()
    assert np.isnan(y[1, :, 5:8, 5:8]).all()
    y[1, :, 4:8, 4:8] = 0
    assert (y == 0).all()
