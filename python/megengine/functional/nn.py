"""Functions of neural networks: normalisation, pooling, softmax, embedding, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np

from .._core import OpDef, apply, call
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .attention import multi_head_attention, scaled_dot_product_attention
from .conv import conv1d, conv2d, conv3d, conv_transpose2d, conv_transpose3d
from .detection import correlation as correlation
from .detection import deformable_conv2d, deformable_psroi_pooling
from .detection import nms as nms
from .detection import roi_align as roi_align
from .detection import roi_pooling as roi_pooling
from .elemwise import (
    gelu,
    hsigmoid,
    hswish,
    leaky_relu,
    logsigmoid,
    maximum,
    prelu,
    relu,
    relu6,
    sigmoid,
    silu,
    softplus,
    sqrt,
)
from .local_conv import local_conv2d, region_restricted_conv
from .math import normalize, var
from .matrix import linear
from .tensor import concat, full, indexing_one_hot, one_hot
from .vision import cvt_color as cvt_color
from .vision import interpolate as interpolate
from .vision import nvof as nvof
from .vision import remap, warp_affine, warp_perspective
from .windows import sliding_window, sliding_window_transpose

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "avg_pool2d",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "conv_transpose3d",
    "deformable_conv2d",
    "deformable_psroi_pooling",
    "dropout",
    "embedding",
    "gelu",
    "general_norm",
    "group_norm",
    "hsigmoid",
    "hswish",
    "indexing_one_hot",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_conv2d",
    "local_response_norm",
    "logsigmoid",
    "logsoftmax",
    "logsumexp",
    "max_pool2d",
    "multi_head_attention",
    "normalize",
    "one_hot",
    "pad",
    "pixel_shuffle",
    "prelu",
    "region_restricted_conv",
    "relu",
    "relu6",
    "remap",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "sliding_window",
    "sliding_window_transpose",
    "softmax",
    "softplus",
    "sync_batch_norm",
    "warp_affine",
    "warp_perspective",
]

# Ops are made once for each set of attributes: making one costs more than running a small one.
_op = lru_cache(maxsize=4096)


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _as_float(value: Any) -> Tensor:
    """The operand as a Tensor of a float dtype; integers and booleans become float32."""
    inp = _as_tensor(value)
    return inp.astype("float32") if inp.dtype.kind in "iub" else inp


def _pair(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, Tensor):
        value = value.numpy()
    values = np.atleast_1d(np.asarray(value))
    if values.dtype.kind not in "iu" or values.ndim != 1 or values.size not in (1, 2):
        raise ValueError(f"{name}: expected an int or a pair of ints, got {value!r}")
    return int(values[0]), int(values[-1])


# ---- softmax -----------------------------------------------------------------------------------


@_op
def _softmax_op(axis: int) -> OpDef:
    return builtin.Softmax(axis=axis)


@_op
def _logsoftmax_op(axis: int) -> OpDef:
    return builtin.LogSoftmax(axis=axis)


@_op
def _logsumexp_op(axis: int) -> OpDef:
    return builtin.LogSumExp(axis=axis)


def _with_single_axis(inp: Tensor, axes: Sequence[int]) -> tuple[Tensor, list[int], list[int]]:
    """``inp`` with ``axes`` joined into one at the end; the other axes; the sizes of the joined."""
    ndim = inp.ndim
    joined = []
    for a in axes:
        if not -ndim <= a < ndim:
            raise ValueError(f"axis: expected axes in [{-ndim}, {ndim}), got {a}")
        joined.append(a % ndim)
    if len(set(joined)) != len(joined):
        raise ValueError(f"axis: expected different axes, got {tuple(axes)}")
    joined.sort()
    others = [a for a in range(ndim) if a not in joined]
    sizes = [inp.shape[a] for a in joined]
    moved = inp.transpose(others + joined)
    return moved.reshape(*[inp.shape[a] for a in others], math.prod(sizes)), others, joined


@named
def softmax(inp: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    r"""Exponentials that add up to 1: :math:`\exp(x_i) / \sum_j \exp(x_j)`.

    Args:
        inp: of any shape and float dtype (integers count as float32).
        axis: one axis or several to normalise along. Without: 0 for 0, 1 and 3 dimensions, else 1.

    Returns:
        A tensor of the shape and dtype of ``inp``. Values of any size are safe. Where all values
        along the axis are ``-inf`` (a fully masked row), the result is 0 and the gradient finite.

    Raises:
        ValueError: if there is no such axis.

    >>> import megengine as mge, megengine.functional as F
    >>> F.softmax(mge.tensor([[0.0, 0.0], [1000.0, 0.0]]), axis=1)
    Tensor([[0.5 0.5]
     [1.  0. ]], device=xpux:0)
    """
    inp = _as_float(inp)
    if axis is None:
        axis = 0 if inp.ndim in (0, 1, 3) else 1
    if isinstance(axis, Sequence):
        flat, others, joined = _with_single_axis(inp, axis)
        return _restore(call(_softmax_op(-1), flat), inp, others, joined)
    if inp.ndim == 0:
        inp = inp.reshape(1)
    return call(_softmax_op(int(axis)), inp)


def _restore(flat: Tensor, inp: Tensor, others: list[int], joined: list[int]) -> Tensor:
    """Undoes :func:`_with_single_axis`."""
    order = others + joined
    moved = flat.reshape(*[inp.shape[a] for a in order])
    return moved.transpose([order.index(a) for a in range(inp.ndim)])


@named
def logsoftmax(inp: Tensor, axis: int | Sequence[int]) -> Tensor:
    r"""The logarithm of softmax: :math:`x_i - \log \sum_j \exp(x_j)`, without losing digits.

    Args:
        inp: of any shape and float dtype (integers count as float32).
        axis: one axis or several.

    Returns:
        A tensor of the shape and dtype of ``inp``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.logsoftmax(mge.tensor([[-100.0, 100.0]]), axis=1)
    Tensor([[-200.    0.]], device=xpux:0)
    """
    inp = _as_float(inp)
    if isinstance(axis, Sequence):
        flat, others, joined = _with_single_axis(inp, axis)
        return _restore(call(_logsoftmax_op(-1), flat), inp, others, joined)
    if inp.ndim == 0:
        return call(_logsoftmax_op(0), inp.reshape(1)).reshape(())
    return call(_logsoftmax_op(int(axis)), inp)


@named
def logsumexp(inp: Tensor, axis: int | Sequence[int] | None, keepdims: bool = False) -> Tensor:
    r"""The logarithm of the sum of exponentials, :math:`\log \sum_j \exp(x_j)`.

    Values of any size are safe.

    Args:
        inp: of any shape and float dtype (integers count as float32).
        axis: one axis or several, or None for all.
        keepdims: whether the reduced axes stay, with length 1.

    Returns:
        A tensor of the dtype of ``inp``; ``-inf`` where all values are ``-inf``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.logsumexp(mge.tensor([[1000.0, 1000.0]]), axis=1)
    Tensor([1000.6932], device=xpux:0)
    """
    inp = _as_float(inp)
    if inp.ndim == 0:
        return call(_logsumexp_op(0), inp.reshape(1))
    if axis is None:
        axis = tuple(range(inp.ndim))
    if isinstance(axis, Sequence):
        if not axis:
            return inp + 0
        flat, _, axes = _with_single_axis(inp, axis)
        out = call(_logsumexp_op(-1), flat)
    else:
        axes = [int(axis) % inp.ndim]
        out = call(_logsumexp_op(int(axis)), inp)
    if not keepdims:
        return out
    return out.reshape(*[1 if a in axes else n for a, n in enumerate(inp.shape)])


# ---- normalisation -----------------------------------------------------------------------------


@_op
def _batch_norm_op(training: bool, eps: float, avg_factor: float) -> OpDef:
    mode = "TRAINING" if training else "INFERENCE"
    return builtin.BatchNorm(fwd_mode=mode, epsilon=eps, avg_factor=avg_factor)


def _filled(count: int, value: float, like: Tensor) -> Tensor:
    dtype = "float64" if like.dtype == np.float64 else "float32"
    return full((count,), value, dtype=dtype, device=like.device)


@overload
def batch_norm(
    inp: Tensor,
    running_mean: Tensor | None = ...,
    running_var: Tensor | None = ...,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    training: bool = ...,
    momentum: float = ...,
    eps: float = ...,
    inplace: Literal[True] = ...,
) -> Tensor: ...
@overload
def batch_norm(
    inp: Tensor,
    running_mean: Tensor | None = ...,
    running_var: Tensor | None = ...,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    training: bool = ...,
    momentum: float = ...,
    eps: float = ...,
    *,
    inplace: bool,
) -> Tensor | tuple[Tensor, Tensor, Tensor]: ...
@named
def batch_norm(
    inp: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    eps: float = 1e-5,
    inplace: bool = True,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    r"""Batch norm: :math:`(x - E[x]) / \sqrt{Var[x] + eps} \cdot weight + bias` for each channel.

    Mean and variance are those of the batch in training, else the running ones.

    Args:
        inp: ``(N, C)`` or ``(N, C, ...)``.
        running_mean: one value for each channel, ``(1, C, 1, 1)`` or ``(C,)``. In training it
            becomes ``momentum * running + (1 - momentum) * batch``. Left out, it starts as 0.
        running_var: likewise, with the unbiased variance of the batch. Left out, it starts as 1.
        weight: one value for each channel; 1 without.
        bias: one value for each channel; 0 without.
        training: whether to use the statistics of this batch.
        momentum: the share of the running statistics that is kept.
        eps: is added to the variance.
        inplace: whether new running statistics are put into the given tensors. If not, training
            returns ``(output, new_mean, new_var)``.

    Returns:
        A tensor of the shape and dtype of ``inp``.

    Raises:
        ValueError: if a shape does not fit, or running statistics are missing in evaluation.

    Reference: Ioffe and Szegedy, *Batch Normalization*, 2015.

    >>> import megengine as mge, megengine.functional as F
    >>> mean, var = F.zeros(1), F.ones(1)
    >>> F.batch_norm(mge.tensor([[0.0], [2.0]]), mean, var, training=True, eps=0.0)
    Tensor([[-1.]
     [ 1.]], device=xpux:0)
    >>> mean
    Tensor([0.1], device=xpux:0)
    """
    if inp.ndim < 2:
        raise ValueError(f"batch_norm: expected an input (N, C, ...), got shape {inp.shape}")
    if not training and (running_mean is None or running_var is None):
        raise ValueError(
            "batch_norm: running_mean and running_var are needed where training is False"
        )
    channels = inp.shape[1]
    if weight is None:
        weight = _filled(channels, 1.0, inp)
    if bias is None:
        bias = _filled(channels, 0.0, inp)
    op = _batch_norm_op(bool(training), float(eps), 1.0 - float(momentum))
    if not training:
        return call(op, inp, weight, bias, running_mean, running_var)
    if running_mean is None and running_var is None and inplace:
        return apply(op, inp, weight, bias)[0]
    old_mean = _filled(channels, 0.0, inp) if running_mean is None else running_mean
    old_var = _filled(channels, 1.0, inp) if running_var is None else running_var
    out, _, _, new_mean, new_var = apply(op, inp, weight, bias, old_mean, old_var)
    if not inplace:
        return out, new_mean, new_var
    if running_mean is not None:
        running_mean._reset(new_mean)
    if running_var is not None:
        running_var._reset(new_var)
    return out


def _group_of_several(group: Any) -> Any:
    """The group of a layer that works over several processes; None where this one is alone."""
    from .. import distributed as dist  # is built on functions

    if group is None or group is dist.WORLD:
        if not dist.is_distributed():
            return None
        group = dist.WORLD
    group = dist.group.as_group(group)
    return group if group.size > 1 else None


def _moments(x: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel over the processes of a group, and the count they have.

    The variance is that of distances from the common mean, which takes a second message.
    """
    from ..distributed.functional import all_reduce_sum

    axes = (0, *range(2, x.ndim))
    channels = (1, x.shape[1], *[1] * (x.ndim - 2))
    count = full((1,), x.size // max(x.shape[1], 1), dtype=x.dtype, device=x.device)
    sums = all_reduce_sum(concat([x.sum(axes), count]), group)
    count = sums[-1]
    mean = (sums[:-1] / count).reshape(channels)
    squares = all_reduce_sum(((x - mean) ** 2).sum(axes), group)
    return mean, (squares / count).reshape(channels), count


@named
def sync_batch_norm(
    inp: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.9,
    eps: float = 1e-5,
    eps_mode: str = "additive",
    group: Any = None,
) -> Tensor:
    """Batch norm over the batches of all processes of a group; alone, :func:`batch_norm`.

    In training mean and variance are those of all elements of all processes together, which may
    have batches of different sizes: they add up sums of a channel's elements, and then of their
    squared distances from the common mean. 16-bit floats are added in float32. Gradients follow.

    Args:
        inp: as in :func:`batch_norm`, like all that is not described here.
        running_mean: see there.
        running_var: see there.
        weight: see there.
        bias: see there.
        training: see there.
        momentum: see there.
        eps: see there.
        eps_mode: ``"additive"`` adds ``eps`` to the variance, ``"max"`` makes it at least ``eps``.
        group: the processes, a :class:`.Group` or their ranks; all by default.

    Raises:
        ValueError: for another ``eps_mode``; where the processes have other numbers of channels.

    >>> import megengine as mge, megengine.functional as F
    >>> x = mge.tensor([[0.0], [2.0]])
    >>> F.sync_batch_norm(x, F.zeros(1), F.ones(1), training=True, eps=0.0)
    Tensor([[-1.]
     [ 1.]], device=xpux:0)
    """
    several = _group_of_several(group) if training else None
    keep = float(momentum)
    if eps_mode not in ("additive", "max"):
        raise ValueError(f"sync_batch_norm: expected eps_mode additive or max, got {eps_mode!r}")
    if several is None and eps_mode == "additive":
        return batch_norm(inp, running_mean, running_var, weight, bias, training, keep, eps)
    channels = (1, inp.shape[1], *[1] * (inp.ndim - 2))
    x = inp.astype("float32") if inp.dtype.itemsize == 2 else inp
    if several is not None:
        mean, variance, count = _moments(x, several)
        unbiased = variance * (count / maximum(count - 1, 1))
        for running, batch in ((running_mean, mean), (running_var, unbiased)):
            if running is not None:
                batch = batch.detach().reshape(running.shape).astype(running.dtype)
                running._reset(running * keep + batch * (1 - keep))
    elif training:
        # Centred and kept up to date as usual; then divided by what the larger of the two says.
        axes = (0, *range(2, inp.ndim))
        mean, variance = x.mean(axes, keepdims=True), var(x, axes, keepdims=True)
        batch_norm(inp.detach(), running_mean, running_var, None, None, True, keep, eps)
    else:
        mean, variance = running_mean.reshape(channels), running_var.reshape(channels)
    variance = maximum(variance, eps) if eps_mode == "max" else variance + eps
    out = (x - mean) / sqrt(variance)
    if weight is not None:
        out = out * weight.reshape(channels)
    if bias is not None:
        out = out + bias.reshape(channels)
    return out.astype(inp.dtype)


@_op
def _layer_norm_op(affine: bool, eps: float, dims: int) -> OpDef:
    return builtin.LayerNorm(affine=affine, eps=eps, normalized_dim=dims)


@_op
def _group_norm_op(affine: bool, eps: float, group: int) -> OpDef:
    return builtin.GroupNorm(affine=affine, eps=eps, group=group)


def _normalize(
    name: str, op: OpDef, inp: Tensor, affine: bool, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    if not affine:
        return apply(op, inp)[0]
    if weight is None or bias is None:
        raise ValueError(f"{name}: weight and bias are needed where affine is True")
    return apply(op, inp, weight, bias)[0]


@named
def layer_norm(
    inp: Tensor,
    normalized_shape: int | Sequence[int],
    affine: bool,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Layer norm: :math:`(x - E[x]) / \sqrt{Var[x] + eps} \cdot weight + bias` over the last axes.

    Args:
        inp: of any shape that ends in ``normalized_shape``.
        normalized_shape: sizes of the axes that mean and variance are taken over.
        affine: whether to scale by ``weight`` and shift by ``bias``.
        weight: of ``normalized_shape``.
        bias: of ``normalized_shape``.
        eps: is added to the variance.

    Returns:
        A tensor of the shape and dtype of ``inp``.

    Raises:
        ValueError: if a shape does not fit.

    Reference: Ba, Kiros and Hinton, *Layer Normalization*, 2016.

    >>> import megengine as mge, megengine.functional as F
    >>> F.layer_norm(mge.tensor([[1.0, 3.0]]), 2, affine=False, eps=0.0)
    Tensor([[-1.  1.]], device=xpux:0)
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if len(shape) == 0 or inp.shape[-len(shape) :] != shape:
        raise ValueError(
            f"layer_norm: expected an input that ends in {shape}, got shape {inp.shape}"
        )
    op = _layer_norm_op(bool(affine), float(eps), len(shape))
    return _normalize("layer_norm", op, inp, affine, weight, bias)


def general_norm(
    inp: Tensor,
    normalized_axis: int | Sequence[int],
    affine: bool = True,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises over any axes, as :func:`layer_norm` does over the last ones.

    Args:
        inp: of any shape.
        normalized_axis: the axes that mean and variance are taken over.
        affine: whether to scale by ``weight`` and shift by ``bias``.
        weight: has the sizes of these axes, in their order in ``inp``.
        bias: likewise.
        eps: is added to the variance.

    >>> import megengine as mge, megengine.functional as F
    >>> F.general_norm(mge.tensor([[1.0, 1.0], [3.0, 5.0]]), 0, affine=False, eps=0.0)
    Tensor([[-1. -1.]
     [ 1.  1.]], device=xpux:0)
    """
    axes = [normalized_axis] if isinstance(normalized_axis, int) else list(normalized_axis)
    if not axes:
        raise ValueError("general_norm: expected at least one axis")
    for a in axes:
        if not -inp.ndim <= a < inp.ndim:
            raise ValueError(f"general_norm: expected axes of shape {inp.shape}, got {a}")
    normalized = sorted({a % inp.ndim for a in axes})
    if len(normalized) != len(axes):
        raise ValueError(f"general_norm: expected different axes, got {axes}")
    others = [a for a in range(inp.ndim) if a not in normalized]
    order = others + normalized
    op = _layer_norm_op(bool(affine), float(eps), len(normalized))
    if order == list(range(inp.ndim)):
        return _normalize("general_norm", op, inp, affine, weight, bias)
    out = _normalize("general_norm", op, inp.transpose(*order), affine, weight, bias)
    return out.transpose(*[order.index(a) for a in range(inp.ndim)])


@named
def group_norm(
    inp: Tensor,
    num_groups: int,
    affine: bool,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each image over equal groups of channels and all positions.

    Args:
        inp: ``(N, C, ...)``.
        num_groups: a divisor of C.
        affine: whether to scale by ``weight`` and shift by ``bias``.
        weight: ``(C,)``.
        bias: ``(C,)``.
        eps: is added to the variance.

    Raises:
        ValueError: if the groups do not divide the channels, or a shape does not fit.

    Reference: Wu and He, *Group Normalization*, 2018.

    >>> import megengine as mge, megengine.functional as F
    >>> F.group_norm(mge.tensor([[1.0, 3.0, 10.0, 30.0]]), 2, affine=False, eps=0.0)
    Tensor([[-1.  1. -1.  1.]], device=xpux:0)
    """
    op = _group_norm_op(bool(affine), float(eps), int(num_groups))
    return _normalize("group_norm", op, inp, affine, weight, bias)


@named
def instance_norm(
    inp: Tensor,
    affine: bool,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of each image over all positions.

    Args:
        inp: ``(N, C, ...)``.
        affine: whether to scale by ``weight`` and shift by ``bias``.
        weight: ``(C,)``.
        bias: ``(C,)``.
        eps: is added to the variance.

    Reference: Ulyanov, Vedaldi and Lempitsky, *Instance Normalization*, 2016.

    >>> import megengine as mge, megengine.functional as F
    >>> F.instance_norm(mge.tensor([[[1.0, 3.0]]]), affine=False, eps=0.0)
    Tensor([[[-1.  1.]]], device=xpux:0)
    """
    if inp.ndim < 2:
        raise ValueError(f"instance_norm: expected an input (N, C, ...), got shape {inp.shape}")
    op = _group_norm_op(bool(affine), float(eps), max(inp.shape[1], 1))
    return _normalize("instance_norm", op, inp, affine, weight, bias)


@named
def local_response_norm(
    inp: Tensor, kernel_size: int = 5, k: float = 2.0, alpha: float = 1e-4, beta: float = 0.75
) -> Tensor:
    r"""Divides by :math:`(k + \alpha \sum x^2)^\beta`, the sum over neighbouring channels.

    Args:
        inp: ``(N, C, H, W)``.
        kernel_size: how many channels, an odd number, centred on each one.
        k: see the formula.
        alpha: see the formula.
        beta: see the formula.

    Returns:
        The same shape and dtype (a float one). Computed in float32 for 16-bit floats.

    Raises:
        ValueError: for another number of axes, or an even ``kernel_size``.
        TypeError: for an input that is no float.

    Reference: Krizhevsky, Sutskever and Hinton, *ImageNet Classification*, 2012.

    >>> import megengine as mge, megengine.functional as F
    >>> F.local_response_norm(F.ones((1, 1, 1, 1)), k=3.0, alpha=1.0, beta=1.0)
    Tensor([[[[0.25]]]], device=xpux:0)
    """
    return call(_lrn_op(kernel_size, float(k), float(alpha), float(beta)), inp)


@_op
def _lrn_op(n: int, k: float, alpha: float, beta: float) -> OpDef:
    return builtin.LRN(n=n, k=k, alpha=alpha, beta=beta)


# ---- pooling -----------------------------------------------------------------------------------


@_op
def _pool_op(
    mode: str, window: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int]
) -> OpDef:
    return builtin.Pooling(
        mode=mode,
        pad_h=pad[0],
        pad_w=pad[1],
        stride_h=stride[0],
        stride_w=stride[1],
        window_h=window[0],
        window_w=window[1],
    )


@_op
def _adaptive_pool_op(mode: str, shape: tuple[int, int]) -> OpDef:
    return builtin.AdaptivePooling(mode=mode, shape=shape)


def _pool(inp: Tensor, mode: str, kernel_size: Any, stride: Any, padding: Any) -> Tensor:
    window = _pair("kernel_size", kernel_size)
    step = window if stride is None else _pair("stride", stride)
    return apply(_pool_op(mode, window, step, _pair("padding", padding)), inp)[0]


@named
def max_pool2d(
    inp: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
) -> Tensor:
    """The maximum of each window.

    Padding never wins, NaN always does; of equal maxima the first one gets the gradient.

    Args:
        inp: ``(N, C, H, W)``.
        kernel_size: of the window, one number or (height, width).
        stride: between windows; ``kernel_size`` without.
        padding: on each side, less than ``kernel_size``.

    Returns:
        ``(N, C, (H + 2 * padding - kernel_size) // stride + 1, ...)``.

    Raises:
        ValueError: if there is no window, a stride is 0 or padding is not less than the window.

    >>> import megengine as mge, megengine.functional as F
    >>> F.max_pool2d(F.arange(16).reshape(1, 1, 4, 4), 2)
    Tensor([[[[ 5.  7.]
       [13. 15.]]]], device=xpux:0)
    """
    return _pool(inp, "MAX", kernel_size, stride, padding)


@named
def avg_pool2d(
    inp: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
    mode: str = "average_count_exclude_padding",
) -> Tensor:
    """The mean of each window.

    Args:
        inp: ``(N, C, H, W)``.
        kernel_size: of the window, one number or (height, width).
        stride: between windows; ``kernel_size`` without.
        padding: zeros on each side, less than ``kernel_size``.
        mode: ``"average_count_exclude_padding"`` divides by the number of elements of ``inp`` in
            the window, ``"average"`` by the size of the window.

    Raises:
        ValueError: if there is no window, a stride is 0 or padding is not less than the window.

    >>> import megengine as mge, megengine.functional as F
    >>> F.avg_pool2d(F.arange(16).reshape(1, 1, 4, 4), 2)
    Tensor([[[[ 2.5  4.5]
       [10.5 12.5]]]], device=xpux:0)
    """
    return _pool(inp, mode.upper(), kernel_size, stride, padding)


@named
def adaptive_max_pool2d(inp: Tensor, oshp: int | tuple[int, int] | Tensor) -> Tensor:
    """Max pooling to a given size: stride ``in // out``, window ``in - (out - 1) * stride``.

    Args:
        inp: ``(N, C, H, W)``.
        oshp: height and width of the output, one number or two; at most those of ``inp``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.adaptive_max_pool2d(F.arange(16).reshape(1, 1, 4, 4), 1)
    Tensor([[[[15.]]]], device=xpux:0)
    """
    return apply(_adaptive_pool_op("MAX", _pair("oshp", oshp)), inp)[0]


@named
def adaptive_avg_pool2d(inp: Tensor, oshp: int | tuple[int, int] | Tensor) -> Tensor:
    """Average pooling to a given size: stride ``in // out``, window ``in - (out - 1) * stride``.

    Args:
        inp: ``(N, C, H, W)``.
        oshp: height and width of the output, one number or two; at most those of ``inp``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.adaptive_avg_pool2d(F.arange(16).reshape(1, 1, 4, 4), 1)
    Tensor([[[[7.5]]]], device=xpux:0)
    """
    return call(_adaptive_pool_op("AVERAGE", _pair("oshp", oshp)), inp)


# ---- embedding, padding, rearrangement ----------------------------------------------------------


@named
def embedding(
    inp: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float | None = None,
) -> Tensor:
    """Rows of a table.

    Args:
        inp: integers, of any shape. Negative ones count from the end.
        weight: ``(num_embeddings, embedding_dim)``.
        padding_idx: reserved.
        max_norm: reserved.
        norm_type: reserved.

    Returns:
        ``inp.shape + (embedding_dim,)``.

    Raises:
        IndexError: if an index is out of range.
        ValueError: if a reserved argument is given.

    >>> import megengine as mge, megengine.functional as F
    >>> F.embedding(mge.tensor([2, 0]), mge.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    Tensor([[4. 5.]
     [0. 1.]], device=xpux:0)
    """
    if padding_idx is not None:
        raise ValueError("embedding: padding_idx is not supported")
    if max_norm is not None or norm_type is not None:
        raise ValueError("embedding: normalising the weight (max_norm, norm_type) is not supported")
    if weight.ndim != 2:
        raise ValueError(f"embedding: expected a weight of two axes, got shape {weight.shape}")
    index = _as_tensor(inp)
    if index.dtype.kind not in "iu":
        raise TypeError(f"embedding: expected integer indices, got {index.dtype}")
    return weight[index]


@named
def pad(
    src: Tensor,
    pad_width: tuple[tuple[int, int], ...],
    mode: str = "constant",
    constant_value: float = 0.0,
) -> Tensor:
    """Adds a border.

    Args:
        src: of any shape.
        pad_width: (before, after) for each axis from the first on; axes that are left out get none.
        mode: ``"constant"``, ``"replicate"`` (the value at the edge) or ``"reflect"``.
        constant_value: fills the border in mode ``"constant"``.

    Raises:
        ValueError: for widths that are negative or do not fit, or an unknown mode.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.pad(mge.tensor([1.0, 2.0]), ((1, 2),))
    Tensor([0. 1. 2. 0. 0.], device=xpux:0)
    >>> F.nn.pad(mge.tensor([1.0, 2.0, 3.0]), ((2, 1),), mode="reflect")
    Tensor([3. 2. 1. 2. 3. 2.], device=xpux:0)
    """
    widths = np.asarray(pad_width)
    if widths.ndim != 2 or widths.shape[1] != 2 or widths.dtype.kind not in "iu":
        raise ValueError(f"pad: expected pairs of ints, got {pad_width!r}")
    if len(widths) > src.ndim or widths.min(initial=0) < 0:
        raise ValueError(f"pad: expected up to {src.ndim} pairs of widths >= 0, got {pad_width!r}")
    kind = str(mode).upper()
    if kind not in ("CONSTANT", "REPLICATE", "REFLECT"):
        raise ValueError(f"pad: expected mode constant, replicate or reflect, got {mode!r}")
    op = _padding_op(kind, float(constant_value), tuple((int(b), int(a)) for b, a in widths))
    return call(op, src)


@_op
def _padding_op(mode: str, value: float, widths: tuple[tuple[int, int], ...]) -> OpDef:
    fields = {f"front_offset_dim{i}": before for i, (before, _) in enumerate(widths)}
    fields |= {f"back_offset_dim{i}": after for i, (_, after) in enumerate(widths)}
    return builtin.Padding(padding_mode=mode, padding_val=value, **fields)


@named
def pixel_shuffle(inp: Tensor, upscale_factor: int) -> Tensor:
    """Moves channels into space: ``(..., C * r * r, H, W)`` to ``(..., C, H * r, W * r)``.

    Pixel ``(h r + i, w r + j)`` of channel c is pixel ``(h, w)`` of channel ``c r r + i r + j``.

    Args:
        inp: of any dtype; its memory format stays.
        upscale_factor: r, from 1 on.

    Raises:
        ValueError: for fewer than three axes, or channels that ``r * r`` does not divide.

    Reference: Shi et al., *Real-Time Single Image and Video Super-Resolution*, 2016.

    >>> import megengine as mge, megengine.functional as F
    >>> F.pixel_shuffle(F.arange(4).reshape(1, 4, 1, 1), 2)
    Tensor([[[[0. 1.]
       [2. 3.]]]], device=xpux:0)
    """
    return call(_pixel_shuffle_op(int(upscale_factor)), inp)


@_op
def _pixel_shuffle_op(factor: int) -> OpDef:
    return builtin.PixelShuffle(factor=factor)


@named
def dropout(inp: Tensor, drop_prob: float, training: bool = True) -> Tensor:
    r"""Sets elements to 0 at random, and scales the others so that the expected value stays.

    Each is dropped with probability p = ``drop_prob``; the others are divided by :math:`1 - p`.

    Args:
        inp: a tensor of a float dtype.
        drop_prob: p, in [0, 1).
        training: False gives ``inp`` back as it is.

    Raises:
        ValueError: for a probability outside [0, 1).
        TypeError: for an input that is no float.

    Every call drops other elements; :func:`megengine.random.seed` makes them repeat. The input is
    not changed.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> y = F.dropout(F.ones((1000,)), 0.5)
    >>> sorted(set(y.numpy().tolist()))
    [0.0, 2.0]

    Reference: Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting,
    JMLR 15, 2014.
    """
    if not 0 <= drop_prob < 1:
        raise ValueError(f"dropout: expected drop_prob in [0, 1), got {drop_prob}")
    if not training or drop_prob == 0:
        return inp
    return apply(_dropout_op(float(drop_prob)), inp)[0]


@_op
def _dropout_op(drop_prob: float) -> OpDef:
    return builtin.Dropout(drop_prob=drop_prob)


# Losses are found here too: F.nn.cross_entropy is what most programs write.
from .loss import binary_cross_entropy as binary_cross_entropy  # noqa: E402
from .loss import cross_entropy as cross_entropy  # noqa: E402
from .loss import ctc_loss as ctc_loss  # noqa: E402
from .loss import hinge_loss as hinge_loss  # noqa: E402
from .loss import l1_loss as l1_loss  # noqa: E402
from .loss import square_loss as square_loss  # noqa: E402
