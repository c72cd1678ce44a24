"""Pixel shuffle (Shi et al., 2016)."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class PixelShuffle(Module):
    """Turns channels into pixels: (N, C r^2, H, W) to (N, C, H r, W r).

    Args:
        upscale_factor: r.

    >>> import megengine.functional as F
    >>> PixelShuffle(2)(F.ones((1, 8, 3, 3))).shape
    (1, 2, 6, 6)
    """

    def __init__(self, upscale_factor: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """(N, C r^2, H, W) to (N, C, H r, W r)."""
        return F.nn.pixel_shuffle(x, self.upscale_factor)
