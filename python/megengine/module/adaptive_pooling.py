"""Pooling to a given size."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class _AdaptivePoolNd(Module):
    def __init__(self, oshp: int | tuple[int, int] | Tensor, **kwargs: Any):
        super().__init__(**kwargs)
        self.oshp = oshp

    @abstractmethod
    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, *oshp)."""


class AdaptiveMaxPool2d(_AdaptivePoolNd):
    """The largest value in windows chosen to give ``oshp`` of them.

    The step is the input size // the output size, and the window covers what is left.

    >>> import megengine.functional as F
    >>> AdaptiveMaxPool2d(2)(F.ones((1, 3, 8, 8))).shape
    (1, 3, 2, 2)
    """

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, *oshp)."""
        return F.adaptive_max_pool2d(inp, self.oshp)


class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """The mean of windows chosen to give ``oshp`` of them; see :class:`AdaptiveMaxPool2d`.

    >>> import megengine.functional as F
    >>> AdaptiveAvgPool2d((1, 1))(F.ones((1, 3, 8, 8))).shape
    (1, 3, 1, 1)
    """

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, *oshp)."""
        return F.adaptive_avg_pool2d(inp, self.oshp)
