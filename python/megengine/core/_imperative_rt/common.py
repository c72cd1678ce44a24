"""Devices."""

from ..._core import CompNode

__all__ = ["CompNode"]
