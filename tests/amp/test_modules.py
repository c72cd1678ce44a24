"""Modules under autocast: float32 inputs and low ones, forward and backward, close to float32."""

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
from megengine.amp import autocast
from megengine.autodiff import GradManager

IMAGE = (2, 4, 8, 8)
MODULES = {
    "Conv1d": (lambda: M.Conv1d(4, 6, 3), [(2, 4, 8)]),
    "Conv2d": (lambda: M.Conv2d(4, 6, 3, padding=1, groups=2), [IMAGE]),
    "Conv3d": (lambda: M.Conv3d(2, 4, 3), [(1, 2, 5, 5, 5)]),
    "ConvTranspose2d": (lambda: M.ConvTranspose2d(4, 6, 3, stride=2), [IMAGE]),
    "ConvTranspose3d": (lambda: M.ConvTranspose3d(2, 4, 3), [(1, 2, 4, 4, 4)]),
    "LocalConv2d": (lambda: M.LocalConv2d(4, 6, 8, 8, 3), [IMAGE]),
    "DeformableConv2d": (
        lambda: M.DeformableConv2d(4, 6, 3),
        [IMAGE, (2, 18, 6, 6), (2, 9, 6, 6)],
    ),
    "ConvBn2d": (lambda: M.ConvBn2d(4, 6, 3, bias=False), [IMAGE]),
    "Linear": (lambda: M.Linear(8, 6), [(3, 8)]),
    "BatchMatMulActivation": (lambda: M.BatchMatMulActivation(2, 4, 6), [(2, 4, 5)]),
    "BatchNorm1d": (lambda: M.BatchNorm1d(4), [(6, 4, 3)]),
    "BatchNorm2d": (lambda: M.BatchNorm2d(4), [IMAGE]),
    "SyncBatchNorm": (lambda: M.SyncBatchNorm(4), [IMAGE]),
    "GroupNorm": (lambda: M.GroupNorm(2, 4), [IMAGE]),
    "InstanceNorm": (lambda: M.InstanceNorm(4), [IMAGE]),
    "LayerNorm": (lambda: M.LayerNorm(8), [(3, 8)]),
    "LocalResponseNorm": (lambda: M.LocalResponseNorm(5), [IMAGE]),
    "RNN": (lambda: M.RNN(4, 3, num_layers=2), [(5, 2, 4)]),
    "LSTM": (lambda: M.LSTM(4, 3, bidirectional=True), [(5, 2, 4)]),
    "RNNCell": (lambda: M.RNNCell(4, 3), [(2, 4), (2, 3)]),
    "LSTMCell": (lambda: M.LSTMCell(4, 3), [(2, 4)]),
    "MultiHeadAttention": (lambda: M.MultiHeadAttention(8, 2), [(2, 3, 8)] * 3),
    "PReLU": (lambda: M.PReLU(4), [IMAGE]),
    "GELU": (M.GELU, [(3, 8)]),
    "Softmax": (lambda: M.Softmax(1), [(3, 8)]),
    "MaxPool2d": (lambda: M.MaxPool2d(2), [IMAGE]),
    "AvgPool2d": (lambda: M.AvgPool2d(2), [IMAGE]),
    "AdaptiveAvgPool2d": (lambda: M.AdaptiveAvgPool2d(2), [IMAGE]),
    "PixelShuffle": (lambda: M.PixelShuffle(2), [IMAGE]),
    "Pad": (lambda: M.Pad(((0, 0), (0, 0), (1, 1), (1, 1))), [IMAGE]),
}


def first(result):
    return first(result[0]) if isinstance(result, (tuple, list)) else result


def run(net, inputs, scope):
    """The first result, and the gradients of the inputs and the parameters."""
    wrt = [*inputs, *net.parameters()]
    gm = GradManager().attach(wrt)
    with scope, gm:
        y = first(net(*inputs))
        weights = np.cos(np.arange(y.numpy().size, dtype=np.float32)).reshape(y.shape)
        gm.backward(y.astype("float32"), mge.tensor(weights))
    results = [y.astype("float32").numpy()]
    for t in wrt:
        results.append(None if t.grad is None else t.grad.astype("float32").numpy())
        if t.grad is not None:
            assert t.grad.dtype == t.dtype
        t.grad = None
    return results


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, dtype):
    make, shapes = MODULES[name]
    mge.random.seed(1)
    net = make()
    rng = np.random.default_rng(0)
    for p in net.parameters():
        p[...] = mge.tensor((rng.standard_normal(p.shape) * 0.3).astype(np.float32))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    inputs = [mge.tensor(a).astype(dtype) for a in arrays]
    want = run(net, [t.astype("float32") for t in inputs], autocast(enabled=False))
    got = run(net, inputs, autocast())
    assert all(str(p.dtype) == "float32" for p in net.parameters())
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            np.testing.assert_allclose(g, w, rtol=0, atol=0.04 * max(np.abs(w).max(), 1e-2))
