"""Random numbers: their distributions, their state, what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine._core import call
from megengine.autodiff import GradManager
from megengine.core.ops import builtin

N = 200000


@pytest.fixture(autouse=True)
def _seeded() -> None:
    mge.random.seed(20240229)


def check_distribution(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> None:
    """Kolmogorov and Smirnov's test, at a level of about 1e-6."""
    x = np.sort(sample.reshape(-1).astype(np.float64))
    p = cdf(x)
    n = x.size
    distance = max(np.max(np.arange(1, n + 1) / n - p), np.max(p - np.arange(n) / n))
    assert distance < 2.7 / math.sqrt(n)


def check_moments(sample: np.ndarray, mean: float, variance: float) -> None:
    x = sample.astype(np.float64)
    assert abs(x.mean() - mean) < 6 * math.sqrt(variance / x.size)
    assert abs(x.var() / variance - 1) < 0.05


def check_independent(sample: np.ndarray) -> None:
    """No correlation between numbers at small distances, nor between those of one counter."""
    x = sample.reshape(-1).astype(np.float64)
    x = (x - x.mean()) / x.std()
    for lag in (1, 2, 4, 16, 32, 64):
        assert abs(np.mean(x[lag:] * x[:-lag])) < 6 / math.sqrt(x.size)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


# ---- distributions -------------------------------------------------------------------------------


def test_philox_gives_the_published_numbers() -> None:
    # The known answers of the generator's authors, for a counter and key of all zeros.
    mge.random.seed(0)
    u = mge.random.uniform(size=(64,)).numpy()
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    np.testing.assert_array_equal(u[::16], [(w >> 8) / 2**24 for w in words])


def test_uniform() -> None:
    x = mge.random.uniform(size=(N,)).numpy()
    assert x.dtype == np.float32
    check_distribution(x, lambda v: v)
    check_independent(x)
    assert x.min() >= 0
    assert x.max() < 1
    x = mge.random.uniform(-3, 5, size=(N,)).numpy()
    check_distribution(x, lambda v: (v + 3) / 8)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_uniform_stays_below_its_end(dtype: str) -> None:
    for low, high in ((0.0, 1.0), (-1.0, 0.0), (100.0, 101.0), (0.0, 3.0)):
        op = builtin.UniformRNG(shape=(N,), dtype=dtype, low=low, high=high)
        x = call(op).astype("float64").numpy()
        assert x.min() >= low
        assert x.max() < high
        assert abs(x.mean() - (low + high) / 2) < 0.02 * (1 if dtype != "bfloat16" else 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype: str) -> None:
    x = call(builtin.GaussianRNG(shape=(N,), dtype=dtype)).numpy()
    check_distribution(x, normal_cdf)
    check_moments(x, 0, 1)
    check_independent(x)
    check_moments(mge.random.normal(5, 0.5, size=(N,)).numpy(), 5, 0.25)


def test_normal_tails() -> None:
    x = mge.random.normal(size=(1 << 24,)).numpy()
    assert np.isfinite(x).all()
    for sigma, share in ((3, 2.6998e-3), (4, 6.3342e-5), (5, 5.7330e-7)):
        expected = share * x.size
        got = np.count_nonzero(np.abs(x) > sigma)
        assert abs(got - expected) < 6 * math.sqrt(expected)
    assert abs(np.mean(x.astype(np.float64) ** 4) - 3) < 0.02


def test_gamma() -> None:
    check_distribution(mge.random.gamma(1.0, 2.0, size=(N,)).numpy(), lambda v: 1 - np.exp(-v / 2))
    erlang = mge.random.gamma(3.0, 1.0, size=(N,)).numpy()
    check_distribution(erlang, lambda v: 1 - np.exp(-v) * (1 + v + v * v / 2))
    for shape in (0.1, 0.5, 7.0, 100.0):
        x = mge.random.gamma(shape, 1.0, size=(4 * N,)).numpy()
        check_moments(x, shape, shape)


def test_beta() -> None:
    check_distribution(mge.random.beta(1.0, 3.0, size=(N,)).numpy(), lambda v: 1 - (1 - v) ** 3)
    check_distribution(mge.random.beta(0.4, 1.0, size=(N,)).numpy(), lambda v: v**0.4)
    x = mge.random.beta(2.0, 5.0, size=(N,)).numpy()
    check_moments(x, 2 / 7, 10 / (49 * 8))
    tiny = mge.random.beta(1e-3, 1e-3, size=(10000,)).numpy()
    assert np.isfinite(tiny).all()
    assert abs(tiny.mean() - 0.5) < 0.05


@pytest.mark.parametrize("rate", [0.3, 4.0, 11.0, 250.0])
def test_poisson(rate: float) -> None:
    x = mge.random.poisson(rate, size=(N,)).numpy()
    check_moments(x, rate, rate)
    k = np.arange(int(rate + 12 * math.sqrt(rate)) + 12)
    pmf = np.exp(k * math.log(rate) - rate - np.array([math.lgamma(i + 1) for i in k]))
    counts = np.bincount(x.astype(int), minlength=k.size)[: k.size]
    enough = pmf * N > 20
    chi2 = np.sum((counts - pmf * N)[enough] ** 2 / (pmf * N)[enough])
    assert abs(chi2 - enough.sum()) < 6 * math.sqrt(2 * enough.sum()) + 6


def test_exponential() -> None:
    check_distribution(mge.random.exponential(4.0, size=(N,)).numpy(), lambda v: 1 - np.exp(-4 * v))


def test_permutations_are_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        p = tuple(mge.random.permutation(3).numpy().tolist())
        counts[p] = counts.get(p, 0) + 1
    assert len(counts) == 6
    assert max(abs(c - 1000) for c in counts.values()) < 180
    p = mge.random.permutation(100000).numpy()
    np.testing.assert_array_equal(np.sort(p), np.arange(100000))
    assert abs(np.corrcoef(p, np.arange(100000))[0, 1]) < 0.02


# ---- shapes, dtypes, state -----------------------------------------------------------------------


def test_sizes() -> None:
    assert mge.random.uniform().shape == (1,)
    assert mge.random.uniform(size=mge.tensor([2, 3])).shape == (2, 3)
    assert mge.random.normal(size=[2, 3]).shape == (2, 3)
    assert mge.random.normal(size=(0, 3)).shape == (0, 3)
    shape, scale = mge.tensor([[1.0, 2.0], [3.0, 4.0]]), mge.tensor([1.0, 2.0])
    assert mge.random.gamma(shape, scale).shape == (2, 2)
    assert mge.random.gamma(scale, 2, size=(5,)).shape == (5, 2)
    assert mge.random.gamma(2, 3).shape == (1,)
    assert mge.random.beta(scale, scale, size=(4, 3)).shape == (4, 3, 2)
    assert mge.random.poisson(scale, size=3).shape == (3, 2)
    assert mge.random.permutation(5).dtype == np.int32
    assert mge.random.permutation(5, dtype="float32").dtype == np.float32
    assert mge.random.permutation(0).shape == (0,)


def draws() -> list[Any]:
    x = mge.tensor(np.arange(1000, dtype=np.float32))
    a = mge.tensor(np.full(3000, 2.5, np.float32))
    y = mge.tensor(np.arange(3000))
    mge.random.shuffle(y)
    return [
        t.numpy().tobytes()
        for t in (
            mge.random.uniform(size=(40001,)),
            mge.random.normal(size=(300, 301)),
            mge.random.gamma(a, a),
            mge.random.beta(a, a),
            mge.random.poisson(a),
            mge.random.permutation(1000),
            F.dropout(x, 0.3),
            y,
        )
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_seed_decides_whatever_the_threads(threads: int) -> None:
    mge.random.seed(7)
    first = draws()
    assert draws() != first
    before = device.get_num_threads()
    try:
        device.set_num_threads(threads)
        mge.random.seed(7)
        assert draws() == first
    finally:
        device.set_num_threads(before)
    mge.random.seed(8)
    assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_state_can_be_kept_and_restored() -> None:
    mge.random.normal(size=(10,))
    state = mge.random.get_rng_state()
    first = draws()
    mge.random.set_rng_state(state)
    assert draws() == first


def test_generators_are_independent() -> None:
    a, b, c = mge.random.RNG(3), mge.random.RNG(3), mge.random.RNG(4)
    x = a.uniform(size=(100,)).numpy()
    mge.random.seed(1)
    np.testing.assert_array_equal(b.uniform(size=(100,)).numpy(), x)
    assert not np.array_equal(c.uniform(size=(100,)).numpy(), x)
    d, e = mge.random.RNG(), mge.random.RNG()
    assert not np.array_equal(d.uniform(size=(100,)).numpy(), e.uniform(size=(100,)).numpy())
    for rng in (a, d):
        assert rng.normal(1, 2, size=(2,)).shape == (2,)
        assert rng.gamma(1, 1, size=(2,)).shape == (2,)
        assert rng.beta(1, 1, size=(2,)).shape == (2,)
        assert rng.poisson(1, size=(2,)).shape == (2,)
        assert sorted(rng.permutation(3).numpy().tolist()) == [0, 1, 2]
        t = mge.tensor([1, 2, 3])
        rng.shuffle(t)
        assert sorted(t.numpy().tolist()) == [1, 2, 3]


def test_shuffle_and_permuted_rows() -> None:
    x = mge.tensor(np.arange(300).reshape(100, 3))
    mge.random.shuffle(x)
    rows = x.numpy()
    assert not np.array_equal(rows, np.arange(300).reshape(100, 3))
    np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], np.arange(300).reshape(100, 3))
    y = mge.random.permutation(F.transpose(x, (1, 0))).numpy()
    np.testing.assert_array_equal(np.sort(y, 0), np.sort(rows.T, 0))


def test_shuffle_gradient() -> None:
    from megengine._core import apply

    x = mge.tensor(np.arange(20, dtype=np.float32).reshape(10, 2))
    manager = GradManager().attach([x])
    with manager:
        y, order = apply(builtin.ShuffleRNG(), x)
        dy = mge.tensor(np.random.default_rng(0).standard_normal((10, 2)).astype(np.float32))
        manager.backward(y, dy)
    want = np.empty((10, 2), np.float32)
    want[order.numpy()] = dy.numpy()
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_bad_arguments_raise() -> None:
    for bad in (
        lambda: mge.random.seed(-1),
        lambda: mge.random.uniform(2, 1, size=(2,)),
        lambda: mge.random.uniform(1, 1, size=(2,)),
        lambda: mge.random.uniform(0, float("inf"), size=(2,)),
        lambda: mge.random.uniform(size=(-1, 2)),
        lambda: mge.random.permutation(-1),
        lambda: mge.random.permutation(300, dtype="int8"),
        lambda: mge.random.gamma(-1, 1, size=(2,)),
        lambda: mge.random.gamma(mge.tensor([1.0, 0.0]), 1),
        lambda: mge.random.beta(1, float("nan"), size=(2,)),
        lambda: mge.random.poisson(mge.tensor([1.0, float("nan")])),
        lambda: mge.random.shuffle(mge.tensor(1.0)),
        lambda: F.dropout(F.ones((4,)), 1.0),
        lambda: F.dropout(F.ones((4,)), -0.1),
        lambda: F.dropout(F.ones((4,)), float("nan")),
    ):
        with pytest.raises(ValueError, match=r"expected|fit|size|scalar"):
            bad()
    for huge in ((2**62,), (2**40, 2**40)):
        with pytest.raises((ValueError, MemoryError)):
            mge.random.normal(size=huge)
    for wrong in (
        lambda: mge.random.seed(1.5),  # type: ignore[arg-type]
        lambda: mge.random.permutation(2.5),  # type: ignore[arg-type]
        lambda: mge.random.shuffle([1, 2]),  # type: ignore[arg-type]
        lambda: F.dropout(mge.tensor([1, 2]), 0.5),
    ):
        with pytest.raises(TypeError):
            wrong()


# ---- dropout -------------------------------------------------------------------------------------


def test_dropout() -> None:
    x = F.ones((1000,))
    mge.random.seed(10)
    a, b = F.dropout(x, 0.5), F.dropout(x, 0.5, training=True)
    mge.random.seed(10)
    c = F.dropout(x, 0.5)
    assert set(a.numpy().tolist()) == {0.0, 2.0}
    assert 420 <= np.count_nonzero(a.numpy()) <= 580
    assert not np.array_equal(a.numpy(), b.numpy())
    np.testing.assert_array_equal(a.numpy(), c.numpy())
    assert (x.numpy() == 1).all()
    np.testing.assert_array_equal(F.dropout(x, 0.5, training=False).numpy(), x.numpy())
    np.testing.assert_array_equal(F.dropout(x, 0.0).numpy(), x.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("p", [0.1, 0.25, 0.9])
def test_dropout_rate_and_scale(p: float, dtype: str) -> None:
    x = F.ones((N,)).astype(dtype)
    y = F.dropout(x, p)
    assert y.dtype == x.dtype
    values = y.astype("float64").numpy()
    kept = np.count_nonzero(values)
    assert abs(kept - (1 - p) * N) < 6 * math.sqrt(N * p * (1 - p))
    np.testing.assert_allclose(values[values != 0], 1 / (1 - p), rtol=1e-2)
    check_independent(values)


def test_dropout_gradient_is_the_mask() -> None:
    x = mge.tensor(np.random.default_rng(1).standard_normal((4, 8, 6, 6)).astype(np.float32))
    dy = np.random.default_rng(2).standard_normal((4, 8, 6, 6)).astype(np.float32)
    for view in (lambda t: t, lambda t: F.transpose(t, (0, 3, 1, 2)), lambda t: t[:, ::-1, ::2]):
        manager = GradManager().attach([x])
        x.grad = None
        with manager:
            v = view(x)
            y = F.dropout(v, 0.4)
            upstream = mge.tensor(dy.reshape(-1)[: y.size].reshape(y.shape))
            manager.backward(y, upstream)
        kept = y.numpy() != 0
        np.testing.assert_allclose(y.numpy(), np.where(kept, v.numpy() / 0.6, 0), rtol=1e-6)
        want = mge.tensor(np.where(kept, upstream.numpy() / 0.6, 0).astype(np.float32))
        check = GradManager().attach([x])
        got = x.grad.numpy()
        x.grad = None
        with check:
            check.backward(view(x) * 1, want)
        np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-6)


def test_dropout_drops_nan_and_infinity() -> None:
    y = F.dropout(F.full((1000,), float("nan")), 0.5).numpy()
    assert 420 <= np.count_nonzero(y == 0) <= 580


def test_poisson_of_rate_zero_is_zero() -> None:
    same = mge.random.poisson(mge.tensor([0.0, 5.0, 0.0])).numpy()
    assert same[0] == same[2] == 0
    with pytest.raises(ValueError, match="PoissonRNG"):
        mge.random.poisson(mge.tensor([-1.0]))
