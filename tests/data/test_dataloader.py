"""Datasets, the collator and the loader."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
from megengine import data
from megengine.data.dataset import ArrayDataset, ConcatDataset, Dataset, StreamDataset
from megengine.data.transform import PseudoTransform, Transform

X = np.arange(10, dtype="float32").reshape(10, 1)
Y = np.arange(10)


def test_array_dataset() -> None:
    dataset = ArrayDataset(X, Y)
    assert len(dataset) == 10
    image, label = dataset[3]
    assert (image.tolist(), label) == ([3.0], 3)
    assert dataset[2:4][1].tolist() == [2, 3]
    with pytest.raises(IndexError):
        dataset[10]
    with pytest.raises(ValueError, match="inconsistent"):
        ArrayDataset(X, Y[:3])
    with pytest.raises(ValueError, match="at least one"):
        ArrayDataset()


def test_concat_dataset() -> None:
    dataset = ConcatDataset([ArrayDataset(Y), ArrayDataset(Y[:0]), ArrayDataset(Y + 100)])
    assert [dataset[i][0] for i in (0, 9, 10, 19, -1, -20)] == [0, 9, 100, 109, 109, 0]
    for index in (20, -21):
        with pytest.raises(IndexError):
            dataset[index]
    with pytest.raises(AssertionError):
        ConcatDataset([])


def test_batches() -> None:
    dataset = ArrayDataset(X, Y)
    loader = data.DataLoader(dataset, data.SequentialSampler(dataset, batch_size=4))
    assert len(loader) == 3
    for _ in range(2):
        batches = list(loader)
        assert [b[1].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[0][0].shape == (4, 1)
    iterator = iter(loader)
    assert iter(iterator) is iterator
    assert len(iterator) == 3
    assert next(iter(data.DataLoader(dataset)))[1].tolist() == [0]


def test_epochs_differ() -> None:
    dataset = ArrayDataset(X, Y)
    loader = data.DataLoader(dataset, data.RandomSampler(dataset, batch_size=5, seed=0))
    epochs = [[b[1].tolist() for b in loader] for _ in range(2)]
    assert epochs == [[[2, 8, 4, 9, 1], [6, 7, 3, 0, 5]], [[3, 5, 1, 2, 9], [8, 0, 6, 7, 4]]]


def test_transform() -> None:
    class Double(Transform):
        def apply(self, input):
            return input[0] * 2, input[1]

    dataset = ArrayDataset(X, Y)
    loader = data.DataLoader(dataset, transform=Double())
    assert [b[0].item() for b in loader] == [2.0 * i for i in range(10)]
    assert PseudoTransform().apply_batch([1, 2]) == (1, 2)
    with pytest.raises(TypeError):
        Transform()


def test_preload_gives_tensors() -> None:
    dataset = ArrayDataset(X, Y)
    images, labels = next(iter(data.DataLoader(dataset, preload=True)))
    assert isinstance(images, mge.Tensor)
    assert labels.dtype == np.int32


class Stream(StreamDataset):
    def __iter__(self):
        return iter(Y[:7])


def test_stream() -> None:
    loader = data.DataLoader(Stream(), data.StreamSampler(3))
    assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(TypeError):
        len(loader)


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            raise ValueError("bad 2")
        return index


def test_errors() -> None:
    dataset = ArrayDataset(X, Y)
    loader = data.DataLoader(Broken())
    with pytest.raises(ValueError, match="bad 2"):
        list(loader)
    for options, error in [
        ({"num_workers": -1}, ValueError),
        ({"num_workers": 1.5}, TypeError),
        ({"timeout": -1}, ValueError),
        ({"start_method": "thread"}, ValueError),
        ({"sampler": 3}, AssertionError),
        ({"sampler": data.StreamSampler(3)}, AssertionError),
    ]:
        with pytest.raises(error):
            data.DataLoader(dataset, **options)
    with pytest.raises(AssertionError):
        data.DataLoader([1, 2])
    with pytest.raises(AssertionError):
        data.DataLoader(Stream(), data.SequentialSampler(dataset))
    with pytest.raises(TypeError):
        Dataset()
