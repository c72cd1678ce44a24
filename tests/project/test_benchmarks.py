"""The benchmark runner measures, compares and draws."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import Result, ratios, scaled, share_of_limit, table
from benchmarks.workloads import FRAMEWORKS, groups, load

ROOT = Path(__file__).parents[2]


def test_runner(tmp_path: Path) -> None:
    table, picture = tmp_path / "speed.json", tmp_path / "speed.png"
    command = [sys.executable, "-m", "benchmarks", "add_10", "--rounds", "1", "--seconds", "0.01"]
    command += ["--json", str(table), "--plot", str(picture)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    row = json.loads(table.read_text())["add_10"]
    assert row["openmge"]["seconds"][0] > 0, row
    assert row["numpy"]["seconds"][0] > 0, row
    assert "ratio" in run.stdout
    assert picture.stat().st_size > 1000


def test_unknown_workload() -> None:
    command = [sys.executable, "-m", "benchmarks", "nothing"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert "unknown: nothing" in run.stderr


def test_workloads_of_openmge() -> None:
    """All can be found, and are no one's twice."""
    names = [name for group in groups().values() for name in group]
    assert len(set(names)) == len(names)
    assert all(load("openmge", name) for name in names)
    assert load("openmge", "nothing") is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_peers_run_the_same_workloads(framework: str) -> None:
    """A peer's workload has the name and the group of one of OpenMGE's."""
    ours = groups()
    for group, names in groups(framework).items():
        assert names, f"{group} of {framework} is empty"
        assert set(names) <= set(ours[group])


def test_scaled() -> None:
    assert scaled(1.5e-6) == "1.5 us"
    assert scaled(0.25) == "250 ms"
    assert scaled(3) == "3 s"


def test_ratio_is_to_the_fastest_peer() -> None:
    megabytes = 1 << 20
    results = {
        "openmge": Result([1.0, 3.0, 2.0], 100 * megabytes),
        "numpy": Result([4.0], 300 * megabytes),
        "torch": Result([8.0], 200 * megabytes),
    }
    assert ratios(results) == (0.5, 0.5)
    assert ratios({"openmge": Result([1.0])}) == (None, None)


def test_table() -> None:
    megabytes = 1 << 20
    rows = {
        "a": {
            "openmge": Result([1e-3], 100 * megabytes),
            "torch": Result([4e-3], 200 * megabytes),
            "torch channels-last": Result([2e-3], 400 * megabytes),
        },
        "b": {"openmge": Result([1e-6]), "torch": Result(error="broke")},
    }
    assert table(rows).splitlines()[2:] == [
        "| a | 1 ms | 4 ms | 2 ms | 0.50 | 0.50 |",
        "| b | 1 us |  |  |  |  |",
    ]


def test_share_of_limit() -> None:
    limits = {"copy": 10e9, "read": 20e9, "fma_float32": 100e9}
    assert share_of_limit(Result([2.0], bytes=20e9), limits) == 0.5
    assert share_of_limit(Result([2.0], bytes=20e9, flops=150e9), limits) == 0.75
    assert share_of_limit(Result([2.0]), limits) is None
    assert share_of_limit(Result([2.0], bytes=20e9), {}) is None
