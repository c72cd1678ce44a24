"""Ops that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..builder import Arg, Builder, Call
from ..registry import exports
from ..sizes import AnySize


@exports("Identity", "Copy", "Contiguous")
def identity(g: Builder, call: Call) -> str:
    """Values are immutable in ONNX, and have no strides: nothing to do."""
    return call.inputs[0].name


@exports("Reshape")
def reshape(g: Builder, call: Call) -> str:
    """To the shape of the result."""
    return g.reshape(call.inputs[0], call.shape)


@exports("Dimshuffle")
def dimshuffle(g: Builder, call: Call) -> str:
    """Axes that go, a transposition, axes that come."""
    x, pattern = call.inputs[0], [int(i) for i in call["pattern"]]
    kept = [i for i in pattern if i >= 0]
    gone = [i for i in range(x.ndim) if i not in kept]
    name = g.squeeze(x, gone)
    order = sorted(kept)
    name = g.transpose(name, [order.index(i) for i in kept])
    new = [at for at, i in enumerate(pattern) if i < 0]
    return g.unsqueeze(name, new) if new else name


@exports("Broadcast")
def broadcast(g: Builder, call: Call) -> str:
    """Expand."""
    x = call.inputs[0]
    return x.name if x.shape == call.shape else g.expand(x, call.shape)


@exports("AddAxis")
def add_axis(g: Builder, call: Call) -> str:
    """Unsqueeze."""
    return g.unsqueeze(call.inputs[0], _axes(call["axis"], len(call.shape)))


@exports("RemoveAxis")
def remove_axis(g: Builder, call: Call) -> str:
    """Squeeze."""
    x = call.inputs[0]
    return g.squeeze(x, _axes(call["axis"], x.ndim))


def _axes(axes: Any, ndim: int) -> list[int]:
    numbers = [axes] if isinstance(axes, int) else list(axes)
    return [a % ndim for a in numbers]


@exports("Concat")
def concat(g: Builder, call: Call) -> str:
    """Along an axis that there is."""
    inputs = [g.cast(x, call.dtype) for x in call.inputs]
    return g.emit("Concat", *inputs, axis=call["axis"]) if len(inputs) > 1 else inputs[0]


@exports("Stack")
def stack(g: Builder, call: Call) -> str:
    """Along a new axis."""
    axis = call["axis"] % len(call.shape)
    inputs = [g.unsqueeze(g.cast(x, call.dtype), [axis]) for x in call.inputs]
    return g.emit("Concat", *inputs, axis=axis) if len(inputs) > 1 else inputs[0]


@exports("Split")
def split(g: Builder, call: Call) -> list[str]:
    """Parts whose sizes are written down."""
    axis = call["axis"] % call.inputs[0].ndim
    sizes = [v.shape[axis] for v in call.outputs]
    if len(sizes) == 1:
        return [call.inputs[0].name]
    return g.emit_many("Split", len(sizes), call.inputs[0], g.sizes(sizes), axis=axis)


@exports("Diag")
def diag(g: Builder, call: Call) -> str:
    """Elements at positions that the shape tells."""
    x, k = call.inputs[0], call["k"]
    if x.ndim == 2:
        n = int(call.shape[0])
        positions = np.arange(n)
        pairs = np.stack([positions + max(-k, 0), positions + max(k, 0)], 1)
        return g.emit("GatherND", x, g.constant(pairs, "int64"))
    n = int(call.shape[0])
    place = np.arange(int(x.shape[0]))
    flat = (place + max(-k, 0)) * n + place + max(k, 0)
    zeros = g.emit("Expand", g.scalar(0, x.dtype), g.ints([n * n]))
    filled = g.emit("ScatterElements", zeros, g.constant(flat, "int64"), x, axis=0)
    return g.reshape(filled, call.shape)


@exports("Padding")
def padding(g: Builder, call: Call) -> str:
    """Pad: widths before all axes, then behind them."""
    x = call.inputs[0]
    front: list[AnySize] = [call[f"front_offset_dim{i}"] for i in range(x.ndim)]
    back: list[AnySize] = [call[f"back_offset_dim{i}"] for i in range(x.ndim)]
    widths = g.sizes([*front, *back])
    mode = str(call["padding_mode"])
    if mode == "CONSTANT":
        return g.emit("Pad", x, widths, g.scalar(call["padding_val"], x.dtype), mode="constant")
    return g.emit("Pad", x, widths, mode="reflect" if mode == "REFLECT" else "edge")


@exports("PixelShuffle")
def pixel_shuffle(g: Builder, call: Call) -> str:
    """DepthToSpace, for one batch axis; others are joined for it."""
    x, factor = call.inputs[0], call["factor"]
    if factor == 1:
        return x.name
    images = _as_images(g, x)
    name = g.emit("DepthToSpace", images, blocksize=factor, mode="CRD")
    return name if x.ndim == 4 else g.reshape(name, call.shape)


@exports("PixelShuffleBackward")
def pixel_unshuffle(g: Builder, call: Call) -> str:
    """The other way round; SpaceToDepth has another order of channels."""
    x, f = call.inputs[0], call["factor"]
    *lead, c, h, w = x.shape
    parts = g.reshape(x, (*lead, c, h // f, f, w // f, f))
    n = len(lead)
    moved = g.transpose(parts, [*range(n + 1), n + 2, n + 4, n + 1, n + 3])
    return g.reshape(moved, call.shape)


def _as_images(g: Builder, x: Arg) -> str:
    """(..., C, H, W) as (N, C, H, W)."""
    if x.ndim == 4:
        return x.name
    number: AnySize = 1
    for n in x.shape[:-3]:
        number = number * n
    return g.reshape(x, (number, *x.shape[-3:]))
