"""Training that stops goes on to the same bits; a crash costs only what is not yet written."""

from __future__ import annotations

import logging
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
import megengine.optimizer as optim
from megengine.amp import GradScaler
from megengine.utils import checkpoint as checkpoint_module
from megengine.utils.checkpoint import Checkpointer, CheckpointError

ROOT = pathlib.Path(__file__).parents[2]


class Counter:
    """A part with a state of its own."""

    def __init__(self, count: Any = 0) -> None:
        self.count = count

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def flip(path: pathlib.Path, at: int = 100) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


# ---- resuming ------------------------------------------------------------------------------------


def train(
    directory: pathlib.Path, last: int, total: int, workers: int
) -> subprocess.CompletedProcess[str]:
    arguments = [str(directory), str(last), str(total), str(workers)]
    command = [sys.executable, "-m", "tests.utils.training", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(("broken", "total", "workers"), [(27, 60, 0), (87, 200, 2)])
def test_a_run_that_is_broken_ends_as_one_that_is_not(
    tmp_path: pathlib.Path, broken: int, total: int, workers: int
) -> None:
    """With augmentation, dropout, batch norm, Adam and a schedule, broken within an epoch."""
    whole = train(tmp_path / "whole", total, total, workers)
    assert whole.returncode == 0, whole.stderr
    assert train(tmp_path / "parts", broken, total, workers).returncode == 7
    assert mge.load(tmp_path / "parts" / f"step-{broken:010d}.ckpt")["step"] == broken
    rest = train(tmp_path / "parts", total, total, workers)
    assert rest.returncode == 0, rest.stderr
    assert rest.stdout == whole.stdout
    assert len(whole.stdout.split()[0]) == 64


def test_every_kind_of_part(tmp_path: pathlib.Path) -> None:
    def parts() -> dict[str, Any]:
        net = M.Sequential(M.Linear(2, 3), M.BatchNorm1d(3))
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        return {
            "model": net,
            "optimizer": optimizer,
            "scheduler": optim.MultiStepLR(optimizer, [1, 2]),
            "scaler": GradScaler(init_scale=16.0, growth_interval=2),
            "counter": Counter(),
            "numpy": np.random.default_rng(1),
            "legacy": np.random.RandomState(1),
            "python": random.Random(1),
            "own": mge.random.RNG(seed=1),
        }

    def draws(of: dict[str, Any]) -> list[Any]:
        return [
            of["numpy"].random(),
            of["legacy"].normal(),
            of["python"].random(),
            of["own"].uniform(size=(2,)).numpy().tolist(),
            np.random.normal(),
            random.random(),
            mge.random.uniform(size=(2,)).numpy().tolist(),
        ]

    one, other = parts(), parts()
    one["scheduler"].step()
    one["counter"].count = 5
    one["scaler"].update(new_scale=64.0)
    draws(one)
    with Checkpointer(tmp_path, **one) as checkpointer:
        path = checkpointer.save(np.int64(7), loss=np.float32(0.5), best={"epoch": 3})
    want = draws(one)
    with Checkpointer(tmp_path, **other) as checkpointer:
        found = checkpointer.restore()
        assert found is not None
        assert (found.step, found.path) == (7, path)
        assert found.extra == {"loss": np.float32(0.5), "best": {"epoch": 3}}
    assert draws(other) == want
    assert other["counter"].count == 5
    assert other["scaler"].state_dict() == one["scaler"].state_dict()
    assert other["scaler"].scale_factor == 64.0
    assert other["scheduler"].current_epoch == 1
    assert other["optimizer"].param_groups[0]["lr"] == pytest.approx(0.01)
    for name, value in one["model"].state_dict().items():
        np.testing.assert_array_equal(other["model"].state_dict()[name], value)
    # A checkpoint is a file that load reads as well.
    assert mge.load(path)["parts"]["counter"] == {"count": 5}


# ---- what is written -----------------------------------------------------------------------------


def test_the_state_is_that_of_the_call(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is written later, when training has gone on."""
    go = threading.Event()
    original = checkpoint_module._write

    def late(*args: Any) -> None:
        assert go.wait(60)
        original(*args)

    monkeypatch.setattr(checkpoint_module, "_write", late)
    parameter = mge.Parameter([1.0, 2.0])
    array, nested = np.ones(3), {"list": [1, {2}], "ordered": OrderedDict(a=1)}
    net = M.Linear(2, 2)
    weight = net.weight.numpy().copy()
    checkpointer = Checkpointer(
        tmp_path, net=net, counter=Counter([parameter, array, array.view(), nested])
    )
    checkpointer.save(1)
    assert checkpointer.steps() == []
    parameter[0] = 9.0
    array[:] = 9
    nested["list"].append(3)  # type: ignore[attr-defined]
    net.weight[...] = 0.0
    go.set()
    checkpointer.close()
    parts = mge.load(checkpointer.path(1))["parts"]
    saved = parts["counter"]["count"]
    assert saved[0].numpy().tolist() == [1.0, 2.0]
    assert saved[1].tolist() == saved[2].tolist() == [1, 1, 1]
    assert saved[3]["list"] == [1, {2}]
    assert type(saved[3]["ordered"]) is OrderedDict
    np.testing.assert_array_equal(parts["net"]["weight"], weight)


def test_tensors_are_not_copied() -> None:
    net = M.Linear(4, 4)
    state = net.state_dict()
    frozen = checkpoint_module._snapshot(state, "net")
    assert all(np.shares_memory(frozen[name], state[name]) for name in state)
    view = np.ones((2, 2))[0]
    view.flags.writeable = False
    assert not np.shares_memory(checkpoint_module._snapshot(view, "x"), view)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Counter(), r"counter\['count'\] is a Counter"),
        ([1, {"a": (Counter(),)}], r"counter\['count'\]\[1\]\['a'\]\[0\] is a Counter"),
        (np.array([None]), r"counter\['count'\] is a ndarray"),
        ({Counter: 1}, r"a key of counter\['count'\] is a type"),
        (lambda: 1, "is a function"),
        (signal.SIGTERM, "is a Signals"),
    ],
)
def test_what_load_would_refuse_is_not_saved(
    tmp_path: pathlib.Path, value: Any, message: str
) -> None:
    with Checkpointer(tmp_path, counter=Counter(value)) as checkpointer:
        with pytest.raises(TypeError, match=message):
            checkpointer.save(1)
        assert checkpointer.steps() == []


def test_the_last_ones_are_kept(tmp_path: pathlib.Path) -> None:
    (tmp_path / "step-3.txt").write_text("mine")
    with Checkpointer(tmp_path, keep=2, counter=Counter()) as checkpointer:
        for step in (5, 1000, 20, 3):
            checkpointer.save(step)
        checkpointer.wait()
        assert checkpointer.steps() == [3, 1000]  # the new one stays, though it is not the last
        checkpointer.save(1000)
        checkpointer.wait()
        assert checkpointer.steps() == [3, 1000]
    assert (tmp_path / "step-3.txt").exists()
    with Checkpointer(tmp_path, keep=None, background=False, counter=Counter()) as checkpointer:
        for step in range(5):
            checkpointer.save(step)
        assert checkpointer.steps() == [0, 1, 2, 3, 4, 1000]


def test_arguments(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"'lr' to have state_dict and load_state_dict.*got float"):
        Checkpointer(tmp_path, lr=0.1)
    with pytest.raises(ValueError, match="keep of 1 or more"):
        Checkpointer(tmp_path, keep=0)
    with Checkpointer(tmp_path) as checkpointer:
        for step in (-1, 1.5, True, "1"):
            with pytest.raises(ValueError, match="step of 0 or more"):
                checkpointer.save(step)  # type: ignore[arg-type]
        assert checkpointer.restore() is None
        with pytest.raises(FileNotFoundError):
            checkpointer.restore(3)


# ---- errors --------------------------------------------------------------------------------------


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    return lambda: monkeypatch.setattr(os, "fsync", fail)


def test_an_error_of_the_writer_is_raised_by_the_next_call(
    tmp_path: pathlib.Path, broken_disk: Any, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer = Checkpointer(tmp_path, counter=Counter())
    checkpointer.save(1)
    checkpointer.wait()
    broken_disk()
    for call in (lambda: checkpointer.save(3), checkpointer.wait, checkpointer.close):
        checkpointer.save(2)
        with pytest.raises(CheckpointError, match="Input/output error") as raised:
            call()
        assert isinstance(raised.value.__cause__, OSError)
    checkpointer.close()  # told once
    assert os.listdir(tmp_path) == [checkpointer.path(1).name]
    direct = Checkpointer(tmp_path, background=False, counter=Counter())
    with pytest.raises(CheckpointError, match="Input/output error"):
        direct.save(2)


def test_an_error_of_the_writer_does_not_hide_that_of_the_program(
    tmp_path: pathlib.Path, broken_disk: Any
) -> None:
    broken_disk()

    def program() -> None:
        with Checkpointer(tmp_path, counter=Counter()) as checkpointer:
            checkpointer.save(1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        program()
    assert "Input/output error" in raised.value.__notes__[0]


def test_damaged_files(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    counter = Counter()
    with Checkpointer(tmp_path, counter=counter) as checkpointer:
        for step in (1, 2, 3):
            counter.count = step
            checkpointer.save(step)
        checkpointer.wait()
        counter.count = 0
        flip(checkpointer.path(3))
        with pytest.raises(CheckpointError, match=r"step-0000000003\.ckpt is damaged") as raised:
            checkpointer.restore()
        assert "restore(2)" in raised.value.__notes__[0]
        assert counter.count == 0
        found = checkpointer.restore(2)
        assert found is not None
        assert counter.count == found.step == 2
        with pytest.raises(CheckpointError, match="damaged"):
            checkpointer.restore(3, older=True)
        with caplog.at_level(logging.WARNING):
            found = checkpointer.restore(older=True)
        assert found is not None
        assert found.step == 2
        whole = checkpointer.path(2).read_bytes()
        for data in (b"", whole[:20], whole[:-1], whole[1:], whole + b"x", b"x" * 100):
            checkpointer.path(3).write_bytes(data)
            with pytest.raises(CheckpointError, match="damaged"):
                checkpointer.restore()
        for step in (1, 2):
            flip(checkpointer.path(step), at=-1)
        with pytest.raises(CheckpointError, match="all checkpoints in"):
            checkpointer.restore(older=True)


def test_every_flipped_bit_is_noticed(tmp_path: pathlib.Path) -> None:
    with Checkpointer(tmp_path, counter=Counter()) as checkpointer:
        path = checkpointer.save(1)
        checkpointer.wait()
        data = path.read_bytes()
        for at in range(0, 8 * len(data), 7 * 8 + 1):
            changed = bytearray(data)
            changed[at // 8] ^= 1 << at % 8
            path.write_bytes(changed)
            with pytest.raises(CheckpointError, match="damaged"):
                checkpointer.restore()


def test_a_hostile_file_under_a_right_checksum(tmp_path: pathlib.Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    path = tmp_path / "step-0000000001.ckpt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_module, "_snapshot", lambda value, label: value)
        with Checkpointer(tmp_path, counter=Counter(Evil())) as checkpointer:
            checkpointer.save(1)
    assert path.exists()
    with (
        Checkpointer(tmp_path, counter=Counter()) as checkpointer,
        pytest.raises(CheckpointError, match=r"names posix\.mkdir"),
    ):
        checkpointer.restore()
    assert not (tmp_path / "ran").exists()


def test_other_parts(tmp_path: pathlib.Path) -> None:
    with Checkpointer(tmp_path, a=Counter(), b=Counter()) as checkpointer:
        checkpointer.save(1)
    with (
        Checkpointer(tmp_path, a=Counter(), c=Counter()) as checkpointer,
        pytest.raises(KeyError, match="holds the parts a, b; this checkpointer has a, c"),
    ):
        checkpointer.restore()


def test_a_state_that_one_part_does_not_take_changes_none(tmp_path: pathlib.Path) -> None:
    with Checkpointer(tmp_path, counter=Counter(5), net=M.Linear(2, 3)) as checkpointer:
        checkpointer.save(1)
    counter, net = Counter(1), M.Linear(3, 3)
    before = net.weight.numpy()
    mge.random.seed(9)
    want = mge.random.get_rng_state()
    with (
        Checkpointer(tmp_path, counter=counter, net=net) as checkpointer,
        pytest.raises(ValueError, match="weight") as raised,
    ):
        checkpointer.restore()
    assert "the part 'net'" in raised.value.__notes__[0]
    assert counter.count == 1
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert mge.random.get_rng_state() == want


KILLED = """
import sys
import numpy as np
from megengine.utils.checkpoint import Checkpointer
class Part:
    def state_dict(self):
        return {"n": self.n, "array": np.full(300_000, self.n)}
    def load_state_dict(self, state):
        assert (state["array"] == state["n"]).all()
        self.n = state["n"]
part = Part()
part.n = 0
checkpointer = Checkpointer(sys.argv[1], keep=2, part=part)
found = checkpointer.restore()
print(found.step if found else 0, flush=True)
while True:
    part.n += 1
    checkpointer.save(part.n)
"""


def test_a_program_that_is_killed_again_and_again_gets_on(tmp_path: pathlib.Path) -> None:
    reached = -1
    for wait in np.random.default_rng(0).uniform(0.02, 0.1, 2):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        resumed = int(process.stdout.readline())
        assert resumed >= reached
        deadline = time.monotonic() + 60
        while not any(n.endswith(".ckpt") for n in os.listdir(tmp_path)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        reached = max(int(n[5:15]) for n in os.listdir(tmp_path) if n.endswith(".ckpt"))
    assert reached > 0


def test_a_program_that_ends_waits_for_its_last_checkpoint(tmp_path: pathlib.Path) -> None:
    program = KILLED[: KILLED.index("while")] + "part.n = 4\ncheckpointer.save(4)\n"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == ["step-0000000004.ckpt"]
