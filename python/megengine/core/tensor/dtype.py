"""NumPy's view of our dtypes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ... import _core

__all__ = [
    "QuantDtypeMeta",
    "bfloat16",
    "convert_from_qint1",
    "convert_from_qint4",
    "convert_from_qint8",
    "convert_from_qint32",
    "convert_from_quint4",
    "convert_from_quint8",
    "convert_to_qint1",
    "convert_to_qint4",
    "convert_to_qint8",
    "convert_to_qint32",
    "convert_to_quint4",
    "convert_to_quint8",
    "create_quantized_dtype",
    "get_dtype_bit",
    "get_scale",
    "get_zero_point",
    "is_bfloat16",
    "is_differentible_dtype",
    "is_dtype_equal",
    "is_lowbit",
    "is_quantize",
    "qint1",
    "qint4",
    "qint8",
    "qint32",
    "quint4",
    "quint8",
]

bfloat16 = np.dtype(ml_dtypes.bfloat16)


def _plain_array(data: Any, to_uint64: bool) -> tuple[np.ndarray, bool]:
    """What the core reads: an aligned native array, and whether it holds bfloat16 bits."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"tensor: {error}") from None
    if to_uint64 and array.dtype == np.float64 and isinstance(data, (list, tuple)):
        # NumPy reads integers on both sides of 2^63 as floats.
        exact = np.asarray(data, dtype=object)
        if all(isinstance(n, int) and 0 <= n < 2**64 for n in exact.flat):
            array = exact.astype(np.uint64)
    if array.dtype.metadata and "mgb_dtype" in array.dtype.metadata:
        raise NotImplementedError(
            "tensor: quantised tensors are not supported yet; pass the integers, "
            "array.view('int8'), or the floats, core.tensor.dtype.convert_from_qint8(array)"
        )
    if array.dtype == bfloat16:
        return array.view(np.uint16), True
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > (
        16 if array.dtype.kind == "c" else 8
    ):
        raise TypeError(
            f"tensor: expected numbers or booleans, got {type(data).__name__} of dtype "
            f"{array.dtype}"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return array, False


_core._set_numpy(
    np, _plain_array, [bfloat16 if n == "bfloat16" else np.dtype(n) for n in _core.dtype_names()]
)


def is_bfloat16(dtype: Any) -> bool:
    """Whether a dtype is bfloat16.

    >>> is_bfloat16("bfloat16"), is_bfloat16("float32")
    (True, False)
    """
    return dtype == "bfloat16" or dtype == bfloat16


def is_differentible_dtype(dtype: Any) -> bool:
    """Whether tensors of a dtype have gradients: the float types and the complex ones.

    >>> is_differentible_dtype("float16"), is_differentible_dtype("int32")
    (True, False)
    """
    return is_bfloat16(dtype) or np.dtype(dtype).kind in "fc"


def is_dtype_equal(a: Any, b: Any) -> bool:
    """Whether two dtypes, or names of dtypes, are one; quantised ones with scale and zero point.

    >>> is_dtype_equal("float32", np.float32)
    True
    >>> is_dtype_equal(qint8(0.5), qint8(0.25))
    False
    """
    a, b = (np.dtype(bfloat16 if is_bfloat16(d) else d) for d in (a, b))
    return a == b and _quantization(a) == _quantization(b)


# ---- quantised dtypes ---------------------------------------------------------------------------
# NumPy dtypes of the stored integers, whose metadata say what the integers stand for.


class QuantDtypeMeta(
    NamedTuple(
        "_Meta",
        [
            ("name", str),
            ("cname", str),
            ("np_dtype_str", str),
            ("qmin", int),
            ("qmax", int),
            ("is_unsigned", bool),
        ],
    )
):
    """What a kind of quantised dtype is, before a scale is chosen.

    Args:
        name: such as ``"qint8"``.
        cname: the name of the storage format in files, None for formats that only exist in
            training.
        np_dtype_str: the NumPy dtype of the stored integers.
        qmin: the lowest stored integer.
        qmax: the highest one.
        is_unsigned: whether there is a zero point; whether ``np_dtype_str`` is unsigned, without.

    >>> QuantDtypeMeta("qint8_narrow", "QuantizedS8", "int8", -127, 127).is_unsigned
    False
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        cname: str,
        np_dtype_str: str,
        qmin: int,
        qmax: int,
        is_unsigned: bool | None = None,
    ) -> QuantDtypeMeta:
        """Works out ``is_unsigned`` where it is not given."""
        if is_unsigned is None:
            is_unsigned = np_dtype_str[0] == "u"
        return super().__new__(cls, name, cname, np_dtype_str, qmin, qmax, is_unsigned)

    def __copy__(self) -> QuantDtypeMeta:
        return self

    def __deepcopy__(self, memo: Any) -> QuantDtypeMeta:
        return self

    def __repr__(self) -> str:
        fields = ", ".join(f"{f}={v!r}" for f, v in zip(self._fields, self, strict=True))
        return f"QuantDtypeMeta({fields})"


_builtin_quant_dtypes = {
    meta.name: meta
    for meta in [
        QuantDtypeMeta("quint8", "Quantized8Asymm", "uint8", 0, 255),
        QuantDtypeMeta("qint8", "QuantizedS8", "int8", -128, 127),
        QuantDtypeMeta("qint8_narrow", "QuantizedS8", "int8", -127, 127),
        QuantDtypeMeta("quint4", "Quantized4Asymm", "uint8", 0, 15),
        QuantDtypeMeta("qint4", "QuantizedS4", "int8", -8, 7),
        QuantDtypeMeta("qint1", "QuantizedS1", "int8", 0, 1),
        QuantDtypeMeta("qint32", "QuantizedS32", "int32", -(2**31), 2**31 - 1),
        QuantDtypeMeta("quint2", None, "uint8", 0, 3),  # type: ignore[arg-type]
        QuantDtypeMeta("qint2", None, "int8", -2, 1),  # type: ignore[arg-type]
    ]
}


def _quantization(dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """Name, scale and zero point of a quantised dtype; None for others."""
    metadata = dtype.metadata
    return metadata.get("mgb_dtype") if metadata else None


def is_quantize(dtype: Any) -> bool:
    """Whether a dtype is quantised.

    >>> is_quantize(qint8(0.5)), is_quantize("int8")
    (True, False)
    """
    return not is_bfloat16(dtype) and _quantization(np.dtype(dtype)) is not None


def is_lowbit(dtype: Any) -> bool:
    """Whether a dtype packs elements of less than a byte: there is none here.

    >>> is_lowbit("int8")
    False
    """
    return False


def get_scale(dtype: Any) -> float:
    """The scale of a quantised dtype.

    >>> get_scale(qint8(0.5))
    0.5

    Raises:
        TypeError: for a dtype that is not quantised.
    """
    if not is_quantize(dtype):
        raise TypeError(f"get_scale: expected a quantised dtype, got {dtype}")
    return _quantization(np.dtype(dtype))["scale"]  # type: ignore[index]


def get_zero_point(dtype: Any) -> int:
    """The zero point of an unsigned quantised dtype.

    >>> get_zero_point(quint8(0.5, 128))
    128

    Raises:
        TypeError: for a dtype without zero point.
    """
    found = _quantization(np.dtype(dtype)) if is_quantize(dtype) else None
    if found is None or "zero_point" not in found:
        raise TypeError(f"get_zero_point: expected quint8 or quint4, got {found or dtype}")
    return found["zero_point"]


def get_dtype_bit(dtype_name: str) -> int:
    """How many bits an element of a dtype has.

    >>> get_dtype_bit("quint4"), get_dtype_bit("float32"), get_dtype_bit("bool")
    (4, 32, 1)

    Raises:
        ValueError: where the name does not say.
    """
    if dtype_name == "bool":
        return 1
    digits = re.findall(r"\d+", dtype_name)
    if not digits:
        raise ValueError(f"get_dtype_bit: no size in the name {dtype_name!r}")
    return int(digits[0])


def _check_zero_point(zp: Any, dtype_meta: QuantDtypeMeta) -> int:
    try:
        number = operator.index(zp)
    except TypeError:
        raise ValueError(f"{dtype_meta.name}: zero_point should be an integer") from None
    if not dtype_meta.qmin <= number <= dtype_meta.qmax:
        raise ValueError(
            f"{dtype_meta.name}: zero_point should be within [{dtype_meta.qmin}, "
            f"{dtype_meta.qmax}], got {number}"
        )
    return number


def create_quantized_dtype(
    dtype_meta: QuantDtypeMeta, scale: float, zp: int | None
) -> np.dtype[Any]:
    """A quantised dtype: integers q that stand for ``scale * (q - zp)``.

    Args:
        dtype_meta: the kind.
        scale: the step.
        zp: the zero point of an unsigned kind; None for a signed one.

    >>> create_quantized_dtype(QuantDtypeMeta("qint8", "QuantizedS8", "int8", -128, 127), 0.5, None)
    dtype('int8')

    Raises:
        ValueError: for a zero point that does not fit the kind.
    """
    try:
        number = float(scale)
    except (TypeError, ValueError):
        raise TypeError(f"{dtype_meta.name}: expected a number as scale, got {scale!r}") from None
    metadata: dict[str, Any] = {"name": dtype_meta.cname, "scale": number}
    if dtype_meta.is_unsigned:
        metadata["zero_point"] = _check_zero_point(zp, dtype_meta)
    elif zp is not None:
        raise ValueError(
            f"{dtype_meta.name}: only supports symmetric quantization, zero_point should be None, "
            f"but actually got {zp!r}"
        )
    return np.dtype(dtype_meta.np_dtype_str, metadata={"mgb_dtype": metadata})


def quint8(scale: float, zero_point: int) -> np.dtype[Any]:
    """Bytes q that stand for ``scale * (q - zero_point)``.

    >>> get_scale(quint8(0.5, 128))
    0.5
    """
    return create_quantized_dtype(_builtin_quant_dtypes["quint8"], scale, zero_point)


def qint8(scale: float) -> np.dtype[Any]:
    """Signed bytes q that stand for ``scale * q``.

    >>> get_scale(qint8(0.5))
    0.5
    """
    return create_quantized_dtype(_builtin_quant_dtypes["qint8"], scale, None)


def qint32(scale: float) -> np.dtype[Any]:
    """Integers q of 32 bits that stand for ``scale * q``: sums of products of bytes.

    >>> get_scale(qint32(0.5))
    0.5
    """
    return create_quantized_dtype(_builtin_quant_dtypes["qint32"], scale, None)


def quint4(scale: float, zero_point: int) -> np.dtype[Any]:
    """Integers q in [0, 15] that stand for ``scale * (q - zero_point)``, one in a byte.

    >>> get_zero_point(quint4(0.5, 8))
    8
    """
    return create_quantized_dtype(_builtin_quant_dtypes["quint4"], scale, zero_point)


def qint4(scale: float) -> np.dtype[Any]:
    """Integers q in [-8, 7] that stand for ``scale * q``, one in a byte.

    >>> get_scale(qint4(0.5))
    0.5
    """
    return create_quantized_dtype(_builtin_quant_dtypes["qint4"], scale, None)


def qint1(scale: float) -> np.dtype[Any]:
    """Integers q in [0, 1] that stand for ``scale * q``, one in a byte.

    >>> get_scale(qint1(0.5))
    0.5
    """
    return create_quantized_dtype(_builtin_quant_dtypes["qint1"], scale, None)


def _convert_to_quantized_dtype(
    arr: np.ndarray[Any, Any], dtype: Any, dtype_meta: QuantDtypeMeta
) -> np.ndarray[Any, Any]:
    if not isinstance(arr, np.ndarray):
        raise ValueError("arr parameter should be instance of np.ndarray")
    found = _quantization(dtype) if isinstance(dtype, np.dtype) else None
    if found is None or found["name"] != dtype_meta.cname:
        raise ValueError(f"dtype parameter should be a {dtype_meta} dtype")
    zero_point = get_zero_point(dtype) if dtype_meta.is_unsigned else 0
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        steps = np.round(arr / np.asarray(get_scale(dtype), arr.dtype)) + zero_point
    steps = np.nan_to_num(steps, nan=0.0, posinf=np.inf, neginf=-np.inf)
    # Clipped in float64, which holds every bound.
    return np.clip(steps.astype(np.float64), dtype_meta.qmin, dtype_meta.qmax).astype(dtype)


def _convert_from_quantized_dtype(
    arr: np.ndarray[Any, Any], dtype_meta: QuantDtypeMeta
) -> np.ndarray[Any, Any]:
    if not isinstance(arr, np.ndarray):
        raise ValueError("arr parameter should be instance of np.ndarray")
    found = _quantization(arr.dtype)
    if found is None or found["name"] != dtype_meta.cname:
        raise ValueError(f"arr's dtype should be a {dtype_meta} dtype")
    steps = arr.astype(np.float32) - np.float32(found.get("zero_point", 0))
    return steps * np.float32(found["scale"])


_To = Callable[[np.ndarray[Any, Any], Any], np.ndarray[Any, Any]]
_From = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def _conversions(name: str) -> tuple[_To, _From]:
    """The functions between float arrays and arrays of one quantised dtype."""
    meta = _builtin_quant_dtypes[name]

    def to(arr: np.ndarray[Any, Any], q: Any) -> np.ndarray[Any, Any]:
        return _convert_to_quantized_dtype(arr, q, meta)

    def back(arr: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return _convert_from_quantized_dtype(arr, meta)

    to.__name__, back.__name__ = f"convert_to_{name}", f"convert_from_{name}"
    to.__qualname__, back.__qualname__ = to.__name__, back.__name__
    to.__doc__ = f"""Quantises a float array: to the nearest step (halves to even), in range.

    Args:
        arr: a float array; NaN becomes the zero point.
        q: a {name} dtype.

    Raises:
        ValueError: for another dtype, and for what is no array.
    """
    back.__doc__ = f"""The float32 values that a {name} array stands for.

    Raises:
        ValueError: for an array of another dtype.
    """
    return to, back


convert_to_quint8, convert_from_quint8 = _conversions("quint8")
convert_to_qint8, convert_from_qint8 = _conversions("qint8")
convert_to_qint32, convert_from_qint32 = _conversions("qint32")
convert_to_quint4, convert_from_quint4 = _conversions("quint4")
convert_to_qint4, convert_from_qint4 = _conversions("qint4")
convert_to_qint1, convert_from_qint1 = _conversions("qint1")
