"""Reading pickles that hold data, and refusing all others."""

from __future__ import annotations

import collections
import functools
import io
import os
import pickle
import struct
from collections.abc import Callable
from typing import IO, Any, ClassVar

import numpy as np

from ..tensor import Parameter, Tensor
from . import numpy_data
from .builder import Builder
from .modules import Group, check_built, module_classes, set_module_state
from .refusal import damaged, refuse

__all__ = ["DataUnpickler", "bounded", "tensor_builder"]

# The implementation in Python, whose instructions can be replaced one by one.
_PythonUnpickler: Any = pickle._Unpickler


class _Bounded(io.RawIOBase):
    """A file that refuses to read more than it holds, before memory is taken for it."""

    def __init__(self, file: IO[bytes], size: int):
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        if size > self._left:
            raise EOFError("Ran out of input")
        data = self._file.read(size)
        self._left -= len(data)
        return data

    def readline(self, size: int | None = -1) -> bytes:
        data = self._file.readline(-1 if size is None else size)
        self._left -= len(data)
        return data


def bounded(file: Any) -> Any:
    """The file itself, or one that knows its size where it can tell."""
    if isinstance(file, io.BytesIO):
        return file
    try:
        size = os.fstat(file.fileno()).st_size
        position = file.tell()
    except (AttributeError, OSError, ValueError):
        return file
    return _Bounded(file, size - position) if size else file


# ---- what a file may build -----------------------------------------------------------------------


def _encode(text: Any, encoding: Any) -> bytes:
    # How protocols before 3 write bytes.
    if not isinstance(text, str) or encoding != "latin1":
        refuse("encodes text in an unusual way")
    return text.encode("latin1")


def _items(items: Any) -> Any:
    if type(items) not in (list, tuple):
        refuse("builds a container in an unusual way")
    return items


def _set_builder(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def build(items: Any = ()) -> Any:
        for item in _items(items):
            _check_key(item)
        return kind(items)

    return build


def _ordered_dict(items: Any = ()) -> collections.OrderedDict[Any, Any]:
    out: collections.OrderedDict[Any, Any] = collections.OrderedDict()
    for key, value in map(_items, _items(items)):
        _check_key(key)
        out[key] = value
    return out


_FACTORIES = (None, list, dict, set, tuple, int, float, str, bool, collections.OrderedDict)


def _defaultdict(factory: Any = None) -> collections.defaultdict[Any, Any]:
    if not any(factory is known for known in _FACTORIES):
        refuse(f"makes a defaultdict of {str(factory)[:40]}")
    return collections.defaultdict(factory)


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encode(data, encoding))


def _complex(real: Any, imag: Any) -> complex:
    if not isinstance(real, float) or not isinstance(imag, float):
        refuse("builds a complex number in an unusual way")
    return complex(real, imag)


def _new_module(kind: Any) -> Callable[[], Any]:
    return lambda: kind.__new__(kind)


@functools.cache
def _layer_builders() -> dict[tuple[str, str], Builder]:
    return {
        names: Builder(".".join(names), _new_module(layer), layer)
        for names, layer in module_classes().items()
    }


_BUILDERS: dict[tuple[str, str], Builder] = {
    ("collections", "OrderedDict"): Builder("OrderedDict", _ordered_dict, collections.OrderedDict),
    ("collections", "defaultdict"): Builder("defaultdict", _defaultdict, collections.defaultdict),
    ("builtins", "set"): Builder("set", _set_builder(set), set),
    ("builtins", "frozenset"): Builder("frozenset", _set_builder(frozenset), frozenset),
    ("builtins", "bytes"): Builder("bytes", lambda: b"", bytes),  # how old protocols write none
    ("builtins", "bytearray"): Builder("bytearray", _bytearray, bytearray),
    ("builtins", "complex"): Builder("complex", _complex, complex),
    ("_codecs", "encode"): Builder("encode", _encode),
    **{
        ("builtins", kind.__name__): Builder(kind.__name__, value=kind)
        for kind in (bool, int, float, str, list, tuple, dict)
    },
    ("megengine.distributed.group", "Group"): Builder("Group", Group, Group),
    **numpy_data.BUILDERS,
}
for _module, _name in list(_BUILDERS):
    if _module == "builtins":
        _BUILDERS["__builtin__", _name] = _BUILDERS["builtins", _name]
_BUILDERS["__builtin__", "long"] = _BUILDERS["builtins", "int"]
_BUILDERS["__builtin__", "unicode"] = _BUILDERS["builtins", "str"]


def tensor_builder(kind: type[Tensor], location: Callable[[str], str]) -> Callable[..., Tensor]:
    """What a file's call of Tensor or Parameter does."""

    def build(data: Any, dtype: Any = None, device: Any = "xpux:0") -> Tensor:
        if not isinstance(data, np.ndarray) or not isinstance(device, str):
            refuse("builds a tensor in an unusual way")
        return kind(data, dtype=data.dtype, device=location(device))

    return build


_OBJECT = Builder("object")


def _reconstructor(kind: Any, base: Any, state: Any) -> Any:
    # How protocols 0 and 1 write a new object.
    if base is not _OBJECT or state is not None or kind not in (*module_classes().values(), Group):
        refuse("builds an object in an unusual way")
    return kind.__new__(kind)


for _module in ("copyreg", "copy_reg"):
    _BUILDERS[_module, "_reconstructor"] = Builder("_reconstructor", _reconstructor)
for _module in ("builtins", "__builtin__"):
    _BUILDERS[_module, "object"] = _OBJECT


# ---- keys ----------------------------------------------------------------------------------------

_MOST_KEY_PARTS = 64
_KEY_TYPES: tuple[type, ...] = (type(None), bool, float, str, bytes, type, Tensor)
_KEY_TYPES += (np.str_, np.bytes_, np.bool_, np.integer, np.floating)


def _check_key(key: Any) -> None:
    """Raises for a key whose hash takes time that the size of the file does not bound.

    Tuples in tuples can make that exponential, and numbers can be chosen whose hashes are equal.
    """
    left, count = [key], 1
    while left:
        item = left.pop()
        if isinstance(item, (tuple, frozenset)):
            count += len(item)
            if count <= _MOST_KEY_PARTS:
                left.extend(item)
        elif isinstance(item, np.dtype):
            count += 1 if item.names is None and item.subdtype is None else _MOST_KEY_PARTS
        elif not isinstance(item, _KEY_TYPES) and (type(item) is not int or item.bit_length() > 64):
            refuse(f"has a key of type {type(item).__name__} in a dict or set, or too large a one")
        if count > _MOST_KEY_PARTS:
            refuse(f"has a key of more than {_MOST_KEY_PARTS} parts in a dict or set")


_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


class DataUnpickler(_PythonUnpickler):  # type: ignore[misc]
    """Reads data and nothing else.

    Every opcode that could look up, call or fill in something outside the list of allowed names
    is replaced. The unpickler in C has no place to do that: it would call whatever stands on the
    stack, and let a file set the insides of NumPy's types.

    Args:
        file: a file open for reading bytes; see :func:`bounded`.
        location: where a tensor goes, from the name of its device in the file.
        builders: names that this file may hold besides.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(
        self,
        file: Any,
        location: Callable[[str], str] = lambda name: name,
        builders: dict[tuple[str, str], Builder] | None = None,
    ):
        # Text of Python 2 may be bytes; latin1 keeps them as they are.
        super().__init__(file, encoding="latin1")
        self._builders = {**_BUILDERS, **_layer_builders(), **(builders or {})}
        for kind in (Tensor, Parameter):
            made = Builder(f"megengine.{kind.__name__}", tensor_builder(kind, location), kind)
            self._builders["megengine.tensor", kind.__name__] = made
            self._builders["megengine", kind.__name__] = made
        self._calls = {id(b.value): b for b in self._builders.values() if b.value is not None}
        self._layer_types = set(module_classes().values())
        self._layers: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a global of the file, where that is one of data."""
        try:
            builder = self._builders[module, name]
        except KeyError:
            return refuse(f"names {module}.{name}")
        return builder if builder.value is None else builder.value

    def _call(self) -> None:
        args, called = self.stack.pop(), self.stack.pop()
        builder = called if type(called) is Builder else self._calls.get(id(called))
        if builder is None or not isinstance(args, tuple):
            refuse("calls something that is not a type of data")
        made = builder(*args)
        if type(made) in self._layer_types:
            self._layers.append(made)
        self.append(made)

    def _call_with_keywords(self) -> None:
        if self.stack.pop():
            refuse("calls a type with keywords")
        self._call()

    def _build(self) -> None:
        state, inst = self.stack.pop(), self.stack[-1]
        if isinstance(inst, np.ndarray):
            self._replace(inst, numpy_data.array_from_state(state))
        elif isinstance(inst, np.dtype):
            self._replace(inst, numpy_data.dtype_from_state(inst, state))
        elif type(inst) is Group:
            self._replace(inst, None)
        elif type(inst) in self._layer_types:
            set_module_state(inst, state)
        elif not isinstance(inst, Tensor) or state:
            # A Tensor of the reference brings an empty dict.
            refuse(f"sets the insides of a {type(inst).__name__}")

    def _replace(self, old: Any, new: Any) -> None:
        """Puts what BUILD made where the unfinished object stands, on the stack and in the memo."""
        self.stack[-1] = new
        for key in reversed(self.memo):
            if self.memo[key] is old:
                self.memo[key] = new
                break

    def _append(self) -> None:
        value = self.stack.pop()
        self._extend([value])

    def _appends(self) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            refuse(f"appends to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def _set_items(self) -> None:
        self._update(self.pop_mark())

    def _update(self, items: list[Any]) -> None:
        if type(self.stack[-1]) not in _DICTS:
            refuse(f"sets items of a {type(self.stack[-1]).__name__}")
        if len(items) % 2:
            damaged("a dict has a key without a value")
        target = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            _check_key(key)
            target[key] = value

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._update(items)

    def _add_items(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is not set:
            refuse(f"adds items to a {type(self.stack[-1]).__name__}")
        for item in items:
            _check_key(item)
            self.stack[-1].add(item)

    def _frozenset(self) -> None:
        items = self.pop_mark()
        for item in items:
            _check_key(item)
        self.append(frozenset(items))

    def _bytearray(self) -> None:
        # The original takes memory for as many bytes as the file declares before it reads them.
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    def _unsupported(self) -> None:
        refuse("uses an instruction of pickle")

    def load(self) -> Any:
        """Reads one pickle, and leaves the file after it."""
        try:
            loaded = super().load()
        except (pickle.UnpicklingError, EOFError, MemoryError, RecursionError):
            raise
        except Exception as error:
            raise pickle.UnpicklingError(f"load: the file is damaged: {error}") from error
        for layer in self._layers:
            check_built(layer)
        return loaded


_METHODS = {
    pickle.REDUCE: DataUnpickler._call,
    pickle.NEWOBJ: DataUnpickler._call,
    pickle.NEWOBJ_EX: DataUnpickler._call_with_keywords,
    pickle.BUILD: DataUnpickler._build,
    pickle.APPEND: DataUnpickler._append,
    pickle.APPENDS: DataUnpickler._appends,
    pickle.SETITEM: DataUnpickler._set_item,
    pickle.SETITEMS: DataUnpickler._set_items,
    pickle.DICT: DataUnpickler._dict,
    pickle.ADDITEMS: DataUnpickler._add_items,
    pickle.FROZENSET: DataUnpickler._frozenset,
    pickle.BYTEARRAY8: DataUnpickler._bytearray,
}
for _code in (
    pickle.INST,
    pickle.OBJ,
    pickle.EXT1,
    pickle.EXT2,
    pickle.EXT4,
    pickle.PERSID,
    pickle.BINPERSID,
    pickle.NEXT_BUFFER,
    pickle.READONLY_BUFFER,
):
    _METHODS[_code] = DataUnpickler._unsupported
DataUnpickler.dispatch.update({code[0]: method for code, method in _METHODS.items()})
