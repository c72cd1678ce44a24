"""Loaders: a training pipeline of images from their files on, and what a small batch costs."""

from __future__ import annotations

from typing import Any

import numpy as np

import megengine.data.transform as T
from benchmarks.workloads import Work, batches, photos, workload
from megengine.data import DataLoader, Infinite, RandomSampler, SequentialSampler
from megengine.data.dataset import ArrayDataset, Dataset


class Photos(Dataset):
    """JPEG files in memory, decoded."""

    def __init__(self) -> None:
        self.file = photos.jpeg()

    def __getitem__(self, index: int) -> Any:
        return photos.decode(self.file), index % 1000

    def __len__(self) -> int:
        return 10000


def images(num_workers: int) -> Work:
    data = Photos()
    steps = [
        T.RandomResizedCrop(224),
        T.RandomHorizontalFlip(),
        T.Normalize(photos.MEAN, photos.STD),
        T.ToMode(),
    ]
    sampler = Infinite(RandomSampler(data, batch_size=batches.IMAGES))
    loader = DataLoader(data, sampler, T.Compose(steps), num_workers=num_workers)
    return batches.images(iter(loader))


def rows(num_workers: int) -> Work:
    data = ArrayDataset(*batches.columns())
    sampler = Infinite(RandomSampler(data, batch_size=batches.ROWS))
    return batches.rows(iter(DataLoader(data, sampler, num_workers=num_workers)))


@workload
def load_images_0_workers() -> Work:
    return images(0)


@workload
def load_images_1_worker() -> Work:
    return images(1)


@workload
def load_images_2_workers() -> Work:
    return images(2)


@workload
def load_rows_0_workers() -> Work:
    return rows(0)


@workload
def load_rows_1_worker() -> Work:
    return rows(1)


@workload
def load_rows_2_workers() -> Work:
    return rows(2)


@workload
def load_large_2_workers() -> Work:
    """Batches of 19 MB that cost little to make: what it takes to move them."""
    data = ArrayDataset(np.zeros((64, *batches.LARGE), np.float32))
    sampler = Infinite(SequentialSampler(data, batch_size=32))
    return batches.large(iter(DataLoader(data, sampler, num_workers=2)))


@workload
def epoch_2_workers() -> Work:
    """A whole epoch of few batches: what it takes to start and end the workers."""
    data = ArrayDataset(*(column[: 4 * batches.ROWS] for column in batches.columns()))
    loader = DataLoader(data, SequentialSampler(data, batch_size=batches.ROWS), num_workers=2)
    return Work(lambda: list(loader))
