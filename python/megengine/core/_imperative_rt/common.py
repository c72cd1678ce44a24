"""Devices and dtypes."""

from ml_dtypes import bfloat16 as bfloat16

from ..._core import CompNode
from ...device import (
    DeviceType,
    get_cuda_driver_version,
    get_cuda_version,
    get_cudnn_version,
    get_tensorrt_version,
    set_prealloc_config,
)
from ..tensor.dtype import get_scale, get_zero_point, is_dtype_equal, is_quantize

pybfloat16 = bfloat16

__all__ = [
    "CompNode",
    "DeviceType",
    "bfloat16",
    "get_cuda_driver_version",
    "get_cuda_version",
    "get_cudnn_version",
    "get_scale",
    "get_tensorrt_version",
    "get_zero_point",
    "is_dtype_equal",
    "is_quantize",
    "pybfloat16",
    "set_prealloc_config",
]
