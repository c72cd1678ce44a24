"""Timelines of what ran."""

from __future__ import annotations

import doctest
import json
import os
import pathlib
import sys
import threading
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.jit import trace
from megengine.utils import profiler
from megengine.utils.profiler import Profiler, is_profiling, merge_trace_events, profile, scope

Folder = pathlib.Path
X = np.ones((4, 4), "float32")


def events(timeline: Profiler) -> list[dict[str, Any]]:
    return json.loads(pathlib.Path(timeline.path).read_text())["traceEvents"]


def ops(timeline: Profiler) -> list[str]:
    return [e["name"] for e in events(timeline) if e.get("cat") == "op"]


def test_ops(tmp_path: Folder):
    x = mge.tensor(X)
    timeline = Profiler(str(tmp_path / "new"))
    with timeline as same:
        assert same is timeline
        assert is_profiling()
        F.matmul(F.exp(x) + 1, x)
    F.sin(x)
    assert not is_profiling()
    assert timeline.path == str(tmp_path / f"new/{os.getpid()}.chrome_timeline.json")
    assert timeline.directory == str(tmp_path / "new")
    assert ops(timeline) == ["EXP", "ADD", "MatrixMul"]
    exp, _, product = (e for e in events(timeline) if e.get("cat") == "op")
    assert exp["ph"] == "X"
    assert exp["dur"] > 0
    assert exp["ts"] + exp["dur"] <= product["ts"]
    assert product["args"]["inputs"] == ["float32 (4, 4)", "float32 (4, 4)"]
    assert product["args"]["outputs"] == ["float32 (4, 4)"]
    assert product["args"]["transposeA"] == "False"
    assert "called at" not in product["args"]
    memory = [e["args"]["value"] for e in events(timeline) if e["ph"] == "C"]
    assert len(memory) == 3
    assert min(memory) >= 64
    names = [e["args"]["name"] for e in events(timeline) if e["ph"] == "M"]
    assert names == ["main thread"]


def test_another_block_begins_anew(tmp_path: Folder):
    timeline = Profiler(str(tmp_path))
    for function in (F.exp, F.sin):
        with timeline:
            function(mge.tensor(X))
    assert ops(timeline) == ["SIN"]
    os.remove(timeline.path)
    timeline.dump()
    assert ops(timeline) == ["SIN"]
    assert [p.name for p in tmp_path.iterdir()] == [os.path.basename(timeline.path)]


def test_lines_of_the_program(tmp_path: Folder):
    with Profiler(str(tmp_path), with_backtrace=True) as timeline:
        F.exp(mge.tensor(X))
        line = sys._getframe().f_lineno - 1
    (exp,) = (e for e in events(timeline) if e.get("cat") == "op")
    assert exp["args"]["called at"] == f"{__file__}:{line}"
    assert not profiler.set_python_backtrace_enabled(False)


def test_scopes_and_steps(tmp_path: Folder):
    with scope("nothing"):  # without a profile it does nothing
        pass
    with Profiler(str(tmp_path)) as timeline:
        with scope("outer"), scope("inner"):
            F.exp(mge.tensor(X))
        assert timeline.step() is timeline
        profiler.push_scope_with_type("typed", "default")
        profiler.pop_scope_with_type("typed", "default")
        profiler.stop_step()
    found = [(e["name"], e["ph"]) for e in events(timeline) if e["ph"] != "C"]
    assert found[:7] == [
        ("outer", "B"),
        ("inner", "B"),
        ("EXP", "X"),
        ("inner", "E"),
        ("outer", "E"),
        ("step 1", "i"),
        ("typed", "B"),
    ]
    with pytest.raises(ValueError, match="unsupported scope type 'other'"):
        profiler.push_scope_with_type("x", "other")


def test_a_step_of_training(tmp_path: Folder):
    net = M.Sequential(M.Linear(4, 4), M.ReLU())
    call, step = M.Module.__call__, optim.Optimizer.step
    gm = GradManager().attach(net.parameters())
    sgd = optim.SGD(net.parameters(), lr=0.1)
    with Profiler(str(tmp_path), with_scopes=True) as timeline:
        with gm:
            gm.backward(net(mge.tensor(X)).sum())
        sgd.step()
    scopes = [e["name"] for e in events(timeline) if e["ph"] == "B"]
    assert scopes == ["Sequential", "Linear", "ReLU", "GradManager.backward", "SGD.step"]
    assert "Linear" in ops(timeline)
    assert "MatrixMul" in ops(timeline)  # of the backward
    assert (M.Module.__call__, optim.Optimizer.step) == (call, step)


def test_traced_functions_show_their_programs(tmp_path: Folder):
    function = trace(lambda x: F.relu(F.exp(x) * 2) + 1)
    x = mge.tensor(X)
    timeline = Profiler(str(tmp_path))
    with timeline:
        first = function(x).numpy()
    assert ops(timeline) == ["EXP", "MUL", "RELU", "ADD"]
    with timeline:
        np.testing.assert_array_equal(function(x).numpy(), first)
    assert len(ops(timeline)) < 4  # fused
    own = trace(lambda x: F.exp(x), profiling=True)
    with timeline:
        own(x)
    assert ops(timeline) == []  # it has a profile of its own
    assert own.get_profile()["graph_exec"]["comp_seq"] == ["0"]


def test_threads(tmp_path: Folder):
    x = mge.tensor(X)
    with Profiler(str(tmp_path)) as timeline:
        threads = [threading.Thread(target=lambda: [F.exp(x) for _ in range(50)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        F.sin(x)
        for thread in threads:
            thread.join()
    assert sorted(ops(timeline)) == ["EXP"] * 150 + ["SIN"]
    assert len({e["tid"] for e in events(timeline) if e.get("cat") == "op"}) == 4


def test_errors_leave_a_timeline(tmp_path: Folder):
    timeline = Profiler(str(tmp_path))

    def fail() -> None:
        with timeline:
            F.exp(mge.tensor(X))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not is_profiling()
    assert ops(timeline) == ["EXP"]


def test_decorators(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    @profile
    def plain(x: Any) -> Any:
        return F.exp(x)

    @profile("elsewhere", with_scopes=True)
    def chosen(x: Any) -> Any:
        return F.exp(x)

    assert plain(mge.tensor([0.0])).numpy().tolist() == [1]
    chosen(mge.tensor([0.0]))
    chosen(mge.tensor([0.0]))
    assert sorted(p.parent.name for p in tmp_path.rglob("*.json")) == ["elsewhere", "profile"]


def test_one_profile_at_a_time(tmp_path: Folder):
    for call in (profiler.stop_profile, profiler.stop_step, Profiler().stop, Profiler().step):
        with pytest.raises(RuntimeError, match="no profile is being taken"):
            call()
    timeline = Profiler(str(tmp_path))
    with timeline, pytest.raises(RuntimeError, match="is being taken already"):
        timeline.start()
    assert not is_profiling()
    with pytest.raises(RuntimeError, match="there is no profile yet"):
        Profiler().summary()
    Profiler(str(tmp_path / "none")).dump()
    assert not (tmp_path / "none").exists()


def test_functions(tmp_path: Folder):
    profiler.start_profile({"sample_rate": 10})
    F.exp(mge.tensor(X))
    dump = profiler.stop_profile()
    dump(str(tmp_path / "x.json"), "chrome_timeline.json")
    timeline = json.loads((tmp_path / "x.json").read_text())
    assert [e["name"] for e in timeline["traceEvents"] if e.get("cat") == "op"] == ["EXP"]
    with pytest.raises(ValueError, match="unsupported format zz"):
        dump(str(tmp_path / "y.json"), "zz")
    profiler.sync()
    profiler.full_sync()
    assert not profiler.cupti_available()
    profiler.disable_cupti()
    with pytest.raises(RuntimeError, match="this build runs on CPUs"):
        profiler.enable_cupti()


def test_arguments():
    with pytest.raises(ValueError, match="unsupported format zz"):
        Profiler(format="zz")
    with pytest.raises(NotImplementedError, match=r"memory_flow\.svg is not supported"):
        Profiler(formats=["chrome_timeline.json", "memory_flow.svg"])
    with pytest.raises(TypeError, match="got 'sample'"):
        Profiler(sample=3)
    with pytest.raises(RuntimeError, match="this build runs on CPUs"):
        Profiler(enable_cupti=1)
    assert Profiler(formats="chrome_timeline.json", sample_rate=3).formats == [
        "chrome_timeline.json"
    ]
    assert Profiler().format_path("a/b", 123, "x.json") == "a/b/123.x.json"


def test_summary(tmp_path: Folder):
    with Profiler(str(tmp_path)) as timeline:
        for _ in range(3):
            F.exp(mge.tensor(X))
        F.matmul(mge.tensor(X), mge.tensor(X))
    head, *lines = timeline.summary().splitlines()
    assert head.split() == ["op", "calls", "ms", "us", "a", "call", "share"]
    counts = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert counts == {"EXP": 3, "MatrixMul": 1}
    assert sum(float(line.split()[-1].rstrip("%")) for line in lines) == pytest.approx(100, abs=0.2)
    assert len(timeline.summary(limit=1).splitlines()) == 2


def test_merging(tmp_path: Folder):
    for pid, start in ((1, 5_000_000), (2, 8_000_000)):
        timeline = {
            "traceEvents": [{"name": "EXP", "ph": "X", "ts": 10.0, "pid": pid}, {"ph": "M"}],
            "metadata": {"localTime": str(start)},
        }
        (tmp_path / f"{pid}.chrome_timeline.json").write_text(json.dumps(timeline))
    for _ in range(2):
        merge_trace_events(str(tmp_path))
    merged = json.loads((tmp_path / "merge.chrome_timeline.json").read_text())
    assert [(e.get("pid"), e.get("ts")) for e in merged["traceEvents"]] == [
        (1, 10),
        (None, None),
        (2, 3010),  # it began 3 ms later
        (None, None),
    ]
    with pytest.raises(FileNotFoundError, match=r"no \*\.chrome_timeline\.json in"):
        merge_trace_events(str(tmp_path.parent))


def test_the_examples_of_the_page(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(__file__).parents[2] / "docs/profiling.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 3) == (0, True)
