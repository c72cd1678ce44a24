"""Jobs that start again from their last checkpoint, on one machine and on two."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import megengine.distributed as dist
from tests.distributed import training
from tests.distributed.test_launcher import orphans

ROOT = Path(__file__).parents[2]


def test_starts_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    run = dist.launcher(n_gpus=2, max_restarts=1)(training.resumes)
    for begin, *weight in run(str(tmp_path), 10, 4, "kill"):
        assert begin in (4, 5)  # whether the fifth step was saved when the other rank went
        assert weight == [20, 2 * sum(range(10)), 10]


def test_restarts_are_counted(tmp_path: Path) -> None:
    run = dist.launcher(n_gpus=2)(training.resumes)
    with pytest.raises(dist.RankError, match="killed by SIGKILL"):
        run(str(tmp_path), 10, 4, "kill")


# ---- two machines: network namespaces with a cable between them ---------------------------------


def ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Two hosts, 10.213.7.1 and 10.213.7.2; the first one's end of the cable has its name."""
    if not shutil.which("ip"):
        pytest.skip("no ip command (iproute2), so that no second host can be made")
    tag = secrets.token_hex(3)
    names = f"mge-{tag}-a", f"mge-{tag}-b"
    made = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("-n", names[0], "link", "add", names[0], "type", "veth", "peer", "name", names[1])
            ip("-n", names[0], "link", "set", names[1], "netns", names[1])
        except subprocess.CalledProcessError as e:
            pytest.skip(f"no network namespaces here: {e.stderr.strip()}")
        for i, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.213.7.{i + 1}/24", "dev", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", name, "up")
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


def start(host: str, rank_start: int, directory: Path, port: int) -> subprocess.Popen[str]:
    code = (
        "import sys, megengine.distributed as dist\n"
        "from tests.distributed import training\n"
        f"run = dist.launcher(training.resumes, n_gpus=1, world_size=2, rank_start={rank_start},\n"
        f"                    master_ip='10.213.7.1', port={port}, max_restarts=4)\n"
        f"print(run({str(directory)!r}, 200, -1, 'cut'))\n"
    )
    return subprocess.Popen(
        ["ip", "netns", "exec", host, sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_hosts_whose_link_is_cut(
    hosts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGE_DIST_TOKEN", secrets.token_hex(8))
    monkeypatch.setenv("MGE_DIST_HEARTBEAT", "2")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    processes = [start(host, i, tmp_path, 29517) for i, host in enumerate(hosts)]
    try:
        checkpoint = tmp_path / "checkpoint"
        out = processes[0].stdout
        assert out is not None
        for line in out:  # until it trains
            if line == "step 20\n":
                break
        ip("-n", hosts[0], "link", "set", hosts[0], "down")
        # Both sides must end by themselves before they can meet again.
        time.sleep(5)
        ip("-n", hosts[0], "link", "set", hosts[0], "up")
        answers = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert checkpoint.exists()
    for process, (stdout, stderr) in zip(processes, answers, strict=True):
        assert process.returncode == 0, stderr
        begin, *weight = eval(stdout.strip().splitlines()[-1])[0]
        assert 20 <= begin < 200, stdout
        assert weight == [400, 2 * sum(range(200)), 200]
    assert "rank 1 has not been heard of for 2 s" in answers[0][1]
    assert "rank 0 (or the network to it) has not been heard of for 2 s" in answers[1][1]
    assert orphans() == []
