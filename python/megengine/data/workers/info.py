"""What a dataset can ask about the worker process that it runs in."""

from __future__ import annotations

from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo:
    """Facts about a worker process. They cannot be changed.

    Attributes:
        idx: the number of the worker, from 0.
        worker: how many workers there are.
        seed: a number of the epoch and the worker, drawn from the generator of
            :func:`megengine.random.seed`.

    >>> WorkerInfo(idx=0, worker=2, seed=7)
    WorkerInfo(idx=0, worker=2, seed=7)
    """

    idx: int
    worker: int
    seed: int

    def __init__(self, **kwargs: Any):
        self.__dict__.update(kwargs)

    def __setattr__(self, key: str, value: Any) -> None:
        raise RuntimeError("Cannot assign attributes to WorkerInfo objects")

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value}" for key, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Facts about the worker process that asks; None in any other process.

    A :class:`.StreamDataset` that several workers read at once uses it to give each its share.

    >>> get_worker_info() is None
    True
    """
    return _worker_info


def set_worker_info(info: WorkerInfo) -> None:
    """Makes this process a worker."""
    global _worker_info
    _worker_info = info
