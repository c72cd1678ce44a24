"""Convolutions whose weights depend on the position, or whose reach depends on a region."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from ..utils.tuple_function import _pair, _pair_nonzero
from .conv import Conv2d, IntOrTuple, _ConvNd


class LocalConv2d(Conv2d):
    r"""A convolution with a kernel of its own at each position of the output.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        input_height: height of the input, which the number of weights depends on.
        input_width: width of the input.
        kernel_size: height and width of a kernel, an int or a pair.
        stride: step between outputs, an int or a pair.
        padding: what is added on each side, an int or a pair.
        dilation: step between the pixels that a kernel meets, an int or a pair.
        groups: number of parts into which channels are split; each meets only its own.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.

    Shape:
        - weight: (groups, H', W', in_channels // groups, kh, kw, out_channels // groups); there is
          no bias

    >>> import megengine.functional as F
    >>> layer = LocalConv2d(2, 4, 8, 8, kernel_size=3)
    >>> layer.weight.shape
    (1, 6, 6, 2, 3, 3, 4)
    >>> layer(F.ones((1, 2, 8, 8))).shape
    (1, 4, 6, 6)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        input_height: int,
        input_width: int,
        kernel_size: IntOrTuple,
        stride: IntOrTuple = 1,
        padding: IntOrTuple = 0,
        dilation: IntOrTuple = 1,
        groups: int = 1,
        conv_mode: str = "cross_correlation",
        **kwargs: Any,
    ):
        self.input_height = input_height
        self.input_width = input_width
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias=False,
            conv_mode=conv_mode,
            **kwargs,
        )

    def _infer_weight_shape(self) -> tuple[int, ...]:
        sizes = []
        for size, k, s, p, d in zip(
            (self.input_height, self.input_width),
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            strict=True,
        ):
            out = (size + 2 * p - d * (k - 1) - 1) // s + 1
            if out < 1:
                raise ValueError(
                    f"LocalConv2d: a kernel of {self.kernel_size} with dilation {self.dilation} "
                    f"does not fit into an input of {self.input_height} x {self.input_width} with "
                    f"padding {self.padding}"
                )
            sizes.append(out)
        return (
            self.groups,
            *sizes,
            self.in_channels // self.groups,
            *self.kernel_size,
            self.out_channels // self.groups,
        )

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, input_height, input_width) to (N, out_channels, H', W')."""
        return F.local_conv2d(
            inp,
            self.weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.conv_mode,
        )


class RegionRestrictedConv(_ConvNd):
    r"""A convolution that takes a pixel only where its region is that of the output pixel.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a kernel, an int or a pair.
        groups: number of parts into which channels are split; each meets only its own.
        bias: whether to add a learned number to each output channel.
        stride: step between outputs, an int or a pair.
        padding: what is added on each side, an int or a pair.
        dilation: step between the pixels that a kernel meets, an int or a pair.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.
        compute_mode: "default" or "float32".
        padding_mode: "zeros", "reflect" or "replicate". The border of the input has the regions of
            the pixels that it repeats.

    Shape:
        - weight: (out_channels, in_channels, kh, kw), or (groups, out_channels // groups,
          in_channels // groups, kh, kw) where ``groups`` is above 1
        - bias: (1, out_channels, 1, 1)

    >>> import megengine as mge, megengine.functional as F
    >>> layer = RegionRestrictedConv(4, 4, 3, groups=4, padding=1)
    >>> regions = mge.tensor([[[0, 0, 1], [0, 0, 1], [2, 2, 2]]])
    >>> layer(F.ones((1, 4, 3, 3)), regions, regions).shape
    (1, 4, 3, 3)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrTuple,
        groups: int = 1,
        bias: bool = True,
        stride: IntOrTuple = 1,
        padding: IntOrTuple = 0,
        dilation: IntOrTuple = 1,
        conv_mode: str = "cross_correlation",
        compute_mode: str = "default",
        padding_mode: str = "zeros",
        **kwargs: Any,
    ):
        self.conv_mode = conv_mode
        self.compute_mode = compute_mode
        self.padding_mode = padding_mode
        super().__init__(
            in_channels,
            out_channels,
            _pair_nonzero(kernel_size),
            _pair_nonzero(stride),
            _pair(padding),
            0,
            _pair_nonzero(dilation),
            groups,
            bias,
            **kwargs,
        )

    def get_pad_width(self) -> tuple[tuple[int, int], ...]:
        """The widths of padding for all axes."""
        return self.get_pad_witdth()

    def calc_conv(
        self, inp: Tensor, weight: Tensor, rin: Tensor, rout: Tensor, bias: Tensor | None
    ) -> Tensor:
        """The convolution with these weights instead of the module's own."""
        inp, padding = self._padded(inp)
        if self.padding_mode != "zeros":
            rin = F.nn.pad(rin, ((0, 0), *self.get_pad_width()[2:]), self.padding_mode)
        return F.region_restricted_conv(
            inp,
            weight,
            rin,
            rout,
            bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            self.conv_mode,
            self.compute_mode,
        )

    def forward(self, inp: Tensor, rin: Tensor, rout: Tensor) -> Tensor:
        """(N, in_channels, H, W), (N, H, W) and (N, H', W') to (N, out_channels, H', W')."""
        return self.calc_conv(inp, self.weight, rin, rout, self.bias)
