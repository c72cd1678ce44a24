"""The launcher: arguments, results and what is said when a rank fails."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine.distributed as dist
from tests.distributed import programs

ROOT = Path(__file__).parents[2]


def start(program: Any, *args: Any, ranks: int = 2, **kwargs: Any) -> list[Any]:
    return dist.launcher(n_gpus=ranks)(program)(*args, **kwargs)


def test_arguments_and_results() -> None:
    assert programs.decorated(3, y=4) == [(0, 2, 3, 4, 6), (1, 2, 3, 4, 6)]
    assert programs.decorated.n_gpus == 2
    assert programs.decorated.__name__ == "decorated"
    offset = 100

    def local(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array + offset + dist.get_rank()

    first, second = start(local, np.arange(3))
    np.testing.assert_array_equal(first, [100, 101, 102])
    np.testing.assert_array_equal(second, [101, 102, 103])


def test_one_process_is_a_job_too(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> tuple[int, bool]:
        print("said by the rank")
        return dist.get_world_size(), dist.is_distributed()

    assert start(program, ranks=1) == [(1, True)]
    assert capsys.readouterr().out == "said by the rank\n"


def test_without_a_job() -> None:
    assert not dist.is_distributed()
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    dist.group_barrier()
    for call in (
        dist.get_backend,
        dist.get_client,
        dist.get_py_server_addr,
        lambda: dist.new_group([0]),
        lambda: dist.WORLD.size,
        lambda: dist.make_allreduce_cb("sum"),
        lambda: dist.make_allreduce_cb("MEAN"),
        lambda: dist.bcast_list_([]),
    ):
        with pytest.raises(AssertionError, match="please call init_process_group first"):
            call()
    with pytest.raises(AssertionError, match="reduce_method should be sum or mean"):
        dist.make_allreduce_cb("product")


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="expected a function, got int"):
        dist.launcher(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        dist.launcher(n_gpus=2, foo=1)(print)
    with pytest.raises(ValueError, match="n_gpus 0"):
        dist.launcher(n_gpus=0)(print)
    with pytest.raises(ValueError, match="world_size 1"):
        dist.launcher(n_gpus=2, world_size=1)(print)
    with pytest.raises(ValueError, match="need a port"):
        dist.launcher(n_gpus=1, world_size=2)(print)
    with pytest.raises(ValueError, match="backend should be one of"):
        dist.launcher(n_gpus=1, backend="foo")(print)
    for bad, error in (
        (("127.0.0.1", 0, 2, 5, 0), ValueError),
        ((1, 0, 2, 0, 0), TypeError),
        (("127.0.0.1", "a", 2, 0, 0), TypeError),
    ):
        with pytest.raises(error, match="init_process_group"):
            dist.init_process_group(*bad)


def test_several_machines_need_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MGE_DIST_TOKEN", raising=False)
    with pytest.raises(ValueError, match="MGE_DIST_TOKEN"):
        dist.launcher(n_gpus=1, world_size=2, port=29500)(print)()


def orphans() -> list[str]:
    """Processes of jobs that this one started and that are there still."""
    token = f"MGE_DIST_TOKEN={os.environ.get('MGE_DIST_TOKEN', 'none')}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or somebody else's
            continue
        if token in environment and int(directory.name) != os.getpid():
            found.append((directory / "cmdline").read_text().replace("\0", " "))
    return found


FAILURES = {
    "raise": r"rank 1 raised ValueError: a boat sinks[\s\S]*in fails[\s\S]*rank 0: RankError",
    "exit": r"rank 1 raised SystemExit: 3",
    "return": r"rank 0 raised RankError: all_reduce_sum: rank 1 has ended its program",
    "stop": r"rank 1 has been stopped for 2 s",
    "kill": r"rank 1 died .*: was killed by SIGKILL[\s\S]*rank 0: RankError",
    "kill while others compute": r"rank 1 died .*: was killed by SIGKILL",
}


@pytest.mark.parametrize("how", FAILURES)
def test_failures_name_the_rank_and_end_the_job(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(Path("/dev/shm").glob("mpich_shm_*"))
    if how == "stop":
        monkeypatch.setenv("MGE_DIST_HEARTBEAT", "2")
    with pytest.raises(dist.RankError, match=FAILURES[how]) as raised:
        start(programs.fails, how)
    if how != "return":
        assert raised.value.rank == 1
    if how == "raise":
        assert isinstance(raised.value.__cause__, ValueError)
    assert orphans() == []
    assert set(Path("/dev/shm").glob("mpich_shm_*")) <= before


def test_a_rank_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGE_DIST_TIMEOUT", "1")
    with pytest.raises(dist.RankError, match=r"waited 1 s .*rank 1 computes after 1 call"):
        start(programs.fails, "sleep")
    assert orphans() == []


def test_what_cannot_be_pickled() -> None:
    with pytest.raises(dist.RankError, match="raised UnpicklableError: 1 and 2"):
        start(programs.raises_what_cannot_be_pickled)
    with pytest.raises(dist.RankError, match="cannot pickle 'generator' object"):
        start(programs.returns_what_cannot_be_pickled)


def test_a_killed_launcher_takes_its_ranks_along(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import time, megengine.distributed as dist\n"
        "def program():\n"
        "    print('there\\n', end='', flush=True)\n"
        "    time.sleep(1000)\n"
        "dist.launcher(n_gpus=2)(program)()\n"
    )
    monkeypatch.setenv("MGE_DIST_TOKEN", secrets.token_hex(8))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == b"there\n"
        finally:
            parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while orphans() and time.monotonic() < end:
        time.sleep(0.1)
    assert orphans() == []


@pytest.mark.parametrize("ranks", [2])
def test_mpiexec_starts_a_script_as_it_is(ranks: int, tmp_path: Path) -> None:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside Python: the MPI library is not from a wheel")
    script = tmp_path / "train.py"
    script.write_text(
        "import megengine as mge, megengine.distributed as dist\n"
        "@dist.launcher(n_gpus=8)\n"
        "def program(x):\n"
        "    return dist.functional.all_reduce_sum(mge.tensor(x + dist.get_rank())).item()\n"
        "(result,) = program(1)\n"
        "dist.init_process_group('', 0, 2, dist.get_rank(), 0)\n"
        "said = f'rank {dist.get_rank()} of {dist.get_world_size()}: {result}\\n'\n"
        "print(said, end='', flush=True)\n"
    )
    run = subprocess.run(
        [str(mpiexec), "-n", str(ranks), sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == [f"rank {r} of 2: 3" for r in range(2)]


def test_processes_of_ones_own(tmp_path: Path) -> None:
    """Programs that start their processes themselves, with Server and init_process_group."""
    script = tmp_path / "own.py"
    script.write_text(
        "import multiprocessing as mp\n"
        "import megengine as mge, megengine.distributed as dist\n"
        "def work(rank, port, queue):\n"
        "    dist.init_process_group('127.0.0.1', port, 2, rank, rank)\n"
        "    queue.put(dist.functional.all_gather(mge.tensor([rank])).numpy().tolist())\n"
        "if __name__ == '__main__':\n"
        "    context = mp.get_context('spawn')\n"
        "    server = dist.Server(world_size=2)\n"
        "    queue = context.Queue()\n"
        "    ps = [context.Process(target=work, args=(i, server.py_server_port, queue))\n"
        "          for i in range(2)]\n"
        "    [p.start() for p in ps]\n"
        "    print(queue.get(), queue.get())\n"
        "    [p.join() for p in ps]\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert run.stdout == "[0, 1] [0, 1]\n", run.stderr
