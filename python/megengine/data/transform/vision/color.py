"""Changes of colours at random. Images hold values from 0 to 255, blue, green and red."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functional as F
from . import pixels
from .base import ValueTransform
from .compose import Compose

__all__ = [
    "BrightnessTransform",
    "ColorJitter",
    "ContrastTransform",
    "HueTransform",
    "Lighting",
    "SaturationTransform",
]


class _Blend(ValueTransform):
    """Mixes images with something else: a share of the image, which is drawn, and the rest.

    A share above 1 makes the image differ more from the other one. Values are brought into the
    range from 0 to 255 and cut to the dtype of the image.
    """

    _what: str
    _mixed: tuple[int, ...] = (1, 2, 3, 4)  # numbers of channels that `_mix` takes

    def __init__(self, value: float, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if value < 0:
            raise ValueError(f"{self._what} value should be non-negative, got {value}")
        self.value = value

    def _apply_image(self, image: Any) -> Any:
        if self.value == 0:
            return image
        F.check_image(type(self).__name__, image, kinds="biuf")
        if image.size == 0:
            return image
        share = np.random.uniform(max(0, 1 - self.value), 1 + self.value)
        if pixels.suits(image) and image.shape[2] in self._mixed:
            return self._mix(image, share)
        exact = image.astype(np.float32)
        return np.clip(self._blend(exact, share), 0, 255).astype(image.dtype)

    def _blend(self, image: Any, share: float) -> Any:
        """The mixture, of an image in float32."""
        raise NotImplementedError(f"{type(self).__name__} does not define _blend")

    def _mix(self, image: Any, share: float) -> Any:
        """The same of an image of 8 bits, brought into range and cut."""
        raise NotImplementedError(f"{type(self).__name__} does not define _mix")


class BrightnessTransform(_Blend):
    """Makes images brighter or darker.

    Args:
        value: images are multiplied by a number from ``max(0, 1 - value)`` to ``1 + value``, drawn
            with ``np.random.uniform``; 0 leaves them.
        order: see :class:`VisionTransform`.

    >>> image = np.full((1, 1, 3), 100, dtype="uint8")
    >>> bool(70 <= BrightnessTransform(0.3).apply(image).max() <= 130)
    True
    """

    _what = "brightness"

    def _blend(self, image: Any, share: float) -> Any:
        return image * share

    def _mix(self, image: Any, share: float) -> Any:
        return pixels.mix(image, share)


class ContrastTransform(_Blend):
    """Moves images away from their mean brightness, or towards it.

    Args:
        value: the distance is multiplied by a number from ``max(0, 1 - value)`` to ``1 + value``,
            drawn with ``np.random.uniform``; 0 leaves images.
        order: see :class:`VisionTransform`.

    >>> ContrastTransform(0.3).apply(np.full((2, 2, 3), 100, dtype="uint8")).shape
    (2, 2, 3)
    """

    _what = "contrast"
    _mixed = (3, 4)

    def _blend(self, image: Any, share: float) -> Any:
        return image * share + float(F.to_gray(image).mean()) * (1 - share)

    def _mix(self, image: Any, share: float) -> Any:
        # From sums of integers: what float32 loses in the mean of a grey image is not lost here.
        blue, green, red, _ = F.opencv("ContrastTransform").mean(image)
        mean = 0.114 * blue + 0.587 * green + 0.299 * red
        return pixels.mix(image, share, mean * (1 - share))


class SaturationTransform(_Blend):
    """Makes the colours of images stronger or weaker.

    Args:
        value: the distance of each pixel from grey is multiplied by a number from ``max(0, 1 -
            value)`` to ``1 + value``, drawn with ``np.random.uniform``; 0 leaves images.
        order: see :class:`VisionTransform`.

    >>> SaturationTransform(0.3).apply(np.full((2, 2, 3), 100, dtype="uint8")).shape
    (2, 2, 3)
    """

    _what = "saturation"
    _mixed = (3,)

    def _blend(self, image: Any, share: float) -> Any:
        return image * share + F.to_gray(image) * (1 - share)

    def _mix(self, image: Any, share: float) -> Any:
        return pixels.mix(image, share, grey=1 - share)


class HueTransform(ValueTransform):
    """Turns the hue of images.

    They are taken as uint8, whatever their dtype.

    Args:
        value: the most of a turn, from 0 to 0.5, drawn with ``np.random.uniform``; 0 leaves images.
        order: see :class:`VisionTransform`.

    >>> HueTransform(0.1).apply(np.full((2, 2, 3), 100, dtype="uint8")).shape
    (2, 2, 3)
    """

    def __init__(self, value: float, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if not 0 <= value <= 0.5:
            raise ValueError(f"hue value should be in [0.0, 0.5], got {value}")
        self.value = value

    def _apply_image(self, image: Any) -> Any:
        if self.value == 0:
            return image
        F.check_image("HueTransform", image, kinds="biuf")
        if image.size == 0:
            return image
        if image.shape[2] != 3:
            raise ValueError(
                f"HueTransform: expected 3 channels, got an image of shape {image.shape}"
            )
        cv2 = F.opencv("HueTransform")
        turn = int(np.random.uniform(-self.value, self.value) * 255) % 256
        hsv = cv2.cvtColor(image.astype(np.uint8, copy=False), cv2.COLOR_BGR2HSV_FULL)
        hsv[..., 0] += np.uint8(turn)  # the hue is a circle of 256
        return cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR_FULL).astype(image.dtype)


class ColorJitter(ValueTransform):
    """Changes brightness, contrast, saturation and hue, in an order that is drawn.

    Args:
        brightness: see :class:`BrightnessTransform`; 0, as for the others, leaves it.
        contrast: see :class:`ContrastTransform`.
        saturation: see :class:`SaturationTransform`.
        hue: see :class:`HueTransform`.
        order: see :class:`VisionTransform`.

    >>> ColorJitter(0.4, 0.4, 0.4).apply(np.full((2, 2, 3), 100, dtype="uint8")).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        hue: float = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        parts: list[ValueTransform] = []
        if brightness != 0:
            parts.append(BrightnessTransform(brightness))
        if contrast != 0:
            parts.append(ContrastTransform(contrast))
        if saturation != 0:
            parts.append(SaturationTransform(saturation))
        if hue != 0:
            parts.append(HueTransform(hue))
        places = tuple(range(1, len(parts) + 1))
        self.transforms = Compose(parts, shuffle_indices=[places])

    def _apply_image(self, image: Any) -> Any:
        return self.transforms.apply(image)


class Lighting(ValueTransform):
    """Adds to all pixels of an image a colour that is drawn, in the directions of ImageNet's.

    Three numbers of ``np.random.normal`` times the principal components of the colours of
    ImageNet's images (Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural
    Networks", 2012).

    Args:
        scale: the deviation of the numbers, in units of 255; 0 leaves images.
        order: see :class:`VisionTransform`.

    >>> Lighting(0.1).apply(np.full((2, 2, 3), 100, dtype="uint8")).shape
    (2, 2, 3)
    """

    def __init__(self, scale: float, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if scale < 0:
            raise ValueError(f"lighting scale should be non-negative, got {scale}")
        self.scale = scale
        self.eigvec = np.array(
            [
                [-0.5836, -0.6948, 0.4203],
                [-0.5808, -0.0045, -0.8140],
                [-0.5675, 0.7192, 0.4009],
            ]
        )
        self.eigval = np.array([0.2175, 0.0188, 0.0045])

    def _apply_image(self, image: Any) -> Any:
        if self.scale == 0:
            return image
        F.check_image("Lighting", image, kinds="biuf")
        if image.shape[2] != 3:
            raise ValueError(f"Lighting: expected 3 channels, got an image of shape {image.shape}")
        colour = self.eigvec @ (np.random.normal(scale=self.scale * 255, size=3) * self.eigval)
        if pixels.suits(image):
            # The sum is cut, and the image holds whole numbers: so the colour may be cut before.
            return pixels.mix(image, 1, np.floor(colour))
        return np.clip(image.astype(np.float32) + colour, 0, 255).astype(image.dtype)
