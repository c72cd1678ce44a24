"""State dicts that PyTorch saved, read without it.

``torch.save`` writes a pickle in which tensors refer to storages, and the storages: as entries of a
zip file, or before PyTorch 1.6 one after the other behind the pickle.
"""

from __future__ import annotations

import collections
import io
import math
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np

from .._core import FileMemory
from ..core.tensor.dtype import bfloat16
from ..tensor import Parameter, Tensor
from .builder import Builder
from .locations import MapLocation, location_map
from .refusal import damaged, refuse
from .safetensors import open_memory, tensor_at
from .unpickler import DataUnpickler

__all__ = ["LEGACY_MAGIC", "ZIP_MAGIC", "load_torch"]

ZIP_MAGIC = b"PK\x03\x04"
LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # a pickled number
_LEGACY_VERSION = 1001
_LOCAL_HEADER = struct.Struct("<4s22xHH")
# How much more than its own size a file may take where its tensors are not laid out row by row.
_SLACK = 64 << 20

_STORAGES: dict[str, np.dtype[Any]] = {
    "BoolStorage": np.dtype("bool"),
    "ByteStorage": np.dtype("uint8"),
    "CharStorage": np.dtype("int8"),
    "ShortStorage": np.dtype("int16"),
    "IntStorage": np.dtype("int32"),
    "LongStorage": np.dtype("int64"),
    "HalfStorage": np.dtype("float16"),
    "BFloat16Storage": bfloat16,
    "FloatStorage": np.dtype("float32"),
    "DoubleStorage": np.dtype("float64"),
    "ComplexFloatStorage": np.dtype("complex64"),
    "ComplexDoubleStorage": np.dtype("complex128"),
    "UntypedStorage": np.dtype("uint8"),
}
_STORAGE_TYPES = {Builder(name): dtype for name, dtype in _STORAGES.items()}
_DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64"
_DTYPES += " complex64 complex128"


class _MemoryFile(io.RawIOBase):
    """A file open for reading, over bytes in memory."""

    def __init__(self, data: np.ndarray[Any, Any]):
        self._data = data
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise ValueError(f"expected a place in the file, got {start + offset}")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = len(self._data) if size is None or size < 0 else self._at + size
        data = self._data[self._at : end].tobytes()
        self._at += len(data)
        return data

    def readline(self, size: int | None = -1) -> bytes:
        pieces = []
        while piece := self.read(4096):
            end = piece.find(b"\n") + 1
            if end:
                self._at -= len(piece) - end
                pieces.append(piece[:end])
                break
            pieces.append(piece)
        return b"".join(pieces)


@dataclass(frozen=True)
class _Storage:
    """What tensors are parts of: ``count`` items, from byte ``at`` of the file on.

    ``at`` is None while it is not known yet.
    """

    dtype: np.dtype[Any]
    key: str
    place: str
    count: int
    at: int | None
    first: int = 0  # of a view of another storage


class _Pending:
    """Stands for a tensor while it is not known where the storages are."""


def _is_size(*values: Any) -> bool:
    return all(type(n) is int and 0 <= n < 2**63 for n in values)


class _TorchUnpickler(DataUnpickler):
    """Reads a pickle of ``torch.save``.

    Args:
        file: where the pickle begins.
        memory: the whole file.
        place_of: the first byte of a storage and how many it has, or None where nobody knows yet.
        location: where a tensor goes, from the name of its device in the file.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(DataUnpickler.dispatch)

    def __init__(
        self,
        file: Any,
        memory: FileMemory,
        place_of: Callable[[str], tuple[int, int] | None],
        location: Callable[[str], str],
    ):
        builders = {
            ("torch._utils", "_rebuild_tensor"): Builder("_rebuild_tensor", self._tensor),
            ("torch._utils", "_rebuild_tensor_v2"): Builder("_rebuild_tensor_v2", self._tensor),
            ("torch._utils", "_rebuild_tensor_v3"): Builder("_rebuild_tensor_v3", self._tensor_v3),
            ("torch._utils", "_rebuild_parameter"): Builder("_rebuild_parameter", self._parameter),
            ("torch", "Size"): Builder("torch.Size", self._shape),
            ("torch", "device"): Builder("torch.device", self._device),
        }
        for kind in _STORAGE_TYPES:
            builders["torch", kind.name] = builders["torch.storage", kind.name] = kind
        for name in _DTYPES.split():
            builders["torch", name] = Builder(f"torch.{name}", value=np.dtype(name))
        builders["torch", "bfloat16"] = Builder("torch.bfloat16", value=bfloat16)
        super().__init__(file, location, builders)
        self.storages: dict[str, _Storage] = {}
        self._memory = memory
        self._place_of = place_of
        self._location = location
        self._copied: dict[Any, Tensor] = {}
        self._left = len(memory.array()) + _SLACK

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a global of the file, where that is one of data."""
        if (module, name) in self._builders:
            return super().find_class(module, name)
        return refuse(
            f"names {module}.{name}",
            "Load it where you trust it, in PyTorch, and save a state dict",
        )

    # ---- what the file calls -------------------------------------------------------------------

    def _build(self) -> None:
        state, inst = self.stack[-1], self.stack[-2]
        if type(inst) is collections.OrderedDict and isinstance(state, dict):
            self.stack.pop()  # versions of layers, which PyTorch's state dicts carry
        else:
            super()._build()

    def _persistent_id(self) -> None:
        self.append(self._storage(self.stack.pop()))

    def _storage(self, identity: Any) -> _Storage:
        if not isinstance(identity, tuple) or len(identity) not in (5, 6):
            refuse("has a persistent id that is no storage")
        kind, of, key, place, count, *view = identity
        dtype = _STORAGE_TYPES.get(of) if type(of) is Builder else None
        plain = kind == "storage" and isinstance(key, str) and isinstance(place, str)
        if not plain or dtype is None or not _is_size(count):
            refuse("has a persistent id that is no storage")
        known = self.storages.get(key)
        if known is not None and (known.dtype, known.count) != (dtype, count):
            damaged(f"storage '{key[:40]}' is described in two ways")
        if known is None:
            known = _Storage(dtype, key, place, count, self._begin(key, dtype, count))
            self.storages[key] = known
        if not view or view[0] is None:
            return known
        if not isinstance(view[0], tuple) or len(view[0]) != 3 or not _is_size(*view[0][1:]):
            refuse("has a view of a storage that is none")
        _, first, part = view[0]
        if first + part > count:
            damaged(f"a view of storage '{key[:40]}' goes beyond its end")
        return _Storage(dtype, key, place, part, known.at, first)

    def _begin(self, key: str, dtype: np.dtype[Any], count: int) -> int | None:
        found = self._place_of(key)
        if found is None:
            return None
        at, size = found
        if count * dtype.itemsize != size:
            damaged(f"storage '{key[:40]}' of {count} {dtype} has {size} bytes")
        return at

    def _tensor(
        self,
        storage: Any,
        first: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        notes: Any = None,
    ) -> Any:
        if not isinstance(storage, _Storage):
            refuse("builds a tensor in an unusual way")
        if hooks or notes:
            refuse("has hooks or notes on a tensor")
        return self._view(storage, storage.dtype, first, shape, strides)

    def _tensor_v3(
        self,
        storage: Any,
        first: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any,
        hooks: Any,
        dtype: Any,
        notes: Any = None,
    ) -> Any:
        if not isinstance(storage, _Storage) or not isinstance(dtype, np.dtype):
            refuse("builds a tensor in an unusual way")
        if hooks or notes:
            refuse("has hooks or notes on a tensor")
        return self._view(storage, dtype, first, shape, strides)

    def _view(
        self, storage: _Storage, dtype: np.dtype[Any], first: Any, shape: Any, strides: Any
    ) -> Any:
        plain = isinstance(shape, tuple) and isinstance(strides, tuple) and _is_size(first)
        if not plain or not _is_size(*shape, *strides) or len(shape) > 64:
            refuse("builds a tensor in an unusual way")
        if len(shape) != len(strides):
            damaged(f"a tensor of shape {shape} has {len(strides)} strides")
        items = storage.count * storage.dtype.itemsize // dtype.itemsize
        last = first + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if math.prod(shape) and last >= items:
            damaged(f"a tensor goes beyond the end of storage '{storage.key[:40]}'")
        if storage.at is None:
            return _Pending()
        place = self._location(storage.place)
        device = "xpux" if place == storage.place else place  # PyTorch's names are not ours
        at = storage.at + storage.first * storage.dtype.itemsize + first * dtype.itemsize
        if not math.prod(shape):
            at = 0
        try:
            if _in_rows(shape, strides):
                name = f"storage '{storage.key[:40]}'"
                return tensor_at(self._memory, at, dtype, shape, device, name)
            return self._copy(at, dtype, shape, strides, device)
        except ValueError as error:
            return damaged(str(error).removeprefix("load: "))

    def _copy(self, at: int, dtype: np.dtype[Any], shape: Any, strides: Any, device: str) -> Tensor:
        """A tensor whose items are not one after the other in the file."""
        known = (at, dtype, shape, strides, device)
        if known not in self._copied:
            self._left -= math.prod(shape) * dtype.itemsize
            if self._left < 0:
                damaged("its tensors overlap so much that they would take more memory than it has")
            end = (
                at
                + (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))
                * dtype.itemsize
            )
            items = self._memory.array()[at:end].view(dtype)
            steps = [s * dtype.itemsize for s in strides]
            array = np.ascontiguousarray(np.lib.stride_tricks.as_strided(items, shape, steps))
            if dtype.kind == "b" and array.view(np.uint8).max() > 1:
                raise ValueError("load: a tensor holds more than True and False")
            self._copied[known] = Tensor(array, dtype=dtype, device=device)
        return self._copied[known].detach()

    def _parameter(self, data: Any, requires_grad: Any, hooks: Any) -> Any:
        if isinstance(data, _Pending):
            return data
        if not isinstance(data, Tensor) or hooks:
            refuse("builds a parameter in an unusual way")
        return Parameter(data)

    def _shape(self, sizes: Any = ()) -> tuple[int, ...]:
        if not isinstance(sizes, (tuple, list)) or not _is_size(*sizes):
            refuse("builds a shape in an unusual way")
        return tuple(sizes)

    def _device(self, kind: Any, index: Any = 0) -> str:
        if not isinstance(kind, str) or type(index) is not int:
            refuse("builds a device in an unusual way")
        return f"{kind}:{index}"


_TorchUnpickler.dispatch[pickle.BINPERSID[0]] = _TorchUnpickler._persistent_id
_TorchUnpickler.dispatch[pickle.BUILD[0]] = _TorchUnpickler._build


def _in_rows(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether items follow each other in the order of their indices."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n > 1 and stride != step:
            return False
        step *= n
    return True


# ---- zip files -----------------------------------------------------------------------------------


def _zip_entries(data: np.ndarray[Any, Any]) -> dict[str, tuple[int, int, int]]:
    """First byte, size and checksum of the contents of each entry, by name.

    Names are never used as paths. What is compressed, encrypted or overlaps is refused, so that no
    file takes more memory than its own size.
    """
    try:
        with zipfile.ZipFile(_MemoryFile(data)) as file:
            infos, directory = file.infolist(), file.start_dir
    except Exception as error:
        damaged(f"its zip directory: {error}")
    out: dict[str, tuple[int, int, int]] = {}
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        label = f"its entry '{info.orig_filename[:80]}'"
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            damaged(f"{label} is compressed or encrypted, which torch.save never does")
        at = info.header_offset
        header = data[at : at + _LOCAL_HEADER.size].tobytes() if at >= end else b""
        if len(header) < _LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
            damaged(f"{label} overlaps another, or is not where the directory says")
        _, name_size, extra_size = _LOCAL_HEADER.unpack(header)
        name = data[at + _LOCAL_HEADER.size :][:name_size].tobytes()
        begin = at + _LOCAL_HEADER.size + name_size + extra_size
        end = begin + info.file_size
        if info.file_size != info.compress_size or end > directory:
            damaged(f"{label} goes beyond the end")
        if name != info.orig_filename.encode() or info.orig_filename in out:
            damaged(f"{label} is there twice, or under two names")
        out[info.orig_filename] = begin, info.file_size, info.CRC
    return out


def _load_zip(memory: FileMemory, location: Callable[[str], str]) -> Any:
    data = memory.array()
    entries = _zip_entries(data)
    pickles = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        damaged(f"it is no file of torch.save: it has {len(pickles)} entries data.pkl")
    prefix = pickles[0].removesuffix("data.pkl")
    if prefix + "constants.pkl" in entries:
        refuse("is a TorchScript program", "Load it in PyTorch and save its state dict")

    def contents(name: str) -> tuple[int, int]:
        begin, size, checksum = entries[name]
        if zlib.crc32(data[begin : begin + size]) != checksum:  # type: ignore[arg-type]
            damaged(
                f"the checksum of its entry '{name[:80]}' is wrong (which it also is in files that "
                "were written after torch.serialization.set_crc32_options(False))"
            )
        return begin, size

    if prefix + "byteorder" in entries:
        begin, size = contents(prefix + "byteorder")
        order = data[begin : begin + min(size, 20)].tobytes()
        if order != b"little":
            damaged(
                f"its numbers have the byte order {order!r}; save it on a machine with 'little'"
            )

    def place_of(key: str) -> tuple[int, int]:
        name = f"{prefix}data/{key}"
        if name not in entries:
            damaged(f"storage '{key[:40]}' is not there")
        return contents(name)

    begin, size = contents(pickles[0])
    file = io.BytesIO(data[begin : begin + size].tobytes())
    return _TorchUnpickler(file, memory, place_of, location).load()


# ---- files of before PyTorch 1.6 -----------------------------------------------------------------


def _load_legacy(memory: FileMemory, location: Callable[[str], str]) -> Any:
    data = memory.array()
    file = _MemoryFile(data)
    file.seek(len(LEGACY_MAGIC))
    version, system = DataUnpickler(file).load(), DataUnpickler(file).load()
    if version != _LEGACY_VERSION:
        damaged(f"it has version {str(version)[:20]} of its format, expected {_LEGACY_VERSION}")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        damaged("its numbers have another byte order; save it on a machine that is little endian")
    begin = file.tell()
    # Once to see which storages there are, which is how long they are, and once to take them in.
    first = _TorchUnpickler(file, memory, lambda key: None, location)
    first.load()
    keys = DataUnpickler(file).load()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        damaged("it has no list of storages")
    places: dict[str, tuple[int, int]] = {}
    at = file.tell()
    for key in keys:
        if key not in first.storages or key in places:
            damaged(f"storage '{key[:40]}' is there twice, or no tensor has it")
        storage = first.storages[key]
        size = storage.count * storage.dtype.itemsize
        count = data[at : at + 8].tobytes()
        if count != struct.pack("<Q", storage.count) or at + 8 + size > len(data):
            damaged(f"storage '{key[:40]}' has not the {storage.count} items that it should")
        places[key] = at + 8, size
        at += 8 + size
    if places.keys() != first.storages.keys():
        damaged("it lacks storages")
    file.seek(begin)
    return _TorchUnpickler(file, memory, places.__getitem__, location).load()


def load_torch(f: str | os.PathLike[str] | IO[bytes], map_location: MapLocation = None) -> Any:
    """Loads a state dict that PyTorch saved (``.pt``, ``.pth``, ``.bin``), without PyTorch.

    ``megengine.load`` does so for files that are of this kind, whatever their name. Tensors become
    :class:`.Tensor`, parameters :class:`.Parameter`, in the containers in which they are saved.
    Those of a large file that is given by its name are mapped, as by :func:`.load_safetensors`.
    Nothing of the file is run: what is not data, such as a whole ``torch.nn.Module``, is refused
    by name.

    Layers of other frameworks have other names and shapes here: grouped weights are
    (groups, out, in, height, width), biases of convolutions (1, channels, 1, 1).

    Args:
        f: the name of the file, or a file open for reading bytes.
        map_location: where tensors go, as in :func:`.load`, from PyTorch's names such as "cuda:0".

    Raises:
        pickle.UnpicklingError: the file is damaged, holds more than data, is compressed, or of
            another byte order.
        EOFError: the file ends too early.
        TypeError: ``f`` or ``map_location`` is of another kind.
    """
    location = location_map(map_location)
    memory = open_memory(f)
    start = memory.array()[: len(LEGACY_MAGIC)].tobytes()
    if start.startswith(ZIP_MAGIC):
        return _load_zip(memory, location)
    if start == LEGACY_MAGIC:
        return _load_legacy(memory, location)
    return damaged("it is no file of torch.save, neither of now nor of before PyTorch 1.6")
