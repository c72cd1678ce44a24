"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ..functional import broadcast_to, expm1, full_like, log, log1p, where
from ..random import exponential
from ..tensor import Tensor
from .distribution import Distribution, Shape

__all__ = ["Exponential"]


def _tensor(name: str, value: Any) -> Tensor:
    if not isinstance(value, (Tensor, int, float)):
        raise TypeError(f"{name}: expected a Tensor or a number, got {type(value).__name__}")
    return value if isinstance(value, Tensor) else Tensor(value, dtype="float32")


class Exponential(Distribution):
    r"""The exponential distribution, of the times between events that come at a constant rate.

    Its density is :math:`\lambda e^{-\lambda x}` for x >= 0, and 0 below.

    Args:
        rate: lambda > 0, a number or a Tensor.

    Raises:
        ValueError: for a rate that is not positive.

    >>> import megengine as mge
    >>> Exponential(2.0).cdf(mge.tensor([-1.0, 0.0, float("inf")]))
    Tensor([0. 0. 1.], device=xpux:0)
    """

    def __init__(self, rate: Tensor | float) -> None:
        self.rate = rate if isinstance(rate, Tensor) else Tensor(rate, dtype="float32")
        if not bool((self.rate.numpy() > 0).all()):
            raise ValueError("Exponential: expected a rate above 0")
        super().__init__(tuple(self.rate.shape))

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Exponential:
        """The distribution with its rate broadcast to ``batch_shape``.

        >>> Exponential(2.0).expand((2, 3)).batch_shape
        (2, 3)
        """
        out = Exponential.__new__(type(self)) if _instance is None else _instance
        shape = _core.make_shape(batch_shape)
        out.rate = broadcast_to(self.rate, shape)
        Distribution.__init__(out, shape)
        return out

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return 1 / self.rate

    @property
    def stddev(self) -> Tensor:
        """1 / rate."""
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        """1 / rate^2."""
        return 1 / self.rate**2

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Random draws of shape ``sample_shape`` + ``batch_shape``; they carry no gradient."""
        return exponential(self.rate, size=_core.make_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log(rate) - rate * value; -inf for a value below 0.

        >>> import megengine as mge
        >>> Exponential(1.0).log_prob(mge.tensor([2.0]))
        Tensor([-2.], device=xpux:0)
        """
        value = _tensor("log_prob", value)
        inside = log(self.rate) - self.rate * value
        return where(value < 0, full_like(inside, -np.inf), inside)

    def cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-rate * value); 0 for a value below 0."""
        value = _tensor("cdf", value)
        inside = -expm1(-self.rate * value)
        return where(value < 0, full_like(inside, 0.0), inside)

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - value) / rate; NaN outside of [0, 1]."""
        value = _tensor("icdf", value)
        inside = -log1p(-value) / self.rate
        return where(value < 0, full_like(inside, np.nan), inside)
