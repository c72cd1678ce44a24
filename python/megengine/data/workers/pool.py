"""The worker processes of one epoch, as the loader sees them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from ..fetch import BatchMaker
from .channel import Channel
from .memory import Mirror
from .packing import unpack
from .process import END, ERROR, HEADER, Job, work

__all__ = ["START_METHODS", "StreamEnd", "WorkerPool", "default_start_method"]

START_METHODS = ("fork", "spawn", "forkserver")

# How long a worker may take to end by itself, and then to end when it is asked to.
GRACE = 1.0
TERMINATION = 1.0

MAX_NAMED_SAMPLES = 16


def default_start_method() -> str:
    """How workers start: ``MGE_DATALOADER_START_METHOD`` of the environment, or ``fork``."""
    return os.environ.get("MGE_DATALOADER_START_METHOD", "fork")


class StreamEnd(Exception):  # noqa: N818 - it is no error
    """The stream that a worker reads has no more items."""


class WorkerTraceback(Exception):  # noqa: N818 - it only carries text
    """The cause of an exception that a worker raised: the text of its traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Worker:
    """One process, what it was asked for and what it shares."""

    def __init__(self, index: int):
        self.index = index
        self.channel, self.far_end = Channel.pair()
        self.mirror = Mirror(self.channel)
        self.process: BaseProcess | None = None
        self.tasks: deque[tuple[int, Any]] = deque()  # batch numbers and samples not yet here

    def __str__(self) -> str:
        return f"DataLoader worker {self.index} (pid {self.process.pid if self.process else None})"

    def task(self) -> str:
        """What the worker is at."""
        if not self.tasks:
            return "without a task"
        number, samples = self.tasks[0]
        return f"while it had batch {number}, {_name_samples(samples)}"


def _name_samples(samples: Any) -> str:
    if not isinstance(samples, Sequence):
        return f"{samples} samples of a stream"
    shown = ", ".join(map(repr, samples[:MAX_NAMED_SAMPLES]))
    if len(samples) > MAX_NAMED_SAMPLES:
        shown += f", ... ({len(samples)} in all)"
    return f"samples [{shown}]"


class WorkerPool:
    """Worker processes that make batches.

    Tasks go to a worker by :meth:`submit`; its results come back, in the same order, by
    :meth:`receive`. :meth:`start` may come after the first tasks, so that workers find them.

    Args:
        maker: what makes a batch.
        num_workers: how many processes.
        seed: of the epoch.
        start_method: one of ``START_METHODS``.
    """

    def __init__(self, maker: BatchMaker, num_workers: int, seed: int, start_method: str):
        self._owner = os.getpid()
        self._start_method = start_method
        self._maker = maker
        self._seed = seed
        self._workers = [_Worker(i) for i in range(num_workers)]
        self._closed = False
        _live.add(self)

    def start(self) -> None:
        """Starts the processes.

        Raises:
            TypeError: the start method needs to pickle what cannot be pickled.
        """
        context = multiprocessing.get_context(self._start_method)
        # Until a worker has said what Ctrl-C means to it, it must not get it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            for worker in self._workers:
                job = Job(self._maker, worker.index, len(self._workers), self._seed, self._owner)
                process = context.Process(  # type: ignore[attr-defined]
                    target=work,
                    args=(worker.far_end, job),
                    name=f"megengine-dataloader-{worker.index}",
                    daemon=True,
                )
                _start(process, self._start_method)
                worker.process = process
                worker.far_end.close()
        except BaseException:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def submit(self, index: int, number: int, kind: int, request: Any, samples: Any) -> None:
        """Gives a worker a task: batch ``number``.

        Args:
            index: of the worker.
            number: of the batch, which its seed depends on.
            kind: of the task.
            request: what the kind of task needs.
            samples: what messages about the worker say that it had.
        """
        worker = self._workers[index]
        worker.tasks.append((number, samples))
        message = pickle.dumps((number, kind, request, worker.mirror.collect()), 5)
        with contextlib.suppress(ConnectionError):  # it has ended: receive() says how
            worker.channel.send(message)

    def receive(self, index: int, timeout: float) -> Any:
        """The next result of a worker.

        Args:
            index: of the worker.
            timeout: seconds to wait; 0 waits for as long as all workers live.

        Raises:
            StreamEnd: there are no more items in the worker's stream.
            RuntimeError: a worker has ended, or the time is over. The pool is closed.
            Exception: what the worker raised instead of making the batch.
        """
        if os.getpid() != self._owner:
            raise RuntimeError("DataLoader: the iterator belongs to another process")
        worker = self._workers[index]
        try:
            message = worker.channel.receive(wait=False)
            if message is None:
                message = self._wait(worker, timeout)
        except EOFError:
            raise self._ended([worker]) from None
        kind, _ = HEADER.unpack_from(message)
        body = message[HEADER.size :]
        task = worker.task()
        worker.tasks.popleft()
        if kind == END:
            raise StreamEnd
        if kind == ERROR:
            raise _rebuild_error(body, worker, task)
        return unpack(body, worker.mirror) if len(body) else None

    def _wait(self, worker: _Worker, timeout: float) -> memoryview:
        poll = select.poll()
        poll.register(worker.channel, select.POLLIN)
        sentinels = {w.process.sentinel: w for w in self._workers if w.process}
        for sentinel in sentinels:
            poll.register(sentinel, select.POLLIN)
        ready = poll.poll(timeout * 1000 if timeout else None)
        dead = [sentinels[fd] for fd, _ in ready if fd in sentinels]
        if dead:
            raise self._ended(dead)
        if not ready:
            waited = f"{worker} has not answered within {timeout:g} s {worker.task()}"
            self.close(grace=0)
            raise RuntimeError(f"dataloader timeout: {waited}")
        message = worker.channel.receive()
        assert message is not None
        return message

    def _ended(self, workers: list[_Worker]) -> RuntimeError:
        """Closes the pool; the exception that tells of workers that ended by themselves."""
        said = []
        for worker in workers:
            assert worker.process is not None
            worker.process.join(TERMINATION)
            said.append(f"{worker} {_how(worker.process.exitcode)} {worker.task()}")
        self.close(grace=0)
        return RuntimeError("; ".join(said))

    def close(self, grace: float = GRACE) -> None:
        """Ends the processes, at the latest after ``grace`` and two seconds."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        _live.discard(self)
        for worker in self._workers:
            worker.channel.close()
            worker.far_end.close()
        processes = [w.process for w in self._workers if w.process is not None]
        _join(processes, grace)
        for process in processes:
            if process.exitcode is None:
                process.terminate()
        _join(processes, TERMINATION)
        for process in processes:
            if process.exitcode is None:
                process.kill()
            process.join()
            process.close()

    def forget(self) -> None:
        """In a process that was forked: leaves the workers to the loader that they belong to."""
        self._closed = True
        for worker in self._workers:
            worker.channel.close()


# A forked process has copies of the loader's ends of all channels. While they are open, no worker
# would see that its loader has gone; so they are closed, in the workers themselves too.
_live: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _forget_all() -> None:
    for pool in list(_live):
        pool.forget()
    _live.clear()


os.register_at_fork(after_in_child=_forget_all)


def _start(process: Any, start_method: str) -> None:
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later warn of forks beside threads. Those of the core are known to
            # be safe: a forked process computes on one thread (core/kernels/cpu/parallel.cpp).
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", Warning)
            process.start()
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        if start_method == "fork":
            raise
        raise TypeError(
            f"DataLoader: with start_method={start_method!r} the dataset, the transform and the "
            f"collator are pickled, which failed: {error}. Define their classes and functions at "
            "the top of a module, or use start_method='fork'"
        ) from error


def _join(processes: list[Any], seconds: float) -> None:
    """Waits for processes to end, no longer than that in all."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))


def _how(code: int | None) -> str:
    """How a process ended, from its exit code."""
    if code is None:
        return "closed its channel"
    if code >= 0:
        return f"exited unexpectedly with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (which the system sends when memory runs out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _rebuild_error(body: memoryview, worker: _Worker, task: str) -> Exception:
    error, name, text = pickle.loads(body)
    if error is None:
        error = RuntimeError(f"Caught {name} in {worker} {task}:\n{text}")
    else:
        error.add_note(f"Raised in {worker} {task}")
    error.__cause__ = WorkerTraceback(text)
    return error
