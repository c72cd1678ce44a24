"""Shapes, indices, joining and cutting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from .... import functional as F
from ....tensor import Tensor
from ..registry import Context, host, op
from ..values import (
    TENSOR_DTYPES,
    AnyTensor,
    Array,
    Value,
    dtype_from_onnx,
    dtype_of,
    is_float,
    shape_of,
    to_array,
    to_tensor,
)

_SMALL = 1024  # elements of a constant that may be worth keeping on the host


def _ints(values: Array | Sequence[int]) -> tuple[int, ...]:
    return tuple(np.asarray(values).reshape(-1).tolist())


# ---- dtypes -------------------------------------------------------------------------------------


def cast_value(
    x: AnyTensor, dtype: np.dtype[Any], saturate: bool = True, round_mode: str = "up"
) -> AnyTensor:
    """A tensor in another dtype: a Tensor where Tensors have the dtype, else an array."""
    if isinstance(x, Tensor):
        if dtype_of(x) == dtype:
            return x
        if dtype in TENSOR_DTYPES and (is_float(dtype) or dtype_of(x).kind not in "f"):
            return x.astype(dtype)
        if dtype == np.bool_:
            return F.not_equal(x, 0)
        if dtype in TENSOR_DTYPES:
            return x.astype(dtype)
        return cast_array(to_array(x), dtype, saturate, round_mode)
    array = cast_array(to_array(x), dtype, saturate, round_mode)
    big = array.size > _SMALL and is_float(dtype)
    return to_tensor(array) if big else array


def cast_array(
    x: Array, dtype: np.dtype[Any], saturate: bool = True, round_mode: str = "up"
) -> Array:
    """An array in another dtype; text is read and written."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if dtype == np.dtype(object):
            return np.vectorize(_text, otypes=[object])(x) if x.size else x.astype(object)
        if x.dtype.kind in "OUS":
            if dtype.kind in "iu":
                return np.vectorize(int, otypes=[dtype])(x)
            return np.vectorize(float, otypes=[np.float64])(x).astype(dtype)
        if dtype.name == "float8_e8m0fnu":
            return _to_power_of_two(x, dtype, saturate, round_mode)
        if dtype.name.startswith("float8") and saturate:
            return _to_float8(x, dtype)
        return x.astype(dtype)


def _to_power_of_two(x: Array, dtype: np.dtype[Any], saturate: bool, round_mode: str) -> Array:
    """Exponents only, from 2**-127 to 2**127: the power at or above each number, or below it."""
    fraction, exponent = np.frexp(x.astype(np.float64))  # fractions are in [0.5, 1)
    if round_mode == "up":
        power = exponent - (fraction == 0.5)
    elif round_mode == "down":
        power = exponent - 1
    elif round_mode == "nearest":
        power = exponent - (fraction < 0.75)
    else:
        raise ValueError(f"Cast: expected round_mode up, down or nearest, got {round_mode!r}")
    power = np.where(x == 0, -127, power)
    power = np.where(np.isinf(x), 128, power)
    if saturate:
        power = power.clip(-127, 127)
    return np.where(np.isnan(x), np.nan, np.ldexp(1.0, power)).astype(dtype)


def _to_float8(x: Array, dtype: np.dtype[Any]) -> Array:
    """What is too large becomes the largest number, infinities too; NaN stays NaN."""
    wide = x.astype(np.float32)
    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return wide.clip(float(limits.min), float(limits.max)).astype(dtype)


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)) or np.dtype(type(value)).kind not in "biu":
        return np.format_float_positional(np.float32(value), trim="-").rstrip(".")
    return str(value)


@op("Cast")
def cast_by_name(x: AnyTensor, *, to: str) -> AnyTensor:
    return cast_value(x, dtype_from_onnx(TensorProto.DataType.Value(to)))


@op("Cast", since=6)
def cast(x: AnyTensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> AnyTensor:
    return cast_value(x, dtype_from_onnx(to), bool(saturate), round_mode)


@op("CastLike")
def cast_like(
    x: AnyTensor, target: AnyTensor, *, saturate: int = 1, round_mode: str = "up"
) -> AnyTensor:
    return cast_value(x, dtype_of(target), bool(saturate), round_mode)


# ---- shapes -------------------------------------------------------------------------------------


@op("Shape")
def shape(x: AnyTensor, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(shape_of(x)[start:end], dtype=np.int64)


@op("Size")
def size(x: AnyTensor) -> Array:
    return np.array(math.prod(shape_of(x)), dtype=np.int64)


def new_shape(old: Sequence[int], asked: Array, allowzero: bool) -> tuple[int, ...]:
    """The shape that Reshape asks for: 0 keeps a size, -1 takes what is left."""
    sizes = list(_ints(asked))
    if not allowzero:
        for i, n in enumerate(sizes):
            if n == 0:
                if i >= len(old):
                    raise ValueError(f"Reshape: {tuple(sizes)} keeps size {i} of shape {old}")
                sizes[i] = old[i]
    if -1 in sizes:
        i = sizes.index(-1)
        rest = math.prod(n for k, n in enumerate(sizes) if k != i)
        sizes[i] = math.prod(old) // rest if rest else 0
    return tuple(sizes)


@op("Reshape")
def reshape_by_attribute(
    x: Tensor, *, shape: tuple[int, ...] = (), consumed_inputs: tuple[int, ...] = ()
) -> Tensor:
    return F.reshape(x, new_shape(x._tuple_shape, np.array(shape), False))


@op("Reshape", since=5)
def reshape(x: Tensor, shape: Array, *, allowzero: int = 0) -> Tensor:
    return F.reshape(x, new_shape(x._tuple_shape, shape, bool(allowzero)))


@host("Reshape", since=5)
def reshape_array(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    return x.reshape(new_shape(x.shape, shape, bool(allowzero)))


@op("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    sizes = x._tuple_shape
    cut = axis + len(sizes) if axis < 0 else axis
    return F.reshape(x, (math.prod(sizes[:cut]), math.prod(sizes[cut:])))


def _squeezed(sizes: Sequence[int], axes: Sequence[int] | None) -> tuple[int, ...]:
    drop = (
        {i for i, n in enumerate(sizes) if n == 1}
        if axes is None
        else {a % max(len(sizes), 1) for a in axes}
    )
    for i in drop:
        if sizes[i] != 1:
            raise ValueError(f"Squeeze: axis {i} of shape {tuple(sizes)} is not of size 1")
    return tuple(n for i, n in enumerate(sizes) if i not in drop)


@op("Squeeze")
def squeeze_by_attribute(x: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    return F.reshape(x, _squeezed(x._tuple_shape, axes))


@host("Squeeze")
def squeeze_array_by_attribute(x: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    return x.reshape(_squeezed(x.shape, axes))


@op("Squeeze", since=13)
def squeeze(x: Tensor, axes: Array | None = None) -> Tensor:
    return F.reshape(x, _squeezed(x._tuple_shape, None if axes is None else _ints(axes)))


@host("Squeeze", since=13)
def squeeze_array(x: Array, axes: Array | None = None) -> Array:
    return x.reshape(_squeezed(x.shape, None if axes is None else _ints(axes)))


def _unsqueezed(sizes: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    ndim = len(sizes) + len(axes)
    new = {a + ndim if a < 0 else a for a in axes}
    if len(new) != len(axes) or any(not 0 <= a < ndim for a in new):
        raise ValueError(f"Unsqueeze: axes {tuple(axes)} do not fit shape {tuple(sizes)}")
    rest = iter(sizes)
    return tuple(1 if i in new else next(rest) for i in range(ndim))


@op("Unsqueeze")
def unsqueeze_by_attribute(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    return F.reshape(x, _unsqueezed(x._tuple_shape, axes))


@host("Unsqueeze")
def unsqueeze_array_by_attribute(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.reshape(_unsqueezed(x.shape, axes))


@op("Unsqueeze", since=13)
def unsqueeze(x: Tensor, axes: Array) -> Tensor:
    return F.reshape(x, _unsqueezed(x._tuple_shape, _ints(axes)))


@host("Unsqueeze", since=13)
def unsqueeze_array(x: Array, axes: Array) -> Array:
    return x.reshape(_unsqueezed(x.shape, _ints(axes)))


@op("Transpose")
def transpose(x: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    return F.transpose(x, perm if perm is not None else tuple(reversed(range(x.ndim))))


@host("Transpose")
def transpose_array(x: Array, *, perm: tuple[int, ...] | None = None) -> Array:
    return np.transpose(x, perm)


@op("Expand", grows=True)
def expand(x: Tensor, shape: Array) -> Tensor:
    return F.broadcast_to(x, np.broadcast_shapes(x._tuple_shape, _ints(shape)))


@host("Expand")
def expand_array(x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, _ints(shape)))


@op("Tile", grows=True)
def tile_along_axis(x: Tensor, tiles: Array, axis: Array) -> Tensor:
    counts = [1] * x.ndim
    counts[int(axis.item())] = int(tiles.item())
    return F.tile(x, counts)


@op("Tile", since=6, grows=True)
def tile(x: Tensor, repeats: Array) -> Tensor:
    return F.tile(x, _ints(repeats)) if x.ndim else x


@host("Tile", since=6)
def tile_array(x: Array, repeats: Array) -> Array:
    return np.tile(x, _ints(repeats))


@op("Identity")
def identity(x: Value) -> Value:
    return x


@host("Identity")
def identity_of_array(x: Array) -> Array:
    return x


# ---- constants ----------------------------------------------------------------------------------


def filled(shape: Sequence[int], value: Array) -> AnyTensor:
    """A tensor of one value: on the host where it is small or of a dtype of the host's."""
    if any(n < 0 for n in shape):
        raise ValueError(f"ConstantOfShape: no tensor has the shape {tuple(shape)}")
    if value.dtype not in TENSOR_DTYPES or (math.prod(shape) <= _SMALL):
        return np.full(tuple(shape), value.item(), dtype=value.dtype)
    return F.full(tuple(shape), value.item(), dtype=value.dtype)


@op("ConstantOfShape", grows=True)
def constant_of_shape(shape: Array, *, value: Array | None = None) -> AnyTensor:
    one = np.zeros(1, np.float32) if value is None else value
    if one.size != 1:
        raise ValueError(f"ConstantOfShape: expected one value, got {one.size}")
    return filled(_ints(shape), one)


@op("EyeLike", grows=True)
def eye_like(x: AnyTensor, *, dtype: int | None = None, k: int = 0) -> AnyTensor:
    rows, columns = shape_of(x)
    kind = dtype_of(x) if dtype is None else dtype_from_onnx(dtype)
    array = np.eye(rows, columns, k).astype(kind)
    return to_tensor(array) if kind in TENSOR_DTYPES else array


@op("Range", grows=True)
def range_(start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Array:
    if delta.item() == 0:
        raise ValueError("Range: expected a delta other than 0")
    first, last, step = start.item(), limit.item(), delta.item()
    count = max(math.ceil((last - first) / step), 0)
    return (np.arange(count) * step + first).astype(start.dtype)


# ---- joining and cutting ------------------------------------------------------------------------


@op("Concat")
def concat_from_1(*xs: Tensor, axis: int = 1) -> Tensor:
    return F.concat(xs, axis)


@op("Concat", since=4)
def concat(*xs: Tensor, axis: int) -> Tensor:
    return F.concat(xs, axis)


@host("Concat", since=4)
def concat_arrays(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis)


def _part_sizes(size: int, sizes: Sequence[int] | None, n_parts: int) -> list[int]:
    if sizes is not None:
        if sum(sizes) != size or any(n < 0 for n in sizes):
            raise ValueError(f"Split: sizes {tuple(sizes)} do not make up {size}")
        return list(sizes)
    each = -(-size // n_parts)
    return [max(min(each, size - i * each), 0) for i in range(n_parts)]


def _split(x: Any, sizes: list[int], axis: int) -> tuple[Any, ...]:
    starts = np.cumsum([0, *sizes])
    lead = (slice(None),) * (axis % len(shape_of(x)))
    return tuple(x[(*lead, slice(int(a), int(a) + n))] for a, n in zip(starts, sizes, strict=False))


@op("Split")
def split_1(
    ctx: Context,
    x: Tensor,
    sizes: Array | None = None,
    *,
    axis: int = 0,
    split: tuple[int, ...] | None = None,
) -> tuple[Tensor, ...]:
    asked = split if sizes is None else _ints(sizes)
    return _split(x, _part_sizes(x._tuple_shape[axis], asked or None, ctx.n_outputs), axis)


@op("Split", since=2)
def split_by_attribute(
    ctx: Context, x: Tensor, *, axis: int = 0, split: tuple[int, ...] | None = None
) -> tuple[Tensor, ...]:
    sizes = _part_sizes(x._tuple_shape[axis], split or None, ctx.n_outputs)
    return _split(x, sizes, axis)


@host("Split", since=2)
def split_array_by_attribute(
    ctx: Context, x: Array, *, axis: int = 0, split: tuple[int, ...] | None = None
) -> tuple[Array, ...]:
    return _split(x, _part_sizes(x.shape[axis], split or None, ctx.n_outputs), axis)


@op("Split", since=13)
def split(
    ctx: Context,
    x: Tensor,
    split: Array | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    sizes = None if split is None else _ints(split)
    return _split(x, _part_sizes(x._tuple_shape[axis], sizes, num_outputs or ctx.n_outputs), axis)


@host("Split", since=13)
def split_array(
    ctx: Context,
    x: Array,
    split: Array | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> tuple[Array, ...]:
    sizes = None if split is None else _ints(split)
    return _split(x, _part_sizes(x.shape[axis], sizes, num_outputs or ctx.n_outputs), axis)


def _slices(
    sizes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[slice, ...]:
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    index = [slice(None)] * len(sizes)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ValueError("Slice: expected steps other than 0")
        n = sizes[axis]
        first, last, _ = slice(start, end, step).indices(n)
        # An end before the first element is None to Python.
        if step < 0 and end < -n:
            last = -1
        index[axis] = slice(first, None if last < 0 else last, step)
    return tuple(index)


@op("Slice")
def slice_by_attribute(
    x: Tensor,
    *,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None = None,
) -> Tensor:
    return x[_slices(x._tuple_shape, starts, ends, axes, None)] if starts else x


@host("Slice")
def slice_array_by_attribute(
    x: Array,
    *,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None = None,
) -> Array:
    return x[_slices(x.shape, starts, ends, axes, None)]


def _read_slices(
    sizes: Sequence[int], starts: Array, ends: Array, axes: Array | None, steps: Array | None
) -> tuple[slice, ...]:
    return _slices(
        sizes,
        _ints(starts),
        _ints(ends),
        None if axes is None else _ints(axes),
        None if steps is None else _ints(steps),
    )


@op("Slice", since=10)
def slice_(
    x: Tensor, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Tensor:
    return x[_read_slices(x._tuple_shape, starts, ends, axes, steps)] if starts.size else x


@host("Slice", since=10)
def slice_array(
    x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    return x[_read_slices(x.shape, starts, ends, axes, steps)]


@op("Pad")
def pad_from_1(
    x: Tensor, *, paddings: tuple[int, ...], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return padded(x, paddings, mode, value)


@op("Pad", since=2)
def pad_by_attribute(
    x: Tensor, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return padded(x, pads, mode, value)


@op("Pad", since=11, grows=True)
def pad(
    x: Tensor,
    pads: Array,
    constant_value: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    value = 0.0 if constant_value is None or not constant_value.size else constant_value.item()
    return padded(x, _all_pads(pads, axes, x.ndim), mode, value)


@host("Pad", since=11)
def pad_array(
    x: Array,
    pads: Array,
    constant_value: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
) -> Array:
    if mode != "constant":
        return to_array(pad(to_tensor(x), pads, constant_value, axes, mode=mode))
    value = 0 if constant_value is None or not constant_value.size else constant_value.item()
    widths = _all_pads(pads, axes, x.ndim)
    x = x[_cuts(x.shape, widths)]
    grow = [(max(a, 0), max(b, 0)) for a, b in zip(widths[: x.ndim], widths[x.ndim :], strict=True)]
    return np.pad(x, grow, constant_values=value).astype(x.dtype)


def _all_pads(pads: Array, axes: Array | None, ndim: int) -> tuple[int, ...]:
    widths = _ints(pads)
    if axes is None:
        return widths
    named = [a % ndim for a in _ints(axes)]
    if len(widths) != 2 * len(named):
        raise ValueError(f"Pad: {len(widths)} widths do not fit {len(named)} axes")
    out = [0] * (2 * ndim)
    for i, axis in enumerate(named):
        out[axis], out[ndim + axis] = widths[i], widths[len(named) + i]
    return tuple(out)


def _cuts(sizes: Sequence[int], pads: Sequence[int]) -> tuple[slice, ...]:
    """What negative widths leave."""
    n = len(sizes)
    return tuple(slice(max(-pads[i], 0), sizes[i] - max(-pads[n + i], 0)) for i in range(n))


def padded(x: Tensor, pads: Sequence[int], mode: str, value: float) -> Tensor:
    """A tensor with elements put before and after it; negative widths take some away."""
    if len(pads) != 2 * x.ndim:
        raise ValueError(f"Pad: {len(pads)} widths do not fit {x.ndim} axes")
    if any(p < 0 for p in pads):
        x = x[_cuts(x._tuple_shape, pads)]
        pads = [max(p, 0) for p in pads]
    widths = tuple(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    if not any(pads):
        return x
    if mode in ("constant", "reflect", "edge", "wrap"):
        if _fits_pad(x, widths, mode, value):
            named = "replicate" if mode == "edge" else mode
            return F.nn.pad(x, widths, named, value)
        return _padded_by_index(x, widths, mode, value)
    raise ValueError(f"Pad: expected mode constant, reflect, edge or wrap, got {mode!r}")


def _fits_pad(x: Tensor, widths: Sequence[tuple[int, int]], mode: str, value: float) -> bool:
    """Whether the op of the core does it."""
    if x.ndim > 7 or dtype_of(x) not in (np.float32, np.float16) or mode == "wrap":
        return False
    if mode == "reflect":
        return all(max(w) < n for w, n in zip(widths, x._tuple_shape, strict=True))
    return mode == "edge" or math.isfinite(value)


def _padded_by_index(
    x: Tensor, widths: Sequence[tuple[int, int]], mode: str, value: float
) -> Tensor:
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = x._tuple_shape[axis]
        if mode == "constant":
            parts = [x]
            for place, width in ((0, before), (2, after)):
                if width:
                    sizes = [width if i == axis else s for i, s in enumerate(x._tuple_shape)]
                    piece = F.full(sizes, value, dtype=x.dtype)
                    parts.insert(place, piece)
            x = F.concat(parts, axis)
            continue
        places = np.arange(-before, n + after)
        if mode == "edge":
            places = places.clip(0, n - 1)
        elif mode == "wrap":
            places = places % n
        else:
            period = max(2 * (n - 1), 1)
            places = np.abs((places + n - 1) % period - (n - 1))
        x = x[(slice(None),) * axis + (places,)]
    return x


# ---- picking ------------------------------------------------------------------------------------


def _positions(indices: AnyTensor, size: int) -> Any:
    """Indices that count from the start."""
    if isinstance(indices, Tensor):
        return F.where(indices < 0, indices + size, indices)
    array = to_array(indices)
    if array.size and not (-size <= array.min() and array.max() < size):
        raise IndexError(f"Gather: an index is out of range for {size} elements")
    return np.where(array < 0, array + size, array)


@op("Gather")
def gather(x: Tensor, indices: AnyTensor, *, axis: int = 0) -> Tensor:
    i = axis % x.ndim
    lead = (slice(None),) * i
    if isinstance(indices, np.ndarray):
        if indices.ndim == 0:
            return x[(*lead, int(indices))]
        if indices.size == 0:
            sizes = x._tuple_shape
            return F.zeros((*sizes[:i], *indices.shape, *sizes[i + 1 :]), dtype=x.dtype)
    if i == 0 and isinstance(indices, Tensor) and is_float(dtype_of(x)) and x.ndim == 2:
        return F.nn.embedding(_positions(indices, x._tuple_shape[0]), x)
    index = indices if isinstance(indices, Tensor) else to_array(indices)
    return x[(*lead, index)]


@host("Gather")
def gather_array(x: Array, indices: Array, *, axis: int = 0) -> Array:
    return np.asarray(np.take(x, indices, axis))


@op("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return F.where(condition, x, y)


@host("Where")
def where_of_arrays(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


@op("NonZero")
def non_zero(x: Tensor) -> Tensor:
    return to_tensor(non_zero_of_array(to_array(x)))


@host("NonZero")
def non_zero_of_array(x: Array) -> Array:
    return np.array(np.nonzero(np.atleast_1d(x)), dtype=np.int64)
