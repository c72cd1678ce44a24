"""Pooling."""

from __future__ import annotations

from ..builder import Builder, Call
from ..plan import Node, Plan
from ..registry import RefusedError, exports

AVERAGES = ("AVERAGE", "AVERAGE_COUNT_EXCLUDE_PADDING")


@exports("Pooling")
def pooling(g: Builder, call: Call) -> str:
    """MaxPool and AveragePool."""
    mode = str(call["mode"])
    if any(call.used[1:]):
        raise RefusedError("only the maxima can be exported, not where they are")
    x = call.inputs[0]
    pads = [call["pad_h"], call["pad_w"]] * 2
    attributes = {
        "kernel_shape": [call["window_h"], call["window_w"]],
        "strides": [call["stride_h"], call["stride_w"]],
        "pads": pads,
    }
    if mode == "MAX":
        return g.emit("MaxPool", x, **attributes)
    name = g.cast(x, call.dtype)
    return g.emit("AveragePool", name, count_include_pad=int(mode == "AVERAGE"), **attributes)


def _is_global(node: Node, plan: Plan) -> bool:
    return list(node.fields["shape"]) == [1, 1]


@exports("AdaptivePooling", when=_is_global)
def global_pooling(g: Builder, call: Call) -> str:
    """To one pixel, whatever the size of the image; other sizes are plain pooling."""
    if any(call.used[1:]):
        raise RefusedError("only the maxima can be exported, not where they are")
    mode = "GlobalMaxPool" if str(call["mode"]) == "MAX" else "GlobalAveragePool"
    return g.emit(mode, g.cast(call.inputs[0], call.dtype))
