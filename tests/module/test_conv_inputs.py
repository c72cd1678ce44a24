"""Inputs of convolutions in another memory format than the kernels want."""

from __future__ import annotations

import threading

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from megengine.tensor import Tensor

RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(2, 16, 9, 10)).astype("float32")
WEIGHT = RNG.normal(size=(8, 16, 3, 3)).astype("float32")


def gradient(x: Tensor, times: int = 1) -> np.ndarray:
    """Of the weight, where `x` is the input of so many convolutions."""
    weight = mge.Parameter(WEIGHT)
    gm = GradManager().attach([weight])
    with gm:
        total = sum((F.conv2d(x, weight * (i + 1)) ** 2).sum() for i in range(times))
        gm.backward(total)
    return weight.grad.numpy()


def test_the_gradient_does_not_depend_on_the_format() -> None:
    last = mge.tensor(PLAIN.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for times in (1, 3):
        want = gradient(last, times)
        x = mge.tensor(PLAIN)
        for _ in range(3):  # one value, in step after step
            np.testing.assert_allclose(gradient(x, times), want, rtol=1e-5, atol=1e-3)


def test_an_input_that_is_written_to_after_the_forward_pass() -> None:
    """What was kept for the gradient belongs to the old contents; the new ones have their own."""
    x = mge.tensor(PLAIN)
    with GradManager().attach([mge.Parameter(WEIGHT)]):
        F.conv2d(x, mge.tensor(WEIGHT))
    x[:] = 2 * x
    want = gradient(mge.tensor(2 * PLAIN))
    np.testing.assert_allclose(gradient(x), want, rtol=1e-5, atol=1e-3)
    y = mge.tensor(PLAIN)
    with GradManager().attach([mge.Parameter(WEIGHT)]):
        F.conv2d(y, mge.tensor(WEIGHT))
    y *= 2
    np.testing.assert_allclose(gradient(y), want, rtol=1e-5, atol=1e-3)


def test_threads_share_an_input() -> None:
    x = mge.tensor(PLAIN)
    want = gradient(mge.tensor(PLAIN))
    got: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: got.append(gradient(x))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 4
    for g in got:
        np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-3)
