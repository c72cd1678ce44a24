"""What runs inside a worker: it gets tasks, makes batches and sends them."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import _core
from .. import collator, seeds
from ..fetch import BatchMaker
from .channel import Channel
from .info import WorkerInfo, set_worker_info
from .memory import Arena
from .packing import Packer

__all__ = ["BATCH", "END", "ERROR", "HEADER", "INDICES", "ITEMS", "STREAM", "Job", "work"]

# Kinds of tasks: indices of the dataset; items of a stream that the loader reads; how many items
# to take from a stream that this worker reads, after batches to pass over.
INDICES, ITEMS, STREAM = range(3)

# Kinds of results, and what a result begins with.
BATCH, ERROR, END = range(3)
HEADER = struct.Struct("<BQ")


@dataclass(frozen=True)
class Job:
    """What a worker is told when it starts."""

    maker: BatchMaker
    index: int
    workers: int
    seed: int
    loader_pid: int


def work(channel: Channel, job: Job) -> None:
    """Serves tasks until the loader closes the channel."""
    _settle(job)
    arena = Arena(channel)
    collator.empty = arena.empty
    answer = _Answers(job, arena)
    while True:
        try:
            message = channel.receive()
        except EOFError:
            return
        assert message is not None
        number, kind, request, freed = pickle.loads(message)
        _limit_threads()
        arena.begin_batch(freed)
        try:
            parts = answer(number, kind, request)
            result = BATCH if parts is not None else END
        except Exception as error:
            result, parts = ERROR, [_describe(error)]
        try:
            channel.send(HEADER.pack(result, number), *(parts or []))
        except ConnectionError:
            return  # the loader has gone, and needs no batch


class _Answers:
    """Makes the messages of batches."""

    def __init__(self, job: Job, arena: Arena):
        self._maker = job.maker
        self._seed = job.seed
        self._arena = arena
        self._packer = Packer(arena)
        self._stream: Iterator[Any] | None = None

    def __call__(self, number: int, kind: int, request: Any) -> list[bytes] | None:
        """The parts of the message; None at the end of a stream."""
        if kind == STREAM:
            passed, size = request
            for earlier in passed:
                self._read(*earlier)
            request = self._read(number, size)
            if not request:
                return None
        else:
            self._start(number)
        if kind == INDICES:
            batch = self._maker.from_indices(request, self._arena.empty, one_by_one=True)
        else:
            batch = self._maker.from_items(request, self._arena.empty)
        return self._packer.pack(batch)

    def _start(self, number: int) -> None:
        seeds.seed_everything(seeds.mix(self._seed, number))

    def _read(self, number: int, size: int) -> list[Any]:
        """The items of a batch of the stream that this worker reads."""
        self._start(number)
        if self._stream is None:
            self._stream = iter(self._maker.dataset)
        return list(itertools.islice(self._stream, size))


def _describe(error: Exception) -> bytes:
    """An exception with its traceback; without itself if it cannot be sent."""
    text = traceback.format_exc()
    try:
        message = pickle.dumps((error, type(error).__name__, text))
        pickle.loads(message)  # exceptions with constructors of their own fail only here
    except Exception:
        message = pickle.dumps((None, type(error).__name__, text))
    return message


def _settle(job: Job) -> None:
    """Makes this process a worker."""
    # Ctrl-C reaches every process of the terminal: what it means is for the loader to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    threading.Thread(target=_follow, args=(job.loader_pid,), daemon=True).start()
    # Objects of before the fork are not looked at again: that would copy their pages.
    gc.freeze()
    _core.set_num_threads(1)
    seed = (job.seed + job.index) & 0xFFFFFFFF
    set_worker_info(WorkerInfo(idx=job.index, worker=job.workers, seed=seed))


def _follow(pid: int) -> None:
    """Ends this process when that of the loader ends, whatever this one is doing."""
    try:
        ended = select.poll()
        ended.register(os.pidfd_open(pid), select.POLLIN)
        ended.poll()
    except ProcessLookupError:
        pass  # it has ended already
    except OSError:  # a system without pidfd_open
        while _exists(pid):
            time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _limit_threads() -> None:
    """One thread for OpenCV, which a dataset may import at its first item."""
    cv2 = sys.modules.get("cv2")
    if cv2 is not None and cv2.getNumThreads() > 1:
        cv2.setNumThreads(0)
