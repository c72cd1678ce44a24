"""Checks of the sizes that transforms are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .functional import is_integer


def positive(name: str, what: str, value: Any) -> int:
    """The value, an integer above 0."""
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name}: {what} must be a positive integer, got {value!r}")
    return int(value)


def size_pair(name: str, size: Any) -> tuple[int, int]:
    """Height and width, of a number for both or of two numbers."""
    pair = (size, size) if is_integer(size) else size
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"{name}: output_size must be a number or (height, width), got {size!r}")
    return positive(name, "output_size", pair[0]), positive(name, "output_size", pair[1])
