"""Picking, putting, ordering."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import Context, host, op
from ..values import (
    TENSOR_DTYPES,
    AnyTensor,
    Array,
    dtype_from_onnx,
    dtype_of,
    is_float,
    shape_of,
    to_array,
    to_tensor,
)
from .math import scan_array
from .tensor import padded

# ---- picking ------------------------------------------------------------------------------------


def _from_start(indices: Array, size: int, op_name: str) -> Array:
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"{op_name}: an index is out of range for {size} elements")
    return np.where(indices < 0, indices + size, indices)


@op("GatherElements")
def gather_elements(x: Tensor, indices: Array, *, axis: int = 0) -> Tensor:
    i = axis % x.ndim
    places = _from_start(indices, x._tuple_shape[i], "GatherElements")
    if any(
        n > m for k, (n, m) in enumerate(zip(places.shape, x._tuple_shape, strict=True)) if k != i
    ):
        raise ValueError(
            f"GatherElements: indices of shape {places.shape} do not fit data {x._tuple_shape}"
        )
    return F.gather(x, i, to_tensor(places))


@host("GatherElements")
def gather_elements_of_array(x: Array, indices: Array, *, axis: int = 0) -> Array:
    places = _from_start(indices, x.shape[axis], "GatherElements")
    grid: list[Array] = list(np.indices(places.shape, sparse=True))
    grid[axis % x.ndim] = places
    return x[tuple(grid)]


def _nd_index(
    indices: Array, sizes: tuple[int, ...], batch_dims: int, name: str
) -> tuple[Any, ...]:
    depth = indices.shape[-1]
    if batch_dims + depth > len(sizes):
        raise ValueError(f"{name}: indices of {depth} axes do not fit shape {sizes}")
    parts = [_from_start(indices[..., k], sizes[batch_dims + k], name) for k in range(depth)]
    lead = []
    for k in range(batch_dims):
        shape = [1] * (indices.ndim - 1)
        shape[k] = sizes[k]
        lead.append(np.arange(sizes[k]).reshape(shape))
    return tuple(np.broadcast_arrays(*lead, *parts)) if lead or parts else ()


@op("GatherND")
def gather_nd(x: Tensor, indices: Array, *, batch_dims: int = 0) -> Tensor:
    return x[_nd_index(indices, x._tuple_shape, batch_dims, "GatherND")]


@host("GatherND")
def gather_nd_of_array(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    return np.asarray(x[_nd_index(indices, x.shape, batch_dims, "GatherND")])


@op("Compress")
def compress(x: Tensor, condition: Array, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = F.reshape(x, (x.size,)), 0
    (places,) = np.nonzero(condition)
    i = axis % x.ndim
    if not places.size:
        sizes = x._tuple_shape
        return F.zeros((*sizes[:i], 0, *sizes[i + 1 :]), dtype=x.dtype)
    return x[(slice(None),) * i + (_from_start(places, x._tuple_shape[i], "Compress"),)]


# ---- putting ------------------------------------------------------------------------------------

_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _element_places(indices: Array, sizes: tuple[int, ...], axis: int) -> Array:
    """Positions in the flattened data of what ScatterElements writes."""
    i = axis % len(sizes)
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[i] = _from_start(indices, sizes[i], "ScatterElements")
    return _flat(grid, sizes)


def _flat(grid: list[Any], sizes: tuple[int, ...]) -> Array:
    """Positions in the flattened tensor of those that are given for each axis."""
    return np.asarray(np.ravel_multi_index(tuple(np.broadcast_arrays(*grid)), sizes))


def _put(x: AnyTensor, places: Array, updates: AnyTensor, reduction: str) -> AnyTensor:
    """Writes ``updates[i]`` to ``x.flat[places[i]]``; of several for one place the last stays."""
    if reduction not in ("none", *_REDUCTIONS):
        raise ValueError(f"expected reduction none, add, mul, max or min, got {reduction!r}")
    shape = shape_of(x)
    on_tensors = isinstance(x, Tensor) or isinstance(updates, Tensor)
    if on_tensors and reduction in ("none", "add") and places.size:
        tensor, more = to_tensor(x), to_tensor(updates)
        flat = F.reshape(tensor, (tensor.size,))
        values = F.reshape(more, (more.size,))
        flat_places = places.reshape(-1)
        if reduction == "add":
            spread = F.zeros_like(flat)
            return F.reshape(flat + _added(spread, flat_places, values), shape)
        # The last of each place, so that gradients know which one stayed.
        _, first = np.unique(flat_places[::-1], return_index=True)
        last = np.sort(flat_places.size - 1 - first)
        out = F.copy(flat)
        out[to_tensor(flat_places[last])] = values[to_tensor(last)]
        return F.reshape(out, shape)
    array = to_array(x).copy()
    values_array, flat_view = to_array(updates).reshape(-1), array.reshape(-1)
    if reduction == "none":
        flat_view[places.reshape(-1)] = values_array
    else:
        _REDUCTIONS[reduction].at(flat_view, places.reshape(-1), values_array)
    return to_tensor(array) if on_tensors else array


def _added(zeros: Tensor, places: Array, values: Tensor) -> Tensor:
    """Sums of the values for each place."""
    order = np.argsort(places, kind="stable")
    ranks = np.empty_like(order)
    ordered = places[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    counts = np.diff(np.r_[starts, len(ordered)])
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, counts)
    total = zeros
    for rank in range(int(counts.max())):
        (mine,) = np.nonzero(ranks == rank)
        part = F.copy(zeros)
        part[to_tensor(places[mine])] = values[to_tensor(mine)]
        total = total + part
    return total


@op("Scatter")
def scatter(x: AnyTensor, indices: Array, updates: AnyTensor, *, axis: int = 0) -> AnyTensor:
    return _put(x, _element_places(indices, shape_of(x), axis), updates, "none")


@op("ScatterElements")
def scatter_elements(
    x: AnyTensor, indices: Array, updates: AnyTensor, *, axis: int = 0, reduction: str = "none"
) -> AnyTensor:
    return _put(x, _element_places(indices, shape_of(x), axis), updates, reduction)


@op("ScatterND")
def scatter_nd(
    x: AnyTensor, indices: Array, updates: AnyTensor, *, reduction: str = "none"
) -> AnyTensor:
    sizes = shape_of(x)
    depth = indices.shape[-1]
    parts = _nd_index(indices, sizes, 0, "ScatterND")
    rest = sizes[depth:]
    start = (
        np.ravel_multi_index(parts, sizes[:depth]) if depth else np.zeros(indices.shape[:-1], int)
    )
    places = np.asarray(start)[..., None] * math.prod(rest) + np.arange(math.prod(rest))
    return _put(x, places.astype(np.int64), updates, reduction)


@op("TensorScatter", since=24)
def tensor_scatter(
    past: AnyTensor,
    update: AnyTensor,
    write_indices: Array | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> AnyTensor:
    sizes, more = shape_of(past), shape_of(update)
    i = axis % len(sizes)
    start = np.zeros(sizes[0], np.int64) if write_indices is None else write_indices
    place = start[:, None] + np.arange(more[i])
    if mode == "circular":
        place = place % sizes[i]
    elif mode != "linear":
        raise ValueError(f"TensorScatter: expected mode linear or circular, got {mode!r}")
    grid: list[Any] = list(np.indices(more, sparse=True))
    shape = [1] * len(more)
    shape[0], shape[i] = place.shape
    grid[i] = _from_start(place, sizes[i], "TensorScatter").reshape(shape)
    return _put(past, _flat(grid, sizes), update, "none")


@op("OneHot", grows=True)
def one_hot(indices: Array, depth: Array, values: AnyTensor, *, axis: int = -1) -> AnyTensor:
    n = int(depth.item())
    label = indices.astype(np.int64)
    label = np.where(label < 0, label + n, label)
    i = axis % (label.ndim + 1)
    shape = [1] * (label.ndim + 1)
    shape[i] = n
    hit = np.expand_dims(label, i) == np.arange(n).reshape(shape)
    if isinstance(values, Tensor):
        return F.where(to_tensor(hit), values[1], values[0])
    out = np.where(hit, values[1], values[0])
    return to_tensor(out) if out.dtype in TENSOR_DTYPES else out


@op("Trilu")
def trilu(x: Tensor, k: Array | None = None, *, upper: int = 1) -> Tensor:
    rows, columns = x._tuple_shape[-2:]
    mask = _triangle(rows, columns, 0 if k is None else int(k.item()), bool(upper))
    return F.where(to_tensor(np.broadcast_to(mask, x._tuple_shape)), x, F.zeros_like(x))


@host("Trilu")
def trilu_of_array(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    rows, columns = x.shape[-2:]
    mask = _triangle(rows, columns, 0 if k is None else int(k.item()), bool(upper))
    return np.where(mask, x, np.zeros((), x.dtype))


def _triangle(rows: int, columns: int, k: int, upper: bool) -> Array:
    distance = np.arange(columns) - np.arange(rows)[:, None]
    return distance >= k if upper else distance <= k


# ---- ordering -----------------------------------------------------------------------------------


def _topk(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    i = axis % x.ndim
    if not 0 <= k <= x._tuple_shape[i]:
        raise ValueError(f"TopK: expected k up to {x._tuple_shape[i]}, got {k}")
    order = [d for d in range(x.ndim) if d != i] + [i]
    back = [order.index(d) for d in range(x.ndim)]
    last = F.transpose(x, order)
    if k == 0:
        empty = F.zeros((*last._tuple_shape[:-1], 0), dtype=x.dtype)
        return F.transpose(empty, back), F.transpose(empty.astype("int64"), back)
    if dtype_of(x) == np.float64 or not is_float(dtype_of(x)):
        values, places = F.sort(last, descending=largest)
        values, places = values[..., :k], places[..., :k]
    else:
        values, places = F.topk(last, k, descending=largest)
    return F.transpose(values, back), F.transpose(places, back).astype("int64")


@op("TopK")
def topk_by_attribute(x: Tensor, *, axis: int = -1, k: int) -> tuple[Tensor, Tensor]:
    return _topk(x, k, axis, True)


@op("TopK", since=10)
def topk(
    x: Tensor, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    return _topk(x, int(k.item()), axis, bool(largest))


@host("TopK", since=10)
def topk_of_array(
    x: Array, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Array, Array]:
    # Of equal ones the first comes first, in both orders.
    keys = np.flip(x, axis) if largest else x
    order = np.argsort(keys, axis=axis, kind="stable")
    if largest:
        order = x.shape[axis] - 1 - np.flip(order, axis)
    places = np.take(order, np.arange(int(k.item())), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


@op("Unique")
def unique(
    ctx: Context, x: Tensor, *, axis: int | None = None, sorted: int = 1
) -> tuple[AnyTensor, ...]:
    values, *rest = unique_of_array(ctx, to_array(x), axis=axis, sorted=sorted)
    return to_tensor(values), *rest


@host("Unique")
def unique_of_array(
    ctx: Context, x: Array, *, axis: int | None = None, sorted: int = 1
) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(a.astype(np.int64) for a in (first, inverse, counts))


@op("ReverseSequence")
def reverse_sequence(
    x: Tensor, sequence_lens: Array, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    batch, time = batch_axis % x.ndim, time_axis % x.ndim
    t = np.arange(x._tuple_shape[time])[:, None]
    lengths = sequence_lens.reshape(1, -1)
    source = np.where(t < lengths, lengths - 1 - t, t)  # (time, batch)
    other = np.arange(x._tuple_shape[batch])[None, :]
    order = [time, batch, *(d for d in range(x.ndim) if d not in (time, batch))]
    moved = F.transpose(x, order)[source, np.broadcast_to(other, source.shape)]
    return F.transpose(moved, [order.index(d) for d in range(x.ndim)])


# ---- sizes --------------------------------------------------------------------------------------


@op("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Array, *, axes: tuple[int, ...] | None = None) -> Tensor:
    named = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, want in zip(named, shape.tolist(), strict=True):
        missing = int(want) - x._tuple_shape[axis]
        # Half of an odd number goes behind where it is put, and before where it is cut.
        before[axis] = missing // 2 if missing > 0 else -(-missing // 2)
        after[axis] = missing - before[axis]
    return padded(x, [*before, *after], "constant", 0.0)


@op("Col2Im")
def col2im(
    x: Tensor,
    image_shape: Array,
    block_shape: Array,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    image, block = [int(n) for n in image_shape], [int(n) for n in block_shape]
    n = len(image)
    gaps, steps = dilations or (1,) * n, strides or (1,) * n
    widths = pads or (0,) * (2 * n)
    padded_sizes = [image[i] + widths[i] + widths[n + i] for i in range(n)]
    counts = [(padded_sizes[i] - (block[i] - 1) * gaps[i] - 1) // steps[i] + 1 for i in range(n)]
    batch, rows, columns = x._tuple_shape
    area = math.prod(block)
    # The place of each element of each block in the padded image.
    grid = np.zeros((*block, *counts), np.int64)
    for i in range(n):
        along = np.arange(block[i]) * gaps[i]
        shape = [1] * (2 * n)
        shape[i] = block[i]
        start = np.arange(counts[i]) * steps[i]
        other = [1] * (2 * n)
        other[n + i] = counts[i]
        grid = grid * padded_sizes[i] + along.reshape(shape) + start.reshape(other)
    channels = rows // area
    size = math.prod(padded_sizes)
    lead = np.arange(batch * channels).reshape(-1, 1) * size
    places = lead + grid.reshape(1, -1)
    zeros = F.zeros((batch * channels * size,), dtype=x.dtype)
    values = F.reshape(x, (batch * channels, area * columns))
    found = _put(zeros, places, values, "add")
    out = F.reshape(to_tensor(found), (batch, channels, *padded_sizes))
    cut = [0, 0, *(-w for w in widths[:n]), 0, 0, *(-w for w in widths[n:])]
    return padded(out, cut, "constant", 0.0)


@host("BitCast", since=26)
def bit_cast(x: Array, *, to: int) -> Array:
    dtype = dtype_from_onnx(to)
    if dtype.itemsize != x.dtype.itemsize or np.dtype(object) in (dtype, x.dtype):
        raise ValueError(f"BitCast: {x.dtype} and {dtype} have not the same number of bits")
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)


@host("CumProd", since=26)
def cumprod(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return scan_array(np.cumprod, x, int(axis.item()), bool(exclusive), bool(reverse), 1)
