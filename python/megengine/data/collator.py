"""Putting items together to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Collator"]

# Gives the arrays of batches. A worker puts its own here, whose arrays lie in shared memory.
empty: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.empty


class Row:
    """An array of an item that is already in its place: row ``number`` of the batch ``out``."""

    __slots__ = ("number", "out")

    def __init__(self, out: np.ndarray, number: int):
        self.out = out
        self.number = number


class Collator:
    """Puts items together: arrays and numbers are stacked, containers are gone into.

    A batch of tuples or lists becomes a list of batches, one for each place; dicts become a dict,
    named tuples a named tuple; text and bytes stay as they are.

    >>> batch = Collator().apply([({"x": 1}, "a"), ({"x": 2}, "b")])
    >>> batch[0]["x"].tolist(), batch[1]
    ([1, 2], ('a', 'b'))
    """

    def apply(self, inputs: Sequence[Any]) -> Any:
        """The batch of these items.

        Raises:
            TypeError: an item is of a kind that does not go into a batch.
            ValueError: arrays differ in shape, containers in length, or there are no items.
        """
        if len(inputs) == 0:
            raise ValueError("Collator: expected at least one item")
        first = inputs[0]
        if isinstance(first, (np.ndarray, Row)):
            return _stack(inputs)
        if isinstance(first, (str, bytes)):  # np.str_ and np.bytes_ too
            return inputs
        if isinstance(first, np.generic):
            return np.stack([np.asarray(item) for item in inputs])
        if isinstance(first, (bool, int, float, complex)):
            return np.array(inputs)
        if isinstance(first, Mapping):
            return {key: self.apply([item[key] for item in inputs]) for key in first}
        if isinstance(first, (tuple, list)):
            if any(len(item) != len(first) for item in inputs):
                raise ValueError("Collator: items differ in length")
            columns = [self.apply(column) for column in zip(*inputs, strict=True)]
            return type(first)(*columns) if hasattr(first, "_fields") else columns
        raise TypeError(_unsupported(type(first)))


def _stack(arrays: Sequence[Any]) -> np.ndarray:
    first = arrays[0]
    if isinstance(first, Row):
        out = first.out
        if len(arrays) == len(out) and all(type(a) is Row and a.out is out for a in arrays):
            return out
    arrays = [a.out[a.number] if isinstance(a, Row) else a for a in arrays]
    first = arrays[0]
    if first.dtype.hasobject:
        raise TypeError(_unsupported(first.dtype))
    shape, dtype = first.shape, first.dtype
    if any(
        type(a) is not np.ndarray or a.shape != shape or a.dtype is not dtype for a in arrays
    ) or not (shape and dtype.isnative):
        return np.stack([np.asarray(item) for item in arrays])
    # What np.stack does, without an object for each array, and to where the batch belongs.
    out = empty((len(arrays), *shape), dtype)
    np.concatenate(arrays, out=out.reshape(len(arrays) * shape[0], *shape[1:]))
    return out


def _unsupported(kind: Any) -> str:
    return (
        "default_collator: inputs must contain numpy arrays, numbers, Unicode strings, bytes, "
        f"dicts or lists; found {kind}"
    )
