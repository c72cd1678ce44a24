"""Elementwise operations as a module."""

from __future__ import annotations

from typing import Any

from .._core import apply, result_type
from ..core.ops import builtin
from ..tensor import Tensor
from .module import Module

_COMPARISONS = {"lt", "leq", "eq"}


class Elemwise(Module):
    """An elementwise operation by name, as a module to quantise.

    Args:
        method: a mode of ``builtin.Elemwise``, in any case: "add", "mul", "relu",
            "fuse_add_relu", ... Comparisons ("lt", "leq", "eq") give 0 and 1 in the dtype of their
            operands.

    >>> Elemwise("add")(Tensor([1.0]), Tensor([2.0]))
    Tensor([3.], device=xpux:0)
    """

    def __init__(self, method: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.method = method

    def forward(self, *inps: Tensor) -> Tensor:
        """Tensors whose shapes broadcast, to one of the broadcast shape."""
        (result,) = apply(builtin.Elemwise(mode=self.method.upper()), *inps)
        if self.method.lower() in _COMPARISONS:
            return result.astype(result_type(*inps))
        return result
