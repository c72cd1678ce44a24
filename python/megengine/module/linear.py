"""Layers that are a matrix product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class Linear(Module):
    r"""A learned linear map of the last axis: :math:`y = x W^T + b`.

    Args:
        in_features: size of the last axis of the input.
        out_features: size of the last axis of the output.
        bias: whether to add :math:`b`.
        compute_mode: "default", or "float32" to sum float16 in float32 (which happens anyway).

    Shape:
        - weight: (out_features, in_features)
        - bias: (out_features,)

    >>> import megengine.functional as F
    >>> layer = Linear(3, 4)
    >>> layer
    Linear(in_features=3, out_features=4, bias=True)
    >>> layer(F.ones((2, 5, 3))).shape
    (2, 5, 4)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        compute_mode: str = "default",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.out_features = out_features
        self.in_features = in_features
        self.weight = Parameter(np.zeros((out_features, in_features), dtype=np.float32))
        self.bias: Parameter | None = None
        if bias:
            self.bias = Parameter(np.zeros((out_features,), dtype=np.float32))
        self.compute_mode = compute_mode
        self.reset_parameters()

    def _get_fanin(self) -> int:
        return self.in_features

    def reset_parameters(self) -> None:
        """Draws the weight from N(0, 1 / in_features) and sets the bias to 0."""
        init.normal_(self.weight, 0.0, 1 / math.sqrt(max(self._get_fanin(), 1)))
        if self.bias is not None:
            init.zeros_(self.bias)

    def calc_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The map with these weights instead of the module's own."""
        return F.linear(x, weight, bias, self.compute_mode)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return F.linear(x, self.weight, self.bias, self.compute_mode)

    def _module_info_string(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LinearRelu(Linear):
    """:class:`Linear` followed by ReLU; quantisation treats the two as one."""

    def forward(self, inp: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return F.relu(self.calc_linear(inp, self.weight, self.bias))
