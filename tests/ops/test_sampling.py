"""Resizing, sampling and colours where a record cannot go: integers, odd positions, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine._core import apply, call
from megengine.autodiff import GradManager
from megengine.core.ops import builtin
from tests.ops.cases.sampling import MATRICES, sample_ref, warp_ref
from tests.ops.record import INTS

T = mge.tensor
INTEGERS = (*INTS, "bool")


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- interpolate -------------------------------------------------------------------------------


def test_interpolate_as_listed() -> None:
    x = T([[[[2.0, 4.0], [6.0, 8.0]]]])
    resized = F.vision.interpolate
    np.testing.assert_array_equal(resized(x, (1, 1), align_corners=True).numpy(), [[[[2]]]])
    row = resized(x, (4, 4), align_corners=False)[0, 0, 0]
    np.testing.assert_allclose(row.numpy(), [2, 2.5, 3.5, 4])
    row = resized(x, (4, 4), align_corners=True)[0, 0, 0]
    np.testing.assert_allclose(row.numpy(), [2, 2.6666667, 3.3333333, 4], rtol=1e-6)
    assert resized(x, 4).shape == (1, 1, 4, 4)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_nearest_keeps_every_integer(dtype: str) -> None:
    info = np.iinfo(dtype) if dtype != "bool" else None
    values = [info.min, info.max, 3, info.max - 1] if info else [True, False, False, True]
    x = np.array(values, dtype).reshape(1, 2, 1, 2)
    got = F.vision.interpolate(T(x, dtype=dtype), (2, 4), mode="nearest").numpy()
    np.testing.assert_array_equal(got, x.repeat(2, 2).repeat(2, 3))
    assert got.dtype == dtype


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_small_integers_are_rounded(dtype: str) -> None:
    x = T(np.array([0, 1, 5, 7], dtype).reshape(1, 1, 1, 4))
    got = F.vision.interpolate(x, (1, 7), align_corners=True).numpy().reshape(-1)
    np.testing.assert_array_equal(got, [0, 1, 1, 3, 5, 6, 7])  # 0.5, 3 and 6 lie between
    wide = T(np.array([0, 100, 100, 0] if dtype == "uint8" else [-100, 100], dtype)).reshape(
        1, 1, 1, -1
    )
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    cubic = F.vision.interpolate(wide, (1, 37), mode="bicubic").numpy()
    assert cubic.dtype == dtype
    assert cubic.min() >= low
    assert cubic.max() <= high


def test_other_integers_raise() -> None:
    with pytest.raises(TypeError, match="float dtype, int8 or uint8"):
        F.vision.interpolate(T([[[[1, 2]]]]), (2, 2))


def test_nan_and_infinity_stay_where_they_are() -> None:
    x = np.array([1.0, np.nan, 2.0, np.inf, 3.0, 4.0], np.float32).reshape(1, 1, 1, 6)
    for mode in ("bilinear", "bicubic"):
        same = F.vision.interpolate(T(x), (1, 6), mode=mode).numpy()
        np.testing.assert_array_equal(same, x)
    double = F.vision.interpolate(T(x), (2, 12), mode="bilinear").numpy()[0, 0, 0]
    np.testing.assert_array_equal(double[[0, 1, 8, 9, 10, 11]], [1, np.nan, np.inf, 3.25, 3.75, 4])


def test_gradient_of_pixels_that_are_not_read_is_zero() -> None:
    x = T(numbers(1, 1, 8, 8))
    gm = GradManager().attach([x])
    with gm:
        y = F.vision.interpolate(x, (2, 2), mode="nearest")
        gm.backward(y, T([[[[np.inf, 1.0], [np.nan, 2.0]]]]))
    assert np.count_nonzero(x.grad.numpy()) == 4


@pytest.mark.parametrize(
    "size", [(3, 4), [3, 4], T([3, 4]), [T(3), 4], np.array([3, 4]), (3.7, 4.2)]
)
def test_kinds_of_sizes(size: Any) -> None:
    assert F.vision.interpolate(F.zeros((1, 2, 5, 6)), size).shape == (1, 2, 3, 4)


def test_long_gradient_is_exact() -> None:
    """All outputs come from one pixel: a sum of a million terms."""
    n = 1 << 20
    dy = numbers(1, 1, n) + 1
    dx = call(builtin.InterpolateBackward(size=(1,), mode="LINEAR"), T(dy)).numpy()
    np.testing.assert_allclose(dx.item(), dy.astype(np.float64).sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (((2, 2), 2.0), {}, "and not both"),
        ((), {}, "size or scale_factor"),
        (((2, 2),), {"mode": "linear"}, "expected a mode among"),
        (((2, 2),), {"mode": "trilinear"}, "expected a mode among"),
        (((2, 2),), {"mode": "area"}, "expected a mode among"),
        (((2, 2),), {"mode": None}, "expected a mode among"),
        (((2, 2),), {"mode": "nearest", "align_corners": False}, "align_corners"),
        (((0, 2),), {}, "output sizes from 1"),
        (((-1, 2),), {}, "output sizes from 1"),
        (((2**40, 2**40),), {}, "output sizes from 1"),
        (((2,),), {}, "spatial axes"),
        (((2, 2, 2),), {}, "spatial axes"),
        ((), {"scale_factor": 0.1}, "output sizes from 1"),
        ((), {"scale_factor": float("nan")}, "scale_factor above 0"),
        ((), {"scale_factor": -1.0}, "scale_factor above 0"),
        ((), {"scale_factor": 1e300}, "interpolate|Interpolate"),
        (("ab",), {}, "number"),
    ],
)
def test_bad_sizes(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        F.vision.interpolate(F.zeros((1, 1, 4, 4)), *args, **kwargs)


@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (1, 1, 1, 1, 1, 1), (1, 1, 0, 3)])
def test_bad_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="nterpolate"):
        F.vision.interpolate(F.zeros(shape), (3, 3))


def test_resize_edges() -> None:
    x = F.zeros((1, 3, 40, 60))
    assert F.vision.resize(x, 20).shape == (1, 3, 20, 30)
    assert F.vision.resize(x, 20, max_size=24).shape == (1, 3, 16, 24)
    assert F.vision.resize(F.zeros((1, 60, 40, 3)), 20, format="NHWC").shape == (1, 30, 20, 3)
    with pytest.raises(ValueError, match="max_size"):
        F.vision.resize(x, (2, 3), max_size=4)
    with pytest.raises(ValueError, match="size"):
        F.vision.resize(x, 0)
    with pytest.raises(ValueError, match="format"):
        F.vision.resize(x, 5, format="CHW")
    with pytest.raises(ValueError, match="interpolation"):
        F.vision.resize(x, 5, imode="foo")


# ---- sampling ----------------------------------------------------------------------------------

HOSTILE = np.array(
    [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 2.0**31, -(2.0**31), 1e6 + 0.5, -1e6, 0.0]
)


@pytest.mark.parametrize("border", ["replicate", "reflect", "reflect_101", "wrap", "constant"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos4"])
def test_hostile_positions(border: str, mode: str) -> None:
    """Every pair of hostile positions gives a value, and nothing is read or written elsewhere."""
    x, y = np.meshgrid(HOSTILE, HOSTILE)
    at = np.stack([x, y], -1)[None].astype(np.float32)
    for channels in (2, 17):
        picture = T(numbers(1, channels, 3, 4))
        positions = T(at)
        attached = [picture] if mode == "lanczos4" else [picture, positions]
        gm = GradManager().attach(attached)
        with gm:
            out = F.vision.remap(picture, positions, border, 7.0, mode)
            gm.backward(F.where(F.isnan(out), F.zeros_like(out), out).sum())
        got = out.numpy()
        assert got.shape == (1, channels, 12, 12)
        if border == "constant":
            np.testing.assert_array_equal(got[0, :, :9, :], 7.0)
        if border == "replicate" and mode != "nearest":
            finite = np.isfinite(at[..., 0]) & np.isfinite(at[..., 1])
            assert np.isfinite(got[:, :, finite[0]]).all()
    for dtype in ("uint8", "int8"):
        small = T(np.arange(12, dtype=dtype).reshape(1, 1, 3, 4))
        assert F.vision.remap(small, T(at), border, 7.0, mode).numpy().dtype == dtype


def test_infinite_positions_replicate_the_edge() -> None:
    x = T(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    at = T([[[[np.inf, np.inf], [-np.inf, 1.0]]]])
    for mode in ("nearest", "linear"):
        got = F.vision.remap(x, at, interp_mode=mode).numpy()
        np.testing.assert_array_equal(got.reshape(-1), [11, 4])


def test_far_positions_wrap_and_reflect() -> None:
    x = T(np.arange(12, dtype=np.float64).reshape(1, 1, 3, 4), dtype="float64")
    near = np.array([[[[1.25, 0.5], [2.5, 1.75]]]])
    for border, periods in {"wrap": (4, 3), "reflect": (8, 6), "reflect_101": (6, 4)}.items():
        far = near + np.array(periods) * float(1 << 30)
        want = F.vision.remap(x, T(near, dtype="float64"), border).numpy()
        got = F.vision.remap(x, T(far, dtype="float64"), border).numpy()
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_far_from_a_long_image_is_outside() -> None:
    """Also where neighbouring float32 numbers are further apart than pixels."""
    x = F.ones((1, 1, 1, (1 << 25) + 1)).astype("uint8")
    at = T([[[[1e30, 0.0], [np.inf, 0.0], [4e7, 0.0], [1.0, 0.0]]]])
    got = F.vision.remap(x, at, "constant", 7.0, "nearest").numpy()
    np.testing.assert_array_equal(got.reshape(-1), [7, 7, 7, 1])


def test_nearest_halves_go_to_the_even_pixel() -> None:
    x = T(np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5))
    at = np.array([0.5, 1.5, 2.5, 3.5, -0.5])
    xy = np.stack([at, np.zeros(5)], -1).reshape(1, 1, 5, 2).astype(np.float32)
    got = F.vision.remap(x, T(xy), interp_mode="nearest").numpy().reshape(-1)
    np.testing.assert_array_equal(got, [0, 2, 2, 4, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("border", ["replicate", "constant"])
def test_integers_are_rounded(dtype: str, border: str) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    for shape in ((2, 3, 5, 6), (1, 20, 5, 6)):
        x = rng.integers(info.min, info.max + 1, shape).astype(dtype)
        at = (rng.random((shape[0], 7, 8, 2)) * 9 - 2).astype(np.float32)
        want = sample_ref(x.astype(np.float64), at.astype(np.float64), border, value=3.0)
        for layout in (
            T(x),
            T(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2),
        ):
            got = F.vision.remap(layout, T(at), border, 3.0).numpy()
            assert got.dtype == dtype
            assert np.abs(got - want).max() < 0.501


def test_gradient_of_numbered_images_adds_up() -> None:
    x = T(numbers(2, 1, 4, 5))
    mat = T(np.repeat(MATRICES[:1], 3, 0).astype(np.float32))
    gm = GradManager().attach([x])
    with gm:
        gm.backward(F.vision.warp_perspective(x, mat, (3, 4), mat_idx=[1, 1, 1]).sum())
    got = x.grad.numpy()
    assert np.count_nonzero(got[0]) == 0
    np.testing.assert_allclose(got[1].sum(), 36, rtol=1e-6)


def test_backward_ops_of_warp_perspective() -> None:
    x, mat = T(numbers(2, 3, 5, 4)), T(MATRICES.astype(np.float32))
    dy = T(numbers(2, 3, 3, 4, seed=1))
    gm = GradManager().attach([x, mat])
    with gm:
        y = apply(builtin.WarpPerspective(format="NCHW"), x, mat, T([3, 4]))[0]
        gm.backward(y, dy)
    np.testing.assert_allclose(y.numpy(), warp_ref(x.numpy(), MATRICES), rtol=1e-4, atol=1e-5)
    dx = apply(builtin.WarpPerspectiveBackwardData(), mat, dy, x)[0]
    dmat = apply(builtin.WarpPerspectiveBackwardMat(), x, mat, dy)[0]
    np.testing.assert_array_equal(dx.numpy(), x.grad.numpy())
    np.testing.assert_array_equal(dmat.numpy(), mat.grad.numpy())
    numbered = T([1, 0])
    dx = apply(builtin.WarpPerspectiveBackwardData(), mat, numbered, dy, x)[0]
    dmat = apply(builtin.WarpPerspectiveBackwardMat(), x, mat, numbered, dy)[0]
    assert dx.shape == x.shape
    assert dmat.shape == mat.shape


def test_images_from_another_batch_raise() -> None:
    x, mat = F.zeros((2, 1, 4, 4)), T(np.repeat(MATRICES[:1], 3, 0).astype(np.float32))
    warp = F.vision.warp_perspective
    with pytest.raises(IndexError, match="image numbers"):
        warp(x, mat, (2, 2), mat_idx=[0, 1, 2])
    with pytest.raises(IndexError, match="image numbers"):
        warp(x, mat, (2, 2), mat_idx=[0, 1, -1])
    with pytest.raises(ValueError, match="image numbers"):
        warp(x, mat, (2, 2), mat_idx=[0, 1])
    with pytest.raises(ValueError, match="one map for each"):
        warp(x, mat, (2, 2))
    with pytest.raises(TypeError, match="integer"):
        warp(x, mat, (2, 2), mat_idx=[0.5, 1.0, 1.0])


def test_no_matrices() -> None:
    none = F.vision.warp_perspective(F.zeros((2, 1, 4, 4)), F.zeros((0, 3, 3)), (2, 3), mat_idx=[])
    assert none.shape == (0, 1, 2, 3)


@pytest.mark.parametrize("border", ["isolated", "transparent", "foo", 3, None])
def test_unknown_borders_raise(border: Any) -> None:
    x = F.zeros((1, 1, 4, 4))
    with pytest.raises(ValueError, match="border"):
        F.vision.remap(x, F.zeros((1, 2, 2, 2)), border)
    if isinstance(border, str) and border != "foo":
        with pytest.raises(ValueError, match="border"):
            call(builtin.Sample(border=border), x, F.zeros((1, 2, 2, 2)))


def test_area_is_for_resizing() -> None:
    with pytest.raises(ValueError, match="AREA"):
        F.vision.remap(F.zeros((1, 1, 4, 4)), F.zeros((1, 2, 2, 2)), interp_mode="area")


def test_lanczos4_has_no_gradient_of_positions() -> None:
    at = T(np.full((1, 2, 2, 2), 0.3, np.float32))
    gm = GradManager().attach([at])
    with gm:
        y = F.vision.remap(T(numbers(1, 1, 4, 4)), at, interp_mode="lanczos4").sum()
        with pytest.raises(NotImplementedError, match="LINEAR or CUBIC"):
            gm.backward(y)


def test_images_without_pixels_raise() -> None:
    with pytest.raises(ValueError, match="pixels"):
        F.vision.remap(F.zeros((1, 1, 0, 4)), F.zeros((1, 2, 2, 2)))
    assert F.vision.remap(F.zeros((1, 1, 0, 4)), F.zeros((1, 0, 2, 2))).shape == (1, 1, 0, 2)


@pytest.mark.parametrize("size", [3, (3,), (1, 2, 3), "ab", (-1, 2), (2**40, 2), None])
def test_bad_output_sizes(size: Any) -> None:
    x = F.zeros((1, 1, 4, 4))
    with pytest.raises((ValueError, TypeError)):
        F.vision.warp_perspective(x, T(MATRICES[:1].astype(np.float32)), size)
    with pytest.raises((ValueError, TypeError)):
        F.vision.warp_affine(x, T(MATRICES[:1, :2].astype(np.float32)), size, format="NCHW")


def test_points_behind_the_camera() -> None:
    """Where the denominator is 0, positions are infinite or NaN."""
    mat = T([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, -1.0]]])
    x = T(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    got = F.vision.warp_perspective(x, mat, (3, 4), border_mode="constant", border_val=9.0).numpy()
    want = [[0, 9, 2, 1.5], [9, 9, 6, 3.5], [9, 9, 10, 5.5]]
    np.testing.assert_array_equal(got[0, 0], want)


# ---- dtypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dtypes_of_16_bit_images(dtype: str) -> None:
    x = T(numbers(1, 2, 4, 4)).astype(dtype)
    eye, at = T(np.eye(3, dtype=np.float32)[None]), F.zeros((1, 2, 2, 2))
    assert F.vision.interpolate(x, (2, 2)).dtype == np.float32
    assert F.vision.warp_perspective(x, eye, (2, 2)).dtype == np.float32
    assert F.vision.remap(x, at).dtype.name == dtype
    assert F.vision.warp_affine(x, eye[:, :2], (2, 2), format="NCHW").dtype.name == dtype
    assert F.vision.cvt_color(F.ones((1, 2, 2, 3)).astype(dtype), "RGB2GRAY").dtype.name == dtype


# ---- colours, optical flow ---------------------------------------------------------------------


def test_colours_of_bytes() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1, 8, 9, 3)).astype("uint8")
    wide = x.astype(np.float64)
    gray = F.vision.cvt_color(T(x), "rgb2gray").numpy()[..., 0]
    assert np.abs(gray - wide @ [0.299, 0.587, 0.114]).max() < 0.51
    back = F.vision.cvt_color(F.vision.cvt_color(T(x), "RGB2YUV"), "YUV2RGB").numpy()
    apart = np.abs(back.astype(int) - x.astype(int))
    assert apart[(wide.max(-1) < 200) & (wide.min(-1) > 55)].max(initial=0) <= 3
    np.testing.assert_array_equal(F.vision.cvt_color(T(x), "RGB2BGR").numpy(), x[..., ::-1])


@pytest.mark.parametrize("layout", ["NV12", "NV21", "YU12", "YV12"])
@pytest.mark.parametrize("prefix", ["", "BT601_"])
def test_colours_from_planes(layout: str, prefix: str) -> None:
    """Four layouts of the same planes give the same picture."""
    rng = np.random.default_rng(0)
    luma = rng.integers(16, 236, (2, 6, 8))
    u, v = rng.integers(90, 160, (2, 2, 3, 4))
    if layout in ("NV12", "NV21"):
        chroma = np.stack([u, v] if layout == "NV12" else [v, u], -1).reshape(2, -1)
    else:
        parts = [u, v] if layout == "YU12" else [v, u]
        chroma = np.concatenate([p.reshape(2, -1) for p in parts], 1)
    packed = np.concatenate([luma.reshape(2, -1), chroma], 1).reshape(2, 9, 8, 1).astype("uint8")
    cu, cv = (c.repeat(2, 1).repeat(2, 2) - 128.0 for c in (u, v))
    stretched, red, blue = (luma - 16) * 1.164, 1.59375, 2.0
    green = 0.390625 * cu + 0.8125 * cv
    if not prefix:
        stretched, red, blue = luma * 1.0, 1.402, 1.772
        green = 0.344 * cu + 0.714 * cv
    want = np.stack([stretched + red * cv, stretched - green, stretched + blue * cu], -1)
    got = F.vision.cvt_color(T(packed), f"{prefix}YUV2RGB_{layout}").numpy()
    assert np.abs(got - np.clip(want, 0, 255)).max() < 1.2
    turned = F.vision.cvt_color(T(packed), f"{prefix}YUV2BGR_{layout}").numpy()
    np.testing.assert_array_equal(turned, got[..., ::-1])
    if not prefix:
        gray = F.vision.cvt_color(T(packed), f"YUV2GRAY_{layout}").numpy()
        np.testing.assert_array_equal(gray[..., 0], luma)


@pytest.mark.parametrize(
    ("shape", "dtype", "mode"),
    [
        ((1, 2, 2, 4), "float32", "RGB2GRAY"),
        ((2, 2, 3), "float32", "RGB2GRAY"),
        ((1, 2, 2, 3), "int32", "RGB2GRAY"),
        ((1, 3, 2, 1), "float32", "YUV2RGB_NV12"),
        ((1, 4, 2, 1), "uint8", "YUV2RGB_NV12"),
        ((1, 3, 3, 1), "uint8", "YUV2RGB_NV12"),
        ((1, 3, 2, 3), "uint8", "YCrCb2RGB"),
        ((1, 2, 2, 3), "float32", ""),
        ((1, 2, 2, 3), "float32", "RGB2XYZ"),
        ((1, 2, 2, 3), "float32", None),
    ],
)
def test_bad_colours(shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"cvt_color|CvtColor"):
        F.vision.cvt_color(F.zeros(shape).astype(dtype), mode)


def test_optical_flow_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="OpenCV"):
        F.vision.nvof(F.zeros((1, 2, 8, 8, 4)).astype("uint8"))


def test_turned_by_any_angle() -> None:
    """A blob right of the centre goes up, along a circle."""
    y, x = np.mgrid[-20:21, -20:21]

    def blob(cx: float, cy: float) -> Any:
        return np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 30.0).astype(np.float32)[None, None]

    for mode, atol in (("bilinear", 0.03), ("bicubic", 0.02), ("lanczos4", 0.01)):
        turned = F.vision.rotate(T(blob(10, 0)), 30.0, interp_mode=mode)
        inside = np.hypot(x, y) < 18
        want = blob(10 * np.cos(np.pi / 6), -10 * np.sin(np.pi / 6))
        np.testing.assert_allclose(turned.numpy()[0, 0][inside], want[0, 0][inside], atol=atol)
    with pytest.raises(ValueError, match="finite"):
        F.vision.rotate(F.zeros((1, 1, 3, 3)), float("nan"))
