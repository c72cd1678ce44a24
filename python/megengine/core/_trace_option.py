"""How shapes look inside a recorded function."""

from __future__ import annotations

__all__ = ["set_symbolic_shape", "use_symbolic_shape"]

_symbolic = False


def use_symbolic_shape() -> bool:
    """Whether ``shape`` of a Tensor is a Tensor inside a recorded function; False at first."""
    return _symbolic


def set_symbolic_shape(option: bool) -> bool:
    """Sets what :func:`use_symbolic_shape` says, and gives back what it said before.

    Without effect outside recorded functions: shapes of Tensors are tuples there.
    """
    global _symbolic
    before, _symbolic = _symbolic, bool(option)
    return before
