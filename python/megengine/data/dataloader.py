"""Loading batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tensor import Tensor
from .collator import Collator
from .dataset import Dataset, StreamDataset
from .sampler import MapSampler, Sampler, SequentialSampler, StreamSampler
from .transform import PseudoTransform, Transform

__all__ = ["DataLoader"]


class DataLoader:
    """Goes through a dataset in batches: sample, fetch, transform, collate.

    Args:
        dataset: a :class:`.Dataset`, or a :class:`.StreamDataset`.
        sampler: which items make a batch; by default one at a time, in order.
        transform: what is done to each item; nothing by default.
        collator: how items become a batch; :class:`.Collator` by default.
        num_workers: must be 0: items are loaded by this process.
        timeout: seconds to wait for a worker; not used.
        preload: whether batches come as Tensors instead of arrays.
        parallel_stream: not used without workers.

    Raises:
        ValueError: ``num_workers`` or ``timeout`` is negative.
        NotImplementedError: ``num_workers`` is above 0.
        AssertionError: dataset and sampler do not match.

    >>> from megengine.data.dataset import ArrayDataset
    >>> loader = DataLoader(ArrayDataset(np.arange(5)), SequentialSampler(range(5), batch_size=2))
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: Sampler | None = None,
        transform: Transform | None = None,
        collator: Collator | None = None,
        num_workers: int = 0,
        timeout: int = 0,
        preload: bool = False,
        parallel_stream: bool = False,
    ):
        if num_workers < 0:
            raise ValueError("num_workers should not be negative")
        if timeout < 0:
            raise ValueError("timeout should not be negative")
        if num_workers > 0:
            raise NotImplementedError(
                f"DataLoader: worker processes are not supported, got num_workers={num_workers}; "
                "use num_workers=0"
            )
        assert isinstance(dataset, Dataset), (
            f"Can not recognize this kind of dataset: {type(dataset)}"
        )
        stream = isinstance(dataset, StreamDataset)
        if sampler is None:
            sampler = StreamSampler() if stream else SequentialSampler(dataset)
        assert isinstance(sampler, StreamSampler if stream else MapSampler), (
            "types of dataset and sampler do not match"
        )
        self.dataset = dataset
        self.sampler = sampler
        self.transform = PseudoTransform() if transform is None else transform
        self.collator = Collator() if collator is None else collator
        self.num_workers = num_workers
        self.timeout = timeout
        self.preload = preload
        self.parallel_stream = parallel_stream
        self.datakind = "stream" if stream else "map"

    def __iter__(self) -> _Iterator:
        return _Iterator(self)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.sampler)  # type: ignore[arg-type]

    def check_memory_rationality(self) -> None:
        """Does nothing: without workers there is no memory that is shared with them."""


class _Iterator:
    """The batches of one epoch."""

    def __init__(self, loader: DataLoader):
        self._loader = loader
        self._batches = self._stream() if loader.datakind == "stream" else self._map()

    def _map(self) -> Iterator[list[Any]]:
        for indices in self._loader.sampler:
            yield [self._loader.dataset[index] for index in indices]

    def _stream(self) -> Iterator[list[Any]]:
        items = iter(self._loader.dataset)
        for positions in self._loader.sampler:
            batch = list(itertools.islice(items, len(positions)))
            if not batch:
                return
            yield batch

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        batch = loader.collator.apply(loader.transform.apply_batch(next(self._batches)))
        return _to_tensors(batch) if loader.preload else batch

    def __len__(self) -> int:
        return len(self._loader)


def _to_tensors(batch: Any) -> Any:
    """The batch with Tensors in the place of arrays."""
    if isinstance(batch, np.ndarray):
        return Tensor(batch) if batch.dtype.kind in "biuf" else batch
    if isinstance(batch, dict):
        return {key: _to_tensors(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_to_tensors, batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map(_to_tensors, batch))
    return batch
