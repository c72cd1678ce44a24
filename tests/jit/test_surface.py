"""The members of trace, partial_trace and xla_trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.jit import TraceError, partial_trace, trace, xla_trace

T = mge.tensor


def test_ops_and_vars_are_those_of_the_last_call() -> None:
    f = trace(lambda x, twice: (x + x if twice else F.exp(x)) * 2)
    assert f.ops == []
    assert f.vars == []
    f(T([1.0]), True)
    assert [(op.kind, op.fields["mode"]) for op in f.ops] == [
        ("Elemwise", "ADD"),
        ("Elemwise", "MUL"),
    ]
    f(T([1.0]), False)
    assert [op.fields["mode"] for op in f.ops] == ["EXP", "MUL"]
    f(T([2.0]), True)
    assert [op.fields["mode"] for op in f.ops] == ["ADD", "MUL"]
    assert [v.external for v in f.vars] == [True, False, True, False]


def test_one_way_of_running() -> None:
    f = trace(lambda x: x * 2, without_host=True)
    for run in (f.trace_normal, f.trace_without_host, f.trace_without_host_overall):
        assert [run(T([k])).item() for k in (1.0, 2.0)] == [2.0, 4.0]
    assert f.check_external is True
    g = trace(lambda x: x)
    assert not g.without_host
    g.setup_without_host()
    assert g.without_host


def test_parts_that_there_are_not() -> None:
    f = trace(lambda x: x * 2)
    f(T([1.0]))
    for call in (f.compile, f.execute, f.compile_and_exec):
        with pytest.raises(NotImplementedError, match="call the function"):
            call()
    with pytest.raises(NotImplementedError, match="inputs and outputs are found"):
        f.setup_io_without_trace([], [])


def test_hooks_around_calls() -> None:
    seen: list[str] = []

    class Noted(trace):
        def setup_env(self) -> None:
            seen.append("before")

        def unset_env(self) -> None:
            seen.append("after")

    f = Noted(lambda x: seen.append("call") or x + 1)
    assert f(T([1.0])).item() == 2.0
    with pytest.raises(TypeError):
        f(None)
    assert seen == ["before", "call", "after"] * 2
    assert trace(lambda x: x).setup_env() is None


def test_optimizers_need_no_conversion() -> None:
    layer = M.Linear(2, 2)
    opt = optim.SGD(layer.parameters(), lr=0.1)
    f = trace(lambda x: layer(x))
    f.convert_optimizer_state_to_tensor(opt)
    assert opt.param_groups[0]["lr"] == 0.1
    with pytest.raises(TypeError, match="expected an Optimizer, got Linear"):
        f.convert_optimizer_state_to_tensor(layer)


def test_flatten_inputs() -> None:
    a, b, c = T([1.0]), T([2.0]), T([3.0])
    f = trace(lambda *args, **kwargs: None)
    assert [t.item() for t in f.flatten_inputs([a, (b, 3)], None, k={"x": c, "y": "text"})] == [
        1,
        2,
        3,
    ]


# ---- profiles ------------------------------------------------------------------------------------


def test_profile() -> None:
    layer = M.Linear(8, 4)
    f = trace(lambda x: F.sum(F.exp(layer(x)) + 1), symbolic=True, profiling=True)
    with pytest.raises(TraceError, match="before the first call"):
        f.get_profile()
    x = T(np.ones((16, 8), "float32"))
    f(x)
    for _ in range(2):  # the recorded call, then one from the record
        profile = f.get_profile()
        order = profile["graph_exec"]["comp_seq"]
        types = [profile["graph_exec"]["operator"][i]["type"] for i in order]
        assert types[0] == "Linear"
        assert types[-1] == "Reduce"
        footprints = profile["profiler"]["opr_footprint"]
        assert footprints[order[0]]["in_shapes"] == [[16, 8], [4, 8], [4]]
        assert footprints[order[0]]["out_shapes"] == [[16, 4]]
        assert footprints[order[0]]["memory"] == 4 * (16 * 8 + 4 * 8 + 4 + 16 * 4)
        assert footprints[order[0]]["computation"] == 2 * 16 * 4 * 8
        assert footprints[order[-1]]["param"]["mode"] == "SUM"
        times = [next(iter(profile["profiler"]["device"][i].values())) for i in order]
        assert all(0 <= t["start"] <= t["end"] for t in times)
        assert [t["start"] for t in times] == sorted(t["start"] for t in times)
        total = sum(t["end"] - t["start"] for t in times)
        assert sum(k["seconds"] for k in profile["kinds"].values()) == pytest.approx(total)
        assert sum(k["count"] for k in profile["kinds"].values()) == len(order)
        f(x)


def test_profile_finds_what_is_slow() -> None:
    a = mge.random.normal(size=(1024, 1024))  # 500 times the time of the sum
    f = trace(lambda x: F.matmul(x, x) + 1, profiling=True)
    for _ in range(3):
        f(a)
    assert next(iter(f.get_profile()["kinds"])) == "MatrixMul"


def test_profile_counts_multiplications_and_additions() -> None:
    conv = M.Conv2d(4, 6, 3, padding=1, groups=2)
    gm = GradManager().attach(conv.parameters())

    @trace(profiling=True)
    def f(x: mge.Tensor) -> None:
        with gm:
            gm.backward(F.sum(F.relu(conv(x)) ** 2))

    gm.attach([x := T(np.ones((2, 4, 5, 5), "float32"))])
    f(x)
    profile = f.get_profile()
    counts = [
        f"{operator['type']} {profile['profiler']['opr_footprint'][i]['computation']}"
        for i, operator in profile["graph_exec"]["operator"].items()
        if "Conv" in operator["type"]
    ]
    each = 2 * (2 * 6 * 5 * 5) * (2 * 3 * 3)  # elements of y, times those of a filter
    assert sorted(counts) == [
        f"Convolution {each}",
        f"ConvolutionBackwardData {each}",
        f"ConvolutionBackwardFilter {each}",
    ]
    unknown = trace(F.sort, profiling=True)
    unknown(T([2.0, 1.0]))
    assert unknown.get_profile()["profiler"]["opr_footprint"]["0"]["computation"] is None


def test_no_profile_without_asking() -> None:
    f = trace(lambda x: x + 1)
    f(T([1.0]))
    with pytest.raises(TraceError, match=r"profiling=True"):
        f.get_profile()


# ---- partial_trace -------------------------------------------------------------------------------


def test_partial_trace_of_a_training_step() -> None:
    def train(part: Any) -> list[Any]:
        mge.random.seed(1)
        net = M.Sequential(M.Linear(3, 5), M.BatchNorm1d(5), M.ReLU(), M.Linear(5, 1))
        forward = part(net)
        gm = GradManager().attach(net.parameters())
        opt = optim.Adam(net.parameters(), lr=0.1)
        rng = np.random.default_rng(0)
        losses = []
        for _ in range(10):
            x = T(rng.standard_normal((4, 3)).astype("float32"))
            with gm:
                loss = F.mean(forward(x) ** 2)
                gm.backward(loss)
            opt.step().clear_grad()
            losses.append(loss.item())
        return losses + [p.numpy().tolist() for p in net.parameters()]

    plain = train(lambda net: net)
    assert train(partial_trace) == plain
    assert train(partial_trace(backend="default", without_host=False, symbolic=True)) == plain


def test_partial_trace_as_a_decorator() -> None:
    class Net(M.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = mge.Parameter([2.0])

        @partial_trace(symbolic=True)
        def forward(self, x: mge.Tensor) -> mge.Tensor:
            return x * self.weight

    net = Net()
    assert [net(T([k])).item() for k in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]


def test_partial_trace_with_other_backends() -> None:
    with pytest.raises(NotImplementedError, match="there is no XLA"):
        partial_trace(lambda x: x, backend="xla")
    with pytest.raises(ValueError, match="expected the backend 'default', got 'fast'"):
        partial_trace(lambda x: x, backend="fast")


def test_there_is_no_xla() -> None:
    with pytest.raises(NotImplementedError, match=r"there is no XLA; trace\(\) runs"):
        xla_trace(lambda x: x)
    with pytest.raises(NotImplementedError, match="there is no XLA"):
        xla_trace(symbolic_shape=True)(lambda x: x)
    blank = object.__new__(xla_trace)
    for call in (
        blank.convert_params_to_xla,
        lambda: blank.prepare_xla_inputs([]),
        lambda: blank.to_dlpack(None),
    ):
        with pytest.raises(NotImplementedError, match="there is no XLA"):
            call()
