"""Transforms of images: pixels beside OpenCV and float64, items of many parts, and recipes.

What the reference answers for the same random numbers is in tests/reference/cases/transforms.txt.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

import megengine
import megengine.data.transform as T
from megengine import _core
from megengine.data import DataLoader, SequentialSampler
from megengine.data.dataset import Dataset
from megengine.data.transform.vision import functional as F
from megengine.data.transform.vision import pixels

MEAN, STD = [103.530, 116.280, 123.675], [57.375, 57.120, 58.395]

MAKERS: dict[str, Callable[[], Any]] = {
    "ToMode": lambda: T.ToMode(),
    "Normalize": lambda: T.Normalize(MEAN, STD),
    "Pad": lambda: T.Pad((1, 2, 3, 4), [5, 6, 7], 9),
    "Resize": lambda: T.Resize((20, 31)),
    "Resize of the shorter edge": lambda: T.Resize(20),
    "ShortestEdgeResize": lambda: T.ShortestEdgeResize((20, 60), 70),
    "RandomResize": lambda: T.RandomResize((0.5, 2)),
    "RandomCrop": lambda: T.RandomCrop(24),
    "RandomCrop with a border": lambda: T.RandomCrop((30, 60), (3, 4, 5, 6), [1, 2, 3], 9),
    "RandomResizedCrop": lambda: T.RandomResizedCrop(24),
    "CenterCrop": lambda: T.CenterCrop((20, 30)),
    "RandomHorizontalFlip": lambda: T.RandomHorizontalFlip(),
    "RandomVerticalFlip": lambda: T.RandomVerticalFlip(),
    "GaussianNoise": lambda: T.GaussianNoise(0.01, 0.02),
    "BrightnessTransform": lambda: T.BrightnessTransform(0.4),
    "ContrastTransform": lambda: T.ContrastTransform(0.4),
    "SaturationTransform": lambda: T.SaturationTransform(0.4),
    "HueTransform": lambda: T.HueTransform(0.4),
    "ColorJitter": lambda: T.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "Lighting": lambda: T.Lighting(0.1),
    "TorchTransformCompose": lambda: T.TorchTransformCompose([np.asarray]),
    "Compose": lambda: T.Compose(
        [T.RandomResizedCrop(24), T.ColorJitter(0.4), T.Normalize(MEAN, STD), T.ToMode()]
    ),
}
every_transform = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def picture(
    rng: np.random.Generator, height: int = 40, width: int = 50, dtype: str = "uint8"
) -> Any:
    """A smooth image, so that a shift or a wrong corner shows, with noise."""
    y, x = np.mgrid[:height, :width]
    smooth = np.stack([y * 200 / height, x * 200 / width, (x + y) * 100 / (height + width)], -1)
    return (smooth + rng.uniform(0, 50, smooth.shape)).astype(dtype)


def item(rng: np.random.Generator) -> tuple[Any, ...]:
    """An image with all that may belong to it, in the order of ORDER."""
    return (
        picture(rng),
        np.array([[2, 3, 20, 30], [10, 0, 50, 40]], dtype=np.float32),
        np.array([[2, 3], [20.5, 30]], dtype=np.float32),
        np.array([[[2, 3, 1], [20, 30, 2]]], dtype=np.float32),
        [[np.array([[2, 3], [20, 30], [2, 30]], dtype=np.float32)]],
        rng.integers(0, 5, (40, 50, 1)).astype(np.uint8),
        np.array([3, 4]),
        {"id": 7},
    )


ORDER = ("image", "boxes", "coords", "keypoints", "polygons", "mask", "boxes_category", "info")


def flat(parts: Any) -> list[Any]:
    """Copies of the arrays of an item."""
    if isinstance(parts, (tuple, list)):
        return [array for part in parts for array in flat(part)]
    return [np.array(parts)]


# Pixels.


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize("interpolation", range(5))
def test_resize_is_that_of_opencv(rng: np.random.Generator, dtype: str, interpolation: int):
    image = picture(rng, dtype=dtype)
    for size in ((20, 31), (80, 90), (40, 50)):
        got = T.Resize(size, interpolation).apply(image)
        want = cv2.resize(image, size[::-1], interpolation=interpolation)
        np.testing.assert_array_equal(got, want)


def linear(image: Any, height: int, width: int) -> Any:
    """Linear interpolation in float64: pixels are areas, whose centres are compared."""
    out = image.astype(np.float64)
    for axis, length in ((0, height), (1, width)):
        old = out.shape[axis]
        at = np.clip((np.arange(length) + 0.5) * old / length - 0.5, 0, old - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, old - 1)
        share = (at - low).reshape([-1, 1, 1] if axis == 0 else [1, -1, 1])
        out = out.take(low, axis) * (1 - share) + out.take(high, axis) * share
    return out


def test_resize_is_linear_interpolation(rng: np.random.Generator):
    for height, width in ((20, 31), (33, 80), (80, 90)):
        exact = linear(picture(rng, dtype="float32"), height, width)
        for dtype, error in (("float32", 1e-2), ("uint8", 1)):
            rng = np.random.default_rng(rng.integers(1 << 30))
            image = picture(rng, dtype=dtype)
            exact = linear(image, height, width)
            assert np.abs(T.Resize((height, width)).apply(image) - exact).max() <= error


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint32", "float16", "int16"])
def test_nearest_pixels_of_any_dtype(rng: np.random.Generator, dtype: str):
    image = rng.integers(0, 2 if dtype == "bool" else 100, (40, 50, 3)).astype(dtype)
    want = cv2.resize(image.astype(np.uint8), (33, 20), interpolation=0).astype(dtype)
    got = T.Resize((20, 33), 0).apply(image)
    assert got.dtype == image.dtype
    np.testing.assert_array_equal(got, want)
    for mask in (image[:, :, :1], image[:, :, 0]):
        _, got = T.Resize((20, 33), order=("image", "mask")).apply((picture(rng), mask))
        np.testing.assert_array_equal(got, want[:, :, :1] if mask.ndim == 3 else want[:, :, 0])


def test_resized_crop_is_a_resized_part(rng: np.random.Generator):
    image = picture(rng, 60, 90)
    transform = T.RandomResizedCrop((16, 24), (0.1, 0.9), (0.5, 2), order=("image", "mask"))
    mask = rng.integers(0, 9, (60, 90)).astype(np.int64)
    areas = []
    for _ in range(200):
        got, got_mask = transform.apply((image, mask))
        x, y, w, h = transform._coord_info
        assert x >= 0
        assert y >= 0
        part = np.ascontiguousarray(image[y : y + h, x : x + w])
        assert part.shape == (h, w, 3)
        np.testing.assert_array_equal(got, cv2.resize(part, (24, 16)))
        part = mask[y : y + h, x : x + w].astype(np.uint8)
        np.testing.assert_array_equal(got_mask, cv2.resize(part, (24, 16), interpolation=0))
        areas.append(h * w / (60 * 90))
        assert 0.5 * (1 - 2 / h) <= w / h <= 2 * (1 + 2 / h)
    assert min(areas) > 0.09
    assert max(areas) < 0.92
    assert 0.4 < np.mean(areas) < 0.6  # uniform in the area


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "int64", "complex128", "float32"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_flips_and_borders_beside_numpy(rng: np.random.Generator, dtype: str, channels: int):
    image = rng.integers(0, 2 if dtype == "bool" else 99, (7, 9, channels)).astype(dtype)
    for view in (image, image[::-1, ::2], image[1:-1, 2:].transpose(1, 0, 2)):
        horizontal, vertical = T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)
        np.testing.assert_array_equal(horizontal.apply(view), view[:, ::-1])
        np.testing.assert_array_equal(vertical.apply(view), view[::-1])
        np.testing.assert_array_equal(F.flip(view, -1), view[::-1, ::-1])
        assert horizontal.apply(view).flags.c_contiguous
        padded = T.Pad((1, 2, 3, 4), 1).apply(view)
        want = np.pad(view, ((1, 2), (3, 4), (0, 0)), constant_values=1)
        np.testing.assert_array_equal(padded, want)
        assert padded.dtype == view.dtype
        for size in (3, (20, 4), (5, 20), (30, 31)):
            crop = T.RandomCrop(size, 2, 1)
            got = crop.apply(view)
            want = np.pad(view, ((2, 40), (2, 40), (0, 0)), constant_values=1)
            want = want[crop._y : crop._y + crop._th, crop._x : crop._x + crop._tw]
            np.testing.assert_array_equal(got, want)


def test_normalize_beside_float64(rng: np.random.Generator):
    for dtype in ("uint8", "uint16", "float32", "float64", "int32", "bool"):
        image = picture(rng, dtype=dtype)
        got = T.Normalize(MEAN, STD).apply(image)
        assert got.dtype == (np.float64 if dtype in ("float64", "int32") else np.float32)
        want = (image.astype(np.float64) - np.float32(MEAN)) / np.float32(STD)
        np.testing.assert_allclose(got, want, rtol=3e-7, atol=3e-7)


def blend(image: Any, other: Any, share: float) -> Any:
    return np.clip(image * share + other * (1 - share), 0, 255)


GREY = np.array([0.114, 0.587, 0.299])
BLENDS: dict[str, Callable[[Any, float], Any]] = {
    "BrightnessTransform": lambda x, share: blend(x, 0, share),
    "ContrastTransform": lambda x, share: blend(x, (x @ GREY).mean(), share),
    "SaturationTransform": lambda x, share: blend(x, (x @ GREY)[:, :, None], share),
}


@pytest.mark.parametrize("name", BLENDS)
@pytest.mark.parametrize("value", [0.3, 0.9, 4])
def test_colours_beside_float64(rng: np.random.Generator, name: str, value: float):
    for seed in range(5):
        for dtype in ("float32", "uint8"):
            image = picture(rng, dtype=dtype)
            np.random.seed(seed)
            got = getattr(T, name)(value).apply(image)
            np.random.seed(seed)
            share = np.random.uniform(max(0, 1 - value), 1 + value)
            want = BLENDS[name](image.astype(np.float64), share)
            assert got.dtype == image.dtype
            if dtype == "uint8":  # cut; float32 may fall on either side of a whole number
                assert (np.abs(got - (want - 0.5)) <= 0.5 + 1e-3).all()
            else:
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


def test_hue_turns_around(rng: np.random.Generator):
    image = np.zeros((1, 3, 3), dtype=np.uint8)
    image[0, [0, 1, 2], [0, 1, 2]] = 255  # blue, green, red
    seen = set()
    for _ in range(200):
        got = T.HueTransform(0.5).apply(image)
        assert got.max() == 255  # neither brighter nor paler
        assert got.min() == 0
        seen.add(int(got[0, 0].argmax()))
    assert seen == {0, 1, 2}


def test_lighting_and_noise_have_their_moments(rng: np.random.Generator):
    image = np.full((64, 64, 3), 128, dtype=np.float32)
    noise = T.GaussianNoise(0.1, 0.05).apply(image) - image
    assert abs(noise.mean() - 25.5) < 0.5
    assert abs(noise.std() - 12.75) < 0.5
    shifts = np.array([T.Lighting(0.1).apply(image)[0, 0] - 128 for _ in range(4000)])
    axes = T.Lighting(0.1).eigvec * T.Lighting(0.1).eigval * 25.5
    np.testing.assert_allclose(np.cov(shifts.T), axes @ axes.T, rtol=0.15)


# Kernels for images of 8 bits.


def views(rng: np.random.Generator, channels: int) -> list[Any]:
    """Images of many sizes and strides."""
    whole = rng.integers(0, 256, (70, 600, channels)).astype(np.uint8)
    frozen = whole[:3].copy()
    frozen.flags.writeable = False
    return [
        whole,
        whole[3:67, 5:300],
        whole[::-1],
        whole[:, ::-1],
        whole[::3, ::2],
        whole.transpose(1, 0, 2),
        np.asfortranarray(whole),
        whole[:1, :1],
        whole[:, :1],
        whole[:0],
        whole[:, :0],
        frozen,
    ]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_kernels_give_the_bits_of_numpy(rng: np.random.Generator, channels: int):
    mean = rng.uniform(0, 255, channels).astype(np.float32)
    std = rng.uniform(1, 99, channels).astype(np.float32)
    offset = rng.uniform(-99, 99, channels).astype(np.float32)
    for image in views(rng, channels):
        assert pixels.suits(image)
        want = (image - mean) / std
        got = pixels.normalize(image, mean, std, as_planes=False)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want)
        got = pixels.normalize(image, mean, std, as_planes=True)
        np.testing.assert_array_equal(got, want.transpose(2, 0, 1))
        np.testing.assert_array_equal(pixels.planes(image), image.transpose(2, 0, 1))
        exact = image.astype(np.float32)
        for share in (0.0, 0.3, 1.0, 1.7, 9.0):
            want = np.clip(exact * np.float32(share) + offset, 0, 255).astype(np.uint8)
            np.testing.assert_array_equal(pixels.mix(image, share, offset), want)
            if channels == 3:
                weights = np.array([0.114, 0.587, 0.299], dtype=np.float32)
                grey = exact[..., 0] * weights[0] + exact[..., 1] * weights[1]
                grey = (grey + exact[..., 2] * weights[2])[..., None]
                rest = np.float32(1 - share)
                want = np.clip(exact * np.float32(share) + grey * rest, 0, 255).astype(np.uint8)
                got = pixels.mix(image, share, grey=1 - share)
                np.testing.assert_array_equal(got, image if share == 1 else want)


def test_images_that_kernels_do_not_take():
    for wrong in (np.zeros((2, 2, 5), np.uint8), np.zeros((2, 2, 3), np.int8), np.zeros((2, 2)), 3):
        assert not pixels.suits(wrong)
    image, three = np.zeros((2, 4, 3), np.uint8), np.zeros(3, np.float32)
    for call in (
        lambda: _core.pixel_planes(image, np.empty((2, 4, 3), np.uint8)),
        lambda: _core.pixel_planes(image[:, ::2], np.empty((3, 2, 2), np.uint8)),
        lambda: _core.pixel_planes(np.zeros((2, 2, 5), np.uint8), np.empty((5, 2, 2), np.uint8)),
        lambda: _core.mix_pixels(image, 1.0, three[:2], 0.0, np.empty_like(image)),
        lambda: _core.mix_pixels(
            image[:, :, :1].copy(), 1.0, three[:1], 1.0, image[:, :, :1].copy()
        ),
        lambda: _core.normalize_pixels(image, three, three[:1], np.empty((2, 4, 3), "f"), False),
        lambda: _core.normalize_pixels(image, three, three, np.empty((2, 4, 3), "f"), True),
    ):
        with pytest.raises(ValueError, match="pixels: "):
            call()


def test_outputs_of_another_dtype_are_not_written_to_copies():
    image, three = np.zeros((2, 4, 3), np.uint8), np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.normalize_pixels(image, three, three, np.empty((2, 4, 3), np.float64), False)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.pixel_planes(image, np.empty((4, 2, 3), np.uint8).T)


def test_numbers_that_programs_set_later(rng: np.random.Generator):
    transform, image = T.Normalize(MEAN, STD), picture(rng)
    transform.mean = np.array(MEAN)  # float64
    assert transform.apply(image).dtype == np.float64
    transform.mean = transform.mean.astype(np.float32)
    np.testing.assert_array_equal(transform.apply(image), T.Normalize(MEAN, STD).apply(image))


@pytest.mark.parametrize("mean", [0, 128, [128], MEAN])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int32"])
def test_compose_changes_no_bits(rng: np.random.Generator, mean: Any, dtype: str):
    """Transforms that Compose runs as one give what they give one by one."""
    image, mask = picture(rng, dtype=dtype), rng.integers(0, 5, (40, 50, 1)).astype(np.uint8)
    steps = [T.CenterCrop((20, 30)), T.Normalize(mean, STD), T.ToMode()]
    composed = T.Compose(steps, order=("image", "mask", "info"))
    want: Any = (image, mask, 5)
    for step in steps:
        want = step.apply(want)
    for got in (
        composed.apply((image, mask, 5)),
        composed.apply_batch([(image, mask, 5)])[0],
        T.Compose(steps, True, order=("image", "mask", "info")).apply_batch([(image, mask, 5)])[0],
    ):
        assert got[0].dtype == want[0].dtype
        assert got[0].flags.c_contiguous
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])
        assert got[2] == 5


def test_compose_leaves_subclasses_alone(rng: np.random.Generator):
    class Own(T.Normalize):
        def _apply_image(self, image: Any) -> Any:
            return image * 0 + 7

    image = picture(rng)
    assert (T.Compose([Own(), T.ToMode()]).apply(image) == 7).all()
    grey = image[:, :, :1]  # three means make three channels of one
    want = ((grey - np.float32(MEAN)) / np.float32(STD)).transpose(2, 0, 1)
    np.testing.assert_array_equal(T.Compose([T.Normalize(MEAN, STD), T.ToMode()]).apply(grey), want)


@pytest.mark.parametrize(
    "name", ["BrightnessTransform", "ContrastTransform", "SaturationTransform"]
)
def test_kernels_of_colours_beside_float32(rng: np.random.Generator, name: str):
    """Whole numbers may be met from either side: contrast has another mean, by rounding."""
    for seed in range(20):
        image, transform = picture(rng), getattr(T, name)(0.9)
        np.random.seed(seed)
        got = transform.apply(image).astype(int)
        np.random.seed(seed)
        want = np.floor(transform.apply(image.astype(np.float32))).astype(int)
        assert np.abs(got - want).max() <= 1
        assert (got != want).mean() < (0.05 if name == "ContrastTransform" else 1e-3)


def test_lighting_of_bytes_is_exact(rng: np.random.Generator):
    image = picture(rng)
    for seed in range(20):
        np.random.seed(seed)
        got = T.Lighting(0.5).apply(image)
        np.random.seed(seed)
        want = T.Lighting(0.5).apply(image.astype(np.float64)).astype(np.uint8)
        np.testing.assert_array_equal(got, want)


# Items.


@every_transform
def test_nothing_is_changed_in_place(rng: np.random.Generator, make: Callable[[], Any]):
    if make is MAKERS["TorchTransformCompose"]:
        pytest.importorskip("PIL")
        parts, order = item(rng)[:1], ORDER[:1]
    else:
        parts, order = item(rng), ORDER
    transform = T.Compose([make()], order=order)
    before = flat(parts)
    for _ in range(3):
        out = transform.apply(parts if len(parts) > 1 else parts[0])
        if len(parts) > 1:
            assert out[6] is parts[6]
            assert out[7] is parts[7]
        for old, new in zip(before, flat(parts), strict=True):
            np.testing.assert_array_equal(old, new)


@every_transform
def test_pickled_transforms_do_the_same(rng: np.random.Generator, make: Callable[[], Any]):
    if make is MAKERS["TorchTransformCompose"]:
        pytest.importorskip("PIL")
    transform, image = make(), picture(rng)
    transform.apply(image)
    copy = pickle.loads(pickle.dumps(transform))
    assert repr(copy) == repr(transform) == type(transform).__name__
    np.random.seed(1)
    want = [transform.apply(image) for _ in range(3)]
    np.random.seed(1)
    for a in want:
        np.testing.assert_array_equal(copy.apply(image), a)


def test_another_process_does_the_same(rng: np.random.Generator):
    """As workers do that are started afresh: they get the transforms as pickles."""
    image = picture(rng)
    transforms = [make() for name, make in MAKERS.items() if name != "TorchTransformCompose"]
    script = """
import pickle, sys
import numpy as np
transforms, image = pickle.load(sys.stdin.buffer)
np.random.seed(4)
pickle.dump([transform.apply(image) for transform in transforms], sys.stdout.buffer)
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps((transforms, image)),
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    np.random.seed(4)
    for transform, got in zip(transforms, pickle.loads(run.stdout), strict=True):
        np.testing.assert_array_equal(got, transform.apply(image))


@every_transform
def test_what_is_no_image_raises(make: Callable[[], Any]):
    transform = make()
    wrong = [None, "image", {}, np.array(["a"])]
    if not isinstance(transform, (T.Normalize, T.GaussianNoise)):  # these two take any shape
        wrong += [3, [[1, 2]], np.zeros((2, 2)), np.zeros(3), np.zeros((2, 2, 2, 2))]
    for image in wrong:
        with pytest.raises((TypeError, ValueError)) as caught:
            transform.apply(image)
        assert str(caught.value)


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "object", "S3", "datetime64[s]"]


@every_transform
def test_any_array_gives_a_value_or_an_error_with_a_name(
    rng: np.random.Generator, make: Callable[[], Any]
):
    transform, names = make(), "Transform|Resize|resize|Crop|Pad|pad|Flip|flip|ToMode|to_gray"
    names += "|Normalize|Noise|Lighting"
    messages = []
    for _ in range(150):
        height, width = rng.choice([0, 1, 2, 5, 40], 2)
        shapes = [(height, width, rng.choice([0, 1, 2, 3, 4, 5, 30, 600])), (height, width), ()]
        shape = shapes[rng.choice(3, p=[0.8, 0.15, 0.05])]
        array = np.zeros(shape, dtype=rng.choice(DTYPES))
        if array.dtype.kind == "f":
            array[...] = rng.choice([0, np.nan, np.inf, -1e4])
        if array.ndim == 3 and rng.random() < 0.3:
            array = array[::-1, ::2]
        as_mask = rng.random() < 0.3
        transform.order = ("image", "mask") if as_mask else ("image",)
        try:
            with np.errstate(invalid="ignore"):  # infinity less infinity
                transform.apply((np.zeros((50, 60, 3), np.uint8), array) if as_mask else array)
        except (TypeError, ValueError, NotImplementedError) as error:
            messages.append(str(error))
    assert messages
    assert not [message for message in messages if not re.search(names, message)]


@pytest.mark.parametrize("interpolation", [-1, 99, "linear", 2.5])
def test_interpolation_that_opencv_does_not_know(interpolation: Any):
    with pytest.raises(ValueError, match=f"resize: OpenCV does not.*{interpolation}"):
        T.Resize(3, interpolation).apply(np.zeros((5, 5, 3), np.uint8))


def test_messages_name_the_transform_and_what_came():
    image = np.zeros((4, 5, 3), dtype=np.uint8)
    for call, message in (
        (
            lambda: T.Resize(3).apply(image[:, :, 0]),
            "Resize: image must have 3 dims, but got 2 dim",
        ),
        (
            lambda: T.CenterCrop(5).apply(image),
            r"CenterCrop: output size is bigger.*\(5, 5\) of \(4",
        ),
        (
            lambda: T.Resize(3, order=("boxes",)).apply(image),
            r"Resize: expected an image.*\('boxes",
        ),
        (
            lambda: T.Resize(3).apply(image.astype("int32")),
            "resize: expected an image of uint8.*int32",
        ),
        (lambda: T.Resize(3).apply(image[:0]), r"resize: the image is empty.*\(0, 5, 3\)"),
        (lambda: T.Resize((3, 0)), "Resize: output_size must be a positive integer, got 0"),
        (lambda: T.Pad((1, 2, 3)), r"Pad: size should be.*got \(1, 2, 3\)"),
        (lambda: T.RandomCrop(3, -1), "Pad: pad sizes must not be negative, got"),
        (lambda: T.RandomResizedCrop(3, (1, 0.5)), r"scale_range should be of kind.*\(1, 0.5\)"),
        (
            lambda: T.RandomHorizontalFlip(2),
            "RandomHorizontalFlip: prob must be from 0 to 1, got 2",
        ),
        (lambda: T.Normalize(std=[1, 0, 2]), r"Normalize: std must not be 0, got \[1, 0, 2\]"),
        (lambda: T.Normalize([1, 2]).apply(image), r"Normalize: .*\(2,\).*\(4, 5, 3\)"),
        (lambda: T.GaussianNoise(std=-1), "GaussianNoise: std must not be negative, got -1"),
        (
            lambda: T.Lighting(0.1).apply(image[:, :, :2]),
            r"Lighting: expected 3 channels.*\(4, 5, 2\)",
        ),
        (lambda: T.HueTransform(0.1).apply(image[:, :, :2]), r"HueTransform: expected 3 channels"),
        (lambda: T.ToMode("HWC"), "ToMode: unsupported mode: HWC"),
        (lambda: T.RandomResize((0, 1)), r"RandomResize: scale_range.*\(0, 1\)"),
        (lambda: T.ShortestEdgeResize((3, 1), 9), r"min_size must be.*\(3, 1\)"),
        (
            lambda: T.Resize(3, order=("image", "boxes")).apply((image, np.ones((2, 5)))),
            r"\(2, 5\)",
        ),
        (lambda: T.Resize(3, order=("image", "mask")).apply((image, 3)), "mask must be a NumPy"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_colours_of_a_jitter_in_a_list_that_starts_with_boxes(rng: np.random.Generator):
    """The order of the list holds inside of ColorJitter as well."""
    boxes = np.array([[1, 2, 3, 4]], dtype=np.float32)
    transform = T.Compose([T.ColorJitter(0.5, 0.5)], order=("boxes", "image"))
    moved, image = transform.apply((boxes, picture(rng)))
    np.testing.assert_array_equal(moved, boxes)
    assert image.shape == (40, 50, 3)


# Without OpenCV.


def test_opencv_is_imported_only_when_it_is_needed():
    script = """
import sys
import megengine, megengine.data, numpy as np
import megengine.data.transform as T
assert "cv2" not in sys.modules
sys.modules["cv2"] = None  # as if it were not installed
image = np.zeros((8, 9, 3), dtype="uint8")
rest = [T.RandomCrop(6, 1), T.CenterCrop(5), T.Pad(1), T.Normalize(), T.ToMode()]
assert T.Compose(rest).apply(image).shape == (3, 7, 7)
resized = T.RandomResizedCrop(4)
for transform in (T.Resize(4), resized, T.RandomVerticalFlip(1), T.HueTransform(0.1)):
    try:
        transform.apply(image)
    except ImportError as error:
        assert "pip install 'openmge[vision]'" in str(error), error
    else:
        raise AssertionError(transform)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


# Recipes.


class Jpegs(Dataset):
    """Encoded images, as a folder of files would be."""

    def __init__(self, rng: np.random.Generator, parts: Callable[[int, int], tuple[Any, ...]]):
        sizes = [(48, 64), (64, 48), (50, 50), (40, 90)]
        self.files = [cv2.imencode(".jpg", picture(rng, h, w))[1] for h, w in sizes]
        self.parts = [parts(h, w) for h, w in sizes]

    def __getitem__(self, index: int) -> Any:
        return cv2.imdecode(self.files[index], cv2.IMREAD_COLOR), *self.parts[index]

    def __len__(self) -> int:
        return len(self.files)


def batches(data: Dataset, transform: T.Transform, size: int) -> list[Any]:
    return list(DataLoader(data, SequentialSampler(data, batch_size=size), transform))


def test_imagenet(rng: np.random.Generator):
    data = Jpegs(rng, lambda h, w: (h,))
    train = T.Compose(
        [
            T.RandomResizedCrop(32),
            T.RandomHorizontalFlip(),
            T.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4),
            T.Lighting(0.1),
            T.Normalize(mean=MEAN, std=STD),
            T.ToMode("CHW"),
        ],
        order=["image", "image_category"],
    )
    evaluate = T.Compose(
        [T.Resize(36), T.CenterCrop(32), T.Normalize(mean=MEAN, std=STD), T.ToMode("CHW")],
        order=["image", "image_category"],
    )
    for transform in (train, evaluate):
        (images, labels), _ = batches(data, transform, 2)
        assert images.shape == (2, 3, 32, 32)
        assert images.dtype == np.float32
        assert labels.tolist() == [48, 64]
    again = batches(data, evaluate, 4)[0][0]
    np.testing.assert_array_equal(again[:2], images)


def test_imagenet_by_workers(rng: np.random.Generator):
    """What is drawn follows from the seed, and boxes and images stay together."""
    data = Jpegs(rng, lambda h, w: (np.array([[0.0, 0, w / 2, h]]),))
    transform = T.Compose(
        [T.RandomHorizontalFlip(), T.Resize((32, 32)), T.Normalize(MEAN, STD), T.ToMode()],
        order=("image", "boxes"),
    )

    def run() -> list[Any]:
        megengine.random.seed(3)
        sampler = SequentialSampler(data, batch_size=2)
        loader = DataLoader(data, sampler, transform, num_workers=2)
        return [batch for _ in range(3) for batch in loader]

    first, second = run(), run()
    assert len(first) == 6
    sides = set()
    for (images, boxes), (again, boxes_again) in zip(first, second, strict=True):
        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(boxes, boxes_again)
        for image, box in zip(images, boxes, strict=True):
            left = image[1, :, :16].mean() < image[1, :, 16:].mean()  # green grows to the right
            assert left == (box[0, 0] == 0)
            sides.add(bool(left))
    assert sides == {True, False}


def test_detection(rng: np.random.Generator):
    data = Jpegs(
        rng,
        lambda h, w: (np.array([[0.0, 0, w, h], [1, 2, 10, 20]]), np.array([1, 2]), [h, w, "a"]),
    )
    transform = T.Compose(
        [T.ShortestEdgeResize([80, 96], 160, "choice"), T.RandomHorizontalFlip(), T.ToMode()],
        order=["image", "boxes", "boxes_category", "info"],
    )
    for index in range(len(data)):
        image, boxes, categories, info = transform.apply(data[index])
        channels, height, width = image.shape
        assert channels == 3
        assert min(height, width) in (71, 80, 96)
        assert max(height, width) <= 160
        np.testing.assert_allclose(boxes[0], [0, 0, width, height])
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        assert categories.tolist() == [1, 2]
        assert info[2] == "a"


def test_segmentation(rng: np.random.Generator):
    data = Jpegs(rng, lambda h, w: (rng.integers(0, 21, (h, w, 1)).astype(np.uint8),))
    transform = T.Compose(
        [
            T.RandomHorizontalFlip(),
            T.RandomResize(scale_range=(0.5, 2)),
            T.RandomCrop(output_size=(64, 64), padding_value=[0, 0, 0], padding_maskvalue=255),
            T.Normalize(mean=MEAN, std=STD),
            T.ToMode(),
        ],
        order=["image", "mask"],
    )
    images, masks = batches(data, transform, 4)[0]
    assert images.shape == (4, 3, 64, 64)
    assert masks.shape == (4, 1, 64, 64)
    assert masks.dtype == np.uint8
    assert set(np.unique(masks)) <= {*range(21), 255}


def test_torchvision_style_transforms(rng: np.random.Generator):
    pil = pytest.importorskip("PIL.Image")

    class Mirror:
        def __call__(self, image: Any) -> Any:
            assert image.mode == "RGB"
            return image.transpose(pil.Transpose.FLIP_LEFT_RIGHT)

    class ToTensor:
        """What torchvision's does, with an array."""

        def __call__(self, image: Any) -> Any:
            return (np.asarray(image).transpose(2, 0, 1) / 255).astype(np.float32)

    image = picture(rng)
    got = T.TorchTransformCompose([Mirror()]).apply(image)
    np.testing.assert_array_equal(got, image[:, ::-1])
    got = T.TorchTransformCompose([Mirror(), ToTensor()]).apply(image)
    want = (image[:, ::-1].transpose(2, 0, 1) / 255).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="an image of 3 channels"):
        T.TorchTransformCompose([lambda x: x.convert("L")]).apply(image)
