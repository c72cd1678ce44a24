"""`apply`, which runs an op on Tensors, and the bound Tensor type."""

from ..._core import Tensor, apply

__all__ = ["Tensor", "apply"]
