"""Loss functions.

Each takes ``reduction``: ``"mean"``, ``"sum"`` or ``"none"`` (one loss for each element).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .._core import OpDef, call
from ..core._imperative_rt.core2 import apply
from ..core.errors import named
from ..core.ops import builtin
from ..core.tensor.dtype import is_bfloat16
from ..tensor import Tensor
from .elemwise import abs, log, maximum, relu, softplus
from .math import mean, sum
from .tensor import indexing_one_hot

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "ctc_loss",
    "hinge_loss",
    "l1_loss",
    "square_loss",
]


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: expected reduction 'mean', 'sum' or 'none', got {reduction!r}")


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return mean(loss)
    return sum(loss) if reduction == "sum" else loss


def _as_given(loss: Tensor, *inputs: Any) -> Any:
    """The loss; as a NumPy value where nothing that went in was a tensor."""
    return loss if any(isinstance(x, Tensor) for x in inputs) else loss.numpy()[()]


def l1_loss(pred: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    r"""The absolute difference, :math:`|pred - label|`.

    Args:
        pred: a tensor or array; two arrays of NumPy give a NumPy value.
        label: another, of a shape that broadcasts.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.l1_loss(mge.tensor([3.0, 3.0]), mge.tensor([2.0, 8.0]))
    Tensor(3.0, device=xpux:0)
    """
    _check_reduction("l1_loss", reduction)
    return _as_given(_reduce(abs(_as_tensor(pred) - label), reduction), pred, label)


def square_loss(pred: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    r"""The squared difference, :math:`(pred - label)^2`.

    Args:
        pred: a tensor or array; two arrays of NumPy give a NumPy value.
        label: another, of a shape that broadcasts.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.square_loss(mge.tensor([3.0, 3.0]), mge.tensor([2.0, 8.0]))
    Tensor(13.0, device=xpux:0)
    """
    _check_reduction("square_loss", reduction)
    difference = _as_tensor(pred) - label
    return _as_given(_reduce(difference * difference, reduction), pred, label)


@lru_cache(maxsize=1024)
def _cross_entropy_op(axis: int, label_smooth: float, reduction: str) -> OpDef:
    return builtin.CrossEntropy(axis=axis, label_smooth=label_smooth, reduction=reduction)


def _safe_log(p: Tensor) -> Tensor:
    """log(p), with 0 read as the smallest normal number: finite, and of gradient 0 there."""
    if p.dtype == np.float16:
        p = p.astype("float32")
    tiny = np.finfo(np.float32 if is_bfloat16(p.dtype) else p.dtype).tiny
    return log(maximum(p, float(tiny)))


@named
def cross_entropy(
    pred: Tensor,
    label: Tensor,
    axis: int = 1,
    with_logits: bool = True,
    label_smooth: float = 0,
    reduction: str = "mean",
) -> Tensor:
    r"""Cross entropy of class scores and class indices, :math:`-\log p_{label}`.

    Args:
        pred: scores (logits) of any size, or probabilities where ``with_logits`` is False.
        label: class indices, of the shape of ``pred`` without ``axis``.
        axis: of the classes.
        with_logits: whether softmax is still to be applied to ``pred``.
        label_smooth: the share of the target that is spread over all classes.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        IndexError: if a label is not the index of a class.
        ValueError: if the shapes do not fit.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.cross_entropy(mge.tensor([[3e8, 3e8, 3e8]]), mge.tensor([1]))
    Tensor(1.0986123, device=xpux:0)
    """
    _check_reduction("cross_entropy", reduction)
    pred, label = _as_tensor(pred), _as_tensor(label)
    if not 0 <= label_smooth <= 1:
        raise ValueError(f"cross_entropy: expected label_smooth in [0, 1], got {label_smooth}")
    if label.dtype.kind not in "iu":
        label = label.astype("int32")
    if pred.dtype.kind in "iub":
        pred = pred.astype("float32")
    if with_logits:
        return call(_cross_entropy_op(int(axis), float(label_smooth), reduction), pred, label)
    log_p = _safe_log(pred)
    loss = -indexing_one_hot(log_p, label, int(axis))
    if label_smooth:
        loss = loss * (1 - label_smooth) - mean(log_p, axis=int(axis)) * label_smooth
    return _reduce(loss, reduction)


@named
def binary_cross_entropy(
    pred: Tensor, label: Tensor, with_logits: bool = True, reduction: str = "mean"
) -> Tensor:
    r"""Cross entropy of two classes, :math:`-(y \log p + (1 - y) \log(1 - p))`.

    Args:
        pred: scores (logits) of any size, or probabilities where ``with_logits`` is False;
            probabilities of exactly 0 and 1 give a finite loss and gradient.
        label: probabilities of the first class.
        with_logits: whether sigmoid is still to be applied to ``pred``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.binary_cross_entropy(mge.tensor([0.0]), mge.tensor([1.0]))
    Tensor(0.6931472, device=xpux:0)
    """
    _check_reduction("binary_cross_entropy", reduction)
    pred, label = _as_tensor(pred), _as_tensor(label)
    if with_logits:
        loss = label * softplus(-pred) + (1 - label) * softplus(pred)
    else:
        loss = -(label * _safe_log(pred) + (1 - label) * _safe_log(1 - pred))
    return _reduce(loss, reduction)


def hinge_loss(pred: Tensor, label: Tensor, norm: str = "L1", reduction: str = "mean") -> Tensor:
    r"""The hinge loss :math:`\sum_j \max(0, 1 - pred_j \cdot label_j)` of each row.

    Args:
        pred: ``(N, C, ...)``.
        label: 1 for the right class, -1 for the others, of the shape of ``pred``.
        norm: ``"L1"``, or ``"L2"`` for the sum of squares.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import megengine as mge, megengine.functional as F
    >>> F.nn.hinge_loss(mge.tensor([[1.0, -1.0, 0.5]]), mge.tensor([[1.0, -1.0, -1.0]]))
    Tensor(1.5, device=xpux:0)
    """
    _check_reduction("hinge_loss", reduction)
    if norm not in ("L1", "L2"):
        raise ValueError(f"hinge_loss: expected norm 'L1' or 'L2', got {norm!r}")
    margin = relu(1 - _as_tensor(pred) * label)
    return _reduce(sum(margin if norm == "L1" else margin * margin, axis=1), reduction)


def _lengths(name: str, what: str, value: Any) -> Tensor:
    lengths = _as_tensor(value)
    kind = lengths.dtype.kind
    if (
        kind == "f"
        and lengths.size
        and not np.array_equal(lengths.numpy() % 1, 0 * lengths.numpy())
    ):
        raise ValueError(f"{name}: expected whole {what}, got {lengths}")
    return lengths if kind in "iu" else lengths.astype("int32")


@named
def ctc_loss(
    pred: Tensor,
    pred_lengths: Tensor,
    label: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
) -> Tensor:
    r"""Connectionist temporal classification (Graves et al., ICML 2006).

    The probability of a label sequence is the sum, over all ways to repeat its labels and to put
    blanks between and around them until they are as long as the prediction, of the product of the
    probabilities of the frames. Between two equal labels there has to be a blank. The loss is minus
    its logarithm, whatever the length of the sequence: it is computed in the logarithm.

    Args:
        pred: probabilities (after softmax) of shape (T, N, C): T frames of N samples, C classes.
        pred_lengths: how many frames of each sample count, (N,), from 0 to T.
        label: class indices, (N, S), where those past the length of a sample do not matter; or
            those of all samples one after the other, (sum of label_lengths,).
        label_lengths: how many labels each sample has, (N,); may be 0.
        blank: the class of the blank.
        reduction: ``"mean"``: the mean over the samples of the loss divided by the number of labels
            (by 1 where there is none); ``"sum"``; or ``"none"``.

    Returns:
        float32 (float64 for float64), 0-d or (N,). A sample with too few frames for its labels has
        the probability 0: its loss is minus the logarithm of the smallest normal number, 87.3
        (708.4 in float64), and its gradient 0. Probabilities below that number count as it, with
        gradient 0.

    Raises:
        ValueError: for shapes, lengths and a blank that do not fit.
        IndexError: for a label that is not the index of a class.

    >>> import megengine as mge, megengine.functional as F
    >>> pred = mge.tensor([[[0.0614, 0.9386], [0.8812, 0.1188]],
    ...                    [[0.699, 0.301], [0.2572, 0.7428]]])
    >>> F.loss.ctc_loss(pred, mge.tensor([2, 2]), mge.tensor([1, 1]), mge.tensor([1, 1]))
    Tensor(0.1504417, device=xpux:0)
    """
    _check_reduction("ctc_loss", reduction)
    pred = _as_tensor(pred)
    lengths = _lengths("ctc_loss", "label_lengths", label_lengths)
    loss = apply(
        builtin.CTCLoss(blank=blank),
        pred,
        _lengths("ctc_loss", "pred_lengths", pred_lengths),
        _lengths("ctc_loss", "labels", label),
        lengths,
    )[0]
    if reduction == "mean":
        return mean(loss / maximum(lengths, 1).astype(loss.dtype))
    return _reduce(loss, reduction)
