"""Tensors made from numbers. Small ones without dynamic sizes have been folded before."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Call
from ..registry import exports
from ..sizes import is_static


@exports("Fill")
def fill(g: Builder, call: Call) -> str:
    """One number, expanded to the shape."""
    if isinstance(call["value"], int | float):
        number = g.scalar(call["value"], call.dtype)
    else:
        number = g.number(call["value"], call.dtype)
    return g.expand(number, call.shape) if call.shape else g.reshape(number, ())


@exports("FillLike")
def fill_like(g: Builder, call: Call) -> str:
    """As Fill: the shape is known."""
    return g.expand(g.scalar(call["value"], call.dtype), call.shape)


@exports("Arange")
def arange(g: Builder, call: Call) -> str:
    """Range of whole numbers, then start and step: so its length is what it has to be."""
    start, step = call["start"], call["step"]
    count = g.squeeze(g.size(call["num"]), [0])
    numbers = g.emit("Range", g.scalar(0, "int64"), count, g.scalar(1, "int64"))
    if start == int(start) and step == int(step):
        if step != 1:
            numbers = g.emit("Mul", numbers, g.scalar(step, "int64"))
        if start != 0:
            numbers = g.emit("Add", numbers, g.scalar(start, "int64"))
        return g.cast(numbers, call.dtype, given="int64")
    exact = g.emit("Mul", g.cast(numbers, "float64", given="int64"), g.scalar(step, "float64"))
    return g.cast(g.emit("Add", exact, g.scalar(start, "float64")), call.dtype, given="float64")


@exports("Linspace")
def linspace(g: Builder, call: Call) -> str:
    """The numbers start + i (stop - start) / (num - 1), in float64."""
    if (
        is_static(call.shape)
        and isinstance(call["start"], float)
        and isinstance(call["stop"], float)
    ):
        return g.constant(
            np.linspace(call["start"], call["stop"], int(call["num"])).astype(call.dtype)
        )
    start, stop = (
        g.scalar(v, "float64")
        if isinstance(v, int | float)
        else g.squeeze(g.number(v, "float64"), [0])
        for v in (call["start"], call["stop"])
    )
    count = g.squeeze(g.size(call["num"]), [0])
    numbers = g.emit("Range", g.scalar(0, "int64"), count, g.scalar(1, "int64"))
    gaps = g.emit("Max", g.emit("Sub", count, g.scalar(1, "int64")), g.scalar(1, "int64"))
    share = g.emit("Div", g.cast(numbers, "float64"), g.cast(gaps, "float64"))
    exact = g.emit("Add", g.emit("Mul", share, g.emit("Sub", stop, start)), start)
    return g.cast(exact, call.dtype, given="float64")


@exports("Eye")
def eye(g: Builder, call: Call) -> str:
    """Where row + k is column."""
    rows, columns, k = call["rows"], call["columns"], call["k"]
    row, column = (
        g.emit("Range", g.scalar(0, "int64"), g.squeeze(g.size(n), [0]), g.scalar(1, "int64"))
        for n in (rows, columns)
    )
    shifted = g.emit("Add", g.unsqueeze(row, [1]), g.scalar(k, "int64"))
    return g.cast(g.emit("Equal", shifted, g.unsqueeze(column, [0])), call.dtype)
