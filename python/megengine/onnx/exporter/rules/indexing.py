"""Reading and writing parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder import Arg, Builder, Call
from ..registry import RefusedError, exports
from ..sizes import AnySize, Shape, Size, is_static, number_of_elements, per_sample

NO_BOUND = int(np.iinfo("int64").min)  # how our fields say that a slice has no such bound
LARGEST = int(np.iinfo("int64").max)
INT64 = np.dtype("int64")


# ---- the part that basic indices name ----------------------------------------------------------


def _items(call: Call) -> list[tuple[int, AnySize, AnySize, int]]:
    """(axis, start, stop, step) of each; step 0 is one element."""
    return [
        (int(axis), start, stop, int(step))
        for axis, start, stop, step in zip(
            call["axis"], call["start"], call["stop"], call["step"], strict=True
        )
    ]


def _basic(g: Builder, call: Call, x: Arg | str, shape: Shape) -> tuple[str, Shape]:
    """What is left of x, cut by slices, then single elements taken; and the shape that is left."""
    name = x if isinstance(x, str) else x.name
    items = _items(call)
    slices = [item for item in items if item[3] != 0]
    sizes = list(shape)
    if slices:
        starts: list[AnySize] = []
        stops: list[AnySize] = []
        for axis, start, stop, step in slices:
            starts.append((0 if step > 0 else LARGEST) if start == NO_BOUND else start)
            stops.append((LARGEST if step > 0 else NO_BOUND) if stop == NO_BOUND else stop)
            sizes[axis] = per_sample(_length, shape[axis], start, stop, step)
        name = g.slice(name, [i[0] for i in slices], starts, stops, [i[3] for i in slices])
    for axis, start, _, step in sorted(items, reverse=True, key=lambda item: item[0]):
        if step == 0:
            at = g.squeeze(g.size(start), [0]) if isinstance(start, Size) else None
            name = g.emit("Gather", name, at or g.scalar(int(start), "int64"), axis=axis)
            del sizes[axis]
    return name, tuple(sizes)


def _length(size: int, start: int, stop: int, step: int) -> int:
    first = None if start == NO_BOUND else start
    last = None if stop == NO_BOUND else stop
    return len(range(*slice(first, last, step).indices(size)))


@exports("Subtensor")
def subtensor(g: Builder, call: Call) -> str:
    """Slice and Gather."""
    return _basic(g, call, call.inputs[0], call.inputs[0].shape)[0]


# ---- the part that index arrays name -----------------------------------------------------------


def _index(g: Builder, x: Arg) -> str:
    return g.cast(x, "int64") if x.dtype.itemsize < 4 or x.dtype.kind == "u" else x.name


def _vec(g: Builder, call: Call, name: str, shape: Shape, arrays: Sequence[Arg]) -> str:
    """What x[index, index, ...] is: the axes of the arrays stand before axis `at` of the others."""
    axes, at = [int(a) for a in call["vec_axis"]], int(call["at"])
    if len(arrays) == 1:
        axis, index = axes[0], arrays[0]
        taken = g.emit("Gather", name, _index(g, index), axis=axis)
        # The axes of the index stand where the axis was.
        return _moved(g, taken, axis, at, index.ndim, len(shape) - 1)
    others = [i for i in range(len(shape)) if i not in axes]
    front = g.transpose(name, [*axes, *others])
    indices = _together(g, arrays)
    taken = g.emit("GatherND", front, indices)
    ndim = max(a.ndim for a in arrays)
    return _moved(g, taken, 0, at, ndim, len(others))


def _moved(g: Builder, name: str, where: int, to: int, count: int, others: int) -> str:
    """Moves `count` neighbouring axes from before axis `where` of the others to before `to`."""
    if where == to or count == 0:
        return name
    rest = [i if i < where else i + count for i in range(others)]
    block = list(range(where, where + count))
    return g.transpose(name, [*rest[:to], *block, *rest[to:]])


def _together(g: Builder, arrays: Sequence[Arg]) -> str:
    """Index arrays, broadcast to one shape, as the last axis of one."""
    ndim = max(a.ndim for a in arrays)
    shape: list[AnySize] = [1] * ndim
    for a in arrays:
        for i, n in enumerate(a.shape[::-1]):
            if n != 1:
                shape[ndim - 1 - i] = n
    parts = []
    for a in arrays:
        name = g.cast(a, "int64")
        if a.shape != tuple(shape):
            name = g.expand(name, tuple(shape))
        parts.append(g.unsqueeze(name, [ndim]))
    return g.emit("Concat", *parts, axis=ndim)


@exports("IndexingMultiAxisVec")
def indexing_multi_axis_vec(g: Builder, call: Call) -> str:
    """Gather for one index array, GatherND for several."""
    x, *arrays = call.inputs
    name, shape = _basic(g, call, x, x.shape)
    return _vec(g, call, name, shape, arrays)


# ---- writing -----------------------------------------------------------------------------------


def _positions(g: Builder, shape: Shape) -> str:
    """The number of each element, in the shape of the tensor."""
    count = number_of_elements(shape)
    if is_static(shape):
        sizes = [int(n) for n in shape]
        return g.constant(np.arange(int(np.prod(sizes)), dtype="int64").reshape(sizes))
    end = g.squeeze(g.size(count), [0])
    numbers = g.emit("Range", g.scalar(0, "int64"), end, g.scalar(1, "int64"))
    return g.emit("Reshape", numbers, g.sizes(shape))


def _write(g: Builder, x: Arg, v: Arg, positions: str, taken: Shape, add: bool) -> str:
    """The tensor x with the elements at these positions replaced, or added to."""
    if x.dtype == np.bool_ and add:
        raise RefusedError("adding to parts of a bool tensor has no meaning in ONNX")
    flat = g.reshape(x, (number_of_elements(x.shape),)) if x.ndim != 1 else x.name
    value = g.cast(v, x.dtype)
    # Leading ones of the value may be more than the part has axes.
    extra = v.ndim - len(taken)
    if extra > 0:
        value = g.squeeze(value, list(range(extra)))
    if v.shape[max(extra, 0) :] != taken:
        # The shape of the positions themselves: sizes of slices need no formula.
        to = g.sizes(taken) if is_static(taken) else g.emit("Shape", positions)
        value = g.emit("Expand", value, to)
    minus = g.ints([-1])
    written = g.emit(
        "ScatterElements",
        flat,
        g.emit("Reshape", positions, minus),
        g.emit("Reshape", value, minus),
        axis=0,
        reduction="add" if add else None,
    )
    return g.reshape(written, x.shape) if x.ndim != 1 else written


@exports("SetSubtensor", "IncrSubtensor")
def set_subtensor(g: Builder, call: Call) -> str:
    """ScatterElements at the positions that the same indices have in a tensor of positions."""
    x, v = call.inputs
    positions, taken = _basic(g, call, _positions(g, x.shape), x.shape)
    return _write(g, x, v, positions, taken, call.node.kind == "IncrSubtensor")


@exports("IndexingSetMultiAxisVec", "IndexingIncrMultiAxisVec")
def set_multi_axis_vec(g: Builder, call: Call) -> str:
    """Likewise; ONNX leaves open which of two writes to one position wins."""
    x, v, *arrays = call.inputs
    name, shape = _basic(g, call, _positions(g, x.shape), x.shape)
    positions = _vec(g, call, name, shape, arrays)
    axes, at = [int(a) for a in call["vec_axis"]], int(call["at"])
    others = [n for i, n in enumerate(shape) if i not in axes]
    ndim = max(a.ndim for a in arrays)
    block: list[AnySize] = [1] * ndim
    for a in arrays:
        for i, n in enumerate(a.shape[::-1]):
            if n != 1:
                block[ndim - 1 - i] = n
    taken = (*others[:at], *block, *others[at:])
    return _write(g, x, v, positions, taken, call.node.kind == "IndexingIncrMultiAxisVec")


# ---- along one axis ----------------------------------------------------------------------------


@exports("Gather")
def gather(g: Builder, call: Call) -> str:
    """GatherElements."""
    x, index = call.inputs
    return g.emit("GatherElements", x, g.cast(index, "int64"), axis=call["axis"] % x.ndim)


@exports("Scatter", "ScatterAdd")
def scatter(g: Builder, call: Call) -> str:
    """ScatterElements."""
    x, index, v = call.inputs
    value = g.cast(v, x.dtype)
    if v.shape != index.shape:
        value = g.expand(value, index.shape)
    return g.emit(
        "ScatterElements",
        x,
        g.cast(index, "int64"),
        value,
        axis=call["axis"] % x.ndim,
        reduction="add" if call.node.kind == "ScatterAdd" else None,
    )


@exports("IndexingOneHot")
def indexing_one_hot(g: Builder, call: Call) -> str:
    """GatherElements with an index of size 1 on the axis."""
    x, index = call.inputs
    axis = call["axis"] % x.ndim
    return g.emit("GatherElements", x, g.unsqueeze(g.cast(index, "int64"), [axis]), axis=axis)


@exports("IndexingSetOneHot")
def indexing_set_one_hot(g: Builder, call: Call) -> str:
    """ScatterElements with an index of size 1 on the axis."""
    x, index, v = call.inputs
    axis = call["axis"] % x.ndim
    at = g.unsqueeze(g.cast(index, "int64"), [axis])
    shape = (*index.shape[:axis], 1, *index.shape[axis:])
    value = g.cast(v, x.dtype)
    if v.shape != shape:
        value = g.expand(value, shape)
    return g.emit("ScatterElements", x, at, value, axis=axis)


# ---- by contents -------------------------------------------------------------------------------


@exports("CondTake")
def cond_take(g: Builder, call: Call) -> list[str]:
    """Compress, of the elements and of their positions."""
    mask, x = call.inputs
    flat = g.emit("Reshape", g.cast(mask, "bool"), g.ints([-1]))
    taken = g.emit("Compress", x, flat)
    where = g.squeeze(g.emit("NonZero", flat), [0])
    return [taken, g.cast(where, "int32", given="int64")]


@exports("NonZero")
def non_zero(g: Builder, call: Call) -> list[str]:
    """NonZero gives one matrix; a row of it for each axis."""
    x = call.inputs[0]
    found = g.emit("NonZero", x)
    return [
        g.cast(g.emit("Gather", found, g.scalar(i, "int64"), axis=0), value.dtype, given="int64")
        for i, value in enumerate(call.outputs)
    ]
