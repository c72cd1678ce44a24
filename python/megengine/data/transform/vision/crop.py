"""Parts of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import VisionTransform, move
from .pad import Pad
from .sizes import size_pair

__all__ = ["CenterCrop", "RandomCrop", "RandomResizedCrop"]


class CenterCrop(VisionTransform):
    """Cuts the middle out of images; it is a view of the whole one.

    Args:
        output_size: height and width; one number is both.
        order: see :class:`VisionTransform`.

    Raises:
        ValueError: the image is smaller.

    >>> CenterCrop(2).apply(np.arange(16).reshape(4, 4, 1))[..., 0].tolist()
    [[5, 6], [9, 10]]
    """

    def __init__(
        self, output_size: int | Sequence[int], *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.output_size = size_pair("CenterCrop", output_size)

    def apply(self, input: Any) -> Any:
        """The middle of the item."""
        self._coord_info = self._get_coord(self._get_image(input))
        return super().apply(input)

    def _get_coord(self, image: Any) -> tuple[int, int]:
        """Where the part begins: x, y."""
        F.check_image("CenterCrop", image)
        (height, width), (to_height, to_width) = image.shape[:2], self.output_size
        if to_height > height or to_width > width:
            raise ValueError(
                "CenterCrop: output size is bigger than image size: "
                f"{self.output_size} of {(height, width)}; make the image larger first"
            )
        # Half pixels go to the even one.
        return round((width - to_width) / 2), round((height - to_height) / 2)

    def _apply_image(self, image: Any) -> Any:
        (x, y), (height, width) = self._coord_info, self.output_size
        return image[y : y + height, x : x + width]

    def _apply_coords(self, coords: Any) -> Any:
        x, y = self._coord_info
        return move(coords, shift=(-x, -y))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("CenterCrop", mask, (2, 3), "mask")
        return self._apply_image(mask)


class RandomCrop(VisionTransform):
    """Cuts a part of a size out of images, anywhere.

    What is missing where an image is smaller is put on its right and below. Takes two numbers of
    ``np.random.randint``, for x and y.

    Args:
        output_size: height and width; one number is both.
        padding_size: a border around images before they are cut; see :class:`Pad`.
        padding_value: of the border of images: a number, or one for each channel.
        padding_maskvalue: of the border of masks.
        order: see :class:`VisionTransform`.

    >>> image = np.ones((4, 4, 1), dtype="uint8")
    >>> RandomCrop((2, 3)).apply(image).shape, RandomCrop(5, padding_value=0).apply(image).shape
    ((2, 3, 1), (5, 5, 1))
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        padding_size: int | Sequence[int] = 0,
        padding_value: Any = [0, 0, 0],  # noqa: B006 - it is not changed
        padding_maskvalue: Any = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.output_size = size_pair("RandomCrop", output_size)
        self.pad = Pad(padding_size, padding_value, padding_maskvalue)
        self.padding_value = padding_value
        self.padding_maskvalue = padding_maskvalue

    def apply(self, input: Any) -> Any:
        """A part of the item."""
        image = self._get_image(input)
        F.check_image("RandomCrop", image)
        top, bottom, left, right = self.pad.size
        self._h = image.shape[0] + top + bottom
        self._w = image.shape[1] + left + right
        self._th, self._tw = self.output_size
        self._x = np.random.randint(0, max(0, self._w - self._tw) + 1)
        self._y = np.random.randint(0, max(0, self._h - self._th) + 1)
        return super().apply(input)

    def _apply_image(self, image: Any) -> Any:
        return self._crop(image, self.padding_value)

    def _apply_coords(self, coords: Any) -> Any:
        top, _, left, _ = self.pad.size
        return move(coords, shift=(left - self._x, top - self._y))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("RandomCrop", mask, (2, 3), "mask")
        return self._crop(mask, self.padding_maskvalue)

    def _crop(self, image: Any, value: Any) -> Any:
        """The part. Only where it is beyond the image a border is made, around what is kept."""
        top, _, left, _ = self.pad.size
        y, x = self._y - top, self._x - left
        part = image[max(y, 0) : max(y + self._th, 0), max(x, 0) : max(x + self._tw, 0)]
        above, before = max(-y, 0), max(-x, 0)
        above, before = min(above, self._th), min(before, self._tw)
        below, behind = self._th - part.shape[0] - above, self._tw - part.shape[1] - before
        if not (above or below or before or behind):
            return part
        return F.pad(part, (above, below, before, behind), value)


class RandomResizedCrop(VisionTransform):
    """Cuts a part of any size and place out of images and resizes it.

    The share of the area is drawn with ``np.random.uniform``, and so is the logarithm of width by
    height, until such a part fits, ten times at most; then the largest part in the middle is
    taken. ``np.random.randint`` gives x, then y.

    Args:
        output_size: height and width; one number is both.
        scale_range: the least and the largest share of the area.
        ratio_range: the least and the largest width by height.
        interpolation: see :class:`Resize`.
        order: see :class:`VisionTransform`.

    Raises:
        ValueError: a range is not of the kind (least, largest).

    >>> RandomResizedCrop(8).apply(np.zeros((20, 30, 3), dtype="uint8")).shape
    (8, 8, 3)
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        scale_range: Sequence[float] = (0.08, 1.0),
        ratio_range: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: int = 1,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.output_size = size_pair("RandomResizedCrop", output_size)
        for name, given in (("scale_range", scale_range), ("ratio_range", ratio_range)):
            if not isinstance(given, Sequence) or len(given) != 2 or not 0 < given[0] <= given[1]:
                raise ValueError(
                    f"RandomResizedCrop: {name} should be of kind (min, max), above 0, got {given}"
                )
        self.scale_range = scale_range
        self.ratio_range = ratio_range
        self.interpolation = interpolation

    def apply(self, input: Any) -> Any:
        """A part of the item, resized."""
        image = self._get_image(input)
        F.check_image("RandomResizedCrop", image)
        self._coord_info = self._get_coord(image)
        return super().apply(input)

    def _get_coord(self, image: Any, attempts: int = 10) -> tuple[int, int, int, int]:
        """The part: x, y, width, height."""
        height, width = image.shape[:2]
        least, most = self.scale_range
        low, high = self.ratio_range
        for _ in range(attempts):
            area = np.random.uniform(least, most) * height * width
            ratio = math.exp(np.random.uniform(math.log(low), math.log(high)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                x = np.random.randint(0, width - w + 1)
                y = np.random.randint(0, height - h + 1)
                return x, y, w, h
        w, h = width, height
        if width < low * height:
            h = max(round(width / low), 1)
        elif width > high * height:
            w = max(round(height * high), 1)
        return (width - w) // 2, (height - h) // 2, w, h

    def _apply_image(self, image: Any) -> Any:
        return self._crop(image, self.interpolation)

    def _apply_coords(self, coords: Any) -> Any:
        x, y, width, height = self._coord_info
        to_height, to_width = self.output_size
        return move(move(coords, shift=(-x, -y)), (to_width / width, to_height / height))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image("RandomResizedCrop", mask, (2, 3), "mask")
        return self._crop(mask, 0)  # a mix of two classes would be a third

    def _crop(self, image: Any, interpolation: int) -> Any:
        x, y, width, height = self._coord_info
        # OpenCV reads the part where it is: nothing is copied.
        return F.resize(image[y : y + height, x : x + width], self.output_size, interpolation)
