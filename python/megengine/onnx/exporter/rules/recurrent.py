"""RNN and LSTM; cells are written as what they are made of."""

from __future__ import annotations

import numpy as np

from ..builder import Arg, Builder, Call
from ..registry import RefusedError, exports

ACTIVATIONS = {"TANH": "Tanh", "RELU": "Relu", "IDENTITY": "Affine"}


class _Weights:
    """The flat weights, cut into the matrices of cells; constants where those are one."""

    def __init__(self, g: Builder, flat: Arg, gates: int) -> None:
        self.g, self.flat, self.gates, self.at = g, flat, gates, 0

    def next(self, *shape: int) -> Arg:
        """The next matrix or vector, with its gates in the order of ONNX."""
        count = int(np.prod(shape))
        begin, self.at = self.at, self.at + count
        # Ours are i, f, g, o; ONNX's are i, o, f, c.
        order = [0, 3, 1, 2] if self.gates == 4 else [0]
        if self.flat.constant is not None:
            part = self.flat.constant.reshape(-1)[begin : begin + count].reshape(shape)
            part = np.concatenate([np.split(part, self.gates)[i] for i in order])
            return Arg(self.flat.dtype, shape, constant=part)
        g = self.g
        name = g.slice(g.emit("Reshape", self.flat, g.ints([-1])), [0], [begin], [begin + count])
        name = g.emit("Reshape", name, g.ints(shape))
        if self.gates > 1:
            parts = g.emit_many("Split", 4, name, g.ints([shape[0] // 4] * 4), axis=0)
            name = g.emit("Concat", *(parts[i] for i in order), axis=0)
        return Arg(self.flat.dtype, shape, name)

    def together(self, directions: list[list[Arg]], name: str) -> str:
        """Those of each direction one after the other, the directions along a new first axis."""
        arrays = [[a.constant for a in parts if a.constant is not None] for parts in directions]
        if all(arrays):
            base = self.flat.base.rpartition(".")[0]
            stacked = np.stack([np.concatenate(parts) for parts in arrays])
            return self.g.constant(stacked, name=f"{base}.{name}" if base else name)
        g = self.g
        rows = [
            g.unsqueeze(parts[0] if len(parts) == 1 else g.emit("Concat", *parts, axis=0), [0])
            for parts in directions
        ]
        return g.emit("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]


@exports("RNN", "LSTM")
def recurrent(g: Builder, call: Call) -> list[str]:
    """An RNN or LSTM of ONNX for each layer, with both directions in one."""
    lstm = call.node.kind == "LSTM"
    x, *states, flat = call.inputs
    layers, hidden = int(call["num_layers"]), int(call["hidden_size"])
    directions = 2 if call["bidirectional"] else 1
    if str(call["fwd_mode"]) == "TRAINING" and call["dropout"] > 0:
        raise RefusedError("dropout is of training: call eval() on the Module")
    if x.dtype != np.float32:
        raise RefusedError("runtimes have recurrent layers of float32 alone")
    gates = 4 if lstm else 1
    weights = _Weights(g, flat, gates)
    attributes: dict[str, object] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if not lstm:
        name = ACTIVATIONS[str(call["nonlineMode"])]
        attributes["activations"] = [name] * directions
        if name == "Affine":
            attributes["activation_alpha"] = [1.0] * directions
            attributes["activation_beta"] = [0.0] * directions
    columns = x.shape[2]
    name = x.name
    last: list[list[str]] = [[] for _ in states]
    for layer in range(layers):
        width = int(columns) if layer == 0 else hidden * directions
        rows = gates * hidden
        w: list[list[Arg]] = []
        r: list[list[Arg]] = []
        b: list[list[Arg]] = []
        for _ in range(directions):
            w.append([weights.next(rows, width)])
            r.append([weights.next(rows, hidden)])
            if call["bias"]:
                b.append([weights.next(rows), weights.next(rows)])
        begin = [
            g.slice(s, [0], [layer * directions], [(layer + 1) * directions])
            if layers > 1
            else s.name
            for s in states
        ]
        tensors = [
            weights.together(w, f"weight_ih_l{layer}"),
            weights.together(r, f"weight_hh_l{layer}"),
            weights.together(b, f"bias_l{layer}") if b else "",
        ]
        made = g.emit_many(
            call.node.kind, 1 + len(states), name, *tensors, "", *begin, **attributes
        )
        # (steps, directions, batch, hidden), the directions then beside each other
        if directions == 1:
            name = g.squeeze(made[0], [1])
        else:
            moved = g.transpose(made[0], [0, 2, 1, 3])
            name = g.emit("Reshape", moved, g.ints([0, 0, directions * hidden]))
        for kept, state in zip(last, made[1:], strict=True):
            kept.append(state)
    ends = [g.emit("Concat", *kept, axis=0) if len(kept) > 1 else kept[0] for kept in last]
    return [name, *ends]
