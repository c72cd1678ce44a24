"""Convolutions over one, two and three axes, and their transposes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from ..utils.tuple_function import _pair, _pair_nonzero, _triple, _triple_nonzero
from . import init
from .module import Module

IntOrTuple = int | tuple[int, ...]


def _check_groups(in_channels: int, out_channels: int, groups: int) -> None:
    if groups < 1:
        raise ValueError(f"groups must be positive, got {groups}")
    if in_channels < 1 or out_channels < 1:
        raise ValueError(
            f"in_channels and out_channels must be positive, got {in_channels} and {out_channels}"
        )
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")


class _ConvNd(Module):
    """What all convolutions share: sizes, a weight, a bias, and their initial values.

    A subclass says for how many axes, and calls the function.
    """

    padding_mode = "zeros"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        _check_groups(in_channels, out_channels, groups)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter(np.zeros(self._infer_weight_shape(), dtype=np.float32))
        self.bias: Parameter | None = None
        if bias:
            self.bias = Parameter(np.zeros(self._infer_bias_shape(), dtype=np.float32))
        self.reset_parameters()

    @property
    def _kernel(self) -> tuple[int, ...]:
        return (self.kernel_size,) if isinstance(self.kernel_size, int) else self.kernel_size

    def _get_fanin(self) -> int:
        """How many inputs an output sums, were there a single group."""
        return math.prod(self._kernel) * self.in_channels

    def _infer_weight_shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return _grouped(self.groups, self.out_channels, self.in_channels, self._kernel)

    def _infer_bias_shape(self) -> tuple[int, ...]:
        """The shape of the bias: one number for each output channel, seen as an image."""
        return (1, self.out_channels, *(1 for _ in self._kernel))

    def reset_parameters(self) -> None:
        """Draws the weight from a normal distribution of std 1 / sqrt(fan in); the bias is 0."""
        init.normal_(self.weight, 0, 1 / math.sqrt(self._get_fanin()))
        if self.bias is not None:
            init.zeros_(self.bias)

    def get_pad_witdth(self) -> tuple[tuple[int, int], ...]:
        """The widths of padding for all axes (the name is the reference's)."""
        padding = (self.padding,) if isinstance(self.padding, int) else self.padding
        return ((0, 0), (0, 0), *((p, p) for p in padding))

    def _padded(self, inp: Tensor) -> tuple[Tensor, Any]:
        """The input, with a border that is not of zeros put on, and the padding still to do."""
        if self.padding_mode == "zeros":
            return inp, self.padding
        return F.nn.pad(inp, self.get_pad_witdth(), self.padding_mode), 0

    def _module_info_string(self) -> str:
        def differs(value: Any, usual: int) -> bool:
            values = (value,) if isinstance(value, int) else value
            return any(v != usual for v in values)

        info = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        if differs(self.stride, 1):
            info += f", stride={self.stride}"
        if differs(self.padding, 0):
            info += f", padding={self.padding}"
        if differs(self.dilation, 1):
            info += f", dilation={self.dilation}"
        if self.groups != 1:
            info += f", groups={self.groups}"
        if self.bias is None:
            info += ", bias=False"
        return info


def _grouped(groups: int, first: int, second: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """(first, second, *kernel), or (groups, first / groups, second / groups, *kernel)."""
    if groups == 1:
        return (first, second, *kernel)
    return (groups, first // groups, second // groups, *kernel)


class Conv1d(_ConvNd):
    r"""Convolves signals (N, C, L) with learned kernels.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: length of a kernel.
        stride: step between outputs.
        padding: what is added at each end.
        dilation: step between the elements that a kernel meets.
        groups: number of parts into which channels are split; each meets only its own.
        bias: whether to add a learned number to each output channel.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.
        compute_mode: "default", or "float32" to sum float16 in float32 (which happens anyway).
        padding_mode: "zeros", "reflect" or "replicate".

    Shape:
        - weight: (out_channels, in_channels, kernel_size), or (groups, out_channels // groups,
          in_channels // groups, kernel_size) where ``groups`` is above 1
        - bias: (1, out_channels, 1)

    >>> import megengine.functional as F
    >>> Conv1d(2, 4, 3, padding=1)(F.ones((1, 2, 8))).shape
    (1, 4, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
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
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            **kwargs,
        )

    def calc_conv(self, inp: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with these weights instead of the module's own."""
        inp, padding = self._padded(inp)
        return F.conv1d(
            inp,
            weight,
            bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            self.conv_mode,
            self.compute_mode,
        )

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, L) to (N, out_channels, L')."""
        return self.calc_conv(inp, self.weight, self.bias)


class Conv2d(_ConvNd):
    r"""Convolves images (N, C, H, W) with learned kernels.

    .. math::
        out_{n,o,y,x} = bias_o + \sum_{c,i,j} weight_{o,c,i,j} \cdot
                        inp_{n,\ c,\ y \cdot stride + i \cdot dilation - padding,\ \ldots}

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a kernel, an int or a pair.
        stride: step between outputs, an int or a pair.
        padding: what is added on each side, an int or a pair.
        dilation: step between the pixels that a kernel meets, an int or a pair.
        groups: number of parts into which channels are split; each meets only its own.
            ``groups=in_channels`` is a depthwise convolution.
        bias: whether to add a learned number to each output channel.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.
        compute_mode: "default", or "float32" to sum float16 in float32 (which happens anyway).
        padding_mode: "zeros", "reflect" or "replicate".

    Shape:
        - weight: (out_channels, in_channels, kh, kw), or (groups, out_channels // groups,
          in_channels // groups, kh, kw) where ``groups`` is above 1
        - bias: (1, out_channels, 1, 1)

    Raises:
        ValueError: channels are not multiples of ``groups``.

    >>> import megengine.functional as F
    >>> conv = Conv2d(3, 8, kernel_size=3, stride=2, padding=1)
    >>> conv
    Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    >>> conv(F.ones((2, 3, 32, 32))).shape
    (2, 8, 16, 16)
    """

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

    def calc_conv(self, inp: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with these weights instead of the module's own."""
        inp, padding = self._padded(inp)
        return F.conv2d(
            inp,
            weight,
            bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            self.conv_mode,
            self.compute_mode,
        )

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return self.calc_conv(inp, self.weight, self.bias)


class Conv3d(_ConvNd):
    r"""Convolves volumes (N, C, D, H, W) with learned kernels.

    Arguments as :class:`Conv2d`, sizes being an int or three. The weight is
    (out_channels, in_channels, kd, kh, kw), with ``groups`` first where they are above 1; the bias
    is (1, out_channels, 1, 1, 1).
    """

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
        **kwargs: Any,
    ):
        self.conv_mode = conv_mode
        super().__init__(
            in_channels,
            out_channels,
            _triple_nonzero(kernel_size),
            _triple_nonzero(stride),
            _triple(padding),
            0,
            _triple_nonzero(dilation),
            groups,
            bias,
            **kwargs,
        )

    def calc_conv(self, inp: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with these weights instead of the module's own."""
        return F.conv3d(
            inp,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.conv_mode,
        )

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, D, H, W) to (N, out_channels, D', H', W')."""
        return self.calc_conv(inp, self.weight, self.bias)


class ConvTranspose2d(_ConvNd):
    r"""The transpose of :class:`Conv2d`: spreads each input over a kernel of outputs.

    The height of the output is
    :math:`(H - 1) \cdot stride - 2 padding + dilation (kh - 1) + 1 + output\_padding`.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a kernel, an int or a pair.
        stride: step in the output between inputs, an int or a pair.
        padding: what is cut off on each side, an int or a pair.
        output_padding: what is added at the end, to choose among the sizes that a strided
            convolution maps to the same size; an int or a pair.
        dilation: step between the outputs that a kernel meets, an int or a pair.
        groups: number of parts into which channels are split.
        bias: whether to add a learned number to each output channel.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.
        compute_mode: "default" or "float32".

    Shape:
        - weight: (in_channels, out_channels, kh, kw), or (groups, in_channels // groups,
          out_channels // groups, kh, kw)
        - bias: (1, out_channels, 1, 1)

    >>> import megengine.functional as F
    >>> ConvTranspose2d(8, 3, 4, stride=2, padding=1)(F.ones((1, 8, 16, 16))).shape
    (1, 3, 32, 32)
    """

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
        **kwargs: Any,
    ):
        self.conv_mode = conv_mode
        self.compute_mode = compute_mode
        super().__init__(
            in_channels,
            out_channels,
            _pair_nonzero(kernel_size),
            _pair_nonzero(stride),
            _pair(padding),
            _pair(output_padding),
            _pair_nonzero(dilation),
            groups,
            bias,
            **kwargs,
        )

    def _get_fanin(self) -> int:
        return math.prod(self.kernel_size) * self.out_channels

    def _infer_weight_shape(self) -> tuple[int, ...]:
        return _grouped(self.groups, self.in_channels, self.out_channels, self.kernel_size)

    def calc_conv_transpose2d(self, inp: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The transposed convolution with these weights instead of the module's own."""
        return F.conv_transpose2d(
            inp,
            weight,
            bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
            self.conv_mode,
            self.compute_mode,
        )

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return self.calc_conv_transpose2d(inp, self.weight, self.bias)


class ConvTranspose3d(_ConvNd):
    r"""The transpose of :class:`Conv3d`: spreads each input over a kernel of outputs.

    Arguments as :class:`ConvTranspose2d`, sizes being an int or three. The weight is
    (in_channels, out_channels, kd, kh, kw), with ``groups`` first where they are above 1; the bias
    is (1, out_channels, 1, 1, 1).

    >>> import megengine.functional as F
    >>> ConvTranspose3d(2, 3, 2, stride=2)(F.ones((1, 2, 4, 4, 4))).shape
    (1, 3, 8, 8, 8)
    """

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
        **kwargs: Any,
    ):
        super().__init__(
            in_channels,
            out_channels,
            _triple_nonzero(kernel_size),
            _triple_nonzero(stride),
            _triple(padding),
            _triple(output_padding),
            _triple_nonzero(dilation),
            groups,
            bias,
            **kwargs,
        )

    def _infer_weight_shape(self) -> tuple[int, ...]:
        return _grouped(self.groups, self.in_channels, self.out_channels, self.kernel_size)

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, D, H, W) to (N, out_channels, D', H', W')."""
        return F.conv_transpose3d(
            inp,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
        )


class ConvRelu2d(Conv2d):
    """:class:`Conv2d` followed by ReLU; quantisation treats the two as one."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.relu(self.calc_conv(inp, self.weight, self.bias))


class ConvTransposeRelu2d(ConvTranspose2d):
    """:class:`ConvTranspose2d` followed by ReLU; quantisation treats the two as one."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return F.relu(self.calc_conv_transpose2d(inp, self.weight, self.bias))


class DeformableConv2d(_ConvNd):
    """Deformable convolution, version 2 (Zhu et al., 2018): taps are moved and scaled.

    Offsets and masks come with the input, most often from a convolution of it; see
    :func:`~megengine.functional.nn.deformable_conv2d`.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a kernel, an int or a pair.
        stride: step between outputs, an int or a pair.
        padding: zeros on each side, an int or a pair.
        dilation: step between the pixels that a kernel meets, an int or a pair.
        groups: number of parts into which channels are split; each meets only its own.
        bias: whether to add a learned number to each output channel.
        conv_mode: "cross_correlation", the only one supported.
        compute_mode: "default", or "float32" to sum float16 in float32 (which happens anyway).

    Shape:
        - weight: (out_channels, in_channels, kh, kw), or (groups, out_channels // groups,
          in_channels // groups, kh, kw) where ``groups`` is above 1
        - bias: (1, out_channels, 1, 1)

    >>> import megengine.functional as F
    >>> conv = DeformableConv2d(3, 8, kernel_size=3, padding=1)
    >>> conv(F.ones((2, 3, 6, 6)), F.zeros((2, 18, 6, 6)), F.ones((2, 9, 6, 6))).shape
    (2, 8, 6, 6)
    """

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
        **kwargs: Any,
    ):
        self.conv_mode = conv_mode
        self.compute_mode = compute_mode
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

    def calc_conv(
        self, inp: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor | None
    ) -> Tensor:
        """The convolution with these weights instead of the module's own."""
        return F.deformable_conv2d(
            inp,
            weight,
            offset,
            mask,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.conv_mode,
            self.compute_mode,
        )

    def forward(self, inp: Tensor, offset: Tensor, mask: Tensor) -> Tensor:
        """(N, in, H, W), (N, 2 d kh kw, Ho, Wo), (N, d kh kw, Ho, Wo) to (N, out, Ho, Wo)."""
        return self.calc_conv(inp, self.weight, offset, mask, self.bias)
