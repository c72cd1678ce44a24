"""Names under which the reference exposes its compiled core."""

from typing import Any

from ml_dtypes import bfloat16 as pybfloat16

from . import common, core2, ops
from .common import CompNode

__all__ = ["CompNode", "common", "core2", "ops", "pybfloat16"]


def __getattr__(name: str) -> Any:
    if name == "VarNode":  # what graph tools ask values of a loaded graph for
        from ...utils.network_node import VarNode

        return VarNode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
