"""Files in the safetensors format: named tensors, and nothing that could run.

A file is the number of bytes of a header (8 bytes), the header, which is JSON with dtype, shape and
place of each tensor, and then the contents of the tensors, one after the other without a hole.
https://github.com/huggingface/safetensors describes it.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
from collections.abc import Mapping
from typing import IO, Any, NoReturn

import numpy as np

from .._core import FileMemory
from ..core.tensor.dtype import bfloat16
from ..tensor import Tensor
from .files import write_aside
from .locations import MapLocation, location_map

__all__ = ["load_safetensors", "safetensors_metadata", "save_safetensors"]

ALIGNMENT = 64
MOST_HEADER_BYTES = 100_000_000  # as in the format's own library
_SIZE = struct.Struct("<Q")
_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("bool"),
    "U8": np.dtype("uint8"),
    "I8": np.dtype("int8"),
    "U16": np.dtype("uint16"),
    "I16": np.dtype("int16"),
    "F16": np.dtype("float16"),
    "BF16": bfloat16,
    "U32": np.dtype("uint32"),
    "I32": np.dtype("int32"),
    "F32": np.dtype("float32"),
    "U64": np.dtype("uint64"),
    "I64": np.dtype("int64"),
    "F64": np.dtype("float64"),
    "C64": np.dtype("complex64"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


# ---- saving --------------------------------------------------------------------------------------


def _checked(state: Any, metadata: Any) -> dict[str, np.ndarray]:
    """The contents of a state dict, row by row."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"save_safetensors: expected a dict of tensors by name, got {type(state).__name__}"
        )
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"save_safetensors: expected metadata of str by str, got {key!r}: {value!r}"
            )
    out: dict[str, np.ndarray] = {}
    seen: dict[int, tuple[str, Any]] = {}
    for name, value in state.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"save_safetensors: expected a str for a name, got {name!r}")
        if not isinstance(value, (Tensor, np.ndarray, np.generic)):
            raise TypeError(
                f"save_safetensors: expected a tensor or an array for '{name}', got "
                f"{type(value).__name__}; numbers and text go into metadata, other objects into "
                "a file of megengine.save with another ending"
            )
        if id(value) in seen:
            raise ValueError(
                f"save_safetensors: '{seen[id(value)][0]}' and '{name}' are one tensor, which the "
                "format cannot say; leave one of them out, and tie them again after loading"
            )
        seen[id(value)] = name, value
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype.newbyteorder("=") not in _NAMES or array.dtype.metadata:
            raise TypeError(
                f"save_safetensors: '{name}' has dtype {array.dtype}, which the format lacks; it "
                f"has {', '.join(str(dtype) for dtype in _NAMES)}"
            )
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        out[name] = array
    return out


def save_safetensors(
    state: Mapping[str, Any],
    f: str | os.PathLike[str] | IO[bytes],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Saves named tensors as a safetensors file, which other frameworks read too.

    ``megengine.save`` does so for a name that ends in ``.safetensors``. A file given by its name is
    written aside and renamed when it is complete and on disk.

    Args:
        state: Tensors or arrays by name, such as ``net.state_dict()``. Any strides do.
        f: the name of the file, or a file open for writing bytes.
        metadata: text by name, to be kept with them.

    Raises:
        TypeError: a name is not str, a value is neither tensor nor array or of a dtype that the
            format lacks, or the metadata are not text.
        ValueError: one tensor stands under two names. The format cannot say so, and a network that
            is loaded from two copies is another one.

    >>> import io
    >>> file = io.BytesIO()
    >>> save_safetensors({"weight": Tensor([[1.0, 2.0]])}, file, {"epoch": "3"})
    >>> file.seek(0)
    0
    >>> load_safetensors(file)
    {'weight': Tensor([[1. 2.]], device=xpux:0)}
    """
    arrays = _checked(state, metadata)
    # Large tensors begin at multiples of 64 bytes, the others at multiples of their item.
    order = sorted(arrays, key=lambda n: (arrays[n].nbytes % ALIGNMENT > 0, -arrays[n].itemsize, n))
    entries: dict[str, Any] = {}
    if metadata:
        entries["__metadata__"] = dict(metadata)
    end = 0
    for name in order:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        entries[name] = {
            "dtype": _NAMES[array.dtype.newbyteorder("=")],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-(_SIZE.size + len(header)) % ALIGNMENT)
    if len(header) > MOST_HEADER_BYTES:
        raise ValueError(
            f"save_safetensors: names and metadata take {len(header)} bytes, and the format allows "
            f"{MOST_HEADER_BYTES}"
        )

    def write(file: IO[bytes]) -> None:
        file.write(_SIZE.pack(len(header)) + header)
        for name in order:
            contents: Any = arrays[name].reshape(-1).view(np.uint8)
            file.write(contents)

    if isinstance(f, (str, os.PathLike)):
        write_aside(os.fspath(f), write)
    elif hasattr(f, "write"):
        write(f)
    else:
        raise TypeError(f"save_safetensors: expected a file name or an open file, got {f!r}")


# ---- loading -------------------------------------------------------------------------------------


def _damaged(what: str) -> NoReturn:
    raise ValueError(f"load: the safetensors file is damaged: {what}")


def open_memory(f: Any) -> FileMemory:
    """The bytes of a file: mapped where it has a name and is large, and read where not."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode):
                return FileMemory.open(file.fileno(), found.st_size)
            return FileMemory.copy(file.read())
    if not hasattr(f, "read"):
        raise TypeError(f"load: expected a file name or a file open for reading, got {f!r}")
    return FileMemory.copy(f.read())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        _damaged("its header has a name twice")
    return out


def _header(data: np.ndarray[Any, Any]) -> tuple[dict[str, Any], int]:
    """The header as it stands there, and where the contents of the tensors begin."""
    if len(data) < _SIZE.size:
        _damaged(f"it ends after {len(data)} bytes")
    (size,) = _SIZE.unpack(data[: _SIZE.size].tobytes())
    if size > min(MOST_HEADER_BYTES, len(data) - _SIZE.size):
        _damaged(f"it has {len(data)} bytes, and its header {size}")
    text = data[_SIZE.size : _SIZE.size + size].tobytes()
    if not text.startswith(b"{"):
        _damaged("its header is no JSON object")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"load: the safetensors file is damaged: its header: {error}") from error
    return header, _SIZE.size + size


def _metadata(header: dict[str, Any]) -> dict[str, str]:
    metadata = header.pop("__metadata__", None)
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _damaged("its metadata are not text")
    return metadata


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """dtype, shape, first byte and end of a tensor."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _damaged(f"'{name[:80]}' is not described by dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        _damaged(f"'{name[:80]}' has a shape or data_offsets that are no lists of sizes")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _DTYPES:
        raise ValueError(
            f"load: '{name[:80]}' has dtype {str(entry['dtype'])[:20]}, which tensors here lack; "
            f"they have {', '.join(_DTYPES)}"
        )
    dtype, (begin, end) = _DTYPES[entry["dtype"]], offsets
    if math.prod(shape) * dtype.itemsize != end - begin:
        _damaged(f"'{name[:80]}' of {entry['dtype']} and shape {shape[:9]} has {end - begin} bytes")
    return dtype, tuple(shape), begin, end


def _entries(header: dict[str, Any], size: int) -> dict[str, Any]:
    """Checked entries, whose contents follow each other and fill the file."""
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    last = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != last:
            _damaged(f"'{name[:80]}' begins at byte {begin}, and what is before it ends at {last}")
        last = end
    if last != size:
        _damaged(f"its tensors have {last} bytes, and {size} are there")
    return entries


def load_safetensors(
    f: str | os.PathLike[str] | IO[bytes], map_location: MapLocation = None
) -> dict[str, Tensor]:
    """Loads the tensors of a safetensors file.

    ``megengine.load`` does so for a name that ends in ``.safetensors``. A large file that is given
    by its name is mapped: tensors take memory where they are used, what is written to them does
    not go into the file, and the file may be deleted or replaced (not: written over) meanwhile. A
    tensor whose place in the file is no multiple of its item's size is copied.

    Args:
        f: the name of the file, or a file open for reading bytes.
        map_location: where tensors go, as in :func:`.load`; a file of this kind names no device,
            which is as if it said "xpux".

    Raises:
        ValueError: the file is damaged, no safetensors file, or has a dtype that tensors lack.
        TypeError: ``f`` or ``map_location`` is of another kind.
    """
    device = location_map(map_location)("xpux:0")
    memory = open_memory(f)
    data = memory.array()
    header, begin = _header(data)
    _metadata(header)
    return {
        name: tensor_at(memory, begin + first, dtype, shape, device, f"'{name[:80]}'")
        for name, (dtype, shape, first, _) in _entries(header, len(data) - begin).items()
    }


def tensor_at(
    memory: FileMemory,
    at: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    device: str,
    name: str,
) -> Tensor:
    """A tensor of bytes that are known to be there: a view of them, or a copy where it must be."""
    data = memory.array()
    size = math.prod(shape) * dtype.itemsize
    if dtype.kind == "b" and size and data[at : at + size].max() > 1:
        raise ValueError(f"load: {name} holds more than True and False")
    try:
        if at % dtype.itemsize:
            memory, at = FileMemory.copy(data[at : at + size].tobytes()), 0
        return memory.tensor(at, dtype.name, shape, device)
    except TypeError as error:
        raise ValueError(f"load: {name} has dtype {dtype}, which tensors lack") from error


def safetensors_metadata(f: str | os.PathLike[str] | IO[bytes]) -> dict[str, str]:
    """The text that is kept in a safetensors file beside its tensors.

    Args:
        f: the name of the file, or a file open for reading bytes.

    Raises:
        ValueError: the file is damaged or no safetensors file.

    >>> import io
    >>> file = io.BytesIO()
    >>> save_safetensors({}, file, {"epoch": "3"})
    >>> file.seek(0)
    0
    >>> safetensors_metadata(file)
    {'epoch': '3'}
    """
    header, _ = _header(open_memory(f).array())
    return _metadata(header)
