"""Batch norm folded into the layer before it."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.utils.bn_fusion import (
    fold_weight_bias,
    fuse_conv_bn_relu_module,
    fuse_linear_bn_relu_module,
)

RELU = M.ReLU()


def with_statistics(norm: M.Module, training: bool) -> M.Module:
    """A batch norm that has seen something, and is trained somewhat."""
    rng = np.random.default_rng(1)
    shape = norm.running_mean.shape
    norm.running_mean[...] = mge.tensor(rng.normal(size=shape).astype("float32"))
    norm.running_var[...] = mge.tensor(rng.uniform(0.5, 2, shape).astype("float32"))
    if norm.weight is not None:
        norm.weight[...] = mge.tensor(rng.uniform(0.5, 2, norm.weight.shape).astype("float32"))
        norm.bias[...] = mge.tensor(rng.normal(size=norm.bias.shape).astype("float32"))
    norm.train(training)
    return norm


@pytest.mark.parametrize("relu", [None, RELU])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (M.Conv2d(4, 6, 3, padding=1), "Conv"),
        (M.Conv2d(4, 6, 3, groups=2, bias=False), "Conv"),
        (M.ConvTranspose2d(4, 6, 3, stride=2), "ConvTranspose"),
        (M.ConvTranspose2d(4, 6, 3, groups=2, bias=False), "ConvTranspose"),
        (M.Linear(4, 6), "Linear"),
        (M.Linear(4, 6, bias=False), "Linear"),
    ],
)
@pytest.mark.parametrize("affine", [True, False])
def test_fused_is_what_the_parts_are(
    layer: M.Module, name: str, training: bool, relu: M.ReLU | None, affine: bool
) -> None:
    linear = name == "Linear"
    norm = (M.BatchNorm1d if linear else M.BatchNorm2d)(6, affine=affine)
    norm = with_statistics(norm, training)
    layer.train(training)
    fuse = fuse_linear_bn_relu_module if linear else fuse_conv_bn_relu_module
    before = layer.weight.numpy().copy()
    fused = fuse(layer, norm, relu)
    shape = (5, 4) if linear else (2, 4, 7, 7)
    x = mge.tensor(np.random.default_rng(0).normal(size=shape).astype("float32"))
    want = norm(layer(x))
    want = want if relu is None else F.relu(want)
    np.testing.assert_allclose(fused(x).numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    bn = "Bn" if training else ""
    suffix = ("1d" if bn else "") if linear else "2d"
    assert type(fused).__name__ == f"{name}{bn}{'Relu' if relu else ''}{suffix}"
    assert fused.training == training


@pytest.mark.parametrize("training", [False, True])
def test_relu_alone(training: bool) -> None:
    layer = M.Conv2d(2, 3, 1)
    layer.train(training)
    fused = fuse_conv_bn_relu_module(layer, None, RELU)
    assert type(fused) is M.ConvRelu2d
    assert fused.training == training
    x = mge.tensor(np.random.default_rng(0).normal(size=(1, 2, 3, 3)).astype("float32"))
    np.testing.assert_array_equal(fused(x).numpy(), F.relu(layer(x)).numpy())


def test_fold_without_scale_and_shift() -> None:
    weight = mge.tensor([[1.0, 2.0], [3.0, 4.0]])
    mean, var = mge.tensor([1.0, 2.0]), mge.tensor([4.0, 16.0])
    w, b = fold_weight_bias(weight, None, None, None, mean, var, eps=0.0)
    np.testing.assert_allclose(w.numpy(), [[0.5, 1], [0.75, 1]])
    np.testing.assert_allclose(b.numpy(), [-0.5, -0.5])


def test_errors() -> None:
    conv, norm = M.Conv2d(2, 3, 1), M.BatchNorm2d(3)
    norm.eval()
    with pytest.raises(ValueError, match="Conv2d with training=True and BatchNorm2d"):
        fuse_conv_bn_relu_module(conv, norm, None)
    with pytest.raises(ValueError, match="got neither"):
        fuse_conv_bn_relu_module(conv, None, None)
    with pytest.raises(TypeError, match="expected Linear, got Conv2d"):
        fuse_linear_bn_relu_module(conv, None, RELU)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected BatchNorm2d, got ReLU"):
        fuse_conv_bn_relu_module(conv, RELU, None)  # type: ignore[arg-type]
    conv.eval()
    bare = M.BatchNorm2d(3, track_running_stats=False)
    bare.eval()
    with pytest.raises(ValueError, match="keeps no running statistics"):
        fuse_conv_bn_relu_module(conv, bare, None)
