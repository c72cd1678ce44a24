"""What the namespace says about itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ..device import get_default_device
from . import data_types

__all__ = ["__array_namespace_info__"]

# The versions of the standard that programs may ask for.
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_DTYPES += ["float32", "float64", "complex64", "complex128"]


class _Info:
    """The answer of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """What is there: masks as indices, shapes that depend on data, up to 8 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Any:
        """The device of new Tensors."""
        return _core.CompNode(str(get_default_device()))

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of what comes without one."""
        return {
            "real floating": data_types.float32,
            "complex floating": data_types.complex64,
            "integral": data_types.int32,
            "indexing": data_types.int32,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name, all or those of a kind; see :func:`isdtype`."""
        found = {n: np.dtype(n) for n in _DTYPES}
        return {n: d for n, d in found.items() if kind is None or data_types.isdtype(d, kind)}

    def devices(self) -> tuple[Any, ...]:
        """All devices: the CPU."""
        return (self.default_device(),)


def __array_namespace_info__() -> _Info:  # noqa: N807 - the standard's name
    """What the namespace supports: dtypes, devices, and which are the defaults."""
    return _Info()
