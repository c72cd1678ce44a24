"""Adadelta."""

from __future__ import annotations

from .._core import optimizer_step
from .optimizer import Optimizer, ParamGroup, Params


class Adadelta(Optimizer):
    r"""Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012).

    .. math::
        d &= g + weight\_decay \cdot p \\
        v &\leftarrow \rho v + (1 - \rho) d^2 \\
        u &= d \sqrt{a + eps} / \sqrt{v + eps} \\
        a &\leftarrow \rho a + (1 - \rho) u^2 \\
        p &\leftarrow p - lr \cdot u

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: a factor on each step.
        rho: the share of the means :math:`v` and :math:`a` that each step leaves, in [0, 1].
        eps: added under the roots.
        weight_decay: the weight of the L2 penalty.

    Raises:
        AssertionError: an option is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        assert lr >= 0.0, f"Invalid learning rate: {lr}"
        assert 0.0 <= rho <= 1.0, f"Invalid rho value: {rho}"
        assert eps >= 0.0, f"Invalid epsilon value: {eps}"
        assert weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}"
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})
        self._disable_type_convert = True

    def _create_state(self, param_group: ParamGroup) -> None:
        for param in param_group["params"]:
            self._add_state(param, "square_avg")
            self._add_state(param, "acc_delta")
            self._add_state(param, "step", 0.0)

    def _updates(self, param_group: ParamGroup) -> None:
        optimizer_step(
            "Adadelta",
            "adadelta",
            param_group["params"],
            self._state,
            ("square_avg", "acc_delta", "step"),
            lr=param_group["lr"],
            weight_decay=param_group["weight_decay"],
            beta1=param_group["rho"],
            eps=param_group["eps"],
        )
