"""Choosing how kernels are chosen.

Kernels are chosen by shape and dtype here, and all of them repeat their results. What is set is
kept for programs that read it, and changes nothing.
"""

from __future__ import annotations

import enum

from ..core import _config

__all__ = [
    "Strategy",
    "get_conv_execution_strategy",
    "get_execution_strategy",
    "set_conv_execution_strategy",
    "set_execution_strategy",
]


class Strategy(enum.Flag):
    """How to choose among kernels that compute the same; ``|`` combines them.

    >>> Strategy.PROFILE | Strategy.REPRODUCIBLE
    <Strategy.PROFILE|REPRODUCIBLE: 6>
    """

    HEURISTIC = 1
    """By shape."""
    PROFILE = 2
    """By timing them."""
    REPRODUCIBLE = 4
    """Only among those that repeat their results."""
    OPTIMIZED = 8
    """Only among those that are optimised."""

    def dump(self) -> str:
        """The names, joined by ``" + "``."""
        return " + ".join(str(flag.name) for flag in self)


_valid_string_option = {
    "REPRODUCIBLE": Strategy.REPRODUCIBLE,
    "HEURISTIC": Strategy.HEURISTIC,
    "PROFILE": Strategy.PROFILE,
}


def get_execution_strategy() -> Strategy:
    """How kernels are chosen, as it was set.

    >>> get_execution_strategy()
    <Strategy.HEURISTIC: 1>
    """
    values = _config._values
    strategy = Strategy.PROFILE if values["benchmark_kernel"] else Strategy.HEURISTIC
    return strategy | Strategy.REPRODUCIBLE if values["deterministic_kernel"] else strategy


def set_execution_strategy(option: Strategy | str) -> None:
    """Sets how kernels are chosen: ``config.benchmark_kernel`` and ``config.deterministic_kernel``.

    Args:
        option: a :class:`Strategy`, or names joined by ``_``: ``"HEURISTIC"``, ``"PROFILE"``,
            ``"PROFILE_REPRODUCIBLE"``, ...

    Raises:
        ValueError: for an unknown name.
        TypeError: for what is neither.
    """
    if isinstance(option, str):
        strategy = Strategy(0)
        for name in option.split("_"):
            if name not in _valid_string_option:
                raise ValueError(
                    f"Valid option can only be one of {list(_valid_string_option)}, or combine "
                    "them with '_'."
                )
            strategy |= _valid_string_option[name]
    elif isinstance(option, Strategy):
        strategy = option
    else:
        raise TypeError(
            f"set_execution_strategy: expected a Strategy or its name, got {type(option).__name__}"
        )
    _config._reset_execution_config(
        bool(strategy & Strategy.PROFILE), bool(strategy & Strategy.REPRODUCIBLE)
    )


def get_conv_execution_strategy() -> Strategy:
    """The former name of :func:`get_execution_strategy`."""
    return get_execution_strategy()


def set_conv_execution_strategy(option: Strategy | str) -> None:
    """The former name of :func:`set_execution_strategy`."""
    set_execution_strategy(option)
