"""Recurrent layers and cells, against loops over steps in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

# Long sums of products; several layers round to the 16-bit types in between.
TOL = {
    "float32": (5e-6, 1e-5),
    "float64": (1e-12, 1e-12),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
}


def lstm_step(x: Array, h: Array, c: Array, weights: list[Array]) -> tuple[Array, Array]:
    w_ih, w_hh, b_ih, b_hh = weights
    i, f, g, o = np.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def rnn_step(kind: str, x: Array, h: Array, weights: list[Array]) -> Array:
    w_ih, w_hh, b_ih, b_hh = weights
    return ACTIVATIONS[kind](x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)


def cut_weights(flat: Array, gates: int, inputs: int, hidden: int, bias: bool) -> tuple[Any, Array]:
    """The weights of the next cell, and what is left of the flat ones."""
    rows, flat = gates * hidden, flat.reshape(-1)
    parts = []
    for shape in [(rows, inputs), (rows, hidden)] + [(rows,)] * (2 if bias else 0):
        size = int(np.prod(shape))
        parts.append(flat[:size].reshape(shape))
        flat = flat[size:]
    return parts if bias else [*parts, np.zeros(rows), np.zeros(rows)], flat


def network(
    kind: str, layers: int, directions: int, bias: bool, x: Array, h: Array, c: Array, flat: Array
) -> tuple[Array, ...]:
    """All layers of an LSTM (kind "lstm") or of an RNN with this activation."""
    hidden, h_n, c_n = h.shape[2], [], []
    gates = 4 if kind == "lstm" else 1
    for layer in range(layers):
        outputs = []
        for d in range(directions):
            weights, flat = cut_weights(flat, gates, x.shape[2], hidden, bias)
            state, cell = h[layer * directions + d], c[layer * directions + d]
            y = np.zeros((*x.shape[:2], hidden))
            for t in range(len(x))[:: -1 if d else 1]:
                if kind == "lstm":
                    state, cell = lstm_step(x[t], state, cell, weights)
                else:
                    state = rnn_step(kind, x[t], state, weights)
                y[t] = state
            outputs.append(y)
            h_n.append(state)
            c_n.append(cell)
        x = np.concatenate(outputs, axis=2)
    assert flat.size == 0
    return x, np.stack(h_n), np.stack(c_n)


def network_inputs(
    kind: str, layers: int, directions: int, bias: bool, sizes: tuple[int, int, int, int]
) -> Callable[[np.random.Generator], list[Array]]:
    steps, batch, inputs, hidden = sizes
    gates = 4 if kind == "lstm" else 1
    weights = 0
    for layer in range(layers):
        columns = inputs if layer == 0 else directions * hidden
        weights += directions * gates * hidden * (columns + hidden + (2 if bias else 0))

    def make(rng: np.random.Generator) -> list[Array]:
        states = [(layers * directions, batch, hidden)] * (2 if kind == "lstm" else 1)
        return [
            rng.standard_normal((steps, batch, inputs)),
            *(0.5 * rng.standard_normal(s) for s in states),
            rng.standard_normal((gates * hidden, weights // (gates * hidden))) / np.sqrt(hidden),
        ]

    return make


def network_record(
    name: str, kind: str, layers: int = 1, directions: int = 1, bias: bool = True, **fields: Any
) -> Record:
    options = {
        "num_layers": layers, "bidirectional": directions == 2, "bias": bias, **fields
    }  # fmt: skip

    def fn(x: Any, *rest: Any) -> tuple[Any, ...]:
        hidden = int(rest[0].shape[2])
        if kind == "lstm":
            op = builtin.LSTM(hidden_size=hidden, **options)
            return tuple(apply(op, x, *rest)[:3])
        op = builtin.RNN(hidden_size=hidden, nonlineMode=kind, **options)
        return tuple(apply(op, x, *rest)[:2])

    def ref(x: Array, *rest: Array) -> tuple[Array, ...]:
        h, c = rest[0], rest[1] if kind == "lstm" else np.zeros_like(rest[0])
        y, h_n, c_n = network(kind, layers, directions, bias, x, h, c, rest[-1])
        return (y, h_n, c_n) if kind == "lstm" else (y, h_n)

    def empties() -> list[list[Array]]:
        rng = np.random.default_rng(0)
        sizes = [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4)]
        return [network_inputs(kind, layers, directions, bias, s)(rng) for s in sizes]

    return Record(
        name,
        fn=fn,
        ref=ref,
        inputs=network_inputs(kind, layers, directions, bias, (3, 2, 3, 4)),
        ops=("LSTM" if kind == "lstm" else "RNN", "RecurrentLayer", "RecurrentLayerBackward"),
        tol=TOL,
        grad_tol=(2e-6, 2e-7),
        empty=empties,
        large=network_inputs(kind, layers, directions, bias, (5, 37, 20, 50)),
        exact_threads=False,
    )


def cell_inputs(gates: int, states: int, batch: int, inputs: int, hidden: int) -> Any:
    def make(rng: np.random.Generator) -> list[Array]:
        rows = gates * hidden
        shapes = [
            (batch, inputs),
            (rows, inputs),
            (rows,),
            (batch, hidden),
            (rows, hidden),
            (rows,),
        ]
        shapes += [(batch, hidden)] * (states - 1)
        return [rng.standard_normal(s) * 0.7 for s in shapes]

    return make


def cell_records() -> list[Record]:
    out = []
    for kind in ACTIVATIONS:
        out.append(
            Record(
                f"rnn_cell-{kind}",
                fn=lambda *inputs, kind=kind: apply(builtin.RNNCell(nonlineMode=kind), *inputs)[0],
                ref=lambda x, w, b, h, v, a, kind=kind: rnn_step(kind, x, h, [w, v, b, a]),
                inputs=cell_inputs(1, 1, 3, 4, 5),
                ops=("RNNCell", "RecurrentLayer", "RecurrentLayerBackward"),
                tol=TOL,
                empty=lambda: [
                    cell_inputs(1, 1, 0, 4, 5)(np.random.default_rng(0)),
                    cell_inputs(1, 1, 2, 0, 5)(np.random.default_rng(0)),
                ],
                large=cell_inputs(1, 1, 70, 60, 50),
                exact_threads=False,
            )
        )
    out.append(
        Record(
            "lstm_cell",
            fn=lambda *inputs: tuple(apply(builtin.LSTMCell(), *inputs)[:2]),
            ref=lambda x, w, b, h, v, a, c: lstm_step(x, h, c, [w, v, b, a]),
            inputs=cell_inputs(4, 2, 3, 4, 5),
            ops=("LSTMCell", "RecurrentLayer", "RecurrentLayerBackward"),
            tol=TOL,
            empty=lambda: [cell_inputs(4, 2, 0, 4, 5)(np.random.default_rng(0))],
            large=cell_inputs(4, 2, 70, 60, 50),
            exact_threads=False,
        )
    )
    return out


RECORDS = [
    network_record("lstm", "lstm"),
    network_record("lstm-inference", "lstm", fwd_mode="inference"),
    network_record("lstm-no-bias", "lstm", bias=False),
    network_record("lstm-stacked-bidirectional", "lstm", layers=2, directions=2),
    *(network_record(f"rnn-{kind}", kind) for kind in ACTIVATIONS),
    network_record("rnn-stacked-bidirectional", "tanh", layers=2, directions=2, bias=False),
    *cell_records(),
]
