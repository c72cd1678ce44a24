"""Worker processes that make batches: :class:`.WorkerPool` starts them and hears from them.

| file | what it holds |
|---|---|
| `pool.py` | the processes as the loader sees them: start, tasks, results, death, end |
| `process.py` | what runs inside a worker |
| `channel.py` | messages between the two |
| `packing.py` | a batch as a message: a pickle whose arrays lie elsewhere |
| `memory.py` | the shared memory in which large arrays lie |
| `info.py` | what a dataset can ask about the worker that it runs in |
"""

from __future__ import annotations

from .info import WorkerInfo, get_worker_info
from .pool import START_METHODS, WorkerPool, default_start_method

__all__ = [
    "START_METHODS",
    "WorkerInfo",
    "WorkerPool",
    "default_start_method",
    "get_worker_info",
]
