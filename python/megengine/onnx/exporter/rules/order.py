"""Sorting and the largest elements."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Call
from ..registry import exports
from ..sizes import AnySize


@exports("Argsort")
def argsort(g: Builder, call: Call) -> list[str]:
    """TopK of all elements of the last axis."""
    descending = str(call["order"]) == "DESCENDING"
    return _top(g, call, call.inputs[0].shape[-1], descending)


@exports("TopK")
def top_k(g: Builder, call: Call) -> list[str]:
    """TopK; the k-th alone is the last of them."""
    values, positions = _top(g, call, call["k"], call["descending"])
    if call["kth_only"]:
        last = g.scalar(-1, "int64")
        values = g.emit("Gather", values, last, axis=-1)
        positions = g.emit("Gather", positions, last, axis=-1)
    return [values, positions]


def _top(g: Builder, call: Call, k: AnySize, largest: bool) -> list[str]:
    x = call.inputs[0]
    narrow = x.dtype == np.bool_ or (x.dtype.kind in "iu" and x.dtype.itemsize < 4)
    values, positions = g.emit_many(
        "TopK",
        2,
        g.cast(x, "int32") if narrow else x,
        g.size(k),
        axis=-1,
        largest=int(largest),
        sorted=1,
    )
    return [
        g.cast(values, x.dtype, given="int32" if narrow else x.dtype),
        g.cast(positions, "int32", given="int64"),
    ]
