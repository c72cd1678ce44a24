"""Convolutions whose weights depend on the position, or whose reach depends on a region.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

from .._core import OpDef, apply, result_type
from .._core import call as _call
from ..core.errors import named
from ..tensor import Tensor
from .conv import Size, _make_op, _tuple, check_conv_mode
from .matrix import check_compute_mode

__all__ = ["local_conv2d", "region_restricted_conv"]


def _op_of(
    name: str,
    kind: str,
    stride: Size,
    padding: Size,
    dilation: Size,
    conv_mode: str,
    grouped: bool = False,
) -> OpDef:
    return _make_op(
        kind,
        _tuple(name, "stride", stride, 2),
        _tuple(name, "padding", padding, 2),
        _tuple(name, "dilation", dilation, 2),
        grouped,
        check_conv_mode(name, conv_mode),
    )


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return y
    return y + (bias.reshape(1, -1, 1, 1) if bias.ndim == 1 else bias)


@named
def local_conv2d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    conv_mode: str = "cross_correlation",
) -> Tensor:
    r"""A convolution with a kernel of its own at each position (a locally connected layer).

    .. math::
        out_{n,o,y,x} = \sum_{c,i,j} weight_{y,x,c,i,j,o} \cdot
                        inp_{n,\ c,\ y \cdot stride + i \cdot dilation - padding,\ \ldots}

    Args:
        inp: ``(N, C, H, W)`` of a float dtype.
        weight: ``(groups, Ho, Wo, C / groups, kh, kw, out / groups)``.
        bias: ``(out,)``, or what broadcasts to the result, such as ``(1, out, Ho, Wo)``.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernels.

    Returns:
        ``(N, out, Ho, Wo)``, ``Ho = (H + 2 padding - dilation (kh - 1) - 1) // stride + 1``.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: for operands that are no floats, or of two dtypes.

    Example:
        >>> weight = mge.tensor([1.0, 10.0, 100.0]).reshape(1, 1, 3, 1, 1, 1, 1)
        >>> F.local_conv2d(F.ones((1, 1, 1, 3)), weight)
        Tensor([[[[  1.  10. 100.]]]], device=xpux:0)
    """
    op = _op_of("local_conv2d", "GroupLocal", stride, padding, dilation, conv_mode)
    return _with_bias(_call(op, inp, weight), bias)


@named
def region_restricted_conv(
    inp: Tensor,
    weight: Tensor,
    rin: Tensor,
    rout: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """A convolution that takes a pixel only where its region is that of the output pixel.

    The input at position q counts for the output at position p where ``rin[q] == rout[p]``. What
    does not count may be anything, NaN included.

    Args:
        inp: ``(N, C, H, W)`` of a float dtype.
        weight: ``(out, C, kh, kw)``, in groups ``(groups, out / groups, C / groups, kh, kw)``. A
            depthwise one, ``(C, 1, 1, kh, kw)``, is the quickest.
        rin: the region of each input pixel, ``(N, H, W)`` of an integer dtype.
        rout: the region of each output pixel, ``(N, Ho, Wo)`` of an integer dtype.
        bias: ``(out,)`` or ``(1, out, 1, 1)``.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernel.
        compute_mode: "default" or "float32". 16-bit floats accumulate in float32 either way.

    Returns:
        ``(N, out, Ho, Wo)``. Gradients go to ``inp``, ``weight`` and ``bias``.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: for operands that are no floats, or regions that are no integers.

    Example:
        >>> regions = mge.tensor([[[0, 0, 1]]])
        >>> weight = F.ones((1, 1, 1, 1, 3))
        >>> F.region_restricted_conv(F.ones((1, 1, 1, 3)), weight, regions, regions, padding=(0, 1))
        Tensor([[[[2. 2. 1.]]]], device=xpux:0)
    """
    name = "region_restricted_conv"
    check_compute_mode(name, compute_mode)
    shape = weight.shape
    if len(shape) not in (4, 5) or (shape[0] if len(shape) == 5 else 1) != groups:
        raise ValueError(
            f"{name}: expected a weight of shape ({groups}, out / {groups}, in / {groups}, kh, kw) "
            f"for {groups} groups, got {shape}"
        )
    kind = "RegionRestrictedConvolution"
    op = _op_of(name, kind, stride, padding, dilation, conv_mode, len(shape) == 5)
    if inp.dtype != weight.dtype:
        dtype = result_type(inp, weight)
        inp, weight = inp.astype(dtype), weight.astype(dtype)
    return _with_bias(apply(op, inp, weight, rin, rout)[0], bias)
