"""Recurrent modules: options, errors, dropout, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from examples.models.lstm import LanguageModel
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin

KINDS = [M.RNN, M.LSTM]


def normal(*shape: int, seed: int = 0) -> mge.Tensor:
    return mge.tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def same(a: mge.Tensor, b: mge.Tensor) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-6)


def hidden(state: Any) -> mge.Tensor:
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("kind", KINDS)
def test_steps_one_by_one(kind: Any) -> None:
    """A sequence is what its pieces give, each from the state that the one before left."""
    net, x = kind(3, 4, num_layers=2), normal(6, 2, 3)
    whole, state = net(x)
    first, middle = net(x[:2])
    second, last = net(x[2:], middle)
    same(F.concat([first, second], axis=0), whole)
    same(hidden(last), hidden(state))


@pytest.mark.parametrize("kind", KINDS)
def test_cells_compute_the_same(kind: Any) -> None:
    net, x = kind(3, 4), normal(5, 2, 3)
    cell, flat, at = net.cells[0][0], net._flatten_weights.numpy().reshape(-1), 0
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        parameter = getattr(cell, name)
        size = int(np.prod(parameter.shape))
        parameter[...] = flat[at : at + size].reshape(parameter.shape)
        at += size
    assert at == flat.size
    outputs, state = [], None
    for step in x:
        state = cell(step, state)
        outputs.append(hidden(state))
    same(F.stack(outputs, axis=0), net(x)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_batch_first_and_views(kind: Any) -> None:
    net = kind(3, 4, bidirectional=True)
    first = kind(3, 4, bidirectional=True, batch_first=True)
    first.load_state_dict(net.state_dict())
    x = normal(5, 2, 3)
    turned, _ = first(F.transpose(x, (1, 0, 2)))
    same(F.transpose(turned, (1, 0, 2)), net(x)[0])
    same(net(x[::-1])[0], net(mge.tensor(x.numpy()[::-1].copy()))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_eval_gives_the_same_and_has_gradients(kind: Any) -> None:
    net, x = kind(3, 4, num_layers=2), normal(300, 9, 3)
    grads = []
    for mode in (True, False):
        net.train(mode)
        manager = GradManager().attach([x, net._flatten_weights])
        with manager:
            y = net(x)[0]
            manager.backward((y * y).sum())
        grads.append((y, x.grad, net._flatten_weights.grad))
        x.grad = net._flatten_weights.grad = None
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers(kind: Any) -> None:
    net, x = kind(3, 64, num_layers=2, dropout=0.5), normal(5, 2, 3)
    a, b = net(x)[0], net(x)[0]
    assert np.abs(a.numpy() - b.numpy()).max() > 1e-3
    net.eval()
    same(net(x)[0], net(x)[0])
    # Behind the last layer nothing is dropped.
    single = kind(3, 4, dropout=0.5)
    same(single(x)[0], single(x)[0])
    everything = kind(3, 4, num_layers=2, dropout=1.0)
    nothing = kind(3, 4, num_layers=2, dropout=1.0)
    nothing.load_state_dict(everything.state_dict())
    same(everything(x)[0], nothing(2 * x)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(kind: Any, dtype: str) -> None:
    net, x = kind(3, 4), normal(5, 2, 3)
    want = net(x)[0].numpy()
    net._flatten_weights = mge.Parameter(net._flatten_weights.astype(dtype))
    got, state = net(x.astype(dtype))
    assert got.dtype == hidden(state).dtype == x.astype(dtype).dtype
    tolerance = {"float16": 4e-3, "bfloat16": 4e-2, "float64": 1e-6}[dtype]
    np.testing.assert_allclose(got.astype("float32").numpy(), want, atol=tolerance)
    mixed = net(x)[0]  # inputs of two dtypes go to the wider one
    assert mixed.dtype == (got.dtype if dtype == "float64" else np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_learns_to_sum(kind: Any) -> None:
    mge.random.seed(3)
    net, head = kind(1, 16), M.Linear(16, 1)
    parameters = [*net.parameters(), *head.parameters()]
    manager, adam = GradManager().attach(parameters), optim.Adam(parameters, lr=0.02)
    x = normal(6, 64, 1)
    target = x.sum(axis=0)
    losses = []
    for _ in range(60):
        with manager:
            loss = F.loss.square_loss(head(net(x)[0][-1]), target)
            manager.backward(loss)
        adam.step().clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


def test_huge_values_stay_in_range() -> None:
    net = M.LSTM(2, 3, num_layers=2)
    net._flatten_weights[...] = normal(*net._flatten_weights.shape) * 1e4
    manager = GradManager().attach([net._flatten_weights])
    with manager:
        y, _ = net(normal(20, 2, 2) * 1e4)
        manager.backward(y.sum())
    assert np.abs(y.numpy()).max() <= 1
    assert np.isfinite(net._flatten_weights.grad.numpy()).all()


def test_nan_and_infinity() -> None:
    x = normal(4, 2, 3)
    x[1, 0, 0] = float("nan")
    y = M.LSTM(3, 4)(x)[0].numpy()
    assert np.isnan(y[1:, 0]).all()
    assert np.isfinite(y[0]).all()
    assert np.isfinite(y[:, 1]).all()


def test_second_order_raises_nothing_and_is_exact() -> None:
    """The gradient of a gradient, against a difference of gradients."""
    net = M.LSTM(2, 3)
    w = net._flatten_weights = mge.Parameter(net._flatten_weights.astype("float64"))
    x = mge.tensor(normal(4, 2, 2).numpy(), dtype="float64")

    def slope(create: bool) -> tuple[mge.Tensor, mge.Tensor | None]:
        outer = GradManager().attach([w])
        with outer:
            inner = GradManager().attach([x])
            with inner:
                inner.backward((net(x)[0] ** 2).sum())
            g = (x.grad**2).sum()
            x.grad = None
            if create:
                outer.backward(g)
        found, w.grad = w.grad, None
        return g, found

    _, second = slope(True)
    direction = np.random.default_rng(1).standard_normal(w.shape)
    ends = []
    for sign in (1, -1):
        old = w.numpy().copy()
        w[...] = mge.tensor(old + sign * 1e-5 * direction, dtype="float64")
        ends.append(slope(False)[0].item())
        w[...] = mge.tensor(old, dtype="float64")
    want = (ends[0] - ends[1]) / 2e-5
    assert second is not None
    assert abs((second.numpy() * direction).sum() - want) < 1e-6 * max(1, abs(want))


BAD = [
    (lambda: M.LSTM(3, 4)(normal(2, 3)), ValueError, "steps, batch, 3"),
    (lambda: M.RNN(3, 4, batch_first=True)(normal(2, 3)), ValueError, "batch, steps, 3"),
    (lambda: M.LSTM(3, 4)(normal(5, 2, 7)), ValueError, "steps, batch, 3"),
    (lambda: M.RNN(3, 4)(normal(5, 2, 3), normal(1, 3, 4)), ValueError, "state of shape"),
    (lambda: M.RNN(3, 4)(normal(5, 2, 3), normal(2, 4)), ValueError, "state of shape"),
    (lambda: M.LSTM(3, 4)(normal(5, 2, 3), normal(1, 2, 4)), TypeError, "tuple"),
    (lambda: M.LSTM(3, 4)([1.0]), TypeError, "Tensor"),
    (lambda: M.RNN(3, 4, nonlinearity="sinh"), ValueError, "sinh"),
    (lambda: M.RNNCell(3, 4, nonlinearity="sinh"), ValueError, "sinh"),
    (lambda: M.RNN(3, 4, dropout=-0.1), ValueError, "Dropout"),
    (lambda: M.RNN(3, 4, dropout=float("nan")), ValueError, "Dropout"),
    (lambda: M.RNN(3, -4), ValueError, "hidden_size"),
    (lambda: M.RNN(3.5, 4), TypeError, "input_size"),
    (lambda: M.LSTM(3, 4, num_layers=0), ValueError, "num_layers"),
    (lambda: M.LSTM(3, 4, num_layers=2**40), ValueError, "num_layers"),
    (lambda: M.LSTMCell(3, 4)(normal(2, 7)), ValueError, "batch, 3"),
    (lambda: M.LSTMCell(3, 4)(normal(2, 3), (normal(2, 5), normal(2, 4))), ValueError, "weight_ih"),
    (lambda: M.RNNCell(3, 4)(normal(2, 3), normal(3, 4)), ValueError, "state"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_bad_input(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_bad_fields_of_ops() -> None:
    x, h, w = normal(5, 2, 3), normal(1, 2, 4), normal(16, 9)
    for fields in (
        {"hidden_size": 5},
        {"hidden_size": -4},
        {"hidden_size": 2**60},
        {"hidden_size": 4, "num_layers": 0},
        {"hidden_size": 4, "num_layers": 2**40},
        {"hidden_size": 4, "dropout": 2.0},
        {"hidden_size": 4, "proj_size": 2},
        {"hidden_size": 4, "bias": False},
        {"hidden_size": 4, "bidirectional": True},
    ):
        with pytest.raises(ValueError, match="LSTM: "):
            apply(builtin.LSTM(**fields), x, h, h, w)
    with pytest.raises(TypeError, match="inputs"):
        apply(builtin.LSTM(hidden_size=4), x, h, w)


def test_projection_has_no_effect_and_says_so() -> None:
    with pytest.warns(UserWarning, match="proj_size"):
        net = M.LSTM(3, 4, proj_size=2)
    assert net(normal(5, 2, 3))[0].shape == (5, 2, 4)


def test_initial_values() -> None:
    net = M.LSTM(8, 64)
    values = net._flatten_weights.numpy()
    assert np.abs(values).max() <= 1 / 8
    assert np.abs(values).max() > 0.12
    before = values.copy()
    net.reset_parameters()
    assert not np.array_equal(before, net._flatten_weights.numpy())


def test_example_learns_a_text() -> None:
    """The language model learns to go round a circle of words, and a cut text goes on."""
    mge.random.seed(1)
    net = LanguageModel(words=6, width=16)
    text = mge.tensor((np.arange(25)[:, None] + np.arange(4)).astype("int32") % 6)
    manager, adam = GradManager().attach(net.parameters()), optim.Adam(net.parameters(), lr=0.03)
    for _ in range(40):
        with manager:
            loss, _ = net.loss(text)
            manager.backward(loss)
        adam.step().clear_grad()
    assert loss.item() < 0.1
    assert net.generate([0, 1, 2], 6) == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    whole, _ = net(text)
    first, state = net(text[:10])
    same(F.concat([first, net(text[10:], state)[0]], axis=0), whole)
