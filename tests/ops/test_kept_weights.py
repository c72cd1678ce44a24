"""Fully connected layers of inference programs, whose weights are kept in panels: every edge of a
panel, a tile and a block, and what follows the product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine import device
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.avx2 import outer_run, run_under_avx2
from tests.ops.cases.post_ops import ACTIVATIONS

Array = np.ndarray[Any, Any]

SIZES = [
    (12, 200, 160),  # the fewest rows
    (13, 384, 96),  # one block of the depth
    (25, 385, 97),  # two, and a panel of one column
    (49, 1024, 112),  # rows that are copied, a panel of half the width
    (197, 70, 90),  # rows on several threads
    (231, 800, 33),  # blocks of rows and of the depth
]


def linear(x: Any, w: Any, *bias: Any, activation: str | None = None) -> Any:
    return apply(builtin.FusedLinear(bias=bool(bias), activation=activation), x, w, *bias)[0]


def tensors(*arrays: Array) -> list[Any]:
    return [mge.tensor(a.astype("float32")) for a in arrays]


@pytest.mark.parametrize(("rows", "depth", "cols"), SIZES)
@pytest.mark.parametrize("activation", [None, "RELU", "GELU", "SILU"])
@pytest.mark.parametrize("residual", ["NONE", "BEFORE_ACTIVATION", "AFTER_ACTIVATION"])
def test_sizes(rows: int, depth: int, cols: int, activation: str | None, residual: str) -> None:
    rng = np.random.default_rng(rows)
    x, w, b, z = (
        rng.standard_normal(s).astype("float32").astype("float64")
        for s in ((rows, depth), (cols, depth), (cols,), (rows, cols))
    )
    x /= math.sqrt(depth)
    x = x.astype("float32").astype("float64")
    want = x @ w.T + b
    want += z if residual == "BEFORE_ACTIVATION" else 0
    if activation:
        want = ACTIVATIONS[activation](want)
    want += z if residual == "AFTER_ACTIVATION" else 0
    inputs = tensors(x, w, b) + (tensors(z) if residual != "NONE" else [])
    op = builtin.FusedLinear(bias=True, activation=activation, residual=residual)
    got = apply(op, *inputs)[0]
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-5)
    plain = linear(*tensors(x, w))
    np.testing.assert_allclose(plain.numpy(), x @ w.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", [None, "GELU"])
def test_threads_change_no_bit(activation: str | None) -> None:
    rng = np.random.default_rng(3)
    x, w, b = tensors(
        rng.standard_normal((230, 500)), rng.standard_normal((300, 500)), rng.standard_normal(300)
    )
    before = device.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 4, 6):
            device.set_num_threads(threads)
            results.append(linear(x, w, b, activation=activation).numpy())
    finally:
        device.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_rows_and_weights_of_any_strides() -> None:
    rng = np.random.default_rng(4)
    x, w = tensors(rng.standard_normal((120, 3, 256)), rng.standard_normal((256, 96)))
    want = x.numpy()[::-1, 1].astype("float64") @ w.numpy().astype("float64")
    np.testing.assert_allclose(linear(x[::-1, 1], w.T).numpy(), want, rtol=0, atol=1e-4)
    turned = mge.tensor(np.ascontiguousarray(x.numpy()[:, 1].T)).T
    want = turned.numpy().astype("float64") @ w.numpy().astype("float64")
    np.testing.assert_allclose(linear(turned, w.T).numpy(), want, rtol=0, atol=1e-4)


def test_weights_that_change_are_packed_anew() -> None:
    x, w = tensors(np.ones((40, 128)), np.ones((128, 128)))
    assert (linear(x, w).numpy() == 128).all()
    w[...] = 2
    assert (linear(x, w).numpy() == 256).all()
    w[3] = 0
    got = linear(x, w).numpy()
    assert (got[:, 3] == 0).all()
    assert (np.delete(got, 3, axis=1) == 256).all()


def test_gelu_of_sums() -> None:
    """As exact as the sum that it is of; the tail is 0, and what is not finite goes through."""
    x = np.concatenate(
        [np.linspace(-12, 12, 481), [0.0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan]]
    )
    x = x.astype("float32").astype("float64")
    # A depth of 1: each sum is one product.
    got = linear(*tensors(x[:, None], np.ones((700, 1))), activation="GELU").numpy()
    assert (got == got[:, :1]).all(1)[:-1].all()
    finite = np.abs(x) < 1e20
    error = np.abs(got[finite, 0] - ACTIVATIONS["GELU"](x[finite]))
    assert (error <= 1.5e-7 * np.abs(x[finite])).all()
    np.testing.assert_array_equal(got[x < -5.5, 0], 0)
    np.testing.assert_array_equal(got[~finite, 0], np.float32([1e30, 0, np.inf, 0, np.nan]))


def test_nan_stays_in_its_row_and_column() -> None:
    x, w = np.ones((50, 100)), np.ones((70, 100))
    x[7, 5], w[9, 3] = np.nan, np.inf
    got = linear(*tensors(x, w)).numpy()
    bad = np.zeros((50, 70), bool)
    bad[7] = bad[:, 9] = True
    np.testing.assert_array_equal(np.isfinite(got), ~bad)


@outer_run
def test_this_file_under_avx2() -> None:
    run_under_avx2(__file__)
