"""Filling tensors in place with the values that training starts from.

Names and formulas follow Glorot and Bengio, "Understanding the difficulty of training deep
feedforward neural networks" (2010), and He et al., "Delving deep into rectifiers" (2015).
"""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from .. import random
from ..tensor import Tensor


def _set(tensor: Tensor, value: Tensor) -> None:
    """Gives ``tensor`` a new value and keeps its dtype and device."""
    if value.dtype != tensor.dtype:
        value = value.astype(tensor.dtype)
    tensor._reset(value)


def fill_(tensor: Tensor, val: float) -> None:
    """Fills ``tensor`` in place with ``val``.

    >>> t = Tensor([1.0, 2.0])
    >>> fill_(t, 3)
    >>> t
    Tensor([3. 3.], device=xpux:0)
    """
    _set(tensor, F.full(tuple(tensor.shape), val, dtype=tensor.dtype, device=tensor.device))


def zeros_(tensor: Tensor) -> None:
    """Fills ``tensor`` in place with zeros."""
    fill_(tensor, 0)


def ones_(tensor: Tensor) -> None:
    """Fills ``tensor`` in place with ones."""
    fill_(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> None:
    r"""Fills ``tensor`` in place from the uniform distribution on :math:`[a, b)`.

    The numbers come from :mod:`megengine.random`, so that its seed decides them.
    """
    _set(tensor, random.uniform(low=a, high=b, size=tuple(tensor.shape)))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> None:
    r"""Fills ``tensor`` in place from the normal distribution :math:`N(mean, std^2)`.

    The numbers come from :mod:`megengine.random`, so that its seed decides them.
    """
    _set(tensor, random.normal(mean=mean, std=std, size=tuple(tensor.shape)))


_GAINS = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    r"""The factor by which weights are scaled up for a nonlinearity that follows.

    1 for linear, convolutions and sigmoid, 5/3 for tanh, :math:`\sqrt 2` for relu and
    :math:`\sqrt{2 / (1 + slope^2)}` for leaky_relu.

    Args:
        nonlinearity: the name of the function in lower case.
        param: the negative slope of leaky_relu, 0.01 where it is None.

    Raises:
        ValueError: the name is unknown or the slope is not a number.

    >>> calculate_gain("relu")
    1.4142135623730951
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope: Any = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs each output of a weight sums, and how many outputs each input reaches.

    Args:
        tensor: a weight (out, in) or (out, in, kernel...), or a grouped one of five dimensions
            or more, (groups, out, in, kernel...), of which one group counts.

    Raises:
        ValueError: ``tensor`` has fewer than 2 dimensions.

    >>> calculate_fan_in_and_fan_out(F.zeros((8, 4, 3, 3)))
    (36, 72)
    """
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ValueError(
            "fan_in and fan_out can not be computed for tensor with fewer than 2 dimensions"
        )
    if len(shape) >= 5:
        shape = shape[1:]
    receptive_field = math.prod(shape[2:])
    return shape[1] * receptive_field, shape[0] * receptive_field


def calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that ``mode`` names: "fan_in" or "fan_out".

    Raises:
        ValueError: the mode is unknown.
    """
    mode = mode.lower()
    valid_modes = ["fan_in", "fan_out"]
    if mode not in valid_modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid_modes}")
    fan_in, fan_out = calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> None:
    r"""Fills in place from :math:`U(-a, a)`, :math:`a = gain \sqrt{6 / (fan_{in} + fan_{out})}`."""
    bound = gain * math.sqrt(6 / sum(calculate_fan_in_and_fan_out(tensor)))
    uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> None:
    r"""Fills in place from :math:`N(0, s^2)`, :math:`s = gain\sqrt{2 / (fan_{in} + fan_{out})}`."""
    normal_(tensor, 0.0, gain * math.sqrt(2 / sum(calculate_fan_in_and_fan_out(tensor))))


def msra_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> None:
    r"""Fills in place from :math:`U(-b, b)`, :math:`b = gain \sqrt{3 / fan}` (He et al.).

    Args:
        tensor: the weight to fill.
        a: the negative slope where the nonlinearity is leaky_relu.
        mode: which fan: "fan_in" keeps the variance of the forward pass, "fan_out" of the backward.
        nonlinearity: name of the function that follows, see :func:`calculate_gain`.
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / calculate_correct_fan(tensor, mode))
    uniform_(tensor, -bound, bound)


def msra_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> None:
    r"""Fills in place from :math:`N(0, s^2)`, :math:`s = gain / \sqrt{fan}` (He et al.).

    Arguments as :func:`msra_uniform_`.
    """
    std = calculate_gain(nonlinearity, a) / math.sqrt(calculate_correct_fan(tensor, mode))
    normal_(tensor, 0.0, std)
