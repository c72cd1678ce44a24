"""Distributions."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
from megengine.distributions import Distribution, Exponential


def test_what_a_distribution_does_not_define_says_so() -> None:
    d = Distribution((2, 3), (4,))
    assert (d.batch_shape, d.event_shape) == ((2, 3), (4,))
    for name in ("mean", "variance", "stddev"):
        with pytest.raises(NotImplementedError, match="Distribution does not define"):
            getattr(d, name)
    x = mge.tensor(0.5)
    for name, args in (
        ("expand", ((2, 3),)),
        ("sample", ()),
        ("log_prob", (x,)),
        ("cdf", (x,)),
        ("icdf", (x,)),
    ):
        with pytest.raises(NotImplementedError, match=f"does not define {name}"):
            getattr(d, name)(*args)


def test_exponential_moments_and_samples() -> None:
    mge.random.seed(0)
    d = Exponential(mge.tensor([0.5, 2.0]))
    np.testing.assert_allclose(d.mean.numpy(), [2, 0.5])
    np.testing.assert_allclose(d.stddev.numpy(), [2, 0.5])
    np.testing.assert_allclose(d.variance.numpy(), [4, 0.25])
    drawn = d.sample((20000,))
    assert drawn.shape == (20000, 2)
    np.testing.assert_allclose(drawn.numpy().mean(0), [2, 0.5], rtol=0.05)
    assert d.sample().shape == (2,)
    assert Exponential(3.0).sample((4, 5)).shape == (4, 5)


def test_exponential_density_and_distribution() -> None:
    rate, x = np.array([0.5, 2.0, 1.0, 1.0]), np.array([1.0, 3.0, 0.0, -1.0])
    d = Exponential(mge.tensor(rate))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            d.log_prob(mge.tensor(x)).numpy(),
            np.where(x < 0, -np.inf, np.log(rate) - rate * x),
            rtol=1e-6,
        )
    want = np.where(x < 0, 0, 1 - np.exp(-rate * x))
    np.testing.assert_allclose(d.cdf(mge.tensor(x)).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(d.icdf(mge.tensor(want)).numpy(), np.maximum(x, 0), rtol=1e-5)
    p = Exponential(1.0).icdf(mge.tensor([0.0, 1.0, -0.5, 1.5])).numpy()
    np.testing.assert_array_equal(p, [0, np.inf, np.nan, np.nan])


def test_exponential_expands() -> None:
    d = Exponential(mge.tensor([[1.0], [2.0]])).expand((2, 3))
    assert isinstance(d, Exponential)
    assert d.batch_shape == d.sample().shape == d.mean.shape == (2, 3)


def test_exponential_has_a_gradient_and_checks_its_rate() -> None:
    rate = mge.tensor([2.0])
    with mge.autodiff.GradManager().attach([rate]) as gm:
        gm.backward(Exponential(rate).log_prob(mge.tensor([3.0])))
    np.testing.assert_allclose(rate.grad.numpy(), [0.5 - 3])
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="rate above 0"):
            Exponential(bad)
