"""Several processes that compute together, on one machine or many, by MPI.

A program is started by :class:`launcher`, mpiexec or srun; see the page on distributed training.
"""

from . import functional, group, helper, server
from .errors import RankError
from .group import (
    WORLD,
    Group,
    get_backend,
    get_client,
    get_mm_server_addr,
    get_py_server_addr,
    get_rank,
    get_world_size,
    group_barrier,
    init_process_group,
    is_distributed,
    new_group,
    override_backend,
)
from .helper import bcast_list_, make_allreduce_cb, synchronized
from .launcher import launcher
from .server import Client, Server
from .sharded import ShardedOptimizer

__all__ = [
    "Client",
    "Group",
    "RankError",
    "Server",
    "ShardedOptimizer",
    "WORLD",
    "bcast_list_",
    "functional",
    "get_backend",
    "get_client",
    "get_mm_server_addr",
    "get_py_server_addr",
    "get_rank",
    "get_world_size",
    "group",
    "group_barrier",
    "group_end",
    "group_start",
    "helper",
    "init_process_group",
    "is_distributed",
    "launcher",
    "make_allreduce_cb",
    "new_group",
    "override_backend",
    "server",
    "synchronized",
]


def group_start() -> None:
    """Begins calls that belong together. Sends do not wait here, so that nothing is to be done."""


def group_end() -> None:
    """Ends calls that belong together: see :func:`group_start`."""
