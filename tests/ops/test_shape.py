"""Shapes and joins beyond what the records hold: views, odd arguments, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F


def test_reshape_of_random_views() -> None:
    """Whatever the strides: the elements come in row-major order."""
    for i in range(500):
        rng = np.random.default_rng(i)
        shape = tuple(rng.choice([1, 2, 2, 3, 4], rng.integers(1, 5)))
        x = np.arange(float(np.prod(shape))).reshape(shape)
        t = mge.tensor(x)
        order = [int(k) for k in rng.permutation(x.ndim)]
        x, t = x.transpose(order), F.transpose(t, order)
        if rng.random() < 0.4:
            key = tuple(slice(None, None, int(rng.choice([-1, 1, 2]))) for _ in range(x.ndim))
            x, t = x[key], t[key]
        if rng.random() < 0.2:
            x = np.broadcast_to(x, (2, *x.shape))
            t = F.broadcast_to(t, x.shape)
        factors = []
        n = x.size
        while n > 1:
            p = next(p for p in (2, 3, 5, n) if n % p == 0)
            factors.append(p)
            n //= p
        rng.shuffle(factors)
        cuts = sorted(rng.integers(0, len(factors) + 1, rng.integers(0, 4)))
        to = [int(np.prod(factors[a:b])) for a, b in itertools.pairwise([0, *cuts, len(factors)])]
        if rng.random() < 0.3:
            to[rng.integers(len(to))] = -1
        np.testing.assert_array_equal(F.reshape(t, to).numpy(), x.reshape(to))


def test_reshape_is_a_view_where_it_can_be() -> None:
    x = F.zeros((4, 6))
    assert F.reshape(x[::2], (2, 2, 3))._strides == (12, 3, 1)
    assert F.reshape(x[:, ::2], (4, 3, 1))._strides[:2] == (6, 2)
    assert F.transpose(x, (1, 0))._strides == (1, 6)
    assert F.broadcast_to(F.zeros((1, 3)), (5, 3))._strides == (0, 1)


@pytest.mark.parametrize(
    ("shape", "to"),
    [((0, 3), (-1, 3)), ((0, 3), (0,)), ((0, 3), (5, 0, 2)), ((1,), ()), ((), (1, 1)), ((2, 3), 6)],
)
def test_reshape_sizes(shape: tuple[int, ...], to: object) -> None:
    x = F.zeros(shape)
    want = np.zeros(shape).reshape(to)  # type: ignore[call-overload]
    assert F.reshape(x, to).shape == want.shape  # type: ignore[arg-type]


@pytest.mark.parametrize("to", [(4, -1), (-1, -1), (-2, 3), (7,), (), (2**62, 2**62), (0, -1)])
def test_reshape_refuses(to: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Reshape|2\^62"):
        F.reshape(F.zeros((2, 3)), to)


def test_reshape_takes_tensors() -> None:
    x = mge.tensor(np.arange(6.0))
    assert F.reshape(x, mge.tensor([3, 2])).shape == (3, 2)
    assert F.reshape(x, [mge.tensor(3), 2]).shape == (3, 2)
    assert x.reshape(3, -1).shape == x.reshape((3, -1)).shape == (3, 2)
    with pytest.raises(ValueError, match="dimensions"):
        F.reshape(F.zeros((1,)), (1,) * 9)


def test_flatten() -> None:
    x = F.zeros((2, 3, 4))
    assert F.flatten(x).shape == (24,)
    assert F.flatten(x, 1).shape == F.flatten(x, -2, -1).shape == (2, 12)
    assert F.flatten(x, 0, 1).shape == (6, 4)
    assert F.flatten(x, 1, 1).shape == (2, 3, 4)
    assert F.flatten(mge.tensor(1.0)).shape == (1,)
    assert F.flatten(F.zeros((0, 3, 4)), 1).shape == (0, 12)
    for bad in ((2, 1), (3, 3), (0, -4)):
        with pytest.raises(ValueError, match="flatten"):
            F.flatten(x, *bad)


@pytest.mark.parametrize("pattern", [(0, 0), (0, 2), (0,), (0, 1, 1), (-3, 0), ("y", 0, 1)])
def test_transpose_refuses(pattern: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Dimshuffle|transpose"):
        F.transpose(F.zeros((2, 3)), pattern)


def test_transpose_drops_axes_of_size_1() -> None:
    assert F.transpose(F.zeros((2, 1, 3)), (2, 0)).shape == (3, 2)
    assert F.zeros((2, 3)).T.shape == (3, 2)


def test_broadcast_to() -> None:
    x = mge.tensor([[1.0, 2.0]])
    assert F.broadcast_to(x, (3, None)).shape == (3, 2)
    assert F.broadcast_to(x, mge.tensor([3, 2])).shape == (3, 2)
    assert F.broadcast_to(mge.tensor(1.0), 3).numpy().tolist() == [1, 1, 1]
    assert F.broadcast_to(F.zeros((1, 2)), (0, 2)).shape == (0, 2)
    for bad in ((2,), (3, 3), (3, -1), (None, 3, 2), (2**40, 2**40, 2)):
        with pytest.raises(ValueError, match=r"[Bb]roadcast|2\^62"):
            F.broadcast_to(x, bad)


def test_axes_of_size_1() -> None:
    x = F.zeros((1, 2, 1))
    assert F.squeeze(x).shape == (2,)
    assert F.squeeze(x, 0).shape == (2, 1)
    assert F.squeeze(x, [0, -1]).shape == (2,)
    assert F.expand_dims(mge.tensor([1.0]), [0, 2]).shape == (1, 1, 1)
    assert F.expand_dims(mge.tensor([1.0, 2.0]), (2, 0)).shape == (1, 2, 1)
    for bad in (lambda: F.squeeze(x, 1), lambda: F.squeeze(x, 3), lambda: F.expand_dims(x, 5)):
        with pytest.raises(ValueError, match="Axis"):
            bad()


def test_concat_arguments() -> None:
    assert F.concat([mge.tensor(1.0), mge.tensor(2.0)]).numpy().tolist() == [1, 2]
    assert F.concat([mge.tensor([1]), mge.tensor([2.0])]).dtype == np.float32
    assert F.concat([mge.tensor([1], dtype="float16"), mge.tensor([2.0])]).dtype == np.float32
    assert F.concat((mge.tensor([1.0]),)).numpy().tolist() == [1]
    assert F.concat(iter([mge.tensor([1.0])])).shape == (1,)
    assert F.concat([F.zeros((0, 2)), F.ones((1, 2))]).numpy().tolist() == [[1, 1]]
    assert F.concat([mge.tensor([1.0])] * 2, device="cpu0").device.logical_name == "cpu0:0"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: F.concat([]), ValueError),
        (lambda: F.concat(F.zeros((2, 2))), TypeError),
        (lambda: F.concat(3), TypeError),
        (lambda: F.concat([F.zeros((1, 1)), F.zeros((1,))]), ValueError),
        (lambda: F.concat([F.zeros((2, 1)), F.zeros((3, 1))], axis=1), ValueError),
        (lambda: F.concat([F.zeros((1, 1))], axis=2), ValueError),
        (lambda: F.concat([F.zeros((1,), "int8"), F.zeros((1,), "uint8")]), TypeError),
        (lambda: F.concat([None]), TypeError),
        (lambda: F.stack([]), ValueError),
        (lambda: F.stack([F.zeros((2,)), F.zeros((1,))]), ValueError),
        (lambda: F.stack([F.zeros((2,))], axis=3), ValueError),
        (lambda: F.split(F.zeros((6,)), 0), ValueError),
        (lambda: F.split(F.zeros((6,)), [3, 2]), ValueError),
        (lambda: F.split(F.zeros((6,)), [2, 9]), ValueError),
        (lambda: F.split(F.zeros((6,)), [-1]), ValueError),
        (lambda: F.split(F.zeros((6,)), 2, axis=1), ValueError),
        (lambda: F.tile(F.zeros((2,)), -1), ValueError),
        (lambda: F.repeat(F.zeros((2,)), -1), ValueError),
        (lambda: F.repeat(F.zeros((2,)), [1, 2, 3]), ValueError),
        (lambda: F.repeat(F.zeros((2,)), 1.5), TypeError),
        (lambda: F.roll(F.zeros((2, 2)), 1, axis=2), ValueError),
        (lambda: F.roll(F.zeros((2, 2)), 1, axis=(0, 1)), ValueError),
        (lambda: F.roll(F.zeros((2, 2)), (1, 1)), ValueError),
        (lambda: F.diag(F.zeros((2, 2, 2))), ValueError),
        (lambda: F.meshgrid(F.zeros((2,)), indexing="ab"), ValueError),
        (lambda: F.swapaxes(F.zeros((2, 2)), 0, 2), ValueError),
        (lambda: F.reshape([1, 2], (2,)), TypeError),
    ],
)
def test_bad_arguments_raise(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_stack_of_scalars() -> None:
    assert F.stack([mge.tensor(1.0), mge.tensor(2.0)]).numpy().tolist() == [1, 2]
    assert F.stack([mge.tensor([1]), mge.tensor([2.0])], axis=-1).dtype == np.float32


def test_split_sizes() -> None:
    x = F.arange(6)
    assert [p.shape[0] for p in F.split(x, 4)] == [2, 2, 1, 1]
    assert [p.shape[0] for p in F.split(x, [2, 2])] == [2, 0, 4]
    assert [p.shape[0] for p in F.split(x, [])] == [6]
    assert [p.shape[0] for p in F.split(x, (1, 4, 6))] == [1, 3, 2, 0]
    assert [p.shape[0] for p in F.split(x, mge.tensor([2, 3]))] == [2, 1, 3]
    assert [p.shape[0] for p in F.split(F.zeros((200,)), 100)] == [2] * 100
    with pytest.raises(ValueError, match="split: expected at most 2 parts, got 5"):
        F.split(F.zeros((2,)), 5)


@pytest.mark.parametrize("channels_last", [False, True])
def test_large_joins(channels_last: bool) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((4, c, 20, 30)).astype("float32") for c in (3, 64, 1, 32)]
    tensors = [mge.tensor(p) for p in parts]
    if channels_last:
        tensors = [
            F.transpose(F.copy(mge.tensor(p.transpose(0, 2, 3, 1).copy())), (0, 3, 1, 2))
            for p in parts
        ]
    out = F.concat(tensors, axis=1)
    assert (out._strides[1] == 1) == channels_last
    np.testing.assert_array_equal(out.numpy(), np.concatenate(parts, axis=1))
    for axis in (0, 1, 2, 3, 4):
        out = F.stack(tensors[:1] * 3, axis=axis)
        np.testing.assert_array_equal(out.numpy(), np.stack(parts[:1] * 3, axis=axis))


def test_tile_of_many_dimensions() -> None:
    x = np.arange(2.0**6).reshape((2,) * 6)
    reps = (2, 1, 2, 3, 2, 2)
    np.testing.assert_array_equal(F.tile(mge.tensor(x), reps).numpy(), np.tile(x, reps))
    np.testing.assert_array_equal(F.tile(mge.tensor(1.0), 3).numpy(), np.ones(3))
    np.testing.assert_array_equal(F.tile(F.ones((2, 2)), 0).numpy(), np.zeros((2, 0)))


def test_repeat_forms() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = mge.tensor(x)
    np.testing.assert_array_equal(F.repeat(t, 2).numpy(), np.repeat(x, 2))
    np.testing.assert_array_equal(F.repeat(t, 0, axis=0).numpy(), np.repeat(x, 0, axis=0))
    np.testing.assert_array_equal(F.repeat(mge.tensor(1.0), 3).numpy(), [1, 1, 1])
    got = F.repeat(t, mge.tensor([1, 2]), axis=0)
    np.testing.assert_array_equal(got.numpy(), np.repeat(x, [1, 2], axis=0))


def test_diag_out_of_reach_is_empty() -> None:
    for k in (-5, 5, 2, -2):
        assert F.diag(F.ones((2, 2)), k).shape == np.diag(np.ones((2, 2)), k).shape
    assert F.diag(F.ones((2, 2)), 2**31).shape == (0,)
    for k in (2**40, -(2**62)):
        with pytest.raises(ValueError, match="Diag"):
            F.diag(F.ones((2,)), k)
