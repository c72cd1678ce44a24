"""Adam."""

from __future__ import annotations

from typing import ClassVar

from .._core import optimizer_step
from .optimizer import Optimizer, ParamGroup, Params


class Adam(Optimizer):
    r"""Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015).

    .. math::
        d &= g + weight\_decay \cdot p \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) d \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) d^2 \\
        p &\leftarrow p - lr \cdot \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + eps}

    All parameters of a group are stepped in one pass over memory.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: the shares of :math:`m` and :math:`v` that each step leaves, in [0, 1).
        eps: added to the denominator.
        weight_decay: the weight of the L2 penalty; see :class:`.AdamW` for the better way.

    Raises:
        ValueError: an option is out of range.

    >>> from megengine import Parameter
    >>> p = Parameter([1.0])
    >>> optimizer = Adam([p], lr=0.1)
    >>> p.grad = Parameter([3.0])
    >>> optimizer.step().clear_grad()
    >>> p
    Parameter([0.9], device=xpux:0)
    """

    _rule: ClassVar[str] = "adam"

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        for i in range(2):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        super().__init__(
            params, {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        )
        self._disable_type_convert = True

    def _create_state(self, param_group: ParamGroup) -> None:
        for param in param_group["params"]:
            self._add_state(param, "exp_avg")
            self._add_state(param, "exp_avg_sq")
            self._add_state(param, "step", 0.0)

    def _updates(self, param_group: ParamGroup) -> None:
        beta1, beta2 = param_group["betas"]
        optimizer_step(
            type(self).__name__,
            self._rule,
            param_group["params"],
            self._state,
            ("exp_avg", "exp_avg_sq", "step"),
            lr=param_group["lr"],
            weight_decay=param_group["weight_decay"],
            beta1=beta1,
            beta2=beta2,
            eps=param_group["eps"],
        )
