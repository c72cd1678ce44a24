"""Recording functions to run them compiled: not in this release."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["trace"]


class trace:  # noqa: N801 - the name that programs use
    """Would record a function and run it compiled; this release runs functions as they are.

    Raises:
        NotImplementedError: always. Call the function itself: what it computes is the same.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises, whatever is given."""
        raise NotImplementedError(
            "jit.trace is not supported yet: call the function itself, which computes the same"
        )
