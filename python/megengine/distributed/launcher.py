"""Starts a function in several processes of this machine."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .. import device as _device
from ..logger import get_logger
from . import runtime
from .errors import RankError
from .group import BACKENDS
from .server import TOKEN, Client, Server, job_token

__all__ = ["launcher"]

_logger = get_logger(__name__)

# What a worker runs: the modules are found as this process finds them.
_BOOT = """
import json, sys
with open(sys.argv[1]) as file:
    config = json.load(file)
sys.path[:] = config["path"]
from megengine.distributed.worker import main
main(config)
"""
# After a link was cut, the start that followed crashed in 2 of 7 runs by MPICH's other way between
# machines, UCX, which is up to a fifth faster on TCP, and in 1 of 6 by this one. It is not known
# why; such a crash counts as any other failure, so that max_restarts should be more than one.
_BETWEEN_MACHINES = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
_ENDING = 6.0  # seconds that the others have to end by themselves after one failed


def cloudpickle() -> Any:
    """The module cloudpickle.

    Raises:
        ImportError: it is not there.
    """
    try:
        return importlib.import_module("cloudpickle")
    except ImportError as e:
        raise ImportError(
            "launcher needs cloudpickle to send functions to other processes: "
            "pip install 'openmge[distributed]'"
        ) from e


@dataclass
class _Worker:
    """A process, and what is known of its end."""

    rank: int
    process: subprocess.Popen[bytes]
    pipes: list[IO[bytes]] = field(default_factory=list)
    ended: bool = False

    def has_ended(self) -> bool:
        """Whether it has; what it started and left behind is ended then."""
        if not self.ended:
            state = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if state is not None:
                self.kill()
        return self.ended

    def kill(self) -> None:
        """Ends it and what it started. Its number is not free before it is waited for."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.ended = True

    def reason(self) -> str:
        """How it ended, if not well."""
        code = self.process.returncode
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


class launcher:  # noqa: N801  the reference's name
    """Runs a function in several processes, the ranks of a job, and returns their results.

    ``@launcher`` or ``@launcher(n_gpus=4)`` stands before a function; calling it then starts the
    processes, each of which calls the function with the same arguments. Arguments, results and
    functions of scripts and notebooks travel by cloudpickle; what the function uses from the script
    is sent with it, what the script has changed elsewhere is not.

    In a process that is a rank already, since mpiexec, srun or a launcher started it, no processes
    are started: the function runs as this rank, and the result is a list of its result alone.

    Several machines: call it on each with its ``n_gpus`` and ``rank_start``, the ``world_size`` of
    all together, and address and port of the machine where ``rank_start`` is 0. The environment
    variable ``MGE_DIST_TOKEN`` must hold the same secret on all of them.

    Args:
        func: the function.
        n_gpus: how many processes to start here; on a CPU, one for each that this process may use,
            where it is left out.
        world_size: how many there are on all machines; ``n_gpus`` where it is left out.
        rank_start: the rank of the first process here.
        master_ip: the address of the machine with rank 0.
        port: for the processes to meet; 0, on one machine, takes a free one.
        device_type: see :func:`.init_process_group`.
        backend: see there.
        max_restarts: how many times to start all again after a process failed; the function should
            then go on from its last checkpoint. ``MGE_DIST_RESTARTS`` tells it how many times that
            has been. An extension.

    Raises:
        TypeError: ``func`` is no function.
        ValueError: a number is out of range, or a port or token is missing.
        ImportError: when called, MPI or cloudpickle is missing.
        RankError: when called, a process raised or died; the message has its traceback, ``rank``
            its number, and ``__cause__`` the exception where that can be pickled.

    >>> import megengine.distributed as dist
    >>> @dist.launcher(n_gpus=2)
    ... def program(base):
    ...     return base + dist.get_rank()
    >>> program(10)
    [10, 11]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A launcher, or where the function is still to come, what makes one of it."""
        if not args and "func" not in kwargs:
            return functools.partial(cls, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        func: Callable[..., Any],
        n_gpus: int | None = None,
        world_size: int | None = None,
        rank_start: int = 0,
        master_ip: str = "localhost",
        port: int = 0,
        device_type: str = "xpu",
        backend: str = "auto",
        max_restarts: int = 0,
    ):
        if not callable(func):
            raise TypeError(f"launcher: expected a function, got {type(func).__name__}")
        self.func = func
        self.n_gpus = _device.get_device_count("cpu") if n_gpus is None else n_gpus
        self.world_size = self.n_gpus if world_size is None else world_size
        self.rank_start = rank_start
        self.master_ip = master_ip
        self.port = port
        self.device_type = device_type
        self.backend = backend
        self.max_restarts = max_restarts
        if backend not in BACKENDS:
            raise ValueError(f"launcher: backend should be one of {BACKENDS}, got {backend}")
        if self.n_gpus < 1 or not 0 <= rank_start <= self.world_size - self.n_gpus:
            raise ValueError(
                "launcher: expected n_gpus >= 1 and rank_start + n_gpus <= world_size, got n_gpus "
                f"{self.n_gpus}, rank_start {rank_start}, world_size {self.world_size}"
            )
        if self.several_machines and not port:
            raise ValueError(
                "launcher: processes on several machines need a port to meet at; got port 0"
            )
        functools.update_wrapper(self, func)

    @property
    def several_machines(self) -> bool:
        """Whether there are processes on other machines."""
        return self.world_size > self.n_gpus

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Starts the processes; the list of what the function returned in each of them, by rank."""
        if runtime.current is not None or runtime.size_by_starter() > 1:
            return [self.func(*args, **kwargs)]
        if self.several_machines and TOKEN not in os.environ:
            raise ValueError(
                f"launcher: set {TOKEN} to the same secret on all machines, so that no "
                "stranger can take part"
            )
        for restarts in range(self.max_restarts + 1):
            try:
                return self._run(args, kwargs, restarts)
            except RankError as e:
                if restarts == self.max_restarts:
                    raise
                _logger.warning("%s\nstarts again (%d of %d)", e, restarts + 1, self.max_restarts)
        raise AssertionError("unreachable")

    def _run(self, args: Any, kwargs: Any, restarts: int) -> list[Any]:
        job_token()
        begin = time.time()
        host = self.master_ip if self.several_machines else "127.0.0.1"
        with tempfile.TemporaryDirectory(prefix="mge-dist-") as name:  # of mode 0700
            directory = Path(name)
            with (directory / "call.pkl").open("wb") as file:
                cloudpickle().dump((_by_name(self), args, kwargs), file)
            port, server = self.port, None
            if self.rank_start == 0:
                server = Server(port, host=host, world_size=self.world_size)
                port = server.py_server_port
            workers: list[_Worker] = []
            try:
                for i in range(self.n_gpus):
                    workers.append(self._start(directory, i, host, port, restarts))
                _watch(workers, directory)
                return self._results(workers, directory, host, port)
            finally:
                for worker in workers:
                    worker.kill()
                    for pipe in worker.pipes:
                        pipe.close()
                if server is not None:
                    server.close()
                if len(list(directory.glob("joined-*"))) < self.n_gpus:
                    _drop_shared_memory(begin)

    def _start(self, directory: Path, i: int, host: str, port: int, restarts: int) -> _Worker:
        rank = self.rank_start + i
        config = {
            "path": sys.path,
            "argv": sys.argv,
            "directory": str(directory),
            "parent": os.getpid(),
            "master_ip": host,
            "port": port,
            "world_size": self.world_size,
            "rank": rank,
            "device": i,
            "backend": self.backend,
            "device_type": self.device_type,
        }
        path = directory / f"config-{rank}.json"
        path.write_text(json.dumps(config))
        environment = {**os.environ, "MGE_DIST_RESTARTS": str(restarts)}
        if self.several_machines:
            for name, value in _BETWEEN_MACHINES.items():
                environment.setdefault(name, value)
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        return _Worker(rank, process, [process.stdout, process.stderr])

    def _results(self, workers: list[_Worker], directory: Path, host: str, port: int) -> list[Any]:
        failed = [w for w in workers if w.process.returncode != 0]
        if not failed:
            results = []
            for worker in workers:
                with (directory / f"result-{worker.rank}.pkl").open("rb") as file:
                    results.append(pickle.load(file))
            return results
        words = {}
        for worker in failed:
            path = directory / f"error-{worker.rank}.json"
            words[worker.rank] = json.loads(path.read_text()) if path.exists() else None
        # The server knows who failed first; if it cannot be reached, what was raised here tells.
        first: dict[str, Any] | None = None
        with contextlib.suppress(ConnectionError):
            client = Client(host, port)
            first = client._ask("failure")
            client.close()
        if first is None:
            told = next((w for w in words.values() if w is not None), None)
            first = {"rank": failed[0].rank, "why": failed[0].reason()}
            if told is not None:
                first = {"rank": told["rank"], "why": f"failed: {told['text']}"}
        rank, why, trace = int(first["rank"]), str(first["why"]), str(first.get("trace", ""))
        lines = []
        for worker in failed:
            word = words[worker.rank]
            if worker.rank != rank:
                lines.append(f"rank {worker.rank}: {word['text'] if word else worker.reason()}")
            elif word:
                trace = word["trace"]
            elif not why.startswith("raised"):
                why = f"{why}: {worker.reason()}"
        message = f"rank {rank} {why}"
        if trace:
            message += f"\n\n{trace.rstrip()}"
        if lines:
            message += "\n\nthe others:\n" + "\n".join(lines)
        cause: BaseException | None = None
        pickled = directory / f"error-{rank}.pkl"
        if pickled.exists():
            with contextlib.suppress(Exception):  # classes whose objects cannot be made again
                cause = pickle.loads(pickled.read_bytes())
        raise RankError(message, rank) from cause


def _by_name(start: launcher) -> Any:
    """The launcher's function, or the launcher where that is how its module can be asked for it.

    A decorated function cannot be found under its name, where the launcher stands.
    """
    module = sys.modules.get(getattr(start.func, "__module__", "") or "")
    if module is None or module.__name__ == "__main__":
        return start.func
    found: Any = module
    for part in start.func.__qualname__.split("."):
        found = getattr(found, part, None)
    return (module.__name__, start.func.__qualname__) if found is start else start.func


def _drop_shared_memory(since: float) -> None:
    """Removes what processes that died while MPI started have left; later ones leave nothing.

    That is: shared memory of MPI, of this user, made since the start, which nobody has mapped.
    """
    left = set()
    for pattern in runtime.SHARED_MEMORY:
        for path in Path("/dev/shm").glob(f"{Path(pattern).name}*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                if stat.st_uid == os.getuid() and stat.st_mtime >= since - 1:
                    left.add(str(path))
    for maps in Path("/proc").glob("[0-9]*/maps") if left else ():
        with contextlib.suppress(OSError):  # gone, or somebody else's
            text = maps.read_text()
            left = {path for path in left if path not in text}
    for name in left:
        Path(name).unlink(missing_ok=True)


def _watch(workers: list[_Worker], directory: Path) -> None:
    """Passes on what the workers print, until all have ended; ends them where one failed."""
    selector = selectors.DefaultSelector()
    for worker in workers:
        for pipe, stream in zip(worker.pipes, ("stdout", "stderr"), strict=True):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, stream)
    left, failed, last = _ENDING, False, time.monotonic()
    while True:
        still = [worker for worker in workers if not worker.has_ended()]
        # What a last word may be in is read once more after all have ended.
        for key, _ in selector.select(0.05 if still else 0):
            _pass_on(key, selector)
        if not still:
            break
        failed |= any(w.ended and w.process.returncode for w in workers)
        now = time.monotonic()
        left -= min(now - last, 0.5) if failed else 0.0  # all may have been stopped meanwhile
        last = now
        if left <= 0:
            for worker in workers:
                worker.kill()
    selector.close()


def _pass_on(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    pipe: Any = key.fileobj
    try:
        data = os.read(pipe.fileno(), 1 << 20)
    except BlockingIOError:
        return
    if not data:
        selector.unregister(pipe)
        return
    stream = getattr(sys, key.data)
    stream.write(data.decode(errors="replace"))
    stream.flush()
