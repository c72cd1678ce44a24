"""Adding in place."""

from __future__ import annotations

from .._core import apply, apply_in_place
from ..core.ops import builtin
from ..core.ops.builtin import InplaceAdd
from ..tensor import Tensor

__all__ = ["InplaceAdd", "apply"]

_ADD = builtin.InplaceAdd()
_FUSED = builtin.Elemwise(mode="FUSE_MUL_ADD4")


def _inplace_add_(dest: Tensor, delta: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Sets ``dest`` to ``alpha * dest + beta * delta``, in its own dtype, and gives it back.

    Args:
        dest: of any shape and number type.
        delta: of the same shape, or without dimensions.
        alpha: one number, as a Tensor or not.
        beta: likewise.

    Raises:
        ValueError: for another shape of ``delta``; ``dest`` is unchanged then.

    >>> import megengine as mge
    >>> x = mge.tensor([1.0, 2.0])
    >>> _inplace_add_(x, mge.tensor([3.0, 4.0]), alpha=1.0, beta=-1.0) is x
    True
    >>> x
    Tensor([-2. -2.], device=xpux:0)
    """
    if not isinstance(dest, Tensor):
        raise TypeError(f"_inplace_add_: expected dest as a Tensor, got {type(dest).__name__}")
    operands = [
        x if isinstance(x, Tensor) else Tensor(x, dtype=dest.dtype, device=dest.device)
        for x in (delta, alpha, beta)
    ]
    apply_in_place(_FUSED, *_ADD.operands(dest, *operands))
    return dest
