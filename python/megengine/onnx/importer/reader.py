"""Reads model files, and the tensors in them. What is wrong with a file raises ValueError."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, numpy_helper

from .values import Array, dtype_from_onnx

__all__ = ["Reader", "attribute_value", "check_text", "read_model"]

_MAX_DIMS = 64  # what NumPy holds


def read_model(source: Any) -> tuple[ModelProto, Path | None]:
    """The model of a path, of the bytes of a file, or a ModelProto; and the folder of its data.

    Raises:
        OSError: where a file cannot be read.
        ValueError: where what it holds is no ONNX model.
        TypeError: for anything else.
    """
    if isinstance(source, ModelProto):
        return source, None
    folder = None
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        data, folder = path.read_bytes(), path.parent
    else:
        raise TypeError(
            "onnx.load: expected a path, the bytes of a file or a ModelProto, got "
            f"{type(source).__name__}"
        )
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"onnx.load: this is no ONNX model: {error}") from error
    if not model.HasField("graph"):
        raise ValueError("onnx.load: this is no ONNX model: it has no graph")
    return model, folder


class Reader:
    """Makes arrays of the tensors of a model.

    Args:
        folder: where files of external data lie; None where there is no such place.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def tensor(self, proto: TensorProto) -> Array:
        """The elements of a tensor; strings become objects."""
        check_text(proto.name)
        name = proto.name
        shape = _shape(name, proto.dims)
        try:
            dtype = dtype_from_onnx(proto.data_type)
        except ValueError as error:
            raise ValueError(f"onnx.load: tensor {name!r}: {error}") from None
        if proto.HasField("data_location") and proto.data_location == TensorProto.EXTERNAL:
            proto = self._with_external_data(proto)
        try:
            array = np.asarray(numpy_helper.to_array(proto))
        except (ValueError, TypeError, KeyError, OverflowError, IndexError, AttributeError) as e:
            raise ValueError(f"onnx.load: tensor {name!r} cannot be read: {e}") from e
        if array.shape != shape:
            raise ValueError(
                f"onnx.load: tensor {name!r}: expected data of shape {shape}, got {array.shape}"
            )
        array = np.asarray(array, dtype=dtype)
        array.flags.writeable = False
        return array

    def sparse_tensor(self, proto: SparseTensorProto) -> Array:
        """The elements of a sparse tensor, with the zeros between them."""
        name = proto.values.name
        shape = _shape(name, proto.dims)
        values, indices = self.tensor(proto.values), self.tensor(proto.indices)
        size = math.prod(shape)
        if size > 2**28:
            raise ValueError(f"onnx.load: sparse tensor {name!r}: {size} elements are too many")
        if (
            values.ndim != 1
            or indices.dtype != np.int64
            or indices.shape
            not in (
                (len(values),),
                (len(values), len(shape)),
            )
        ):
            raise ValueError(
                f"onnx.load: sparse tensor {name!r}: indices of shape {indices.shape} do not fit "
                f"values of shape {values.shape}"
            )
        if indices.ndim == 1:
            places = indices[:, None]
            bounds: tuple[int, ...] = (size,)
        else:
            places, bounds = indices, shape
        if ((places < 0) | (places >= np.array(bounds))).any():
            raise ValueError(f"onnx.load: sparse tensor {name!r}: an index is out of range")
        dense = np.zeros(bounds, values.dtype)
        dense[tuple(places.T)] = values
        return dense.reshape(shape)

    def _with_external_data(self, proto: TensorProto) -> TensorProto:
        entries = {entry.key: entry.value for entry in proto.external_data}
        name = proto.name
        if self._folder is None:
            raise ValueError(
                f"onnx.load: tensor {name!r} lies in a file beside the model: load the model from "
                "its path, or read it with onnx.load() first"
            )
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries["length"]) if "length" in entries else None
        except ValueError:
            raise ValueError(
                f"onnx.load: tensor {name!r}: offset and length of its data must be integers"
            ) from None
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f"onnx.load: tensor {name!r}: offset and length must not be negative")
        with _open_inside(self._folder, entries.get("location", ""), name) as file:
            size = os.fstat(file.fileno()).st_size
            end = size if length is None else offset + length
            if not offset <= end <= size:
                raise ValueError(
                    f"onnx.load: tensor {name!r}: its data end at byte {end}, the file at {size}"
                )
            file.seek(offset)
            data = file.read(end - offset)
        inline = TensorProto()
        inline.name, inline.data_type, inline.raw_data = name, proto.data_type, data
        inline.dims.extend(proto.dims)
        return inline


def _open_inside(folder: Path, location: str, name: str) -> Any:
    """Opens a file that lies in a folder: no way leads out of it, nor through links."""
    path = folder / location
    parts = Path(location).parts
    inside = bool(parts) and not Path(location).is_absolute() and ".." not in parts
    if inside:
        step = folder
        for part in parts:
            step = step / part
            inside = inside and not step.is_symlink()
    if not inside or "\0" in location:
        raise ValueError(
            f"onnx.load: tensor {name!r}: its data must lie in the folder of the model, not "
            f"reached through links; got {location!r}"
        )
    try:
        # Opened without following a link and without waiting, then looked at: what is checked is
        # what is read.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"onnx.load: tensor {name!r}: {error}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"onnx.load: tensor {name!r}: {location!r} is no file")
    return os.fdopen(handle, "rb")


def _shape(name: str, dims: Any) -> tuple[int, ...]:
    shape = tuple(int(d) for d in dims)
    if len(shape) > _MAX_DIMS or any(d < 0 for d in shape):
        raise ValueError(f"onnx.load: tensor {name!r}: no tensor has the shape {shape[:_MAX_DIMS]}")
    return shape


def check_text(*texts: object) -> None:
    """Raises ValueError where a name is no text: protobuf gives bytes then."""
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"onnx.load: {text!r} is no UTF-8 text")


def attribute_value(proto: AttributeProto, reader: Reader) -> Any:
    """The value of an attribute; graphs and types stay protos.

    Raises:
        ValueError: where there is none of the type that it says it has.
    """
    kind = proto.type
    types = onnx.AttributeProto
    if kind == types.FLOAT:
        return float(proto.f)
    if kind == types.INT:
        return int(proto.i)
    if kind == types.STRING:
        return _text(proto.name, proto.s)
    if kind == types.TENSOR:
        return reader.tensor(proto.t)
    if kind == types.SPARSE_TENSOR:
        return reader.sparse_tensor(proto.sparse_tensor)
    if kind == types.GRAPH:
        return proto.g
    if kind == types.TYPE_PROTO:
        return proto.tp
    if kind == types.FLOATS:
        return tuple(float(v) for v in proto.floats)
    if kind == types.INTS:
        return tuple(int(v) for v in proto.ints)
    if kind == types.STRINGS:
        return tuple(_text(proto.name, v) for v in proto.strings)
    if kind == types.TENSORS:
        return tuple(reader.tensor(t) for t in proto.tensors)
    raise ValueError(f"onnx.load: attribute {proto.name!r} has no value of a known type")


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"onnx.load: attribute {name!r} is no UTF-8 text") from None
