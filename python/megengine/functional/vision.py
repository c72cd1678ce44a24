"""Functions of images: resizing, warping, flipping, colours; detection.py has those of boxes.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``. Images are
``(N, C, H, W)`` unless a function says otherwise; in all of them, x counts columns and y rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._core import OpDef, apply, call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .detection import correlation, nms, roi_align, roi_pooling

__all__ = [
    "correlation",
    "cvt_color",
    "flip",
    "interpolate",
    "nms",
    "nvof",
    "remap",
    "resize",
    "roi_align",
    "roi_pooling",
    "rot90",
    "rotate",
    "warp_affine",
    "warp_perspective",
]

# Ops are made once for each set of attributes: making one costs more than running a small one.
_op = lru_cache(maxsize=4096)

_INTERPOLATION = {
    "nearest": "NEAREST",
    "linear": "LINEAR",
    "bilinear": "LINEAR",
    "area": "AREA",
    "cubic": "CUBIC",
    "bicubic": "CUBIC",
    "lanczos4": "LANCZOS4",
}
_BORDERS = ("replicate", "reflect", "reflect_101", "wrap", "constant")


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _interpolation(mode: str) -> str:
    found = _INTERPOLATION.get(mode.lower()) if isinstance(mode, str) else None
    if found is None:
        raise ValueError(f"expected an interpolation among {sorted(_INTERPOLATION)}, got {mode!r}")
    return found


def _border(mode: str) -> str:
    if not isinstance(mode, str) or mode.lower() not in _BORDERS:
        raise ValueError(f"expected a border among {list(_BORDERS)}, got {mode!r}")
    return mode.upper()


def _is_channels_last(format: str) -> bool:
    if not isinstance(format, str) or format.upper() not in ("NCHW", "NHWC"):
        raise ValueError(f"expected format 'NCHW' or 'NHWC', got {format!r}")
    return format.upper() == "NHWC"


def _whole(value: Any) -> int:
    """A size; fractions are cut off, as the reference does."""
    number = value.numpy() if isinstance(value, Tensor) else value
    if isinstance(number, np.ndarray) and number.size == 1:
        number = number.reshape(())[()]
    if isinstance(number, (int, float, np.integer, np.floating)) and math.isfinite(number):
        return int(number)
    raise ValueError(f"expected a number, got {value!r}")


def _size_pair(value: Any) -> tuple[int, int]:
    """(height, width) of an output."""
    numbers = value.numpy() if isinstance(value, Tensor) else value
    if isinstance(numbers, np.ndarray):
        numbers = list(numbers) if numbers.ndim else numbers
    if not isinstance(numbers, Iterable) or isinstance(numbers, (str, bytes)):
        raise ValueError(f"expected a size (height, width), got {value!r}")
    height_width = [_whole(v) for v in numbers]
    if len(height_width) != 2:
        raise ValueError(f"expected a size (height, width), got {value!r}")
    return height_width[0], height_width[1]


def _float_wide(inp: Tensor) -> Tensor:
    """``inp``, with 16-bit floats as float32: what the reference gives for these."""
    return inp.astype("float32") if inp.dtype.name in ("float16", "bfloat16") else inp


def _with_map_dtype(value: Any, inp: Tensor) -> Tensor:
    """Matrices or positions in the dtype that goes with images like ``inp``."""
    positions = _as_tensor(value)
    return positions.astype("float64" if inp.dtype.name == "float64" else "float32")


# ---- resizing ----------------------------------------------------------------------------------


@_op
def _interpolate_op(size: tuple[int, ...], mode: str, align_corners: bool) -> OpDef:
    return builtin.Interpolate(size=size, mode=mode, align_corners=align_corners)


_MODES_BY_AXES = {
    1: {"linear": "LINEAR", "nearest": "NEAREST"},
    2: {"bilinear": "LINEAR", "bicubic": "CUBIC", "nearest": "NEAREST"},
    3: {"trilinear": "LINEAR", "nearest": "NEAREST"},
}


def _output_size(spatial: Sequence[int], size: Any, scale_factor: Any) -> tuple[int, ...]:
    """The sizes that ``size`` or ``scale_factor`` ask for."""
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"expected size or scale_factor, and not both, got {size!r} and {scale_factor!r}"
        )
    axes = len(spatial)
    wanted = size if size is not None else scale_factor
    if isinstance(wanted, Tensor):
        wanted = wanted.numpy()
    if isinstance(wanted, np.ndarray):
        wanted = list(wanted) if wanted.ndim else wanted[()]
    if isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes)):
        values = list(wanted)
        if len(values) != axes:
            raise ValueError(f"expected a number for each of {axes} spatial axes, got {wanted!r}")
    else:
        values = [wanted] * axes
    if size is not None:
        return tuple(_whole(v) for v in values)
    factors = [float(v.numpy() if isinstance(v, Tensor) else v) for v in values]
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise ValueError(f"expected a scale_factor above 0, got {scale_factor!r}")
    return tuple(math.floor(n * f) for n, f in zip(spatial, factors, strict=True))


@named
def interpolate(
    inp: Tensor,
    size: int | Sequence[int] | Tensor | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "bilinear",
    align_corners: bool | None = None,
) -> Tensor:
    """Resizes the spatial axes of ``inp`` to ``size``, or by ``scale_factor``.

    Pixels are squares. The borders of input and output coincide, or, with ``align_corners``, the
    centres of their corner pixels. Beyond the border, the pixels at the border repeat. Shrinking
    does not average: each output pixel depends on the two (four for bicubic) nearest pixels along
    each axis.

    Args:
        inp: ``(N, C, W)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``, of a float dtype, int8 or uint8
            (any dtype for mode nearest).
        size: of the spatial axes; one number stands for all.
        scale_factor: output size is ``floor(input size * scale_factor)``. Positions follow from the
            two sizes, not from the factor.
        mode: ``"linear"`` for one spatial axis, ``"bilinear"`` or ``"bicubic"`` (the convolution of
            Keys with a = -3/4, IEEE TASSP 29, 1981) for two, ``"trilinear"`` for three,
            ``"nearest"`` for any. Case does not matter.
        align_corners: of the (bi-, tri-)linear and bicubic modes; without, False.

    Returns:
        A tensor of the dtype of ``inp``, in its memory format; float32 for float16 and bfloat16.
        Integers are rounded to the nearest, halves away from zero. The gradient is linear
        interpolation's transpose, of any order.

    Raises:
        ValueError: for another number of axes, a mode that does not go with it, an output size
            below 1, both ``size`` and ``scale_factor`` or neither, or ``align_corners`` with mode
            nearest.

    >>> import megengine as mge, megengine.functional as F
    >>> x = mge.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> F.vision.interpolate(x, (2, 4))
    Tensor([[[[0.   0.25 0.75 1.  ]
       [2.   2.25 2.75 3.  ]]]], device=xpux:0)
    >>> F.vision.interpolate(x, (2, 3), align_corners=True)
    Tensor([[[[0.  0.5 1. ]
       [2.  2.5 3. ]]]], device=xpux:0)
    >>> F.vision.interpolate(x, scale_factor=2, mode="nearest").shape
    (1, 1, 4, 4)
    """
    inp = _as_tensor(inp)
    shape = inp.shape
    modes = _MODES_BY_AXES.get(len(shape) - 2)
    if modes is None:
        raise ValueError(f"expected an input (N, C, [[D,] H,] W), got shape {shape}")
    kind = modes.get(mode.lower()) if isinstance(mode, str) else None
    if kind is None:
        raise ValueError(
            f"expected a mode among {sorted(modes)} for an input of shape {shape}, got {mode!r}"
        )
    if align_corners is not None and kind == "NEAREST":
        raise ValueError("align_corners does not go with mode nearest")
    wanted = _output_size(shape[2:], size, scale_factor)
    return call(_interpolate_op(wanted, kind, bool(align_corners)), _float_wide(inp))


@named
def resize(
    inp: Tensor,
    size: int | Sequence[int],
    format: str = "NCHW",
    imode: str = "bilinear",
    max_size: int | None = None,
) -> Tensor:
    """Resizes images to ``(height, width)``, or to a length of their shorter edge.

    Args:
        inp: ``(N, C, H, W)``, or ``(N, H, W, C)`` with ``format="NHWC"``.
        size: ``(height, width)``, or the length of the shorter edge, whose ratio to the longer one
            stays.
        format: says which axes are which.
        imode: ``"nearest"``, ``"bilinear"``, ``"bicubic"``, ``"lanczos4"`` or ``"area"``, which
            averages over what an output pixel covers and is made for shrinking.
        max_size: the most that the longer edge may have; only with a single ``size``.

    Raises:
        ValueError: for a wrong number of axes, sizes below 1, or an unknown mode or format.

    >>> import megengine as mge, megengine.functional as F
    >>> F.vision.resize(F.zeros((1, 3, 40, 60)), 20).shape
    (1, 3, 20, 30)
    >>> x = mge.tensor([[[[0.0, 2.0, 4.0, 6.0]]]])
    >>> F.vision.resize(x, (1, 2), imode="area")
    Tensor([[[[1. 5.]]]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    behind = _is_channels_last(format)
    if inp.ndim != 4:
        raise ValueError(f"expected images of 4 dimensions, got shape {inp.shape}")
    height, width = inp.shape[1:3] if behind else inp.shape[2:4]
    if isinstance(size, (int, np.integer)) or (isinstance(size, Tensor) and size.size == 1):
        wanted = _edges(height, width, _whole(size), max_size)
    elif max_size is not None:
        raise ValueError(f"max_size goes with a single size, got {size!r}")
    else:
        wanted = _size_pair(size)
    op = _interpolate_op(wanted, _interpolation(imode), False)
    if not behind:
        return call(op, _float_wide(inp))
    return call(op, _float_wide(inp).transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)


def _edges(height: int, width: int, short: int, most: Any) -> tuple[int, int]:
    """(height, width): the shorter is `short`, unless the longer would have more than `most`."""
    if height < 1 or width < 1:
        raise ValueError(f"expected images with pixels, got {height} x {width}")
    if short < 1 or (most is not None and _whole(most) < short):
        raise ValueError(f"expected 1 <= size <= max_size, got {short} and {most}")
    low, high = min(height, width), max(height, width)
    long = short * high // low
    if most is not None and long > _whole(most):
        long = _whole(most)
        short = max(1, long * low // high)
    return (short, long) if height <= width else (long, short)


# ---- warping -----------------------------------------------------------------------------------


@_op
def _sample_op(mode: str, border: str, border_value: float) -> OpDef:
    return builtin.Sample(mode=mode, border=border, border_value=border_value)


@_op
def _grid_op(height: int, width: int) -> OpDef:
    return builtin.PerspectiveGrid(height=height, width=width)


def _sample(
    inp: Tensor,
    positions: Tensor,
    image: Tensor | None,
    behind: bool,
    mode: str,
    border: str,
    border_value: float,
) -> Tensor:
    if inp.ndim != 4:
        raise ValueError(f"expected images of 4 dimensions, got shape {inp.shape}")
    op = _sample_op(_interpolation(mode), _border(border), float(border_value))
    x = inp.transpose(0, 3, 1, 2) if behind else inp
    out = call(op, x, positions) if image is None else call(op, x, positions, image)
    return out.transpose(0, 2, 3, 1) if behind else out


@named
def remap(
    inp: Tensor,
    map_xy: Tensor,
    border_mode: str = "replicate",
    scalar: float = 0.0,
    interp_mode: str = "linear",
) -> Tensor:
    """Reads images at given positions.

    ``out[n, :, i, j]`` is ``inp[n, :, y, x]`` for ``(x, y) = map_xy[n, i, j]``.

    Args:
        inp: ``(N, C, H, W)``, of a float dtype, int8 or uint8.
        map_xy: ``(N, OH, OW, 2)``, column and row of each pixel to read; (0, 0) is the centre of
            the first one.
        border_mode: what stands outside of the image, where its rows are ``a b c``:
            ``"replicate"`` a a | a b c | c c, ``"reflect"`` b a | a b c | c b, ``"reflect_101"``
            c b | a b c | b a, ``"wrap"`` b c | a b c | a b, or ``"constant"``: ``scalar``.
        scalar: see ``border_mode``.
        interp_mode: ``"linear"``, ``"nearest"`` (halves go to the even pixel), ``"cubic"`` or
            ``"lanczos4"``.

    Returns:
        ``(N, C, OH, OW)``, of the dtype and memory format of ``inp``; integers are rounded to the
        nearest. Positions that are NaN give NaN (``scalar`` for the constant border). Gradients go
        to ``inp`` and, unless for lanczos4, to ``map_xy``.

    Raises:
        ValueError: for shapes that do not fit, and unknown modes.

    >>> import megengine as mge, megengine.functional as F
    >>> x = F.arange(16).reshape(1, 1, 4, 4)
    >>> at = mge.tensor([[[[1.0, 0.0], [0.5, 1.0]]]])
    >>> F.vision.remap(x, at)
    Tensor([[[[1.  4.5]]]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    at = _with_map_dtype(map_xy, inp)
    return _sample(inp, at, None, False, interp_mode, border_mode, scalar)


@named
def warp_perspective(
    inp: Tensor,
    mat: Tensor,
    out_shape: tuple[int, int] | int | Tensor,
    mat_idx: Iterable[int] | Tensor | None = None,
    border_mode: str = "replicate",
    border_val: float = 0.0,
    format: str = "NCHW",
    interp_mode: str = "linear",
) -> Tensor:
    r"""Reads images at positions that a projective map gives.

    .. math::
        \text{out}(n, c, i, j) = \text{inp}\left(n, c,
            \frac{M_{10} j + M_{11} i + M_{12}}{M_{20} j + M_{21} i + M_{22}},
            \frac{M_{00} j + M_{01} i + M_{02}}{M_{20} j + M_{21} i + M_{22}}\right)

    So ``mat`` leads from pixels of the output to those of the input: the inverse of what
    ``cv2.warpPerspective`` takes.

    Args:
        inp: ``(N, C, H, W)``, or ``(N, H, W, C)`` with ``format="NHWC"``; of a float dtype, int8 or
            uint8.
        mat: ``(N, 3, 3)``, or ``(M, 3, 3)`` with ``mat_idx``.
        out_shape: ``(height, width)`` of the output.
        mat_idx: the number of the image that each matrix warps; the output has M images then.
        border_mode: what stands outside of the image, see :func:`remap`.
        border_val: of the constant border.
        format: says which axes are which.
        interp_mode: see :func:`remap`.

    Returns:
        Images of the dtype of ``inp``, float32 for 16-bit floats. Gradients go to ``inp`` and
        ``mat``.

    Raises:
        ValueError: for shapes that do not fit, and unknown modes.
        IndexError: for a number in ``mat_idx`` without an image.

    >>> import megengine as mge, megengine.functional as F
    >>> x = F.arange(16).reshape(1, 1, 4, 4)
    >>> shift = mge.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]])
    >>> F.vision.warp_perspective(x, shift, (2, 2))
    Tensor([[[[ 5.  6.]
       [ 9. 10.]]]], device=xpux:0)
    """
    inp = _float_wide(_as_tensor(inp))
    at = call(_grid_op(*_size_pair(out_shape)), _with_map_dtype(mat, inp))
    image = None
    if mat_idx is not None:
        numbers = mat_idx if isinstance(mat_idx, (Tensor, np.ndarray)) else list(mat_idx)
        image = _as_tensor(numbers if len(numbers) else np.zeros(0, np.int32)).reshape(-1)
    behind = _is_channels_last(format)
    return _sample(inp, at, image, behind, interp_mode, border_mode, border_val)


@_op
def _warp_affine_op(mode: str, border: str, border_value: float, format: str) -> OpDef:
    return builtin.WarpAffine(
        imode=mode, border_mode=border, border_val=border_value, format=format
    )


@named
def warp_affine(
    inp: Tensor,
    mat: Tensor,
    out_shape: tuple[int, int] | int | Tensor,
    border_mode: str = "replicate",
    border_val: float = 0.0,
    format: str = "NHWC",
    interp_mode: str = "linear",
) -> Tensor:
    """Reads images at positions that an affine map gives.

    Pixel (i, j) of the output is the one of ``inp`` at column ``mat[n, 0] @ (j, i, 1)`` and row
    ``mat[n, 1] @ (j, i, 1)``.

    Args:
        inp: ``(N, H, W, C)``, or ``(N, C, H, W)`` with ``format="NCHW"``; of a float dtype, int8 or
            uint8.
        mat: ``(N, 2, 3)``.
        out_shape: ``(height, width)`` of the output.
        border_mode: what stands outside of the image, see :func:`remap`.
        border_val: of the constant border.
        format: says which axes are which.
        interp_mode: see :func:`remap`.

    Returns:
        Images of the dtype and format of ``inp``. Gradients go to ``inp`` and ``mat``.

    Raises:
        ValueError: for shapes that do not fit, and unknown modes.

    >>> import megengine as mge, megengine.functional as F
    >>> x = F.arange(4).reshape(1, 2, 2, 1)
    >>> swap = mge.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> F.vision.warp_affine(x, swap, (2, 2)).reshape(2, 2)
    Tensor([[0. 2.]
     [1. 3.]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    height_width = np.array(_sizes_in_range(_size_pair(out_shape)), np.int32)
    layout = "NHWC" if _is_channels_last(format) else "NCHW"
    mode, border = _interpolation(interp_mode), _border(border_mode)
    op = _warp_affine_op(mode, border, float(border_val), layout)
    size = Tensor(height_width, device=inp.device)
    return apply(op, inp, _with_map_dtype(mat, inp), size)[0]


def _sizes_in_range(size: tuple[int, int]) -> tuple[int, int]:
    if not all(0 <= n < 2**31 for n in size):
        raise ValueError(f"expected sizes from 0 to 2^31 - 1, got {size}")
    return size


# ---- turning and flipping ----------------------------------------------------------------------


def _check_rows_and_columns(inp: Tensor) -> None:
    if inp.ndim not in (3, 4):
        raise ValueError(f"expected images (N, H, W, C) or (H, W, C), got shape {inp.shape}")


@named
def flip(inp: Tensor, vertical: bool = True, horizontal: bool = True) -> Tensor:
    """Reverses the rows (``vertical``) and the columns (``horizontal``) of images.

    Args:
        inp: ``(N, H, W, C)`` or ``(H, W, C)``, of any dtype.
        vertical: the first row becomes the last.
        horizontal: the first column becomes the last.

    Raises:
        ValueError: for another number of axes.

    >>> import megengine as mge, megengine.functional as F
    >>> x = mge.tensor([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 2, 2, 1)
    >>> F.vision.flip(x, vertical=True, horizontal=False).reshape(2, 2)
    Tensor([[3. 4.]
     [1. 2.]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    _check_rows_and_columns(inp)
    rows = slice(None, None, -1) if vertical else slice(None)
    columns = slice(None, None, -1) if horizontal else slice(None)
    return inp[..., rows, columns, :]


@named
def rot90(inp: Tensor, clockwise: bool = True) -> Tensor:
    """Turns images by a right angle.

    Args:
        inp: ``(N, H, W, C)`` or ``(H, W, C)``, of any dtype.
        clockwise: else, counter-clockwise.

    Returns:
        ``(N, W, H, C)`` or ``(W, H, C)``.

    Raises:
        ValueError: for another number of axes.

    >>> import megengine as mge, megengine.functional as F
    >>> x = mge.tensor([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 2, 2, 1)
    >>> F.vision.rot90(x).reshape(2, 2)
    Tensor([[3. 1.]
     [4. 2.]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    _check_rows_and_columns(inp)
    turned = inp.transpose(0, 2, 1, 3) if inp.ndim == 4 else inp.transpose(1, 0, 2)
    return turned[..., ::-1, :] if clockwise else turned[..., ::-1, :, :]


@named
def rotate(
    inp: Tensor, angle: float = 0.0, format: str = "NCHW", interp_mode: str = "bilinear"
) -> Tensor:
    """Turns images about their centre, counter-clockwise, in a frame of the same size.

    What comes in from outside is 0.

    Args:
        inp: ``(N, C, H, W)``, or ``(N, H, W, C)`` with ``format="NHWC"``.
        angle: in degrees.
        format: says which axes are which.
        interp_mode: ``"bilinear"``, ``"nearest"``, ``"bicubic"`` or ``"lanczos4"``.

    Raises:
        ValueError: for a wrong number of axes, an angle that is not finite, or an unknown mode or
            format.

    >>> import megengine as mge, megengine.functional as F
    >>> x = mge.tensor([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 1, 2, 2)
    >>> F.vision.rotate(x, 90).reshape(2, 2)
    Tensor([[2. 4.]
     [1. 3.]], device=xpux:0)
    """
    inp = _as_tensor(inp)
    behind = _is_channels_last(format)
    if inp.ndim != 4:
        raise ValueError(f"expected images of 4 dimensions, got shape {inp.shape}")
    turn = float(angle)
    if not math.isfinite(turn):
        raise ValueError(f"expected a finite angle, got {angle!r}")
    height, width = inp.shape[1:3] if behind else inp.shape[2:4]
    c, s = _cos_sin(turn)
    x, y = (width - 1) / 2, (height - 1) / 2
    mat = np.array([[c, -s, x - c * x + s * y], [s, c, y - s * x - c * y]])
    mats = np.broadcast_to(mat.astype(np.float32), (inp.shape[0], 2, 3))
    mode = interp_mode
    return warp_affine(inp, Tensor(mats), (height, width), "constant", 0.0, format, mode)


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Exact at multiples of a right angle."""
    quarters, rest = divmod(math.fmod(degrees, 360.0) % 360.0, 90.0)
    c, s = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters)):
        c, s = -s, c
    return c, s


# ---- colours, optical flow ---------------------------------------------------------------------


@_op
def _cvt_color_op(mode: str) -> OpDef:
    return builtin.CvtColor(mode=mode)


@named
def cvt_color(inp: Tensor, mode: str = "") -> Tensor:
    """Converts images between colour spaces.

    Args:
        inp: ``(N, H, W, C)``, of a float dtype or uint8. For the modes that read planes, uint8 of
            shape ``(N, 3 H / 2, W, 1)``: H rows of Y, then the chroma of 2 x 2 blocks.
        mode: pixel by pixel ``"RGB2GRAY"``, ``"BGR2GRAY"``, ``"RGBA2GRAY"`` (0.299 R + 0.587 G +
            0.114 B, ITU-R BT.601), ``"GRAY2RGB"``, ``"RGB2BGR"``, ``"BGR2RGB"``, ``"RGBA2RGB"``,
            ``"RGBA2BGR"``, ``"RGB2YUV"`` and ``"YUV2RGB"``: these two hold blue first and red
            last, as the reference does. From planes ``"YUV2X_L"`` and ``"BT601_YUV2X_L"`` where X
            is RGB, BGR or (without BT601) GRAY, and L is NV12 (pairs U V), NV21 (pairs V U), YU12
            (all U, then all V) or YV12; with BT601, Y has the range 16 to 235. ``"YCrCb2RGB"`` and
            ``"YCrCb2BGR"`` are YUV2RGB_NV21 and YUV2BGR_NV21.

    Returns:
        ``(N, H, W, 1 or 3)``, of the dtype of ``inp``.

    Raises:
        ValueError: for an unknown mode, or a shape that does not go with it.
        TypeError: for a dtype that does not go with the mode.

    >>> import megengine as mge, megengine.functional as F
    >>> F.vision.cvt_color(mge.tensor([[[[1.0, 0.0, 0.5]]]]), mode="RGB2GRAY")
    Tensor([[[[0.356]]]], device=xpux:0)
    """
    if not isinstance(mode, str) or not mode:
        raise ValueError(f"expected the name of a mode such as 'RGB2GRAY', got {mode!r}")
    return call(_cvt_color_op(mode), _as_tensor(inp))


@named
def nvof(src: Tensor, precision: int = 1) -> Tensor:
    """Optical flow by the fixed unit of some NVIDIA GPUs.

    Args:
        src: ``(N, T, H, W, 4)``, of dtype uint8.
        precision: 0 (slow) to 2 (fast).

    Raises:
        RuntimeError: always, so far: no device here has that unit.

    >>> import megengine.functional as F
    >>> F.vision.nvof(F.zeros((1, 2, 8, 8, 4)))
    Traceback (most recent call last):
    RuntimeError: NvOf: this build of OpenMGE has no CUDA device with an optical flow unit; ...
    """
    out: Tensor = apply(builtin.NvOf(precision=precision), src)[0]
    return out
