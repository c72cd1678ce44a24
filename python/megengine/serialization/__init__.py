"""Saving and loading: ``megengine.save`` and ``megengine.load``.

The format is a pickle of plain containers, NumPy arrays and Tensors, as the reference writes it:
either of the two reads what the other wrote. Reading runs no code from the file: see :func:`load`.
"""

from __future__ import annotations

from ..device import get_default_device
from ..tensor import Tensor
from ..utils.max_recursion_limit import max_recursion_limit
from .files import sync_directory, write_aside
from .locations import dmap
from .locations import location_map as _get_callable_map_location
from .safetensors import load_safetensors, safetensors_metadata, save_safetensors
from .save_load import load, save
from .torch_files import load_torch

__all__ = [
    "dmap",
    "get_default_device",
    "load",
    "load_safetensors",
    "load_torch",
    "max_recursion_limit",
    "safetensors_metadata",
    "save",
    "save_safetensors",
]
