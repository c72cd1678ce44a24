"""A linear map with batch norm (and ReLU), which quantisation treats as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from .batchnorm import BatchNorm1d
from .linear import Linear
from .module import Module


class _LinearBnActivation1d(Module):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        compute_mode: str = "default",
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.out_features = out_features
        self.in_features = in_features
        self.linear = Linear(in_features, out_features, bias, compute_mode)
        self.bn = BatchNorm1d(out_features, eps, momentum, affine, track_running_stats)
        # Takes no part in the result; checkpoints of the reference hold it.
        self.bias: Parameter | None = None
        if bias:
            self.bias = Parameter(np.zeros((out_features,), dtype=np.float32))


class LinearBn1d(_LinearBnActivation1d):
    """:class:`.Linear` (``linear``) and :class:`.BatchNorm1d` (``bn``)."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_features) to (N, out_features)."""
        return self.bn(self.linear(inp))


class LinearBnRelu1d(_LinearBnActivation1d):
    """:class:`.Linear` (``linear``), :class:`.BatchNorm1d` (``bn``) and ReLU."""

    def forward(self, inp: Tensor) -> Tensor:
        """(N, in_features) to (N, out_features)."""
        return F.relu(self.bn(self.linear(inp)))
