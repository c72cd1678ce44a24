"""No input ends the process, hangs it, or gets an error that does not say who raised it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

MOST_DEATHS = 20


def test_sweep(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    progress, faults = tmp_path / "progress", tmp_path / "faults"
    faults.touch()
    first, deaths, again = 0, [], -1
    while len(deaths) < MOST_DEATHS:
        command = [sys.executable, "-m", "tests.robustness.sweep"]
        run = subprocess.run(
            [*command, str(progress), str(faults), str(first)],
            cwd=request.config.rootpath,
            capture_output=True,
            text=True,
            check=False,
        )
        where = progress.read_text().strip() if progress.exists() else ""
        if where.startswith("done"):
            break
        assert where, run.stderr
        first = int(where.split()[0])
        if run.returncode == -signal.SIGALRM and first != again:
            again = first  # the machine may have been asleep: a call that hangs hangs twice
            continue
        cause = "hangs" if run.returncode == -signal.SIGALRM else f"exit code {run.returncode}"
        deaths.append(f"{where}: {cause} {run.stderr[-300:]}")
        first += 1
    anonymous = faults.read_text().splitlines()
    assert not deaths, "\n".join(deaths)
    assert not anonymous, f"{len(anonymous)} errors do not name an op:\n" + "\n".join(
        anonymous[:60]
    )
