"""Batch norm, layer norm and their kin."""

from __future__ import annotations

import numpy as np

from ..builder import Arg, Builder, Call
from ..plan import Node, Plan
from ..registry import RefusedError, exports
from ..sizes import AnySize, Shape, number_of_elements


def _vector(g: Builder, x: Arg, dtype: np.dtype) -> str:
    if x.dtype == dtype:
        return g.reshape(x, (number_of_elements(x.shape),))
    return g.reshape(g.cast(x, dtype), (number_of_elements(x.shape),))


def _ones_and_zeros(g: Builder, shape: Shape, dtype: np.dtype) -> tuple[str, str]:
    sizes = [int(n) for n in shape]
    return g.constant(np.ones(sizes, dtype)), g.constant(np.zeros(sizes, dtype))


@exports("BatchNorm")
def batch_norm(g: Builder, call: Call) -> str:
    """BatchNormalization with the running statistics."""
    if str(call["fwd_mode"]) != "INFERENCE":
        raise RefusedError(
            "batch norm in training mode uses the statistics of each batch: call eval() on the "
            "Module before the export"
        )
    x, *parameters = call.inputs
    operands = [_vector(g, p, x.dtype) for p in parameters]
    return g.emit("BatchNormalization", x, *operands, epsilon=call["epsilon"])


def _only_y(node: Node, plan: Plan) -> bool:
    return not plan.used.intersection(node.outputs[1:])


@exports("LayerNorm", when=_only_y)
def layer_norm(g: Builder, call: Call) -> str:
    """LayerNormalization over the last axes."""
    x = call.inputs[0]
    axes = int(call["normalized_dim"])
    if call["affine"]:
        shape = x.shape[x.ndim - axes :]
        scale, shift = (g.reshape(p, shape) for p in call.inputs[1:3])
    else:
        scale, shift = _ones_and_zeros(g, x.shape[x.ndim - axes :], x.dtype)
    return g.emit("LayerNormalization", x, scale, shift, axis=-axes, epsilon=call["eps"])


@exports("GroupNorm", when=_only_y)
def group_norm(g: Builder, call: Call) -> str:
    """InstanceNormalization of the groups, then scale and shift of the channels.

    GroupNormalization, of opset 21, is not known to many runtimes.
    """
    x = call.inputs[0]
    groups = int(call["group"])
    channels = int(x.shape[1])
    if channels == groups:
        return _instance_norm(g, call, x)
    n = x.shape[0]
    rest: AnySize = number_of_elements(x.shape[1:]) // groups
    ones, zeros = _ones_and_zeros(g, (groups,), x.dtype)
    rows = g.reshape(x, (n, groups, rest))
    name = g.emit("InstanceNormalization", rows, ones, zeros, epsilon=call["eps"])
    name = g.reshape(name, x.shape)
    if call["affine"]:
        shape = (channels, *[1] * (x.ndim - 2))
        scale, shift = (g.reshape(p, shape) for p in call.inputs[1:3])
        name = g.emit("Add", g.emit("Mul", name, scale), shift)
    return name


@exports("InstanceNorm", when=_only_y)
def instance_norm(g: Builder, call: Call) -> str:
    """InstanceNormalization."""
    return _instance_norm(g, call, call.inputs[0])


def _instance_norm(g: Builder, call: Call, x: Arg) -> str:
    if call["affine"]:
        scale, shift = (_vector(g, p, x.dtype) for p in call.inputs[1:3])
    else:
        scale, shift = _ones_and_zeros(g, (x.shape[1],), x.dtype)
    if x.ndim == 2:
        raise RefusedError("ONNX has instance norm of images alone, got (N, C)")
    return g.emit("InstanceNormalization", x, scale, shift, epsilon=call["eps"])


def _last_axes(node: Node, plan: Plan) -> bool:
    ndim = len(plan.values[node.inputs[0]].shape)
    return _only_y(node, plan) and node.fields["axis_end"] == ndim


@exports("GeneralNorm", when=_last_axes)
def general_norm(g: Builder, call: Call) -> str:
    """LayerNormalization where the axes are the last ones; else it is written in parts."""
    x = call.inputs[0]
    start = int(call["axis_start"])
    if call["affine"]:
        scale, shift = (g.reshape(p, x.shape[start:]) for p in call.inputs[1:3])
    else:
        scale, shift = _ones_and_zeros(g, x.shape[start:], x.dtype)
    return g.emit("LayerNormalization", x, scale, shift, axis=start - x.ndim, epsilon=call["eps"])


@exports("LRN")
def lrn(g: Builder, call: Call) -> str:
    """LRN, whose alpha is that of a mean."""
    n = int(call["n"])
    return g.emit(
        "LRN",
        call.inputs[0],
        size=n,
        alpha=float(call["alpha"]) * n,
        beta=float(call["beta"]),
        bias=float(call["k"]),
    )
