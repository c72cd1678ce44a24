"""Base classes of datasets, and datasets made of arrays or of others."""

from __future__ import annotations

import bisect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["ArrayDataset", "ConcatDataset", "Dataset", "StreamDataset"]


class Dataset(ABC):
    """A number of items: a subclass gives ``__getitem__`` and ``__len__``."""

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """The item of this number, from 0."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of items."""


class StreamDataset(Dataset):
    """Items one after another, of which nobody knows how many: a subclass gives ``__iter__``."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """The items."""

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("can not get item from StreamDataset by index")

    def __len__(self) -> int:
        raise AssertionError("StreamDataset does not have length")


class ArrayDataset(Dataset):
    """Arrays (or anything with a length and items) side by side: item i is a tuple of theirs.

    >>> data = ArrayDataset([10, 20, 30], ["a", "b", "c"])
    >>> len(data), data[1]
    (3, (20, 'b'))
    """

    def __init__(self, *arrays: Any):
        if not arrays:
            raise ValueError("ArrayDataset: expected at least one array")
        if any(len(array) != len(arrays[0]) for array in arrays):
            raise ValueError("lengths of input arrays are inconsistent")
        self.arrays = arrays

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(array[index] for array in self.arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])


class ConcatDataset(Dataset):
    """Datasets one after another.

    >>> data = ConcatDataset([ArrayDataset([1, 2]), ArrayDataset([3])])
    >>> len(data), data[2], data[-3]
    (3, (3,), (1,))
    """

    def __init__(self, datasets: Iterable[Dataset]):
        self.datasets = list(datasets)
        assert self.datasets, "datasets should not be an empty iterable"
        for dataset in self.datasets:
            assert not isinstance(dataset, StreamDataset), (
                "ConcatDataset does not support StreamDataset"
            )
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: int) -> Any:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} items")
        number = bisect.bisect_right(self.cumulative_sizes, position)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][position - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]
