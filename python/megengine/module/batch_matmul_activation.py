"""Matrix products with a weight for each element of a batch, and an activation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class BatchMatMulActivation(Module):
    r"""A learned linear map for each element of a batch: :math:`y_i = f(W_i x_i + b)`.

    Args:
        batch: the number of weights.
        in_features: rows of an input.
        out_features: rows of an output.
        bias: whether to add :math:`b`, a number for each row.
        nonlinear_mode: f: "identity" or "relu".

    Shape:
        - weight: (batch, out_features, in_features)
        - bias: (out_features,)

    Raises:
        ValueError: for another ``nonlinear_mode``.

    >>> import megengine.functional as F
    >>> layer = BatchMatMulActivation(2, 3, 4, nonlinear_mode="relu")
    >>> layer
    BatchMatMulActivation(batch=2, in_features=3, out_features=4, bias=True)
    >>> layer(F.ones((2, 3, 5))).shape
    (2, 4, 5)
    """

    def __init__(
        self,
        batch: int,
        in_features: int,
        out_features: int,
        bias: bool = True,
        nonlinear_mode: str = "identity",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.batch = batch
        self.out_features = out_features
        self.in_features = in_features
        self.weight = Parameter(np.zeros((batch, out_features, in_features), dtype=np.float32))
        self.bias: Parameter | None = None
        if bias:
            self.bias = Parameter(np.zeros((out_features,), dtype=np.float32))
        self.nonlinear_mode = str(nonlinear_mode).lower()
        if self.nonlinear_mode not in ("identity", "relu"):
            raise ValueError(
                "BatchMatMulActivation: expected nonlinear_mode identity or relu, got "
                f"{nonlinear_mode!r}"
            )
        self.reset_parameters()

    def _get_fanin(self) -> int:
        return self.in_features

    def reset_parameters(self) -> None:
        """Draws the weight from N(0, 1 / in_features) and sets the bias to 0."""
        init.normal_(self.weight, 0.0, 1 / math.sqrt(max(self._get_fanin(), 1)))
        if self.bias is not None:
            init.zeros_(self.bias)

    def _calc_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = F.matmul(weight, x)
        if bias is not None:
            y = y + (bias.reshape(-1, 1) if bias.ndim == 1 else bias)
        return F.relu(y) if self.nonlinear_mode == "relu" else y

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in_features, n) to (batch, out_features, n)."""
        return self._calc_linear(x, self.weight, self.bias)

    def _module_info_string(self) -> str:
        return (
            f"batch={self.batch}, in_features={self.in_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
