"""Groups of processes, and this process's place in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .. import device as _device
from . import runtime
from .runtime import Job
from .server import Client

__all__ = [
    "WORLD",
    "Group",
    "StaticData",
    "get_backend",
    "get_client",
    "get_mm_server_addr",
    "get_py_server_addr",
    "get_rank",
    "get_world_size",
    "group_barrier",
    "init_process_group",
    "is_distributed",
    "new_group",
    "override_backend",
]

BACKENDS = ("auto", "mpi", "nccl", "rccl", "shm", "ucx")


class StaticData:
    """What :func:`init_process_group` was told; None before it."""

    def __init__(self) -> None:
        self.backend: str | None = None
        self.device: int | None = None
        self.device_type: str | None = None


_static = StaticData()


def _job() -> Job:
    """The job of this process; joins the one that mpiexec or srun started it for.

    Raises:
        AssertionError: there is none.
    """
    if runtime.current is None:
        _join_started()
    assert runtime.current is not None, (
        "distributed: please call init_process_group first, or start the program with "
        "dist.launcher, mpiexec or srun"
    )
    return runtime.current


def _join_started() -> None:
    if runtime.current is None and runtime.size_by_starter() > 1:
        runtime.join()
        _fill_static("auto", None, "xpux")


def _fill_static(backend: str, device: int | None, device_type: str) -> None:
    assert runtime.current is not None
    _static.backend, _static.device, _static.device_type = backend, device, device_type
    WORLD.reset(list(range(runtime.current.size)))


class Group:
    """Some processes of the job, in an order: the first is the root of collectives that have one.

    Args:
        proc_ranks: their numbers in the job.

    Raises:
        AssertionError: there is no job.
        ValueError: the list is empty, or a number is out of range or there twice.
    """

    def __init__(self, proc_ranks: Sequence[int] | None):
        self.proc_ranks: list[int] = []
        if proc_ranks is not None:
            self.reset(proc_ranks)

    def reset(self, proc_ranks: Sequence[int]) -> None:
        """Makes it a group of other processes."""
        self.check(proc_ranks)
        self.proc_ranks = [int(r) for r in proc_ranks]

    def check(self, proc_ranks: Sequence[int]) -> None:
        """Raises where the numbers are none of a group; see :class:`Group`."""
        size = _job().size
        ranks = [int(r) for r in proc_ranks]
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"Group: expected different ranks, at least one, got {ranks}")
        if min(ranks) < 0 or max(ranks) >= size:
            raise ValueError(f"Group: expected ranks in [0, {size}), got {ranks}")

    def _ranks(self) -> list[int]:
        if not self.proc_ranks:
            _job()  # joins, which fills WORLD, or raises
        return self.proc_ranks

    @property
    def size(self) -> int:
        """How many processes there are."""
        return len(self._ranks())

    @property
    def key(self) -> str:
        """The numbers of the processes, as a text."""
        return ",".join(map(str, self._ranks()))

    @property
    def rank(self) -> int:
        """The place of this process in the group.

        Raises:
            ValueError: it is not in the group.
        """
        rank = _job().rank
        if rank not in self._ranks():
            raise ValueError(f"Group: rank {rank} is not in the group of ranks {self.proc_ranks}")
        return self.proc_ranks.index(rank)

    @property
    def comp_node(self) -> str:
        """The device, and the queue on it, that communication uses."""
        self._ranks()
        return f"{_device.get_default_device()}:1"

    @property
    def is_single_machine(self) -> bool:
        """Whether all processes run on one machine; a collective call, the first time."""
        return communicator_of(self).on_one_machine

    def __repr__(self) -> str:
        return f"Group({self.proc_ranks})"


WORLD = Group(None)
"""All processes of the job."""


class Communicator:
    """A group's MPI communicator, and what is kept beside it."""

    def __init__(self, job: Job, ranks: Sequence[int]):
        self.job = job
        self.ranks = tuple(ranks)
        self.size = len(ranks)
        self.rank = self.ranks.index(job.rank)
        if self.ranks == tuple(range(job.size)):
            self.comm = job.comm
        else:
            everyone = job.comm.Get_group()
            members = everyone.Incl(list(ranks))
            # Only the members call this; the tag keeps two groups apart that are made at once.
            tag = sum((i + 1) * r for i, r in enumerate(ranks)) % 32000
            self.comm = job.comm.Create_group(members, tag)
            members.Free()
            everyone.Free()
        self._on_one_machine: bool | None = None

    @property
    def on_one_machine(self) -> bool:
        """Whether all members run on one machine."""
        if self._on_one_machine is None:
            names = self.comm.allgather(runtime.node_name())
            self._on_one_machine = len(set(names)) == 1
        return self._on_one_machine


def as_group(group: Group | Sequence[int]) -> Group:
    """A group, or the one of these ranks."""
    return group if isinstance(group, Group) else Group(group)


def communicator_of(group: Group | Sequence[int]) -> Communicator:
    """The communicator of a group, made by its first use, in which all its processes take part.

    Raises:
        ValueError: this process is not in the group.
    """
    group = as_group(group)
    job = _job()
    key = tuple(group._ranks())
    found = job.communicators.get(key)
    if found is None:
        _ = group.rank  # raises where this process is not in it
        found = job.communicators[key] = Communicator(job, key)
    return found


def init_process_group(
    master_ip: str,
    port: int,
    world_size: int,
    rank: int,
    device: int,
    backend: str | None = "auto",
    device_type: str = "xpu",
) -> None:
    """Makes this process a rank of a job.

    Programs that :class:`.launcher`, mpiexec or srun start need not call it. Where mpiexec or srun
    started the process, it is known where the others are: address and port are not used then, and
    ``world_size`` and ``rank`` must be those of MPI.

    Args:
        master_ip: the address of the machine where a :class:`.Server` runs.
        port: its port.
        world_size: how many processes there are.
        rank: the number of this one, from 0.
        device: a number; CPUs need none.
        backend: ``"auto"`` and ``"mpi"`` are MPI; names of GPU backends are taken too, and mean it.
        device_type: taken for the sake of programs; the default device stays as it is.

    Raises:
        TypeError: an argument is of another type.
        ValueError: a number is out of range, or the backend is unknown.
        AssertionError: it is called a second time.
        ImportError: MPI is missing.
        ConnectionError: no server answers.
        RuntimeError: MPI knows other processes.
    """
    for value, kind in ((master_ip, str), (port, int), (world_size, int), (rank, int)):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(
                f"init_process_group: expected a {kind.__name__}, got {type(value).__name__}"
            )
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"init_process_group: backend should be one of {BACKENDS}, got {backend}")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(
            "init_process_group: expected world_size >= 1 and a rank in [0, world_size), got rank "
            f"{rank} of {world_size}"
        )
    started = runtime.size_by_starter()
    if runtime.current is None and started > 1:
        _join_started()
        assert runtime.current is not None
    elif runtime.current is not None and _static.device is not None:
        raise AssertionError("init_process_group should be called only once")
    if runtime.current is not None:
        job = runtime.current
        if (rank, world_size) != (job.rank, job.size):
            raise RuntimeError(
                f"init_process_group: got rank {rank} of {world_size}, but this process was "
                f"started as rank {job.rank} of {job.size}"
            )
    else:
        runtime.join((master_ip, port), rank, world_size)
    _fill_static(backend or "auto", device, device_type)


def is_distributed() -> bool:
    """Whether this process is a rank of a job."""
    _join_started()
    return runtime.current is not None


def get_rank() -> int:
    """The number of this process in the job; 0 without one.

    >>> get_rank()
    0
    """
    return runtime.current.rank if is_distributed() and runtime.current else 0


def get_world_size() -> int:
    """How many processes the job has; 1 without one.

    >>> get_world_size()
    1
    """
    return runtime.current.size if is_distributed() and runtime.current else 1


def get_backend() -> str:
    """The name of the backend that was asked for.

    Raises:
        AssertionError: there is no job.
    """
    _job()
    assert _static.backend is not None
    return _static.backend


def get_py_server_addr() -> tuple[str, int]:
    """Address and port of the job's server.

    Raises:
        AssertionError: there is no job.
    """
    return _job().master


def get_mm_server_addr() -> tuple[str, int]:
    """Address and port of the server of large messages: the job's server, which has no other one.

    Raises:
        AssertionError: there is no job.
    """
    return _job().master


def get_client() -> Client:
    """The connection of this process to the job's server.

    Raises:
        AssertionError: there is no job.
    """
    return _job().client


def new_group(proc_ranks: Sequence[int]) -> Group:
    """The group of some processes; only they call it, or all do.

    Raises:
        AssertionError: there is no job.
        ValueError: the list is empty, or a number is out of range or there twice.
    """
    return Group(proc_ranks)


def group_barrier(group: Group = WORLD) -> None:
    """Waits until all processes of a group have called it. Does nothing without a job.

    Raises:
        RankError: a process failed.
        ValueError: this process is not in the group.
    """
    if not is_distributed():
        return
    c = communicator_of(group)
    c.job.enter("group_barrier")
    c.job.wait(c.comm.Ibarrier(), "group_barrier", c.ranks)
    c.job.leave_call()


@contextmanager
def override_backend(new_backend: str) -> Iterator[None]:
    """Gives the backend another name inside a ``with``; all names mean MPI.

    Raises:
        ValueError: it is none that is known.
    """
    if new_backend not in BACKENDS:
        raise ValueError(f"override_backend: expected one of {BACKENDS}, got {new_backend}")
    old, _static.backend = _static.backend, new_backend
    try:
        yield
    finally:
        _static.backend = old
