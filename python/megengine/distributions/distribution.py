"""What all distributions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from .. import _core
from ..functional import sqrt
from ..tensor import Tensor

__all__ = ["Distribution"]

Shape = SupportsIndex | Sequence[SupportsIndex] | Tensor


class Distribution:
    """The base of probability distributions.

    A distribution stands for a batch of independent ones, with parameters of shape ``batch_shape``;
    a single draw from one of them has shape ``event_shape``, () for numbers.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of a draw.

    A class for a distribution defines what it can: :attr:`mean`, :attr:`variance`, :meth:`sample`,
    :meth:`log_prob`, :meth:`cdf`, :meth:`icdf` and :meth:`expand`. The rest raises
    NotImplementedError.
    """

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = ()) -> None:
        self._batch_shape = _core.make_shape(batch_shape)
        self._event_shape = _core.make_shape(event_shape)

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {name}")

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Distribution:
        """The distribution with parameters broadcast to a larger ``batch_shape``.

        Args:
            batch_shape: the shape of the batch to be had.
            _instance: for classes that extend another: the object to set up, instead of a new one.
        """
        raise self._missing("expand")

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of a single draw from a single distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._missing("mean")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return sqrt(self.variance)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Random draws, of shape ``sample_shape`` + ``batch_shape`` + ``event_shape``."""
        raise self._missing("sample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density (or of the probability) at ``value``."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw that is at most ``value``."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of :meth:`cdf`: where it reaches the probability ``value``."""
        raise self._missing("icdf")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_shape={self._batch_shape}, "
            f"event_shape={self._event_shape})"
        )
