"""Convolutions with batch norm (and ReLU), which quantisation treats as one."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .batchnorm import BatchNorm2d
from .conv import Conv2d, ConvTranspose2d, IntOrTuple
from .module import Module


class _ConvBnActivation2d(Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrTuple,
        stride: IntOrTuple = 1,
        padding: IntOrTuple = 0,
        dilation: IntOrTuple = 1,
        groups: int = 1,
        bias: bool = True,
        conv_mode: str = "cross_correlation",
        compute_mode: str = "default",
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        padding_mode: str = "zeros",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.conv = Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            conv_mode,
            compute_mode,
            padding_mode,
        )
        self.bn = BatchNorm2d(out_channels, eps, momentum, affine, track_running_stats)


class ConvBn2d(_ConvBnActivation2d):
    """:class:`.Conv2d` (``conv``) and :class:`.BatchNorm2d` (``bn``)."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return self.bn(self.conv(inp))


class ConvBnRelu2d(_ConvBnActivation2d):
    """:class:`.Conv2d` (``conv``), :class:`.BatchNorm2d` (``bn``) and ReLU."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.relu(self.bn(self.conv(inp)))


class _ConvTransposeBnActivation2d(Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrTuple,
        stride: IntOrTuple = 1,
        padding: IntOrTuple = 0,
        output_padding: IntOrTuple = 0,
        dilation: IntOrTuple = 1,
        groups: int = 1,
        bias: bool = True,
        conv_mode: str = "cross_correlation",
        compute_mode: str = "default",
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.conv_transpose2d = ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            conv_mode,
            compute_mode,
        )
        self.bn = BatchNorm2d(out_channels, eps, momentum, affine, track_running_stats)


class ConvTransposeBn2d(_ConvTransposeBnActivation2d):
    """:class:`.ConvTranspose2d` (``conv_transpose2d``) and :class:`.BatchNorm2d` (``bn``)."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return self.bn(self.conv_transpose2d(inp))


class ConvTransposeBnRelu2d(_ConvTransposeBnActivation2d):
    """:class:`.ConvTranspose2d` (``conv_transpose2d``), :class:`.BatchNorm2d` (``bn``) and ReLU."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.relu(self.bn(self.conv_transpose2d(inp)))
