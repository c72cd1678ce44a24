"""Devices and threads."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from ._core import CompNode

__all__ = [
    "as_device",
    "coalesce_free_memory",
    "get_allocated_memory",
    "get_default_device",
    "get_device_count",
    "get_max_allocated_memory",
    "get_max_reserved_memory",
    "get_mem_status_bytes",
    "get_num_threads",
    "get_reserved_memory",
    "is_cuda_available",
    "reset_max_memory_stats",
    "set_default_device",
    "set_num_threads",
]


def as_device(obj: Any) -> CompNode:
    """The device of a name, a Tensor or a device.

    >>> as_device("cpu0")
    CompNode("cpu0:0" from "cpu0:0")
    """
    if isinstance(obj, CompNode):
        return obj
    device = getattr(obj, "device", None)
    return device if isinstance(device, CompNode) else CompNode(str(obj))


def get_default_device() -> str:
    """The name of the device on which tensors are made: ``"xpux"`` (any) at first.

    >>> get_default_device()
    'xpux'
    """
    return str(_core.default_device()).removesuffix(":0")


def set_default_device(device: Any = "xpux") -> None:
    """Makes tensors on this device from now on.

    Args:
        device: ``"xpux"``, ``"cpux"`` (any CPU), ``"cpu0"``, ``"cpu1"``, ...

    Raises:
        ValueError: for an unknown name.
        RuntimeError: for a device that is not there, such as ``"gpu0"``.
    """
    _core.set_default_device(str(device))


def get_device_count(device_type: str) -> int:
    """How many devices of a type there are: CPUs of this machine, and no others.

    >>> get_device_count("gpu")
    0
    """
    if device_type in ("cpu", "xpu"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if device_type in ("gpu", "cuda", "rocm", "atlas", "cambricon"):
        return 0
    raise ValueError(f"get_device_count: unknown device type {device_type!r}")


def is_cuda_available() -> bool:
    """Whether there is a CUDA device: not in this build.

    >>> is_cuda_available()
    False
    """
    return False


def set_num_threads(n: int) -> None:
    """Sets on how many threads ops compute; an extension.

    At first it is the number of CPUs that the process may use, or ``OMP_NUM_THREADS`` where that
    is lower. Results do not depend on it.

    Raises:
        ValueError: if n is not positive.
    """
    _core.set_num_threads(n)


def get_num_threads() -> int:
    """On how many threads ops compute; an extension."""
    return _core.num_threads()


def get_allocated_memory(device: Any = None) -> int:
    """Bytes in live tensors."""
    return _core.memory_stats()["allocated"]


def get_reserved_memory(device: Any = None) -> int:
    """Bytes taken from the system: live tensors and what is kept for new ones."""
    return _core.memory_stats()["reserved"]


def get_max_allocated_memory(device: Any = None) -> int:
    """The most bytes in live tensors since the start or :func:`reset_max_memory_stats`."""
    return _core.memory_stats()["max_allocated"]


def get_max_reserved_memory(device: Any = None) -> int:
    """The most bytes taken from the system since the start or :func:`reset_max_memory_stats`."""
    return _core.memory_stats()["max_reserved"]


def reset_max_memory_stats(device: Any = None) -> None:
    """Starts the two maxima again from what is in use now."""
    _core.reset_max_memory_stats()


def get_mem_status_bytes(device: Any = None) -> tuple[int, int]:
    """Bytes of memory of the machine: in all, and free."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page


def coalesce_free_memory() -> None:
    """Gives the memory that is kept for new tensors back to the system."""
    _core.release_cached_memory()


_asked_for = os.environ.get("MGE_DEFAULT_DEVICE")
if _asked_for:
    set_default_device(_asked_for)
