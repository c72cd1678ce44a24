"""Windows of an image, and back, as modules."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .conv import IntOrTuple
from .module import Module


class SlidingWindow(Module):
    """All windows of an image; see :func:`.functional.sliding_window`.

    Args:
        kernel_size: height and width of a window, an int or a pair.
        padding: zeros on each side, an int or a pair.
        stride: step from one window to the next.
        dilation: step between the elements of a window.

    >>> import megengine.functional as F
    >>> SlidingWindow(3, padding=1)(F.ones((1, 2, 8, 8))).shape
    (1, 2, 8, 8, 3, 3)
    """

    def __init__(
        self,
        kernel_size: IntOrTuple,
        padding: IntOrTuple = 0,
        stride: IntOrTuple = 1,
        dilation: IntOrTuple = 1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self.padding = padding
        self.stride = stride
        self.dilation = dilation

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W', kh, kw)."""
        return F.sliding_window(inp, self.kernel_size, self.padding, self.stride, self.dilation)


class SlidingWindowTranspose(Module):
    """Sums windows into an image; see :func:`.functional.sliding_window_transpose`.

    Args:
        output_size: height and width of the image, an int or a pair.
        kernel_size: height and width of a window, an int or a pair.
        padding: the border that windows may reach into, an int or a pair.
        stride: step from one window to the next.
        dilation: step between the elements of a window.

    >>> import megengine.functional as F
    >>> SlidingWindowTranspose((8, 8), 3, padding=1)(F.ones((1, 2, 8, 8, 3, 3))).shape
    (1, 2, 8, 8)
    """

    def __init__(
        self,
        output_size: IntOrTuple,
        kernel_size: IntOrTuple,
        padding: IntOrTuple = 0,
        stride: IntOrTuple = 1,
        dilation: IntOrTuple = 1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.padding = padding
        self.stride = stride
        self.dilation = dilation

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H', W', kh, kw) to (N, C, H, W)."""
        return F.sliding_window_transpose(
            inp, self.output_size, self.kernel_size, self.padding, self.stride, self.dilation
        )
