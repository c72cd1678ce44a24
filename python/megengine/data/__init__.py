"""Datasets, samplers, transforms and the loader that makes batches of them."""

from __future__ import annotations

from . import dataset, transform
from .collator import Collator
from .dataloader import DataLoader
from .sampler import (
    Infinite,
    MapSampler,
    RandomSampler,
    ReplacementSampler,
    Sampler,
    SequentialSampler,
    StreamSampler,
)
