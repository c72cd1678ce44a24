"""Padding as a module."""

from __future__ import annotations

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class Pad(Module):
    """Puts a border around a tensor.

    Args:
        pad_width: what to add (before, after) each axis, from the first on.
        mode: "constant", "reflect" or "replicate".
        constant_val: what fills the border in mode "constant".

    >>> Pad(((1, 0),))(Tensor([5.0]))
    Tensor([0. 5.], device=xpux:0)
    """

    def __init__(
        self,
        pad_width: tuple[tuple[int, int], ...],
        mode: str = "constant",
        constant_val: float = 0.0,
    ):
        super().__init__()
        self.pad_width = pad_width
        self.mode = mode
        self.pad_val = constant_val

    def forward(self, src: Tensor) -> Tensor:
        """Any shape to that with the widths added."""
        return F.nn.pad(src, self.pad_width, self.mode, self.pad_val)
