"""Fake quantisation: gradients that pass through the rounding, edges, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine import functional as F
from megengine._core import apply
from megengine.autodiff import GradManager
from megengine.core.ops import builtin

T = mge.tensor


def gradients(op: Any, *inputs: Any) -> list[Any]:
    """The gradients of the inputs, for an upstream gradient of 1, 2, 3, ..."""
    xs = [x if isinstance(x, mge.Tensor) else T(x, dtype="float32") for x in inputs]
    gm = GradManager().attach(xs)
    with gm:
        y = apply(op, *xs)[0]
        gm.backward(y, F.arange(1, y.size + 1).reshape(y.shape).astype(y.dtype))
    return [None if x.grad is None else x.grad.numpy() for x in xs]


X = np.linspace(-3.1, 2.9, 14).astype("float32")
STEPS = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -8.5, -8.4, -8.6, 7.4, 7.5, 7.6]


# The gradients are what MegEngine 1.13 gives.
def test_fake_quant_passes_what_is_inside():
    op = builtin.FakeQuant(qmin=-8, qmax=7)
    dx, ds, dz = gradients(op, STEPS, 1.0, 0.0)
    np.testing.assert_array_equal(dx, [1, 2, 3, 4, 5, 6, 0, 8, 0, 10, 0, 0])
    assert ds is None
    assert dz is None


def test_tqt_gradients():
    dx, ds = gradients(builtin.TQT(qmin=-8, qmax=7), STEPS, 0.0)
    np.testing.assert_array_equal(dx, [1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 0])
    np.testing.assert_allclose(ds, 3.2577896118164062, rtol=1e-5)
    _, ds = gradients(builtin.TQT(qmin=-8, qmax=7), X, -2.3)
    np.testing.assert_allclose(ds, 31.118492126464844, rtol=1e-5)
    _, ds = gradients(builtin.TQT(qmin=-8, qmax=7), X.reshape(2, 7), [[-2.3], [0.0]])
    np.testing.assert_allclose(ds, [[-6.829813480377197], [2.351367473602295]], rtol=1e-5)


def test_lsq_gradients():
    op = builtin.LSQ(qmin=-8, qmax=7)
    dx, ds, dz, dg = gradients(op, STEPS, 1.0, 0.0, 1.0)
    np.testing.assert_array_equal(dx, [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0])
    assert ds == 34.5
    assert dz is None
    assert dg is None
    _, ds, _, _ = gradients(op, X, 0.3, 0.0, 0.5)
    np.testing.assert_allclose(ds, 85.03846740722656, rtol=1e-5)
    # Beyond the range the slope of (qmax - zero_point) * scale counts.
    _, ds, _, _ = gradients(op, [100.0, -100.0], 1.0, 2.0, 1.0)
    assert ds == 1 * (7 - 2) + 2 * (-8 - 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_gradients_in_other_dtypes(dtype):
    inputs = [T(v, dtype=dtype) for v in (X, 0.25, 0.0, 0.5)]
    dx, ds, *_ = gradients(builtin.LSQ(qmin=-8, qmax=7), *inputs)
    assert str(inputs[0].grad.dtype) == str(inputs[1].grad.dtype) == dtype
    assert dx.shape == X.shape
    assert np.isfinite(np.asarray(ds, np.float64))


def test_second_order():
    # d2(sum y^2) through what passes: y is locally x, so the gradient of y^2 is 2 y, of that 2.
    x = T(X)
    outer, inner = GradManager().attach([x]), GradManager().attach([x])
    with outer:
        with inner:
            (y,) = apply(builtin.FakeQuant(qmin=-8, qmax=7), x, T(0.25), T(0.0))
            inner.backward((y * y).sum())
        first, x.grad = x.grad, None
        outer.backward(first.sum())
    inside = (np.round(X / 0.25) >= -8) & (np.round(X / 0.25) <= 7)
    np.testing.assert_array_equal(x.grad.numpy(), np.where(inside, 2.0, 0.0))


def test_edges():
    x = T([np.nan, np.inf, -np.inf, 0.0])
    (y,) = apply(builtin.FakeQuant(qmin=-8, qmax=7), x, T(0.5), T(0.0))
    np.testing.assert_array_equal(y.numpy(), [np.nan, 3.5, -4.0, 0.0])
    (y,) = apply(builtin.TQT(qmin=-8, qmax=7), x, T(-1.0))
    np.testing.assert_array_equal(y.numpy(), [np.nan, 3.5, -4.0, 0.0])
    # A negative scale mirrors, an empty range gives its upper end.
    (y,) = apply(builtin.FakeQuant(qmin=-8, qmax=7), T([10.0, -10.0]), T(-1.0), T(0.0))
    np.testing.assert_array_equal(y.numpy(), [8.0, -7.0])
    (y,) = apply(builtin.FakeQuant(qmin=8, qmax=-7), T([10.0, -10.0]), T(1.0), T(0.0))
    np.testing.assert_array_equal(y.numpy(), [-7.0, -7.0])


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (builtin.FakeQuant(), [X, 1.0]),
        (builtin.FakeQuant(), [X, [1.0, 2.0], 0.0]),
        (builtin.FakeQuant(), [1.0, [1.0, 2.0], 0.0]),
        (builtin.TQT(), [X]),
        (builtin.TQT(), [X, np.ones(13)]),
        (builtin.LSQ(), [X, 1.0, 0.0]),
    ],
)
def test_bad_inputs(op, inputs):
    with pytest.raises((TypeError, ValueError), match=type(op).__name__):
        apply(op, *[T(np.asarray(v, np.float32)) for v in inputs])


def test_integers_are_no_operands():
    with pytest.raises(TypeError, match="FakeQuant: expected inputs of a float dtype"):
        apply(builtin.FakeQuant(), T([1, 2]), T(1), T(0))


def test_check_non_finite():
    op = builtin.CheckNonFinite(scale=0.5)
    y, z, flag = apply(op, T([1.0, 2.0]), T([3.0]))
    assert y.tolist() == [0.5, 1.0]
    assert z.tolist() == [1.5]
    assert flag.item() == 0
    assert flag.shape == ()
    assert flag.dtype == np.int32
    for bad in (np.inf, -np.inf, np.nan):
        assert apply(op, T([1.0]), T([3.0, bad]))[-1].item() == 1
    for dtype, big in {"float16": 6e4, "bfloat16": 3e38, "float32": 3e38, "float64": 1e308}.items():
        y, flag = apply(builtin.CheckNonFinite(scale=4.0), T([1.0, big], dtype=dtype))
        assert flag.item() == 1
        assert str(y.dtype) == dtype
        many = T(np.ones(100001), dtype=dtype)
        assert apply(op, many)[1].item() == 0
    with pytest.raises(TypeError, match="CheckNonFinite"):
        apply(op, T([1, 2]))
    with pytest.raises(TypeError, match="CheckNonFinite"):
        apply(op)
