"""Errors that say who raised them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_NAMED = re.compile(r"[A-Za-z_][\w.]*( [\w.]+)?: ")


def named(function: F) -> F:
    """Puts the function's name before errors of Python and NumPy about its arguments.

    ``int('a')`` deep inside a convolution says nothing about convolutions. Errors of ours begin
    with a name already, and stay as they are. Costs a tenth of a microsecond a call, so the
    functions that are one quick op do without.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
            text = str(error)
            ours = isinstance(error, (TypeError, ValueError, IndexError))
            if ours and (name in text or _NAMED.match(text)):
                raise
            kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
            raise kind(f"{name}: {text}") from error

    return cast(F, call)
