"""The record of a call as a graph, and the program made of it."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine._core import Executable, Graph
from megengine.core.ops import builtin
from megengine.jit.recording import record

T = mge.tensor


def test_a_module() -> None:
    """Parameters are captured; the program gives what the module gives, for other inputs too."""
    net = M.Sequential(M.Linear(3, 4), M.ReLU(), M.Linear(4, 2))
    recording = record(net, T(np.ones((5, 3), "float32")))
    held = {id(t) for t in recording.captured.values()}
    assert len(held) == 4
    assert sorted(recording.names.values()) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    assert recording.names.keys() == recording.captured.keys()
    x = T(np.random.default_rng(0).normal(size=(5, 3)).astype("float32"))
    (got,) = recording.compile()(x)
    np.testing.assert_allclose(got.numpy(), net(x).numpy(), rtol=1e-6)


def test_nested_arguments_and_results() -> None:
    recording = record(
        lambda pair, scale: {"sum": pair[0] + pair[1], "scaled": [pair[0] * scale]},
        (T([1.0]), T([2.0])),
        scale=T([3.0]),
    )
    assert recording.inputs == [0, 1, 2]
    got = recording.compile()(T([10.0]), T([20.0]), T([30.0]))
    assert [t.item() for t in got] == [30.0, 300.0]


def test_an_argument_nobody_uses_and_a_result_nobody_made() -> None:
    constant = T([7.0])
    recording = record(lambda x, y: (y, constant), T([1.0]), T([2.0]))
    assert [t.item() for t in recording.compile()(T([3.0]), T([4.0]))] == [4.0, 7.0]


def test_one_tensor_twice() -> None:
    x = T([1.0])
    with pytest.raises(ValueError, match="got one Tensor twice"):
        record(F.add, x, x)


def test_errors_of_programs() -> None:
    program = record(lambda x: x + 1, T([1.0])).compile()
    with pytest.raises(TypeError, match="expected 1 inputs, got 2"):
        program(T([1.0]), T([1.0]))
    with pytest.raises(ValueError, match=r"input 0 of float32 \(1,\), got float32 \(2,\)"):
        program(T([1.0, 2.0]))


def test_built_by_hand() -> None:
    graph = Graph()
    x = graph.add_value("float32", (2,), external=True)
    y = graph.add_value("float32", (2,), external=False)
    graph.add_node(builtin.Elemwise(mode="EXP"), [x], [y])
    graph.outputs = [y]
    with pytest.raises(ValueError, match="value 0 is neither an input nor a constant"):
        Executable(graph, [])
    (got,) = Executable(graph, [x])(T([0.0, 1.0]))
    np.testing.assert_allclose(got.numpy(), np.exp(np.float32([0, 1])), rtol=1e-6)
    with pytest.raises(IndexError, match="no value 9"):
        graph.outputs = [9]
    with pytest.raises(ValueError, match="made by a node"):
        graph.set_constant(y, T([0.0, 1.0]))
