"""Local response normalisation (Krizhevsky et al., 2012)."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class LocalResponseNorm(Module):
    r"""Divides each pixel by a power of the sum of squares over near channels.

    See :func:`.functional.nn.local_response_norm` for the formula.

    Args:
        kernel_size: the number of channels in a sum, odd.
        k: the constant term.
        alpha: the factor of the sum.
        beta: the power.

    >>> import megengine.functional as F
    >>> LocalResponseNorm(3, k=1.0, alpha=1.0, beta=1.0)(F.ones((1, 1, 1, 1))).item()
    0.5
    """

    def __init__(
        self,
        kernel_size: int = 5,
        k: float = 2.0,
        alpha: float = 1e-4,
        beta: float = 0.75,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self.k = k
        self.alpha = alpha
        self.beta = beta

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to the same."""
        return F.nn.local_response_norm(inp, self.kernel_size, self.k, self.alpha, self.beta)
