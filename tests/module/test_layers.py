"""Layers: text, shapes of what they hold, and that they compute what their function computes."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import Parameter, Tensor
from megengine.autodiff import GradManager


def draw(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def shapes(module: M.Module) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in module.named_tensors()}


BN = "eps=1e-05, momentum=0.9, affine=True, track_running_stats=True"
BN_SHAPES = dict.fromkeys(("bias", "running_mean", "running_var", "weight"), (1, 4, 1, 1))

# Text and shapes, as the reference has them.
LAYERS = [
    (
        lambda: M.Conv2d(32, 64, 3),
        "Conv2d(32, 64, kernel_size=(3, 3))",
        {"bias": (1, 64, 1, 1), "weight": (64, 32, 3, 3)},
    ),
    (
        lambda: M.Conv2d(32, 64, (3, 5), 2, (1, 2), (2, 1), 4, False),
        "Conv2d(32, 64, kernel_size=(3, 5), stride=(2, 2), padding=(1, 2), dilation=(2, 1), "
        "groups=4, bias=False)",
        {"weight": (4, 16, 8, 3, 5)},
    ),
    (
        lambda: M.Conv2d(8, 8, 3, 1, 1, groups=8, padding_mode="reflect"),
        "Conv2d(8, 8, kernel_size=(3, 3), padding=(1, 1), groups=8)",
        {"bias": (1, 8, 1, 1), "weight": (8, 1, 1, 3, 3)},
    ),
    (
        lambda: M.Conv1d(8, 16, 3, stride=2, padding=1, groups=2),
        "Conv1d(8, 16, kernel_size=3, stride=2, padding=1, groups=2)",
        {"bias": (1, 16, 1), "weight": (2, 8, 4, 3)},
    ),
    (
        lambda: M.Conv3d(8, 16, 3),
        "Conv3d(8, 16, kernel_size=(3, 3, 3))",
        {"bias": (1, 16, 1, 1, 1), "weight": (16, 8, 3, 3, 3)},
    ),
    (
        lambda: M.ConvTranspose2d(8, 16, 3),
        "ConvTranspose2d(8, 16, kernel_size=(3, 3))",
        {"bias": (1, 16, 1, 1), "weight": (8, 16, 3, 3)},
    ),
    (
        lambda: M.ConvTranspose2d(8, 16, (3, 5), 2, 1, 1, groups=4, bias=False),
        "ConvTranspose2d(8, 16, kernel_size=(3, 5), stride=(2, 2), padding=(1, 1), groups=4, "
        "bias=False)",
        {"weight": (4, 2, 4, 3, 5)},
    ),
    (
        lambda: M.Linear(64, 32, bias=False),
        "Linear(in_features=64, out_features=32, bias=False)",
        {"weight": (32, 64)},
    ),
    (
        lambda: M.LinearRelu(3, 4),
        "LinearRelu(in_features=3, out_features=4, bias=True)",
        {"bias": (4,), "weight": (4, 3)},
    ),
    (lambda: M.BatchNorm1d(4), f"BatchNorm1d(4, {BN})", BN_SHAPES),
    (
        lambda: M.BatchNorm2d(4, 1e-3, 0.5, False, False),
        "BatchNorm2d(4, eps=0.001, momentum=0.5, affine=False, track_running_stats=False)",
        {},
    ),
    (
        lambda: M.LayerNorm((4, 5)),
        "LayerNorm(normalized_shape=(4, 5), eps=1e-05, affine=True)",
        {"bias": (4, 5), "weight": (4, 5)},
    ),
    (
        lambda: M.LayerNorm(4, affine=False),
        "LayerNorm(normalized_shape=(4,), eps=1e-05, affine=False)",
        {},
    ),
    (
        lambda: M.GroupNorm(2, 4),
        "GroupNorm(groups=2, channels=4, eps=1e-05, affine=True)",
        {"bias": (4,), "weight": (4,)},
    ),
    (
        lambda: M.InstanceNorm(4),
        "InstanceNorm(channels=4, eps=1e-05, affine=True)",
        {"bias": (4,), "weight": (4,)},
    ),
    (
        lambda: M.GeneralNorm((4, 5), (1, 2)),
        "GeneralNorm(normalized_shape=(4, 5), normalized_axis=(1, 2), eps=1e-05, affine=True)",
        {"bias": (4, 5), "weight": (4, 5)},
    ),
    (M.ReLU, "ReLU()", {}),
    (M.Sigmoid, "Sigmoid()", {}),
    (M.SiLU, "SiLU()", {}),
    (M.GELU, "GELU()", {}),
    (M.Softmax, "Softmax(axis=None)", {}),
    (M.LeakyReLU, "LeakyReLU()", {}),
    (M.PReLU, "PReLU()", {"weight": (1,)}),
    (lambda: M.PReLU(4, 0.1), "PReLU()", {"weight": (1, 4, 1, 1)}),
    (lambda: M.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0)", {}),
    (
        lambda: M.MaxPool2d((2, 3), 1, (1, 0)),
        "MaxPool2d(kernel_size=(2, 3), stride=1, padding=(1, 0))",
        {},
    ),
    (
        lambda: M.AvgPool2d(3, 2, 1, mode="average"),
        "AvgPool2d(kernel_size=3, stride=2, padding=1, mode=average)",
        {},
    ),
    (lambda: M.AdaptiveAvgPool2d(2), "AdaptiveAvgPool2d()", {}),
    (lambda: M.AdaptiveMaxPool2d((2, 3)), "AdaptiveMaxPool2d()", {}),
    (lambda: M.Dropout(0.3), "Dropout(drop_prob=0.3)", {}),
    (lambda: M.Embedding(10, 4), "Embedding()", {"weight": (10, 4)}),
    (M.Identity, "Identity()", {}),
    (M.Concat, "Concat()", {}),
    (lambda: M.Elemwise("add"), "Elemwise()", {}),
    (lambda: M.Pad(((1, 1),)), "Pad()", {}),
    (lambda: M.PixelShuffle(2), "PixelShuffle()", {}),
    (M.LocalResponseNorm, "LocalResponseNorm()", {}),
    (M.QuantStub, "QuantStub()", {}),
    (M.DequantStub, "DequantStub()", {}),
    (
        lambda: M.ConvBn2d(3, 4, 3, bias=False),
        f"ConvBn2d(\n  (conv): Conv2d(3, 4, kernel_size=(3, 3), bias=False)\n"
        f"  (bn): BatchNorm2d(4, {BN})\n)",
        {**{f"bn.{k}": v for k, v in BN_SHAPES.items()}, "conv.weight": (4, 3, 3, 3)},
    ),
    (
        lambda: M.LinearBn1d(3, 4),
        "LinearBn1d(\n  (linear): Linear(in_features=3, out_features=4, bias=True)\n"
        f"  (bn): BatchNorm1d(4, {BN})\n)",
        {
            "bias": (4,),
            **{f"bn.{k}": v for k, v in BN_SHAPES.items()},
            "linear.bias": (4,),
            "linear.weight": (4, 3),
        },
    ),
]


@pytest.mark.parametrize(("make", "text", "held"), LAYERS, ids=[text[:40] for _, text, _ in LAYERS])
def test_text_and_shapes(make, text: str, held: dict[str, tuple[int, ...]]) -> None:
    layer = make()
    assert repr(layer) == text
    assert shapes(layer) == held


# ---- values -------------------------------------------------------------------------------------

IMAGES = draw(2, 8, 9, 9)
ROWS = draw(5, 8)

VALUES = [
    (M.Conv2d(8, 4, 3, 2, 1), IMAGES, lambda m, x: F.conv2d(x, m.weight, m.bias, 2, 1)),
    (
        M.Conv2d(8, 4, 3, padding=(1, 2), groups=2, dilation=2, bias=False),
        IMAGES,
        lambda m, x: F.conv2d(x, m.weight, None, 1, (1, 2), 2, 2),
    ),
    (
        M.Conv2d(8, 4, 3, padding=1, padding_mode="replicate"),
        IMAGES,
        lambda m, x: F.conv2d(
            F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "replicate"), m.weight, m.bias
        ),
    ),
    (
        M.Conv1d(8, 4, 3, padding=1),
        draw(2, 8, 9),
        lambda m, x: F.conv1d(x, m.weight, m.bias, 1, 1),
    ),
    (
        M.ConvTranspose2d(8, 4, 3, 2, 1, 1),
        IMAGES,
        lambda m, x: F.conv_transpose2d(x, m.weight, m.bias, 2, 1, 1),
    ),
    (M.ConvRelu2d(8, 4, 3), IMAGES, lambda m, x: F.relu(F.conv2d(x, m.weight, m.bias))),
    (
        M.ConvTransposeRelu2d(8, 4, 3),
        IMAGES,
        lambda m, x: F.relu(F.conv_transpose2d(x, m.weight, m.bias)),
    ),
    (M.Linear(8, 3), ROWS, lambda m, x: F.matmul(x, m.weight.T) + m.bias),
    (M.LinearRelu(8, 3), ROWS, lambda m, x: F.relu(F.linear(x, m.weight, m.bias))),
    (M.LayerNorm(8), ROWS, lambda m, x: F.nn.layer_norm(x, (8,), True, m.weight, m.bias)),
    (
        M.LayerNorm((9, 9), affine=False),
        IMAGES,
        lambda m, x: F.nn.layer_norm(x, (9, 9), False),
    ),
    (M.GroupNorm(2, 8), IMAGES, lambda m, x: F.nn.group_norm(x, 2, True, m.weight, m.bias)),
    (M.InstanceNorm(8), IMAGES, lambda m, x: F.nn.instance_norm(x, True, m.weight, m.bias)),
    (
        M.GeneralNorm((2, 9), (0, 2)),
        IMAGES,
        lambda m, x: F.nn.general_norm(x, (0, 2), True, m.weight, m.bias),
    ),
    (
        M.LocalResponseNorm(3, 1.0, 0.5, 0.6),
        IMAGES,
        lambda m, x: F.nn.local_response_norm(x, 3, 1.0, 0.5, 0.6),
    ),
    (M.ReLU(), ROWS, lambda m, x: F.relu(x)),
    (M.Sigmoid(), ROWS, lambda m, x: F.sigmoid(x)),
    (M.SiLU(), ROWS, lambda m, x: x * F.sigmoid(x)),
    (M.GELU(), ROWS, lambda m, x: F.gelu(x)),
    (M.Softmax(), ROWS, lambda m, x: F.softmax(x, 1)),
    (M.LeakyReLU(0.2), ROWS, lambda m, x: F.leaky_relu(x, 0.2)),
    (M.PReLU(8), IMAGES, lambda m, x: F.maximum(x, 0) + m.weight * F.minimum(x, 0)),
    (M.MaxPool2d(3, 2, 1), IMAGES, lambda m, x: F.max_pool2d(x, 3, 2, 1)),
    (M.AvgPool2d(3, 2, 1), IMAGES, lambda m, x: F.avg_pool2d(x, 3, 2, 1)),
    (
        M.AvgPool2d(2, mode="average"),
        IMAGES,
        lambda m, x: F.avg_pool2d(x, 2, 2, mode="average"),
    ),
    (M.AdaptiveAvgPool2d(3), IMAGES, lambda m, x: F.adaptive_avg_pool2d(x, 3)),
    (M.AdaptiveMaxPool2d((3, 1)), IMAGES, lambda m, x: F.adaptive_max_pool2d(x, (3, 1))),
    (M.Embedding(9, 4), Tensor([[1, 8], [0, 1]]), lambda m, x: m.weight[x]),
    (
        M.Pad(((1, 0), (0, 2)), constant_val=3.0),
        ROWS,
        lambda m, x: F.nn.pad(x, ((1, 0), (0, 2)), constant_value=3.0),
    ),
    (M.PixelShuffle(2), IMAGES, lambda m, x: F.nn.pixel_shuffle(x, 2)),
    (M.Elemwise("relu"), ROWS, lambda m, x: F.relu(x)),
    (M.Identity(), ROWS, lambda m, x: x),
    (M.QuantStub(), ROWS, lambda m, x: x),
    (M.Sequential(), ROWS, lambda m, x: x),
    (M.Sequential(M.Linear(8, 4), M.ReLU()), ROWS, lambda m, x: F.relu(m[0](x))),
    (M.ConvBn2d(8, 4, 3), IMAGES, lambda m, x: m.bn(m.conv(x))),
    (M.ConvBnRelu2d(8, 4, 3), IMAGES, lambda m, x: F.relu(m.bn(m.conv(x)))),
    (M.ConvTransposeBn2d(8, 4, 3), IMAGES, lambda m, x: m.bn(m.conv_transpose2d(x))),
    (M.ConvTransposeBnRelu2d(8, 4, 3), IMAGES, lambda m, x: F.relu(m.bn(m.conv_transpose2d(x)))),
    (M.LinearBn1d(8, 4), ROWS, lambda m, x: m.bn(m.linear(x))),
    (M.LinearBnRelu1d(8, 4), ROWS, lambda m, x: F.relu(m.bn(m.linear(x)))),
]


@pytest.mark.parametrize(("layer", "x", "want"), VALUES, ids=[repr(m)[:30] for m, _, _ in VALUES])
def test_values(layer: M.Module, x: Tensor, want) -> None:
    for i, parameter in enumerate(layer.parameters()):
        parameter[...] = draw(*parameter.shape, seed=i)
    layer.eval()
    np.testing.assert_allclose(layer(x).numpy(), want(layer, x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("layer", "x", "want"), VALUES, ids=[repr(m)[:30] for m, _, _ in VALUES])
def test_every_parameter_gets_a_gradient(layer: M.Module, x: Tensor, want) -> None:
    layer.train()
    used = {n: p for n, p in layer.named_parameters() if not (n == "bias" and hasattr(layer, "bn"))}
    if not used:
        return
    gm = GradManager().attach(used.values())
    with gm:
        y = layer(x)
        gm.backward((y * draw(*y.shape, seed=1)).sum())
    for name, parameter in used.items():
        assert parameter.grad is not None, name
        assert parameter.grad.shape == parameter.shape
        assert np.isfinite(parameter.grad.numpy()).all()


def test_concat_and_elemwise() -> None:
    a, b = Tensor([[1.0]]), Tensor([[2.0]])
    assert M.Concat()([a, b], axis=1).numpy().tolist() == [[1.0, 2.0]]
    assert M.Elemwise("add")(a, b).item() == 3.0
    assert M.Elemwise("FUSE_ADD_RELU")(a, -b).item() == 0.0
    with pytest.raises(ValueError, match="unknown mode"):
        M.Elemwise("no_such_mode")(a)


# ---- batch norm ---------------------------------------------------------------------------------


def test_batch_norm_in_training_and_evaluation() -> None:
    x = draw(4, 3, 5, 5) * 2 + 1
    norm = M.BatchNorm2d(3)
    norm.weight[...] = 2.0
    norm.bias[...] = 1.0
    a = x.numpy().astype("float64")
    mean, var = a.mean((0, 2, 3), keepdims=True), a.var((0, 2, 3), keepdims=True)
    want = (a - mean) / np.sqrt(var + 1e-5) * 2 + 1
    np.testing.assert_allclose(norm(x).numpy(), want, rtol=1e-4, atol=1e-4)
    unbiased = a.var((0, 2, 3), keepdims=True, ddof=1)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * unbiased, rtol=1e-5)
    norm.eval()
    want = (a - norm.running_mean.numpy()) / np.sqrt(norm.running_var.numpy() + 1e-5) * 2 + 1
    before = norm.running_mean.numpy()
    np.testing.assert_allclose(norm(x).numpy(), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(norm.running_mean.numpy(), before)


def test_batch_norm_frozen_or_without_running_statistics() -> None:
    x = draw(4, 3, 5, 5) * 2 + 1
    frozen = M.BatchNorm2d(3, freeze=True)
    gm = GradManager().attach([x, *frozen.parameters()])
    with gm:
        y = frozen(x)
        gm.backward((y * y).sum())
    np.testing.assert_allclose(y.numpy(), x.numpy() / np.sqrt(1 + 1e-5), rtol=1e-5)
    assert not frozen.running_mean.numpy().any()
    assert x.grad is not None
    assert frozen.weight.grad is None

    with pytest.raises(AssertionError, match="freeze"):
        M.BatchNorm2d(3, freeze=True, track_running_stats=False)

    free = M.BatchNorm2d(3, track_running_stats=False)
    for mode in (True, False):
        free.train(mode)
        np.testing.assert_allclose(free(x).numpy().std((0, 2, 3)), 1.0, rtol=1e-4)


def test_batch_norm_1d() -> None:
    norm = M.BatchNorm1d(3)
    for shape in [(4, 3), (4, 3, 7)]:
        y = norm(draw(*shape))
        assert y.shape == shape
        axes = (0,) if len(shape) == 2 else (0, 2)
        np.testing.assert_allclose(y.numpy().mean(axes), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("norm", "shape"),
    [(M.BatchNorm2d(3), (2, 3)), (M.BatchNorm2d(3), (2, 3, 4)), (M.BatchNorm1d(3), (2, 3, 4, 4))],
)
def test_batch_norm_of_a_wrong_rank(norm: M.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        norm(draw(*shape))


def test_batch_norm_resets() -> None:
    norm = M.BatchNorm2d(3)
    norm(draw(4, 3, 5, 5))
    norm.weight[...] = 5.0
    norm.reset_parameters()
    assert (norm.weight.numpy() == 1).all()
    assert not norm.running_mean.numpy().any()
    assert (norm.running_var.numpy() == 1).all()


def test_field_cases_of_batch_norm() -> None:
    norm = M.BatchNorm2d(1)  # case 19: a constant channel far from zero
    assert not norm(F.full((2, 1, 2, 2), 1e8)).numpy().any()
    np.testing.assert_allclose(norm.running_mean.item(), 1e7, rtol=1e-6)
    np.testing.assert_allclose(norm.running_var.item(), 0.9, rtol=1e-6)

    norm = M.BatchNorm2d(1)  # case 44: the running variance is unbiased
    y = norm(Tensor([1.0, 2.0, 3.0, 6.0]).reshape(4, 1, 1, 1))
    want = [-1.0690434, -0.5345217, 0, 1.6035652]
    np.testing.assert_allclose(y.numpy().ravel(), want, atol=1e-5)
    np.testing.assert_allclose(norm.running_mean.item(), 0.3, rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.item(), 1.3666667, rtol=1e-5)

    norm = M.BatchNorm2d(3)  # case 43: nothing in the batch
    norm.eval()
    assert norm(F.zeros((0, 3, 4, 4))).shape == (0, 3, 4, 4)


# ---- other layers -------------------------------------------------------------------------------


def test_dropout() -> None:
    layer = M.Dropout(0.5)
    x = F.ones((1000,))
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0.0, 2.0}
    assert 400 < (y == 0).sum() < 600
    layer.eval()
    assert layer(x) is x


def test_embedding() -> None:
    table = Tensor(np.arange(12, dtype="float32").reshape(6, 2))
    frozen = M.Embedding.from_pretrained(table)
    assert frozen(Tensor([2])).numpy().tolist() == [[4.0, 5.0]]
    free = M.Embedding.from_pretrained(table, freeze=False)
    for layer, wanted in ((frozen, None), (free, [0, 2, 1, 0, 0, 0])):
        gm = GradManager().attach(layer.parameters())
        with gm:
            gm.backward(layer(Tensor([1, 2, 1])).sum())
        grad = layer.weight.grad
        assert grad is None if wanted is None else grad.numpy()[:, 0].tolist() == wanted
    given = M.Embedding(6, 2, initial_weight=Parameter(table))
    np.testing.assert_array_equal(given.weight.numpy(), table.numpy())


def test_sequential() -> None:
    net = M.Sequential(M.Linear(2, 2), M.ReLU(), name="net")
    assert (net.name, len(net), net.layer_keys) == ("net", 2, ["0", "1"])
    assert list(net) == net.layer_values == [net[0], net[-1]]
    assert isinstance(net[:1], M.Sequential)
    assert len(net[:1]) == 1
    net[1] = M.Sigmoid()
    assert repr(net[1]) == "Sigmoid()"
    del net[0]
    assert [name for name, _ in net.named_children()] == ["1"]
    for index in (5, -5):
        with pytest.raises(IndexError):
            net[index]
    named = M.Sequential(OrderedDict([("b", M.ReLU()), ("a", M.Linear(1, 2))]))
    assert named.b is named[0]
    assert list(named.state_dict()) == ["a.bias", "a.weight"]
    assert M.Sequential()(3) == 3
    many = M.Sequential(*[M.Identity() for _ in range(12)])
    assert many[2] is list(many)[2]
    with pytest.raises(TypeError):
        net(1, 2)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: M.Conv2d(8, 8, 3, groups=3), ValueError),
        (lambda: M.Conv2d(4, 6, 3, groups=4), ValueError),
        (lambda: M.ConvTranspose2d(4, 6, 3, groups=4), ValueError),
        (lambda: M.Conv2d(4, 4, 3, groups=0), ValueError),
        (lambda: M.Conv2d(0, 4, 3), ValueError),
        (lambda: M.Conv2d(4, -4, 3), ValueError),
        (lambda: M.Conv2d(4, 4, 3, stride=0), AssertionError),
        (lambda: M.Conv2d(4, 4, 0), AssertionError),
        (lambda: M.Conv2d(4, 4, 3, padding=-1), AssertionError),
        (lambda: M.Conv2d(4, 4, (1, 2, 3)), AssertionError),
        (lambda: M.Conv2d(4, 4, "3"), AssertionError),
        (lambda: M.Conv2d(4, 4, 2.5), TypeError),
        (lambda: M.Conv2d(3, 4, 3, padding=1, padding_mode="no")(draw(1, 3, 5, 5)), ValueError),
        (lambda: M.Conv2d(3, 4, 3, conv_mode="no")(draw(1, 3, 5, 5)), ValueError),
        (lambda: M.Linear(3, 4)(draw(2, 5)), ValueError),
        (lambda: M.BatchNorm2d(4)(draw(2, 3, 4, 4)), ValueError),
        (lambda: M.GroupNorm(3, 4), AssertionError),
        (lambda: M.GroupNorm(0, 4), AssertionError),
        (lambda: M.LayerNorm((3, 4))(draw(2, 4)), ValueError),
        (lambda: M.GeneralNorm((4, 5), 1), AssertionError),
        (lambda: M.GeneralNorm(), AssertionError),
        (lambda: M.Dropout(1.5)(draw(3)), ValueError),
        (lambda: M.Embedding(4, 2, padding_idx=0), ValueError),
        (lambda: M.Embedding(4, 2, max_norm=1.0), ValueError),
        (lambda: M.Embedding(4, 2, initial_weight=draw(2, 4)), ValueError),
        (lambda: M.Embedding(4, 2)(Tensor([4])), IndexError),
        (lambda: M.Embedding.from_pretrained(draw(3)), ValueError),
        (lambda: M.MaxPool2d(3, 1, -1)(draw(1, 1, 4, 4)), Exception),
    ],
)
def test_wrong_arguments_raise(make, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


# ---- initial values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "fan"),
    [
        (lambda: M.Conv2d(32, 64, 3), 32 * 9),
        (lambda: M.Conv2d(32, 64, 3, groups=4), 32 * 9),  # as if there were one group
        (lambda: M.ConvTranspose2d(32, 64, 3), 64 * 9),
        (lambda: M.Conv1d(64, 128, 3), 64 * 3),
        (lambda: M.Linear(256, 128), 256),
        (lambda: M.Embedding(256, 64), 1),
    ],
)
def test_initial_weights_are_normal(layer, fan: int) -> None:
    mge.random.seed(0)
    weights = layer().weight.numpy().astype("float64").ravel() * math.sqrt(fan)
    assert abs(weights.mean()) < 0.05
    assert abs(weights.std() - 1) < 0.05
    assert abs(np.mean(np.abs(weights) < 1) - 0.6827) < 0.02
    mge.random.seed(0)
    again = layer().weight.numpy().astype("float64").ravel() * math.sqrt(fan)
    np.testing.assert_array_equal(again, weights)
