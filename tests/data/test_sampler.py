"""Samplers: batches, orders, shares of processes. Orders were read off the reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from megengine import data

TEN = range(10)


@pytest.mark.parametrize(
    ("sampler", "epochs"),
    [
        (
            data.SequentialSampler(TEN, batch_size=4),
            [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]] * 2,
        ),
        (
            data.SequentialSampler(TEN, batch_size=4, drop_last=True),
            [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2,
        ),
        (
            data.RandomSampler(TEN, batch_size=4, seed=3),
            [[[5, 4, 1, 2], [9, 6, 7, 0], [3, 8]], [[3, 8, 2, 1], [9, 4, 0, 6], [7, 5]]],
        ),
        (
            data.RandomSampler(TEN, batch_size=2, seed=3, indices=[9, 7, 5, 3]),
            [[[3, 7], [9, 5]]],
        ),
        (
            data.ReplacementSampler(TEN, batch_size=4, seed=3),
            [[[8, 9, 3, 8], [8, 0, 5, 3], [9, 9]], [[5, 7, 6, 0], [4, 7, 8, 1], [6, 2]]],
        ),
        (
            data.ReplacementSampler(TEN, batch_size=4, seed=3, num_samples=12),
            [[[8, 9, 3, 8], [8, 0, 5, 3], [9, 9, 5, 7]]],
        ),
        (
            data.ReplacementSampler(TEN, batch_size=4, seed=3, weights=list(range(10))),
            [[[7, 8, 5, 7], [9, 9, 3, 4], [2, 6]]],
        ),
    ],
)
def test_batches(sampler: data.MapSampler, epochs: list[list[list[int]]]) -> None:
    for want in epochs:
        assert len(sampler) == len(want)
        assert list(sampler) == want


def test_random_order_is_that_of_randomstate() -> None:
    order = np.random.RandomState(11).permutation(100).tolist()
    assert list(data.RandomSampler(range(100), batch_size=100, seed=11)) == [order]


def test_shares_of_processes() -> None:
    shares = [
        list(data.RandomSampler(TEN, batch_size=2, world_size=3, rank=r, seed=3)) for r in range(3)
    ]
    assert shares == [[[5, 2], [7, 8]], [[4, 9], [0, 5]], [[1, 6], [3, 4]]]
    one = data.SequentialSampler(TEN, batch_size=2, world_size=3, rank=1)
    assert list(one) == [[1, 4], [7, 0]]
    assert len(one) == 2
    assert one.scatter(list(TEN)) == [1, 4, 7, 0]


def test_shares_without_a_seed_agree() -> None:
    shares = [list(data.RandomSampler(TEN, world_size=2, rank=r)) for r in range(2)]
    assert sorted(i for share in shares for [i] in share) == list(TEN)


def test_infinite() -> None:
    sampler = data.Infinite(data.SequentialSampler(TEN, batch_size=4))
    want = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert list(itertools.islice(sampler, 4)) == want
    assert len(sampler) > 10**18
    with pytest.raises(ValueError, match="no batches"):
        next(iter(data.Infinite(data.SequentialSampler(TEN, indices=[]))))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": 2.5},
        {"batch_size": "a"},
        {"batch_size": True},
        {"drop_last": 3},
        {"indices": 3},
        {"world_size": 0, "rank": 0},
        {"world_size": 2, "rank": 2},
        {"world_size": 2, "rank": -1},
        {"seed": -1},
    ],
)
def test_wrong_options(options: dict) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own
        data.RandomSampler(TEN, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"num_samples": 0},
        {"num_samples": 2.5},
        {"weights": [1, 2]},
        {"weights": 3},
        {"weights": [0] * 10},
        {"weights": [-1] * 10},
        {"weights": [float("nan")] * 10},
    ],
)
def test_wrong_options_of_replacement(options: dict) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        data.ReplacementSampler(TEN, **options)


def test_base_classes() -> None:
    with pytest.raises(TypeError):
        data.Sampler()
    with pytest.raises(NotImplementedError):
        list(data.MapSampler(TEN))
    with pytest.raises(TypeError):
        len(data.StreamSampler(3))
    assert next(iter(data.StreamSampler(3))) == [0, 1, 2]
