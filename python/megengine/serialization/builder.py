"""What a global in a file stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusal import refuse

__all__ = ["Builder"]


class Builder:
    """Stands for a global that a file may name; only the loader gives it a meaning.

    Args:
        name: what it is called in messages.
        build: what a call of it in the file does; without it, calls are refused.
        value: the type that it is, where there is one: data may hold it without calling it.
    """

    def __init__(self, name: str, build: Callable[..., Any] | None = None, value: Any = None):
        self.name = name
        self.value = value
        self._build = build

    def __call__(self, *args: Any) -> Any:
        """Builds what a call of it in the file describes."""
        if self._build is None:
            return refuse(f"calls {self.name}")
        return self._build(*args)

    def __repr__(self) -> str:
        return f"<{self.name} in a file>"
