"""Adagrad."""

from __future__ import annotations

from .._core import optimizer_step
from .optimizer import Optimizer, ParamGroup, Params


class Adagrad(Optimizer):
    r"""Adagrad (Duchi et al., "Adaptive subgradient methods", 2011).

    .. math::
        d &= g + weight\_decay \cdot p \\
        v &\leftarrow v + d^2 \\
        p &\leftarrow p - \frac{lr}{1 + (t - 1)\ lr\_decay} \cdot \frac{d}{\sqrt{v + eps}}

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        lr_decay: how the learning rate falls with the number of steps.
        eps: added to :math:`v` under the root.
        weight_decay: the weight of the L2 penalty.

    Raises:
        AssertionError: an option is negative.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
    ):
        assert lr >= 0.0, f"Invalid learning rate: {lr}"
        assert lr_decay >= 0.0, f"Invalid learning rate decay: {lr_decay}"
        assert eps >= 0.0, f"Invalid epsilon value: {eps}"
        assert weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}"
        super().__init__(
            params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        )
        self._disable_type_convert = True

    def _create_state(self, param_group: ParamGroup) -> None:
        for param in param_group["params"]:
            self._add_state(param, "square_avg")
            self._add_state(param, "step", 0.0)

    def _updates(self, param_group: ParamGroup) -> None:
        optimizer_step(
            "Adagrad",
            "adagrad",
            param_group["params"],
            self._state,
            ("square_avg", "step"),
            lr=param_group["lr"],
            weight_decay=param_group["weight_decay"],
            eps=param_group["eps"],
            lr_decay=param_group["lr_decay"],
        )
