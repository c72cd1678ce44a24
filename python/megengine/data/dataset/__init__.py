"""Datasets."""

from __future__ import annotations

from .meta_dataset import ArrayDataset, ConcatDataset, Dataset, StreamDataset
from .vision import (
    CIFAR10,
    CIFAR100,
    COCO,
    MNIST,
    Cityscapes,
    ImageFolder,
    ImageNet,
    Objects365,
    PascalVOC,
    VisionDataset,
)
