"""SyncBatchNorm in one process is batch norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.autodiff import GradManager

T = mge.tensor


def arrays(seed: int = 0, shape: tuple[int, ...] = (4, 3, 5, 2)) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_equals_batch_norm():
    results = []
    for layer in (M.SyncBatchNorm(3), M.BatchNorm2d(3)):
        layer.weight.set_value(np.array([1, 2, 3], "float32").reshape(1, 3, 1, 1))
        x = T(arrays())
        gm = GradManager().attach([x, *layer.parameters()])
        with gm:
            y = layer(x)
            gm.backward(y, T(arrays(1)))
        layer.eval()
        values = [y, x.grad, layer.weight.grad, layer.bias.grad, layer(x)]
        results.append([v.numpy() for v in values] + list(layer.state_dict().values()))
    for ours, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5)])
def test_other_ranks(shape):
    x = T(arrays(shape=shape))
    np.testing.assert_array_equal(M.SyncBatchNorm(3)(x).numpy(), M.BatchNorm1d(3)(x).numpy())


def test_options():
    layer = M.SyncBatchNorm(3, affine=False, track_running_stats=False, group=None)
    assert layer.weight is None
    assert layer.running_mean is None
    assert layer(T(arrays())).shape == (4, 3, 5, 2)
    assert repr(M.SyncBatchNorm(3)) == (
        "SyncBatchNorm(3, eps=1e-05, momentum=0.9, affine=True, track_running_stats=True)"
    )
    assert {k: v.shape for k, v in M.SyncBatchNorm(3).state_dict().items()} == dict.fromkeys(
        ("bias", "running_mean", "running_var", "weight"), (3,)
    )
    frozen = M.SyncBatchNorm(3, freeze=True)
    frozen(T(arrays()))
    assert frozen.running_mean.numpy().max() == 0
    with pytest.raises(ValueError, match="2D, 3D or 4D"):
        M.SyncBatchNorm(3)(T(np.ones((1, 3, 1, 1, 1), "float32")))


@pytest.mark.parametrize("training", [True, False])
def test_eps_as_a_bound(training):
    x, eps = arrays(), 0.9
    mean, variance = (
        F.zeros((1, 3, 1, 1)),
        F.ones((1, 3, 1, 1)) * T([0.5, 1, 2]).reshape(1, 3, 1, 1),
    )
    w, b = T([1.0, 2.0, 3.0]), T([0.5, 0.0, -0.5])
    used = (
        (x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True))
        if training
        else (mean.numpy(), variance.numpy())
    )
    want = (x - used[0]) / np.sqrt(np.maximum(used[1], eps))
    want = want * w.numpy().reshape(1, 3, 1, 1) + b.numpy().reshape(1, 3, 1, 1)
    y = F.sync_batch_norm(T(x), mean, variance, w, b, training, eps=eps, eps_mode="max")
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-6)
    if training:
        kept = 0.1 * x.mean((0, 2, 3), keepdims=True)
        np.testing.assert_allclose(mean.numpy(), kept, rtol=1e-4, atol=1e-7)
    assert (
        F.sync_batch_norm(
            T(x).astype("float16"), mean, variance, w, b, training, eps_mode="max"
        ).dtype
        == np.float16
    )
    with pytest.raises(ValueError, match="eps_mode"):
        F.sync_batch_norm(T(x), mean, variance, eps_mode="foo")
