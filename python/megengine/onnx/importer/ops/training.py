"""Gradients and steps of optimizers as operators."""

from __future__ import annotations

from .... import functional as F
from ....autodiff import GradManager
from ....tensor import Tensor
from ..graph import Body
from ..registry import op

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
