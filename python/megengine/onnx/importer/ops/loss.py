"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import Context, op
from ..values import Array, to_tensor


def _reduced(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return F.sum(loss)
    if reduction == "mean":
        return F.sum(loss) / F.sum(weight)
    raise ValueError(f"expected reduction none, sum or mean, got {reduction!r}")


def _nll(
    log_prob: Tensor,
    target: Array,
    weight: Tensor | None,
    ignore_index: int | None,
    reduction: str,
) -> Tensor:
    """Minus the logarithms at the labels; classes are axis 1."""
    n_classes = log_prob._tuple_shape[1]
    kept = np.ones(target.shape, np.bool_)
    if ignore_index is not None:
        kept = target != ignore_index
    label = np.where(kept, target, 0)
    if label.size and not (label.min() >= 0 and label.max() < n_classes):
        raise IndexError(f"a label is out of range for {n_classes} classes")
    picked = F.squeeze(F.gather(log_prob, 1, to_tensor(np.expand_dims(label, 1))), 1)
    mask = to_tensor(kept).astype(log_prob.dtype)
    factor = mask if weight is None else weight[to_tensor(label)] * mask
    return _reduced(-picked * factor, factor, reduction)


@op("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(
    x: Tensor,
    target: Array,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _nll(x, target, weight, ignore_index, reduction)


@op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(
    ctx: Context,
    scores: Tensor,
    labels: Array,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    log_prob = F.logsoftmax(scores, 1)
    loss = _nll(log_prob, labels, weights, ignore_index, reduction)
    return (loss, log_prob) if ctx.n_outputs > 1 else loss
