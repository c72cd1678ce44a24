"""Convolutions fused with a bias and an activation, as networks of quantised tensors use them.

With float tensors they compute what their names say. Quantised dtypes are not there yet: a
``dtype`` that is one raises.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .._core import OpDef
from .._core import apply as apply
from .._core import call as _call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from . import conv
from .conv import Size, _tuple, check_conv_mode
from .matrix import check_compute_mode

__all__ = ["batch_conv_bias_activation", "conv_bias_activation", "conv_transpose2d"]

_ACTIVATIONS = ("IDENTITY", "RELU", "SIGMOID", "H_SWISH")


@lru_cache(maxsize=1024)
def _make_op(
    kind: str,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    mode: str,
    grouped: bool,
    activation: str,
) -> OpDef:
    return getattr(builtin, kind)(
        stride_h=stride[0],
        stride_w=stride[1],
        pad_h=padding[0],
        pad_w=padding[1],
        dilate_h=dilation[0],
        dilate_w=dilation[1],
        mode=mode,
        sparse="GROUP" if grouped else "DENSE",
        nonlineMode=activation,
    )


def _check_dtype(name: str, dtype: Any, inp: Tensor) -> None:
    """Raises unless `dtype` is that of the input, or None."""
    if dtype is None:
        return
    try:
        same = np.dtype(dtype) == inp.dtype and np.dtype(dtype).metadata is None
    except TypeError:
        same = False
    if not same:
        raise NotImplementedError(
            f"{name}: dtype {dtype!r} is not supported: quantised dtypes are not there yet; pass "
            f"None or {inp.dtype.name!r}, the dtype of the input"
        )


def _activation(name: str, nonlinear_mode: str) -> str:
    mode = str(nonlinear_mode).upper()
    if mode not in _ACTIVATIONS:
        raise ValueError(
            f"{name}: expected nonlinear_mode to be identity, relu, sigmoid or h_swish, got "
            f"{nonlinear_mode!r}"
        )
    return mode


def _conv_bias(
    name: str,
    kind: str,
    inp: Tensor,
    weight: Tensor,
    bias: Tensor,
    dtype: Any,
    stride: Size,
    padding: Size,
    dilation: Size,
    grouped: bool,
    nonlinear_mode: str,
    conv_mode: str,
    compute_mode: str,
) -> Tensor:
    check_compute_mode(name, compute_mode)
    _check_dtype(name, dtype, inp)
    op = _make_op(
        kind,
        _tuple(name, "stride", stride, 2),
        _tuple(name, "padding", padding, 2),
        _tuple(name, "dilation", dilation, 2),
        check_conv_mode(name, conv_mode),
        grouped,
        _activation(name, nonlinear_mode),
    )
    return _call(op, inp, weight) if bias is None else _call(op, inp, weight, bias)


@named
def conv_bias_activation(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor,
    dtype: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    nonlinear_mode: str = "identity",
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """A convolution over two axes, a bias and an activation in one step.

    Args:
        inp: ``(N, in, H, W)``.
        weight: ``(out, in, kh, kw)``, in groups ``(groups, out / groups, in / groups, kh, kw)``.
        bias: ``(1, out, 1, 1)`` or ``(out,)``, or an image that broadcasts to the result.
        dtype: that of ``inp``, or None. Quantised dtypes are not there yet.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        nonlinear_mode: "identity", "relu", "sigmoid" or "h_swish".
        conv_mode: as in :func:`megengine.functional.conv2d`.
        compute_mode: "default" or "float32".

    Returns:
        ``(N, out, Ho, Wo)``, as from :func:`megengine.functional.conv2d`.

    Raises:
        NotImplementedError: for another dtype.
        ValueError: if the shapes do not fit, or for an unknown mode.

    >>> import megengine as mge, megengine.functional as F
    >>> x, bias = F.ones((1, 1, 1, 2)), mge.tensor([-3.0])
    >>> F.quantized.conv_bias_activation(x, F.ones((1, 1, 1, 1)), bias, nonlinear_mode="relu")
    Tensor([[[[0. 0.]]]], device=xpux:0)
    """
    name = "conv_bias_activation"
    conv._check(name, weight, groups, 2, compute_mode)
    return _conv_bias(
        name,
        "ConvBias",
        inp,
        weight,
        bias,
        dtype,
        stride,
        padding,
        dilation,
        groups != 1,
        nonlinear_mode,
        conv_mode,
        compute_mode,
    )


@named
def batch_conv_bias_activation(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor,
    dtype: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    nonlinear_mode: str = "identity",
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """The same as :func:`conv_bias_activation` with a weight of each sample's own.

    Args:
        inp: ``(N, in, H, W)``.
        weight: ``(N, out, in, kh, kw)``, in groups
            ``(N, groups, out / groups, in / groups, kh, kw)``.
        bias: as in :func:`conv_bias_activation`, one for all samples.
        dtype: that of ``inp``, or None. Quantised dtypes are not there yet.
        stride: step from one position to the next, for both axes or each.
        padding: zeros on both sides of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        nonlinear_mode: "identity", "relu", "sigmoid" or "h_swish".
        conv_mode: as in :func:`megengine.functional.conv2d`.
        compute_mode: "default" or "float32".

    Returns:
        ``(N, out, Ho, Wo)``.

    Raises:
        NotImplementedError: for another dtype.
        ValueError: if the shapes do not fit, or for an unknown mode.

    >>> import megengine as mge, megengine.functional as F
    >>> x, weight = F.ones((2, 1, 1, 1)), mge.tensor([2.0, 5.0]).reshape(2, 1, 1, 1, 1)
    >>> F.quantized.batch_conv_bias_activation(x, weight, mge.tensor([1.0])).reshape(2)
    Tensor([3. 6.], device=xpux:0)
    """
    name = "batch_conv_bias_activation"
    shape = weight.shape
    if len(shape) not in (5, 6) or (shape[1] if len(shape) == 6 else 1) != groups:
        raise ValueError(
            f"{name}: expected a weight of shape (N, out, in, kh, kw), or (N, {groups}, "
            f"out / {groups}, in / {groups}, kh, kw) for {groups} groups, got {shape}"
        )
    return _conv_bias(
        name,
        "BatchConvBias",
        inp,
        weight,
        bias,
        dtype,
        stride,
        padding,
        dilation,
        groups != 1,
        nonlinear_mode,
        conv_mode,
        compute_mode,
    )


@named
def conv_transpose2d(
    inp: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dtype: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    conv_mode: str = "cross_correlation",
    compute_mode: str = "default",
) -> Tensor:
    """:func:`megengine.functional.conv_transpose2d` with a ``dtype`` for quantised results.

    Args:
        inp: ``(N, in, H, W)``.
        weight: ``(in, out, kh, kw)``, in groups ``(groups, in / groups, out / groups, kh, kw)``.
        bias: ``(1, out, 1, 1)`` or ``(out,)``.
        dtype: that of ``inp``, or None. Quantised dtypes are not there yet.
        stride: step of the output for a step of the input.
        padding: rows and columns that are cut off both sides of the output.
        output_padding: added to the size of the output at the end of each axis.
        dilation: step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not mix.
        conv_mode: as in :func:`megengine.functional.conv2d`.
        compute_mode: "default" or "float32".

    Returns:
        ``(N, out, Ho, Wo)``.

    Raises:
        NotImplementedError: for another dtype.
        ValueError: if the shapes do not fit.

    >>> import megengine.functional as F
    >>> F.quantized.conv_transpose2d(F.ones((1, 1, 1, 2)), F.ones((1, 1, 1, 2)))
    Tensor([[[[1. 2. 1.]]]], device=xpux:0)
    """
    _check_dtype("conv_transpose2d", dtype, inp)
    return conv.conv_transpose2d(
        inp,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        conv_mode,
        compute_mode,
    )
