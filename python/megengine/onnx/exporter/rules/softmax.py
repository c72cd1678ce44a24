"""Softmax and its logarithms.

A row that is -inf everywhere gives NaN in ONNX, where ours gives 0.
"""

from __future__ import annotations

from ..builder import Builder, Call
from ..registry import exports


@exports("Softmax", "LogSoftmax")
def softmax(g: Builder, call: Call) -> str:
    """Softmax, LogSoftmax."""
    axis = int(call["axis"])
    x = call.inputs[0]
    return g.emit(call.node.kind, g.cast(x, call.dtype), axis=axis if axis < 0 else axis - x.ndim)


@exports("LogSumExp")
def logsumexp(g: Builder, call: Call) -> str:
    """ReduceLogSumExp."""
    x = call.inputs[0]
    return g.reduce("ReduceLogSumExp", g.cast(x, call.dtype), [call["axis"] % x.ndim], False)
