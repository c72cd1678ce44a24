"""Collectives of several processes, as programs reach them: ``F.distributed.all_reduce_sum(x)``.

They are those of :mod:`megengine.distributed.functional`.

>>> import megengine.distributed as dist
>>> import megengine.functional as F
>>> F.distributed.all_reduce_sum is dist.functional.all_reduce_sum
True
"""

from ..distributed.functional import (
    all_gather,
    all_reduce_max,
    all_reduce_min,
    all_reduce_sum,
    all_to_all,
    broadcast,
    gather,
    reduce_scatter_sum,
    reduce_sum,
    remote_recv,
    remote_send,
    scatter,
)

__all__ = [
    "all_gather",
    "all_reduce_max",
    "all_reduce_min",
    "all_reduce_sum",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce_scatter_sum",
    "reduce_sum",
    "remote_recv",
    "remote_send",
    "scatter",
]
