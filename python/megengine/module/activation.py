"""Nonlinearities as modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from .module import Module


class Softmax(Module):
    r"""Scales exponentials to sum to 1: :math:`\exp(x_i) / \sum_j \exp(x_j)`.

    Args:
        axis: the axis of the sum. None means 0 for inputs of 0, 1 and 3 dimensions, else 1.

    >>> Softmax(axis=-1)(Tensor([0.0, 0.0]))
    Tensor([0.5 0.5], device=xpux:0)
    """

    def __init__(self, axis: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.softmax(inputs, self.axis)

    def _module_info_string(self) -> str:
        return f"axis={self.axis}"


class Sigmoid(Module):
    r"""Computes :math:`1 / (1 + \exp(-x))`.

    >>> Sigmoid()(Tensor([0.0]))
    Tensor([0.5], device=xpux:0)
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.sigmoid(inputs)


class SiLU(Module):
    r"""Computes :math:`x / (1 + \exp(-x))`.

    >>> SiLU()(Tensor([0.0]))
    Tensor([0.], device=xpux:0)
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.silu(inputs)


class GELU(Module):
    r"""Computes :math:`x \Phi(x)`, where :math:`\Phi` is the normal distribution function.

    >>> GELU()(Tensor([0.0]))
    Tensor([0.], device=xpux:0)
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.gelu(inputs)


class ReLU(Module):
    r"""Computes :math:`\max(x, 0)`.

    >>> ReLU()(Tensor([-1.0, 2.0]))
    Tensor([0. 2.], device=xpux:0)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.relu(x)


class PReLU(Module):
    r"""Computes :math:`\max(x, 0) + weight \cdot \min(x, 0)` with a learned weight.

    Args:
        num_parameters: 1 for one weight, or C for one for each channel of (N, C, H, W).
        init: the initial weight.

    Shape:
        - weight: (1,), or (1, C, 1, 1)

    >>> PReLU()(Tensor([-1.0, 2.0]))
    Tensor([-0.25  2.  ], device=xpux:0)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_parameters = num_parameters
        shape = (1, num_parameters, 1, 1) if num_parameters > 1 else (1,)
        self.weight = Parameter(np.full(shape, init, dtype=np.float32))

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.prelu(inputs, self.weight)


class LeakyReLU(Module):
    r"""Computes :math:`\max(x, 0) + negative\_slope \cdot \min(x, 0)`.

    >>> LeakyReLU(0.1)(Tensor([-1.0, 2.0]))
    Tensor([-0.1  2. ], device=xpux:0)
    """

    def __init__(self, negative_slope: float = 0.01, **kwargs: Any):
        super().__init__(**kwargs)
        self.negative_slope = negative_slope

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.leaky_relu(inputs, self.negative_slope)
