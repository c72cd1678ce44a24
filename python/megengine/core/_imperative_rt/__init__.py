"""Names under which the reference exposes its compiled core."""

from . import common, core2, ops

__all__ = ["common", "core2", "ops"]
