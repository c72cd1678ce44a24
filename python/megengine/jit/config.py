"""Settings of the reference's graph compiler that programs pass to :class:`~megengine.jit.trace`.

They are kept so that such programs run. None changes a result, and the record of a call is run in
one way only, so none has an effect here.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DTRConfig", "GraphOptimizationConfig", "SublinearMemoryConfig"]


@dataclass
class DTRConfig:
    """How values would be dropped and computed again to save memory.

    Args:
        eviction_threshold: bytes of memory in use from which values would be dropped.
        evictee_minimum_size: bytes of the smallest value that would be.
        recomp_memory_factor: weight of memory in the choice.
        recomp_time_factor: weight of time in it.
    """

    eviction_threshold: int | str = 0
    evictee_minimum_size: int | str = 1 << 20
    recomp_memory_factor: float = 1
    recomp_time_factor: float = 1


@dataclass
class GraphOptimizationConfig:
    """Which passes of a graph compiler would run; 0 keeps the default of each."""

    jit_fuse_dimshuffle: int = 0
    jit_fuse_reduce: int = 0


@dataclass
class SublinearMemoryConfig:
    """How a graph would be cut to compute parts of it twice instead of keeping them.

    Args:
        thresh_nr_try: how many cuts would be tried.
        genetic_nr_iter: iterations of a search for better ones.
        genetic_pool_size: its population.
        lb_memory_mb: a lower bound of memory, in MB.
        num_worker: threads of the search.
    """

    thresh_nr_try: int = 10
    genetic_nr_iter: int = 0
    genetic_pool_size: int = 20
    lb_memory_mb: int = 0
    num_worker: int = 1
