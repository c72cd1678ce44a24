"""What the workloads of loaders share: the data, and how batches are counted."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workloads import Work

IMAGES = 32  # in a batch
ROWS = 32
LARGE = (3, 224, 224)


def columns() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(6400, 16) numbers and their labels."""
    x = np.random.default_rng(0).normal(size=(200 * ROWS, 16)).astype(np.float32)
    return x, np.arange(len(x))


def _take(iterator: Iterator[Any], batches: int, calls: int) -> Work:
    def step() -> None:
        deque(itertools.islice(iterator, batches), maxlen=0)

    return Work(step, calls)


def images(iterator: Iterator[Any]) -> Work:
    """The time of an image. A step takes more batches than are made ahead."""
    return _take(iterator, 8, 8 * IMAGES)


def rows(iterator: Iterator[Any]) -> Work:
    """The time of a batch."""
    return _take(iterator, 1000, 1000)


def large(iterator: Iterator[Any]) -> Work:
    """The time of a batch."""
    return _take(iterator, 20, 20)
