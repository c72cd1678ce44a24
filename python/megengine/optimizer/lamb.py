"""LAMB, for large batches."""

from __future__ import annotations

from typing import ClassVar

from .._core import optimizer_step
from ..tensor import Parameter, Tensor
from .optimizer import Optimizer, ParamGroup, Params


class LAMB(Optimizer):
    r"""LAMB (You et al., "Large batch optimization for deep learning", 2020).

    .. math::
        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        u &= \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + eps} + weight\_decay \cdot p \\
        p &\leftarrow p - lr \cdot \frac{\lVert p \rVert}{\lVert u \rVert} \cdot u

    with the norms of each parameter as a whole. Where one of them is 0, and without weight decay
    unless ``always_adapt`` says so, their ratio counts as 1.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: the shares of :math:`m` and :math:`v` that each step leaves, in [0, 1).
        eps: added to the denominator.
        bias_correction: divide :math:`m` and :math:`v` as above; False leaves them as they are.
        weight_decay: the weight of the decay, part of the update.
        always_adapt: use the ratio of norms without weight decay too.

    Raises:
        ValueError: an option is out of range.

    >>> from megengine import Parameter
    >>> p = Parameter([1.0])
    >>> optimizer = LAMB([p], lr=0.1, weight_decay=0.5)
    >>> p.grad = Parameter([3.0])
    >>> optimizer.step().clear_grad()
    >>> p
    Parameter([0.9], device=xpux:0)
    """

    _master: ClassVar[str | None] = None

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        bias_correction: bool = True,
        weight_decay: float = 0.0,
        always_adapt: bool = False,
    ):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        for i in range(2):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        self.bias_correction = bias_correction
        self.always_adapt = always_adapt
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
            "lamb",
            param_group["params"],
            self._state,
            ("exp_avg", "exp_avg_sq", "step"),
            lr=param_group["lr"],
            weight_decay=param_group["weight_decay"],
            beta1=beta1,
            beta2=beta2,
            eps=param_group["eps"],
            bias_correction=bool(self.bias_correction),
            always_adapt=bool(self.always_adapt),
            master=self._master,
        )


class LAMBFp16(LAMB):
    """:class:`LAMB` for parameters of 16 bits, of which it keeps float32 copies.

    Steps are taken by the copies, state ``param_fp32``, and parameters take over their rounded
    values: changes that are too small for 16 bits add up. A parameter that is set by hand goes back
    to its copy at the next step.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: the shares of the two means that each step leaves, in [0, 1).
        eps: added to the denominator.
        bias_correction: correct the means for their start at 0.
        weight_decay: the weight of the decay, part of the update.
        always_adapt: use the ratio of norms without weight decay too.

    Raises:
        ValueError: an option is out of range.

    >>> from megengine import Parameter
    >>> p = Parameter([1.0], dtype="float16")
    >>> optimizer = LAMBFp16([p], lr=1e-4, weight_decay=0.5)
    >>> for _ in range(4):
    ...     p.grad = Parameter([3.0], dtype="float16")
    ...     _ = optimizer.step()
    >>> p
    Parameter([0.9995], dtype=float16, device=xpux:0)
    """

    _master: ClassVar[str | None] = "param_fp32"

    def _create_state(self, param_group: ParamGroup) -> None:
        super()._create_state(param_group)
        for param in param_group["params"]:
            self._state[param]["param_fp32"] = _wide_copy(param)


def _wide_copy(param: Parameter) -> Tensor:
    wide = "float64" if str(param.dtype) == "float64" else "float32"
    return Tensor(param.numpy().astype(wide), dtype=wide, device=param.device)
