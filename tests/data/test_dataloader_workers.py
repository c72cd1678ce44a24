"""Batches of worker processes: the same as without, whatever is in them; seeds; streams."""

from __future__ import annotations

import gc
import os
import threading
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import data
from megengine.data import DataLoader, RandomSampler, SequentialSampler, StreamSampler
from megengine.data.dataloader import get_worker_info
from megengine.data.dataset import ArrayDataset, StreamDataset
from megengine.data.transform import Transform
from megengine.data.workers.memory import MAX_HELD
from tests.data.workers import Draws, Items, Stream, nothing_is_left, open_files

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_is_left():
        yield


Pair = namedtuple("Pair", "a b")


def item_of_everything(i: int) -> dict[str, Any]:
    """Large and small arrays of all kinds, text, objects, structures."""
    big = np.arange(6000.0) + i
    return {
        "big": big.astype("float32"),
        "strided": big.reshape(60, 100).T[::2, ::-1],
        "broadcast": np.broadcast_to(np.float32(i), (100, 100)),
        "big endian": big.astype(">f4"),
        "float16": big.astype("float16"),
        "bfloat16": big.astype(ml_dtypes.bfloat16),
        "complex": big.astype("complex64"),
        "small": np.arange(3) + i,
        "scalar": np.float32(i),
        "empty": np.zeros((0, 3), "int8"),
        "long empty": np.zeros((5000, 0)),
        "names": np.array(["a" * 300, "b"] * 50),
        "times": np.arange(2000).astype("datetime64[s]"),
        "records": np.zeros(2000, [("x", "f4"), ("y", "i8")]),
        "text": "item" * i,
        "nested": (i, [b"bytes", Pair(i, (np.ones(2), "x"))]),
        "bool": i % 2 == 0,
    }


def assert_same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, np.ndarray):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        assert (got == want).all()
        assert got.flags.writeable
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            assert_same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    else:
        assert got == want


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_those_of_one_process(method: str) -> None:
    dataset = Items(item_of_everything, 10)
    here, there = (
        list(
            DataLoader(
                dataset,
                SequentialSampler(dataset, batch_size=3),
                num_workers=workers,
                start_method=method,
            )
        )
        for workers in (0, 2)
    )
    assert_same(there, here)


def test_local_functions_and_classes() -> None:
    class Double(Transform):
        def apply(self, input: Any) -> Any:
            return input * 2

    class Sum(data.Collator):
        def apply(self, inputs: Any) -> Any:
            return super().apply(inputs).sum()

    dataset = Items(lambda i: i)
    loader = DataLoader(
        dataset, SequentialSampler(dataset, 4), Double(), Sum(), num_workers=2, timeout=100
    )
    assert list(loader) == [12, 44]


def test_batches_of_custom_collators() -> None:
    class Everything(data.Collator):
        def apply(self, inputs: Any) -> Any:
            images = np.stack(inputs)
            return {
                "transposed": images.transpose(0, 2, 1),
                "view": images[:, 1:],
                "again": images,
                "objects": np.array([None, "x", 3], dtype=object),
                "masked": np.ma.masked_array(images, images > 3),
                "tensor": mge.tensor(images[0]),
                "set": {1, 2},
            }

    dataset = Items(lambda i: np.arange(10000.0).reshape(100, 100) + i, 4)
    loaders = [
        DataLoader(dataset, SequentialSampler(dataset, 2), None, Everything(), num_workers=workers)
        for workers in (0, 2)
    ]
    for want, got in zip(*loaders, strict=True):
        for key in ("transposed", "view", "again", "masked", "objects"):
            assert type(got[key]) is type(want[key])
            assert (got[key] == want[key]).all()
        assert (got["tensor"].numpy() == want["tensor"].numpy()).all()
        assert got["set"] == want["set"]


def test_arrays_of_a_dataset_are_indexed_as_they_are_stacked() -> None:
    rng = np.random.default_rng(0)
    columns = [
        rng.random((40, 50, 50)).astype("float32"),
        np.arange(40)[::-1],
        rng.random((80, 3))[::2] > 0.5,
        np.arange(40.0).astype(ml_dtypes.bfloat16),
        np.zeros((40, 0)),
    ]
    for others in ([], [np.array(list("ab") * 20)], [np.arange(40).astype(">i4")], [range(40)]):
        dataset = ArrayDataset(*columns, *others)
        indices = [3, -1, 0, 39, 3]
        want = data.Collator().apply([dataset[i] for i in indices])
        for workers in (0, 1):
            sampler = SequentialSampler(dataset, 5, indices=indices)
            (got,) = DataLoader(dataset, sampler, num_workers=workers)
            assert_same(got, want)
    for wrong in (40, -41, 1.5):
        sampler = SequentialSampler(dataset, 2, indices=[0, wrong])
        with pytest.raises(IndexError):
            list(DataLoader(dataset, sampler))


def test_order_is_kept_and_lengths() -> None:
    dataset = Items(lambda i: i, 100)
    loader = DataLoader(dataset, RandomSampler(dataset, 3, seed=4), num_workers=3)
    want = list(RandomSampler(dataset, 3, seed=4))
    iterator = iter(loader)
    assert iter(iterator) is iterator
    assert len(loader) == len(iterator) == 34
    assert [b.tolist() for b in iterator] == want
    with pytest.raises(StopIteration):
        next(iterator)
    assert len(list(loader)) == 34
    few = DataLoader(dataset, SequentialSampler(dataset, 100), num_workers=4)
    assert len(list(few)) == 1
    none = DataLoader(dataset, SequentialSampler(dataset, indices=[]), num_workers=2)
    assert list(none) == []


def test_infinite() -> None:
    dataset = Items(lambda i: i, 3)
    loader = DataLoader(dataset, data.Infinite(SequentialSampler(dataset, 2)), num_workers=2)
    iterator = iter(loader)
    assert [next(iterator).tolist() for _ in range(5)] == [[0, 1], [2], [0, 1], [2], [0, 1]]


def test_arrays_that_are_kept_stay_as_they_are() -> None:
    """Shared memory is used again only when nobody refers to it, here or in the worker."""
    count = 3 * MAX_HELD
    dataset = Items(lambda i: np.full(5000, i, "float32"), 2 * count)
    loader = DataLoader(dataset, SequentialSampler(dataset, 2), num_workers=1)
    files = open_files()
    kept = list(loader)
    assert open_files() <= files + MAX_HELD + 2
    for i, batch in enumerate(kept):
        assert (batch == [[2 * i], [2 * i + 1]]).all()
    views = [batch[1, ::7] for batch in loader]
    for i, view in enumerate(views):
        assert (view == 2 * i + 1).all()
    for batch in loader:
        batch += 1  # writing is allowed
    del batch, kept, views, view
    gc.collect()
    assert open_files() <= files + 1


def test_memory_is_used_again() -> None:
    dataset = Items(lambda i: np.full(50000, i, "float32"), 200)
    loader = DataLoader(dataset, SequentialSampler(dataset, 2), num_workers=2)
    addresses = set()
    for i, batch in enumerate(loader):
        assert batch[0, 0] == 2 * i
        addresses.add(batch.ctypes.data)
    assert len(addresses) <= 2 * 5  # two ahead, one in use, one on its way, of each worker


def test_batches_of_any_size() -> None:
    sizes = np.random.default_rng(0).integers(0, 60000, 60)
    dataset = Items(lambda i: np.full(sizes[i], i, "float32"), 60)
    for i, batch in enumerate(DataLoader(dataset, num_workers=2)):
        assert batch.shape == (1, sizes[i])
        assert (batch == i).all()


def test_long_messages() -> None:
    """Indices and text that are longer than what a socket holds."""
    dataset = Items(lambda i: "word" * 10 + str(i), 100000)
    loader = DataLoader(dataset, SequentialSampler(dataset, 50000), num_workers=2)
    first, second = loader
    assert len(first) == len(second) == 50000
    assert second[-1].endswith("99999")


@pytest.mark.parametrize("workers", [0, 2])
def test_preload_gives_tensors(workers: int) -> None:
    dataset = Items(
        lambda i: {
            "big": np.full((50, 60), i, "float32"),
            "double": np.full((50, 60), i, "float64"),
            "bfloat16": np.full((50, 60), i, ml_dtypes.bfloat16),
            "flags": (np.full((50, 60), i % 2 == 0), "text", Pair(i, np.uint8(i))),
        }
    )
    loader = DataLoader(dataset, SequentialSampler(dataset, 2), num_workers=workers, preload=True)
    batches = list(loader)
    for i, batch in enumerate(batches):
        want = np.array([2 * i, 2 * i + 1]).reshape(2, 1, 1)
        for name, dtype in (("big", "float32"), ("double", "float32"), ("bfloat16", "bfloat16")):
            assert isinstance(batch[name], mge.Tensor)
            assert batch[name].dtype == dtype
            assert (batch[name].numpy() == want).all()
        flags, text, pair = batch["flags"]
        assert (flags.numpy() == (want % 2 == 0)).all()
        assert text == ("text", "text")
        assert isinstance(pair, Pair)
        assert pair.a.dtype == np.int32
        assert pair.b.numpy().tolist() == [2 * i, 2 * i + 1]
    x = batches[0]["big"]
    x[0] = 7
    assert (F.mean(x[0]).item(), batches[1]["big"].numpy()[0, 0, 0]) == (7, 2)


# Randomness


def draws(workers: int, seed: int, epochs: int = 2) -> list[list[list[float]]]:
    mge.random.seed(seed)
    dataset = Draws()
    loader = DataLoader(dataset, SequentialSampler(dataset, 1), num_workers=workers)
    return [[[column[0] for column in batch] for batch in loader] for _ in range(epochs)]


def test_random_numbers_differ_and_repeat() -> None:
    once, again, other = draws(4, 1), draws(4, 1), draws(4, 2)
    assert once == again
    flat = [tuple(item) for epoch in once + other for item in epoch]
    for column in (1, 2):
        assert len({item[column] for item in flat}) == 32


def test_random_numbers_do_not_depend_on_the_number_of_workers() -> None:
    assert draws(1, 5) == draws(3, 5)


def test_without_workers_the_states_of_the_process_are_used() -> None:
    np.random.seed(1)
    got = [batch[1].item() for batch in DataLoader(Draws())]
    np.random.seed(1)
    assert got == [np.random.randint(1 << 30) for _ in range(8)]


def test_random_states_of_the_process_stay_as_they_are() -> None:
    np.random.seed(1)
    want = np.random.random()
    np.random.seed(1)
    list(DataLoader(Draws(), num_workers=2))
    assert np.random.random() == want


def test_megengine_random_in_workers() -> None:
    dataset = Items(lambda i: mge.random.uniform(size=(1,)).numpy())
    numbers = [batch.item() for batch in DataLoader(dataset, num_workers=2)]
    assert len(set(numbers)) == 8


# The worker


def test_worker_info() -> None:
    assert get_worker_info() is None
    dataset = Items(lambda i: [vars(get_worker_info()), os.getpid()])
    batches = list(DataLoader(dataset, num_workers=2))
    assert {(b[0]["idx"].item(), b[0]["worker"].item()) for b in batches} == {(0, 2), (1, 2)}
    assert len({b[1].item() for b in batches}) == 2
    seeds = {b[0]["idx"].item(): b[0]["seed"].item() for b in batches}
    assert seeds[1] == seeds[0] + 1
    info = data.dataloader.WorkerInfo(idx=0, worker=2, seed=3)
    assert repr(info) == "WorkerInfo(idx=0, worker=2, seed=3)"
    with pytest.raises(RuntimeError, match="Cannot assign attributes"):
        info.idx = 1


def new_threads_of_work(i: int) -> int:
    before = len(os.listdir("/proc/self/task"))
    x = mge.tensor(np.ones((8, 16, 32, 32), "float32"))
    F.conv2d(x, mge.tensor(np.ones((16, 16, 3, 3), "float32"))).numpy()
    F.matmul(mge.tensor(np.ones((300, 300))), mge.tensor(np.ones((300, 300)))).numpy()
    assert mge.device.get_num_threads() == 1
    return len(os.listdir("/proc/self/task")) - before


@pytest.mark.parametrize("method", METHODS[:2])
def test_workers_compute_on_one_thread(method: str) -> None:
    threads_here = mge.device.get_num_threads()
    F.matmul(mge.tensor(np.ones((300, 300))), mge.tensor(np.ones((300, 300)))).numpy()
    loader = DataLoader(
        Items(new_threads_of_work, 4), num_workers=2, start_method=method, timeout=100
    )
    for count in loader:
        assert count.item() == 0
    assert mge.device.get_num_threads() == threads_here


def test_loaders_side_by_side_and_in_threads() -> None:
    dataset = Items(lambda i: i, 40)

    def loader() -> DataLoader:
        return DataLoader(dataset, SequentialSampler(dataset, 4), num_workers=2)

    for a, b in zip(loader(), loader(), strict=True):
        assert (a == b).all()
    got: list[list[int]] = []

    def run() -> None:
        got.extend(b.tolist() for b in loader())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [i for batch in got for i in batch] == list(range(40))


# Streams


def test_stream_read_here() -> None:
    loader = DataLoader(Stream(7), StreamSampler(3), num_workers=2)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[1, 2, 3], [4, 5, 6], [7]]
    with pytest.raises(TypeError):
        len(loader)


def test_stream_read_by_workers() -> None:
    loader = DataLoader(Stream(7), StreamSampler(3), num_workers=2, parallel_stream=True)
    want = [[1, 2, 3], [1, 2, 3], [4, 5, 6], [4, 5, 6], [7], [7]]
    assert [b.tolist() for b in loader] == want


class Shares(StreamDataset):
    """Each worker reads its part; they differ in length."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = get_worker_info()
        assert info is not None
        for i in range(4 * (info.idx + 1)):
            yield info.idx, i


def test_stream_in_shares() -> None:
    loader = DataLoader(Shares(), StreamSampler(4), num_workers=3, parallel_stream=True)
    batches = [(b[0][0].item(), b[1][0].item()) for b in loader]
    assert batches == [(0, 0), (1, 0), (2, 0), (1, 4), (2, 4), (2, 8)]


def test_stream_that_fails_gives_what_was_before() -> None:
    class Fails(StreamDataset):
        def __iter__(self) -> Iterator[int]:
            yield from range(4)
            raise OSError("no more")

    for workers in (0, 2):
        for parallel in (False, True):
            loader = DataLoader(
                Fails(), StreamSampler(2), num_workers=workers, parallel_stream=parallel
            )
            iterator = iter(loader)
            for _ in range(4 if workers and parallel else 2):
                next(iterator)
            with pytest.raises(OSError, match="no more"):
                next(iterator)
