"""Ops as Python objects."""

from . import builtin

__all__ = ["builtin"]
