"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import functional as F
from ....tensor import Tensor
from ..registry import op
from ..values import Array, to_tensor

_Function = Callable[[Tensor], Tensor]
# A step: what the input gives, the state before; the state after.
_Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _activation(name: str, alpha: float | None, beta: float | None) -> _Function:
    def of(default: float, given: float | None) -> float:
        return default if given is None else given

    functions: dict[str, _Function] = {
        "affine": lambda x: of(1.0, alpha) * x + of(0.0, beta),
        "elu": lambda x: F.where(x > 0, x, of(1.0, alpha) * F.expm1(F.minimum(x, 0.0))),
        "hardsigmoid": lambda x: F.clip(of(0.2, alpha) * x + of(0.5, beta), 0.0, 1.0),
        "leakyrelu": lambda x: F.leaky_relu(x, of(0.01, alpha)),
        "relu": F.relu,
        "scaledtanh": lambda x: of(1.0, alpha) * F.tanh(of(1.0, beta) * x),
        "sigmoid": F.sigmoid,
        "softplus": F.softplus,
        "softsign": lambda x: x / (1.0 + F.abs(x)),
        "tanh": F.tanh,
        "thresholdedrelu": lambda x: F.where(x > of(1.0, alpha), x, F.zeros_like(x)),
    }
    try:
        return functions[name.lower()]
    except KeyError:
        raise ValueError(f"unknown activation {name!r}") from None


# How many of the numbers alpha and beta an activation takes off the lists of them.
_TAKES_ALPHA = ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu")
_TAKES_BETA = ("affine", "hardsigmoid", "scaledtanh")


def _activations(
    names: tuple[str, ...] | None,
    default: tuple[str, ...],
    alphas: tuple[float, ...] | None,
    betas: tuple[float, ...] | None,
    clip: float | None,
    directions: int,
) -> list[list[_Function]]:
    names = default * directions if names is None else names
    if len(names) != len(default) * directions:
        raise ValueError(f"expected {len(default) * directions} activations, got {names}")
    alpha, beta = iter(alphas or ()), iter(betas or ())
    functions = []
    for name in names:
        low = name.lower()
        a = next(alpha, None) if low in _TAKES_ALPHA else None
        b = next(beta, None) if low in _TAKES_BETA else None
        function = _activation(name, a, b)
        functions.append(function if clip is None else _clipped(function, clip))
    n = len(default)
    return [functions[i * n : (i + 1) * n] for i in range(directions)]


def _clipped(function: _Function, clip: float) -> _Function:
    return lambda x: function(F.clip(x, -clip, clip))


def _run(
    x: Tensor,
    step: _Step,
    start: tuple[Tensor, ...],
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All outputs (seq, batch, hidden) and the last state of one direction."""
    n = x._tuple_shape[0]
    state, outputs = start, []
    for t in reversed(range(n)) if reverse else range(n):
        after = step(x[t], state)
        out = after[0]
        if lengths is not None:
            # A sequence that is over keeps its state, and its outputs are 0.
            alive = lengths > t
            after = tuple(F.where(alive, new, old) for new, old in zip(after, state, strict=True))
            out = F.where(alive, out, F.zeros_like(out))
        state = after
        outputs.append(out)
    if reverse:
        outputs.reverse()
    return F.stack(outputs, 0), state


def _layer(
    x: Tensor,
    w: Tensor,
    states: list[Tensor | None],
    sequence_lens: Array | None,
    direction: str,
    layout: int,
    hidden: int,
    make_step: Callable[[int], _Step],
) -> tuple[Tensor, ...]:
    """Runs both directions: all outputs (seq, directions, batch, hidden) and the last states."""
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"expected direction forward, reverse or bidirectional, got {direction!r}")
    directions = w._tuple_shape[0]
    if directions != (2 if direction == "bidirectional" else 1):
        raise ValueError(f"weights of {directions} directions do not fit direction={direction!r}")
    if layout:
        x = F.transpose(x, (1, 0, 2))
        states = [None if s is None else F.transpose(s, (1, 0, 2)) for s in states]
    batch = x._tuple_shape[1]
    lengths = None
    if sequence_lens is not None and (sequence_lens != x._tuple_shape[0]).any():
        lengths = to_tensor(sequence_lens.reshape(batch, 1))
    outputs, lasts = [], []
    for d in range(directions):
        zero = F.zeros((batch, hidden), dtype=x.dtype)
        start = tuple(zero if s is None else s[d] for s in states)
        reverse = direction == "reverse" or d == 1
        out, last = _run(x, make_step(d), start, lengths, reverse)
        outputs.append(out)
        lasts.append(last)
    y = F.stack(outputs, 1)
    ends = [F.stack(list(parts), 0) for parts in zip(*lasts, strict=True)]
    if layout:
        y = F.transpose(y, (2, 0, 1, 3))
        ends = [F.transpose(e, (1, 0, 2)) for e in ends]
    return (y, *ends)


def _product(x: Tensor, w: Tensor) -> Tensor:
    return F.matmul(x, w, transpose_b=True)


@op("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Array | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 1,
) -> Any:
    n, h = w._tuple_shape[0], r._tuple_shape[2]
    functions = _activations(activations, ("Tanh",), activation_alpha, activation_beta, clip, n)

    def make_step(d: int) -> _Step:
        (f,) = functions[d]
        wd, rd = w[d], r[d]
        bias = None if b is None else b[d][:h] + b[d][h:]

        def step(xt: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            total = _product(xt, wd) + _product(state[0], rd)
            return (f(total if bias is None else total + bias),)

        return step

    return _layer(x, w, [initial_h], sequence_lens, direction, layout, h, make_step)


@op("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Array | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 1,
) -> Any:
    n, h = w._tuple_shape[0], r._tuple_shape[2]
    default = ("Sigmoid", "Tanh")
    functions = _activations(activations, default, activation_alpha, activation_beta, clip, n)

    def make_step(d: int) -> _Step:
        f, g = functions[d]
        wd, rd = w[d], r[d]
        bias = F.zeros((6 * h,), dtype=x.dtype) if b is None else b[d]
        wb, rb = bias[: 3 * h], bias[3 * h :]

        def step(xt: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (old,) = state
            gates = _product(xt, wd) + wb
            recurrent = _product(old, rd[: 2 * h]) + rb[: 2 * h]
            both = f(gates[:, : 2 * h] + recurrent)
            z, reset = both[:, :h], both[:, h:]
            if linear_before_reset:
                candidate = reset * (_product(old, rd[2 * h :]) + rb[2 * h :])
            else:
                candidate = _product(reset * old, rd[2 * h :]) + rb[2 * h :]
            new = g(gates[:, 2 * h :] + candidate)
            return ((1.0 - z) * new + z * old,)

        return step

    return _layer(x, w, [initial_h], sequence_lens, direction, layout, h, make_step)


@op("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Array | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 1,
) -> Any:
    n, h = w._tuple_shape[0], r._tuple_shape[2]
    default = ("Sigmoid", "Tanh", "Tanh")
    functions = _activations(activations, default, activation_alpha, activation_beta, clip, n)

    def make_step(d: int) -> _Step:
        f, g, out = functions[d]
        wd, rd = w[d], r[d]
        bias = None if b is None else b[d][: 4 * h] + b[d][4 * h :]
        peep = None if p is None else p[d]

        def step(xt: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            old, cell = state
            gates = _product(xt, wd) + _product(old, rd)
            if bias is not None:
                gates = gates + bias
            i, o, forget, c = (gates[:, k * h : (k + 1) * h] for k in range(4))
            if peep is not None:
                i, forget = i + peep[:h] * cell, forget + peep[2 * h :] * cell
            i = f(i)
            forget = 1.0 - i if input_forget else f(forget)
            cell = forget * cell + i * g(c)
            if peep is not None:
                o = o + peep[h : 2 * h] * cell
            return f(o) * out(cell), cell

        return step

    return _layer(x, w, [initial_h, initial_c], sequence_lens, direction, layout, h, make_step)
