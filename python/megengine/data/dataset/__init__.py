"""Datasets."""

from __future__ import annotations

from .meta_dataset import ArrayDataset, ConcatDataset, Dataset, StreamDataset
