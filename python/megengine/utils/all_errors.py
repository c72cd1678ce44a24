"""Errors that are told at once."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["raise_all"]


def raise_all(errors: Sequence[Exception]) -> None:
    """Raises the first error, with the messages of all; nothing where there are none.

    >>> raise_all([KeyError("a is missing"), ValueError("b is too small")])
    Traceback (most recent call last):
    ...
    KeyError: 'a is missing; b is too small'
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise type(errors[0])("; ".join(str(error.args[0]) for error in errors))
