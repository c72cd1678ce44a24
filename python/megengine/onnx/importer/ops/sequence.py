"""Sequences and optionals. A sequence is a list, and an optional its value or None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TypeProto

from .... import functional as F
from ..registry import op
from ..values import AnyTensor, Array, Tensor, Value, shape_of, to_array, to_tensor


def _list(value: Value) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("expected a sequence, got a tensor or an optional without value")
    return value


def _place(values: Sequence[Any], position: Array, more: int = 0) -> int:
    """A position in a sequence, from its start."""
    i, n = int(position.item()), len(values)
    if not -n <= i < n + more:
        raise IndexError(f"position {i} is out of range for a sequence of {n}")
    return i + n if i < 0 else i


@op("SequenceConstruct")
def sequence_construct(*values: Value) -> list[Any]:
    return list(values)


@op("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    return []


@op("SequenceAt")
def sequence_at(values: Value, position: Array) -> Value:
    return _list(values)[_place(_list(values), position)]


@op("SequenceInsert")
def sequence_insert(values: Value, value: Value, position: Array | None = None) -> list[Any]:
    found = list(_list(values))
    found.insert(len(found) if position is None else _place(found, position, 1), value)
    return found


@op("SequenceErase")
def sequence_erase(values: Value, position: Array | None = None) -> list[Any]:
    found = list(_list(values))
    del found[-1 if position is None else _place(found, position)]
    return found


@op("SequenceLength")
def sequence_length(values: Value) -> Array:
    return np.array(len(_list(values)), dtype=np.int64)


def joined(values: Sequence[Any], axis: int, new_axis: bool) -> AnyTensor:
    """The tensors of a sequence as one."""
    if not any(isinstance(value, Tensor) for value in values):
        arrays = [to_array(value) for value in values]
        return np.stack(arrays, axis) if new_axis else np.concatenate(arrays, axis)
    tensors = [to_tensor(value) for value in values]
    return F.stack(tensors, axis) if new_axis else F.concat(tensors, axis)


@op("ConcatFromSequence")
def concat_from_sequence(values: Value, *, axis: int, new_axis: int = 0) -> AnyTensor:
    return joined(_list(values), axis, bool(new_axis))


@op("SplitToSequence")
def split_to_sequence(
    x: AnyTensor, split: Array | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Any]:
    i = axis % len(shape_of(x))
    size = shape_of(x)[i]
    lead: Any = (slice(None),) * i
    if split is None:
        if not keepdims:
            return [x[(*lead, k)] for k in range(size)]
        sizes = [1] * size
    elif split.ndim == 0:
        each = int(split)
        if each < 1:
            raise ValueError(f"SplitToSequence: expected parts of at least 1, got {each}")
        sizes = [min(each, size - k) for k in range(0, size, each)]
    else:
        sizes = [int(n) for n in split]
        if sum(sizes) != size or any(n < 0 for n in sizes):
            raise ValueError(f"SplitToSequence: parts {sizes} do not make up {size}")
    ends = np.cumsum(sizes)
    parts = zip(ends, sizes, strict=True)
    return [x[(*lead, slice(int(end) - n, int(end)))] for end, n in parts]


@op("Optional")
def optional(value: Value = None, *, type: TypeProto | None = None) -> Value:
    return value


@op("OptionalHasElement")
def optional_has_element(value: Value = None) -> Array:
    return np.array(value is not None)


@op("OptionalGetElement")
def optional_get_element(value: Value) -> Value:
    if value is None:
        raise ValueError("OptionalGetElement: the optional has no value")
    return value
