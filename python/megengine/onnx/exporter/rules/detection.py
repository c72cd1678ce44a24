"""Boxes."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Call
from ..registry import RefusedError, exports


@exports("ROIAlign")
def roi_align(g: Builder, call: Call) -> str:
    """RoiAlign of the image with a border of zeros.

    ONNX repeats the pixels at the border for half a pixel, where ours fade to the zeros around.
    """
    if str(call["mode"]) != "AVERAGE":
        raise RefusedError(
            "ONNX's maximum is that of weighted pixels, not of points between them: use 'average'"
        )
    if call["sample_height"] != call["sample_width"]:
        raise RefusedError("ONNX has one number of points for both axes of a bin")
    x, rois = call.inputs
    zero = g.scalar(0, x.dtype)
    padded = g.emit("Pad", x, g.ints([0, 0, 1, 1, 0, 0, 1, 1]), zero, mode="constant")
    boxes = g.slice(rois, [1], [1], [5])
    if call["spatial_scale"] != 1:
        boxes = g.emit("Mul", boxes, g.scalar(call["spatial_scale"], rois.dtype))
    # Corners in the wrong order make a box without size here, and a negative one in ONNX.
    low = g.slice(boxes, [1], [0], [2])
    high = g.emit("Max", low, g.slice(boxes, [1], [2], [4]))
    boxes = g.emit("Concat", low, high, axis=1)
    # half_pixel takes half a pixel off; the border adds one.
    boxes = g.emit("Add", boxes, g.scalar(1.5 - call["offset"], rois.dtype))
    image = g.emit("Gather", rois, g.scalar(0, "int64"), axis=1)
    return g.emit(
        "RoiAlign",
        padded,
        g.cast(boxes, x.dtype, given=rois.dtype),
        g.cast(image, "int64", given=rois.dtype),
        mode="avg",
        output_height=call["pooled_height"],
        output_width=call["pooled_width"],
        sampling_ratio=call["sample_height"],
        spatial_scale=1.0,
        coordinate_transformation_mode="half_pixel",
    )


@exports("ROIPooling")
def roi_pooling(g: Builder, call: Call) -> str:
    """MaxRoiPool."""
    if str(call["mode"]) != "MAX":
        raise RefusedError("ONNX pools boxes by their maxima alone: use 'max'")
    if any(call.used[1:]):
        raise RefusedError("only the maxima can be exported, not where they are")
    x, rois = call.inputs
    return g.emit(
        "MaxRoiPool",
        x,
        g.cast(rois, x.dtype),
        pooled_shape=[call["pooled_height"], call["pooled_width"]],
        spatial_scale=float(call["scale"]),
    )


@exports("NMSKeep")
def nms_keep(g: Builder, call: Call) -> list[str]:
    """NonMaxSuppression of boxes whose scores fall along the row."""
    boxes = call.inputs[0]
    groups, count, _ = boxes.shape
    if groups != 1:
        raise RefusedError("only one group of boxes can be exported; call nms for each")
    most = call["max_output"]
    if isinstance(count, int):
        scores = g.constant(np.arange(count, 0, -1, dtype="float32").reshape(1, 1, count))
    else:
        end = g.squeeze(g.size(count), [0])
        numbers = g.emit("Range", g.scalar(0, "int64"), end, g.scalar(1, "int64"))
        falling = g.emit("Neg", g.cast(numbers, "float32", given="int64"))
        scores = g.unsqueeze(falling, [0, 1])
    # Corners in the wrong order make a box without area here, and their rectangle in ONNX.
    corners = g.cast(boxes, "float32")
    low = g.slice(corners, [2], [0], [2])
    high = g.emit("Max", low, g.slice(corners, [2], [2], [4]))
    found = g.emit(
        "NonMaxSuppression",
        g.emit("Concat", low, high, axis=2),
        scores,
        g.size(most),
        g.constant(np.array([call["iou_thresh"]], "float32")),
    )
    kept = g.emit("Gather", found, g.scalar(2, "int64"), axis=1)
    number = g.emit("Shape", kept)
    # The last one again, to the end of the row.
    last = g.slice(kept, [0], [-1], [int(np.iinfo("int64").max)])
    row = g.emit("Concat", kept, g.expand(last, (most,)), axis=0)
    row = g.slice(row, [0], [0], [most])
    return [
        g.cast(g.unsqueeze(row, [0]), "int32", given="int64"),
        g.cast(number, "int32", given="int64"),
    ]


@exports("Correlation")
def correlation(g: Builder, call: Call) -> str:
    """For each displacement, the mean over windows and channels of the product or difference."""
    a, b = call.inputs
    pad, kernel, reach = (int(call[f]) for f in ("pad_size", "kernel_size", "max_displacement"))
    stride, step = int(call["stride1"]), int(call["stride2"])
    first = reach  # where windows of the first image begin, whose centres are kernel // 2 further
    sizes = [(n - 1) * stride + kernel for n in call.shape[2:]]
    if pad:
        widths = g.ints([0, 0, pad, pad, 0, 0, pad, pad])
        zero = g.scalar(0, a.dtype)
        left, right = (g.emit("Pad", x, widths, zero, mode="constant") for x in (a, b))
    else:
        left, right = a.name, b.name

    def part(x: str, y0: int, x0: int) -> str:
        return g.slice(x, [2, 3], [y0, x0], [y0 + sizes[0], x0 + sizes[1]])

    still = part(left, first, first)
    radius = reach // step
    channels = []
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            moved = part(right, first + dy * step, first + dx * step)
            if call["is_multiply"]:
                both = g.emit("Mul", still, moved)
            else:
                both = g.emit("Abs", g.emit("Sub", still, moved))
            mean = g.reduce("ReduceMean", both, [1], True)
            if kernel > 1 or stride > 1:
                window = [kernel, kernel]
                mean = g.emit("AveragePool", mean, kernel_shape=window, strides=[stride, stride])
            channels.append(mean)
    return g.emit("Concat", *channels, axis=1) if len(channels) > 1 else channels[0]
