"""CTC at the extremes, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from tests.ops.cases.ctc import by_states

ctc_loss = F.loss.ctc_loss
TINY = float(np.finfo("float32").tiny)


def ints(*values: Any) -> mge.Tensor:
    return mge.tensor(np.array(values, "int32"))


def probabilities(frames: int, samples: int, classes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(seed).standard_normal((frames, samples, classes))
    e = np.exp(x)
    return (e / e.sum(2, keepdims=True)).astype("float32")


def loss_and_gradient(probs: np.ndarray[Any, Any], *rest: Any, **kw: Any) -> tuple[Any, Any]:
    p = mge.tensor(probs, dtype=probs.dtype.name)
    manager = GradManager().attach([p])
    with manager:
        loss = ctc_loss(p, *rest, reduction="none", **kw)
        manager.backward(loss.sum())
    return loss.numpy(), p.grad.numpy()


def test_too_few_frames() -> None:
    """A probability of 0 gives a finite loss and no gradient, and leaves the others alone."""
    probs = probabilities(4, 3, 5)
    rest = ints(4, 2, 4), ints([1, 2], [3, 3], [4, 1]), ints(2, 2, 2)
    loss, grad = loss_and_gradient(probs, *rest)
    np.testing.assert_allclose(loss[1], -np.log(TINY), rtol=1e-6)
    assert not grad[:, 1].any()
    assert grad[:, 0].any()
    assert grad[:, 2].any()
    want = -np.log(by_states(probs[:, 2].astype("float64"), [4, 1], 0))
    np.testing.assert_allclose(loss[2], want, rtol=1e-6)


def test_no_frames_and_no_labels() -> None:
    probs = probabilities(3, 3, 4)
    loss, grad = loss_and_gradient(probs, ints(0, 0, 2), ints([1], [1], [1]), ints(0, 1, 0))
    blanks = -np.log(probs[0, 2, 0]) - np.log(probs[1, 2, 0])
    np.testing.assert_allclose(loss, [0, -np.log(TINY), blanks], rtol=1e-6, atol=1e-7)
    assert not grad[:, :2].any()
    np.testing.assert_allclose(grad[:2, 2, 0], -1 / probs[:2, 2, 0], rtol=1e-5)
    assert not grad[2, 2].any()
    mean = ctc_loss(mge.tensor(probs), ints(0, 0, 2), ints([1], [1], [1]), ints(0, 1, 0))
    np.testing.assert_allclose(mean.numpy(), loss.mean(), rtol=1e-6)


def test_sequences_of_any_length() -> None:
    """A probability far below what float32 and float64 hold."""
    frames, labels = 5000, 400
    probs = probabilities(frames, 2, 6)
    label = np.random.default_rng(1).integers(1, 6, (2, labels)).astype("int32")
    rest = ints(frames, frames), mge.tensor(label), ints(labels, labels)
    loss, grad = loss_and_gradient(probs, *rest)
    assert (loss > 3000).all()
    # Each frame is in exactly one state.
    shares = -(grad.astype("float64") * probs).sum(2)
    np.testing.assert_allclose(shares, 1, rtol=1e-4)


def test_unlikely_labels_count_in_full() -> None:
    """Frames that are all but certain of the blank, and twenty labels all the same."""
    frames, labels, small = 100, 20, 1e-30
    probs = np.full((frames, 1, 3), small)
    probs[:, :, 0] = 1
    label = np.tile([1, 2], labels // 2).astype("int32")[None]
    loss, _ = loss_and_gradient(probs.astype("float32"), ints(frames), mge.tensor(label), ints(20))
    least = -labels * np.log(small)
    assert least - 60 < loss[0] < least


def test_probabilities_of_zero_and_nan() -> None:
    probs = probabilities(4, 3, 3)
    probs[:, 0, 1] = 0
    probs[1, 1, 0] = np.nan
    loss, grad = loss_and_gradient(probs, ints(4, 4, 4), ints(1, 1, 2), ints(1, 1, 1))
    assert np.isfinite(loss[[0, 2]]).all()
    assert loss[0] > 80
    assert np.isnan(loss[1])
    assert np.isfinite(grad[:, [0, 2]]).all()


def test_both_forms_of_labels() -> None:
    probs = mge.tensor(probabilities(6, 3, 5))
    lengths = ints(6, 5, 6), ints(2, 0, 3)
    joined = ctc_loss(probs, lengths[0], ints(1, 2, 3, 3, 4), lengths[1], reduction="none")
    padded = ints([1, 2, -9], [99, 99, 99], [3, 3, 4])
    np.testing.assert_array_equal(
        joined.numpy(), ctc_loss(probs, lengths[0], padded, lengths[1], reduction="none").numpy()
    )
    total = ctc_loss(probs, lengths[0], padded, lengths[1], reduction="sum")
    np.testing.assert_allclose(total.numpy(), joined.numpy().sum(), rtol=1e-6)
    lists = ctc_loss(probs, [6, 5, 6], [1, 2, 3, 3, 4], [2, 0, 3], reduction="none")
    np.testing.assert_array_equal(joined.numpy(), lists.numpy())


P = mge.tensor(probabilities(5, 3, 4))
FIVE, ONE, LABELS = ints(5, 5, 5), ints(1, 1, 1), ints(1, 2, 3)
BAD = [
    (lambda: ctc_loss(P, FIVE, LABELS, ONE, blank=4), ValueError, "blank"),
    (lambda: ctc_loss(P, FIVE, LABELS, ONE, blank=-1), ValueError, "blank"),
    (lambda: ctc_loss(P, FIVE, LABELS, ONE, reduction="max"), ValueError, "reduction"),
    (lambda: ctc_loss(P, ints(5, 5, 9), LABELS, ONE), ValueError, "pred_lengths"),
    (lambda: ctc_loss(P, ints(5, 5, -1), LABELS, ONE), ValueError, "pred_lengths"),
    (lambda: ctc_loss(P, ints(5, 5), LABELS, ONE), ValueError, "lengths"),
    (lambda: ctc_loss(P, mge.tensor([5.5, 5, 5]), LABELS, ONE), ValueError, "whole"),
    (lambda: ctc_loss(P, FIVE, LABELS, ints(1, 1, 2)), ValueError, "add up"),
    (lambda: ctc_loss(P, FIVE, ints(1, 2, 3, 1), ONE), ValueError, "add up"),
    (lambda: ctc_loss(P, FIVE, LABELS, ints(1, 1, 2**31 - 1)), ValueError, "label_lengths"),
    (lambda: ctc_loss(P, FIVE, LABELS, ints(1, 3, -1)), ValueError, "label_lengths"),
    (lambda: ctc_loss(P, FIVE, ints([1], [2]), ONE), ValueError, "labels of shape"),
    (lambda: ctc_loss(P, FIVE, ints(1, 4, 3), ONE), IndexError, "label 4"),
    (lambda: ctc_loss(P, FIVE, ints(1, -1, 3), ONE), IndexError, "label -1"),
    (lambda: ctc_loss(P[0], FIVE, LABELS, ONE), ValueError, "shape"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_bad_input(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
