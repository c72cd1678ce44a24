"""Normalisation, softmax, pooling and losses where they are hard: extremes, ties, bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from tests.ops.record import INTS

T = mge.tensor
INF, NAN = np.inf, np.nan


def labels(*values: int) -> mge.Tensor:
    return T(list(values), dtype="int32")


def vjp(f: Callable[[mge.Tensor], mge.Tensor], x: Any, dy: Any = None) -> np.ndarray:
    """The gradient of f at x for an upstream gradient (ones without)."""
    x = T(np.asarray(x, "float32"))
    gm = GradManager().attach([x])
    with gm:
        y = f(x)
        gm.backward(y, None if dy is None else T(np.asarray(dy, "float32")))
    return x.grad.numpy()


# ---- batch norm --------------------------------------------------------------------------------


def test_constant_channel() -> None:
    mean, var = F.zeros((1, 1, 1, 1)), F.ones((1, 1, 1, 1))
    y = F.batch_norm(F.full((2, 1, 2, 2), 1e8), mean, var, training=True)
    assert np.all(y.numpy() == 0)
    assert mean.item() == pytest.approx(1e7, rel=1e-6)
    assert var.item() == pytest.approx(0.9)


@pytest.mark.parametrize("shape", [(7, 3, 5, 5), (1000, 3), (3, 70, 9), (1, 2, 70, 70)])
@pytest.mark.parametrize("value", [1e8, -3.3, 1e-30])
def test_constant_channels_of_any_size(shape: tuple[int, ...], value: float) -> None:
    x = F.full(shape, value)
    assert np.all(F.batch_norm(x, training=True).numpy() == 0)
    assert np.all(F.layer_norm(x, shape[1:], False).numpy() == 0)
    assert np.all(F.instance_norm(x, False).numpy() == 0)


def test_running_variance_is_unbiased() -> None:
    mean, var = F.zeros(1), F.ones(1)
    x = T([1.0, 2.0, 3.0, 6.0]).reshape(4, 1, 1, 1)
    y = F.batch_norm(x, mean, var, training=True)
    want = [-1.0690434, -0.5345217, 0, 1.6035652]
    np.testing.assert_allclose(y.numpy().ravel(), want, rtol=2e-6, atol=1e-7)
    assert mean.item() == pytest.approx(0.3)
    assert var.item() == pytest.approx(1.3666667)


def test_one_value_per_channel() -> None:
    mean, var = F.zeros(1), F.ones(1)
    y = F.batch_norm(T([5.0]).reshape(1, 1, 1, 1), mean, var, training=True)
    assert y.item() == 0
    assert np.isfinite(var.item())


def test_large_mean_and_small_spread() -> None:
    x = (np.random.default_rng(0).standard_normal((64, 4, 6, 6)) + 3000).astype("float32")
    exact = x.astype("float64")
    centered = exact - exact.mean((0, 2, 3), keepdims=True)
    want = centered / np.sqrt((centered**2).mean((0, 2, 3), keepdims=True) + 1e-5)
    y = F.batch_norm(T(x), training=True).numpy()
    np.testing.assert_allclose(y, want, atol=2e-6, rtol=2e-6)


def test_running_statistics_are_rebound() -> None:
    mean, var = F.zeros((1, 2, 1, 1)), F.ones((1, 2, 1, 1))
    x = T(np.arange(16.0).reshape(2, 2, 2, 2))
    out, new_mean, new_var = F.batch_norm(x, mean, var, training=True, inplace=False)
    assert np.all(mean.numpy() == 0)
    same = F.batch_norm(x, mean, var, training=True)
    np.testing.assert_array_equal(out.numpy(), same.numpy())
    np.testing.assert_array_equal(mean.numpy(), new_mean.numpy())
    np.testing.assert_array_equal(var.numpy(), new_var.numpy())
    assert mean.shape == (1, 2, 1, 1)


def test_half_precision_input_keeps_float32_statistics() -> None:
    mean, var = F.zeros(3), F.ones(3)
    x = T(np.random.default_rng(0).standard_normal((4, 3, 5, 5)), dtype="float16")
    y = F.batch_norm(x, mean, var, F.ones(3), F.zeros(3), training=True)
    assert y.dtype == np.float16
    assert mean.dtype == np.float32


def test_empty_batch_in_training() -> None:
    mean, var = F.zeros(3), F.ones(3)
    x, w = F.zeros((0, 3, 4, 4)), F.ones(3)
    gm = GradManager().attach([w])
    with gm:
        y = F.batch_norm(x, mean, var, w, F.zeros(3), training=True)
        gm.backward(y.sum())
    assert y.shape == (0, 3, 4, 4)
    np.testing.assert_array_equal(var.numpy(), np.ones(3))
    np.testing.assert_array_equal(w.grad.numpy(), np.zeros(3))


# ---- softmax -----------------------------------------------------------------------------------


def test_default_axis() -> None:
    for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)):
        y = F.softmax(F.ones(shape)).numpy()
        np.testing.assert_allclose(y, 1 / shape[axis], rtol=1e-6)


def test_masked_rows() -> None:
    s = [[1.0, 2.0], [-INF, -INF]]
    y = F.softmax(T(s), axis=1).numpy()
    np.testing.assert_allclose(y[0], [0.26894143, 0.7310586], rtol=1e-6)
    assert np.all(y[1] == 0)
    g = vjp(lambda x: F.softmax(x, axis=1)[0], s, [1.0, 0.0])
    np.testing.assert_allclose(g, [[0.1966119, -0.1966119], [0, 0]], rtol=1e-6)
    assert np.isfinite(vjp(lambda x: F.logsumexp(x, 1)[:1], s)).all()
    assert F.logsumexp(T(s), 1).numpy()[1] == -INF
    for axis in (0, 1):  # rows, and columns
        masked = np.where(np.eye(3) > 0, 1.0, -INF)
        np.testing.assert_array_equal(F.softmax(T(masked), axis).numpy(), np.eye(3))


def test_softmax_of_extremes() -> None:
    np.testing.assert_array_equal(F.logsoftmax(T([[-100.0, 100.0]]), axis=1).numpy(), [[-200, 0]])
    np.testing.assert_array_equal(F.softmax(T([[3e38, -3e38]]), axis=1).numpy(), [[1, 0]])
    assert np.isnan(F.softmax(T([[1.0, NAN]]), axis=1).numpy()).all()
    assert F.logsumexp(T([[1.0, INF]]), axis=1).item() == INF


@pytest.mark.parametrize("f", [F.softmax, F.logsoftmax, F.logsumexp])
def test_the_only_axis_in_a_tuple(f: Callable[..., mge.Tensor]) -> None:
    x = T([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(f(x, (0,)).numpy(), f(x, 0).numpy())


def test_softmax_of_long_rows() -> None:
    y = F.softmax(F.zeros((2, 1_000_000)), axis=1).numpy()
    np.testing.assert_allclose(y, 1e-6, rtol=1e-6)
    x = F.zeros((1_000_000, 2))
    np.testing.assert_allclose(F.logsumexp(x, 0).numpy(), np.log(1e6), rtol=1e-6)


# ---- losses ------------------------------------------------------------------------------------


def test_cross_entropy_of_extremes() -> None:
    assert F.nn.cross_entropy(T([[3e8, 3e8, 3e8]]), labels(1)).item() == pytest.approx(np.log(3))
    assert F.nn.cross_entropy(T([[-40.0, 40.0]]), labels(0)).item() == 80
    masked = T([[0.0, -INF, 0.0]])
    assert F.nn.cross_entropy(masked, labels(0)).item() == pytest.approx(np.log(2))
    g = vjp(lambda x: F.nn.cross_entropy(x, labels(0)), [[0.0, -INF, 0.0]])
    np.testing.assert_allclose(g, [[-0.5, 0, 0.5]])


def test_cross_entropy_of_no_rows() -> None:
    assert np.isnan(F.nn.cross_entropy(F.zeros((0, 3)), F.zeros(0, dtype="int32")).item())
    assert (
        F.nn.cross_entropy(F.zeros((0, 3)), F.zeros(0, dtype="int32"), reduction="sum").item() == 0
    )


@pytest.mark.parametrize("bad", [7, 3, -1])
def test_label_out_of_range(bad: int) -> None:
    with pytest.raises(IndexError, match=rf"label {bad} is out of range.*axis of size 3"):
        F.nn.cross_entropy(T([[1.0, 2.0, 3.0]]), labels(bad))


def test_labels_of_any_integer_type_and_as_floats() -> None:
    x = T([[1.0, 2.0, 4.0], [0.0, 1.0, 5.0]])
    want = F.nn.cross_entropy(x, labels(2, 0)).item()
    for dtype in (*INTS, "float32"):
        assert F.nn.cross_entropy(x, T([2, 0], dtype=dtype)).item() == want


def test_binary_cross_entropy_of_extremes() -> None:
    def on_probabilities(p: mge.Tensor) -> mge.Tensor:
        return F.nn.binary_cross_entropy(p, T([1.0, 0.0]), with_logits=False)

    assert on_probabilities(T([1.0, 0.0])).item() == 0
    assert np.isfinite(on_probabilities(T([0.0, 1.0])).item())
    for p in ([1.0, 0.0], [0.0, 1.0]):
        assert np.isfinite(vjp(on_probabilities, p)).all()
    huge = F.nn.binary_cross_entropy(T([100.0, -100.0]), T([1.0, 0.0]))
    assert 0 <= huge.item() <= 1e-40
    wrong = F.nn.binary_cross_entropy(T([1e30, -1e30]), T([0.0, 1.0]), reduction="none")
    np.testing.assert_array_equal(wrong.numpy(), np.float32([1e30, 1e30]))


def test_losses_take_arrays() -> None:
    pred = np.array([3, 3, 3, 3]).astype(np.float32)
    real = np.array([2, 8, 6, 1]).astype(np.float32)
    assert F.loss.square_loss(pred, real).item() == 9.75
    assert F.loss.l1_loss(pred, real).item() == 2.75


@pytest.mark.parametrize("name", ["l1_loss", "square_loss", "binary_cross_entropy"])
def test_reductions(name: str) -> None:
    loss, x, y = getattr(F.nn, name), T([1.0, 2.0, -3.0]), T([0.0, 2.0, 1.0])
    each = loss(x, y, reduction="none").numpy()
    assert loss(x, y).item() == pytest.approx(each.mean())
    assert loss(x, y, reduction="sum").item() == pytest.approx(each.sum())
    with pytest.raises(ValueError, match="reduction"):
        loss(x, y, reduction="median")


def test_hinge_loss() -> None:
    x, y = T([[1.0, 2.0, -3.0], [1.0, 2.0, -3.0]]), T([[1.0, -1.0, 1.0], [1.0, -1.0, 1.0]])
    assert F.nn.hinge_loss(x, y).item() == 7
    assert F.nn.hinge_loss(x, y, norm="L2").item() == 25
    with pytest.raises(ValueError, match="norm"):
        F.nn.hinge_loss(x, y, norm="L3")


def test_topk_accuracy() -> None:
    scores = T([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    target = labels(1, 1, 0)
    first, second, third = F.metric.topk_accuracy(scores, target, (1, 2, 3))
    values = [first.item(), second.item(), third.item()]
    assert values == pytest.approx([1 / 3, 2 / 3, 1])
    with pytest.raises(ValueError, match="k in"):
        F.topk_accuracy(scores, target, 4)


# ---- pooling -----------------------------------------------------------------------------------


def test_padding() -> None:
    x = T([[[[2.0, 4.0], [6.0, 8.0]]]])
    exclude = F.avg_pool2d(x, 2, 1, 1).numpy()[0, 0]
    np.testing.assert_array_equal(exclude, [[2, 3, 4], [4, 5, 6], [6, 7, 8]])
    include = F.avg_pool2d(x, 2, 1, 1, mode="average").numpy()[0, 0]
    np.testing.assert_array_equal(include, [[0.5, 1.5, 1], [2, 5, 3], [1.5, 3.5, 2]])
    lowest = F.max_pool2d(-F.ones((1, 1, 2, 2)), 2, 1, 1).numpy()
    np.testing.assert_array_equal(lowest, -np.ones((1, 1, 3, 3)))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_nan_wins_and_the_first_maximum_has_the_gradient(channels_last: bool, dtype: str) -> None:
    a = np.array([[[[1.0, 5.0, NAN, 0.0], [5.0, 2.0, 7.0, NAN]]]]).repeat(3, 1)
    x = T(a, dtype=dtype)
    if channels_last:
        x = T(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), dtype=dtype).transpose(0, 3, 1, 2)
    gm = GradManager().attach([x])
    with gm:
        y = F.max_pool2d(x, 2)
        gm.backward(y, F.full(y.shape, 3, dtype=dtype))
    np.testing.assert_array_equal(y.numpy().astype("float32")[0, 1], [[5, NAN]])
    want = [[0, 3, 3, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(x.grad.numpy().astype("float32")[0, 1], want)


def test_max_pool_of_small_integers() -> None:
    x = T(np.arange(16).reshape(1, 1, 4, 4), dtype="int8")
    y = F.max_pool2d(x, 2)
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y.numpy()[0, 0], [[5, 7], [13, 15]])


def test_memory_format_is_kept() -> None:
    x = T(np.random.default_rng(0).standard_normal((2, 5, 5, 3))).transpose(0, 3, 1, 2)
    for f in (
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.batch_norm(x, training=True),
        lambda x: F.softmax(x, 1),
    ):
        assert f(x)._strides[1] == 1


BAD_POOLS = [
    ((2, 0, 0), "stride"),
    ((0, 1, 0), "window"),
    ((-1, 1, 0), "window"),
    ((2, 1, 2), "padding"),
    ((2, 1, -1), "padding"),
    ((9, 1, 0), "fits"),
    ((2, 1 << 62, 0), "stride"),
    ((1 << 62, 1, (1 << 62) - 1), "window"),
]


@pytest.mark.parametrize(("args", "message"), BAD_POOLS)
def test_bad_windows(args: tuple[int, int, int], message: str) -> None:
    for f in (F.max_pool2d, F.avg_pool2d):
        with pytest.raises(ValueError, match=message):
            f(F.ones((1, 1, 4, 4)), *args)


def test_bad_pooling() -> None:
    for f in (F.adaptive_max_pool2d, F.adaptive_avg_pool2d):
        for size in (0, 5, -1, (1, 2, 3)):
            with pytest.raises(ValueError, match=r"output sizes|pair"):
                f(F.ones((1, 1, 4, 4)), size)
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        F.max_pool2d(F.ones((4, 4)), 2)
    with pytest.raises(TypeError, match="float"):
        F.avg_pool2d(F.ones((1, 1, 4, 4), dtype="int32"), 2)
    with pytest.raises(ValueError, match="MEDIAN"):
        F.avg_pool2d(F.ones((1, 1, 4, 4)), 2, mode="median")


# ---- bad input ---------------------------------------------------------------------------------

BAD = [
    (lambda: F.softmax(F.ones((2, 3)), 2), ValueError),
    (lambda: F.logsoftmax(F.ones((2, 3)), -3), ValueError),
    (lambda: F.logsumexp(F.ones((2, 3)), (0, 0)), ValueError),
    (lambda: F.batch_norm(F.ones(3), training=True), ValueError),
    (lambda: F.batch_norm(F.ones((2, 3))), ValueError),
    (lambda: F.batch_norm(F.ones((2, 3)), F.ones(2), F.ones(2)), ValueError),
    (lambda: F.batch_norm(F.ones((2, 3), dtype="int32"), training=True), TypeError),
    (lambda: F.layer_norm(F.ones((2, 3)), 2, False), ValueError),
    (lambda: F.layer_norm(F.ones((2, 3)), (), False), ValueError),
    (lambda: F.layer_norm(F.ones((2, 3)), 3, True), ValueError),
    (lambda: F.layer_norm(F.ones((2, 3)), 3, True, F.ones(2), F.ones(2)), ValueError),
    (lambda: F.group_norm(F.ones((2, 3)), 2, False), ValueError),
    (lambda: F.group_norm(F.ones((2, 3)), 0, False), ValueError),
    (lambda: F.group_norm(F.ones(3), 1, False), ValueError),
    (lambda: F.instance_norm(F.ones(3), False), ValueError),
    (lambda: F.general_norm(F.ones((2, 3)), 2, False), ValueError),
    (lambda: F.general_norm(F.ones((2, 3)), (0, -2), False), ValueError),
    (lambda: F.nn.cross_entropy(F.ones((2, 3)), labels(1)), ValueError),
    (lambda: F.nn.cross_entropy(F.ones((2, 3)), labels(1, 2), axis=2), ValueError),
    (lambda: F.nn.cross_entropy(F.ones((2, 0)), labels(1, 2)), ValueError),
    (lambda: F.nn.cross_entropy(F.ones((2, 3)), labels(1, 2), label_smooth=2), ValueError),
    (lambda: F.embedding(labels(3), F.ones((3, 2))), IndexError),
    (lambda: F.embedding(labels(-4), F.ones((3, 2))), IndexError),
    (lambda: F.embedding(labels(1), F.ones(3)), ValueError),
    (lambda: F.embedding(T([0.5]), F.ones((3, 2))), TypeError),
    (lambda: F.embedding(labels(1), F.ones((3, 2)), padding_idx=0), ValueError),
    (lambda: F.nn.pad(F.ones((2, 3)), ((1, -1),)), ValueError),
    (lambda: F.nn.pad(F.ones((2, 3)), ((1, 1),) * 3), ValueError),
    (lambda: F.nn.pad(F.ones((2, 3)), ((2, 1),), mode="reflect"), ValueError),
    (lambda: F.nn.pad(F.ones((2, 3)), ((2, 1),), mode="circular"), ValueError),
    (lambda: F.nn.pad(F.ones((0, 3)), ((2, 1),), mode="replicate"), ValueError),
    (lambda: F.pixel_shuffle(F.ones((1, 3, 2, 2)), 2), ValueError),
    (lambda: F.local_response_norm(F.ones((1, 3, 2, 2)), 2), ValueError),
    (lambda: F.sync_batch_norm(F.ones((2, 3)), F.ones(3), F.ones(3), eps_mode="x"), ValueError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_input(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
