"""Kills, stops and breaks ranks of training jobs at random moments, and looks at what is left.

    PYTHONPATH=python python tools/kill_ranks.py [runs] [seed]

Each run trains in two to four processes with checkpoints, has one of them die, stop, raise or hang
at a random moment (while it starts, computes, is in a collective, saves, ends), and starts again.
A run is bad if the first part does not end within 10 s of the failure, if the job
does not end with the right weights, if a checkpoint cannot be read, or if a process or a file of
shared memory is left. The exit code is the number of bad runs.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import megengine as mge
import megengine.distributed as dist

STEPS = 50
WAYS = ("kill", "stop", "raise", "exit", "hang", "kill two")
LIMIT = 10.0  # seconds from the failure to the end of the job


def program(directory: str, way: str, victim: int, after: float) -> list[float]:
    """Adds up over the ranks, with a checkpoint each step, and fails once."""
    rank, restarts = dist.get_rank(), int(os.environ["MGE_DIST_RESTARTS"])
    moment = Path(directory) / "moment"

    def fail() -> None:
        if way != "hang":
            time.sleep(after)
        moment.write_text(str(time.time()))
        if way.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if way == "exit":
            os._exit(7)

    strikes = restarts == 0 and (rank == victim or (way == "kill two" and rank == 0))
    if strikes and way in ("kill", "stop", "exit", "kill two"):
        threading.Thread(target=fail, daemon=True).start()
    begin = time.monotonic()
    weight, first = mge.tensor([0.0, 0.0]), 0
    checkpoint = Path(directory) / "checkpoint"
    if checkpoint.exists():
        saved = mge.load(str(checkpoint))
        first, weight = saved["step"], mge.tensor(saved["weight"])
    for step in range(first, STEPS):
        weight = weight + dist.functional.all_reduce_sum(mge.tensor([1.0, step]))
        if rank == 0:
            mge.save({"step": step + 1, "weight": weight.numpy()}, str(checkpoint))
        if strikes and time.monotonic() - begin > after and way in ("raise", "hang"):
            moment.write_text(str(time.time()))
            if way == "raise":
                raise ValueError("struck")
            time.sleep(1000)
        time.sleep(0.02)
    return weight.numpy().tolist()


def shared_memory() -> set[str]:
    """The files of MPI's shared memory."""
    return {str(path) for path in Path("/dev/shm").glob("mpich_shm_*")}


def left_over(token: str) -> list[str]:
    """Processes that have the token in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
        except OSError:
            continue
        if token.encode() in environment and int(directory.name) != os.getpid():
            found.append((directory / "cmdline").read_text().replace("\0", " "))
    return found


def run(rng: random.Random, number: int) -> bool:
    """One run; whether it was good."""
    ranks, way = rng.choice((2, 3, 4)), rng.choice(WAYS)
    victim, after = rng.randrange(ranks), rng.uniform(0.0, 1.0)
    token = os.environ["MGE_DIST_TOKEN"] = secrets.token_hex(8)
    what = f"run {number}: {way} rank {victim} of {ranks} after {after:.2f} s"
    before = shared_memory()
    with tempfile.TemporaryDirectory() as directory:
        seconds: list[float] = []
        moment = Path(directory) / "moment"

        class Timed(dist.launcher):  # type: ignore[misc]
            def _run(self, *args: Any) -> list[Any]:
                try:
                    return super()._run(*args)
                except dist.RankError:
                    if moment.exists():
                        seconds.append(time.time() - float(moment.read_text()))
                    raise

        problems = []
        try:
            results = Timed(program, n_gpus=ranks, max_restarts=1)(directory, way, victim, after)
            want = [float(ranks * STEPS), float(ranks * sum(range(STEPS)))]
            if any(result != want for result in results):
                problems.append(f"results {results}, expected {want}")
        except Exception as e:
            problems.append(f"{type(e).__name__}: {e}")
        if seconds and seconds[0] > LIMIT:
            problems.append(f"ended {seconds[0]:.1f} s after the failure")
        problems += [*left_over(token), *(shared_memory() - before)]
        took = f"ended after {seconds[0]:.1f} s" if seconds else "was over before"
        print(f"{what}: {took}{'; ' + '; '.join(problems) if problems else ''}", flush=True)
    return not problems


def main() -> None:
    """All runs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    os.environ.setdefault("MGE_DIST_TIMEOUT", "4")
    mge.set_log_level("ERROR")
    print(f"seed {seed}")
    rng = random.Random(seed)
    bad = sum(not run(rng, i) for i in range(runs))
    print(f"{runs} runs, {bad} bad")
    sys.exit(min(bad, 100))


if __name__ == "__main__":
    main()
