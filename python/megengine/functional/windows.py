"""All windows of an image as a tensor, and back.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

from functools import lru_cache

from .._core import OpDef
from .._core import call as _call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .conv import Size, _tuple

__all__ = ["sliding_window", "sliding_window_transpose"]

_FIELDS = ("window", "pad", "stride", "dilate")


@lru_cache(maxsize=1024)
def _make_op(kind: str, *sizes: tuple[int, ...]) -> OpDef:
    """The op with window, padding, stride, dilation and, for a transpose, the output size."""
    fields: dict[str, int] = {}
    for name, (h, w) in zip((*_FIELDS, "out"), sizes, strict=False):
        fields |= {f"{name}_h": h, f"{name}_w": w}
    return getattr(builtin, kind)(**fields)


@named
def sliding_window(
    inp: Tensor, kernel_size: Size, padding: Size = 0, stride: Size = 1, dilation: Size = 1
) -> Tensor:
    """All windows of an image.

    Args:
        inp: ``(N, C, H, W)`` of any dtype.
        kernel_size: height and width of a window, an int or two.
        padding: zeros on both sides of each axis.
        stride: step from one window to the next.
        dilation: step between the elements of a window.

    Returns:
        ``(N, C, Ho, Wo, kh, kw)``, ``Ho = (H + 2 padding - dilation (kh - 1) - 1) // stride + 1``.
        No copy: where windows overlap they share memory.

    Raises:
        ValueError: if a window is larger than the padded image.

    Example:
        >>> x = F.arange(4).reshape(1, 1, 1, 4)
        >>> F.sliding_window(x, (1, 2)).reshape(3, 2)
        Tensor([[0. 1.]
         [1. 2.]
         [2. 3.]], device=xpux:0)
    """
    name = "sliding_window"
    op = _make_op(
        "Images2Neibs",
        _tuple(name, "kernel_size", kernel_size, 2),
        _tuple(name, "padding", padding, 2),
        _tuple(name, "stride", stride, 2),
        _tuple(name, "dilation", dilation, 2),
    )
    return _call(op, inp)


@named
def sliding_window_transpose(
    inp: Tensor,
    output_size: Size,
    kernel_size: Size,
    padding: Size = 0,
    stride: Size = 1,
    dilation: Size = 1,
) -> Tensor:
    """Sums windows into an image: the transpose of :func:`sliding_window`, and its gradient.

    Args:
        inp: ``(N, C, Ho, Wo, kh, kw)``, numbers of any dtype.
        output_size: height and width of the image, an int or two.
        kernel_size: height and width of a window, as in ``inp``.
        padding: the border of the image that windows may reach into.
        stride: step from one window to the next.
        dilation: step between the elements of a window.

    Returns:
        ``(N, C, *output_size)``: each pixel is the sum of what the windows have there, 0 where
        there is none. 8- and 16-bit integers give int32.

    Raises:
        ValueError: if these windows do not belong to an image of that size.

    Example:
        >>> F.sliding_window_transpose(F.ones((1, 1, 1, 3, 1, 2)), (1, 4), (1, 2))
        Tensor([[[[1. 2. 2. 1.]]]], device=xpux:0)
    """
    name = "sliding_window_transpose"
    op = _make_op(
        "SlidingWindowTranspose",
        _tuple(name, "kernel_size", kernel_size, 2),
        _tuple(name, "padding", padding, 2),
        _tuple(name, "stride", stride, 2),
        _tuple(name, "dilation", dilation, 2),
        _tuple(name, "output_size", output_size, 2),
    )
    return _call(op, inp)
