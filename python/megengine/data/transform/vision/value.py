"""Values and layout of images: what brings them into the form that networks take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import functional as F
from . import pixels
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
        numbers = self._of_channels(image)
        if numbers is not None:
            return pixels.normalize(image, *numbers, as_planes=False)
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

    def _of_channels(self, image: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """`mean` and `std` with a number for each channel; None if the kernel does not fit."""
        if not pixels.suits(image):
            return None
        shape = (image.shape[2],)
        for array in (self.mean, self.std):
            if array.dtype != np.float32 or array.shape not in ((), (1,), shape):
                return None
        mean, std = (
            array if array.shape == shape else np.full(shape, array, np.float32)
            for array in (self.mean, self.std)
        )
        return mean, std


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
        return _planes(image)

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("ToMode", mask, (2, 3), "mask")
        return mask if mask.ndim == 2 else _planes(mask)


def _planes(image: NDArray[Any]) -> NDArray[Any]:
    """A copy as (channels, height, width)."""
    if pixels.suits(image):
        return pixels.planes(image)
    return np.array(image.transpose(2, 0, 1), order="C")


class NormalizeToMode(ValueTransform):
    """:class:`Normalize`, then :class:`ToMode`, in one pass over images of 8 bits.

    :class:`.Compose` puts it in their place. The values are the same, to the bit.
    """

    def __init__(self, normalize: Normalize, to_mode: ToMode) -> None:
        super().__init__(normalize.order)
        self.normalize = normalize
        self.to_mode = to_mode

    def _apply_image(self, image: Any) -> Any:
        numbers = self.normalize._of_channels(image)
        if numbers is not None:
            return pixels.normalize(image, *numbers, as_planes=True)
        return self.to_mode._apply_image(self.normalize._apply_image(image))

    def _apply_mask(self, mask: Any) -> Any:
        return self.to_mode._apply_mask(mask)


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
        F.check_image("GaussianNoise", image, (2, 3), kinds="biuf")
        noise = np.random.normal(self.mean, self.std, image.shape) * 255
        return np.clip(image + noise.astype(np.float32), 0, 255).astype(image.dtype)
