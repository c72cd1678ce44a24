"""Reductions and order statistics where the generic checks do not look: extremes, ties, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager

NAN, INF = float("nan"), float("inf")


def gradient(fn: Callable[..., Any], x: Any, dy: Any = None, dtype: str = "float32") -> Any:
    """The gradient of fn at x."""
    t = mge.tensor(np.asarray(x, dtype))
    manager = GradManager().attach([t])
    with manager:
        y = fn(t)
        manager.backward(y, None if dy is None else mge.tensor(np.asarray(dy, dtype)))
    assert t.grad is not None
    return t.grad.numpy()


# ---- accuracy ------------------------------------------------------------------------------------


def test_long_columns_keep_their_digits() -> None:
    x = F.full((4000000, 2), 0.1)
    for axis in (0, None):
        np.testing.assert_allclose(F.mean(x, axis=axis).numpy(), np.float32(0.1), rtol=1e-7)
    np.testing.assert_allclose(F.sum(x, axis=0).numpy(), 4e6 * float(np.float32(0.1)), rtol=1e-7)


@pytest.mark.parametrize("shape", [(1 << 21,), (3, 100003), (100003, 3), (7, 300, 65)])
def test_sums_agree_with_float64(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = (rng.standard_normal(shape) + 1).astype(np.float32)
    for axis in (None, 0, -1):
        exact = x.astype(np.float64)
        for got, want in (
            (F.sum(mge.tensor(x), axis), exact.sum(axis)),
            (F.var(mge.tensor(x), axis), exact.var(axis)),
            (F.norm(mge.tensor(x).reshape(-1)), np.sqrt((exact**2).sum())),
        ):
            np.testing.assert_allclose(got.numpy(), want, rtol=1.2e-7, atol=1e-7)


def test_variance_beside_a_large_mean() -> None:
    x = mge.tensor(np.array([1e6, 1e6 + 1, 1e6 + 2], np.float32))
    np.testing.assert_allclose(F.var(x).numpy(), 2 / 3, rtol=1e-6)
    assert F.std(F.full((1000, 3), 1e8), axis=0).numpy().tolist() == [0, 0, 0]


def test_float16_sums_accumulate_wide() -> None:
    ones = F.ones((4096,)).astype("float16")
    assert F.sum(ones).numpy() == 4096
    assert F.mean(ones * 60000).numpy() == 60000
    assert F.sum(ones * 60000).numpy() == np.inf


def test_small_integers_do_not_wrap() -> None:
    for dtype in ("int8", "uint8", "int16", "uint16"):
        x = mge.tensor(np.full(1000, 100, dtype))
        assert F.sum(x).numpy() == 100000
        assert F.sum(x).dtype == np.int32
    assert F.prod(mge.tensor([100, 100], dtype="int8")).numpy() == 10000
    assert F.sum(mge.tensor([True, False, True])).numpy() == 2
    assert F.max(mge.tensor([True, False])).dtype == np.bool_


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int, rng: np.random.Generator) -> None:
    cases = [(1 << 20,), (5, 70001), (70001, 5), (33, 1025, 9)]
    data = [rng.standard_normal(s).astype(np.float32) for s in cases]
    functions = (F.sum, F.mean, F.prod, F.max, F.var, F.std, F.argmax, F.argmin)

    def results() -> list[bytes]:
        out = []
        for x in data:
            t = mge.tensor(x)
            out += [fn(t, axis).numpy().tobytes() for fn in functions for axis in (None, 0, -1)]
            out += [y.numpy().tobytes() for y in F.sort(t)]
        return out

    before = device.get_num_threads()
    try:
        device.set_num_threads(1)
        expected = results()
        device.set_num_threads(threads)
        assert results() == expected
    finally:
        device.set_num_threads(before)


# ---- NaN, ties, empty ----------------------------------------------------------------------------


def test_nan_wins_as_in_numpy() -> None:
    x = np.array([[1, NAN, 3], [4, 2, 5], [NAN, 7, NAN]], np.float32)
    for dtype in ("float32", "float16", "float64"):
        t = mge.tensor(x, dtype=dtype)
        for axis in (0, 1):
            np.testing.assert_array_equal(F.max(t, axis).numpy(), x.max(axis))
            np.testing.assert_array_equal(F.min(t, axis).numpy(), x.min(axis))
            np.testing.assert_array_equal(F.argmax(t, axis).numpy(), x.argmax(axis))
            np.testing.assert_array_equal(F.argmin(t, axis).numpy(), x.argmin(axis))
        np.testing.assert_array_equal(F.sort(t)[0].numpy(), np.sort(x, axis=-1))
        np.testing.assert_array_equal(F.sort(t)[1].numpy(), np.argsort(x, axis=-1, kind="stable"))
    values, positions = F.topk(mge.tensor([2.0, NAN, 1.0, -INF, INF]), 3)
    np.testing.assert_array_equal(values.numpy(), [NAN, INF, 2])
    np.testing.assert_array_equal(positions.numpy(), [1, 4, 0])


def test_nan_wins_wherever_it_stands() -> None:
    for n in (3, 40, 300, 70000):
        for at in (0, n // 3, n - 1):
            x = np.arange(n, dtype=np.float32)
            x[at] = NAN
            t = mge.tensor(x)
            assert np.isnan(F.max(t).numpy())
            assert np.isnan(F.min(t).numpy())
            assert F.argmax(t).numpy() == at
            assert F.argmin(t).numpy() == at


def test_first_of_equal_elements() -> None:
    x = np.tile(np.array([1.0, 3.0, 3.0, 0.0], np.float32), (5, 3000))
    assert F.argmax(mge.tensor(x), 1).numpy().tolist() == [1] * 5
    assert F.argmin(mge.tensor(x), 1).numpy().tolist() == [3] * 5
    assert F.argmax(mge.tensor(x), 0).numpy().sum() == 0
    assert F.argmax(F.full((7,), -INF)).numpy() == 0
    assert F.argmin(mge.tensor(np.full(7, 2**31 - 1, np.int32))).numpy() == 0


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [5, 64, 129, 1000, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "float64", "bool"])
def test_sorting_is_stable(n: int, dtype: str, descending: bool, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2 if dtype == "bool" else 20, (3, n)).astype(dtype)
    if dtype.startswith("float"):
        x = x * rng.choice([-1.0, 1.0], (3, n)).astype(dtype)  # with zeros of both signs
    keys = -x.astype(np.float64) if descending else x
    order = np.argsort(keys, -1, kind="stable")
    values, positions = F.sort(mge.tensor(x, dtype=dtype), descending=descending)
    np.testing.assert_array_equal(positions.numpy(), order)
    assert values.numpy().tobytes() == np.take_along_axis(x, order, -1).tobytes()
    for k in (1, n // 7 + 1, n):
        values, positions = F.topk(mge.tensor(x, dtype=dtype), k, descending=descending)
        np.testing.assert_array_equal(positions.numpy(), order[:, :k])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("k", [1, 2, 9])
def test_a_negative_k_takes_from_the_other_end(k: int, descending: bool) -> None:
    x = mge.tensor([[3.0, 1.0, 4.0], [1.5, 9.0, 2.0]])
    taken, wanted = F.topk(x, -k, descending), F.topk(x, k, not descending)
    for a, b in zip(taken, wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    last = F.topk(x, mge.tensor(-2), descending, kth_only=True)
    np.testing.assert_array_equal(last[0].numpy(), F.topk(x, 2, not descending)[0][:, -1].numpy())


def test_sorting_a_long_vector(rng: np.random.Generator) -> None:
    x = rng.standard_normal(400001).astype(np.float32)
    values, positions = F.sort(mge.tensor(x))
    np.testing.assert_array_equal(positions.numpy(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(values.numpy(), np.sort(x))
    for pattern in (np.arange(300000), -np.arange(300000), np.arange(300000) % 1024):
        p = pattern.astype(np.float32)
        np.testing.assert_array_equal(
            F.argsort(mge.tensor(p)).numpy(), np.argsort(p, kind="stable")
        )


def test_empty_tensors() -> None:
    empty = F.zeros((0, 3))
    assert F.sum(empty).numpy() == 0
    assert F.prod(empty, 0).numpy().tolist() == [1, 1, 1]
    assert np.isnan(F.mean(empty, 0).numpy()).all()
    assert np.isnan(F.var(empty).numpy())
    assert F.sum(empty, 1).shape == (0,)
    assert F.max(empty, 1).shape == (0,)
    assert F.sort(empty)[0].shape == (0, 3)
    assert F.cumsum(empty, 0).shape == (0, 3)
    for fn in (F.max, F.min, F.argmax, F.argmin):
        with pytest.raises(ValueError, match="at least one element"):
            fn(empty, 0)
        with pytest.raises(ValueError, match="at least one element"):
            fn(empty)


# ---- gradients -----------------------------------------------------------------------------------


def test_ties_share_the_gradient() -> None:
    assert gradient(F.max, [3, 3, 1]).tolist() == [0.5, 0.5, 0]
    assert gradient(F.min, [1, 3, 1, 1, 1], 2).tolist() == [0.5, 0, 0.5, 0.5, 0.5]
    # 4096 ties would not count exactly in float16, nor 70000 at all.
    assert gradient(F.max, np.ones(4096), dtype="float16").sum(dtype=np.float64) == 1
    np.testing.assert_allclose(
        gradient(F.max, np.ones(1 << 17), 1, dtype="float16").sum(dtype=np.float64), 1
    )


@pytest.mark.parametrize(
    ("x", "want"),
    [([5, 0, 2], [0, 10, 0]), ([0, 4, 0], [0, 0, 0]), ([2, 5, 3], [15, 6, 10]), ([7], [1])],
)
def test_gradient_of_products_with_zeros(x: list[float], want: list[float]) -> None:
    assert gradient(F.prod, x).tolist() == want


def test_second_order_of_products_with_zeros() -> None:
    x = mge.tensor([0.0, 5.0, 0.0, 2.0, 3.0])
    outer = GradManager().attach([x])
    with outer:
        inner = GradManager().attach([x])
        with inner:
            inner.backward(F.prod(x))
        first = x.grad
        x.grad = None
        outer.backward(first[0])
    # d prod / dx0 = x1 x2 x3 x4: of its derivatives only that by x2 is not 0.
    assert x.grad.numpy().tolist() == [0, 0, 30, 0, 0]


def test_std_and_norm_have_no_slope_at_zero() -> None:
    assert gradient(F.std, [0.1, 0.1, 0.1]).tolist() == [0, 0, 0]
    assert gradient(F.norm, [0, 0, 0]).tolist() == [0, 0, 0]
    x = [[3.0, 4.0], [0.0, 0.0]]
    np.testing.assert_allclose(
        gradient(lambda t: F.norm(t, axis=1), x, [1, 1]), [[0.6, 0.8], [0, 0]], rtol=1e-6
    )
    for order in (1, 3, INF, -INF):
        assert np.isfinite(gradient(lambda t, p=order: F.norm(t, p), [0, 0])).all()
    assert np.isfinite(gradient(lambda t: F.normalize(t, axis=0), [0.0, 0.0], [1, 1])).all()


def test_norm_at_the_extremes() -> None:
    for scale in (1e30, 1e-30):
        x = mge.tensor([3 * scale, 4 * scale])
        np.testing.assert_allclose(F.norm(x).numpy(), 5 * scale, rtol=1e-6)
        np.testing.assert_allclose(F.norm(x, 3).numpy(), 91 ** (1 / 3) * scale, rtol=1e-5)
    x = mge.tensor([[1.0, -7.0, 0.0], [2.0, 3.0, 4.0]])
    assert F.norm(x, INF, 1).numpy().tolist() == [7, 4]
    assert F.norm(x, -INF, 1).numpy().tolist() == [0, 2]
    assert F.norm(x, 0, 1).numpy().tolist() == [2, 3]
    assert F.norm(mge.tensor([3, 4])).numpy() == 5
    assert F.norm(x, 1, (0, 1), keepdims=True).numpy().tolist() == [[17]]


def test_topk_gives_its_gradient_to_what_it_took() -> None:
    x = [[1, 5, 3, 4], [8, 6, 9, 7]]
    dy = [[10, 20], [30, 40]]
    assert gradient(lambda t: F.topk(t, 2)[0], x, dy).tolist() == [[0, 10, 0, 20], [40, 0, 30, 0]]
    assert gradient(lambda t: F.topk(t, 2, kth_only=True)[0], x, [1, 2]).tolist() == [
        [0, 0, 0, 1],
        [2, 0, 0, 0],
    ]


# ---- arguments -----------------------------------------------------------------------------------


def test_axes() -> None:
    x = mge.tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert F.sum(x, (0, 2)).shape == (3,)
    assert F.sum(x, [0, -1], keepdims=True).shape == (1, 3, 1)
    assert F.sum(x, ()).shape == (2, 3, 4)
    assert F.sum(x, np.int64(1)).shape == (2, 4)
    assert F.sum(x, keepdims=True).shape == (1, 1, 1)
    assert F.argmax(x, (0, 2)).numpy().tolist() == [7, 7, 7]
    assert F.argmax(x, [1, 2], keepdims=True).shape == (2, 1, 1)
    assert F.sum(mge.tensor(3.0), 0).numpy() == 3
    assert x.sum(0, True).shape == (1, 3, 4)


@pytest.mark.parametrize("fn", [F.sum, F.mean, F.max, F.argmin, F.var, F.std, F.norm])
def test_bad_axes_raise(fn: Any) -> None:
    x = F.ones((2, 3))
    for axis in (2, -3, (0, 5), (0, 0), (0, -2)):
        with pytest.raises(ValueError, match="axis"):
            fn(x, axis=axis)
    for axis in (1.0, "0", [0.5]):
        with pytest.raises(TypeError):
            fn(x, axis=axis)


def test_bad_arguments_raise() -> None:
    x = F.ones((2, 3))
    with pytest.raises(TypeError, match="axis is required"):
        F.norm(x)
    with pytest.raises(TypeError, match="ord"):
        F.norm(x, "fro", 0)
    with pytest.raises(ValueError, match="k between 1 and 3"):
        F.topk(x, 0)
    with pytest.raises(ValueError, match="scalar"):
        F.sort(mge.tensor(1.0))
    with pytest.raises(ValueError, match="axis"):
        F.cumsum(x, 2)
    with pytest.raises(TypeError, match="bool"):
        F.cumsum(mge.tensor([True]), 0)
    with pytest.raises(TypeError):
        F.topk(x, 1.5)
    for fn in (F.sum, F.var, F.norm, F.sort, F.argmax):
        for wrong in ([1.0, 2.0], 3.0, None):
            with pytest.raises(TypeError):
                fn(wrong)


def test_topk_arguments() -> None:
    x = mge.tensor([[4.0, 9.0, 1.0]])
    assert F.topk(x, mge.tensor(2))[1].numpy().tolist() == [[1, 0]]
    assert F.topk(x, 10)[0].numpy().tolist() == [[9, 4, 1]]
    values, positions = F.topk(x, 2, descending=False, kth_only=True)
    assert (values.numpy().tolist(), positions.numpy().tolist()) == ([4], [0])


def test_cumsum_keeps_its_dtype_and_digits() -> None:
    assert F.cumsum(mge.tensor([[100, 100]], dtype="int8"), 1).numpy().tolist() == [[100, -56]]
    x = F.full((1000000,), 0.1)
    got = F.cumsum(x, 0).numpy()
    np.testing.assert_allclose(got, np.arange(1, 1000001) * float(np.float32(0.1)), rtol=1e-7)
