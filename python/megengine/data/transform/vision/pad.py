"""A border around images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import functional as F
from .base import VisionTransform, move

__all__ = ["Pad"]


class Pad(VisionTransform):
    """Puts a border around images and masks.

    Args:
        size: pixels on each side; two numbers: below and on the right; four: above, below, on the
            left and on the right.
        value: the border of images: a number, or one for each channel. A float makes images
            float32.
        mask_value: the border of masks.
        order: see :class:`VisionTransform`.

    >>> import numpy as np
    >>> Pad(1, value=7).apply(np.zeros((1, 1, 3), dtype="uint8"))[..., 0].tolist()
    [[7, 7, 7], [7, 0, 7], [7, 7, 7]]
    """

    def __init__(
        self,
        size: int | Sequence[int] = 0,
        value: Any = 0,
        mask_value: Any = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.size = F.pad_size("Pad", size)
        self.value = value
        self.mask_value = mask_value

    def _apply_image(self, image: Any) -> Any:
        F.check_image("Pad", image)
        return F.pad(image, self.size, self.value)

    def _apply_coords(self, coords: Any) -> Any:
        return move(coords, shift=(self.size[2], self.size[0]))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("Pad", mask, (2, 3), "mask")
        return F.pad(mask, self.size, self.mask_value)
