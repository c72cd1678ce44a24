"""How reading ends where a file is not what it should be."""

from __future__ import annotations

import pickle
from typing import NoReturn

__all__ = ["damaged", "refuse"]


_WAY_OUT = (
    "Have its author save state dicts, such as net.state_dict(), or if you trust its author, load "
    "it with pickle_module=pickle, which runs whatever code it holds"
)


def refuse(what: str, way_out: str = _WAY_OUT) -> NoReturn:
    """Raises for what could run code, or could do so in another place than here."""
    raise pickle.UnpicklingError(f"load: the file {what}, which data does not need. {way_out}")


def damaged(what: str) -> NoReturn:
    """Raises for what is no file of its kind, or not a whole one."""
    raise pickle.UnpicklingError(f"load: the file is damaged: {what}")
