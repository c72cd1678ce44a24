"""Normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import Context, op
from ..values import dtype_of
from .math import like


def _per_channel(v: Tensor, ndim: int) -> Tensor:
    return F.reshape(v, (1, v.size) + (1,) * (ndim - 2))


def _batch_norm(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float,
    momentum: float,
) -> Tensor:
    if x.ndim == 1:
        return F.flatten(
            _batch_norm(ctx, F.reshape(x, (-1, 1)), scale, bias, mean, var, epsilon, momentum)
        )
    if dtype_of(scale) in (np.float32, np.float64):
        return F.nn.batch_norm(
            x, mean, var, scale, bias, training=ctx.training, momentum=momentum, eps=epsilon
        )
    # Of low precision: it is computed in float32, and the statistics are rounded once.
    new_mean, new_var = mean.astype("float32"), var.astype("float32")
    y = F.nn.batch_norm(
        x.astype("float32"),
        new_mean,
        new_var,
        scale.astype("float32"),
        bias.astype("float32"),
        training=ctx.training,
        momentum=momentum,
        eps=epsilon,
    )
    if ctx.training:
        mean._reset(new_mean.astype(mean.dtype))
        var._reset(new_var.astype(var.dtype))
    return like(y, x)


@op("BatchNormalization")
def batch_norm_with_test_flag(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
    consumed_inputs: tuple[int, ...] = (),
) -> Tensor:
    if not spatial and x.ndim > 2:
        raise NotImplementedError("BatchNormalization: expected spatial=1, got 0")
    return _batch_norm(ctx, x, scale, bias, mean, var, epsilon, momentum)


@op("BatchNormalization", since=9)
def batch_norm_9(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Tensor:
    return _batch_norm(ctx, x, scale, bias, mean, var, epsilon, momentum)


@op("BatchNormalization", since=14)
def batch_norm(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    if not training_mode or (ctx.training and ctx.n_outputs == 1):
        return _batch_norm(ctx, x, scale, bias, mean, var, epsilon, momentum)
    # The operator gives new running statistics, of the variance of the population.
    axes = (0, *range(2, x.ndim))
    batch_mean, batch_var = F.mean(x, axes), F.var(x, axes)
    spread = [_per_channel(v, x.ndim) for v in (scale, bias, batch_mean, batch_var)]
    y = (x - spread[2]) / F.sqrt(spread[3] + epsilon) * spread[0] + spread[1]
    return (
        like(y, x),
        mean * momentum + batch_mean * (1.0 - momentum),
        var * momentum + batch_var * (1.0 - momentum),
    )


def _standardised(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Of mean 0 and variance 1 along some axes."""
    mean = F.mean(x, axes, True)
    return (x - mean) / F.sqrt(F.var(x, axes, True) + epsilon)


@op("InstanceNormalization")
def instance_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: tuple[int, ...] = (),
) -> Tensor:
    y = _standardised(x, tuple(range(2, x.ndim)), epsilon)
    return like(y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim), x)


@op("LayerNormalization")
def layer_norm(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    first = axis % max(x.ndim, 1)
    sizes = x._tuple_shape[first:]
    affine = (
        bias is not None
        and scale._tuple_shape == sizes == bias._tuple_shape
        and dtype_of(scale) == dtype_of(x)
    )
    if affine:
        y = F.nn.layer_norm(x, sizes, True, scale, bias, epsilon)
    else:
        y = F.nn.layer_norm(x, sizes, False, eps=epsilon) * scale
        y = y if bias is None else y + bias
    y = like(y, x)
    if ctx.n_outputs == 1:
        return y
    wide = x.astype("float32") if stash_type == 1 else x
    axes = tuple(range(first, x.ndim))
    return y, F.mean(wide, axes, True), 1.0 / F.sqrt(F.var(wide, axes, True) + epsilon)


@op("RMSNormalization")
def rms_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    wide = x.astype("float32") if stash_type == 1 else x
    axes = tuple(range(axis % max(x.ndim, 1), x.ndim))
    y = like(wide / F.sqrt(F.mean(wide * wide, axes, True) + epsilon), x)
    return like(y * scale, x)


def _grouped(x: Tensor, num_groups: int, epsilon: float) -> Tensor:
    n = x._tuple_shape[0]
    flat = F.reshape(x, (n, num_groups, x.size // max(n * num_groups, 1)))
    return F.reshape(_standardised(flat, (2,), epsilon), x._tuple_shape)


@op("GroupNormalization", since=18)
def group_norm_of_groups(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    # Up to version 20 there is a scale for each group.
    channels = x._tuple_shape[1]
    each = channels // num_groups
    spread = [
        _per_channel(
            F.reshape(F.broadcast_to(F.reshape(v, (-1, 1)), (num_groups, each)), (-1,)), x.ndim
        )
        for v in (scale, bias)
    ]
    return like(_grouped(x, num_groups, epsilon) * spread[0] + spread[1], x)


@op("GroupNormalization", since=21)
def group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    wide = x.astype("float32") if stash_type == 1 else x
    y = like(_grouped(wide, num_groups, epsilon), x)
    return like(y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim), x)


@op("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: tuple[int, ...] = (0, 2, 3)) -> Tensor:
    mean = F.mean(x, axes, True)
    deviation = F.sqrt(F.mean((x - mean) * (x - mean), axes, True))
    return (x - mean) / (deviation + 1e-9)


@op("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    if p not in (1, 2):
        raise ValueError(f"LpNormalization: expected p 1 or 2, got {p}")
    length = F.norm(x, p, axis, True)
    zero = F.equal(length, 0)
    return F.where(zero, F.zeros_like(x), x / F.where(zero, F.ones_like(length), length))


@op("LRN")
def local_response_norm(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    before = (size - 1) // 2
    after = size - 1 - before
    squares = F.reshape(x * x, (*x._tuple_shape[:2], math.prod(x._tuple_shape[2:])))
    channels = x._tuple_shape[1]
    wide = F.nn.pad(squares, ((0, 0), (before, after), (0, 0)))
    total = wide[:, 0:channels]
    for i in range(1, size):
        total = total + wide[:, i : i + channels]
    scale = (bias + alpha / size * total) ** -beta
    return x * F.reshape(scale, x._tuple_shape)
