"""OpenMGE: programs written for MegEngine, on today's Python, fast on CPUs.

>>> import megengine as mge
>>> mge.tensor([1.0, 2.0]) + 1
Tensor([2. 3.], device=xpux:0)
"""

import importlib as _importlib
import os as _os
from typing import Any as _Any

# GNU OpenMP lets a waiting thread spin for milliseconds. On a machine that other programs use as
# well each then waits for the rest: the digits example took 55 s instead of 20 s. A wait that
# gives up sooner costs nothing on a quiet machine (measured). Read when the core is loaded.
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "2000")

from . import version  # isort: skip
from .tensor import Parameter, Tensor, tensor  # isort: skip
from . import (
    amp,
    array_api,
    autodiff,
    config,
    core,
    data,
    device,
    distributed,
    distributions,
    dtr,
    functional,
    jit,
    logger,
    module,
    optimizer,
    random,
    serialization,
    utils,
)
from .device import (
    coalesce_free_memory,
    get_allocated_memory,
    get_cuda_compute_capability,
    get_cuda_device_property,
    get_cuda_driver_version,
    get_cuda_version,
    get_cudnn_version,
    get_default_device,
    get_device_count,
    get_max_allocated_memory,
    get_max_reserved_memory,
    get_mem_status_bytes,
    get_reserved_memory,
    get_tensorrt_version,
    is_atlas_available,
    is_cambricon_available,
    is_cuda_available,
    is_rocm_available,
    reset_max_memory_stats,
    set_default_device,
    set_prealloc_config,
)
from .functional import distributed as _collectives  # binds F.distributed
from .logger import enable_debug_log, get_logger, set_log_file, set_log_level
from .serialization import load, save
from .version import __version__

__all__ = [
    "Parameter",
    "Tensor",
    "__version__",
    "amp",
    "array_api",
    "autodiff",
    "check_misc",
    "coalesce_free_memory",
    "config",
    "core",
    "data",
    "device",
    "distributed",
    "distributions",
    "dtr",
    "enable_debug_log",
    "functional",
    "get_allocated_memory",
    "get_cuda_compute_capability",
    "get_cuda_device_property",
    "get_cuda_driver_version",
    "get_cuda_version",
    "get_cudnn_version",
    "get_default_device",
    "get_device_count",
    "get_logger",
    "get_max_allocated_memory",
    "get_max_reserved_memory",
    "get_mem_status_bytes",
    "get_reserved_memory",
    "get_tensorrt_version",
    "hub",
    "is_atlas_available",
    "is_cambricon_available",
    "is_cuda_available",
    "is_rocm_available",
    "jit",
    "load",
    "logger",
    "module",
    "optimizer",
    "random",
    "reset_max_memory_stats",
    "save",
    "serialization",
    "set_default_device",
    "set_log_file",
    "set_log_level",
    "set_prealloc_config",
    "tensor",
    "utils",
    "version",
]


def check_misc() -> None:
    """Would check that libraries which the reference bundles fit together: there are none."""


def _full_sync() -> None:
    """Waits for running ops: there are none, since each runs when it is called."""


_NOT_YET = frozenset({"quantization", "traced_module"})


def __getattr__(name: str) -> _Any:
    if name == "hub":  # imported when it is used: the network's modules take time
        return _importlib.import_module("megengine.hub")
    if name in _NOT_YET:
        raise AttributeError(
            f"megengine.{name} is not supported yet; README.md lists what this release has"
        )
    raise AttributeError(f"module 'megengine' has no attribute {name!r}")
