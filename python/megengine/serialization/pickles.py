"""Writing pickles that the reference reads too."""

from __future__ import annotations

import pickle
import types
from typing import IO, Any, ClassVar

import numpy as np

from ..core.tensor.dtype import bfloat16
from .modules import REFERENCE_NAMES, reference_attributes

__all__ = ["dump"]

# The implementation in Python, whose instructions can be replaced one by one.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Names things as the reference and NumPy 1 do, which NumPy 2 understands too."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written, where that is not as it says itself."""
        if type(obj) is np.ndarray:
            # What protocol 5 adds for arrays fails in this pickler where an array is empty.
            return obj.__reduce_ex__(min(self.proto, 4))
        if isinstance(obj, np.dtype) and obj.names is not None:
            reduced: Any = obj.__reduce__()
            call, args, state = reduced
            flags = state[7]
            if flags > 127:  # a byte with a sign, to NumPy 1
                flags -= 256
            return call, args, (*state[:7], flags, *state[8:])
        added = reference_attributes(obj)
        if added:
            call, args, state, *_ = obj.__reduce_ex__(self.proto)
            return call, args, {**added, **state}
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Writes the name of a type or a function."""
        module = getattr(obj, "__module__", None) or ""
        if obj is bfloat16.type:
            self._write_global(obj, "megengine.core._imperative_rt", "pybfloat16")
        elif module.startswith("numpy._core."):
            old = "numpy.core." + module.removeprefix("numpy._core.")
            self._write_global(obj, old, obj.__qualname__)
        elif (module, getattr(obj, "__qualname__", "")) in REFERENCE_NAMES:
            self._write_global(obj, REFERENCE_NAMES[module, obj.__qualname__], obj.__qualname__)
        else:
            super().save_global(obj, name)

    def _write_global(self, obj: Any, module: str, name: str) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode("ascii"))
        self.memoize(obj)

    def save_type(self, obj: Any) -> None:
        """Writes a type."""
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch: ClassVar[dict[Any, Any]] = {
        **_PythonPickler.dispatch,
        types.FunctionType: save_global,
        type: save_type,
    }


def dump(obj: Any, file: IO[bytes], pickle_module: Any, protocol: int) -> None:
    """Writes an object with our pickler, or with the one of another module."""
    if pickle_module is None or pickle_module is pickle:
        _Pickler(file, protocol).dump(obj)
    else:
        pickle_module.dump(obj, file, protocol)
