"""autocast."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import _core

__all__ = ["autocast"]

P = ParamSpec("P")
R = TypeVar("R")

_DTYPES = ("float16", "bfloat16", "float32")


class _Default(str):
    """A default, told apart from the same text that a caller passes."""


# The reference's default. Nobody has asked for it: the low precision that is fast here stands in.
_FLOAT16 = _Default("float16")


def _name(parameter: str, dtype: Any) -> str:
    name = dtype if isinstance(dtype, str) else None
    if name is None:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            raise TypeError(
                f"autocast: expected the name of a dtype as {parameter}, got {type(dtype).__name__}"
            ) from None
    if name not in _DTYPES:
        raise ValueError(f"autocast: {parameter} can be {', '.join(_DTYPES)}, got {name!r}")
    return str(name)


def _low_name(dtype: Any) -> str:
    return "bfloat16" if isinstance(dtype, _Default) else _name("low_prec_dtype", dtype)


def _high_name(dtype: Any) -> str:
    return _name("high_prec_dtype", dtype)


class autocast:  # noqa: N801 - the name that programs use
    """Runs what gains from it in a low precision dtype, as a context manager or a decorator.

    Inside, operators get their inputs in the dtype that suits them:

    * convolutions (1-d, 2-d and transposed), ``matmul``, ``linear`` and ``batch_norm`` run in the
      low precision dtype and give it; attention computes in it;
    * exp, log, powers, roots, division, trigonometric functions, norms (layer, group, instance),
      losses, ``logsumexp`` and ``logsoftmax`` run in the high precision dtype;
    * everything else runs in the dtype that it is given; mixed dtypes go to the widest.

    Parameters stay what they are. While blocks are open, what was cast to the low precision is kept
    until its source changes or dies, so that weights are cast once and not at each use. Gradients
    come out in the dtype of the parameters; backward may run inside or outside.

    Blocks nest, and ``autocast(enabled=False)`` turns autocast off inside. The setting belongs to
    the running thread.

    Args:
        enabled: whether to cast.
        low_prec_dtype: ``"bfloat16"``, ``"float16"`` or ``"float32"``. Without it bfloat16 is used:
            CPUs have instructions for it (``avx512_bf16``, AMX), and it has the range of float32,
            so that gradients need no scaling. float16, where it is asked for, is correct, but most
            CPUs compute it in float32 and convert, which takes longer than float32 alone.
        high_prec_dtype: the same dtypes; ``"float32"`` without it.

    Raises:
        ValueError: for another dtype.
        TypeError: for what is no dtype, and for ``@autocast`` without parentheses.

    Examples:
        >>> import numpy as np
        >>> import megengine as mge
        >>> import megengine.functional as F
        >>> from megengine.amp import autocast
        >>> a = mge.tensor(np.ones((2, 3), np.float32))
        >>> with autocast():
        ...     y = F.matmul(a, a, transpose_b=True)
        ...     z = F.exp(y)
        >>> print(y.dtype, z.dtype)
        bfloat16 float32
        >>> @autocast(low_prec_dtype="float16")
        ... def product(a, b):
        ...     return F.matmul(a, b)
        >>> print(product(a, a.T).dtype)
        float16
    """

    def __init__(
        self,
        enabled: bool = True,
        low_prec_dtype: str = _FLOAT16,
        high_prec_dtype: str = "float32",
    ) -> None:
        if callable(enabled):
            raise TypeError("autocast: write @autocast() with parentheses")
        self.enabled = bool(enabled)
        self.low_prec_dtype = _low_name(low_prec_dtype)
        self.high_prec_dtype = _high_name(high_prec_dtype)

    def __enter__(self) -> None:
        _core.enter_autocast(self.enabled, self.low_prec_dtype, self.high_prec_dtype)

    def __exit__(self, *exc_info: object) -> None:
        _core.leave_autocast()

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """A function that runs ``func`` with autocast set so."""

        @functools.wraps(func)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return func(*args, **kwargs)

        return wrapper
