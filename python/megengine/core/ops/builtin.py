"""One class for each op of the core, made from its list of fields.

An op object holds attributes; :func:`~megengine.core._imperative_rt.core2.apply` runs it:

>>> import megengine as mge
>>> from megengine.core.ops import builtin
>>> from megengine.core._imperative_rt.core2 import apply
>>> (y,) = apply(builtin.Elemwise(mode="exp"), mge.tensor([0.0]))
>>> y
Tensor([1.], device=xpux:0)
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from ..._core import OpDef, op_types
from . import composed
from .composed import *  # noqa: F403

__all__ = ["OpDef", "backup_keys", *composed.__all__]

if TYPE_CHECKING:
    # The classes are made from the registry below, where a type checker cannot see them.
    def __getattr__(name: str) -> type[OpDef]: ...


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


# Nested enums that the reference names after what they hold, not after the field.
_ENUMS = {
    "bmode": "BorderMode",
    "border_mode": "BorderMode",
    "border_type": "BorderMode",
    "imode": "InterpolationMode",
}


def _assign(self: OpDef, name: str, value: Any) -> None:
    self._set_field(name, value)


def _op_class(info: dict[str, Any]) -> type[OpDef]:
    """The Python class of one op; enum fields become nested enums (``Elemwise.Mode``)."""
    name = info["name"]
    fields = ", ".join(f"{field}={default!r}" for field, default, _ in info["fields"])
    members: dict[str, Any] = {
        "__doc__": f"{name}({fields})",
        "__module__": __name__,
        "__setattr__": _assign,
        "_type_name": name,
    }
    for field, _, choices in info["fields"]:
        if choices:
            kind = _ENUMS.get(field) or _camel(field)
            members[kind] = enum.Enum(kind, choices, qualname=f"{name}.{kind}")
    return type(name, (OpDef,), members)


for _info in op_types():
    globals()[_info["name"]] = _op_class(_info)
    __all__.append(_info["name"])
del _info


def _with_items(native: type[OpDef], mode: str) -> type[OpDef]:
    """An indexing op that also takes the reference's ``items``.

    An item is (axis, whether there is a start, a stop, a step, a position); these are further
    inputs of the op then.
    """

    def new(cls: type[OpDef], items: Any = None, **fields: Any) -> OpDef:
        if items is None:
            return native(**fields)
        codes = [
            axis * 16 + sum(bool(flag) << bit for bit, flag in enumerate(flags))
            for axis, *flags in items
        ]
        return globals()["IndexItems"](mode=mode, items=codes)

    return type(native.__name__, (), {"__new__": new, "__doc__": native.__doc__})  # type: ignore[return-value]


for _name, _mode in {
    "Subtensor": "get",
    "SetSubtensor": "set",
    "IncrSubtensor": "incr",
    "IndexingMultiAxisVec": "get_vec",
    "IndexingSetMultiAxisVec": "set_vec",
    "IndexingIncrMultiAxisVec": "incr_vec",
}.items():
    globals()[_name] = _with_items(globals()[_name], _mode)
del _name, _mode


def _mesh(name: str, mode: str, batched: bool) -> type[OpDef]:
    """One of the reference's mesh indexing ops, whose ``items`` are as in :func:`_with_items`."""

    def new(cls: type[OpDef], items: Any = ()) -> OpDef:
        codes = [
            axis * 16 + sum(bool(flag) << bit for bit, flag in enumerate(flags))
            for axis, *flags in items
        ]
        return globals()["MeshItems"](mode=mode, batched=batched, items=codes)

    doc = globals()["MeshItems"].__doc__
    return type(name, (), {"__new__": new, "__doc__": doc})  # type: ignore[return-value]


for _batched in (False, True):
    for _name, _mode in {"": "get", "Set": "set", "Incr": "incr"}.items():
        _name = f"{'Batched' if _batched else ''}{_name}MeshIndexing"
        globals()[_name] = _mesh(_name, _mode, _batched)
        __all__.append(_name)
del _name, _mode, _batched


def backup_keys() -> None:
    """Does nothing; the reference exports such a function by accident."""
