"""Initial values: distributions, fans and gains."""

from __future__ import annotations

import math

import numpy as np
import pytest

import megengine as mge
import megengine.module.init as init
from megengine import Tensor

SHAPE = (64, 32, 3, 3)
FAN_IN, FAN_OUT = 32 * 9, 64 * 9


def uniform(bound: float) -> tuple[float, float, float]:
    return 0.0, bound / math.sqrt(3), bound


def normal(std: float) -> tuple[float, float, float]:
    return 0.0, std, 6 * std


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("zeros_", (), (0.0, 0.0, 0.0)),
        ("ones_", (), (1.0, 0.0, 1.0)),
        ("fill_", (3.0,), (3.0, 0.0, 3.0)),
        ("uniform_", (), (0.5, 1 / math.sqrt(12), 1.0)),
        ("uniform_", (-1, 2), (0.5, 3 / math.sqrt(12), 2.0)),
        ("normal_", (), normal(1)),
        ("normal_", (1, 0.5), (1.0, 0.5, 4.0)),
        ("xavier_uniform_", (), uniform(math.sqrt(6 / (FAN_IN + FAN_OUT)))),
        ("xavier_normal_", (2.0,), normal(2 * math.sqrt(2 / (FAN_IN + FAN_OUT)))),
        ("msra_uniform_", (), uniform(math.sqrt(6 / FAN_IN))),
        ("msra_uniform_", (0, "fan_in", "relu"), uniform(math.sqrt(6 / FAN_IN))),
        ("msra_normal_", (), normal(math.sqrt(2 / FAN_IN))),
        ("msra_normal_", (0.2, "fan_out"), normal(math.sqrt(2 / (1.04 * FAN_OUT)))),
        ("msra_normal_", (0, "fan_in", "tanh"), normal(5 / 3 / math.sqrt(FAN_IN))),
    ],
)
def test_distributions(name: str, args: tuple, want: tuple, dtype: str) -> None:
    mge.random.seed(0)
    tensor = Tensor(np.zeros(SHAPE), dtype=dtype)
    assert getattr(init, name)(tensor, *args) is None
    assert (tensor.shape, str(tensor.dtype)) == (SHAPE, dtype)
    mean, std, limit = want
    values = tensor.numpy().astype("float64")
    assert abs(values.mean() - mean) <= 0.03 * std
    assert abs(values.std() - std) <= 0.02 * std
    assert np.abs(values).max() <= limit * 1.01


def test_seeds() -> None:
    tensor = Tensor(np.zeros(10, "float32"))
    drawn = []
    for seed in (3, 3, 4):
        mge.random.seed(seed)
        init.normal_(tensor)
        drawn.append(tensor.numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    ("shape", "fans"),
    [
        ((3, 4), (4, 3)),
        ((5, 3, 2), (6, 10)),
        ((8, 4, 3, 3), (36, 72)),
        ((2, 4, 3, 3, 3), (27, 36)),
        ((2, 4, 3, 3, 3, 3), (81, 108)),
    ],
)
def test_fans(shape: tuple[int, ...], fans: tuple[int, int]) -> None:
    tensor = Tensor(np.zeros(shape, "float32"))
    assert init.calculate_fan_in_and_fan_out(tensor) == fans
    assert init.calculate_correct_fan(tensor, "fan_in") == fans[0]
    assert init.calculate_correct_fan(tensor, "FAN_OUT") == fans[1]
    with pytest.raises(ValueError, match="Mode"):
        init.calculate_correct_fan(tensor, "fan_avg")


def test_fans_of_vectors() -> None:
    for shape in ((), (3,)):
        with pytest.raises(ValueError, match="fewer than 2"):
            init.calculate_fan_in_and_fan_out(Tensor(np.zeros(shape, "float32")))


def test_gains() -> None:
    for name in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "sigmoid"):
        assert init.calculate_gain(name) == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu") == pytest.approx(1.4141428569978354)
    assert init.calculate_gain("leaky_relu", 0.3) == pytest.approx(1.3545709229571927)
    for name, param in (("selu", None), ("leaky_relu", "a"), ("leaky_relu", True)):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
            init.calculate_gain(name, param)
