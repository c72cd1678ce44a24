"""What the records of detection cannot say: odd boxes, ties, wrong input, second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin

Array = np.ndarray[Any, np.dtype[Any]]
T = mge.tensor


def image(*shape: int) -> mge.Tensor:
    return T(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def second_order(f: Callable[..., mge.Tensor], *inputs: mge.Tensor) -> None:
    """Differentiates the squared gradient of f's first input."""
    outer, inner = GradManager().attach(list(inputs)), GradManager().attach(list(inputs))
    with outer:
        with inner:
            inner.backward((f(*inputs) ** 2).sum())
        outer.backward((inputs[0].grad ** 2).sum())


# ---- boxes -------------------------------------------------------------------------------------

POOLS: list[Callable[..., mge.Tensor]] = [
    lambda x, r: F.vision.roi_align(x, r, 2),
    lambda x, r: F.vision.roi_align(x, r, 2, "max"),
    lambda x, r: F.vision.roi_align(x, r, 2, sample_points=0),
    lambda x, r: F.vision.roi_align(x, r, 2, "max", sample_points=0),
    lambda x, r: F.vision.roi_pooling(x, r, 2),
    lambda x, r: F.vision.roi_pooling(x, r, 2, "average"),
    lambda x, r: F.deformable_psroi_pooling(x, r, F.zeros((1, 2, 2, 2)), False, 2, 2, 2, 2, 1.0),
]
over_pools = pytest.mark.parametrize("pool", POOLS)


@over_pools
@pytest.mark.parametrize("number", [-1.0, 2.0, 1e9, -1e30, np.nan, np.inf])
def test_an_image_that_is_not_there_raises(pool: Any, number: float) -> None:
    with pytest.raises(IndexError, match=r"image numbers in \[0, 2\)"):
        pool(image(2, 3, 5, 5), T([[number, 1.0, 1.0, 3.0, 3.0]])).numpy()


@over_pools
@pytest.mark.parametrize("place", range(4))
def test_a_coordinate_that_is_nan_gives_nan_and_no_gradient(pool: Any, place: int) -> None:
    box = [0.0, 1.0, 1.0, 3.0, 3.0]
    box[1 + place] = np.nan
    x = image(1, 3, 5, 5)
    gm = GradManager().attach([x])
    with gm:
        y = pool(x, T([box]))
        gm.backward(y.sum())
    assert np.all(np.isnan(y.numpy()))
    np.testing.assert_array_equal(x.grad.numpy(), 0.0)


@over_pools
@pytest.mark.parametrize(
    "box",
    [
        (-1e30, -1e30, 1e30, 1e30),
        (0.0, 0.0, 3e38, 3e38),
        (1e30, 1e30, 2e30, 2e30),
        (-3e38, 2.0, -2e38, 4.0),
        (1e9, 1e9, -1e9, -1e9),
        (2.0, 2.0, 2.0, 2.0),
        (-1e7, -1e7, 1e7, 1e7),
    ],
)
def test_boxes_of_any_size_end(pool: Any, box: tuple[float, ...]) -> None:
    x = image(1, 3, 5, 5)
    gm = GradManager().attach([x])
    with gm:
        y = pool(x, T([[0.0, *box]]))
        gm.backward(y.sum())
    assert y.shape == (1, 3, 2, 2)
    assert not np.any(np.isnan(x.grad.numpy()))


def test_dense_samples_of_a_box_that_is_larger_than_the_image() -> None:
    # One point a pixel: 2000 of them along each axis of a bin, of which 5 lie on the image.
    x = image(1, 2, 5, 5)
    y = F.vision.roi_align(x, T([[0, -1000.0, -1000.0, 1000.0, 1000.0]]), 1, sample_points=0)
    np.testing.assert_allclose(
        y.numpy().reshape(2), x.numpy().sum((0, 2, 3)) / 2000**2, rtol=1e-4, atol=1e-9
    )
    big = F.vision.roi_align(
        x, T([[0, -1000.0, -1000.0, 1000.0, 1000.0]]), 1, "max", sample_points=0
    )
    np.testing.assert_allclose(big.numpy().reshape(2), x.numpy().max((0, 2, 3)), rtol=1e-6)


def test_means_are_exact_for_large_bins() -> None:
    x = F.full((1, 1, 400, 400), 1.0) + 2.0**-20
    for y in (
        F.vision.roi_pooling(x, T([[0, 0.0, 0.0, 399.0, 399.0]]), 1, "average"),
        F.vision.roi_align(x, T([[0, 0.5, 0.5, 400.0, 400.0]]), 1, sample_points=0),
    ):
        assert abs(float(y) - (1 + 2.0**-20)) < 3e-6


@pytest.mark.parametrize("mode", ["max", "average"])
def test_nan_in_the_image_goes_where_it_is_read(mode: str) -> None:
    values = np.ones((1, 1, 6, 6), "float32")
    values[0, 0, 1, 1] = np.nan
    x, rois = T(values), T([[0, 0.0, 0.0, 5.0, 5.0]])
    want = [[True, False], [False, False]]
    for y in (F.vision.roi_pooling(x, rois, 2, mode), F.vision.roi_align(x, rois, 2, mode)):
        np.testing.assert_array_equal(np.isnan(y.numpy())[0, 0], want)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    x = F.ones((1, 1, 4, 4))
    gm = GradManager().attach([x])
    with gm:
        gm.backward(F.vision.roi_pooling(x, T([[0, 0.0, 0.0, 3.0, 3.0]]), 1).sum())
    want = np.zeros((4, 4))
    want[0, 0] = 1
    np.testing.assert_array_equal(x.grad.numpy()[0, 0], want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_boxes_keep_their_precision_beside_another_image_type(dtype: str) -> None:
    x, rois = image(1, 3, 64, 64), T([[0, 3.1415, 2.7182, 61.803, 57.721]])
    exact = F.vision.roi_align(x.astype(dtype).astype("float32"), rois, 7).numpy()
    mixed = F.vision.roi_align(x.astype(dtype), rois, 7)
    assert mixed.dtype == ("float64" if dtype == "float64" else "float32")
    np.testing.assert_allclose(mixed.numpy(), exact, rtol=1e-5, atol=1e-6)


def test_integers_count_as_floats() -> None:
    x, rois = T(np.arange(16).reshape(1, 1, 4, 4)), T([[0, 0, 0, 3, 3]])
    np.testing.assert_array_equal(
        F.vision.roi_pooling(x, rois, 2).numpy()[0, 0], [[5.0, 7.0], [13.0, 15.0]]
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, r: F.vision.roi_align(x, r, (1, 2, 3)), ValueError),
        (lambda x, r: F.vision.roi_align(x, r, 1.5), TypeError),
        (lambda x, r: F.vision.roi_align(x, r, -1), ValueError),
        (lambda x, r: F.vision.roi_align(x, r, 2, "median"), ValueError),
        (lambda x, r: F.vision.roi_align(x, r, 2, sample_points=1025), ValueError),
        (lambda x, r: F.vision.roi_align(x, r, 2, spatial_scale=np.nan), ValueError),
        (lambda x, r: F.vision.roi_align(x[0], r, 2), ValueError),
        (lambda x, r: F.vision.roi_align(x, r[:, 1:], 2), ValueError),
        (lambda x, r: F.vision.roi_align(x, r[0], 2), ValueError),
        (lambda x, r: F.vision.roi_align(x > 0, r, 2), TypeError),
        (lambda x, r: F.vision.roi_align(x, r, 2**40), ValueError),
        (lambda x, r: F.vision.roi_pooling(x, r, 2, scale=np.inf), ValueError),
        (lambda x, r: F.vision.roi_pooling(x, r, 2, "sum"), ValueError),
        (
            lambda x, r: F.deformable_psroi_pooling(
                x, r, F.zeros((1, 2, 3, 3)), False, 2, 2, 2, 2, 1.0
            ),
            ValueError,
        ),
        (
            lambda x, r: F.deformable_psroi_pooling(
                x, r, F.zeros((1, 2, 2, 2)), False, 2, 2, 2, 0, 1.0
            ),
            ValueError,
        ),
    ],
)
def test_wrong_arguments_of_pools_raise(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"roi_|ROI"):
        call(image(1, 3, 5, 5), T([[0, 1.0, 1.0, 3.0, 3.0]]))


def test_an_index_from_elsewhere_is_harmless() -> None:
    rois = T([[0, 0.0, 0.0, 3.0, 3.0]])
    for index in (-7, 99, 2**31 - 1, -(2**31)):
        ids = T(np.full((1, 1, 2, 2), index, "int32"))
        for kind, shape in (("ROIAlign", {}), ("ROIPooling", {})):
            fields = {"mode": "MAX", "pooled_height": 2, "pooled_width": 2, **shape}
            back = getattr(builtin, kind + "Backward")(**fields, input_shape=(1, 1, 4, 4))
            (dx,) = apply(back, F.ones((1, 1, 2, 2)), rois, ids)
            np.testing.assert_array_equal(dx.numpy(), 0.0)
            (y,) = apply(getattr(builtin, kind + "Pick")(**fields), image(1, 1, 4, 4), rois, ids)
            np.testing.assert_array_equal(y.numpy(), 0.0)


# ---- suppression -------------------------------------------------------------------------------


def test_nms_goes_through_equal_scores_in_order() -> None:
    boxes = np.array([[0, 0, 2, 2], [9, 9, 11, 11], [0, 0, 2, 2], [9, 9, 11, 11]], "float32")
    kept = F.vision.nms(T(boxes), F.ones(4), 0.5)
    np.testing.assert_array_equal(kept.numpy(), [0, 1])


def test_nms_keeps_a_box_at_the_threshold() -> None:
    boxes = T([[0, 0, 2.0, 2.0], [0, 0, 1.0, 2.0]])  # overlap 1/2
    assert F.vision.nms(boxes, T([0.9, 0.5]), 0.5).shape == (2,)
    assert F.vision.nms(boxes, T([0.9, 0.5]), 0.4999).shape == (1,)


def test_nms_of_boxes_without_area_or_number() -> None:
    boxes = T([[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, np.nan, 2], [1, 1, np.nan, 2], [0, 0, np.inf, 1]])
    assert F.vision.nms(boxes, T([5.0, 4, 3, 2, 1]), 0.0).shape == (5,)
    assert F.vision.nms(boxes, T([np.nan, 4, 3, np.nan, 1]), 0.5).shape == (5,)


@pytest.mark.parametrize("most", [0, 1, 3, 100, None])
def test_nms_keeps_no_more_than_it_may(most: int | None) -> None:
    boxes = T(np.array([[4 * i, 0, 4 * i + 3, 3] for i in range(5)], "float32"))
    kept = F.vision.nms(boxes, T([0.1, 0.5, 0.3, 0.9, 0.7]), 0.5, most)
    assert kept.dtype == np.int32
    np.testing.assert_array_equal(kept.numpy(), [3, 4, 1, 2, 0][:most])


def test_nms_keep_of_groups() -> None:
    boxes = T([[[0, 0, 1, 1], [0, 0, 1, 1], [5, 5, 6, 6.0]], [[0, 0, 1, 1.0]] * 3])
    kept, count = apply(builtin.NMSKeep(iou_thresh=0.5, max_output=4), boxes)
    np.testing.assert_array_equal(kept.numpy(), [[0, 2, 2, 2], [0, 0, 0, 0]])
    np.testing.assert_array_equal(count.numpy(), [2, 1])


@pytest.mark.parametrize(
    ("boxes", "scores", "threshold", "most"),
    [
        ((3, 5), (3,), 0.5, None),
        ((3, 4), (2,), 0.5, None),
        ((3, 4), (3, 1), 0.5, None),
        ((1, 3, 4), (1, 3), 0.5, None),
        ((3, 4), (3,), 0.5, -1),
        ((3, 4), (3,), np.nan, None),
    ],
)
def test_wrong_arguments_of_nms_raise(boxes: Any, scores: Any, threshold: Any, most: Any) -> None:
    with pytest.raises(ValueError, match="nms"):
        F.vision.nms(F.ones(boxes), F.ones(scores), threshold, most)


# ---- correlation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kw",
    [
        {"kernel_size": 2},
        {"kernel_size": 0},
        {"kernel_size": 9},
        {"stride1": 0},
        {"stride2": 0},
        {"max_displacement": -1},
        {"max_displacement": 3},
        {"pad_size": -1},
        {"pad_size": 2**40},
        {"max_displacement": 2**31},
    ],
)
def test_wrong_arguments_of_correlation_raise(kw: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Correlation"):
        F.vision.correlation(image(1, 2, 6, 6), image(1, 2, 6, 6), **kw)


def test_correlation_of_unlike_images() -> None:
    with pytest.raises(ValueError, match="one shape"):
        F.vision.correlation(image(1, 2, 6, 6), image(1, 2, 6, 7))
    mixed = F.vision.correlation(image(1, 2, 6, 6).astype("float16"), image(1, 2, 6, 6))
    assert mixed.dtype == np.float32


def test_correlation_has_no_slope_where_images_agree() -> None:
    a, b = image(1, 2, 5, 5), image(1, 2, 5, 5)
    gm = GradManager().attach([a, b])
    with gm:
        gm.backward(F.vision.correlation(a, b, 1, 0, is_multiply=False).sum())
    np.testing.assert_array_equal(a.grad.numpy(), 0.0)
    np.testing.assert_array_equal(b.grad.numpy(), 0.0)


# ---- deformable --------------------------------------------------------------------------------


def deformable(n: int = 1, size: int = 4) -> list[mge.Tensor]:
    """Input, weight, offset and mask of a convolution that is a convolution still."""
    offset, mask = F.zeros((n, 18, size, size)), F.ones((n, 9, size, size))
    return [image(n, 6, size, size), image(5, 6, 3, 3), offset, mask]


def test_without_offsets_it_is_a_convolution() -> None:
    x, w, offset, mask = deformable(2, 7)
    np.testing.assert_allclose(
        F.deformable_conv2d(x, w, offset, mask, padding=1).numpy(),
        F.conv2d(x, w, padding=1).numpy(),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("far", [1e9, -1e30, 3e38, np.inf, -np.inf])
def test_taps_far_outside_read_zeros(far: float) -> None:
    x, w, offset, mask = deformable()
    operands = [x, w, F.full(offset.shape, far), mask]
    gm = GradManager().attach(operands)
    with gm:
        y = F.deformable_conv2d(*operands, padding=1)
        gm.backward(y.sum())
    np.testing.assert_array_equal(y.numpy(), 0.0)
    for v in operands:
        np.testing.assert_array_equal(v.grad.numpy(), 0.0)


def test_an_offset_that_is_nan_spoils_its_output_only() -> None:
    x, w, offset, mask = deformable()
    moved = offset.numpy().copy()
    moved[0, 4, 2, 1] = np.nan
    y = F.deformable_conv2d(x, w, T(moved), mask, padding=1).numpy()
    assert np.all(np.isnan(y[0, :, 2, 1]))
    assert np.isnan(y).sum() == 5


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        (0, (1, 5, 4, 4)),
        (0, (6, 4, 4)),
        (1, (5, 6, 7, 7)),
        (1, (5, 6, 3)),
        (2, (1, 17, 4, 4)),
        (2, (1, 36, 4, 4)),
        (2, (1, 18, 3, 4)),
        (2, (18, 4, 4)),
        (3, (1, 8, 4, 4)),
        (3, (2, 9, 4, 4)),
        (3, (9,)),
    ],
)
def test_wrong_shapes_of_deformable_conv_raise(place: int, shape: tuple[int, ...]) -> None:
    operands = deformable()
    operands[place] = F.ones(shape)
    with pytest.raises(ValueError, match=r"Deformable|deformable"):
        F.deformable_conv2d(*operands, padding=1)


def test_wrong_bias_and_parts_of_deformable_conv_raise() -> None:
    operands = deformable()
    with pytest.raises(ValueError, match="bias"):
        F.deformable_conv2d(*operands, F.ones(6), padding=1)
    parts = [operands[0], operands[1], F.ones((1, 72, 4, 4)), F.ones((1, 36, 4, 4))]
    with pytest.raises(ValueError, match="parts"):
        F.deformable_conv2d(*parts, padding=1)
    with pytest.raises(ValueError, match="stride"):
        F.deformable_conv2d(*operands, stride=0, padding=1)


# ---- second derivatives ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.deformable_conv2d(x, *deformable()[1:], padding=1),
        lambda x: F.deformable_psroi_pooling(
            x, T([[0, 0.0, 0.0, 3.0, 3.0]]), F.zeros((1, 2, 2, 2)), False, 2, 2, 2, 2, 1.0
        ),
        lambda x: F.vision.correlation(x, x * 2, is_multiply=False),
    ],
)
def test_second_derivatives_that_are_not_there_raise(call: Any) -> None:
    with pytest.raises(NotImplementedError, match="second derivatives"):
        second_order(call, image(1, 6, 4, 4))
