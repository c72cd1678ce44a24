"""Switches of the runtime that programs set."""

from __future__ import annotations

__all__ = ["async_level"]

# Ops run when they are called, which is level 0 of the reference's asynchronous mode; a program may
# set another level without effect.
async_level: int = 0
