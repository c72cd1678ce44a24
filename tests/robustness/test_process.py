"""What a long-lived process needs: flat memory, calm threads, and children that can compute."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager

T = mge.tensor
LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")


def resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@LINUX
def test_memory_does_not_grow_while_training() -> None:
    """Field case 13: fresh inputs, reshapes, a conv, a running loss kept outside of the tape."""
    conv = M.Conv2d(12, 12, 3, padding=1)
    gm = GradManager().attach(conv.parameters())
    opt = optim.SGD(conv.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    total = T(0.0)
    early = 0.0
    for i in range(2000):
        x = T(rng.standard_normal((8, 12, 8, 8)).astype("float32"))
        with gm:
            y = x.reshape(8, 12, 64).transpose(0, 2, 1).reshape(8, 8, 8, 12).transpose(0, 3, 1, 2)
            loss = (conv(y) ** 2).mean()
            gm.backward(loss)
        opt.step().clear_grad()
        total = total + loss
        if i == 200:
            early = resident()
    assert np.isfinite(total.item())
    assert resident() - early < 5.0


@LINUX
def test_memory_does_not_grow_with_errors_or_managers() -> None:
    """Exceptions inside ops, half-recorded tapes and discarded modules leave nothing behind."""

    def once() -> None:
        x = T(np.ones((64, 64), "float32"))
        gm = GradManager().attach([x])
        with gm:
            y = F.exp(x) * 2
            with pytest.raises(ValueError, match="shape"):
                F.reshape(y, (3, 3))
        gm = GradManager().attach([x])
        gm.record()
        z = F.matmul(x, x)
        gm.release()
        del z
        M.Linear(64, 64)(x)

    for _ in range(100):
        once()
    before = resident()
    for _ in range(1500):
        once()
    assert resident() - before < 5.0


def test_the_graph_of_a_kept_loss_is_freed() -> None:
    """A loss kept after its manager is done holds its own value only."""
    w = mge.Parameter(np.ones((256, 256), "float32"))
    gm = GradManager().attach([w])
    kept = []
    with gm:
        h = w
        for _ in range(4):
            h = F.exp(h * 1e-3)
        loss = h.sum()
        gm.backward(loss)
    del h
    kept.append(loss)
    w.grad = None
    held = mge._core.memory_stats()["allocated"]
    kept.clear()
    del loss
    assert held - mge._core.memory_stats()["allocated"] < 1024


CHILD = """
import os, signal, sys
import numpy as np, megengine as mge, megengine.functional as F

def work():
    x = mge.tensor(np.ones((512, 512), "float32"))
    image = mge.tensor(np.ones((4, 16, 32, 32), "float32"))
    weight = mge.tensor(np.ones((16, 16, 3, 3), "float32"))
    conv = F.conv2d(image, weight, padding=1)
    big = mge.tensor(np.ones(1 << 20, "float32"))
    parts = [F.matmul(x, x).sum(), conv.sum(), F.exp(big).sum(), F.sort(big)[0].sum()]
    return [float(p) for p in parts]

expected = work()
for turn in range(TURNS):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if work() == expected else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"turn {turn}: status {status}"
print("all children computed")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_process_that_has_computed_can_compute() -> None:
    code = textwrap.dedent(CHILD).replace("TURNS", "5")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200
    )
    assert run.stdout.strip() == "all children computed", run.stdout + run.stderr


COUNT = """
import os, threading
import numpy as np, megengine as mge, megengine.functional as F
mge.device.set_num_threads(2)
x = mge.tensor(np.ones((512, 512), "float32"))
image = mge.tensor(np.ones((4, 16, 32, 32), "float32"))
weight = mge.tensor(np.ones((16, 16, 3, 3), "float32"))
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    F.matmul(x, x).numpy()
    F.conv2d(image, weight, padding=1).numpy()
    F.exp(mge.tensor(np.ones(1 << 20, "float32"))).numpy()
print(len(os.listdir("/proc/self/task")) - before)
"""


@LINUX
def test_loops_and_onednn_share_one_team() -> None:
    """A second thread for a team of two; a runtime of its own for oneDNN would add more."""
    run = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert int(run.stdout) <= 1


def test_the_number_of_threads_can_be_set() -> None:
    before = mge.device.get_num_threads()
    try:
        mge.device.set_num_threads(1)
        assert mge.device.get_num_threads() == 1
        for wrong in (0, -1):
            with pytest.raises(ValueError, match="thread"):
                mge.device.set_num_threads(wrong)
    finally:
        mge.device.set_num_threads(before)
