"""Base classes of what is done to items on their way to a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["PseudoTransform", "Transform"]


class Transform(ABC):
    """Changes an item; a subclass gives :meth:`apply`."""

    def apply_batch(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The items of a batch, changed one by one."""
        return tuple(self.apply(item) for item in inputs)

    @abstractmethod
    def apply(self, input: Any) -> Any:
        """The item, changed."""

    def __repr__(self) -> str:
        return type(self).__name__


class PseudoTransform(Transform):
    """Changes nothing.

    >>> PseudoTransform().apply(3)
    3
    """

    def apply(self, input: Any) -> Any:
        """The item itself."""
        return input
