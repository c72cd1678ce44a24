"""Graphs as text: what is written reads back as the same graph, and errors say where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine._core import Executable, Graph
from megengine.core.ops import builtin
from megengine.jit.recording import record
from tests.ops.record import Record, all_records

T = mge.tensor
RECORDS = all_records()


def contents(graph: Graph) -> dict[int, Any]:
    values = enumerate(graph.values)
    return {i: value.constant for i, value in values if value.constant is not None}


def check_round_trip(graph: Graph) -> None:
    text = graph.text()
    back = Graph.parse(text, contents(graph))
    assert back == graph
    assert back.text() == text


def as_tensor(record_: Record, array: np.ndarray) -> mge.Tensor:
    if record_.is_data(array):
        return T(array, dtype="float32" if array.dtype.kind == "f" else "int32")
    return T(array, dtype="bool" if array.dtype == bool else "int32")


@pytest.mark.parametrize("case", RECORDS, ids=lambda case: case.name)
def test_records(case: Record) -> None:
    """The graph of every op reads back."""
    recording = record(case.fn, *[as_tensor(case, a) for a in case.arrays()])
    check_round_trip(recording.graph)
    recording.compile()
    check_round_trip(recording.graph)


UNARY = ["EXP", "RELU", "SIN", "NEGATE", "ABS", "TANH"]
BINARY = ["ADD", "SUB", "MUL", "MAX", "MIN"]


def random_graph(rng: np.random.Generator) -> Graph:
    """Elementwise ops, reductions and reshapes among values of a few shapes."""
    graph = Graph()
    shapes = {}
    for _ in range(rng.integers(1, 4)):
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 4)))
        shapes[graph.add_value("float32", shape, external=True)] = shape
        if rng.random() < 0.5:
            last = max(shapes)
            graph.set_constant(last, T(rng.normal(size=shape).astype("float32")))
    for _ in range(rng.integers(0, 12)):
        a, b = (int(i) for i in rng.choice(list(shapes), 2))
        kind = rng.integers(4)
        if kind == 0:
            op, ids, shape = builtin.Elemwise(mode=rng.choice(UNARY)), [a], shapes[a]
        elif kind == 1 and shapes[a] == shapes[b]:
            op, ids, shape = builtin.Elemwise(mode=rng.choice(BINARY)), [a, b], shapes[a]
        elif kind == 2 and shapes[a]:
            op, ids = builtin.Reduce(mode="SUM", axis=0, keepdim=True), [a]
            shape = (1, *shapes[a][1:])
        else:
            shape = (int(np.prod(shapes[a])),)
            op, ids = builtin.Reshape(shape=shape), [a]
        made = graph.add_value("float32", shape, external=False)
        graph.add_node(op, ids, [made])
        shapes[made] = shape
    graph.outputs = [int(i) for i in rng.choice(list(shapes), rng.integers(0, 4))]
    return graph


@pytest.mark.parametrize("seed", range(50))
def test_random_graphs(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    graph.verify()
    check_round_trip(graph)
    inputs = [i for i, v in enumerate(graph.values) if v.external and v.constant is None]
    dense, ids = graph.renumbered(inputs)
    check_round_trip(dense)
    assert [ids[i] for i in inputs] == list(range(len(inputs)))
    assert Graph.parse(dense.text(), contents(dense), dense=True) == dense
    # Passes leave gaps in the ids, and the text keeps them.
    check_round_trip(Executable(graph, inputs).optimized())
    arrays = [np.float32(np.full(graph.values[i].shape, 0.5)) for i in inputs]
    runs = [
        Executable(g, k)(*map(T, arrays))
        for g, k in [(graph, inputs), (dense, [ids[i] for i in inputs])]
    ]
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_text_of_a_small_net() -> None:
    two = T(2.0)
    ids = T([3, 1], dtype="int32")
    recording = record(lambda x: (F.exp(x)[:, ids] * two, x.transpose(1, 0)), T(np.ones((2, 4))))
    recording.compile()
    text = recording.graph.text()
    assert "%0 = input : float32 (2, 4)\n" in text
    assert " = constant 2 : float32 ()\n" in text
    assert " = constant [3, 1] : int32 (2,)\n" in text
    assert "Elemwise(mode='EXP')(%0) : float32 (2, 4)\n" in text
    assert " : float32 (4, 2) strides (1, 4)\n" in text
    assert text.splitlines()[-1].startswith("return %")


@pytest.mark.parametrize(
    "value",
    [0.1, -0.0, 1e-45, 1e16, 5e-324, 1.7976931348623157e308, 1 / 3, np.inf, -np.inf, np.nan, -7.0],
)
def test_floats_are_exact(value: float) -> None:
    graph = Graph()
    made = graph.add_value("float64", (2,), external=False)
    graph.add_node(builtin.Fill(value=value, dtype="float64", shape=(2,)), [], [made])
    graph.outputs = [made]
    check_round_trip(graph)
    op = Graph.parse(graph.text()).nodes[-1].op
    assert np.float64(op.value).tobytes() == np.float64(value).tobytes()


def test_fields_of_every_kind() -> None:
    """Numbers, flags, None, tuples, names, dtypes and devices; integers for floats and back."""
    text = (
        "%0 = input : float32 (2, 1, 3)\n"
        "%1 = Fill(value=1.0, dtype=int16, comp_node='cpu0:1', shape=(3,))() : "
        "int16 (3,) on 'cpu0:1'\n"
        "%2 = RemoveAxis(axis=(1,))(%0) : float32 (2, 3)\n"
        "%3 = Reduce(mode='SUM', axis=None, keepdim=True)(%0) : float32 (1, 1, 1)\n"
        "%4 = Dimshuffle(pattern=(2, 0, 1))(%3) : float32 (1, 1, 1)\n"
        "return %1, %4\n"
    )
    assert Graph.parse(text).text() == text
    short = text.replace("value=1.0, dtype", "value = 1,dtype").replace(", keepdim=True", "")
    assert Graph.parse(short.replace("mode='SUM'", r"mode='\x53um'")).text() == text


def test_a_device() -> None:
    recording = record(lambda x: x + 1, T([1.0], device="cpu0"))
    assert "%0 = input : float32 (1,) on 'cpu0:0'\n" in recording.graph.text()
    recording.compile()
    check_round_trip(recording.graph)


def test_values_that_differ() -> None:
    text = "%0 = constant [1, 2] : float32 (2,)\nreturn %0\n"
    graph = Graph.parse(text)
    assert graph == Graph.parse("# the same\n\n  %0=constant[1,2.0]:float32(2,)  # two\nreturn %0")
    for other in ["[1, 3] : float32 (2,)", "[1, 2] : int32 (2,)", "[1] : float32 (1,)"]:
        assert graph != Graph.parse(f"%0 = constant {other}\nreturn %0\n")
    assert graph != Graph.parse("%0 = constant [1, 2] : float32 (2,)\nreturn\n")
    assert graph != Graph.parse("%0 = input : float32 (2,)\nreturn %0\n")
    assert graph != text


def test_zeros_of_two_signs_are_two_ops() -> None:
    plus, minus = builtin.Fill(value=0.0), builtin.Fill(value=-0.0)
    assert plus != minus
    recording = record(lambda: (F.full((1,), 0.0), F.full((1,), -0.0)))
    got = [np.signbit(t.numpy())[0] for t in recording.compile()()]
    assert got == [np.signbit(t.numpy())[0] for t in recording.result]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected a 'return' line"),
        ("%0 = input : float32 (2,)\n", "line 2, column 1: expected a 'return' line"),
        ("x", "line 1, column 1: expected '%' or 'return'"),
        ("return %0", "line 1, column 8: %0 is used before it is made"),
        ("return\n%0", "line 2, column 1: expected nothing after"),
        ("%0 = inputt : float32 (2,)\nreturn", "column 6: there is no op 'inputt'"),
        ("%0, %1 = input : float32 (2,)\nreturn", "column 10: expected one value"),
        ("%0 = input float32 (2,)\nreturn", "column 12: expected ':'"),
        ("%0 = input : float31 (2,)\nreturn", "column 14: unknown dtype 'float31'"),
        ("%0 = input : float32 (-2,)\nreturn", "column 22: Tensor: negative size"),
        (f"%0 = input : float32 ({2**40}, {2**40})\nreturn", "more than 2^62 elements"),
        (f"%0 = input : float32 ({2**70},)\nreturn", "which is too large"),
        ("%0 = input : float32 (1,1,1,1,1,1,1,1,1)\nreturn", "expected at most 8 numbers"),
        ("%0 = input : float32 (2,) strides (1,1)\nreturn", "as many strides as sizes"),
        ("%0 = input : float32 (2,) on 'gpu0'\nreturn", "column 29: device: 'gpu0' is not there"),
        ("%0 = input : float32 (2,) at\nreturn", "expected 'strides', 'on' or the end"),
        ("%0 = input : float32 (2,) on 'cpu0\nreturn", "expected the closing quote"),
        ("%0 = constant : float32 (2,)\nreturn", "column 16: the contents of %0 are not given"),
        ("%0 = constant [1] : float32 (2,)\nreturn", "column 17: expected ','"),
        ("%0 = constant [1, 2, 3] : float32 (2,)\nreturn", "column 20: expected ']'"),
        ("%0 = constant 300 : uint8 ()\nreturn", "column 15: 300 does not fit uint8"),
        ("%0 = constant 1.5 : int32 ()\nreturn", "column 15: expected an integer"),
        ("%0 = constant 1 : bool ()\nreturn", "expected True or False"),
        ("%0 = constant 1 : complex64 ()\nreturn", "expected at most 8 real elements"),
        ("%0 = constant 1 : float32 (1000000000,)\nreturn", "expected at most 8 real elements"),
        ("%0 = Fill(shap=(2,))() : float32 (2,)\nreturn", "column 11: Fill has no field 'shap'"),
        ("%0 = Fill(value=1, value=1)() : float32 ()\nreturn", "column 20: field 'value' is given"),
        ("%0 = Fill(value='a')() : float32 ()\nreturn", "column 6: Fill: field 'value'"),
        ("%0 = Fill(value=1e999)() : float32 ()\nreturn", "expected a number, got '1e999'"),
        ("%0 = Fill(value=)() : float32 ()\nreturn", "expected a number"),
        ("%0 = Fill(dtype=flat)() : float32 ()\nreturn", "unknown dtype 'flat'"),
        ("%0 = Fill(value=1)(%0) : float32 ()\nreturn", "column 20: %0 is used before"),
        ("%0 = Fill(value=1)() : float32\nreturn", "expected '('"),
        ("%0 = Fill(value=1)() : float32 (), float32 ()\nreturn", "expected the end of the line"),
        ("%0 = Elemwise(mode='FOO')()\nreturn", "Elemwise: unknown mode 'FOO'"),
        ("%0 = Elemwise(mode='AD\\q')()\nreturn", "column 23: expected one of"),
        ("%0 = Elemwise(mode='AD\\x4g')()\nreturn", "two hexadecimal digits"),
        (
            "%0 = input : float32 ()\n%0 = input : float32 ()\nreturn",
            "line 2, column 1: %0 is made",
        ),
        ("%0, %0 = TopK(k=1)() : float32 ()\nreturn", "column 5: %0 is made twice"),
        ("%99999999 = input : float32 ()\nreturn", "column 2: expected an id below 65536"),
        ("%x = input : float32 ()\nreturn", "column 2: expected a number after '%'"),
        (f"%{10**30} = input : float32 ()\nreturn", "expected an id below"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^graph: line \d+, column \d+: ") as error:
        Graph.parse(text)
    assert message in str(error.value)


def test_dense_ids() -> None:
    text = "%0 = input : float32 ()\n%2 = input : float32 ()\nreturn %2"
    assert len(Graph.parse(text).values) == 3
    with pytest.raises(ValueError, match="line 2, column 1: expected %1"):
        Graph.parse(text, dense=True)


def test_contents_of_another_kind() -> None:
    text = "%3 = constant : float32 (9,)\nreturn %3"
    with pytest.raises(ValueError, match=r"expected contents of float32 \(9,\), got int32 \(9,\)"):
        Graph.parse(text, {3: T(np.arange(9))})
    with pytest.raises(TypeError, match="got int"):
        Graph.parse(text, {3: 1})


def hand_made() -> tuple[Graph, int, int]:
    graph = Graph()
    x = graph.add_value("float32", (2,), external=True)
    y = graph.add_value("float32", (2,), external=False)
    return graph, x, y


def test_verifier() -> None:
    exp = builtin.Elemwise(mode="EXP")
    graph, x, y = hand_made()
    graph.add_node(exp, [y], [y])
    with pytest.raises(ValueError, match=r"%1 = Elemwise.*: uses %1 before it is made"):
        graph.verify()
    graph, x, y = hand_made()
    graph.add_node(exp, [x], [y])
    graph.add_node(exp, [x], [y])
    with pytest.raises(ValueError, match="%1 is made twice, or comes from outside"):
        graph.verify()
    graph, x, y = hand_made()
    graph.add_node(exp, [y], [x])
    with pytest.raises(ValueError, match="uses %1 before it is made"):
        graph.verify()
    graph, x, y = hand_made()
    graph.add_node(exp, [x], [])
    with pytest.raises(ValueError, match="expected an output"):
        graph.verify()
    graph, x, y = hand_made()
    graph.add_node(builtin.Elemwise(mode="ADD"), [x], [y])
    with pytest.raises(ValueError, match="Elemwise"):
        graph.verify()
    graph, x, y = hand_made()
    graph.outputs = [y]
    with pytest.raises(ValueError, match="uses %1 before it is made"):
        graph.verify()
    graph, x, y = hand_made()
    z = graph.add_value("float32", (2, 1), external=False)
    graph.add_node(exp, [x], [z])
    with pytest.raises(ValueError, match=r"%2 is float32 \(2,\), and the graph says float32"):
        graph.verify()


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("Dimshuffle(pattern=(1000000, 0))(%0) : float32 (3, 2)", "Dimshuffle"),
        ("Dimshuffle(pattern=(1, 0))(%0) : float32 (2, 3)", "%1 is float32 (3, 2), and the graph"),
        ("Reshape(shape=(4,))(%0) : float32 (4,)", "Reshape"),
        ("Split(axis=1, sizes=(1, 2))(%0) : float32 (2, 1)", "2 outputs, and the graph 1"),
        ("Broadcast(shape=(2, 2, 3))(%0) : float32 (2, 2, 2)", "%1 is float32 (2, 2, 3)"),
        ("Fill(shape=(2147483648, 1))() : float32 (2, 1)", "%1 is float32 (2147483648, 1)"),
        ("FillLike(value=1.0)(%0) : float32 (2, 2)", "%1 is float32 (2, 3)"),
    ],
)
def test_views_and_fills_are_verified(node: str, message: str) -> None:
    """Passes compute with what views do."""
    with pytest.raises(ValueError, match=r"^graph: after parsing: ") as error:
        Graph.parse(f"%0 = input : float32 (2, 3)\n%1 = {node}\nreturn %1")
    assert message in str(error.value)
    # No memory is taken for it, whatever the size.
    n = 2**40
    Graph.parse(
        f"%0 = input : int8 ({n}, 2)\n%1 = Reshape(shape=(-1,))(%0) : int8 ({2 * n},)\nreturn"
    )


def test_module_with_everything() -> None:
    net = M.Sequential(M.Conv2d(3, 4, 3), M.BatchNorm2d(4), M.ReLU(), M.Linear(6, 2))
    net.eval()
    recording = record(net, T(np.ones((2, 3, 8, 8))))
    check_round_trip(recording.graph)
    recording.compile()
    check_round_trip(recording.graph)
