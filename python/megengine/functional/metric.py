"""Measures of how good predictions are."""

from __future__ import annotations

from collections.abc import Iterable

from ..tensor import Tensor
from .math import sum
from .math import topk as _topk

__all__ = ["topk_accuracy"]


def topk_accuracy(
    logits: Tensor, target: Tensor, topk: int | Iterable[int] = 1
) -> Tensor | list[Tensor]:
    """The share of rows whose class is among the k highest scores.

    Args:
        logits: scores, ``(N, C)``.
        target: class indices, ``(N,)``.
        topk: one k or several, each from 1 to C.

    Returns:
        A 0-d tensor, or a list of them where several k are given.

    Raises:
        ValueError: if a k or a shape does not fit.

    >>> import megengine as mge, megengine.functional as F
    >>> scores = mge.tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> F.metric.topk_accuracy(scores, mge.tensor([1, 1]))
    Tensor(0.5, device=xpux:0)
    """
    ks = (topk,) if isinstance(topk, int) else tuple(topk)
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"topk_accuracy: expected (N, C) and (N,), got {logits.shape} and {target.shape}"
        )
    classes = logits.shape[1]
    for k in ks:
        if not 1 <= k <= classes:
            raise ValueError(f"topk_accuracy: expected k in [1, {classes}], got {k}")
    _, best = _topk(logits, max(ks), descending=True)
    hits = (best == target.reshape(-1, 1)).astype("float32")
    out = [sum(hits[:, :k]) / logits.shape[0] for k in ks]
    return out[0] if len(out) == 1 else out
