"""Gradients and steps of optimizers as operators."""

from __future__ import annotations

from collections.abc import Sequence

from .... import functional as F
from ....autodiff import GradManager
from ....tensor import Tensor
from ..graph import Body
from ..registry import op
from ..values import Array

_DOMAIN = "ai.onnx.preview.training"


@op("Gradient", domain=_DOMAIN)
def gradient(
    *values: Tensor,
    xs: tuple[str, ...],
    y: str,
    zs: tuple[str, ...] = (),
    of: Body | None = None,
) -> tuple[Tensor, ...]:
    assert of is not None  # what computes y, which the builder puts there
    inputs = [F.copy(value) for value in values[: len(xs)]]
    with GradManager().attach(inputs) as manager:
        (result,) = of(*inputs)
        if not isinstance(result, Tensor):
            raise ValueError(f"Gradient: {y!r} does not depend on {list(xs)}")
        manager.backward(result, F.ones_like(result))
    return tuple(F.zeros_like(x) if x.grad is None else x.grad for x in inputs)


def _groups(values: tuple[Tensor, ...], parts: int) -> list[tuple[Tensor, ...]]:
    """(x, gradient, state, ...) for each tensor: all x come first, then all gradients, ..."""
    n = len(values) // parts
    if n * parts != len(values):
        raise ValueError(f"expected {parts} inputs for each tensor, got {len(values)} in all")
    return [values[i::n] for i in range(n)]


def _columns(rows: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(value for column in zip(*rows, strict=True) for value in column)


@op("Momentum", domain=_DOMAIN)
def momentum(
    rate: Array,
    count: Array,
    *values: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"Momentum: expected mode standard or nesterov, got {mode!r}")
    r, adjusted = float(rate.item()), beta if count.item() > 0 else 1.0
    rows = []
    for x, gradient, state in _groups(values, 3):
        g = norm_coefficient * x + gradient
        new = alpha * state + adjusted * g
        rows.append((x - r * (g + alpha * new if mode == "nesterov" else new), new))
    return _columns(rows)


@op("Adagrad", domain=_DOMAIN)
def adagrad(
    rate: Array,
    count: Array,
    *values: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    r = float(rate.item()) / (1.0 + float(count.item()) * decay_factor)
    rows = []
    for x, gradient, state in _groups(values, 3):
        g = norm_coefficient * x + gradient
        new = state + g * g
        rows.append((x - r * g / (F.sqrt(new) + epsilon), new))
    return _columns(rows)


@op("Adam", domain=_DOMAIN)
def adam(
    rate: Array,
    count: Array,
    *values: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    r, t = float(rate.item()), float(count.item())
    if t > 0:
        r = r * (1.0 - beta**t) ** 0.5 / (1.0 - alpha**t)
    rows = []
    for x, gradient, first, second in _groups(values, 4):
        g = norm_coefficient * x + gradient
        v = alpha * first + (1.0 - alpha) * g
        h = beta * second + (1.0 - beta) * g * g
        new = x - r * v / (F.sqrt(h) + epsilon)
        rows.append(((1.0 - norm_coefficient_post) * new, v, h))
    return _columns(rows)
