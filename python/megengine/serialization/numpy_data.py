"""What NumPy's pickles are made of: arrays, dtypes and scalars, built from checked parts."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..core.tensor.dtype import bfloat16
from .builder import Builder
from .refusal import damaged, refuse

__all__ = ["BUILDERS", "array_from_state", "dtype_from_state"]

_BFLOAT16 = Builder("bfloat16", value=bfloat16.type)
_SCALAR_TYPES = [*(np.dtype(code).name for code in "?bBhHiIqQefdFD"), "bool_", "str_", "bytes_"]
# Types are printed, hashed and compared part by part: a file could make that take for ever.
_MOST_FIELDS = 10_000


def _reconstruct(subtype: Any, shape: Any, typecode: Any) -> np.ndarray:
    if subtype is not np.ndarray or shape != (0,) or typecode not in (b"b", "b"):
        refuse("builds an array in an unusual way")
    return np.empty((0,), np.int8)


def _dtype(name: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:
    if name is bfloat16.type or name == "bfloat16":
        return bfloat16
    if not isinstance(name, str) or not re.fullmatch(r"[biufcSUV]\d{1,9}|[mM]8", name):
        refuse(f"uses the array type {str(name)[:40]!r}")
    return np.dtype(name)


def _scalar(dtype: Any, data: Any) -> Any:
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        refuse("builds a number in an unusual way")
    if len(data) != dtype.itemsize:
        damaged("a number has the wrong size")
    if not data:
        return dtype.type()
    return np.frombuffer(data, dtype)[0]


def _shape(shape: Any) -> tuple[int, ...]:
    plain = isinstance(shape, tuple) and len(shape) <= 64
    if not plain or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        refuse("builds an array in an unusual way")
    return shape


def _filled(data: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    """An array over bytes of the file."""
    shape = _shape(shape)
    if not isinstance(dtype, np.dtype) or not isinstance(data, (bytes, bytearray)):
        refuse("builds an array in an unusual way")
    count = math.prod(shape)
    if count * dtype.itemsize != len(data):
        damaged(f"an array of shape {shape} and items of {dtype.itemsize} bytes has {len(data)}")
    if not data:
        if count and not dtype.itemsize and count > 1 << 20:
            damaged(f"an array has {count} items of no size")
        return np.empty(shape, dtype)
    if dtype.kind == "b" and np.frombuffer(data, np.uint8).max() > 1:
        damaged("an array of flags holds more than True and False")
    return np.frombuffer(data, dtype).reshape(shape, order=order)  # type: ignore[call-overload]


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    if order not in ("C", "F"):
        refuse("builds an array in an unusual way")
    return _filled(data, dtype, shape, order)


BUILDERS: dict[tuple[str, str], Builder] = {
    ("numpy", "ndarray"): Builder("numpy.ndarray", value=np.ndarray),
    ("numpy", "dtype"): Builder("numpy.dtype", _dtype, np.dtype),
    ("megengine.core._imperative_rt", "pybfloat16"): _BFLOAT16,
    ("ml_dtypes", "bfloat16"): _BFLOAT16,
}
for _core in ("numpy.core", "numpy._core"):
    BUILDERS[_core + ".multiarray", "_reconstruct"] = Builder("_reconstruct", _reconstruct)
    BUILDERS[_core + ".multiarray", "scalar"] = Builder("scalar", _scalar)
    BUILDERS[_core + ".numeric", "_frombuffer"] = Builder("_frombuffer", _frombuffer)
for _name in _SCALAR_TYPES:  # as values: what they are called with is refused
    BUILDERS["numpy", _name] = Builder(
        f"numpy.{_name}", value=np.bool_ if _name == "bool" else getattr(np, _name)
    )


def array_from_state(state: Any) -> np.ndarray:
    """The array of pickle's BUILD: (version, shape, dtype, Fortran order, bytes)."""
    if not isinstance(state, tuple) or len(state) != 5:
        refuse("builds an array in an unusual way")
    _, shape, dtype, fortran, data = state
    if isinstance(data, str):
        data = data.encode("latin1")
    array = _filled(data, dtype, shape, "F" if fortran else "C")
    if not array.size:
        return array
    if not dtype.isnative:  # which NumPy 1 would change
        return array.copy(order="K")
    # NumPy takes large bytes over without a copy, as in its own pickles. All is checked by now.
    out: Any = np.empty((0,), np.int8)
    out.__setstate__((1, shape, dtype, bool(fortran), data))
    return out


# ---- dtypes --------------------------------------------------------------------------------------


def _count_fields(dtype: np.dtype[Any]) -> int:
    """How many types a type consists of, each as often as it is there, or more than are allowed."""
    left, count = [dtype], 0
    while left and count <= _MOST_FIELDS:
        one = left.pop()
        count += 1
        if one.subdtype is not None:
            left.append(one.subdtype[0])
        elif one.fields is not None:
            left.extend(field[0] for field in one.fields.values())
    return count


def _checked_fields(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if _count_fields(dtype) > _MOST_FIELDS:
        damaged(f"an array type has more than {_MOST_FIELDS} fields")
    return dtype


def _structured(dtype: np.dtype[Any], names: Any, fields: Any, aligned: bool) -> np.dtype[Any]:
    plain = isinstance(names, tuple) and isinstance(fields, dict) and fields.keys() == set(names)
    if not plain or len(names) > _MOST_FIELDS:
        refuse("uses a structured array type with titles, or an unusual one")
    types, offsets = [], []
    for name in names:
        field = fields[name]
        if not isinstance(name, str) or not isinstance(field, tuple) or len(field) != 2:
            refuse("uses a structured array type with titles, or an unusual one")
        kind, offset = field
        if not isinstance(kind, np.dtype) or not kind.itemsize or type(offset) is not int:
            refuse("uses a structured array type whose fields are of no known size")
        types.append(_checked_fields(kind))
        offsets.append(offset)
    return np.dtype(
        {"names": list(names), "formats": types, "offsets": offsets, "itemsize": dtype.itemsize},
        align=aligned,
    )


def _of_arrays(dtype: np.dtype[Any], subdtype: Any) -> np.dtype[Any]:
    if not isinstance(subdtype, tuple) or len(subdtype) != 2:
        refuse("uses an unusual array type")
    base, shape = subdtype
    shape = (shape,) if type(shape) is int else shape
    if not isinstance(base, np.dtype) or not base.itemsize:
        refuse("uses an unusual array type")
    if base.itemsize * math.prod(_shape(shape)) != dtype.itemsize:
        damaged("an array type has the wrong size")
    return np.dtype((base, shape))


def _with_metadata(dtype: np.dtype[Any], metadata: Any) -> np.dtype[Any]:
    """Dates with their unit, and the reference's quantised types; other notes are refused."""
    match metadata:
        case (None | {}, (bytes(unit), int(number), int(part), _)) if dtype.kind in "mM":
            if unit == b"generic":
                return dtype
            if re.fullmatch(rb"[A-Za-z]{1,2}", unit) and 0 < number < 2**31 and 0 < part < 2**31:
                return np.dtype(f"{dtype.char}8[{number}{unit.decode()}/{part}]")
        case {"mgb_dtype": dict(notes), **rest} if not rest:
            plain = all(isinstance(value, (str, int, float)) for value in notes.values())
            if plain and notes.keys() <= {"name", "scale", "zero_point"}:
                return np.dtype(dtype.str, metadata={"mgb_dtype": dict(notes)})
    return refuse("uses an array type with notes on it")


def dtype_from_state(dtype: np.dtype[Any], state: Any) -> np.dtype[Any]:
    """The dtype of pickle's BUILD.

    That is (version, byte order, sub-array, names, fields, size, alignment, flags, notes).
    """
    plain = isinstance(state, tuple) and len(state) in (8, 9) and type(state[7]) is int
    if not plain or state[1] not in ("<", ">", "|", "="):
        refuse("uses an unusual array type")
    _, order, subdtype, names, fields, _, _, flags, *notes = state
    if flags & 0x01:  # holds references to objects
        refuse("uses an array type of objects")
    if subdtype is not None:
        if names is not None or fields is not None or dtype.kind != "V":
            refuse("uses an unusual array type")
        return _checked_fields(_of_arrays(dtype, subdtype))
    if names is not None or fields is not None:
        if dtype.kind != "V":
            refuse("uses an unusual array type")
        return _checked_fields(_structured(dtype, names, fields, bool(flags & 0x80)))
    if notes and notes[0]:
        dtype = _with_metadata(dtype, notes[0])
    return dtype.newbyteorder(">") if order == ">" else dtype
