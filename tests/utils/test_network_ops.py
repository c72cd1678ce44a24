"""Every op of the records: its shapes are found without contents, and it is drawn and counted."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
from megengine import _core
from megengine._core import op_types
from megengine.jit.graph_file import DumpedGraph
from megengine.jit.recording import Recording
from megengine.jit.recording import record as record_call
from megengine.tools.graph import describe, draw
from megengine.utils.network import Network
from megengine.utils.network_file import nodes_of_file
from megengine.utils.network_node import OpNode, applied, is_constant
from tests.ops.record import Record, all_records

BY_CONTENTS = {info["name"] for info in op_types() if info["by_contents"]}


def recorded(record: Record) -> Recording:
    """The graph of a record's function, with what it captures as constants."""
    dtype = record.dtypes[0]
    arguments = [
        mge.tensor(
            a, dtype=dtype if record.is_data(a) else ("bool" if a.dtype == bool else "int32")
        )
        for a in record.arrays()
    ]
    recording = record_call(record.fn, *arguments)
    for i, tensor in recording.captured.items():
        recording.graph.set_constant(i, tensor)
    return recording


def needs_contents(op: OpNode) -> bool:
    """Whether shapes depend on inputs of the graph: a mask, or sizes beside an image."""
    counts = op.inputs if op.type in ("CondTake", "NonZero") else op.inputs[1:]
    unknown = not all(is_constant(v) for v in counts)
    return _core.op_kind(op.op()) in BY_CONTENTS and unknown


@pytest.mark.parametrize("record", [pytest.param(r, id=r.name) for r in all_records()])
def test_shapes_and_pictures(record: Record) -> None:
    recording = recorded(record)
    graph = recording.graph
    names = [f"x{i}" for i in recording.inputs]
    outputs = [f"y{i}" for i, _ in enumerate(graph.outputs)]
    dumped = DumpedGraph(graph, recording.inputs, names, outputs, recording.names)
    net = Network()
    values = nodes_of_file(dumped, net.graph)
    net._set([values[i] for i in graph.outputs])
    for op in net.all_oprs:
        if op.inputs and not needs_contents(op):
            got = applied(op, op.inputs)
            assert [(v.shape, v.dtype) for v in got] == [(v.shape, v.dtype) for v in op.outputs]
        elif op.inputs:
            with pytest.raises(ValueError, match="expected inputs with contents"):
                applied(op, op.inputs)
    picture = draw(recording).svg
    assert picture.count('class="node"') == len(graph.nodes) + len(names) + len(outputs)
    assert describe(recording).count("\n") > len(graph.nodes)


def test_conditions_stay_bool() -> None:
    """What is no number is not converted, whoever calls the op."""
    from megengine.core._imperative_rt.core2 import apply
    from megengine.core.ops import builtin

    where = builtin.Elemwise(mode="WHERE")
    mask = mge.tensor([True, False])
    for dtype in ("float32", "complex64", "int32"):
        x = mge.tensor([1, 2], dtype=dtype)
        (got,) = apply(where, mask, x, 7)
        np.testing.assert_array_equal(got.numpy(), np.array([1, 7], dtype))
        with pytest.raises(TypeError, match=f"expected a bool condition, got {dtype}"):
            apply(where, x, x, x)
    with pytest.raises(TypeError, match="expected 3 operands, got 1"):
        apply(where, mask)
