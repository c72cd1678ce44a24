"""A learning rate that falls at given epochs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from .lr_scheduler import LRScheduler
from .optimizer import Optimizer


class MultiStepLR(LRScheduler):
    r"""Multiplies the rate by ``gamma`` at each milestone.

    Args:
        optimizer: the optimizer.
        milestones: epochs, in increasing order.
        gamma: the factor.
        current_epoch: the last epoch that is over; -1 at the start.

    Raises:
        ValueError: the milestones do not increase.

    >>> from megengine import Parameter
    >>> from megengine.optimizer import SGD
    >>> optimizer = SGD([Parameter([1.0])], lr=1.0)
    >>> scheduler = MultiStepLR(optimizer, [2, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(optimizer.param_groups[0]["lr"])
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        current_epoch: int = -1,
    ):
        milestones = list(milestones)
        if milestones != sorted(milestones):
            raise ValueError(
                f"Milestones should be a list of increasing integers. Got {milestones}"
            )
        self.milestones = milestones
        self.gamma = gamma
        super().__init__(optimizer, current_epoch)

    def get_lr(self) -> list[float]:
        """The rate of each group in epoch ``current_epoch``."""
        factor = self.gamma ** bisect_right(self.milestones, self.current_epoch)
        return [base * factor for base in self.base_lrs]
