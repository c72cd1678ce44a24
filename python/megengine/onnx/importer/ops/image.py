"""Resizing and rearranging images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import op
from ..values import Array, dtype_of, is_float, to_tensor
from .math import like

# ---- resizing -----------------------------------------------------------------------------------


def _source(out: int, size: int, scale: float, mode: str, roi: tuple[float, float] | None) -> Array:
    """The place in the input of each element of the output, along one axis."""
    x = np.arange(out, dtype=np.float64)
    length = scale * size  # of the output before it is cut to a whole number
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        adjustment = out / length if length else 1.0
        offset = size / 2 * (1 - adjustment)
        return offset + (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if out > 1 else np.zeros_like(x)
    if mode == "align_corners":
        return x * (size - 1) / (out - 1) if out > 1 else np.zeros_like(x)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if roi is None:
            raise ValueError("Resize: tf_crop_and_resize needs a roi")
        start, end = roi
        if out > 1:
            return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
        return np.full_like(x, 0.5 * (start + end) * (size - 1))
    raise ValueError(f"Resize: unknown coordinate_transformation_mode {mode!r}")


def _nearest(x: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(x + 0.5)
    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    raise ValueError(f"Resize: unknown nearest_mode {mode!r}")


def _nearest_places(source: Array, size: int, mode: str) -> Array:
    """Which element of the input each one of the output is, along one axis of ``size``."""
    return _nearest(source, mode).clip(0, size - 1).astype(np.int64)


def _is_repetition(places: Array, size: int) -> bool:
    """Whether these are the places of our own nearest mode: enlarged by 2, all modes agree."""
    return np.array_equal(places, np.arange(len(places)) * size // len(places))


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _weights(
    x: Array, size: int, scale: float, mode: str, a: float, exclude_outside: bool, antialias: bool
) -> tuple[Array, Array]:
    """Which elements of the input make each one of the output, (out, taps), and their weights."""
    stretch = min(scale, 1.0) if antialias else 1.0
    radius = (2 if mode == "cubic" else 1) / stretch
    taps = np.arange(-math.ceil(radius) + 1, math.ceil(radius) + 1)
    places = np.floor(x)[:, None] + taps
    distance = (places - x[:, None]) * stretch
    weights = _cubic(distance, a) if mode == "cubic" else np.maximum(1 - np.abs(distance), 0.0)
    if exclude_outside:
        weights = np.where((places < 0) | (places >= size), 0.0, weights)
    if exclude_outside or antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return places.clip(0, size - 1).astype(np.int64), weights


def _along(x: Tensor, axis: int, places: Array, weights: Array | None) -> Tensor:
    lead = (slice(None),) * axis
    if weights is None:
        return x[(*lead, places)]
    shape = (len(places),) + (1,) * (x.ndim - axis - 1)
    total = None
    for k in range(places.shape[1]):
        w = weights[:, k]
        if not w.any():
            continue
        part = x[(*lead, places[:, k])] * to_tensor(w.astype(np.float32).reshape(shape))
        total = part if total is None else total + part
    assert total is not None
    return total


def _resized(
    x: Tensor,
    sizes: Sequence[int],
    scales: Sequence[float],
    mode: str,
    coordinates: str,
    nearest_mode: str = "round_prefer_floor",
    a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    rois: Sequence[tuple[float, float]] | None = None,
    extrapolation_value: float = 0.0,
) -> Tensor:
    """An image of other sizes. Scales go into the places, sizes are those of the result."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"Resize: unknown mode {mode!r}")
    old = x._tuple_shape
    changed = [i for i in range(x.ndim) if sizes[i] != old[i] or scales[i] != 1.0]
    if rois is not None and coordinates == "tf_crop_and_resize":
        changed = [i for i in range(x.ndim) if i in changed or rois[i] != (0.0, 1.0)]
    exact = all(math.isclose(old[i] * scales[i], sizes[i], abs_tol=1e-4) for i in changed)
    images = x.ndim == 4 and all(i >= 2 for i in changed) and is_float(dtype_of(x))
    if mode == "linear" and images and exact and not antialias and changed:
        corners = coordinates == "align_corners"
        centred = coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
        if (corners or centred) and min(sizes[2:]) > 1 and not exclude_outside:
            return F.vision.interpolate(x, tuple(sizes[2:]), align_corners=corners)
    sources = {
        i: _source(sizes[i], old[i], scales[i], coordinates, rois[i] if rois else None)
        for i in changed
    }
    if mode == "nearest" and coordinates != "tf_crop_and_resize" and is_float(dtype_of(x)):
        spatial = 3 <= x.ndim <= 5 and all(i >= 2 for i in changed)
        if (
            changed
            and spatial
            and all(
                _is_repetition(_nearest_places(sources[i], old[i], nearest_mode), old[i])
                for i in changed
            )
        ):
            return like(F.vision.interpolate(x, tuple(sizes[2:]), mode="nearest"), x)
    original, outside = x, None
    for i, source in sources.items():
        if coordinates == "tf_crop_and_resize":
            beyond = (source < 0) | (source > old[i] - 1)
            shape = [1] * x.ndim
            shape[i] = sizes[i]
            beyond = beyond.reshape(shape)
            outside = beyond if outside is None else outside | beyond
        if mode == "nearest":
            x = _along(x, i, _nearest_places(source, old[i], nearest_mode), None)
        else:
            x = _along(
                x, i, *_weights(source, old[i], scales[i], mode, a, exclude_outside, antialias)
            )
    if outside is not None and outside.any():
        everywhere = to_tensor(np.broadcast_to(outside, x._tuple_shape))
        x = F.where(everywhere, F.full_like(x, extrapolation_value), x)
    return like(x, original)


@op("Upsample")
def upsample_2d(
    x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    return _upsample(x, (1.0, 1.0, height_scale, width_scale), mode)


@op("Upsample", since=7)
def upsample_by_attribute(x: Tensor, *, scales: tuple[float, ...], mode: str = "nearest") -> Tensor:
    return _upsample(x, scales, mode)


@op("Upsample", since=9)
def upsample(x: Tensor, scales: Array, *, mode: str = "nearest") -> Tensor:
    return _upsample(x, scales.tolist(), mode)


@op("Resize", since=10)
def resize_by_scales(x: Tensor, scales: Array, *, mode: str = "nearest") -> Tensor:
    return _upsample(x, scales.tolist(), mode)


def _upsample(x: Tensor, scales: Sequence[float], mode: str) -> Tensor:
    sizes = [math.floor(n * s) for n, s in zip(x._tuple_shape, scales, strict=True)]
    mode = {"bilinear": "linear"}.get(mode, mode)
    return _resized(x, sizes, scales, mode, "asymmetric", "floor")


@op("Resize", since=11)
def resize(
    x: Tensor,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    old, n = x._tuple_shape, x.ndim
    named = list(range(n)) if axes is None else [a % n for a in axes]
    scale, size = [1.0] * n, list(old)
    if sizes is not None and sizes.size:
        asked = [int(v) for v in sizes]
        if len(asked) != len(named):
            raise ValueError(f"Resize: expected {len(named)} sizes, got {len(asked)}")
        ratios = [want / old[i] for i, want in zip(named, asked, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            ratio = pick(ratios)
            ratios = [ratio] * len(named)
            asked = [math.floor(ratio * old[i] + 0.5) for i in named]
        for i, want, ratio in zip(named, asked, ratios, strict=True):
            size[i], scale[i] = want, ratio
    elif scales is not None and scales.size:
        if scales.size != len(named):
            raise ValueError(f"Resize: expected {len(named)} scales, got {scales.size}")
        for i, s in zip(named, scales.tolist(), strict=True):
            scale[i], size[i] = float(s), math.floor(old[i] * s)
    else:
        raise ValueError("Resize: expected scales or sizes")
    rois = None
    if roi is not None and roi.size:
        starts, ends = roi.tolist()[: len(named)], roi.tolist()[len(named) :]
        rois = [(0.0, 1.0)] * n
        for i, start, end in zip(named, starts, ends, strict=True):
            rois[i] = (start, end)
    return _resized(
        x, size, scale, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a,
        bool(exclude_outside), bool(antialias), rois, extrapolation_value,
    )  # fmt: skip


# ---- rearranging --------------------------------------------------------------------------------


@op("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x._tuple_shape
    b = blocksize
    if mode == "DCR":
        x = F.transpose(F.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    elif mode == "CRD":
        x = F.transpose(F.reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        raise ValueError(f"DepthToSpace: expected mode DCR or CRD, got {mode!r}")
    return F.reshape(x, (n, c // (b * b), h * b, w * b))


@op("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x._tuple_shape
    b = blocksize
    blocks = F.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return F.reshape(F.transpose(blocks, order), (n, c * b * b, h // b, w // b))
