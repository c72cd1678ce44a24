"""Helpers of the functional modules that programs import from here."""

from __future__ import annotations

from .._core import apply
from ..core.ops import builtin
from ..tensor import Tensor
from .elemwise import abs as _abs
from .elemwise import maximum, minimum
from .metric import topk_accuracy

__all__ = ["topk_accuracy"]


def _assert_equal(
    expect: Tensor, get: Tensor, *, maxerr: float = 0.0001, verbose: bool = False
) -> Tensor:
    """Raises unless two Tensors are close: the difference over the smaller magnitude, at least 1.

    Args:
        expect: what is given back.
        get: what is compared, of a shape that broadcasts.
        maxerr: the largest error.
        verbose: put the values into the message.

    Raises:
        RuntimeError: where an element differs by more.

    >>> import megengine as mge
    >>> _assert_equal(mge.tensor([1.0, 2.0]), mge.tensor([1.05, 2.0]), maxerr=0.1)
    Tensor([1. 2.], device=xpux:0)
    """
    scale = maximum(minimum(_abs(expect), _abs(get)), 1)
    error = _abs(expect - get) / scale
    op = builtin.AssertEqual(maxerr=maxerr, verbose=verbose)
    return apply(op, expect, get, error)[0]
