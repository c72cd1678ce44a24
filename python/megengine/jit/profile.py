"""What :meth:`trace.get_profile` returns, from the times of single ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..device import get_default_device

Shape = tuple[int, ...]
# An op, its fields, its kind, (dtype, shape) of its inputs and its outputs, start and end in
# seconds, the thread, the bytes that tensors had afterwards, and the line that called it.
Sample = tuple[
    Any,
    dict[str, Any],
    str,
    list[tuple[np.dtype[Any], Shape]],
    list[tuple[np.dtype[Any], Shape]],
    float,
    float,
    int,
    int,
    str | None,
]


def _channels_out(weight: Shape, image: Shape) -> int:
    """Output channels of a weight: (o, i, *kernel), or in groups (g, o/g, i/g, *kernel)."""
    return weight[0] * weight[1] if len(weight) > len(image) else weight[0]


def _computation(kind: str, fields: dict[str, Any], ins: list[Shape], outs: list[Shape]) -> Any:
    """Multiplications and additions of an op; None where that is not known."""
    if kind == "Elemwise":
        return math.prod(outs[0])
    if kind == "Reduce":
        return math.prod(ins[0])
    if kind in ("MatrixMul", "BatchedMatrixMul"):
        inner = ins[0][-2] if fields["transposeA"] else ins[0][-1]
        return 2 * math.prod(outs[0]) * inner
    if kind == "Linear":
        return 2 * math.prod(outs[0]) * ins[0][-1]
    # Each element of the result side meets one filter: (input channels of the group, *kernel).
    if kind in ("Convolution", "Convolution3D", "ConvBias"):
        return 2 * math.prod(outs[0]) * math.prod(ins[1]) // _channels_out(ins[1], ins[0])
    if kind in ("ConvolutionBackwardData", "Convolution3DBackwardData"):
        return 2 * math.prod(ins[1]) * math.prod(ins[0]) // _channels_out(ins[0], ins[1])
    if kind in ("ConvolutionBackwardFilter", "Convolution3DBackwardFilter"):
        return 2 * math.prod(ins[1]) * math.prod(outs[0]) // _channels_out(outs[0], ins[1])
    return None


def profile_of(samples: list[Sample]) -> dict[str, Any]:
    """The dict that :meth:`trace.get_profile` describes."""
    place = f"{get_default_device()}:0"
    times: dict[str, Any] = {}
    footprints: dict[str, Any] = {}
    operators: dict[str, Any] = {}
    kinds: dict[str, dict[str, Any]] = {}
    for i, (_, fields, kind, inputs, outputs, start, end, *_) in enumerate(samples):
        ins, outs = [shape for _, shape in inputs], [shape for _, shape in outputs]
        times[str(i)] = {place: {"start": start, "kern": start, "end": end}}
        footprints[str(i)] = {
            "param": fields,
            "in_shapes": [list(shape) for shape in ins],
            "out_shapes": [list(shape) for shape in outs],
            "memory": sum(d.itemsize * math.prod(s) for d, s in (*inputs, *outputs)),
            "computation": _computation(kind, fields, ins, outs),
        }
        operators[str(i)] = {"type": kind}
        sums = kinds.setdefault(kind, {"count": 0, "seconds": 0.0})
        sums["count"] += 1
        sums["seconds"] += end - start
    return {
        "profiler": {
            "device": times,
            "host": times,
            "opr_footprint": footprints,
            "opr_internal_pf": {},
        },
        "graph_exec": {"comp_seq": list(times), "operator": operators},
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1]["seconds"])),
    }
