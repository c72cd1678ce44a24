"""How a batch is made: items are fetched, transformed and collated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .buffers import MIN_BUFFER
from .collator import Collator, Row
from .dataset import ArrayDataset, Dataset
from .transform import Compose, PseudoTransform, Transform

__all__ = ["BatchMaker"]

_STOPPED = "DataLoader: the dataset, the transform or the collator raised StopIteration"

Empty = Callable[[tuple[int, ...], np.dtype], np.ndarray]


@dataclass(frozen=True)
class BatchMaker:
    """Makes batches of a dataset, in this process or in a worker."""

    dataset: Dataset
    transform: Transform
    collator: Collator

    def from_indices(self, indices: Sequence[Any], empty: Empty, one_by_one: bool = False) -> Any:
        """The batch of the items at these indices.

        Args:
            indices: of the items.
            empty: gives the arrays of the batch.
            one_by_one: whether an item may be transformed before the next is fetched. It takes
                less memory, but random numbers are drawn in another order.

        Raises:
            RuntimeError: something raised StopIteration, which must not pass for the last batch.
        """
        try:
            return self._from_indices(indices, empty, one_by_one)
        except StopIteration as error:
            raise RuntimeError(_STOPPED) from error

    def from_items(self, items: list[Any], empty: Empty) -> Any:
        """The batch of these items. The list is emptied.

        Raises:
            RuntimeError: as :meth:`from_indices`.
        """
        try:
            return self._make(items, len(items), empty)
        except StopIteration as error:
            raise RuntimeError(_STOPPED) from error

    def _from_indices(self, indices: Sequence[Any], empty: Empty, one_by_one: bool) -> Any:
        arrays = self._plain_arrays()
        if arrays is not None:
            rows = np.asarray(indices)
            if rows.ndim == 1 and rows.dtype.kind in "iu":
                return [_take(array, rows, empty) for array in arrays]
        dataset = self.dataset
        if one_by_one:
            return self._make((dataset[index] for index in indices), len(indices), empty)
        return self._make([dataset[index] for index in indices], len(indices), empty)

    def _make(self, items: Iterable[Any], count: int, empty: Empty) -> Any:
        if type(self.collator) is Collator and _changes_one_by_one(self.transform):
            apply, rows = self.transform.apply, _Rows(count, empty)
            return self.collator.apply([rows.place(apply(item)) for item in _leaving(items)])
        return self.collator.apply(self.transform.apply_batch(list(items)))

    def _plain_arrays(self) -> list[np.ndarray] | None:
        """The arrays of the dataset, if the batch is just rows of them."""
        if (
            type(self.dataset) is not ArrayDataset
            or type(self.transform) is not PseudoTransform
            or type(self.collator) is not Collator
        ):
            return None
        arrays = self.dataset.arrays
        return list(arrays) if all(map(_has_plain_rows, arrays)) else None


def _changes_one_by_one(transform: Transform) -> bool:
    """Whether apply_batch() does no more than apply() for each item."""
    if type(transform) is Compose:
        return not transform.batch_compose
    return type(transform).apply_batch is Transform.apply_batch


def _leaving(items: Iterable[Any]) -> Iterable[Any]:
    """The items, which are let go one after the other, so that their memory is used again."""
    if not isinstance(items, list):
        yield from items
        return
    items.reverse()
    while items:
        yield items.pop()


class _Rows:
    """Puts the large arrays of items into the batch as soon as they come.

    An item's memory can be used for the next one then: it is still in the cache, and the system
    need not be asked for more.
    """

    def __init__(self, count: int, empty: Empty):
        self._count = count
        self._empty = empty
        self._outs: list[np.ndarray] = []
        self._number = -1  # of the item
        self._array = 0  # number of the next large array of the item

    def place(self, item: Any) -> Any:
        """The next item, with rows of the batch in the place of large arrays."""
        self._number += 1
        self._array = 0
        return self._place(item)

    def _place(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return self._row(value) if value.nbytes >= MIN_BUFFER else value
        if kind is tuple:
            return tuple(map(self._place, value))
        if kind is list:
            return list(map(self._place, value))
        if kind is dict:
            return {key: self._place(v) for key, v in value.items()}
        return value

    def _row(self, array: np.ndarray) -> Any:
        """The array's row; the array itself if it does not fit there, as the collator will say."""
        dtype = array.dtype
        if dtype.hasobject or not dtype.isnative:
            return array
        if self._number == 0:
            self._outs.append(self._empty((self._count, *array.shape), dtype))
        position = self._array
        self._array += 1
        if position >= len(self._outs):
            return array
        out = self._outs[position]
        if out.dtype != dtype or out.shape[1:] != array.shape:
            return array
        out[self._number] = array
        return Row(out, self._number)


def _has_plain_rows(array: Any) -> bool:
    """Whether stacked items are what indexing with a list gives."""
    return (
        type(array) in (np.ndarray, np.memmap)
        and (array.dtype.kind in "biufcmM" or array.dtype.isbuiltin == 2)
        and array.dtype.isnative
    )


def _take(array: np.ndarray, rows: np.ndarray, empty: Empty) -> np.ndarray:
    out = empty((len(rows), *array.shape[1:]), array.dtype)
    # With a mode other than "raise", NumPy writes straight into `out`; so the bounds are looked at
    # first.
    n = len(array)
    if rows.min() < -n or rows.max() >= n:
        array[rows]  # raises IndexError, which says what is out of range
    return np.take(array, rows, axis=0, out=out, mode="wrap")
