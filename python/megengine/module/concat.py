"""Concatenation as a module."""

from __future__ import annotations

from collections.abc import Iterable

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class Concat(Module):
    """Joins tensors along an axis: :func:`.functional.concat`, as a module to quantise.

    >>> Concat()([Tensor([1.0]), Tensor([2.0])])
    Tensor([1. 2.], device=xpux:0)
    """

    def forward(self, inps: Iterable[Tensor], axis: int = 0) -> Tensor:
        """Tensors that differ in size along ``axis`` only, to one."""
        return F.concat(list(inps), axis)
