"""Dropout (Srivastava et al., 2014)."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class Dropout(Module):
    """In training, sets a share of the elements to 0 and scales the others up to keep the mean.

    Args:
        drop_prob: the share, in [0, 1).

    >>> drop = Dropout(0.5)
    >>> drop.eval()
    >>> drop(Tensor([1.0, 2.0]))
    Tensor([1. 2.], device=xpux:0)
    """

    def __init__(self, drop_prob: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.drop_prob = drop_prob

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.dropout(inputs, self.drop_prob, self.training) if self.training else inputs

    def _module_info_string(self) -> str:
        return f"drop_prob={self.drop_prob}"
