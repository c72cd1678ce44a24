"""Convolutions over one, two and three spatial axes, and their transposes.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from .._core import OpDef
from .._core import call as _call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .matrix import check_compute_mode
from .tensor import expand_dims, squeeze

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"]

Size: TypeAlias = int | Sequence[int]


def _tuple(op: str, name: str, value: Size, n: int) -> tuple[int, ...]:
    """A size along n axes; a single number stands for all of them."""
    if isinstance(value, int):
        return (value,) * n
    try:
        sizes = tuple(map(int, value))
    except TypeError:
        sizes = (int(value),) * n  # type: ignore[call-overload]
    if len(sizes) != n:
        raise ValueError(f"{op}: expected {name} to be an int or {n} ints, got {value}")
    return sizes


@lru_cache(maxsize=1024)
def _make_op(
    kind: str,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    grouped: bool,
    mode: str,
    output_size: tuple[int, ...] = (),
) -> OpDef:
    axes = "dhw"[-len(stride) :]
    fields: dict[str, Any] = {f"stride_{a}": v for a, v in zip(axes, stride, strict=True)}
    fields |= {f"pad_{a}": v for a, v in zip(axes, padding, strict=True)}
    fields |= {f"dilate_{a}": v for a, v in zip(axes, dilation, strict=True)}
    if output_size:
        fields["output_size"] = output_size
    return getattr(builtin, kind)(sparse="GROUP" if grouped else "DENSE", mode=mode, **fields)


def check_conv_mode(op: str, conv_mode: str) -> str:
    """The name that the ops have for this mode."""
    if conv_mode == "cross_correlation":  # nearly always
        return "CROSS_CORRELATION"
    mode = str(conv_mode).upper()
    if mode not in ("CROSS_CORRELATION", "CONVOLUTION"):
        raise ValueError(
            f"{op}: expected conv_mode 'cross_correlation' or 'convolution', got {conv_mode!r}"
        )
    return mode


def _check(op: str, weight: Tensor, groups: int, n: int, compute_mode: str) -> None:
    if compute_mode != "default":
        check_compute_mode(op, compute_mode)
    shape = weight.shape
    if groups != 1 and (len(shape) != n + 3 or shape[0] != groups):
        kernel = ", ".join(("kd", "kh", "kw")[-n:])
        raise ValueError(
            f"{op}: expected a weight of shape ({groups}, out / {groups}, in / {groups}, {kernel}) "
            f"for {groups} groups, got {shape}"
        )
    if groups == 1 and len(shape) == n + 3 and shape[0] != 1:
        raise ValueError(f"{op}: a weight of shape {shape} has {shape[0]} groups, got groups=1")


def _is_per_channel(bias: Tensor, channels: int, ndim: int) -> bool:
    shape = bias.shape
    return shape in ((channels,), (1, channels) + (1,) * (ndim - 2))


def _convolve(
    op: str,
    kind: str,
    n: int,
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    dilation: Size,
    grouped: bool,
    conv_mode: str,
) -> Tensor:
    made = _make_op(
        kind,
        _tuple(op, "stride", stride, n),
        _tuple(op, "padding", padding, n),
        _tuple(op, "dilation", dilation, n),
        grouped,
        check_conv_mode(op, conv_mode),
    )
    if bias is None:
        return _call(made, inp, weight)
    w = weight.shape
    channels = w[0] * w[1] if len(w) == n + 3 else w[0]
    if _is_per_channel(bias, channels, n + 2):
        return _call(made, inp, weight, bias)
    return _call(made, inp, weight) + bias


def _convolve_transposed(
    op: str,
    kind: str,
    n: int,
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    output_padding: Size,
    dilation: Size,
    grouped: bool,
    conv_mode: str,
) -> Tensor:
    strides = _tuple(op, "stride", stride, n)
    pads = _tuple(op, "padding", padding, n)
    dilations = _tuple(op, "dilation", dilation, n)
    extra = _tuple(op, "output_padding", output_padding, n)
    output_size: tuple[int, ...] = ()
    if any(extra):
        for e, s, d in zip(extra, strides, dilations, strict=True):
            if not 0 <= e < max(s, d):
                raise ValueError(
                    f"{op}: expected output_padding below stride or dilation, got {output_padding} "
                    f"with stride {stride} and dilation {dilation}"
                )
        output_size = tuple(
            (i - 1) * s - 2 * p + d * (k - 1) + 1 + e
            for i, s, p, d, k, e in zip(
                inp.shape[2:], strides, pads, dilations, weight.shape[-n:], extra, strict=False
            )
        )
    mode = check_conv_mode(op, conv_mode)
    made = _make_op(kind, strides, pads, dilations, grouped, mode, output_size)
    y = _call(made, weight, inp)
    if bias is None:
        return y
    if bias.ndim == 1:
        bias = bias.reshape(1, -1, *(1,) * n)
    return y + bias


@named
def conv1d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """A convolution over one spatial axis; see :func:`conv2d`.

    Args:
        inp: ``(N, in, L)``.
        weight: ``(out, in, kernel)``, in groups ``(groups, out / groups, in / groups, kernel)``.
        bias: ``(1, out, 1)`` or ``(out,)``.
        stride: step from one position to the next.
        padding: zeros on both sides.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: as in :func:`conv2d`.
        compute_mode: "default" or "float32".

    Returns:
        ``(N, out, (L + 2 padding - dilation (kernel - 1) - 1) // stride + 1)``.

    Example:
        >>> F.conv1d(F.ones((1, 1, 4)), F.ones((1, 1, 2)))
        Tensor([[[2. 2. 2.]]], device=xpux:0)
    """
    _check("conv1d", weight, groups, 1, compute_mode)
    if inp.ndim != 3:
        raise ValueError(f"conv1d: expected an input of 3 dimensions, got shape {inp.shape}")
    if bias is not None and bias.ndim == 3:
        bias = expand_dims(bias, 2)
    y = _convolve(
        "conv1d",
        "Convolution",
        2,
        expand_dims(inp, 2),
        expand_dims(weight, -2),
        bias,
        (1, *_tuple("conv1d", "stride", stride, 1)),
        (0, *_tuple("conv1d", "padding", padding, 1)),
        (1, *_tuple("conv1d", "dilation", dilation, 1)),
        groups != 1,
        conv_mode,
    )
    return squeeze(y, 2)


@named
def conv2d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """A convolution over two spatial axes (a correlation, unless ``conv_mode`` says otherwise).

    Args:
        inp: ``(N, in, H, W)``.
        weight: ``(out, in, kh, kw)``, in groups ``(groups, out / groups, in / groups, kh, kw)``.
        bias: ``(1, out, 1, 1)`` or ``(out,)``.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: "cross_correlation", or "convolution", which reverses the kernel along its
            spatial axes.
        compute_mode: "default" or "float32". float16 and bfloat16 accumulate in float32 either way.

    Returns:
        ``(N, out, Ho, Wo)``, ``Ho = (H + 2 padding - dilation (kh - 1) - 1) // stride + 1``. Lies
        channels-last in memory.

    Raises:
        ValueError: if the shapes do not fit, or the kernel is larger than the padded input.

    Example:
        >>> F.conv2d(F.ones((1, 1, 3, 3)), F.ones((1, 1, 2, 2)))
        Tensor([[[[4. 4.]
           [4. 4.]]]], device=xpux:0)
    """
    _check("conv2d", weight, groups, 2, compute_mode)
    return _convolve(
        "conv2d",
        "Convolution",
        2,
        inp,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups != 1,
        conv_mode,
    )


@named
def conv3d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
) -> Tensor:
    """A convolution over three spatial axes; see :func:`conv2d`.

    Args:
        inp: ``(N, in, D, H, W)``.
        weight: ``(out, in, kd, kh, kw)``, in groups
            ``(groups, out / groups, in / groups, kd, kh, kw)``.
        bias: ``(1, out, 1, 1, 1)`` or ``(out,)``.
        stride: step from one position to the next, for all axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: as in :func:`conv2d`.

    Returns:
        ``(N, out, Do, Ho, Wo)``.

    Example:
        >>> F.conv3d(F.ones((1, 1, 2, 2, 2)), F.ones((1, 1, 2, 2, 2)))
        Tensor([[[[[8.]]]]], device=xpux:0)
    """
    _check("conv3d", weight, groups, 3, "default")
    return _convolve(
        "conv3d",
        "Convolution3D",
        3,
        inp,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups != 1,
        conv_mode,
    )


@named
def conv_transpose2d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """A transposed convolution over two axes: the gradient of :func:`conv2d` to its input.

    Args:
        inp: ``(N, in, H, W)``.
        weight: ``(in, out, kh, kw)``, in groups ``(groups, in / groups, out / groups, kh, kw)``.
        bias: ``(1, out, 1, 1)`` or ``(out,)``.
        stride: step of the output for a step of the input.
        padding: rows and columns that are cut off both sides of the output.
        output_padding: added to the size of the output at the end of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: as in :func:`conv2d`.
        compute_mode: "default" or "float32".

    Returns:
        ``(N, out, Ho, Wo)``,
        ``Ho = (H - 1) stride - 2 padding + dilation (kh - 1) + 1 + output_padding``.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> F.conv_transpose2d(F.ones((1, 1, 2, 2)), F.ones((1, 1, 2, 2)))
        Tensor([[[[1. 2. 1.]
           [2. 4. 2.]
           [1. 2. 1.]]]], device=xpux:0)
    """
    _check("conv_transpose2d", weight, groups, 2, compute_mode)
    return _convolve_transposed(
        "conv_transpose2d",
        "ConvolutionBackwardData",
        2,
        inp,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        dilation,
        groups != 1,
        conv_mode,
    )


@named
def conv_transpose3d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
) -> Tensor:
    """A transposed convolution over three axes; see :func:`conv_transpose2d`.

    Args:
        inp: ``(N, in, D, H, W)``.
        weight: ``(in, out, kd, kh, kw)``, in groups
            ``(groups, in / groups, out / groups, kd, kh, kw)``.
        bias: ``(1, out, 1, 1, 1)`` or ``(out,)``.
        stride: step of the output for a step of the input.
        padding: what is cut off both sides of the output.
        output_padding: added to the size of the output at the end of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: as in :func:`conv2d`.

    Returns:
        ``(N, out, Do, Ho, Wo)``.

    Example:
        >>> F.conv_transpose3d(F.ones((1, 1, 1, 1, 1)), F.ones((1, 1, 1, 1, 2)))
        Tensor([[[[[1. 1.]]]]], device=xpux:0)
    """
    _check("conv_transpose3d", weight, groups, 3, "default")
    return _convolve_transposed(
        "conv_transpose3d",
        "Convolution3DBackwardData",
        3,
        inp,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        dilation,
        groups != 1,
        conv_mode,
    )
