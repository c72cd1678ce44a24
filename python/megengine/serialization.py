"""Saving and loading: ``megengine.save`` and ``megengine.load``.

The format is a pickle of plain containers, NumPy arrays and Tensors, as the reference writes it:
either of the two reads what the other wrote. Reading runs no code from the file: see :func:`load`.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import re
import struct
import time
import types
from collections.abc import Callable, Mapping
from typing import IO, Any, ClassVar

import numpy as np

from .core.tensor.dtype import bfloat16
from .device import get_default_device
from .tensor import Parameter, Tensor
from .utils.max_recursion_limit import max_recursion_limit

__all__ = ["dmap", "get_default_device", "load", "max_recursion_limit", "save"]

# The implementations in Python, whose instructions can be replaced one by one.
_PythonPickler: Any = pickle._Pickler
_PythonUnpickler: Any = pickle._Unpickler

MapLocation = str | Mapping[str, str] | Callable[[str], str] | None


# ---- saving -------------------------------------------------------------------------------------


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Names NumPy's functions as NumPy 1 does, which NumPy 2 understands too."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = getattr(obj, "__module__", None) or ""
        if obj is bfloat16.type:
            self._write_global(obj, "megengine.core._imperative_rt", "pybfloat16")
        elif module.startswith("numpy._core."):
            old = "numpy.core." + module.removeprefix("numpy._core.")
            self._write_global(obj, old, obj.__qualname__)
        else:
            super().save_global(obj, name)

    def _write_global(self, obj: Any, module: str, name: str) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode("ascii"))
        self.memoize(obj)

    dispatch: ClassVar[dict[Any, Any]] = {
        **_PythonPickler.dispatch,
        types.FunctionType: save_global,
    }


def _dump(obj: Any, file: IO[bytes], pickle_module: Any, protocol: int) -> None:
    if pickle_module is None or pickle_module is pickle:
        _Pickler(file, protocol).dump(obj)
    else:
        pickle_module.dump(obj, file, protocol)


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Has the renames in a directory on disk: they are in its own contents."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove_stale(directory: str, name: str) -> None:
    """Removes what saves to the same name left aside when they were killed."""
    pattern = re.compile(re.escape(f".{name}.") + r"(\d+)\.tmp")
    for entry in os.listdir(directory):
        found = pattern.fullmatch(entry)
        if found is None or _alive(int(found[1])):
            continue
        path = os.path.join(directory, entry)
        with contextlib.suppress(FileNotFoundError):
            # A process of another machine that shares the disk still writes to its file.
            if time.time() - os.stat(path).st_mtime > 60:
                os.remove(path)


def write_aside(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """Has a file written aside and renamed when it is complete and on disk.

    Whenever the program is killed, the name holds the old file or the new one.
    """
    path = os.path.realpath(path)  # a link stays a link, and what it names is replaced
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        with open(path, "wb") as file:
            write(file)
        return
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.chmod(aside, os.stat(path).st_mode & 0o7777)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside)
        raise
    sync_directory(directory)
    _remove_stale(directory, name)


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 4) -> None:
    """Saves an object: a state dict, or containers of tensors, arrays, numbers and text.

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
        write_aside(os.fspath(f), lambda file: _dump(obj, file, pickle_module, pickle_protocol))
    elif hasattr(f, "write"):
        _dump(obj, f, pickle_module, pickle_protocol)
    else:
        raise TypeError(f"{f} does not support write")


# ---- loading ------------------------------------------------------------------------------------


_locations: list[Callable[[str], str]] = []  # of the dmap blocks that are open


class dmap:  # noqa: N801 - the reference's name
    """A block in which :func:`load` puts tensors where ``map_location`` says.

    It holds for calls that do not say it themselves.

    Args:
        map_location: as in :func:`load`.

    >>> import io
    >>> import megengine as mge
    >>> file = io.BytesIO()
    >>> mge.save(mge.tensor([1.0]), file)
    >>> _ = file.seek(0)
    >>> with dmap({"xpux": "cpu0"}):
    ...     mge.load(file)
    Tensor([1.], device=cpu0:0)
    """

    def __init__(self, map_location: MapLocation) -> None:
        self._location = _location_map(map_location)

    def __enter__(self) -> dmap:
        _locations.append(self._location)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _locations.remove(self._location)


def _location_map(map_location: MapLocation) -> Callable[[str], str]:
    """The function from a device's name in the file to where its tensors go."""
    if map_location is None:
        return _locations[-1] if _locations else lambda name: name
    if isinstance(map_location, str):
        place = map_location
        return lambda name: place
    if isinstance(map_location, Mapping):
        places = dict(map_location)
        # "xpux" also means its stream 0, which is what a file says: "xpux:0".
        return lambda name: places.get(name, places.get(name.removesuffix(":0"), name))
    if callable(map_location):
        return map_location
    raise TypeError(
        f"map_location should be str, dict or function, got {type(map_location).__name__}"
    )


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


class _Marker:
    """Stands for a global that a file may name; only the loader gives it a meaning."""

    def __init__(self, name: str, build: Callable[..., Any]):
        self.name = name
        self.build = build


_NDARRAY = _Marker("numpy.ndarray", lambda *args: _refuse("calls numpy.ndarray"))


_BFLOAT16 = _Marker("bfloat16", lambda *args: _refuse("calls bfloat16"))


def _refuse(what: str) -> Any:
    raise pickle.UnpicklingError(
        f"load: the file {what}, which data does not need. If you trust its author, load it with "
        "pickle_module=pickle, which runs whatever code it holds"
    )


def _reconstruct(subtype: Any, shape: Any, typecode: Any) -> np.ndarray:
    if subtype is not _NDARRAY or shape != (0,) or typecode not in (b"b", "b"):
        _refuse("builds an array in an unusual way")
    return np.empty((0,), np.int8)


def _dtype(name: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:
    if name is _BFLOAT16 or name == "bfloat16":
        return bfloat16
    if not isinstance(name, str) or not re.fullmatch(r"[biufcSU]\d{1,9}", name):
        _refuse(f"uses the array type {str(name)[:40]!r}")
    return np.dtype(name)


def _scalar(dtype: Any, data: Any) -> Any:
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        _refuse("builds a number in an unusual way")
    if len(data) != dtype.itemsize:
        raise pickle.UnpicklingError("load: a number has the wrong size")
    return np.frombuffer(data, dtype)[0]


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    if not isinstance(data, (bytes, bytearray)) or not isinstance(dtype, np.dtype):
        _refuse("builds an array in an unusual way")
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _encode(text: Any, encoding: Any) -> bytes:
    # How protocols before 3 write bytes.
    if not isinstance(text, str) or encoding != "latin1":
        _refuse("encodes text in an unusual way")
    return text.encode("latin1")


def _of_items(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def build(items: Any = ()) -> Any:
        if not isinstance(items, (list, tuple)):
            _refuse("builds a container in an unusual way")
        return kind(items)

    return build


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encode(data, encoding))


def _complex(real: Any, imag: Any) -> complex:
    if not isinstance(real, float) or not isinstance(imag, float):
        _refuse("builds a complex number in an unusual way")
    return complex(real, imag)


_BUILDERS: dict[tuple[str, str], _Marker] = {
    ("collections", "OrderedDict"): _Marker("OrderedDict", _of_items(collections.OrderedDict)),
    ("builtins", "set"): _Marker("set", _of_items(set)),
    ("builtins", "frozenset"): _Marker("frozenset", _of_items(frozenset)),
    ("builtins", "bytes"): _Marker("bytes", lambda: b""),  # how old protocols write no bytes
    ("builtins", "bytearray"): _Marker("bytearray", _bytearray),
    ("builtins", "complex"): _Marker("complex", _complex),
    ("_codecs", "encode"): _Marker("encode", _encode),
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Marker("numpy.dtype", _dtype),
    ("megengine.core._imperative_rt", "pybfloat16"): _BFLOAT16,
    ("ml_dtypes", "bfloat16"): _BFLOAT16,
}
for _core in ("numpy.core", "numpy._core"):
    _BUILDERS[_core + ".multiarray", "_reconstruct"] = _Marker("_reconstruct", _reconstruct)
    _BUILDERS[_core + ".multiarray", "scalar"] = _Marker("scalar", _scalar)
    _BUILDERS[_core + ".numeric", "_frombuffer"] = _Marker("_frombuffer", _frombuffer)
for _name in ("set", "frozenset", "bytes", "bytearray", "complex"):
    _BUILDERS["__builtin__", _name] = _BUILDERS["builtins", _name]


def _set_dtype_state(dtype: np.dtype[Any], state: Any) -> np.dtype[Any]:
    """What remains of a dtype after pickle's BUILD: its byte order."""
    plain = (
        isinstance(state, tuple)
        and len(state) >= 8
        and state[1] in ("<", ">", "|", "=")
        and state[2:5] == (None, None, None)
    )
    if not plain:
        _refuse("uses a structured array type")
    if len(state) > 8 and state[8]:
        raise pickle.UnpicklingError("load: quantised array types are not supported")
    return dtype.newbyteorder(">") if state[1] == ">" else dtype


def _array_from_state(state: Any) -> np.ndarray:
    """The array of pickle's BUILD: (version, shape, dtype, Fortran order, bytes)."""
    if not isinstance(state, tuple) or len(state) != 5:
        _refuse("builds an array in an unusual way")
    _, shape, dtype, fortran, data = state
    if isinstance(data, str):
        data = data.encode("latin1")
    sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        _refuse("builds an array in an unusual way")
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize != len(data):
        raise pickle.UnpicklingError(
            f"load: an array of shape {shape} and type {dtype} has {len(data)} bytes"
        )
    if not data:
        return np.empty(shape, dtype)
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array.copy(order="K")


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    """Reads data and nothing else.

    Every opcode that could look up, call or fill in something outside the list of allowed names
    is replaced. The unpickler in C has no place to do that: it would call whatever stands on the
    stack, and let a file set the insides of NumPy's types.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, file: Any, location: Callable[[str], str]):
        # Text of Python 2 may be bytes; latin1 keeps them as they are.
        super().__init__(file, encoding="latin1")
        self._builders = dict(_BUILDERS)
        for kind in (Tensor, Parameter):
            marker = _Marker(f"megengine.{kind.__name__}", _tensor_builder(kind, location))
            self._builders["megengine.tensor", kind.__name__] = marker
            self._builders["megengine", kind.__name__] = marker

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._builders[module, name]
        except KeyError:
            return _refuse(f"names {module}.{name}")

    def _call(self) -> None:
        args, marker = self.stack.pop(), self.stack.pop()
        if not isinstance(marker, _Marker) or not isinstance(args, tuple):
            _refuse("calls something that is not a type of data")
        self.append(marker.build(*args))

    def _call_with_keywords(self) -> None:
        if self.stack.pop():
            _refuse("calls a type with keywords")
        self._call()

    def _build(self) -> None:
        state, inst = self.stack.pop(), self.stack[-1]
        if isinstance(inst, np.ndarray):
            self._replace(inst, _array_from_state(state))
        elif isinstance(inst, np.dtype):
            self._replace(inst, _set_dtype_state(inst, state))
        elif not isinstance(inst, Tensor) or state:
            # A Tensor of the reference brings an empty dict.
            _refuse(f"sets the insides of a {type(inst).__name__}")

    def _replace(self, old: Any, new: Any) -> None:
        """Puts what BUILD made where the unfinished object stands, on the stack and in the memo."""
        self.stack[-1] = new
        for key in reversed(self.memo):
            if self.memo[key] is old:
                self.memo[key] = new
                break

    def _bytearray(self) -> None:
        # The original takes memory for as many bytes as the file declares before it reads them.
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    def _unsupported(self) -> None:
        _refuse("uses an instruction of pickle")

    def load(self) -> Any:
        try:
            return super().load()
        except (pickle.UnpicklingError, EOFError, MemoryError, RecursionError):
            raise
        except Exception as error:
            raise pickle.UnpicklingError(f"load: the file is damaged: {error}") from error


_Unpickler.dispatch.update(
    {
        pickle.REDUCE[0]: _Unpickler._call,
        pickle.NEWOBJ[0]: _Unpickler._call,
        pickle.NEWOBJ_EX[0]: _Unpickler._call_with_keywords,
        pickle.BUILD[0]: _Unpickler._build,
        pickle.BYTEARRAY8[0]: _Unpickler._bytearray,
    }
)
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
    _Unpickler.dispatch[_code[0]] = _Unpickler._unsupported


def _tensor_builder(kind: type[Tensor], location: Callable[[str], str]) -> Callable[..., Tensor]:
    def build(data: Any, dtype: Any = None, device: Any = "xpux:0") -> Tensor:
        if not isinstance(data, np.ndarray) or not isinstance(device, str):
            _refuse("builds a tensor in an unusual way")
        return kind(data, dtype=data.dtype, device=location(device))

    return build


def load(f: Any, map_location: MapLocation = None, pickle_module: Any = None) -> Any:
    """Loads what :func:`save`, here or in the reference, wrote.

    Only data are read: numbers, text, bytes, lists, tuples, dicts, sets, NumPy arrays and numbers,
    Tensors and Parameters. A file that names anything else is refused, and nothing of it is run.
    A whole module or an object of your own class can be loaded, where you trust the file, with
    ``pickle_module=pickle``.

    Args:
        f: the name of the file (str or path), or a file open for reading bytes.
        map_location: where tensors go: the name of a device, a dict from the names in the file, or
            a function of the name.
        pickle_module: a module whose ``load`` (or ``Unpickler``) to use instead. It runs whatever
            code the file holds.

    Raises:
        pickle.UnpicklingError: the file is damaged, or holds more than data.
        EOFError: the file ends too early.
        TypeError: ``f`` or ``map_location`` is of another kind.

    >>> import io
    >>> import pickle
    >>> class Evil:
    ...     def __reduce__(self):
    ...         return print, ("this never runs",)
    >>> load(io.BytesIO(pickle.dumps(Evil())))
    Traceback (most recent call last):
    ...
    _pickle.UnpicklingError: load: the file names builtins.print, which data does not need. If you \
trust its author, load it with pickle_module=pickle, which runs whatever code it holds
    """
    location = _location_map(map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, location, map_location, pickle_module)
    if not hasattr(f, "read") or not hasattr(f, "readline"):
        raise TypeError(f"load: expected a file name or a file open for reading, got {f!r}")
    return _load(f, location, map_location, pickle_module)


def _load(
    file: Any, location: Callable[[str], str], map_location: MapLocation, pickle_module: Any
) -> Any:
    if pickle_module is None:
        return _Unpickler(_bounded(file), location).load()
    if map_location is None and not _locations:
        return pickle_module.load(file)

    class Located(pickle_module.Unpickler):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            found = super().find_class(module, name)
            if found is Tensor or found is Parameter:
                return _located_class(found, location)
            return found

    return Located(file).load()


def _get_callable_map_location(map_location: MapLocation) -> Callable[[str], str]:
    """Where a tensor of a device goes, as a function, for programs that ask for it."""
    return _location_map(map_location)


def _located_class(kind: type[Tensor], location: Callable[[str], str]) -> type:
    build = _tensor_builder(kind, location)
    return type(kind.__name__, (), {"__new__": lambda cls, *args: build(*args)})


def _bounded(file: Any) -> Any:
    """The file itself, or one that knows its size where it can tell."""
    if isinstance(file, io.BytesIO):
        return file
    try:
        size = os.fstat(file.fileno()).st_size
        position = file.tell()
    except (AttributeError, OSError, ValueError):
        return file
    return _Bounded(file, size - position) if size else file
