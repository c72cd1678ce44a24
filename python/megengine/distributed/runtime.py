"""This process as one rank of a job: how it joins, waits, hears of failures, and ends."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import mmap
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from .. import device as _device
from .errors import RankError
from .server import TOKEN, Client, Server, connected, job_token
from .watcher import STATUS

# Variables by which the starters of MPI programs say what they start; see size_by_starter().
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_PREFIXES = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "MPI_LOCAL", "HYDI_", "MV2_COMM_WORLD_")
SHARED_MEMORY = ("/dev/shm/mpich_shm_", "/dev/shm/ucx_shm_posix_")
_INSIDE = "MGE_DIST_INSIDE"  # set for programs that a rank starts
_PATIENCE = float(os.environ.get("MGE_DIST_TIMEOUT") or 300.0)  # seconds, for others to come
_LATE = 3.0  # seconds that a call waits for a process that has ended: its data may be on their way


def size_by_starter() -> int:
    """How many processes mpiexec, mpirun or srun started with this one; 1 where none did."""
    sizes = [os.environ[name] for name in _SIZES if name in os.environ]
    if {"SLURM_STEP_ID", "SLURM_PROCID"} <= os.environ.keys() and _INSIDE not in os.environ:
        sizes.append(os.environ.get("SLURM_STEP_NUM_TASKS", "1"))
    return max((int(size) for size in sizes if size.isdigit()), default=1)


def node_name() -> str:
    """The machine, as far as shared memory and its network go: containers are machines too."""
    try:
        space = os.readlink("/proc/self/ns/net").strip("net:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}.{space}" if space else socket.gethostname()


def load_mpi() -> Any:
    """The module mpi4py.MPI, with MPI started.

    Raises:
        ImportError: mpi4py or an MPI library is missing.
    """
    try:
        mpi4py = importlib.import_module("mpi4py")
        mpi4py.rc.finalize = False  # Job.leave() does, where nothing failed
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as e:
        raise ImportError(
            "megengine.distributed needs mpi4py and an MPI library, of which one cannot be loaded: "
            f"{e}. pip install 'openmge[distributed]' brings both"
        ) from e


class Watch:
    """The process that watches this one, started here, and the lines between the two."""

    def __init__(self, rank: int, master: tuple[str, int]):
        self.pipe, theirs = socket.socketpair()
        memory = os.memfd_create("megengine.distributed")
        os.truncate(memory, STATUS.size)
        self.status = mmap.mmap(memory, STATUS.size)
        config = {
            "rank": rank,
            "parent": os.getpid(),
            "memory": memory,
            "host": master[0],
            "port": master[1],
            "token": os.environ[TOKEN],
            "node": node_name(),
        }
        script = str(Path(__file__).with_name("watcher.py"))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", script, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), memory),
            start_new_session=True,
        )
        theirs.close()
        os.close(memory)
        self.pipe.sendall(json.dumps(config).encode() + b"\n")
        self.pipe.setblocking(False)


class Job:
    """What this process knows of the job that it is a rank of."""

    def __init__(self, mpi: Any, comm: Any, watch: Watch, client: Client, server: Server | None):
        self.mpi = mpi
        self.comm = comm
        self._last_words = comm.Dup()  # for the end, apart from calls that others still make
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.client = client
        self.master = (client.master_ip, client.port)
        self.server = server
        self.communicators: dict[tuple[int, ...], Any] = {}
        self.operations: dict[tuple[str, str], Any] = {}  # reductions that MPI does not have
        self.under_way: list[tuple[Any, Any]] = []  # what was sent, and its memory
        self.failure: dict[str, Any] | None = None
        self.gone: dict[int, float] = {}  # ranks that ended, and when this was heard
        self.calls = 0
        self.timeout = float(os.environ.get("MGE_DIST_TIMEOUT") or 1800.0)
        self.crowded = False  # more ranks on this machine than CPUs
        self._watch, self._pipe, self._status = watch, watch.pipe, watch.status
        self._left = False
        self._rest = b""
        self._pid = os.getpid()

    # ---- the watcher ---------------------------------------------------------------------------

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # check() hears that the watcher is gone
            self._pipe.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        """Takes note of what the watcher passed on."""
        try:
            data = self._pipe.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data and self.failure is None:
            self.failure = {"rank": self.rank, "why": "lost its watcher", "trace": ""}
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "failed" in message:
                self.failure = message["failed"]
            elif "bye" in message:
                self.gone.setdefault(int(message["bye"]), time.monotonic())

    # ---- waiting -------------------------------------------------------------------------------

    def fail(self, op: str) -> NoReturn:
        """Raises for the failure that is known."""
        assert self.failure is not None
        rank = int(self.failure["rank"])
        raise RankError(f"{op}: rank {rank} {self.failure['why']}", rank)

    def check(self, op: str, ranks: Sequence[int] = ()) -> None:
        """Raises if a process of the job failed, or one of ``ranks`` ended.

        Raises:
            RankError: with the process and what happened.
        """
        self._listen()
        if self.failure is not None:
            self.fail(op)
        for rank in ranks:
            heard = self.gone.get(rank)
            if heard is not None and time.monotonic() - heard > _LATE:
                raise RankError(
                    f"{op}: rank {rank} has ended its program, so that the call cannot finish", rank
                )

    def enter(self, op: str) -> None:
        """Notes that a call begins, for messages about calls that do not end.

        Raises:
            RankError: a process of the job has failed.
        """
        if self._pid != os.getpid():
            raise RuntimeError(
                f"{op}: this process was forked from rank {self.rank}, which alone can take "
                "part in the job's communication"
            )
        if self.failure is not None:
            self.fail(op)
        self.calls += 1
        STATUS.pack_into(self._status, 0, self.calls, 1, op.encode()[:48])

    def leave_call(self) -> None:
        """Notes that the call has ended."""
        STATUS.pack_into(self._status, 0, self.calls, 0, b"")

    def wait(self, request: Any, op: str, ranks: Sequence[int], nbytes: int = 0) -> None:
        """Waits for a request, as long as the job lives.

        Args:
            request: an MPI request.
            op: the function, for messages.
            ranks: the processes that take part.
            nbytes: how much is sent; for so long as that may take the wait does not sleep.

        Raises:
            RankError: a process failed, or did not take part in time.
        """
        if request.Test():
            return
        last_check = time.monotonic()
        busy = last_check + 0.05 + nbytes / 1e8
        waited = 0.0
        while not request.Test():
            now = time.monotonic()
            if now - last_check >= 0.02:
                self.check(op, ranks)
                # A job that was stopped as a whole has not waited meanwhile.
                waited += min(now - last_check, 0.5)
                last_check = now
                if waited > self.timeout:
                    self._time_out(op, ranks)
            if now > busy:
                time.sleep(1e-4)
            elif self.crowded:
                os.sched_yield()

    def _time_out(self, op: str, ranks: Sequence[int]) -> NoReturn:
        table = {int(r): status for r, status in self.client._ask("table").items()}
        lines, first = [], -1
        for rank in ranks:
            calls, inside = table.get(rank) or (0, "")
            if rank == self.rank or (inside == op and calls == self.calls):
                continue
            first = rank if first < 0 else first
            doing = f"waits in {inside}" if inside else "computes"
            lines.append(f"rank {rank} {doing} after {calls} calls")
        raise RankError(
            f"{op}: waited {self.timeout:g} s for ranks {list(ranks)} in call {self.calls}: "
            + ("; ".join(lines) or "all are in the same call"),
            first,
        )

    # ---- the end -------------------------------------------------------------------------------

    def report(self, error: BaseException, trace: str) -> None:
        """Tells the others that this process raised, unless that is their own news."""
        if isinstance(error, RankError) and self.failure is not None:
            return
        name = type(error).__name__
        text = str(error).strip().splitlines()
        why = f"raised {name}: {text[0]}" if text else f"raised {name}"
        self.failure = self.failure or {"rank": self.rank, "why": why, "trace": trace}
        self._tell({"failed": why[:2000], "trace": trace[-20000:]})

    def leave(self) -> None:
        """Ends this process's part: waits for the others, or, where one failed, for nobody."""
        if self._left or self._pid != os.getpid():
            return
        self._left = True
        if self.failure is None:
            self._tell({"bye": True})
            try:
                last = [request for request, _ in self.under_way] + [self._last_words.Ibarrier()]
                while not self.mpi.Request.Testall(last):
                    self._listen()
                    if self.failure is not None:
                        break
                    time.sleep(2e-3)
            except self.mpi.Exception as e:
                self.failure = {"rank": self.rank, "why": f"could not end: {e}", "trace": ""}
        if self.failure is None:
            self.mpi.Finalize()
            self._pipe.close()
            if self.server is not None:
                self.server.close()
            return
        self.abandon()

    def abandon(self) -> NoReturn:
        """Ends the process at once. MPI would wait for those that are gone."""
        sys.stdout.flush()
        sys.stderr.flush()
        # mpiexec kills the others as soon as one ends: let them say what happened.
        time.sleep(1.0 if started_by_mpi_here else 0.1)
        os._exit(1)


current: Job | None = None
"""The job that this process is a rank of."""

started_by_mpi_here = False

_hook = sys.excepthook


def _excepthook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    _hook(kind, error, trace)
    if current is not None:
        current.report(error, "".join(traceback.format_exception(kind, error, trace)))


def _at_exit() -> None:
    if current is not None:
        current.leave()


def _threads_of_rank(comm: Any, mpi: Any) -> tuple[int, bool]:
    """How many threads this rank computes on, and whether ranks outnumber the CPUs they share."""
    own = frozenset(os.sched_getaffinity(0))
    local = comm.Split_type(mpi.COMM_TYPE_SHARED)
    sets = local.allgather(sorted(own))
    local.Free()
    sharing = sum(not own.isdisjoint(other) for other in sets)
    return max(1, len(own) // sharing), sharing > len(own)


def _drop_names_of_shared_memory(comm: Any) -> None:
    """Takes the names of MPI's shared memory away, once all have mapped it.

    What has no name is gone with the last process that uses it, however that ends.
    """
    comm.Barrier()
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/dev/shm/" in line}
    for path in paths:
        if path.startswith(SHARED_MEMORY):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    comm.Barrier()


def _master_host(several: bool) -> str:
    """The address by which the others reach this process."""
    if not several:
        return "127.0.0.1"
    for name in ("MGE_DIST_HOST", "PMI_HOSTNAME", "SLURMD_NODENAME"):
        if os.environ.get(name):
            return os.environ[name]
    return socket.gethostname()


def _meet(client: Client, rank: int, world_size: int) -> socket.socket | None:
    """Waits until all processes have come; MPI, which starts next, asks the server for them.

    MPI itself would wait without end, and hear of no failure.
    """
    if world_size == 1:
        return None
    if "mpi4py.MPI" in sys.modules:
        raise RuntimeError(
            "init_process_group: MPI has been started already, for this process alone; import "
            "mpi4py.MPI after init_process_group, or start the program with mpiexec"
        )
    master = client.master_ip, client.port
    pmi = connected(*master, {"kind": "pmi", "rank": rank, "node": node_name()})
    if not client._meet("join", world_size, _PATIENCE):
        raise ConnectionError(
            f"init_process_group: not all of {world_size} processes came within {_PATIENCE:g} s"
        )
    os.environ.update(
        PMI_FD=str(pmi.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(world_size), PMI_SPAWNED="0"
    )
    return pmi


def join(master: tuple[str, int] | None = None, rank: int = 0, world_size: int = 0) -> Job:
    """Makes this process a rank of a job.

    Args:
        master: the address of the job's server, for a process that no mpiexec started.
        rank: its number there.
        world_size: the number of processes there.

    Raises:
        ImportError: MPI is missing.
        RuntimeError: MPI knows another number of processes.
    """
    global current, started_by_mpi_here
    if master is None:
        world_size = size_by_starter()
    started_by_mpi_here = master is None
    pmi = client = watch = None
    hosts = _master_host(several=True)
    if master is not None:
        client = Client(*master, patience=_PATIENCE)
        watch = Watch(rank, master)
        pmi = _meet(client, rank, world_size)
    mpi = load_mpi()
    comm = mpi.COMM_WORLD.Dup()
    _drop_names_of_shared_memory(comm)
    # Programs that this one starts are no ranks.
    for name in [n for n in os.environ if n.startswith(_PREFIXES)]:
        del os.environ[name]
    os.environ[_INSIDE] = "1"
    if pmi is not None:
        pmi.detach()  # MPI's from now on
    if world_size and comm.Get_size() != world_size:
        version = " ".join(mpi.Get_library_version().split()[:3])
        raise RuntimeError(
            f"init_process_group: expected {world_size} processes, MPI ({version}) knows "
            f"{comm.Get_size()}; start the program with the mpiexec of that MPI, or with "
            "srun --mpi=pmi2 where it is of the MPICH family"
        )
    server = None
    if master is None:
        token = comm.bcast(job_token() if comm.Get_rank() == 0 else None)
        os.environ[TOKEN] = token
        several = len(set(comm.allgather(node_name()))) > 1
        if comm.Get_rank() == 0:
            host = hosts if several else "127.0.0.1"
            literal = host.replace(".", "").isdigit() or ":" in host
            server = Server(host=host if literal else "")
            master = (host, server.py_server_port)
        master = comm.bcast(master)
        client = Client(*master)
        watch = Watch(comm.Get_rank(), master)
    assert client is not None
    assert watch is not None
    threads, crowded = _threads_of_rank(comm, mpi)
    current = Job(mpi, comm, watch, client, server)
    current.crowded = crowded
    if "OMP_NUM_THREADS" not in os.environ:
        _device.set_num_threads(threads)
    sys.excepthook = _excepthook
    atexit.register(_at_exit)
    return current
