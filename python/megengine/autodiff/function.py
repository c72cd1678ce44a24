"""Ops whose gradient the user writes."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..tensor import Tensor

__all__ = ["Function"]


class Function:
    """An op with a forward and a backward of its own.

    ``forward(*inputs)`` computes outputs from Tensors; nothing that it does is recorded.
    ``backward(*output_grads)`` gets the gradient of each output, None for one that was not used,
    and returns the gradient of each input, None for one that has none. Keep on ``self`` what
    backward needs. Gradients of higher order follow where backward is made of ops.

    >>> import megengine as mge
    >>> from megengine.autodiff import Function, GradManager
    >>> class Square(Function):
    ...     def forward(self, x):
    ...         self.x = x
    ...         return x * x
    ...     def backward(self, dy):
    ...         return 2 * self.x * dy
    >>> x = mge.tensor([3.0])
    >>> gm = GradManager().attach([x])
    >>> with gm:
    ...     gm.backward(Square()(x))
    >>> x.grad
    Tensor([6.], device=xpux:0)
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs, a Tensor or several, from the inputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def backward(self, *output_grads: Any) -> Any:
        """Computes the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward()")

    def __call__(self, *args: Any) -> Any:
        """Runs forward and, inside a GradManager, records backward."""
        for a in args:
            if not isinstance(a, Tensor):
                raise TypeError(
                    f"{type(self).__name__}: expected Tensors as inputs, got {type(a).__name__}; "
                    "pass other arguments to the constructor"
                )
        return _core.call_function(self, *args)
