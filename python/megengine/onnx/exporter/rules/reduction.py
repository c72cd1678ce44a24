"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

import numpy as np

from ..builder import Arg, Builder, Call
from ..registry import exports

REDUCTIONS = {
    "SUM": "ReduceSum",
    "SUM_SQR": "ReduceSumSquare",
    "PRODUCT": "ReduceProd",
    "MIN": "ReduceMin",
    "MAX": "ReduceMax",
    "MEAN": "ReduceMean",
}


def _axes(call: Call, x: Arg) -> list[int] | None:
    """The axes, or None for all of them; an empty list is none at all."""
    if call["axis"] is None:
        return None
    return sorted(a % x.ndim for a in call["axis"])


@exports("Reduce")
def reduce(g: Builder, call: Call) -> str:
    """ReduceSum and its kin, in the dtype of the result."""
    x, axes, mode = call.inputs[0], _axes(call, call.inputs[0]), str(call["mode"])
    dtype = call.dtype
    narrow = dtype.kind in "biu" and dtype.itemsize < 4
    name = g.cast(x, "int32" if narrow else dtype)
    if axes == [] or x.ndim == 0:
        return g.emit("Mul", name, name) if mode == "SUM_SQR" else g.cast(x, dtype)
    name = g.reduce(REDUCTIONS[mode], name, axes, call["keepdim"])
    return g.cast(name, dtype, given="int32" if narrow else dtype)


@exports("Variance")
def variance(g: Builder, call: Call) -> str:
    """The mean of the squared distances from the mean."""
    x, axes = call.inputs[0], _axes(call, call.inputs[0])
    name = g.cast(x, call.dtype)
    if axes == [] or x.ndim == 0:
        return g.emit("Sub", name, name)
    centred = g.emit("Sub", name, g.reduce("ReduceMean", name, axes, True))
    squares = g.emit("Mul", centred, centred)
    mean = g.reduce("ReduceMean", squares, axes, call["keepdim"])
    return g.emit("Sqrt", mean) if call["root"] else mean


@exports("Norm2")
def norm2(g: Builder, call: Call) -> str:
    """ReduceL2."""
    x, axes = call.inputs[0], _axes(call, call.inputs[0])
    name = g.cast(x, call.dtype)
    if axes == [] or x.ndim == 0:
        return g.emit("Abs", name)
    return g.reduce("ReduceL2", name, axes, call["keepdim"])


@exports("Argmax", "Argmin")
def arg_extreme(g: Builder, call: Call) -> str:
    """ArgMax along one axis; several are flattened to one, in their order."""
    x, axes = call.inputs[0], _axes(call, call.inputs[0])
    op = "ArgMax" if call.node.kind == "Argmax" else "ArgMin"
    if axes is None:
        axes = list(range(x.ndim))
    name = x.name
    if x.dtype == np.bool_ or (x.dtype.kind in "iu" and x.dtype.itemsize < 4):
        name = g.cast(x, "int32")
    if len(axes) == 1 and x.ndim:
        found = g.emit(op, name, axis=axes[0], keepdims=int(call["keepdim"]))
        return g.cast(found, call.dtype, given="int64")
    others = [i for i in range(x.ndim) if i not in axes]
    moved = g.transpose(name, [*others, *axes])
    rows = g.reshape(moved, (*(x.shape[i] for i in others), -1))
    found = g.emit(op, rows, axis=len(others), keepdims=0)
    shaped = g.reshape(found, call.shape) if call["keepdim"] else found
    return g.cast(shaped, call.dtype, given="int64")


@exports("Cumsum")
def cumsum(g: Builder, call: Call) -> str:
    """CumSum."""
    x = call.inputs[0]
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize < 4
    name = g.emit(
        "CumSum",
        g.cast(x, "int32") if narrow else x,
        g.scalar(call["axis"] % x.ndim, "int64"),
        exclusive=int(call["exclusive"]),
        reverse=int(call["reverse"]),
    )
    return g.cast(name, call.dtype, given="int32" if narrow else x.dtype)
