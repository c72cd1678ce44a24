"""Regions of interest, suppression of boxes, correlation, deformable convolution and pooling.

The references go point by point through NumPy, in the order of the definitions: no tables, no
merging of what points share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import megengine.functional as F
from tests.ops.record import Array, Record

# A weighted mean of a few dozen float32 numbers, at places that were rounded once.
MEAN = {"float32": (1e-5, 1e-5), "float64": (1e-11, 1e-11)}
# Sums of a few hundred products.
SUM = {"float32": (2e-5, 2e-5), "float64": (1e-11, 1e-11)}


def bilinear(image: Array, y: float, x: float) -> Array:
    """The channels of `image` (C, H, W) at a place, with zeros outside."""
    if np.isnan(y) or np.isnan(x):
        return np.full(image.shape[0], np.nan)
    out = np.zeros(image.shape[0])
    top, left = int(np.floor(y)), int(np.floor(x))
    for row, a in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, b in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                out += a * b * image[:, row, column]
    return out


def half_away(v: Array) -> Array:
    return np.copysign(np.floor(np.abs(v) + 0.5), v)


def check_images(x: Array, rois: Array) -> None:
    """As the functions do: a box names an image."""
    if np.any((rois[:, 0] < 0) | (rois[:, 0] >= x.shape[0])):
        raise IndexError("no such image")


# ---- RoI align ---------------------------------------------------------------------------------


def roi_align_ref(
    out: tuple[int, int],
    mode: str = "average",
    scale: float = 1.0,
    samples: tuple[int, int] = (2, 2),
    aligned: bool = True,
) -> Any:
    """A reference for these parameters."""

    def ref(x: Array, rois: Array) -> Array:
        check_images(x, rois)
        y = np.zeros((len(rois), x.shape[1], *out))
        for k, (image, *box) in enumerate(rois):
            x1, y1, x2, y2 = np.array(box) * scale - (0.5 if aligned else 0.0)
            bins = np.array([max(y2 - y1, 0) / out[0], max(x2 - x1, 0) / out[1]])
            points = [n or int(np.ceil(b)) for n, b in zip(samples, bins, strict=True)]
            for i, j in np.ndindex(*out):
                values = [
                    bilinear(
                        x[int(image)],
                        y1 + bins[0] * (i + (a + 0.5) / points[0]),
                        x1 + bins[1] * (j + (b + 0.5) / points[1]),
                    )
                    for a, b in np.ndindex(*points)
                ]
                if values:
                    y[k, :, i, j] = np.mean(values, 0) if mode == "average" else np.max(values, 0)
        return y

    return ref


def boxes(rng: np.random.Generator, count: int, images: int, h: int, w: int) -> Array:
    """Boxes (count, 5) of which some reach out of the image."""
    first = rng.random((count, 2)) * [w, h] * 0.7 - 1
    size = rng.random((count, 2)) * [w, h] * 0.7 + 0.3
    image = rng.integers(0, images, (count, 1))
    return np.round(np.concatenate([image, first, first + size], 1) * 64) / 64


def on_image(channels: int, count: int = 5, h: int = 9, w: int = 11, images: int = 2) -> Any:
    """A generator of (image, boxes)."""
    return lambda rng: [
        rng.standard_normal((images, channels, h, w)),
        boxes(rng, count, images, h, w),
    ]


def empty_rois() -> list[list[Array]]:
    """Images and boxes without elements."""
    return [
        [np.ones((2, 3, 4, 4)), np.zeros((0, 5))],
        [np.zeros((2, 0, 4, 4)), np.zeros((3, 5))],
        [np.zeros((2, 3, 0, 4)), np.zeros((3, 5))],
        [np.zeros((0, 3, 4, 4)), np.zeros((3, 5))],
        [np.zeros((0, 3, 4, 4)), np.zeros((0, 5))],
    ]


def roi_align_records() -> list[Record]:
    variants: list[tuple[str, int, dict[str, Any]]] = [
        ("average", 3, {}),
        ("average-many-channels", 150, {"samples": (3, 2), "scale": 0.75}),
        ("average-dense", 19, {"samples": (0, 0)}),
        ("average-unaligned", 2, {"samples": (1, 0), "aligned": False, "scale": 1.5}),
        ("max", 3, {"mode": "max"}),
        ("max-many-channels", 150, {"mode": "max", "samples": (3, 2), "aligned": False}),
        ("max-dense", 19, {"mode": "max", "samples": (0, 0)}),
    ]
    out = []
    for name, channels, kw in variants:
        ours = {
            "mode": kw.get("mode", "average"),
            "spatial_scale": kw.get("scale", 1.0),
            "sample_points": kw.get("samples", (2, 2)),
            "aligned": kw.get("aligned", True),
        }
        max_ops = ("ROIAlignPick",) if ours["mode"] == "max" else ()
        out.append(
            Record(
                f"roi_align-{name}",
                fn=lambda x, rois, ours=ours: F.vision.roi_align(x, rois, (3, 2), **ours),
                ref=roi_align_ref((3, 2), **kw),
                inputs=on_image(channels),
                ops=("ROIAlign", "ROIAlignBackward", *max_ops),
                tol=MEAN,
                grad=(0,),
                empty=empty_rois,
                large=on_image(64, 40, 40, 30),
            )
        )
    return out


# ---- RoI pooling -------------------------------------------------------------------------------


def roi_pooling_ref(out: tuple[int, int], mode: str, scale: float) -> Any:
    """A reference for these parameters."""

    def span(start: float, length: float, i: int, bins: int, size: int) -> slice:
        first, last = np.floor(i * length / bins), np.ceil((i + 1) * length / bins)
        return slice(int(np.clip(start + first, 0, size)), int(np.clip(start + last, 0, size)))

    def ref(x: Array, rois: Array) -> Array:
        check_images(x, rois)
        y = np.zeros((len(rois), x.shape[1], *out))
        for k, (image, *box) in enumerate(rois):
            x1, y1, x2, y2 = half_away(np.array(box) * scale)
            for i, j in np.ndindex(*out):
                rows = span(y1, max(y2 - y1 + 1, 1), i, out[0], x.shape[2])
                columns = span(x1, max(x2 - x1 + 1, 1), j, out[1], x.shape[3])
                part = x[int(image)][:, rows, columns]
                if part.size:
                    y[k, :, i, j] = part.mean((1, 2)) if mode == "average" else part.max((1, 2))
        return y

    return ref


def roi_pooling_records() -> list[Record]:
    return [
        Record(
            f"roi_pooling-{mode}-{channels}",
            fn=lambda x, rois, m=mode, s=scale: F.vision.roi_pooling(x, rois, (3, 2), m, s),
            ref=roi_pooling_ref((3, 2), mode, scale),
            inputs=on_image(channels),
            ops=("ROIPooling", "ROIPoolingBackward", *pick),
            tol=MEAN,
            grad=(0,),
            empty=empty_rois,
            large=on_image(64, 40, 40, 30),
        )
        for mode, pick in (("max", ("ROIPoolingPick",)), ("average", ()))
        for channels, scale in ((3, 1.0), (100, 0.75))
    ]


# ---- suppression -------------------------------------------------------------------------------


def nms_ref(threshold: float, most: int | None = None) -> Any:
    """A reference for this threshold."""

    def ref(boxes: Array, scores: Array) -> Array:
        kept: list[int] = []
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for i in np.argsort(-scores, kind="stable"):
            first = np.maximum(boxes[kept, :2], boxes[i, :2])
            size = np.maximum(np.minimum(boxes[kept, 2:], boxes[i, 2:]) - first, 0)
            inner = size[:, 0] * size[:, 1]
            if not np.any(inner / (area[kept] + area[i] - inner) > threshold):
                kept.append(int(i))
        return np.array(kept[:most], np.int64)

    return ref


def rectangles(count: int, spread: float = 20.0) -> Any:
    """A generator of (boxes, scores) on a grid that every float type has."""

    def inputs(rng: np.random.Generator) -> list[Array]:
        first = np.round(rng.random((count, 2)) * spread)
        size = np.round(1 + rng.random((count, 2)) * 10)
        return [np.concatenate([first, first + size], 1), rng.permutation(count) / 256.0]

    return inputs


def nms_records() -> list[Record]:
    return [
        Record(
            f"nms-{name}",
            fn=lambda b, s, t=threshold, m=most: F.vision.nms(b, s, t, m),
            ref=nms_ref(threshold, most),
            inputs=rectangles(count, spread),
            ops=("NMSKeep", "Argsort"),
            out_dtype=dict.fromkeys(("float32", "float64", "float16", "bfloat16"), "int32"),
            order=0,
            large=rectangles(2000, 400.0),
        )
        for name, count, spread, threshold, most in (
            ("some", 60, 20.0, 0.31, None),
            ("pieces", 256, 60.0, 0.23, None),
            ("most", 60, 20.0, 0.31, 7),
            ("none", 60, 20.0, 0.0, None),
        )
    ]


# ---- correlation -------------------------------------------------------------------------------


def correlation_ref(k: int, far: int, s1: int, s2: int, pad: int, multiply: bool) -> Any:
    """A reference for these parameters."""

    def ref(a: Array, b: Array) -> Array:
        a, b = (np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for v in (a, b))
        border = far + k // 2
        h, w = (-(-(size - 2 * border) // s1) for size in a.shape[2:])
        if h < 1 or w < 1:
            raise ValueError("no window")
        reach = far // s2
        moves = [
            (y * s2, x * s2) for y in range(-reach, reach + 1) for x in range(-reach, reach + 1)
        ]
        out = np.zeros((len(a), len(moves), h, w))
        for d, (dy, dx) in enumerate(moves):
            for i, j in np.ndindex(h, w):
                y, x = i * s1 + far, j * s1 + far
                p = a[:, :, y : y + k, x : x + k]
                q = b[:, :, y + dy : y + dy + k, x + dx : x + dx + k]
                value = p * q if multiply else np.abs(p - q)
                out[:, d, i, j] = value.sum((1, 2, 3)) / (k * k * max(a.shape[1], 1))
        return out

    return ref


def pair(*shape: int) -> Any:
    """A generator of two images that agree nowhere, and nowhere with the zeros around them."""

    def inputs(rng: np.random.Generator) -> list[Array]:
        a, b = (np.round(rng.standard_normal(shape) * 64) / 64 for _ in range(2))
        return [a + 1 / 256, b + 3 / 256]

    return inputs


def correlation_records() -> list[Record]:
    return [
        Record(
            f"correlation-{'-'.join(str(v) for v in args)}-{'product' if m else 'difference'}",
            fn=lambda a, b, args=args, m=m: F.vision.correlation(a, b, *args, is_multiply=m),
            ref=correlation_ref(*args, m),
            inputs=pair(2, channels, 7, 8),
            ops=("Correlation", "CorrelationBackward"),
            tol=SUM,
            order=2 if m else 1,
            empty=lambda: [[np.zeros((0, 3, 9, 9))] * 2],
            large=pair(2, 64, 30, 32),
        )
        for args, channels in (
            ((1, 2, 1, 1, 2), 5),
            ((3, 2, 2, 2, 3), 70),
            ((3, 1, 1, 1, 0), 2),
            ((1, 4, 1, 1, 4), 19),
        )
        for m in (True, False)
    ]


# ---- deformable convolution --------------------------------------------------------------------


def deformable_conv_ref(
    stride: tuple[int, int], pad: tuple[int, int], dilate: tuple[int, int], groups: int
) -> Any:
    """A reference for these parameters."""

    def ref(x: Array, weight: Array, offset: Array, mask: Array, bias: Array) -> Array:
        weights = weight if weight.ndim == 5 else weight[None]
        _, outs, ins, kh, kw = weights.shape
        _, channels, h, w = mask.shape
        parts = channels // (kh * kw)
        width = x.shape[1] // parts
        y = np.zeros((len(x), groups * outs, h, w))
        for n, i, j in np.ndindex(len(x), h, w):
            read = np.zeros((x.shape[1], kh, kw))
            for part, a, b in np.ndindex(parts, kh, kw):
                k = (part * kh + a) * kw + b
                place = (
                    i * stride[0] - pad[0] + a * dilate[0] + offset[n, 2 * k, i, j],
                    j * stride[1] - pad[1] + b * dilate[1] + offset[n, 2 * k + 1, i, j],
                )
                mine = slice(part * width, (part + 1) * width)
                read[mine, a, b] = bilinear(x[n, mine], *place) * mask[n, k, i, j]
            for g in range(groups):
                part_read = read[g * ins : (g + 1) * ins]
                y[n, g * outs : (g + 1) * outs, i, j] = np.tensordot(weights[g], part_read, 3)
        return y + bias.reshape(1, -1, 1, 1)

    return ref


def deformable_inputs(
    channels: int,
    outs: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilate: tuple[int, int],
    groups: int,
    parts: int,
    images: int = 2,
) -> Any:
    """A generator of the operands; places keep away from whole numbers."""

    def inputs(rng: np.random.Generator) -> list[Array]:
        h, w = (
            (size[i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1) // stride[i] + 1
            for i in (0, 1)
        )
        taps = parts * kernel[0] * kernel[1]
        shape = (outs, channels, *kernel)
        if groups > 1:
            shape = (groups, outs // groups, channels // groups, *kernel)
        whole = rng.integers(-2, 3, (images, 2 * taps, h, w))
        return [
            rng.standard_normal((images, channels, *size)),
            rng.standard_normal(shape),
            whole + 0.125 + 0.75 * np.round(rng.random(whole.shape) * 16) / 16,
            rng.random((images, taps, h, w)),
            rng.standard_normal((1, outs, 1, 1)),
        ]

    return inputs


def deformable_conv_records() -> list[Record]:
    one, two = (1, 1), (2, 2)
    variants = {
        "plain": (3, 4, (5, 6), (3, 3), one, one, one, 1, 1),
        "stride": (4, 3, (7, 5), (3, 2), (1, 2), (1, 0), one, 1, 2),
        "groups": (4, 6, (6, 6), (2, 3), one, one, (2, 1), 2, 1),
        "parts-and-groups": (70, 4, (5, 5), (2, 2), two, one, one, 2, 7),
        "many-channels": (80, 5, (4, 4), (1, 2), one, one, one, 1, 1),
    }
    return [
        Record(
            f"deformable_conv2d-{name}",
            fn=lambda x, w, o, m, b, s=v[4], p=v[5], d=v[6], g=v[7]: F.deformable_conv2d(
                x, w, o, m, b, s, p, d, g
            ),
            ref=deformable_conv_ref(*v[4:8]),
            inputs=deformable_inputs(*v),
            ops=("DeformableConv", "DeformableConvBackward"),
            tol={**SUM, "float16": (2e-3, 8e-3), "bfloat16": (2e-2, 6e-2)},
            order=1,
            grad_tol=(2e-6, 1e-6),
            empty=lambda v=v: [deformable_inputs(*v, images=0)(np.random.default_rng(0))],
            large=deformable_inputs(64, 32, (24, 24), v[3], v[4], v[5], v[6], v[7], 2),
            exact_threads=False,
        )
        for name, v in variants.items()
    ]


# ---- deformable pooling ------------------------------------------------------------------------


def psroi_ref(out: tuple[int, int], samples: int, scale: float, std: float, moved: bool) -> Any:
    """A reference for these parameters."""

    def ref(x: Array, rois: Array, trans: Array) -> Array:
        check_images(x, rois)
        y = np.zeros((len(rois), x.shape[1], *out))
        bottom, right = x.shape[2] - 1, x.shape[3] - 1
        for k, (image, *box) in enumerate(rois):
            x1, y1 = half_away(np.array(box[:2])) * scale - 0.5
            x2, y2 = (half_away(np.array(box[2:])) + 1) * scale - 0.5
            w, h = max(x2 - x1, 0.1), max(y2 - y1, 0.1)
            for i, j in np.ndindex(*out):
                dx = dy = 0.0
                if moved:
                    at = (i * trans.shape[2] // out[0], j * trans.shape[3] // out[1])
                    dx, dy = trans[k, 0][at] * std, trans[k, 1][at] * std
                values = []
                for a, b in np.ndindex(samples, samples):
                    py = y1 + h * (dy + (i + a / samples) / out[0])
                    px = x1 + w * (dx + (j + b / samples) / out[1])
                    if -0.5 <= py <= bottom + 0.5 and -0.5 <= px <= right + 0.5:
                        place = np.clip(py, 0, bottom), np.clip(px, 0, right)
                        values.append(bilinear(x[int(image)], *place))
                if values:
                    y[k, :, i, j] = np.mean(values, 0)
        return y

    return ref


def psroi_inputs(channels: int, part: tuple[int, int]) -> Any:
    """A generator of (image, boxes, moves)."""

    def inputs(rng: np.random.Generator) -> list[Array]:
        image, rois = on_image(channels, 4)(rng)
        return [image, rois, np.round(rng.standard_normal((4, 2, *part)) * 64) / 64 + 0.0042]

    return inputs


def psroi_records() -> list[Record]:
    return [
        Record(
            f"deformable_psroi_pooling-{name}",
            fn=lambda x, r, t, moved=moved, part=part: F.deformable_psroi_pooling(
                x, r, t, not moved, part[0], 3, 2, 3, 0.87, 0.19
            ),
            ref=psroi_ref((3, 2), 3, 0.87, 0.19, moved),
            inputs=psroi_inputs(channels, part),
            ops=("DeformablePSROIPooling", "DeformablePSROIPoolingBackward"),
            # A 16-bit move is rounded before it is used; so it is for the reference.
            tol=MEAN,
            order=1,
            grad=(0, 2) if moved else (0,),
            grad_tol=(2e-6, 1e-6),
            empty=lambda: [
                [np.ones((2, 3, 4, 4)), np.zeros((0, 5)), np.zeros((0, 2, 3, 2))],
                [np.zeros((2, 3, 0, 4)), np.zeros((3, 5)), np.zeros((3, 2, 3, 2))],
            ],
        )
        for name, channels, part, moved in (
            ("still", 5, (3, 2), False),
            ("moved", 5, (3, 2), True),
            ("parts", 70, (2, 2), True),
        )
    ]


RECORDS: list[Record] = [
    *roi_align_records(),
    *roi_pooling_records(),
    *nms_records(),
    *correlation_records(),
    *deformable_conv_records(),
    *psroi_records(),
]
