"""Keeping gradients small."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import functional as F
from ..tensor import Tensor


def _gradients(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    return [t.grad for t in tensors if t.grad is not None]


def clip_grad_norm(tensors: Tensor | Iterable[Tensor], max_norm: float, ord: float = 2.0) -> Tensor:
    """Scales gradients in place so that their norm, as of one vector, is at most ``max_norm``.

    Gradients whose norm is infinite or NaN are left as they are: scaling would make NaN of them.

    Args:
        tensors: the tensors whose gradients are meant; those that have none do not count.
        max_norm: the largest norm allowed.
        ord: the order of the norm; may be ``inf``.

    Returns:
        the norm before, a 0-d tensor.

    Raises:
        ValueError: ``max_norm`` is negative.

    >>> from megengine import Parameter
    >>> p = Parameter([0.0, 0.0])
    >>> p.grad = Parameter([3.0, 4.0])
    >>> clip_grad_norm([p], max_norm=1.0)
    Tensor(5.0, device=xpux:0)
    >>> [round(float(g), 4) for g in p.grad.numpy()]
    [0.6, 0.8]
    """
    if max_norm < 0:
        raise ValueError(f"clip_grad_norm: expected max_norm >= 0, got {max_norm}")
    gradients = _gradients(tensors)
    norms = [F.norm(g.detach().flatten(), ord) for g in gradients]
    norm = F.norm(F.stack(norms), ord) if norms else Tensor(0.0)
    value = float(norm.item())
    if math.isfinite(value) and value > max_norm:
        for gradient in gradients:
            gradient._reset(gradient.detach() * (max_norm / value))
    return norm


def clip_grad_value(tensors: Tensor | Iterable[Tensor], lower: float, upper: float) -> None:
    """Clips each element of gradients, in place, to the range from ``lower`` to ``upper``.

    >>> from megengine import Parameter
    >>> p = Parameter([0.0, 0.0, 0.0])
    >>> p.grad = Parameter([-3.0, 0.5, 4.0])
    >>> clip_grad_value([p], -1.0, 2.0)
    >>> p.grad
    Parameter([-1.   0.5  2. ], device=xpux:0)
    """
    for gradient in _gradients(tensors):
        gradient._reset(F.clip(gradient.detach(), lower, upper))
