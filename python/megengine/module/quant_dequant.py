"""Marks of where quantised computation begins and ends."""

from __future__ import annotations

from ..tensor import Tensor
from .module import Module


class QuantStub(Module):
    """Marks where a network, once quantised, turns floats into quantised numbers.

    In a float network it gives back its input.
    """

    def forward(self, inp: Tensor) -> Tensor:
        """Anything to the same."""
        return inp


class DequantStub(Module):
    """Marks where a network, once quantised, turns quantised numbers into floats.

    In a float network it gives back its input.
    """

    def forward(self, inp: Tensor) -> Tensor:
        """Anything to the same."""
        return inp
