"""Functions of object detection and of deformable networks.

Found as ``F.vision.roi_align`` and so on. The examples assume ``import megengine.functional as F``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._core import OpDef, apply, is_tracing, result_type
from .._core import call as _call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .conv import _check as check_convolution
from .conv import check_conv_mode
from .math import argsort
from .tensor import arange, cond_take

__all__ = [
    "correlation",
    "deformable_conv2d",
    "deformable_psroi_pooling",
    "nms",
    "roi_align",
    "roi_pooling",
]


def _pair(op: str, name: str, value: Any) -> tuple[int, int]:
    """(height, width); a single number stands for both."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if np.ndim(value) == 0:
        return (_integer(op, name, value),) * 2
    sizes = tuple(_integer(op, name, v) for v in value)
    if len(sizes) != 2:
        raise ValueError(f"{op}: expected {name} to be an int or (height, width), got {value}")
    return sizes[0], sizes[1]


def _integer(op: str, name: str, value: Any) -> int:
    if isinstance(value, Tensor):
        value = value.numpy()
    number = value if isinstance(value, (int, float)) else np.asarray(value).item()
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number // 1:
        raise TypeError(f"{op}: expected {name} to be an integer, got {value!r}")
    return int(number)


def _mode(op: str, mode: str) -> str:
    if not isinstance(mode, str) or mode.lower() not in ("max", "average"):
        raise ValueError(f"{op}: expected mode 'max' or 'average', got {mode!r}")
    return mode.upper()


def _as_float(op: str, name: str, value: Any) -> Tensor:
    """A Tensor of a float dtype."""
    value = value if isinstance(value, Tensor) else Tensor(value)
    kind = np.dtype(value.dtype)
    if kind.kind in "iu":
        return value.astype("float32")
    if kind.kind in "bc":
        raise TypeError(f"{op}: expected {name} to hold numbers, got dtype {kind}")
    return value


def _image_and_rois(op: str, inp: Any, rois: Any) -> tuple[Tensor, Tensor]:
    """Both as floats, the image in the dtype of the result: what the two promote to."""
    inp, rois = _as_float(op, "inp", inp), _as_float(op, "rois", rois)
    dtype = result_type(inp, rois)
    return (inp if inp.dtype == dtype else inp.astype(dtype)), rois


@lru_cache(maxsize=1024)
def _make(kind: str, **fields: Any) -> OpDef:
    return getattr(builtin, kind)(**fields)


@named
def roi_align(
    inp: Tensor,
    rois: Tensor,
    output_shape: int | Sequence[int],
    mode: str = "average",
    spatial_scale: float = 1.0,
    sample_points: int | Sequence[int] = 2,
    aligned: bool = True,
) -> Tensor:
    """Resamples boxes of an image to one size, as Mask R-CNN does (He et al., 2017).

    Each box is cut into ``output_shape`` bins. A bin is the mean, or the maximum, of
    ``sample_points`` by ``sample_points`` regular points in it, read between pixels by bilinear
    interpolation. Around the image are zeros.

    Args:
        inp: ``(N, C, H, W)``, of a float dtype.
        rois: ``(K, 5)``: the number of an image in ``inp``, then x1, y1, x2, y2. Gets no gradient.
            A box whose x2 is below x1 has width 0; one with a coordinate that is not finite gives
            NaN.
        output_shape: bins, one number or (height, width).
        mode: "average" or "max". In a maximum, NaN wins.
        spatial_scale: what coordinates are multiplied by.
        sample_points: points of a bin along each axis, at most 1024; 0 for one a pixel.
        aligned: take half a pixel off the coordinates, so that pixel centres are at whole numbers.

    Returns:
        ``(K, C, *output_shape)``, in the dtype that ``inp`` and ``rois`` promote to.

    Raises:
        IndexError: if a box names an image that is not there.
        ValueError: if shapes do not fit, or ``mode`` is another one.

    >>> x = F.arange(16).reshape(1, 1, 4, 4)
    >>> roi_align(x, Tensor([[0, 0, 0, 4.0, 4.0]]), 2)
    Tensor([[[[ 2.5  4.5]
       [10.5 12.5]]]], device=xpux:0)
    """
    inp, rois = _image_and_rois("roi_align", inp, rois)
    height, width = _pair("roi_align", "output_shape", output_shape)
    samples = _pair("roi_align", "sample_points", sample_points)
    op = _make(
        "ROIAlign",
        mode=_mode("roi_align", mode),
        spatial_scale=float(spatial_scale),
        offset=0.5 if aligned else 0.0,
        pooled_height=height,
        pooled_width=width,
        sample_height=samples[0],
        sample_width=samples[1],
    )
    return apply(op, inp, rois)[0]


@named
def roi_pooling(
    inp: Tensor,
    rois: Tensor,
    output_shape: int | Sequence[int],
    mode: str = "max",
    scale: float = 1.0,
) -> Tensor:
    """Pools boxes of an image to one size, as Fast R-CNN does (Girshick, 2015).

    Coordinates are multiplied by ``scale`` and rounded, half away from zero; both ends belong to
    the box, which is at least one pixel large. Bin ``i`` of ``n`` over a length of ``l`` pixels
    reaches from ``floor(i l / n)`` to ``ceil((i + 1) l / n)``, as far as there is an image; a bin
    outside of it is 0.

    Args:
        inp: ``(N, C, H, W)``, of a float dtype.
        rois: ``(K, 5)``: the number of an image in ``inp``, then x1, y1, x2, y2. Gets no gradient.
            A box with a coordinate that is NaN gives NaN.
        output_shape: bins, one number or (height, width).
        mode: "max" or "average". In a maximum, NaN wins.
        scale: what coordinates are multiplied by.

    Returns:
        ``(K, C, *output_shape)``, in the dtype that ``inp`` and ``rois`` promote to.

    Raises:
        IndexError: if a box names an image that is not there.
        ValueError: if shapes do not fit, or ``mode`` is another one.

    >>> x = F.arange(16).reshape(1, 1, 4, 4)
    >>> roi_pooling(x, Tensor([[0, 0, 0, 3.0, 3.0]]), 2)
    Tensor([[[[ 5.  7.]
       [13. 15.]]]], device=xpux:0)
    """
    inp, rois = _image_and_rois("roi_pooling", inp, rois)
    height, width = _pair("roi_pooling", "output_shape", output_shape)
    op = _make(
        "ROIPooling",
        mode=_mode("roi_pooling", mode),
        scale=float(scale),
        pooled_height=height,
        pooled_width=width,
    )
    return apply(op, inp, rois)[0]


@named
def nms(boxes: Tensor, scores: Tensor, iou_thresh: float, max_output: int | None = None) -> Tensor:
    """Non-maximum suppression: drops boxes that overlap a better one.

    Boxes are taken in the order of their scores, the best first; of equal scores the first box
    counts as the better one, and a score that is NaN as the best. A box is kept unless its
    intersection over union with one that is kept already is above ``iou_thresh``. Boxes without
    area, and boxes with a coordinate that is NaN, overlap nothing.

    Args:
        boxes: ``(N, 4)``: x1, y1, x2, y2.
        scores: ``(N,)``.
        iou_thresh: the largest overlap that is left.
        max_output: the most boxes to keep; all without.

    Returns:
        The numbers of the boxes that are kept, the best first: ``(M,)`` of int32.

    Raises:
        ValueError: if the shapes do not fit.

    >>> boxes = Tensor([[0, 0, 2, 2.0], [0, 0, 2, 1.9], [5, 5, 6, 6.0]])
    >>> nms(boxes, Tensor([0.5, 0.9, 0.1]), 0.5)
    Tensor([1 2], dtype=int32, device=xpux:0)
    """
    boxes, scores = _as_float("nms", "boxes", boxes), _as_tensor(scores)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"nms: expected boxes of (N, 4), got shape {boxes.shape}")
    n = boxes.shape[0]
    if scores.shape != (n,):
        raise ValueError(f"nms: expected scores of ({n},), got shape {scores.shape}")
    most = n if max_output is None else _integer("nms", "max_output", max_output)
    if most < 0:
        raise ValueError(f"nms: expected max_output to be at least 0, got {max_output}")
    op = _make(
        "NMSKeep", iou_thresh=_number("nms", "iou_thresh", iou_thresh), max_output=min(n, most)
    )
    order = argsort(scores, descending=True)
    kept, count = apply(op, boxes[order].reshape(1, n, 4))
    if is_tracing():
        # An op of the record, which a number that Python reads would not be.
        kept_alone, _ = cond_take(arange(kept.shape[1], dtype="int32") < count, kept[0])
        return order[kept_alone]
    return order[kept[0, : int(count)]]


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _number(op: str, name: str, value: Any) -> float:
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{op}: expected {name} to be a number, got {value!r}")
    return number


@named
def correlation(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    pad_size: int = 0,
    is_multiply: bool = True,
) -> Tensor:
    """Compares windows of an image with those of another at other places (FlowNet, 2015).

    The correlation layer of Dosovitskiy et al. Both images get ``pad_size`` zeros on each side.
    With ``r = max_displacement // stride2`` and ``D = 2 r + 1``, channel ``(i + r) D + (j + r)`` of
    the output compares each window of the first image with that of the second which is
    ``i * stride2`` rows and ``j * stride2`` columns away: the mean over window and channels of the
    product, or of the absolute difference.

    Args:
        data1: ``(N, C, H, W)``, of a float dtype.
        data2: of the same shape.
        kernel_size: height and width of a window, odd.
        max_displacement: how far windows are moved at most.
        stride1: step between windows of the first image.
        stride2: step between displacements.
        pad_size: zeros on each side of both images.
        is_multiply: products; else absolute differences, whose gradient is not differentiable.

    Returns:
        ``(N, D * D, H', W')``, ``H' = ceil((H + 2 pad_size - 2 border) / stride1)`` with
        ``border = max_displacement + kernel_size // 2``.

    Raises:
        ValueError: if shapes differ, no window fits, a stride is below 1 or ``kernel_size`` even.

    >>> x = F.arange(9).reshape(1, 1, 3, 3)
    >>> correlation(x, x, max_displacement=1).reshape(3, 3)
    Tensor([[ 0.  4.  8.]
     [12. 16. 20.]
     [24. 28. 32.]], device=xpux:0)
    """
    data1, data2 = (_as_float("correlation", "data", v) for v in (data1, data2))
    if data1.dtype != data2.dtype:
        dtype = result_type(data1, data2)
        data1, data2 = data1.astype(dtype), data2.astype(dtype)
    sizes = {
        "kernel_size": kernel_size,
        "max_displacement": max_displacement,
        "stride1": stride1,
        "stride2": stride2,
        "pad_size": pad_size,
    }
    fields = {k: _integer("correlation", k, v) for k, v in sizes.items()}
    return _call(_make("Correlation", is_multiply=bool(is_multiply), **fields), data1, data2)


@named
def deformable_conv2d(
    inp: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """Deformable convolution, version 2: taps are moved and scaled at every output position.

    Of Zhu et al., "Deformable ConvNets v2", 2018. Tap ``k`` of the ``kh kw`` taps reads the input
    at its usual place plus ``offset[:, 2 k : 2 k + 2]`` rows and columns, by bilinear interpolation
    with zeros around the input, and is multiplied by ``mask[:, k]``. The channels of ``inp`` may
    fall into ``d`` parts, each with offsets and masks of its own, one part after another. Not
    differentiable twice.

    Args:
        inp: ``(N, in, H, W)``, of a float dtype.
        weight: ``(out, in, kh, kw)``, in groups ``(groups, out / groups, in / groups, kh, kw)``.
        offset: ``(N, 2 d kh kw, Ho, Wo)``.
        mask: ``(N, d kh kw, Ho, Wo)``.
        bias: ``(1, out, 1, 1)`` or ``(out,)``.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernel; offsets and
            masks stay those of the positions of its taps.
        compute_mode: "default" or "float32". 16-bit floats accumulate in float32 either way.

    Returns:
        ``(N, out, Ho, Wo)``, ``Ho = (H + 2 padding - dilation (kh - 1) - 1) // stride + 1``. Lies
        channels-last in memory.

    Raises:
        ValueError: if the shapes do not fit.

    >>> x, w = F.arange(9).reshape(1, 1, 3, 3), F.ones((1, 1, 1, 1))
    >>> down = Tensor([0.5, 0.0]).reshape(1, 2, 1, 1) * F.ones((1, 2, 3, 3))
    >>> deformable_conv2d(x, w, down, F.ones((1, 1, 3, 3))).reshape(3, 3)
    Tensor([[1.5 2.5 3.5]
     [4.5 5.5 6.5]
     [3.  3.5 4. ]], device=xpux:0)
    """
    name = "deformable_conv2d"
    operands = [inp, weight, offset, mask]
    operands = [v if isinstance(v, Tensor) else Tensor(v) for v in operands]
    dtype = result_type(*operands)
    operands = [v if v.dtype == dtype else v.astype(dtype) for v in operands]
    groups = _integer(name, "groups", groups)
    check_convolution(name, operands[1], groups, 2, compute_mode)
    if check_conv_mode(name, conv_mode) == "CONVOLUTION":
        operands[1] = operands[1][..., ::-1, ::-1]
    fields = {
        f"{key}_{axis}": size
        for key, value in (("stride", stride), ("pad", padding), ("dilate", dilation))
        for axis, size in zip("hw", _pair(name, key, value), strict=True)
    }
    out: Tensor = _call(
        _make("DeformableConv", sparse="GROUP" if groups != 1 else "DENSE", **fields), *operands
    )
    if bias is None:
        return out
    bias = _as_tensor(bias)
    if bias.shape not in ((out.shape[1],), (1, out.shape[1], 1, 1)):
        raise ValueError(f"{name}: expected a bias of (1, {out.shape[1]}, 1, 1), got {bias.shape}")
    return out + bias.reshape(1, -1, 1, 1).astype(out.dtype)


@named
def deformable_psroi_pooling(
    inp: Tensor,
    rois: Tensor,
    trans: Tensor,
    no_trans: bool,
    part_size: int,
    pooled_h: int,
    pooled_w: int,
    sample_per_part: int,
    spatial_scale: float,
    trans_std: float = 0.1,
) -> Tensor:
    """Pools boxes whose bins are moved: deformable RoI pooling (Dai et al., 2017).

    A box reaches from ``round(x1) * spatial_scale - 0.5`` to
    ``(round(x2) + 1) * spatial_scale - 0.5`` and is at least 0.1 large. Bin ``(i, j)`` is moved to
    the right by ``trans[k, 0, i', j'] * trans_std`` widths and down by ``trans[k, 1, i', j'] *
    trans_std`` heights of the box, where ``i' = i * h // pooled_h`` for a ``trans`` of ``h`` rows.
    It is the mean of ``sample_per_part ** 2`` points, of which those outside of the image do not
    count; 0 where there is none. Not differentiable twice.

    Args:
        inp: ``(N, C, H, W)``, of a float dtype.
        rois: ``(K, 5)``: the number of an image in ``inp``, then x1, y1, x2, y2. Gets no gradient.
        trans: ``(K, 2, part_size, part_size)`` or ``(K, 2, pooled_h, pooled_w)``; anything with
            ``no_trans``.
        no_trans: leave the bins where they are.
        part_size: see ``trans``.
        pooled_h: rows of bins.
        pooled_w: columns of bins.
        sample_per_part: points of a bin along each axis, 1 to 1024.
        spatial_scale: what coordinates are multiplied by.
        trans_std: what ``trans`` is multiplied by.

    Returns:
        ``(K, C, pooled_h, pooled_w)``, in the dtype that all three operands promote to.

    Raises:
        IndexError: if a box names an image that is not there.
        ValueError: if shapes do not fit.

    >>> x = F.arange(16).reshape(1, 1, 4, 4)
    >>> rois, trans = Tensor([[0, 0, 0, 3.0, 3.0]]), F.zeros((1, 2, 2, 2))
    >>> deformable_psroi_pooling(x, rois, trans, True, 1, 2, 2, 2, 1.0)
    Tensor([[[[ 1.25  3.  ]
       [ 8.25 10.  ]]]], device=xpux:0)
    """
    name = "deformable_psroi_pooling"
    inp, rois = _image_and_rois(name, inp, rois)
    trans = _as_float(name, "trans", trans)
    dtype = result_type(inp, trans)
    op = _make(
        "DeformablePSROIPooling",
        no_trans=bool(no_trans),
        spatial_scale=float(spatial_scale),
        trans_std=float(trans_std),
        pooled_h=_integer(name, "pooled_h", pooled_h),
        pooled_w=_integer(name, "pooled_w", pooled_w),
        part_size=_integer(name, "part_size", part_size),
        sample_per_part=_integer(name, "sample_per_part", sample_per_part),
    )
    return _call(op, inp if inp.dtype == dtype else inp.astype(dtype), rois, trans)
