"""Functions of images, which the transforms are made of.

Images are arrays of (height, width, channels), colours in OpenCV's order: blue, green, red.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["flip", "pad", "resize", "to_bgr", "to_gray", "wrap_keepdims"]

Image = NDArray[Any]

_RESIZED = [np.dtype(name) for name in ("uint8", "uint16", "int16", "float32", "float64")]
_COLOURED = [np.dtype(name) for name in ("uint8", "uint16", "float32")]
# Dtypes that OpenCV moves around without a look at the values, by the size of an element.
_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.float64}
_MOST_CHANNELS = 128  # that OpenCV 5 takes
_NEAREST = 0


def opencv(function: str) -> Any:
    """OpenCV's module. It is imported only when a function needs it: that takes a while.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise ImportError(
            f"{function} needs OpenCV, which is not installed: pip install 'openmge[vision]'"
        ) from error
    return cv2


def wrap_keepdims(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, given an image of three dimensions and giving one, also of one channel.

    OpenCV leaves that dimension out.
    """

    @functools.wraps(func)
    def wrapper(image: Image, *args: Any, **kwargs: Any) -> Any:
        check_image(func.__name__, image)
        out = func(image, *args, **kwargs)
        return out[:, :, np.newaxis] if out.ndim == 2 else out

    return wrapper


def check_image(
    function: str,
    image: Any,
    dims: tuple[int, ...] = (3,),
    what: str = "image",
    kinds: str = "biufc",
) -> None:
    """Raises unless the image is an array of numbers, of one of these numbers of dimensions.

    `kinds` are those of its dtype, as NumPy names them.
    """
    if not isinstance(image, np.ndarray):
        raise TypeError(f"{function}: {what} must be a NumPy array, got {type(image).__name__}")
    if image.dtype.kind not in kinds:
        raise TypeError(f"{function}: {what} must hold numbers, got an array of {image.dtype}")
    if image.ndim not in dims:
        raise ValueError(
            f"{function}: {what} must have {' or '.join(map(str, dims))} dims, but got "
            f"{image.ndim} dims (shape {image.shape}); a grey one is image[:, :, np.newaxis]"
        )


def flip(image: Image, flipCode: int) -> Image:
    """The image with its rows (`flipCode` 0), columns (above 0) or both (below 0) in reverse.

    It is a copy, contiguous, of any dtype.

    >>> flip(np.arange(6).reshape(1, 3, 2), 1).tolist()
    [[[4, 5], [2, 3], [0, 1]]]
    """
    check_image("flip", image, (2, 3))
    carrier = _CARRIERS.get(image.dtype.itemsize)
    if carrier is None or image.size == 0 or image.shape[2:] > (_MOST_CHANNELS,):
        rows = slice(None, None, -1 if flipCode <= 0 else 1)
        columns = slice(None, None, -1 if flipCode else 1)
        return np.ascontiguousarray(image[rows, columns])
    out = opencv("flip").flip(image.view(carrier), flipCode).view(image.dtype)
    return out.reshape(image.shape)


def pad(image: Image, size: Any, value: Any) -> Image:
    """The image with a border.

    Args:
        image: (height, width) or (height, width, channels).
        size: pixels on each side; two numbers: below and on the right; four: above, below, on the
            left and on the right.
        value: of the border: a number for all channels, or a number for each; channels beyond these
            get 0. A float makes the image float32; values beyond the range of an integer dtype are
            brought into it.

    Raises:
        ValueError: for other sizes.
        TypeError: for another kind of value.

    >>> pad(np.zeros((1, 1, 1), dtype="uint8"), (0, 1, 1, 0), 9)[..., 0].tolist()
    [[9, 0], [9, 9]]
    """
    check_image("pad", image, (2, 3))
    top, bottom, left, right = pad_size("pad", size)
    channels = image.shape[2] if image.ndim == 3 else 1
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        values = [*value[:channels], *[0] * (channels - len(value))]
    else:
        values = [0 if value is None else value] * channels
    if not all(isinstance(v, (int, float, np.number, np.bool_)) for v in values):
        raise TypeError(f"pad: value must be a number, or a number a channel, got {value!r}")
    if any(isinstance(v, (float, np.floating)) for v in values):
        image = image.astype(np.float32, copy=False)
    elif image.dtype.kind in "iu":
        limits = np.iinfo(image.dtype)
        values = [min(max(int(v), limits.min), limits.max) for v in values]
    same = channels == 0 or values.count(values[0]) == channels
    border = values[0] if same and values else np.array(values, image.dtype)
    height, width = image.shape[:2]
    out = np.empty((height + top + bottom, width + left + right, *image.shape[2:]), image.dtype)
    out[:top] = border
    out[top + height :] = border
    out[top : top + height, :left] = border
    out[top : top + height, left + width :] = border
    out[top : top + height, left : left + width] = image
    return out


def pad_size(function: str, size: Any) -> tuple[int, int, int, int]:
    """The pixels above, below, on the left and on the right; see :func:`pad`."""
    if is_integer(size):
        size = (size,) * 4
    elif isinstance(size, Sequence) and len(size) == 2:
        size = (0, size[0], 0, size[1])
    if not isinstance(size, Sequence) or len(size) != 4 or not all(map(is_integer, size)):
        raise ValueError(
            f"{function}: size should be a list/tuple which contains (top, down, left, right) four "
            f"pad sizes, or one or two numbers; got {size!r}"
        )
    if min(size) < 0:
        raise ValueError(f"{function}: pad sizes must not be negative, got {size!r}")
    return int(size[0]), int(size[1]), int(size[2]), int(size[3])


def is_integer(value: Any) -> bool:
    """Whether it is a whole number, of Python or NumPy; bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def resize(image: Image, size: Sequence[int], interpolation: int = 1) -> Image:
    """The image in another size.

    Args:
        image: (height, width) or (height, width, channels); uint8, uint16, int16, float32 or
            float64; any dtype for the nearest pixel.
        size: height and width.
        interpolation: how pixels come about, as OpenCV counts them: 0 nearest, 1 linear, 2 cubic,
            3 area, 4 Lanczos.

    Raises:
        ValueError: for other sizes or an empty image.
        TypeError: for other dtypes.

    >>> resize(np.arange(4, dtype="float32").reshape(2, 2, 1), (1, 1))[..., 0].tolist()
    [[1.5]]
    """
    check_image("resize", image, (2, 3))
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 2:
        raise ValueError(f"resize needs (h, w), but got {size}")
    if not all(map(is_integer, size)) or min(size) < 1:
        raise ValueError(f"resize: height and width must be positive integers, got {size}")
    if image.size == 0:
        raise ValueError(f"resize: the image is empty, its shape is {image.shape}")
    height, width = int(size[0]), int(size[1])
    dtype, shape = image.dtype, (height, width, *image.shape[2:])
    if interpolation == _NEAREST and dtype.itemsize in _CARRIERS:
        image = image.view(_CARRIERS[dtype.itemsize])
    elif dtype not in _RESIZED:
        raise TypeError(
            f"resize: expected an image of {', '.join(map(str, _RESIZED))}, got {dtype}; convert "
            "it first, or take the nearest pixels with interpolation=0"
        )
    cv2 = opencv("resize")
    try:
        out = cv2.resize(image, (width, height), interpolation=interpolation)
    except cv2.error as error:
        raise ValueError(
            f"resize: OpenCV does not take an image of shape {image.shape} and {dtype} with "
            f"interpolation={interpolation!r}: {str(error).strip()}"
        ) from error
    return out.view(dtype).reshape(shape)


@wrap_keepdims
def to_gray(image: Image) -> Image:
    """The brightness of an image of three or four channels: (height, width, 1).

    0.114 of blue, 0.587 of green and 0.299 of red.
    """
    if image.shape[2] not in (3, 4) or image.size == 0:
        raise ValueError(f"to_gray: expected 3 or 4 channels, got an image of shape {image.shape}")
    _check_color_dtype("to_gray", image)
    cv2 = opencv("to_gray")
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)


@wrap_keepdims
def to_bgr(image: Image) -> Image:
    """A grey image (height, width, 1) with three equal channels."""
    if image.shape[2] != 1 or image.size == 0:
        raise ValueError(f"to_bgr: expected 1 channel, got an image of shape {image.shape}")
    _check_color_dtype("to_bgr", image)
    cv2 = opencv("to_bgr")
    return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)


def _check_color_dtype(function: str, image: Image) -> None:
    if image.dtype not in _COLOURED:
        raise TypeError(
            f"{function}: expected an image of {', '.join(map(str, _COLOURED))}, got {image.dtype}"
        )
