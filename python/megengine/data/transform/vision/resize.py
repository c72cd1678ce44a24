"""Images in other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import VisionTransform, move
from .sizes import positive, size_pair

__all__ = ["RandomResize", "Resize", "ShortestEdgeResize"]


class _Resizing(VisionTransform):
    """Gives items another size, which a subclass finds in ``_get_shape``."""

    interpolation: int

    def apply(self, input: Any) -> Any:
        """The item in its new size."""
        image = self._get_image(input)
        F.check_image(type(self).__name__, image)
        self._shape_info = self._get_shape(image)
        return super().apply(input)

    def _get_shape(self, image: Any) -> tuple[int, int, int, int]:
        """Height and width, then the new ones."""
        raise NotImplementedError(f"{type(self).__name__} does not define _get_shape")

    def _apply_image(self, image: Any) -> Any:
        return self._resize(image, self.interpolation)

    def _apply_coords(self, coords: Any) -> Any:
        height, width, to_height, to_width = self._shape_info
        return move(coords, (to_width / width, to_height / height))

    def _apply_mask(self, mask: Any) -> Any:
        F.check_image(type(self).__name__, mask, (2, 3), "mask")
        return self._resize(mask, 0)  # a mix of two classes would be a third

    def _resize(self, image: Any, interpolation: int) -> Any:
        height, width, to_height, to_width = self._shape_info
        if (height, width) == (to_height, to_width):
            return image
        return F.resize(image, (to_height, to_width), interpolation)


class Resize(_Resizing):
    """Gives images one size.

    Masks take the nearest pixels; boxes and points move along.

    Args:
        output_size: height and width; or one number: the length of the shorter edge, the other
            keeps the ratio, rounded down.
        interpolation: how pixels come about, as OpenCV counts them: 0 nearest, 1 linear, 2 cubic,
            3 area, 4 Lanczos.
        order: see :class:`VisionTransform`.

    >>> image = np.zeros((20, 30, 3), dtype="uint8")
    >>> Resize((8, 9)).apply(image).shape, Resize(10).apply(image).shape
    ((8, 9, 3), (10, 15, 3))
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        interpolation: int = 1,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        pair = size_pair("Resize", output_size)
        self.output_size = pair[0] if F.is_integer(output_size) else pair
        self.interpolation = interpolation

    def _get_shape(self, image: Any) -> tuple[int, int, int, int]:
        height, width = image.shape[:2]
        if isinstance(self.output_size, tuple):
            return height, width, *self.output_size
        short = self.output_size
        if height <= width:
            return height, width, short, int(short * width / max(height, 1))
        return height, width, int(short * height / max(width, 1)), short


class ShortestEdgeResize(_Resizing):
    """Gives the shorter edge of images a length, as long as the longer one stays below a limit.

    Args:
        min_size: the length of the shorter edge; or several, of which one is drawn.
        max_size: the most that the longer edge may have; where it would have more, the shorter one
            becomes shorter as well.
        sample_style: "range" draws from ``min_size[0]`` to ``min_size[1]``, both included, with
            ``np.random.randint``; "choice" one of ``min_size``, with ``np.random.choice``.
        interpolation: see :class:`Resize`.
        order: see :class:`VisionTransform`.

    >>> image = np.zeros((20, 30, 3), dtype="uint8")
    >>> ShortestEdgeResize(40, 100).apply(image).shape
    (40, 60, 3)
    >>> ShortestEdgeResize(40, 45).apply(image).shape
    (30, 45, 3)
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int,
        sample_style: str = "range",
        interpolation: int = 1,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        if sample_style not in ("range", "choice"):
            raise NotImplementedError(f"{sample_style} is unsupported sample style")
        sizes: Any = (min_size, min_size) if F.is_integer(min_size) else min_size
        if (
            not isinstance(sizes, Sequence)
            or not sizes
            or not all(map(F.is_integer, sizes))
            or min(sizes) < 1
            or (sample_style == "range" and (len(sizes) != 2 or sizes[0] > sizes[1]))
        ):
            wanted = "(least, most)" if sample_style == "range" else "several of which one is drawn"
            raise ValueError(
                f"ShortestEdgeResize: min_size must be a positive integer or {wanted}, got "
                f"{min_size!r}"
            )
        self.sample_style = sample_style
        self.min_size = tuple(sizes)
        self.max_size = positive("ShortestEdgeResize", "max_size", max_size)
        self.interpolation = interpolation

    def _get_shape(self, image: Any) -> tuple[int, int, int, int]:
        height, width = image.shape[:2]
        if self.sample_style == "range":
            size = np.random.randint(self.min_size[0], self.min_size[1] + 1)
        else:
            size = np.random.choice(self.min_size)
        scale = size / max(min(height, width), 1)
        new = (size, scale * width) if height < width else (scale * height, size)
        if max(new) > self.max_size:
            scale = self.max_size / max(new)
            new = (new[0] * scale, new[1] * scale)
        return height, width, max(round(float(new[0])), 1), max(round(float(new[1])), 1)


class RandomResize(_Resizing):
    """Scales both edges of images by a factor that is drawn with ``np.random.uniform``.

    Args:
        scale_range: the least and the largest factor.
        interpolation: see :class:`Resize`.
        order: see :class:`VisionTransform`.

    >>> RandomResize((0.5, 0.5)).apply(np.zeros((20, 30, 3), dtype="uint8")).shape
    (10, 15, 3)
    """

    def __init__(
        self,
        scale_range: Sequence[float],
        interpolation: int = 1,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        if not isinstance(scale_range, Sequence) or len(scale_range) != 2 or min(scale_range) <= 0:
            raise ValueError(
                "RandomResize: scale_range must be the least and the largest factor, both above "
                f"0, got {scale_range!r}"
            )
        self.scale_range = scale_range
        self.interpolation = interpolation

    def _get_shape(self, image: Any) -> tuple[int, int, int, int]:
        height, width = image.shape[:2]
        scale = np.random.uniform(self.scale_range[0], self.scale_range[1])
        return height, width, max(round(scale * height), 1), max(round(scale * width), 1)
