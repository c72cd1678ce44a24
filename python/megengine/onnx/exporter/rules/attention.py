"""Scaled dot product attention, in parts that every runtime has."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Call
from ..plan import Node, Plan
from ..registry import exports


def _plain(node: Node, plan: Plan) -> bool:
    lse = node.outputs[1:]
    return node.fields["drop_prob"] == 0 and not plan.used.intersection(lse)


@exports("ScaledDotProductAttention", when=_plain)
def attention(g: Builder, call: Call) -> str:
    """The product softmax(scale q k^T + masks) v."""
    q, k, v, *masks = call.inputs
    dtype = q.dtype
    keys = g.transpose(k, [0, 1, 3, 2])
    scores = g.emit("MatMul", q, keys)
    if call["scale"] != 1:
        scores = g.emit("Mul", scores, g.scalar(call["scale"], dtype))
    hidden = g.scalar(-np.inf, dtype)
    if call["causal"]:
        ahead = _after(g, call)
        scores = g.emit("Where", ahead, hidden, scores)
    for mask in masks:
        if mask.dtype == np.bool_:
            scores = g.emit("Where", mask, hidden, scores)
        else:
            scores = g.emit("Add", scores, g.cast(mask, dtype))
    weights = g.emit("Softmax", scores, axis=-1)
    if masks:
        # A query whose keys are all hidden: 0 / 0, which counts as 0.
        lost = g.emit("IsNaN", weights)
        weights = g.emit("Where", lost, g.scalar(0, dtype), weights)
    return g.emit("MatMul", weights, v)


def _after(g: Builder, call: Call) -> str:
    """(queries, keys): whether the key comes after the query."""
    queries, keys = call.inputs[0].shape[2], call.inputs[1].shape[2]
    if isinstance(queries, int) and isinstance(keys, int):
        return g.constant(~np.tri(queries, keys, dtype=bool))

    def numbers(n: object, axis: int) -> str:
        count = g.squeeze(g.size(n), [0])  # type: ignore[arg-type]
        row = g.emit("Range", g.scalar(0, "int64"), count, g.scalar(1, "int64"))
        return g.unsqueeze(row, [axis])

    return g.emit("Less", numbers(queries, 1), numbers(keys, 0))
