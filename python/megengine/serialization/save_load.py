"""``megengine.save`` and ``megengine.load``."""

from __future__ import annotations

import os
from typing import Any

from ..tensor import Parameter, Tensor
from . import pickles
from .files import write_aside
from .locations import MapLocation, given, location_map
from .safetensors import load_safetensors, save_safetensors
from .torch_files import LEGACY_MAGIC, ZIP_MAGIC, load_torch
from .unpickler import DataUnpickler, bounded, tensor_builder

__all__ = ["load", "save"]

SAFETENSORS = ".safetensors"


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 4) -> None:
    """Saves an object: a state dict, or containers of tensors, arrays, numbers and text.

    A name that ends in ``.safetensors`` gives a file of that format: see :func:`.save_safetensors`.
    All others are pickles, which the reference reads too.

    A file given by its name is written aside and renamed when it is complete and on disk. Whenever
    the program is killed, the name holds the old file or the new one, never a part.

    Args:
        obj: the object.
        f: the name of the file (str or path), or a file open for writing bytes.
        pickle_module: a module to use in the place of :mod:`pickle`.
        pickle_protocol: the protocol of pickle.

    Raises:
        TypeError: ``f`` is neither.

    >>> import io
    >>> import megengine as mge
    >>> file = io.BytesIO()
    >>> mge.save({"weight": mge.tensor([1.0, 2.0])}, file)
    >>> _ = file.seek(0)
    >>> mge.load(file)
    {'weight': Tensor([1. 2.], device=xpux:0)}
    """
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if pickle_module is None and path.endswith(SAFETENSORS):
            save_safetensors(obj, path)
            return
        write_aside(path, lambda file: pickles.dump(obj, file, pickle_module, pickle_protocol))
    elif hasattr(f, "write"):
        pickles.dump(obj, f, pickle_module, pickle_protocol)
    else:
        raise TypeError(f"{f} does not support write")


def load(f: Any, map_location: MapLocation = None, pickle_module: Any = None) -> Any:
    """Loads what :func:`save`, here or in the reference, wrote.

    Files that end in ``.safetensors`` and those of ``torch.save`` are read by
    :func:`.load_safetensors` and :func:`.load_torch`.

    Only data are read: numbers, text, bytes, lists, tuples, dicts, sets, NumPy arrays, dtypes and
    numbers, Tensors and Parameters, and the layers of :mod:`megengine.module`. A file that names
    anything else is refused, and nothing of it is run. An object of your own class can be loaded,
    where you trust the file, with ``pickle_module=pickle``.

    Args:
        f: the name of the file (str or path), or a file open for reading bytes.
        map_location: where tensors go: the name of a device, a dict from the names in the file, or
            a function of the name.
        pickle_module: a module whose ``load`` (or ``Unpickler``) to use instead. It runs whatever
            code the file holds.

    Raises:
        pickle.UnpicklingError: the file is damaged, or holds more than data.
        ValueError: the same of a safetensors file.
        EOFError: the file ends too early.
        TypeError: ``f`` or ``map_location`` is of another kind.

    >>> import io
    >>> import pickle
    >>> class Evil:
    ...     def __reduce__(self):
    ...         return print, ("this never runs",)
    >>> load(io.BytesIO(pickle.dumps(Evil())))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    _pickle.UnpicklingError: load: the file names builtins.print, which data does not need. Have ...
    """
    if isinstance(f, (str, os.PathLike)):
        if pickle_module is None and os.fspath(f).endswith(SAFETENSORS):
            return load_safetensors(f, map_location)
        with open(f, "rb") as file:
            if pickle_module is None and _start(file).startswith((ZIP_MAGIC, LEGACY_MAGIC)):
                return load_torch(f, map_location)  # by its name, so that it is mapped
            return _load(file, map_location, pickle_module)
    if not hasattr(f, "read") or not hasattr(f, "readline"):
        raise TypeError(f"load: expected a file name or a file open for reading, got {f!r}")
    return _load(f, map_location, pickle_module)


def _start(file: Any) -> bytes:
    """The first bytes of a file that can be read again."""
    try:
        position = file.tell()
        start = file.read(len(LEGACY_MAGIC))
        file.seek(position)
    except (AttributeError, OSError, ValueError):
        return b""
    return start if isinstance(start, bytes) else b""


def _load(file: Any, map_location: MapLocation, pickle_module: Any) -> Any:
    location = location_map(map_location)
    if pickle_module is None and _start(file).startswith((ZIP_MAGIC, LEGACY_MAGIC)):
        return load_torch(file, map_location)
    if pickle_module is None:
        return DataUnpickler(bounded(file), location).load()
    if not given(map_location):
        return pickle_module.load(file)

    class Located(pickle_module.Unpickler):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            found = super().find_class(module, name)
            if found is Tensor or found is Parameter:
                build = tensor_builder(found, location)
                return type(found.__name__, (), {"__new__": lambda cls, *args: build(*args)})
            return found

    return Located(file).load()
