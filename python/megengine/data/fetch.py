"""How a batch is made: items are fetched, transformed and collated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import collator as _collator
from .collator import Collator
from .dataset import ArrayDataset, Dataset
from .transform import PseudoTransform, Transform

__all__ = ["BatchMaker"]


@dataclass(frozen=True)
class BatchMaker:
    """Makes batches of a dataset, in this process or in a worker."""

    dataset: Dataset
    transform: Transform
    collator: Collator

    def from_indices(self, indices: Sequence[Any]) -> Any:
        """The batch of the items at these indices."""
        arrays = self._plain_arrays()
        if arrays is not None:
            rows = np.asarray(indices)
            if rows.ndim == 1 and rows.dtype.kind in "iu":
                return [_take(array, rows) for array in arrays]
        dataset = self.dataset
        return self.from_items([dataset[index] for index in indices])

    def from_items(self, items: Sequence[Any]) -> Any:
        """The batch of these items."""
        return self.collator.apply(self.transform.apply_batch(items))

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


def _has_plain_rows(array: Any) -> bool:
    """Whether stacked items are what indexing with a list gives."""
    return (
        type(array) in (np.ndarray, np.memmap)
        and (array.dtype.kind in "biufcmM" or array.dtype.isbuiltin == 2)
        and array.dtype.isnative
    )


def _take(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = _collator.empty((len(rows), *array.shape[1:]), array.dtype)
    # With a mode other than "raise", NumPy writes straight into `out`; so the bounds are looked at
    # first.
    n = len(array)
    if rows.min() < -n or rows.max() >= n:
        array[rows]  # raises IndexError, which says what is out of range
    return np.take(array, rows, axis=0, out=out, mode="wrap")
