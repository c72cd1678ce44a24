"""Samplers: which items of a dataset make a batch, and in which order."""

from __future__ import annotations

import itertools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from .. import distributed
from .seeds import draw_seed

__all__ = [
    "Infinite",
    "MapSampler",
    "RandomSampler",
    "ReplacementSampler",
    "Sampler",
    "SequentialSampler",
    "StreamSampler",
]


def _positive_int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
    return int(value)


def _sequence_or_none(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, (Sequence, np.ndarray)):
        raise ValueError(f"{name} should be None or a sequence, but got {name}={value}")
    return value


class Sampler(ABC):
    """Gives lists of indices, one for each batch, when iterated over."""

    @abstractmethod
    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch."""

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` of such a sampler goes on from; nothing by default.

        A state with a key ``"position"`` says that the next iteration goes on within the epoch.
        Otherwise, who resumes an epoch passes over the batches that were used.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes back to what :meth:`state_dict` gave.

        Raises:
            ValueError: the state is not one of a sampler of this kind.
        """
        if state:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: expected the state of a sampler that "
                f"keeps none, got {', '.join(map(str, state))}"
            )


class MapSampler(Sampler):
    """A sampler of a dataset whose length is known. A subclass gives :meth:`sample`.

    Args:
        dataset: the dataset; only its length counts.
        batch_size: number of indices in a batch.
        drop_last: whether to leave out the last batch where it is smaller.
        num_samples: how many indices there are in an epoch; the length of the dataset by default.
        world_size: number of processes that share the data; those of the job by default.
        rank: the number of this process; that in the job by default.
        seed: of the random order. All processes must give the same one. Without it, a single
            process draws one from the generator of :func:`megengine.random.seed`.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        num_samples: int | None = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
    ):
        self.batch_size = _positive_int("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.dataset = dataset
        self.drop_last = drop_last
        if world_size is None:
            world_size = distributed.get_world_size()
        if rank is None:
            rank = distributed.get_rank()
        self.world_size = _positive_int("world_size", world_size)
        self.rank = 0 if self.world_size == 1 else int(rank)
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank should be from 0 to world_size - 1, but got rank={rank} and "
                f"world_size={world_size}"
            )
        if num_samples is None:
            self.num_samples = math.ceil(len(dataset) / self.world_size)
        else:
            self.num_samples = math.ceil(
                _positive_int("num_samples", num_samples) / self.world_size
            )
        if seed is None:
            # Processes that share the data must draw the same order even where nobody names a seed.
            seed = 0 if self.world_size > 1 else draw_seed() & 0xFFFFFFFF
        self.rng = np.random.RandomState(seed)
        self._start: dict[str, Any] | None = None  # the state of rng when the epoch began
        self._position = 0  # batches of it that were given
        self._resumes = False  # whether the next iteration goes on in it

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        if self.drop_last:
            return self.num_samples // self.batch_size
        return math.ceil(self.num_samples / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        if self._resumes and self._start is not None:
            self.rng.set_state(self._start)
            passed = self._position
        else:
            self._start = self.rng.get_state(legacy=False)
            passed = 0
        self._position = passed
        self._resumes = False
        for batch in itertools.islice(self.batch(), passed, None):
            self._position += 1
            yield batch
        self._start = None
        self._position = 0

    def state_dict(self) -> dict[str, Any]:
        """Where the sampler is: the state of its random generator, and its place in the epoch.

        The place is that of the newest iteration, and counts the batches that were given.

        >>> first, second = (RandomSampler(range(6), batch_size=2, seed=1) for _ in range(2))
        >>> batches = iter(first)
        >>> next(batches)
        [2, 1]
        >>> second.load_state_dict(first.state_dict())
        >>> list(second) == list(batches)
        True
        """
        start = self.rng.get_state(legacy=False) if self._start is None else self._start
        if type(self).__iter__ is not MapSampler.__iter__:
            return {"rng": start}  # it gives batches that are not counted here
        return {"rng": start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes back to what :meth:`state_dict` gave: the next iteration gives what was left.

        Raises:
            ValueError: the state is not one of a sampler of this kind.
        """
        if "rng" not in state:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: expected what state_dict() gives, but "
                "there is no rng"
            )
        self.rng.set_state(dict(state["rng"]))
        self._start = self.rng.get_state(legacy=False)
        self._position = int(state.get("position", 0))
        self._resumes = True

    def sample(self) -> Any:
        """The indices of an epoch, for all processes together."""
        raise NotImplementedError(f"{type(self).__name__} needs a method sample()")

    def scatter(self, indices: Sequence[int]) -> list[int]:
        """This process's share: every ``world_size``-th, of a list filled up from its start."""
        indices = list(indices)
        missing = -len(indices) % self.world_size
        for i in range(missing):
            indices.append(indices[i])
        return indices[self.rank :: self.world_size]

    def batch(self) -> Iterator[list[int]]:
        """The batches of one epoch."""
        indices = list(self.sample())
        if self.world_size > 1 and indices:
            indices = self.scatter(indices)
        for start in range(0, len(indices), self.batch_size):
            batch = indices[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch


class _IndexSampler(MapSampler):
    """A sampler of the whole dataset or of some of its indices."""

    def __init__(self, dataset: Any, indices: Sequence[int] | None, **kwargs: Any):
        self.indices = _sequence_or_none("indices", indices)
        super().__init__(dataset if self.indices is None else self.indices, **kwargs)
        self.dataset = dataset


class SequentialSampler(_IndexSampler):
    """All items in their order.

    Args:
        dataset: the dataset; only its length counts.
        batch_size: number of indices in a batch.
        drop_last: whether to leave out the last batch where it is smaller.
        indices: the items to use, in this order; all by default.
        world_size: number of processes that share the data; those of the job by default.
        rank: the number of this process; that in the job by default.

    >>> list(SequentialSampler(range(5), batch_size=2))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        indices: Sequence[int] | None = None,
        world_size: int | None = None,
        rank: int | None = None,
    ):
        super().__init__(
            dataset,
            indices,
            batch_size=batch_size,
            drop_last=drop_last,
            world_size=world_size,
            rank=rank,
        )

    def sample(self) -> Any:
        """The indices in order."""
        return range(len(self.dataset)) if self.indices is None else self.indices


class RandomSampler(_IndexSampler):
    """All items, in a new random order each epoch: ``RandomState(seed).permutation``.

    Args:
        dataset: the dataset; only its length counts.
        batch_size: number of indices in a batch.
        drop_last: whether to leave out the last batch where it is smaller.
        indices: the items to use; all by default.
        world_size: number of processes that share the data; those of the job by default.
        rank: the number of this process; that in the job by default.
        seed: of the order; drawn from the generator of :func:`megengine.random.seed` if None.

    >>> sampler = RandomSampler(range(6), batch_size=4, seed=0)
    >>> list(sampler), list(sampler)
    ([[5, 2, 1, 3], [0, 4]], [[1, 3, 4, 0], [2, 5]])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        indices: Sequence[int] | None = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
    ):
        super().__init__(
            dataset,
            indices,
            batch_size=batch_size,
            drop_last=drop_last,
            world_size=world_size,
            rank=rank,
            seed=seed,
        )

    def sample(self) -> Any:
        """The indices in the next random order."""
        if self.indices is None:
            return self.rng.permutation(len(self.dataset)).tolist()
        return self.rng.permutation(self.indices).tolist()


class ReplacementSampler(MapSampler):
    """Items drawn at random, each time from all of them.

    Args:
        dataset: the dataset; only its length counts.
        batch_size: number of indices in a batch.
        drop_last: whether to leave out the last batch where it is smaller.
        num_samples: how many are drawn in an epoch; the length of the dataset by default.
        weights: a weight for each item, which need not sum to 1; equal ones by default.
        world_size: number of processes that share the data; those of the job by default.
        rank: the number of this process; that in the job by default.
        seed: of the draws; drawn from the generator of :func:`megengine.random.seed` if None.

    >>> list(ReplacementSampler(range(10), batch_size=4, num_samples=4, seed=3))
    [[8, 9, 3, 8]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        num_samples: int | None = None,
        weights: Sequence[float] | None = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
    ):
        super().__init__(dataset, batch_size, drop_last, num_samples, world_size, rank, seed)
        self._total = len(dataset) if num_samples is None else int(num_samples)
        self.weights: np.ndarray | None = None
        if _sequence_or_none("weights", weights) is not None:
            if len(weights) != len(dataset):  # type: ignore[arg-type]
                raise ValueError(
                    f"len(dataset)={len(dataset)} should be equal to len(weights)={len(weights)}"  # type: ignore[arg-type]
                )
            array = np.asarray(weights, dtype=np.float64)
            if not (array >= 0).all() or not 0 < array.sum() < math.inf:
                raise ValueError("weights should be non-negative, finite and not all 0")
            self.weights = array / array.sum()

    def sample(self) -> Any:
        """The indices that are drawn next."""
        n = len(self.dataset)
        if self.weights is None:
            return self.rng.randint(n, size=self._total).tolist()
        return self.rng.choice(n, size=self._total, p=self.weights).tolist()


class Infinite(MapSampler):
    """Goes through a sampler again and again.

    >>> from itertools import islice
    >>> list(islice(Infinite(SequentialSampler(range(3), batch_size=2)), 4))
    [[0, 1], [2], [0, 1], [2]]
    """

    def __init__(self, sampler: MapSampler):
        self.sampler = sampler
        self.sampler_iter = iter(sampler)

    def __iter__(self) -> Iterator[list[int]]:
        return self.batch()

    def state_dict(self) -> dict[str, Any]:
        """That of the sampler that it goes through."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where the sampler was."""
        self.sampler.load_state_dict(state)
        self.sampler_iter = iter(self.sampler)

    def sample(self) -> Any:
        """Not for this sampler: it never ends."""
        raise NotImplementedError("sample method not supported in Infinite")

    def __len__(self) -> int:
        return sys.maxsize

    def batch(self) -> Iterator[list[int]]:
        """Batches without end; a new iteration goes on where the last one stopped."""
        while True:
            empty = True
            for batch in self.sampler_iter:
                empty = False
                yield batch
            self.sampler_iter = iter(self.sampler)
            if empty and next(iter(self.sampler), None) is None:
                raise ValueError("Infinite: the sampler has no batches")


class StreamSampler(Sampler):
    """How many items of a :class:`.StreamDataset` make a batch.

    Args:
        batch_size: number of items in a batch.
    """

    def __init__(self, batch_size: int = 1):
        self.batch_size = _positive_int("batch_size", batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        return self.batch()

    def sample(self) -> Any:
        """Not for this sampler: a stream has no indices."""
        raise NotImplementedError("sample method not supported in StreamSampler")

    def batch(self) -> Iterator[list[int]]:
        """The positions in each batch, without end."""
        while True:
            yield list(range(self.batch_size))
