"""Loading batches."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.tensor.dtype import is_bfloat16
from ..tensor import Tensor
from ..utils.dlpack import from_dlpack
from . import seeds
from .buffers import Buffers
from .collator import Collator
from .dataset import Dataset, StreamDataset
from .fetch import BatchMaker
from .sampler import MapSampler, Sampler, SequentialSampler, StreamSampler
from .transform import PseudoTransform, Transform
from .workers import START_METHODS, WorkerPool, default_start_method, get_worker_info
from .workers.info import WorkerInfo
from .workers.pool import StreamEnd
from .workers.process import INDICES, ITEMS, STREAM

__all__ = ["DataLoader", "WorkerInfo", "get_worker_info"]

# Batches that each worker makes ahead.
PREFETCH = 2

# What Tensors keep as it is.
_KEPT = ("float32", "float16", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
_SHARED_DTYPES = frozenset(map(np.dtype, (*_KEPT, "bool")))


class DataLoader:
    """Goes through a dataset in batches: sample, fetch, transform, collate.

    With workers, other processes make the batches ahead. They come in the order of the sampler, in
    shared memory, as arrays that can be kept and written to. Random numbers in workers (``random``,
    ``np.random``, ``megengine.random``) come from :func:`megengine.random.seed`, and depend on
    neither the number of workers nor how far they are ahead. Without workers, the states of this
    process are used. Each worker computes on one thread.

    What a worker raises is raised here, with a note that names the worker and its samples and with
    its traceback. The workers end with the iteration, with the iterator, and with this process.

    Args:
        dataset: a :class:`.Dataset`, or a :class:`.StreamDataset`.
        sampler: which items make a batch; by default one at a time, in order.
        transform: what is done to each item; nothing by default.
        collator: how items become a batch; :class:`.Collator` by default.
        num_workers: number of processes that make batches; 0 makes them in this process.
        timeout: seconds to wait for a batch of a worker, 0 for no limit. The start of the worker
            counts, which takes about a second where it is not forked.
        preload: whether batches come as Tensors instead of arrays.
        parallel_stream: whether each worker reads a :class:`.StreamDataset` by itself. It gives
            each its share with :func:`get_worker_info`. Without it, this process reads the stream,
            and the workers transform and collate.
        start_method: how workers start: ``"fork"``, ``"spawn"`` or ``"forkserver"``. By default
            the environment variable ``MGE_DATALOADER_START_METHOD``, or else ``"fork"``, to which
            nothing has to be pickled.

    Raises:
        TypeError: ``num_workers`` is not an integer.
        ValueError: ``num_workers`` or ``timeout`` is negative, ``start_method`` is unknown.
        AssertionError: dataset and sampler do not match.
        RuntimeError: in an iteration, when a worker ends by itself or is over its time.

    >>> from megengine.data.dataset import ArrayDataset
    >>> loader = DataLoader(ArrayDataset(np.arange(5)), SequentialSampler(range(5), batch_size=2))
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: Sampler | None = None,
        transform: Transform | None = None,
        collator: Collator | None = None,
        num_workers: int = 0,
        timeout: float = 0,
        preload: bool = False,
        parallel_stream: bool = False,
        *,
        start_method: str | None = None,
    ):
        num_workers = operator.index(num_workers)
        if num_workers < 0:
            raise ValueError("num_workers should not be negative")
        if timeout < 0:
            raise ValueError("timeout should not be negative")
        start_method = default_start_method() if start_method is None else start_method
        if start_method not in START_METHODS:
            raise ValueError(
                f"start_method should be one of {', '.join(START_METHODS)}, got {start_method!r}"
            )
        assert isinstance(dataset, Dataset), (
            f"Can not recognize this kind of dataset: {type(dataset)}"
        )
        stream = isinstance(dataset, StreamDataset)
        if sampler is None:
            sampler = StreamSampler() if stream else SequentialSampler(dataset)
        assert isinstance(sampler, StreamSampler if stream else MapSampler), (
            "types of dataset and sampler do not match"
        )
        self.dataset = dataset
        self.sampler = sampler
        self.transform = PseudoTransform() if transform is None else transform
        self.collator = Collator() if collator is None else collator
        self.num_workers = num_workers
        self.timeout = timeout
        self.preload = preload
        self.parallel_stream = parallel_stream
        self.start_method = start_method
        self.datakind = "stream" if stream else "map"
        self._epoch: _Epoch | None = None  # that of the newest iterator, or one that was loaded
        self._resumes = False

    def __iter__(self) -> _Batches:
        if not self._resumes or self._epoch is None:
            self._epoch = _Epoch(self.sampler.state_dict())
        self._resumes = False
        if self.num_workers == 0:
            kind: type[_Batches] = _StreamHere if self.datakind == "stream" else _MapHere
        elif self.datakind == "map":
            kind = _MapOfWorkers
        else:
            kind = _StreamOfWorkers if self.parallel_stream else _StreamForWorkers
        return kind(self, self._epoch)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.sampler)  # type: ignore[arg-type]

    def check_memory_rationality(self) -> None:
        """Does nothing: shared memory is reserved where it is used, and a lack of it raises."""

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: what :meth:`load_state_dict` of another one goes on from.

        The position is that of the newest iterator, and counts the batches that were received,
        not those that workers have made ahead. An epoch that was left early counts as one that
        goes on, until the next begins. The states of the global generators of this process
        (``random``, ``np.random``, ``megengine.random``) belong to it: batches without workers,
        and the next epochs with them, depend on those.

        Returns:
            Numbers, text, arrays, lists and dicts of them.

        >>> from megengine.data.dataset import ArrayDataset
        >>> def loader():
        ...     data = ArrayDataset(np.arange(6))
        ...     return DataLoader(data, SequentialSampler(data, batch_size=2))
        >>> first, second = loader(), loader()
        >>> next(iter(first))[0].tolist()
        [0, 1]
        >>> second.load_state_dict(first.state_dict())
        >>> [batch[0].tolist() for batch in second]
        [[2, 3], [4, 5]]
        """
        epoch = self._epoch or _Epoch(self.sampler.state_dict())
        return {**epoch.state_dict(), "random": seeds.get_random_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` gave: with the batches not yet received.

        Sets the states of the global generators of this process, too. The dataset, the sampler and
        its arguments must be those of the loader that gave the state; the number of workers may
        be another, except with ``parallel_stream``.

        Raises:
            ValueError: the state is not one of this kind of loader.
        """
        epoch = _Epoch.of_state(state)
        if epoch.taken is not None and len(epoch.taken) != self.num_workers:
            raise ValueError(
                f"DataLoader.load_state_dict: expected a state with num_workers={self.num_workers}"
                f", as parallel_stream has a stream for each worker; got {len(epoch.taken)}"
            )
        self.sampler.load_state_dict(epoch.sampler)
        seeds.set_random_state(state["random"])
        epoch.random = state["random"]
        self._epoch = epoch
        self._resumes = True


@dataclass
class _Epoch:
    """How far an epoch has come.

    Attributes:
        sampler: the state of the sampler: of after the last batch that was received, if it keeps a
            position, and otherwise of the start of the epoch.
        received: number of batches that were received.
        seed: of the batches that workers make; None before workers were needed.
        taken: with ``parallel_stream``, for each worker the number of batches received, and
            whether its stream has ended.
        random: the states of the global generators when it was loaded.
    """

    sampler: dict[str, Any]
    received: int = 0
    seed: int | None = None
    taken: list[tuple[int, bool]] | None = None
    random: dict[str, Any] | None = field(default=None, repr=False)

    def keeps_position(self) -> bool:
        """Whether the sampler goes on by itself from its state."""
        return "position" in self.sampler

    def state_dict(self) -> dict[str, Any]:
        return {
            "sampler": self.sampler,
            "received": self.received,
            "seed": self.seed,
            "taken": None if self.taken is None else [list(t) for t in self.taken],
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> _Epoch:
        missing = {"sampler", "received", "seed", "taken", "random"} - set(state)
        if missing:
            raise ValueError(
                "DataLoader.load_state_dict: expected what state_dict() gives, but there is no "
                + ", ".join(sorted(missing))
            )
        taken = state["taken"]
        return cls(
            dict(state["sampler"]),
            int(state["received"]),
            None if state["seed"] is None else int(state["seed"]),
            None if taken is None else [(int(n), bool(ended)) for n, ended in taken],
        )


class _Batches:
    """The batches of one epoch. A subclass gives :meth:`_next`."""

    _shares = False  # whether nobody else has the arrays of a batch

    def __init__(self, loader: DataLoader, epoch: _Epoch):
        self._loader = loader
        self._epoch = epoch
        self._ended = False
        self._maker = BatchMaker(loader.dataset, loader.transform, loader.collator)

    def _next(self) -> Any:
        """The next batch; raises StopIteration after the last."""
        raise NotImplementedError

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        try:
            batch = self._next()
        except StopIteration:
            self._end()
            raise
        self._epoch.received += 1
        return _to_tensors(batch, self._shares) if self._loader.preload else batch

    def __len__(self) -> int:
        return len(self._loader)

    def _end(self) -> None:
        """Notes that the epoch is over: the loader's state is that of between two epochs."""
        self._ended = True
        if self._loader._epoch is self._epoch:
            self._loader._epoch = None

    def _requests(self) -> Iterator[Any]:
        """What the sampler gives for each batch that was not yet received."""
        requests = iter(self._loader.sampler)
        if self._epoch.keeps_position():
            return requests
        return itertools.islice(requests, self._epoch.received, None)


class _MapHere(_Batches):
    """Makes the batches in this process."""

    def __init__(self, loader: DataLoader, epoch: _Epoch):
        super().__init__(loader, epoch)
        self._indices = self._requests()
        self._buffers = Buffers()

    def _next(self) -> Any:
        batch = self._maker.from_indices(next(self._indices), self._buffers.empty)
        if self._epoch.keeps_position():
            self._epoch.sampler = self._loader.sampler.state_dict()
        return batch


class _StreamHere(_Batches):
    """Reads a stream and makes the batches in this process."""

    def __init__(self, loader: DataLoader, epoch: _Epoch):
        super().__init__(loader, epoch)
        self._items = _StreamReader(self._loader, self._epoch)
        self._buffers = Buffers()

    def _next(self) -> Any:
        return self._maker.from_items(next(self._items), self._buffers.empty)


class _StreamReader:
    """The items of each batch of a stream. Passes over those that were received before."""

    def __init__(self, loader: DataLoader, epoch: _Epoch):
        self._sizes = map(len, loader.sampler)
        self._stream: Iterator[Any] | None = None
        self._dataset = loader.dataset
        self._epoch = epoch

    def __iter__(self) -> _StreamReader:
        return self

    def __next__(self) -> list[Any]:
        if self._stream is None:
            self._stream = iter(self._dataset)
            received = sum(itertools.islice(self._sizes, self._epoch.received))
            if received:
                deque(itertools.islice(self._stream, received), maxlen=0)
            if self._epoch.random is not None:  # reading may have drawn numbers
                seeds.set_random_state(self._epoch.random)
        items = list(itertools.islice(self._stream, next(self._sizes)))
        if not items:
            raise StopIteration
        return items


class _OfWorkers(_Batches):
    """Lets workers make the batches. A subclass gives :meth:`_prepare` and :meth:`_take`."""

    _shares = True

    def __init__(self, loader: DataLoader, epoch: _Epoch):
        super().__init__(loader, epoch)
        if epoch.seed is None:
            epoch.seed = seeds.draw_seed()
        self._pool = WorkerPool(self._maker, loader.num_workers, epoch.seed, loader.start_method)
        self._close = weakref.finalize(self, self._pool.close)
        self._error: Exception | None = None  # of the sampler or the stream, when it is due
        self._prepare()
        self._pool.start()

    def _prepare(self) -> None:
        """Gives the first tasks."""
        raise NotImplementedError

    def _take(self) -> Any:
        """The next batch, as :meth:`_next`."""
        raise NotImplementedError

    def _next(self) -> Any:
        try:
            return self._take()
        except BaseException:
            self._ended = True
            self._close()
            raise

    def _receive(self, worker: int) -> Any:
        return self._pool.receive(worker, self._loader.timeout)


class _MapOfWorkers(_OfWorkers):
    """Batches whose indices, or items, are given to the workers in turn."""

    _kind = INDICES

    def _source(self) -> Iterator[Any]:
        return self._requests()

    def _prepare(self) -> None:
        self._requested = self._source()
        self._issued = self._epoch.received
        self._states: deque[dict[str, Any]] = deque()  # of the sampler, after each task
        for _ in range(PREFETCH * self._loader.num_workers):
            self._submit()

    def _submit(self) -> None:
        """Gives the next task to the worker whose turn it is, if there is one."""
        if self._error is not None:
            return
        try:
            request = next(self._requested)
        except Exception as error:  # StopIteration too
            self._error = error
            return
        number = self._issued
        samples = request if self._kind == INDICES else len(request)
        self._pool.submit(number % self._loader.num_workers, number, self._kind, request, samples)
        self._issued += 1
        state = self._loader.sampler.state_dict() if self._epoch.keeps_position() else {}
        self._states.append(state)

    def _take(self) -> Any:
        if not self._states:
            assert self._error is not None
            raise self._error
        batch = self._receive(self._epoch.received % self._loader.num_workers)
        state = self._states.popleft()
        if self._epoch.keeps_position():
            self._epoch.sampler = state
        self._submit()
        return batch


class _StreamForWorkers(_MapOfWorkers):
    """A stream that this process reads, whose items the workers transform and collate."""

    _kind = ITEMS

    def _source(self) -> Iterator[Any]:
        return _StreamReader(self._loader, self._epoch)


class _StreamOfWorkers(_OfWorkers):
    """A stream that each worker reads by itself: a batch of each, in turn, until all have ended."""

    def _prepare(self) -> None:
        workers = self._loader.num_workers
        if self._epoch.taken is None:
            self._epoch.taken = [(0, False)] * workers
        self._taken = self._epoch.taken
        self._issued = [0] * workers
        self._sizes = [map(len, self._loader.sampler) for _ in range(workers)]
        for _ in range(PREFETCH):
            for worker in range(workers):
                self._submit(worker)

    def _submit(self, worker: int) -> None:
        """Asks a worker for its next batch; the first time, for those before it to be passed over.

        The seed of a worker's k-th batch is that of batch k * workers + worker.
        """
        received, ended = self._taken[worker]
        if ended:
            return
        passed = []
        while self._issued[worker] < received:
            passed.append((self._number(worker), next(self._sizes[worker])))
            self._issued[worker] += 1
        size = next(self._sizes[worker])
        self._pool.submit(worker, self._number(worker), STREAM, (passed, size), size)
        self._issued[worker] += 1

    def _number(self, worker: int) -> int:
        return self._issued[worker] * self._loader.num_workers + worker

    def _take(self) -> Any:
        while True:
            going_on = [(n, worker) for worker, (n, ended) in enumerate(self._taken) if not ended]
            if not going_on:
                raise StopIteration
            received, worker = min(going_on)
            try:
                batch = self._receive(worker)
            except StreamEnd:
                self._taken[worker] = (received, True)
                continue
            self._taken[worker] = (received + 1, False)
            self._submit(worker)
            return batch


def _to_tensors(batch: Any, share: bool) -> Any:
    """The batch with Tensors in the place of arrays.

    Args:
        batch: arrays, in any structure.
        share: whether Tensors may be in the memory of the arrays, which nobody else has.
    """
    if isinstance(batch, np.ndarray):
        return _to_tensor(batch, share)
    if isinstance(batch, dict):
        return {key: _to_tensors(value, share) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        values = [_to_tensors(value, share) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def _to_tensor(array: np.ndarray, share: bool) -> Any:
    if share and array.dtype in _SHARED_DTYPES:
        return from_dlpack(array)
    return Tensor(array) if array.dtype.kind in "biufc" or is_bfloat16(array.dtype) else array
