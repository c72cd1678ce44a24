"""Pooling over windows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module

IntOrTuple = int | tuple[int, int]


class _PoolNd(Module):
    """The window of a pooling: its size, step and padding."""

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self.stride = stride or kernel_size
        self.padding = padding

    @abstractmethod
    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""

    def _module_info_string(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_PoolNd):
    """The largest value in each window.

    Args:
        kernel_size: height and width of a window, an int or a pair.
        stride: step between windows; ``kernel_size`` where it is None.
        padding: what is added on each side; it never wins.

    >>> import megengine.functional as F
    >>> MaxPool2d(2)(F.arange(4).reshape(1, 1, 2, 2))
    Tensor([[[[3.]]]], device=xpux:0)
    """

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.max_pool2d(inp, self.kernel_size, self.stride, self.padding)


class AvgPool2d(_PoolNd):
    """The mean of each window.

    Args:
        kernel_size: height and width of a window, an int or a pair.
        stride: step between windows; ``kernel_size`` where it is None.
        padding: zeros added on each side.
        mode: "average_count_exclude_padding" divides by the number of pixels of the image in the
            window, "average" by the size of the window.

    >>> import megengine.functional as F
    >>> AvgPool2d(2)(F.arange(4).reshape(1, 1, 2, 2))
    Tensor([[[[1.5]]]], device=xpux:0)
    """

    def __init__(
        self,
        kernel_size: IntOrTuple,
        stride: IntOrTuple | None = None,
        padding: IntOrTuple = 0,
        mode: str = "average_count_exclude_padding",
        **kwargs: Any,
    ):
        super().__init__(kernel_size, stride, padding, **kwargs)
        self.mode = mode

    def forward(self, inp: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        return F.avg_pool2d(inp, self.kernel_size, self.stride, self.padding, self.mode)

    def _module_info_string(self) -> str:
        return f"{super()._module_info_string()}, mode={self.mode}"
