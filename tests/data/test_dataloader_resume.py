"""A loader goes on where another stopped: with the batches that were not received, bit for bit."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine.data import (
    DataLoader,
    Infinite,
    MapSampler,
    RandomSampler,
    ReplacementSampler,
    SequentialSampler,
    StreamSampler,
)
from megengine.data.dataset import StreamDataset
from megengine.data.transform import Transform
from tests.data.workers import Items, Stream


class Noise(Transform):
    """Random numbers of every source."""

    def apply(self, input: Any) -> Any:
        return (
            np.float64(input),
            np.random.random(),
            random.random(),
            mge.random.uniform(size=(1,)).numpy(),
        )


class EveryOther(MapSampler):
    """What users write: batches of their own."""

    def sample(self) -> Any:
        return self.rng.permutation(len(self.dataset))[::2].tolist()


class OwnIteration(RandomSampler):
    """Gives batches that the base class does not count."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from list(self.batch())[::-1]


DATASET = Items(lambda i: i, 23)
SAMPLERS = {
    "sequential": lambda: SequentialSampler(DATASET, 4),
    "random": lambda: RandomSampler(DATASET, 4, seed=1),
    "random, seed of megengine": lambda: RandomSampler(DATASET, 4),
    "random, drop_last": lambda: RandomSampler(DATASET, 4, drop_last=True, seed=1),
    "a share": lambda: RandomSampler(DATASET, 2, world_size=2, rank=1, seed=2),
    "replacement": lambda: ReplacementSampler(DATASET, 4, seed=2),
    "own sample()": lambda: EveryOther(DATASET, 2, seed=3),
    "own __iter__()": lambda: OwnIteration(DATASET, 4, seed=3),
}


def through_a_file(state: Any) -> Any:
    return pickle.loads(pickle.dumps(state))


def plain(batches: Any) -> list[Any]:
    """Batches as lists, to compare them bit for bit."""
    return [[np.asarray(column).tolist() for column in batch] for batch in batches]


def epochs(loader: DataLoader, count: int) -> list[Any]:
    return [plain(loader) for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("name", SAMPLERS)
def test_resumed_is_uninterrupted(name: str, workers: int) -> None:
    def loader() -> DataLoader:
        return DataLoader(DATASET, SAMPLERS[name](), Noise(), num_workers=workers)

    mge.random.seed(7)
    np.random.seed(7)
    random.seed(7)
    first = loader()
    list(first)  # an epoch before
    states = [first.state_dict()]
    batches = []
    for batch in first:
        batches.append(batch)
        states.append(first.state_dict())
    # After the last batch, still in the epoch; and after the epoch.
    states.append(first.state_dict())
    want = plain(batches)
    later = epochs(first, 1)
    for received in {0, 1, 3, len(want), len(want) + 1}:
        second = loader()
        second.load_state_dict(through_a_file(states[received]))
        rest = epochs(second, 2 if received <= len(want) else 1)
        assert rest == ([want[received:]] if received <= len(want) else []) + later


def test_number_of_workers_may_change() -> None:
    loaders = [
        DataLoader(DATASET, RandomSampler(DATASET, 4, seed=1), Noise(), num_workers=n)
        for n in (1, 2)
    ]
    batches = plain(loaders[0])
    next(iterator := iter(loaders[0]))
    next(iterator)
    state = loaders[0].state_dict()
    want = plain(iterator)
    loaders[1].load_state_dict(state)
    assert plain(loaders[1]) == want
    assert len(batches) == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_infinite(workers: int) -> None:
    def loader() -> DataLoader:
        return DataLoader(
            DATASET, Infinite(RandomSampler(DATASET, 5, seed=1)), Noise(), num_workers=workers
        )

    first, second = loader(), loader()
    iterator = iter(first)
    list(itertools.islice(iterator, 12))
    state = through_a_file(first.state_dict())
    want = plain(itertools.islice(iterator, 9))
    second.load_state_dict(state)
    assert plain(itertools.islice(second, 9)) == want


class NoisyStream(StreamDataset):
    """A stream that draws numbers itself."""

    def __iter__(self) -> Iterator[float]:
        for i in range(11):
            yield i + np.random.random()


@pytest.mark.parametrize(("workers", "parallel"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("received", [0, 1, 3])
def test_streams(workers: int, parallel: bool, received: int) -> None:
    def loader() -> DataLoader:
        return DataLoader(
            Stream(11) if workers and not parallel else NoisyStream(),
            StreamSampler(2),
            Noise(),
            num_workers=workers,
            parallel_stream=parallel,
        )

    first, second = loader(), loader()
    np.random.seed(1)
    iterator = iter(first)
    list(itertools.islice(iterator, received))
    state = through_a_file(first.state_dict())
    want = plain(iterator)
    second.load_state_dict(state)
    got = plain(second)
    if workers == 0 and received:  # what was read before is drawn anew, what comes is the same
        assert [batch[1:] for batch in got] == [batch[1:] for batch in want]
    else:
        assert got == want
    assert len(got) == (12 if parallel else 6) - received


def test_state_of_an_epoch_that_was_left() -> None:
    """What was received counts; a new iteration begins a new epoch all the same."""
    first, second = (DataLoader(DATASET, SequentialSampler(DATASET, 4)) for _ in range(2))
    for batch in first:
        if batch[0] == 4:
            break
    state = first.state_dict()
    second.load_state_dict(state)
    assert next(iter(second))[0] == 8
    assert next(iter(second))[0] == 0
    assert next(iter(first))[0] == 0


def test_state_that_was_loaded_and_not_used() -> None:
    first, second, third = (
        DataLoader(DATASET, RandomSampler(DATASET, 4, seed=s)) for s in range(3)
    )
    next(iterator := iter(first))
    second.load_state_dict(first.state_dict())
    third.load_state_dict(second.state_dict())
    assert plain(third) == plain(iterator)


def test_wrong_states() -> None:
    loader = DataLoader(DATASET, RandomSampler(DATASET, 4))
    with pytest.raises(ValueError, match=r"there is no random, received, seed, taken"):
        loader.load_state_dict({"sampler": {}})
    state = loader.state_dict()
    with pytest.raises(ValueError, match=r"RandomSampler.load_state_dict.*no rng"):
        loader.load_state_dict({**state, "sampler": {}})
    streams = [
        DataLoader(Stream(9), num_workers=workers, parallel_stream=True) for workers in (2, 3)
    ]
    next(iter(streams[0]))
    with pytest.raises(ValueError, match="num_workers=3"):
        streams[1].load_state_dict(streams[0].state_dict())
    with pytest.raises(ValueError, match="keeps none, got rng"):
        StreamSampler().load_state_dict(loader.sampler.state_dict())


# Samplers alone


@pytest.mark.parametrize("name", [n for n in SAMPLERS if n != "own __iter__()"])
@pytest.mark.parametrize("received", [0, 2, 5])
def test_samplers_resume(name: str, received: int) -> None:
    first, second = SAMPLERS[name](), SAMPLERS[name]()
    list(first)
    batches = iter(first)
    list(itertools.islice(batches, received))
    second.load_state_dict(through_a_file(first.state_dict()))
    assert second.state_dict()["position"] == received
    assert list(second) == list(batches)
    assert list(second) == list(first)
