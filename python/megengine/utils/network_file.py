"""Nodes made of the graphs of files, and what is written into files beside a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core import Graph
from ..jit import graph_file
from ..jit.sizes import Expression
from .network_node import (
    BuiltGraph,
    ComputingGraph,
    ConstOpBase,
    FollowedNumber,
    Host2DeviceCopy,
    ImmutableTensor,
    VarNode,
    as_node,
    new_var,
    node_of,
)

__all__ = [
    "FreeAxis",
    "SerializationMetadata",
    "distinct",
    "follow_again",
    "follows_of",
    "free_axes",
    "kept_names",
    "nodes_of_file",
    "nodes_of_graph",
]

# Keys of what a file says about itself.
MODIFIED, OPTIMIZED = "graph_modified", "optimized_for_inference"


def kept_names(built: BuiltGraph, values: bool, ops: bool, constants: bool) -> dict[int, str]:
    """The names of a graph that go into a file, by ids of values."""
    names: dict[int, str] = {}
    for op in built.ops:
        for place, v in enumerate(op.outputs):
            i = built.ids[id(v)]
            if isinstance(op, ConstOpBase):
                if constants or values:
                    names[i] = v.name
            elif ops and place == 0:
                names[i] = op.name
            elif values:
                names[i] = v.name
    inputs = {built.ids[id(v)] for v in built.inputs}
    return {i: name for i, name in names.items() if i not in inputs}


def distinct(names: list[str]) -> list[str]:
    """Names with numbers behind those that others have already."""
    out: list[str] = []
    for name in names:
        new, n = name, 1
        while new in out:
            new, n = f"{name}_{n}", n + 1
        out.append(new)
    return out


def nodes_of_file(dumped: graph_file.DumpedGraph, owner: ComputingGraph) -> dict[int, VarNode]:
    """The values of a graph that was read, by their ids."""
    names = dict(dumped.value_names)
    names.update(zip(dumped.graph.outputs, dumped.output_names, strict=False))
    names.update(zip(dumped.inputs, dumped.input_names, strict=True))
    by_id: dict[int, VarNode] = {}
    for i in dumped.inputs:
        value = dumped.graph.values[i]
        node = Host2DeviceCopy(value.shape, value.dtype, names[i])
        node.compile(owner)
        by_id[i] = node.outputs[0]
    slopes: dict[int, dict[str, list[int]]] | None = None
    if dumped.batch is not None and not dumped.batch.refusal:
        slopes = {}
        for (index, label), numbers in dumped.batch.slopes.items():
            slopes.setdefault(index, {})[label] = numbers
    made = nodes_of_graph(dumped.graph, by_id, names, owner, slopes)
    follow_again(dumped.follows, dumped.graph, dumped.graph, made)
    return made


@dataclass
class FreeAxis:
    """An axis of inputs that may have any size, other than the batch.

    Args:
        axis: which one.
        inputs: those that have one size there.
        tied: axes of the same number, other than 0, have one size.
        every: other sizes differ by multiples of this.
        followed: whether numbers follow it.
    """

    axis: int
    inputs: list[VarNode]
    tied: int
    every: int
    followed: bool


def free_axes(dumped: graph_file.DumpedGraph, inputs: list[VarNode]) -> list[FreeAxis]:
    """The axes that a file says are free."""
    return [
        FreeAxis(a.axis, [inputs[i] for i in a.inputs], a.tied, a.every, a.followed)
        for a in dumped.axes
        if not a.refusal and not a.growth and a.inputs
    ]


def follow_again(
    follows: dict[graph_file.Place, Expression], graph: Graph, now: Graph, by_id: dict[int, VarNode]
) -> int:
    """Tells ops which of their numbers follow sizes.

    Args:
        follows: by where they are in ``graph``, the numbers.
        graph: a graph.
        now: another one of the same values, which the ops were made from.
        by_id: the values of that.

    Returns:
        the number of those that no op has any more.
    """
    nodes = graph.nodes if follows else []
    kept = {node.outputs: node for node in now.nodes} if follows else {}
    lost = 0
    for (index, name, position), expression in follows.items():
        node = nodes[index]
        new = kept.get(node.outputs)
        there = new is not None and new.kind == node.kind
        if not there or any(d.value not in by_id for d in expression.axes()):
            lost += 1
            continue
        values = {d.value: by_id[d.value] for d in expression.axes()}
        op = as_node(by_id[node.outputs[0]])
        op.follows.append(FollowedNumber(name, position, expression, values))
    return lost


def follows_of(built: BuiltGraph) -> dict[graph_file.Place, Expression]:
    """The numbers in a graph that are arithmetic on sizes."""
    out = {}
    nodes = [op for op in built.ops if not isinstance(op, ConstOpBase | Host2DeviceCopy)]
    for index, op in enumerate(nodes):
        for follow in op.follows:
            ids = {i: built.ids[id(v)] for i, v in follow.values.items()}
            out[index, follow.name, follow.position] = follow.expression.renamed(ids)
    return out


def nodes_of_graph(
    graph: Graph,
    by_id: dict[int, VarNode],
    names: dict[int, str],
    owner: ComputingGraph,
    slopes: dict[int, dict[str, list[int]]] | None = None,
) -> dict[int, VarNode]:
    """Nodes for all that is not in ``by_id`` already; returns all values by their ids."""
    values = graph.values
    for i, value in enumerate(values):
        if i not in by_id and value.constant is not None:
            by_id[i] = ImmutableTensor(
                value.constant, names.get(i, f"const[{i}]"), graph=owner
            ).outputs[0]
    for index, node in enumerate(graph.nodes):
        op = node_of(node.op)
        op.slopes = slopes.get(index, {}) if slopes is not None else None
        first = node.outputs[0]
        op.name = names.get(first, f"{op.name}[{first}]")
        for i in node.inputs:
            op.add_inp_var(by_id[i])
        for i in node.outputs:
            by_id[i] = new_var(values[i].dtype, values[i].shape)
            by_id[i]._graph = owner
            op.add_out_var(by_id[i])
            if i in names:
                by_id[i].name = names[i]
    return by_id


@dataclass
class SerializationMetadata:
    """What a file says about itself.

    Attributes:
        is_valid: whether it says anything.
        graph_modified: whether the graph was edited after it was traced.
        optimized_for_inference: whether it was written for inference.
        user_info: what the user put into it.
        optimize_options: the reference's options as a number; 0.
    """

    is_valid: bool = False
    graph_modified: bool = False
    optimized_for_inference: bool = False
    user_info: Any = None
    optimize_options: int = 0

    @classmethod
    def of(cls, dumped: graph_file.DumpedGraph) -> SerializationMetadata:
        """What was read. A file that does not even say what wrote it says nothing."""
        said = dumped.metadata
        return cls(
            is_valid="writer" in said,
            graph_modified=said.get(MODIFIED) == "True",
            optimized_for_inference=said.get(OPTIMIZED, "True") == "True",
            user_info=dumped.user_info,
        )
