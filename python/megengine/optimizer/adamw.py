"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import ClassVar

from .adam import Adam
from .optimizer import Params


class AdamW(Adam):
    r"""AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019).

    As :class:`.Adam`, but weights decay by themselves, not through the gradient:
    :math:`p \leftarrow p - lr \cdot weight\_decay \cdot p` comes first, and :math:`d = g`.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: the shares of :math:`m` and :math:`v` that each step leaves, in [0, 1).
        eps: added to the denominator.
        weight_decay: the share of a parameter, times ``lr``, that goes at each step.

    Raises:
        ValueError: an option is out of range.

    >>> from megengine import Parameter
    >>> p = Parameter([1.0])
    >>> optimizer = AdamW([p], lr=0.1, weight_decay=0.5)
    >>> p.grad = Parameter([3.0])
    >>> optimizer.step().clear_grad()
    >>> p
    Parameter([0.85], device=xpux:0)
    """

    _rule: ClassVar[str] = "adamw"

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ):
        super().__init__(params, lr, betas, eps, weight_decay)
