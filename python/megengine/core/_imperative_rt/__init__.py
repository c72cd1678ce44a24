"""Names under which the reference exposes its compiled core."""

from ml_dtypes import bfloat16 as pybfloat16

from . import common, core2, ops
from .common import CompNode

__all__ = ["CompNode", "common", "core2", "ops", "pybfloat16"]
