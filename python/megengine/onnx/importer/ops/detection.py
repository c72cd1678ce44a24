"""Boxes and regions of images."""

from __future__ import annotations

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import op
from ..values import Array, to_tensor

# ---- boxes --------------------------------------------------------------------------------------


def _corners(boxes: Array, center_point_box: int) -> Array:
    """Boxes as (low, low, high, high)."""
    if center_point_box:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def _keep(boxes: Array, scores: Array, most: int, iou: float, least: float | None) -> list[int]:
    """Positions of the boxes that are kept, best first."""
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    kept: list[int] = []
    while order.size and len(kept) < most:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(boxes[best, :2], boxes[rest, :2])
        high = np.minimum(boxes[best, 2:], boxes[rest, 2:])
        both = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[rest] - both
        order = rest[both <= iou * union]
    return kept


@op("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    most = 0 if max_output_boxes_per_class is None else int(max_output_boxes_per_class.item())
    iou = 0.0 if iou_threshold is None else float(iou_threshold.item())
    least = None if score_threshold is None else float(score_threshold.item())
    rows: list[tuple[int, int, int]] = []
    for b in range(scores.shape[0]):
        corners = _corners(boxes[b].astype(np.float64), center_point_box)
        for c in range(scores.shape[1]):
            rows.extend((b, c, i) for i in _keep(corners, scores[b, c], most, iou, least))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


# ---- regions ------------------------------------------------------------------------------------


def _line(
    start: float, length: float, bins: int, samples: int, size: int
) -> tuple[Array, Array, Array, Array]:
    """Along one axis: the two neighbours of each sample, and their weights."""
    step = length / bins / samples
    place = start + (np.arange(bins * samples) + 0.5) * step
    inside = (place >= -1.0) & (place <= size)
    place = place.clip(0, None)
    low = np.minimum(place.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    far = np.where(low >= size - 1, 0.0, place - low)
    return low, high, np.where(inside, 1 - far, 0.0), np.where(inside, far, 0.0)


def _matrix(line: tuple[Array, Array, Array, Array], bins: int, size: int) -> Array:
    """The mean of the samples in each bin, as a matrix."""
    low, high, near, far = line
    rows = np.arange(len(low))
    out = np.zeros((len(low), size))
    np.add.at(out, (rows, low), near)
    np.add.at(out, (rows, high), far)
    return out.reshape(bins, -1, size).mean(axis=1)


def _roi_align(
    x: Tensor,
    rois: Array,
    batch_indices: Array,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    half_pixel: bool,
) -> Tensor:
    if mode not in ("avg", "max"):
        raise ValueError(f"RoiAlign: expected mode avg or max, got {mode!r}")
    height, width = x._tuple_shape[2:]
    if batch_indices.size and not (
        0 <= batch_indices.min() <= batch_indices.max() < x._tuple_shape[0]
    ):
        raise IndexError(f"RoiAlign: an index is out of range for {x._tuple_shape[0]} images")
    outputs = []
    for roi, image in zip(rois.astype(np.float64), batch_indices, strict=True):
        x1, y1, x2, y2 = roi * spatial_scale - (0.5 if half_pixel else 0.0)
        w, h = x2 - x1, y2 - y1
        if not half_pixel:
            w, h = max(w, 1.0), max(h, 1.0)
        down = sampling_ratio or max(int(np.ceil(h / output_height)), 1)
        across = sampling_ratio or max(int(np.ceil(w / output_width)), 1)
        rows = _line(y1, h, output_height, down, height)
        columns = _line(x1, w, output_width, across, width)
        one = x[int(image)]
        if mode == "avg":
            left = to_tensor(_matrix(rows, output_height, height).astype(np.dtype(x.dtype)))
            right = to_tensor(_matrix(columns, output_width, width).astype(np.dtype(x.dtype)))
            outputs.append(F.matmul(F.matmul(left, one), right, transpose_b=True))
            continue
        # The largest of the weighted neighbours, not of what is interpolated from them.
        taps = []
        for y_place, y_weight in ((rows[0], rows[2]), (rows[1], rows[3])):
            for x_place, x_weight in ((columns[0], columns[2]), (columns[1], columns[3])):
                weight = np.outer(y_weight, x_weight).astype(np.dtype(x.dtype))
                taps.append(one[:, y_place][:, :, x_place] * to_tensor(weight))
        best = F.max(F.stack(taps, 0), 0)
        blocks = F.reshape(best, (-1, output_height, down, output_width, across))
        outputs.append(F.max(blocks, (2, 4)))
    if not outputs:
        return F.zeros((0, x._tuple_shape[1], output_height, output_width), dtype=x.dtype)
    return F.stack(outputs, 0)


@op("RoiAlign", since=10)
def roi_align_10(
    x: Tensor,
    rois: Array,
    batch_indices: Array,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    return _roi_align(
        x, rois, batch_indices, mode, output_height, output_width, sampling_ratio, spatial_scale,
        half_pixel=False,
    )  # fmt: skip


@op("RoiAlign", since=16)
def roi_align(
    x: Tensor,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    return _roi_align(
        x, rois, batch_indices, mode, output_height, output_width, sampling_ratio, spatial_scale,
        half_pixel=coordinate_transformation_mode == "half_pixel",
    )  # fmt: skip


@op("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Tensor, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> Tensor:
    return F.vision.roi_pooling(x, rois, pooled_shape, "max", spatial_scale)
