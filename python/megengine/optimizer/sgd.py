"""Stochastic gradient descent."""

from __future__ import annotations

from .._core import optimizer_step
from .optimizer import Optimizer, ParamGroup, Params


class SGD(Optimizer):
    r"""Stochastic gradient descent, with momentum if wanted.

    .. math::
        d &= g + weight\_decay \cdot p \\
        m &\leftarrow momentum \cdot m + d \\
        p &\leftarrow p - lr \cdot m

    Without momentum :math:`d` takes the place of :math:`m`; with ``nesterov``,
    :math:`d + momentum \cdot m` does (Sutskever et al., 2013). All parameters of a group are
    stepped in one pass over memory.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        momentum: the share of :math:`m` that each step leaves.
        nesterov: whether to look ahead by one step.
        weight_decay: the weight of the L2 penalty.

    >>> from megengine import Parameter
    >>> p = Parameter([1.0])
    >>> optimizer = SGD([p], lr=0.5)
    >>> p.grad = Parameter([0.5])
    >>> optimizer.step().clear_grad()
    >>> p
    Parameter([0.75], device=xpux:0)
    """

    def __init__(
        self,
        params: Params,
        lr: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ):
        assert lr >= 0.0, f"Invalid learning rate: {lr}"
        assert momentum >= 0.0, f"Invalid momentum value: {momentum}"
        assert weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}"
        assert not nesterov or momentum > 0.0, "Nesterov momentum requires a momentum"
        self.nesterov = nesterov
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._disable_type_convert = True

    def _create_state(self, param_group: ParamGroup) -> None:
        if param_group["momentum"] != 0.0:
            for param in param_group["params"]:
                self._add_state(param, "momentum_buffer")

    def _updates(self, param_group: ParamGroup) -> None:
        momentum = param_group["momentum"]
        rule = "sgd"
        if momentum != 0.0:
            rule = "sgd_nesterov" if self.nesterov else "sgd_momentum"
        optimizer_step(
            "SGD",
            rule,
            param_group["params"],
            self._state,
            () if rule == "sgd" else ("momentum_buffer",),
            lr=param_group["lr"],
            momentum=momentum,
            weight_decay=param_group["weight_decay"],
        )
