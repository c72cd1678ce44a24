"""Reading images at given positions: remap and the warps."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Call
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
