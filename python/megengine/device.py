"""Devices and threads."""

from __future__ import annotations

import enum
import os
from typing import Any, NoReturn

from . import _core
from ._core import CompNode

__all__ = [
    "DeviceType",
    "as_device",
    "coalesce_free_memory",
    "get_allocated_memory",
    "get_cuda_compute_capability",
    "get_cuda_device_property",
    "get_cuda_driver_version",
    "get_cuda_version",
    "get_cudnn_version",
    "get_default_device",
    "get_device_count",
    "get_max_allocated_memory",
    "get_max_reserved_memory",
    "get_mem_status_bytes",
    "get_num_threads",
    "get_reserved_memory",
    "get_tensorrt_version",
    "is_atlas_available",
    "is_cambricon_available",
    "is_cuda_available",
    "is_rocm_available",
    "reset_max_memory_stats",
    "set_default_device",
    "set_num_threads",
    "set_prealloc_config",
]


class DeviceType(enum.Enum):
    """Kinds of devices that programs name; only CPUs are there."""

    UNSPEC = 0
    CUDA = 1
    CPU = 2
    ROCM = 8
    CAMBRICON = 12
    ATLAS = 13


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
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if device_type in ("gpu", "cuda", "rocm", "atlas", "cambricon"):
        return 0
    raise ValueError(f"get_device_count: unknown device type {device_type!r}")


def is_cuda_available() -> bool:
    """Whether there is a CUDA device: not in this build.

    >>> is_cuda_available()
    False
    """
    return False


def is_rocm_available() -> bool:
    """Whether there is a ROCm device: not in this build.

    >>> is_rocm_available()
    False
    """
    return False


def is_cambricon_available() -> bool:
    """Whether there is a Cambricon device: not in this build.

    >>> is_cambricon_available()
    False
    """
    return False


def is_atlas_available() -> bool:
    """Whether there is an Atlas device: not in this build.

    >>> is_atlas_available()
    False
    """
    return False


def _no_cuda(function: str) -> NoReturn:
    raise RuntimeError(f"{function}: this build of OpenMGE has no CUDA; see is_cuda_available()")


def get_cuda_version() -> int:
    """The version of CUDA that the build uses.

    Raises:
        RuntimeError: this build uses none.
    """
    _no_cuda("get_cuda_version")


def get_cuda_driver_version() -> int:
    """The version of CUDA's driver.

    Raises:
        RuntimeError: this build uses none.
    """
    _no_cuda("get_cuda_driver_version")


def get_cudnn_version() -> int:
    """The version of cuDNN that the build uses.

    Raises:
        RuntimeError: this build uses none.
    """
    _no_cuda("get_cudnn_version")


def get_tensorrt_version() -> int:
    """The version of TensorRT that the build uses.

    Raises:
        RuntimeError: this build uses none.
    """
    _no_cuda("get_tensorrt_version")


def get_cuda_compute_capability(device: int, device_type: Any = DeviceType.CUDA) -> int:
    """The compute capability of a CUDA device.

    Raises:
        RuntimeError: this build knows no such device.
    """
    _no_cuda("get_cuda_compute_capability")


def get_cuda_device_property(device: int, device_type: Any = DeviceType.CUDA) -> Any:
    """Name, memory and capability of a CUDA device.

    Raises:
        RuntimeError: this build knows no such device.
    """
    _no_cuda("get_cuda_device_property")


def set_prealloc_config(
    alignment: int = 1,
    min_req: int = 32 * 1024 * 1024,
    max_overhead: int = 0,
    growth_factor: float = 2.0,
    device_type: Any = DeviceType.CUDA,
) -> None:
    """Tunes how memory of a CUDA device is taken in advance: without effect on a CPU.

    Raises:
        ValueError: if growth_factor is below 1 or a size is negative.
    """
    if growth_factor < 1 or min(alignment, min_req, max_overhead) < 0:
        raise ValueError("set_prealloc_config: expected sizes >= 0 and growth_factor >= 1")


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
