"""Values and layout of images: what brings them into the form that networks take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import ValueTransform

__all__ = ["GaussianNoise", "Normalize", "ToMode"]


class Normalize(ValueTransform):
    """Subtracts a mean from images and divides by a deviation.

    8- and 16-bit integers and float32 give float32.

    Args:
        mean: a number, or one for each channel.
        std: the deviation, likewise.
        order: see :class:`VisionTransform`.

    Raises:
        ValueError: a deviation is 0, or an image has another number of channels.

    >>> Normalize(mean=[1, 2, 3], std=2).apply(np.ones((1, 1, 3), dtype="uint8")).tolist()
    [[[0.0, -0.5, -1.0]]]
    """

    def __init__(
        self, mean: Any = 0.0, std: Any = 1.0, *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.mean = np.array(mean, dtype=np.float32)
        self.std = np.array(std, dtype=np.float32)
        if not self.std.all():
            raise ValueError(f"Normalize: std must not be 0, got {std!r}")

    def _apply_image(self, image: Any) -> Any:
        array = np.asarray(image)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"Normalize: image must be an array of numbers, got {type(image).__name__}"
            )
        try:
            return (array - self.mean) / self.std
        except ValueError as error:
            raise ValueError(
                f"Normalize: mean and std, of shapes {self.mean.shape} and {self.std.shape}, do "
                f"not go with an image of shape {array.shape}"
            ) from error


class ToMode(ValueTransform):
    """Brings images from (height, width, channels) to (channels, height, width).

    Masks of three dimensions go along; those of two stay.

    Args:
        mode: "CHW".
        order: see :class:`VisionTransform`.

    >>> ToMode().apply(np.zeros((20, 30, 3))).shape
    (3, 20, 30)
    """

    def __init__(self, mode: str = "CHW", *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if mode != "CHW":
            raise ValueError(f"ToMode: unsupported mode: {mode}; 'CHW' is the only one")
        self.mode = mode

    def _apply_image(self, image: Any) -> Any:
        F.check_image("ToMode", image)
        return np.ascontiguousarray(image.transpose(2, 0, 1))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("ToMode", mask, (2, 3), "mask")
        return mask if mask.ndim == 2 else np.ascontiguousarray(mask.transpose(2, 0, 1))


class GaussianNoise(ValueTransform):
    """Adds normal noise to images, whose values are brought into the range from 0 to 255.

    The numbers come from ``np.random.normal``.

    Args:
        mean: of the noise, in units of 255; a number, or one for each channel.
        std: of the noise, likewise.
        order: see :class:`VisionTransform`.

    >>> GaussianNoise(mean=0.2, std=0).apply(np.full((1, 1, 3), 100, dtype="uint8")).tolist()
    [[[151, 151, 151]]]
    """

    def __init__(
        self, mean: Any = 0.0, std: Any = 1.0, *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.mean = np.array(mean, dtype=np.float32)
        self.std = np.array(std, dtype=np.float32)
        if (self.std < 0).any():
            raise ValueError(f"GaussianNoise: std must not be negative, got {std!r}")

    def _apply_image(self, image: Any) -> Any:
        F.check_image("GaussianNoise", image, (2, 3))
        noise = np.random.normal(self.mean, self.std, image.shape) * 255
        return np.clip(image + noise.astype(np.float32), 0, 255).astype(image.dtype)
