"""Saving and loading deeply nested objects."""

from __future__ import annotations

import sys

__all__ = ["AlternativeRecursionLimit", "max_recursion_limit"]

# Ten times Python's default. Much more would let the C code of pickle run over its stack.
_LIMIT = 10_000


class AlternativeRecursionLimit:
    """A block with another limit of nested calls.

    Args:
        new_py_limit: the limit inside; a higher one that holds already is left alone.
    """

    def __init__(self, new_py_limit: int) -> None:
        self.new_py_limit = new_py_limit
        self.orig_py_limit = 0

    def __enter__(self) -> None:
        self.orig_py_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.new_py_limit, self.orig_py_limit))

    def __exit__(self, *exc_info: object) -> None:
        sys.setrecursionlimit(self.orig_py_limit)


def max_recursion_limit() -> AlternativeRecursionLimit:
    """A block in which objects may be nested a few thousand deep.

    >>> with max_recursion_limit():
    ...     sys.getrecursionlimit() >= 10_000
    True
    """
    return AlternativeRecursionLimit(_LIMIT)
