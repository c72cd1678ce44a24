"""Resizing of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core import apply
from ....core.ops import builtin
from ....tensor import Tensor
from ..builder import Arg, Builder, Call, is_float
from ..registry import exports
from ..sizes import AnySize, Size, static

MODES = {"NEAREST": "nearest", "LINEAR": "linear", "CUBIC": "cubic"}


@exports("Interpolate")
def interpolate(g: Builder, call: Call) -> str:
    """Resize; filters that it lacks are a product with a matrix for each axis."""
    x, mode = call.inputs[0], str(call["mode"])
    if mode not in MODES or not is_float(x.dtype):
        return _by_matrices(g, call, x, mode)
    aligned = call["align_corners"]
    attributes: dict[str, Any] = {"mode": MODES[mode]}
    if aligned:
        attributes["coordinate_transformation_mode"] = "align_corners"
    elif mode == "NEAREST":
        attributes["coordinate_transformation_mode"] = "asymmetric"
    else:
        attributes["coordinate_transformation_mode"] = "half_pixel"
    if mode == "NEAREST":
        attributes["nearest_mode"] = "round_prefer_ceil" if aligned else "floor"
    if mode == "CUBIC":
        attributes["cubic_coeff_a"] = -0.75
    scales = [_scale(a, b) for a, b in zip(x.shape, call.shape, strict=True)]
    if not aligned and all(s is not None for s in scales):
        return g.emit("Resize", x, "", g.constant(np.array(scales, "float32")), **attributes)
    return g.emit("Resize", x, "", "", g.sizes(call.shape), **attributes)


def _scale(before: AnySize, after: AnySize) -> int | None:
    """By what whole number an axis grows, at all sizes."""
    if before == after:
        return 1
    a = before.samples if isinstance(before, Size) else (before,)
    b = after.samples if isinstance(after, Size) else (after,)
    if len(a) != len(b) or any(n <= 0 or m % n for n, m in zip(a, b, strict=True)):
        return None
    ratios = {m // n for n, m in zip(a, b, strict=True)}
    return ratios.pop() if len(ratios) == 1 else None


def _by_matrices(g: Builder, call: Call, x: Arg, mode: str) -> str:
    dtype = x.dtype if is_float(x.dtype) else np.dtype("float32")
    name = g.cast(x, dtype)
    before, after = static(x.shape[2:]), static(call.shape[2:])
    for i, (n, m) in enumerate(zip(before, after, strict=True)):
        if n == m:
            continue
        # Column j of the matrix is what comes of pixel j.
        op = builtin.Interpolate(size=(m,), mode=mode, align_corners=call["align_corners"])
        (rows,) = apply(op, Tensor(np.eye(n, dtype="float32")[None]))
        matrix = g.constant(rows.numpy()[0].astype(dtype))  # (n, m)
        axis = 2 + i
        order = [a for a in range(x.ndim) if a != axis]
        moved = g.emit("MatMul", g.transpose(name, [*order, axis]), matrix)
        back = list(range(x.ndim - 1))
        back.insert(axis, x.ndim - 1)
        name = g.transpose(moved, back)
    if dtype == x.dtype:
        return name
    half = g.emit("Floor", g.emit("Add", name, g.scalar(0.5, dtype)))
    low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    return g.cast(g.emit("Clip", half, g.scalar(low, dtype), g.scalar(high, dtype)), x.dtype)
