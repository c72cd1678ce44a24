"""The base class of learning rate schedules."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .optimizer import Optimizer


class LRScheduler:
    """Sets the learning rates of an optimizer by the number of epochs.

    A subclass gives :meth:`get_lr`. The rates at the start are kept in ``base_lrs`` (and, under
    "initial_lr", in the optimizer's groups).

    Args:
        optimizer: the optimizer.
        current_epoch: the last epoch that is over; -1 at the start.

    Raises:
        TypeError: ``optimizer`` is not an :class:`.Optimizer`.
        KeyError: training goes on (``current_epoch`` is not -1) but a group lacks "initial_lr".
    """

    def __init__(self, optimizer: Optimizer, current_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError("optimizer argument given to the lr_scheduler should be Optimizer")
        self.optimizer = optimizer
        self.current_epoch = current_epoch
        for i, group in enumerate(optimizer.param_groups):
            if current_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an "
                    "optimizer"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group in epoch ``current_epoch``, from ``base_lrs``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch, or to this one, and sets the rates."""
        self.current_epoch = self.current_epoch + 1 if epoch is None else epoch
        self._set_lrs()

    def _set_lrs(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and its rates, to be saved."""
        return {
            name: copy.deepcopy(value)
            for name, value in self.__dict__.items()
            if name not in ("optimizer", "base_lrs")
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over what :meth:`state_dict` gave, and sets the rates of that epoch.

        It does not matter whether the optimizer's own state is loaded before or after.

        Raises:
            KeyError: something is missing; nothing is changed then.
        """
        names = self.state_dict().keys()
        for name in names:
            if name not in state_dict:
                raise KeyError(
                    f"key '{name}' is not specified in state_dict when loading state dict"
                )
        self.__dict__.update({name: copy.deepcopy(state_dict[name]) for name in names})
        self._set_lrs()
