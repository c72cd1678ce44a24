"""Reading images at given positions (remap and the warps), and conversions of colours."""

from __future__ import annotations

import numpy as np

from ...._core import apply
from ....tensor import Tensor
from ..builder import Builder, Call, is_float
from ..registry import RefusedError, exports

BORDERS = {"REPLICATE": "border", "REFLECT_101": "reflection", "CONSTANT": "zeros"}
MODES = {"LINEAR": "linear", "NEAREST": "nearest", "CUBIC": "cubic"}
OLD_MODES = {"LINEAR": "bilinear", "NEAREST": "nearest", "CUBIC": "bicubic"}  # before opset 20


@exports("Sample")
def sample(g: Builder, call: Call) -> str:
    """GridSample, whose positions run from -1 to 1 between the centres of the border pixels."""
    mode, border = str(call["mode"]), str(call["border"])
    if mode not in MODES:
        raise RefusedError("ONNX samples images linearly, cubically or by the nearest pixel")
    if border not in BORDERS:
        raise RefusedError("ONNX has the borders REPLICATE, REFLECT_101 and CONSTANT")
    x, positions, *image = call.inputs
    if x.dtype != np.float32:
        raise RefusedError("runtimes sample images of float32 alone")
    name = x.name
    if image:
        name = g.emit("Gather", name, image[0], axis=0)
    around = call["border_value"] if border == "CONSTANT" else 0
    if around != 0:  # samples are linear in the image: without it, around are zeros
        name = g.emit("Sub", name, g.scalar(around, x.dtype))
    height, width = x.shape[2:]
    # 2 p / (n - 1) - 1; of one pixel, everything is at its centre or outside.
    last = g.cast(g.sizes([width, height]), x.dtype, given="int64")
    gaps = g.emit("Max", g.emit("Sub", last, g.scalar(1, x.dtype)), g.scalar(1, x.dtype))
    share = g.emit("Div", g.emit("Mul", positions, g.scalar(2, x.dtype)), gaps)
    grid = g.emit("Sub", share, g.scalar(1, x.dtype))
    names = MODES if g.opset >= 20 else OLD_MODES
    made = g.emit(
        "GridSample",
        name,
        grid,
        mode=names[mode],
        padding_mode=BORDERS[border],
        align_corners=1,
    )
    return g.emit("Add", made, g.scalar(around, x.dtype)) if around != 0 else made


# Conversions of each pixel on its own, which are affine.
PIXELWISE = {
    "RGB2GRAY": 3,
    "RGB2YUV": 3,
    "YUV2RGB": 3,
    "GRAY2RGB": 1,
    "RGBA2RGB": 4,
    "RGBA2BGR": 4,
    "RGBA2GRAY": 4,
    "RGB2BGR": 3,
    "BGR2GRAY": 3,
    "BGR2RGB": 3,
}


@exports("CvtColor")
def cvt_color(g: Builder, call: Call) -> str:
    """A product with a matrix along the channels, which are the last axis, and an offset."""
    x, mode = call.inputs[0], str(call["mode"])
    if mode not in PIXELWISE or not is_float(x.dtype):
        raise RefusedError(
            "colours are converted in ONNX for floats, and not from planes of Y, U and V: convert "
            "the image before the model"
        )
    # The images of no light and of one of each channel tell the matrix.
    channels = PIXELWISE[mode]
    images = np.concatenate([np.zeros((1, channels)), np.eye(channels)]).astype("float32")
    (made,) = apply(call.node.op, Tensor(images.reshape(1, 1, channels + 1, channels)))
    rows = made.numpy().reshape(channels + 1, -1)
    name = g.emit("MatMul", x, g.constant((rows[1:] - rows[0]).astype(x.dtype)))
    return g.emit("Add", name, g.constant(rows[0].astype(x.dtype))) if rows[0].any() else name
