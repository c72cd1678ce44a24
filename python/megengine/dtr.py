"""Settings of dynamic tensor rematerialization: dropping values and computing them again later.

Programs switch it on to train models that do not fit into a GPU's memory. Nothing is dropped here,
so no result depends on it, and :func:`enable` says so once. What lowers the memory of a training
step is tracing it (:class:`megengine.jit.trace`).

>>> import megengine as mge
>>> mge.dtr.eviction_threshold = "5GB"
>>> mge.dtr.eviction_threshold
5368709120
>>> mge.dtr.eviction_threshold = 0
"""

from __future__ import annotations

import re
import sys
import types

from .core._imperative_rt.core2 import get_option, set_option
from .logger import get_logger

__all__ = [
    "disable",
    "enable",
    "enable_sqrt_sampling",
    "eviction_threshold",
    "evictee_minimum_size",
]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_told = False


def _bytes(name: str, value: int | str) -> int:
    """A number of bytes from an int or a text such as ``"1.5GB"``."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"dtr.{name}: expected an int or a str, got {type(value).__name__}")
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"dtr.{name}: expected at least 0 bytes, got {value}")
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMG]?)B?\s*", value, re.IGNORECASE)
    if not found:
        raise ValueError(
            f"dtr.{name}: expected a number with one of the units B, KB, MB and GB, got {value!r}"
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


class _Module(types.ModuleType):
    """The module: its settings are properties, so that they can be assigned to."""

    @property
    def eviction_threshold(self) -> int:
        """Bytes of memory in use from which values would be dropped; set it to an int or a text."""
        return int(get_option("dtr_eviction_threshold"))

    @eviction_threshold.setter
    def eviction_threshold(self, value: int | str) -> None:
        set_option("dtr_eviction_threshold", _bytes("eviction_threshold", value))

    @property
    def evictee_minimum_size(self) -> int:
        """Bytes of the smallest value that would be dropped; set it to an int or a text."""
        return int(get_option("dtr_evictee_minimum_size"))

    @evictee_minimum_size.setter
    def evictee_minimum_size(self, value: int | str) -> None:
        set_option("dtr_evictee_minimum_size", _bytes("evictee_minimum_size", value))

    @property
    def enable_sqrt_sampling(self) -> bool:
        """Whether few candidates would be looked at."""
        return bool(get_option("enable_dtr_sqrt_sampling"))

    @enable_sqrt_sampling.setter
    def enable_sqrt_sampling(self, value: bool) -> None:
        set_option("enable_dtr_sqrt_sampling", int(bool(value)))


# For those who read the file: the properties above.
eviction_threshold: int
evictee_minimum_size: int
enable_sqrt_sampling: bool


def enable() -> None:
    """Asks for values to be dropped and computed again; it changes nothing, which a warning says.

    >>> import megengine as mge
    >>> mge.dtr.enable()
    >>> mge.dtr.disable()
    """
    global _told
    set_option("enable_dtr_auto_drop", 1)
    if not _told:
        get_logger(__name__).warning(
            "dtr.enable: no values are dropped and computed again here; "
            "trace the training step to lower its memory"
        )
        _told = True


def disable() -> None:
    """Takes :func:`enable` back."""
    set_option("enable_dtr_auto_drop", 0)


sys.modules[__name__].__class__ = _Module
