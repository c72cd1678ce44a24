"""What tests of worker processes share: datasets, and counts of what is left behind."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pathlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from megengine.data.dataset import Dataset, StreamDataset

# Long enough for a machine that is busy, short beside HANG.
PATIENCE = 120
HANG = 3600


class Items(Dataset):
    """Items that a function gives."""

    def __init__(self, item: Callable[[int], Any], count: int = 8):
        self.item = item
        self.count = count

    def __getitem__(self, index: int) -> Any:
        return self.item(index)

    def __len__(self) -> int:
        return self.count


class Draws(Dataset):
    """Random numbers, of NumPy and of Python."""

    def __getitem__(self, index: int) -> Any:
        return index, np.random.randint(1 << 30), random.random()

    def __len__(self) -> int:
        return 8


class Stream(StreamDataset):
    """The numbers from 1 to a count."""

    def __init__(self, count: int):
        self.count = count

    def __iter__(self) -> Iterator[int]:
        yield from range(1, self.count + 1)


def children(pid: int | None = None) -> set[int]:
    """Processes that a process has started and that have not ended."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = text.rpartition(")")[2].split()[:2]
        if int(parent) == (pid or os.getpid()) and state != "Z":
            found.add(int(path.parent.name))
    return found


@contextlib.contextmanager
def nothing_is_left() -> Iterator[None]:
    """Checks that processes and descriptors are those of before, and that no memory is shared.

    The memory has no name: where no process has it open or mapped, it is gone.
    """
    # These processes of the standard library start when they are first needed, and stay.
    multiprocessing.resource_tracker.ensure_running()
    multiprocessing.forkserver.ensure_running()
    before, files = children(), open_files()
    yield
    gc.collect()
    assert children() <= before
    assert open_files() <= files
    assert "memfd:megengine" not in pathlib.Path("/proc/self/maps").read_text()


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that will happen soon."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.01)


def exists(pid: int) -> bool:
    """Whether a process is there and runs."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def open_files() -> int:
    """The number of descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
