"""Images of 8 bits, through kernels of the core.

They give the same bits as the plain expressions of NumPy, in one pass over the image, without
holding the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .... import _core

__all__ = ["mix", "normalize", "planes", "suits"]

_MOST_CHANNELS = 4


def suits(image: Any) -> bool:
    """Whether it is an image that the functions below take: uint8, of 1 to 4 channels."""
    return (
        isinstance(image, np.ndarray)
        and image.dtype == np.uint8
        and image.ndim == 3
        and 1 <= image.shape[2] <= _MOST_CHANNELS
    )


def normalize(
    image: NDArray[Any], mean: NDArray[Any], std: NDArray[Any], as_planes: bool
) -> NDArray[Any]:
    """(image - mean) / std, float32, as (channels, height, width) if `as_planes`.

    `mean` and `std` are float32, a number for each channel.
    """
    height, width, channels = image.shape
    shape = (channels, height, width) if as_planes else (height, width, channels)
    out = np.empty(shape, np.float32)
    _core.normalize_pixels(_side_by_side(image), mean, std, out, as_planes)
    return out


def planes(image: NDArray[Any]) -> NDArray[Any]:
    """A copy as (channels, height, width)."""
    height, width, channels = image.shape
    out = np.empty((channels, height, width), np.uint8)
    _core.pixel_planes(_side_by_side(image), out)
    return out


def mix(image: NDArray[Any], share: float, offset: Any = 0.0, grey: float = 0.0) -> NDArray[Any]:
    """Colours mixed: image * share + offset, or + (grey image) * grey where that is not 0.

    The values are brought into [0, 255] and cut. `offset` is a number, or one for each channel;
    there is a grey image only of three channels.
    """
    out = np.empty(image.shape, np.uint8)
    offsets = np.full(image.shape[2], offset, np.float32)
    _core.mix_pixels(_side_by_side(image), share, offsets, grey, out)
    return out


def _side_by_side(image: NDArray[Any]) -> NDArray[Any]:
    """The image, copied if its pixels do not stand side by side; rows may."""
    return image if image.strides[1:] == (image.shape[2], 1) else np.ascontiguousarray(image)
