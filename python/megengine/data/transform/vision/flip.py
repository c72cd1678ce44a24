"""Images mirrored at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import VisionTransform, move

__all__ = ["RandomHorizontalFlip", "RandomVerticalFlip"]


class _RandomFlip(VisionTransform):
    """Mirrors one axis of an item, or leaves it. Takes one number of ``np.random.random()``."""

    _axis: int  # of the image

    def __init__(self, prob: float = 0.5, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if not 0 <= prob <= 1:
            raise ValueError(f"{type(self).__name__}: prob must be from 0 to 1, got {prob}")
        self.prob = prob

    def apply(self, input: Any) -> Any:
        """The item, mirrored or as it was."""
        image = self._get_image(input)
        F.check_image(type(self).__name__, image)
        self._flipped = bool(np.random.random() < self.prob)
        self._length = image.shape[self._axis]
        return super().apply(input)

    def _apply_image(self, image: Any) -> Any:
        return F.flip(image, self._axis) if self._flipped else image

    def _apply_coords(self, coords: Any) -> Any:
        if not self._flipped:
            return coords
        return (
            move(coords, (-1, 1), (self._length, 0))
            if self._axis
            else move(coords, (1, -1), (0, self._length))
        )

    def _apply_mask(self, mask: Any) -> Any:
        return F.flip(mask, self._axis) if self._flipped else mask


class RandomHorizontalFlip(_RandomFlip):
    """Exchanges left and right at random.

    Args:
        prob: how often, from 0 to 1.
        order: see :class:`VisionTransform`.

    >>> RandomHorizontalFlip(1).apply(np.arange(3).reshape(1, 3, 1)).ravel().tolist()
    [2, 1, 0]
    """

    _axis = 1


class RandomVerticalFlip(_RandomFlip):
    """Exchanges above and below at random.

    Args:
        prob: how often, from 0 to 1.
        order: see :class:`VisionTransform`.

    >>> RandomVerticalFlip(1).apply(np.arange(3).reshape(3, 1, 1)).ravel().tolist()
    [2, 1, 0]
    """

    _axis = 0
