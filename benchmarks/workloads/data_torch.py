"""The same through PyTorch's loader, with OpenCV's decoder and torchvision's transforms v2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset
from torchvision.transforms import v2

from benchmarks.workloads import Work, batches, photos, transforms_torch, workload

torch.set_num_threads(1)


class Photos(Dataset):
    """JPEG files in memory, prepared as tensors."""

    def __init__(self) -> None:
        self.file = photos.jpeg()
        crop = v2.RandomResizedCrop(224, antialias=False)
        self.transform = v2.Compose(
            [crop, v2.RandomHorizontalFlip(), *transforms_torch.to_network()]
        )

    def __getitem__(self, index: int) -> Any:
        return self.transform(transforms_torch.decode(self.file)), index % 1000

    def __len__(self) -> int:
        return 10000


class Forever(Sampler):
    """Random indices, epoch after epoch."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(self.size).tolist()


def images(data: Dataset, num_workers: int) -> Work:
    sampler = Forever(len(data))  # type: ignore[arg-type]
    loader = DataLoader(data, batches.IMAGES, sampler=sampler, num_workers=num_workers)
    return batches.images(iter(loader))


def rows(num_workers: int) -> Work:
    data = TensorDataset(*map(torch.from_numpy, batches.columns()))
    loader = DataLoader(data, batches.ROWS, sampler=Forever(len(data)), num_workers=num_workers)
    return batches.rows(iter(loader))


@workload
def load_images_0_workers() -> Work:
    return images(Photos(), 0)


@workload
def load_images_1_worker() -> Work:
    return images(Photos(), 1)


@workload
def load_images_2_workers() -> Work:
    return images(Photos(), 2)


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
    data = TensorDataset(torch.zeros(64, *batches.LARGE))
    sampler = Forever(len(data))
    return batches.large(iter(DataLoader(data, 32, sampler=sampler, num_workers=2)))


@workload
def epoch_2_workers() -> Work:
    data = TensorDataset(*(torch.from_numpy(c[: 4 * batches.ROWS]) for c in batches.columns()))
    loader = DataLoader(data, batches.ROWS, num_workers=2)
    return Work(lambda: list(loader))
