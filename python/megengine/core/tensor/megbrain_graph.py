"""Graphs in files, under the names that the reference has for them.

:class:`megengine.utils.network.Network` is the way to look at graphs and to change them. Graphs of
callbacks between threads (``Graph``, ``InputNode``, ``OutputNode``) are not made here.

>>> import io
>>> import megengine.functional as F
>>> from megengine.utils.network import Network
>>> net = Network()
>>> content, result = dump_graph({"y": F.exp(net.make_input_node((2,), "float32", name="x"))})
>>> load_graph(io.BytesIO(content)).output_vars_dict
{'y': VarNode:y}
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from ...jit.dump import CompGraphDumpResult
    from ...utils.network import ComputingGraph, SerializationMetadata
    from ...utils.network_node import OpNode, VarNode

__all__ = [
    "Graph",
    "InputNode",
    "OpNode",
    "OutputNode",
    "VarNode",
    "dump_graph",
    "load_graph",
    "optimize_for_inference",
    "set_priority_to_id",
]


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: they are built on top of this package.
    if name in ("OpNode", "VarNode"):
        from ...utils import network_node

        return getattr(network_node, name)
    if name == "CompGraphDumpResult":
        from ...jit.dump import CompGraphDumpResult

        return CompGraphDumpResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def no_graphs(name: str) -> NoReturn:
    """Raises what every use of a static graph with callbacks raises."""
    raise NotImplementedError(
        f"{name}: static graphs with callbacks are not supported; make a graph with "
        "megengine.utils.network.Network, and run it with net.graph.compile(outputs)"
    )


class _Node:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        no_graphs(type(self).__name__)


class Graph(_Node):
    """Would be a static graph.

    Raises:
        NotImplementedError: always.
    """


class InputNode(_Node):
    """Would be an input of a static graph.

    Raises:
        NotImplementedError: always.
    """


class OutputNode(_Node):
    """Would be an output of a static graph.

    Raises:
        NotImplementedError: always.
    """


class CompGraphLoadResult(NamedTuple):
    """A graph that was read.

    Attributes:
        graph: what its nodes belong to.
        output_vars_dict: its outputs by name.
        output_vars_list: its outputs.
        metadata: what the file says about itself.
    """

    graph: ComputingGraph
    output_vars_dict: dict[str, VarNode]
    output_vars_list: list[VarNode]
    metadata: SerializationMetadata


def load_graph(fpath: str | os.PathLike[str] | IO[bytes]) -> CompGraphLoadResult:
    """Reads a graph; see :meth:`megengine.utils.network.Network.load`."""
    from ...utils.network import Network

    net = Network.load(fpath)
    outputs = net.output_vars
    by_name = {v.name: v for v in outputs}
    return CompGraphLoadResult(net.graph, by_name, outputs, net._metadata)


def dump_graph(
    output_vars: Mapping[str, VarNode] | Sequence[VarNode], **options: Any
) -> tuple[bytes, CompGraphDumpResult]:
    """A graph as the bytes of a file, and what is in it.

    Args:
        output_vars: its outputs, which a dict gives names.
        options: see :meth:`megengine.utils.network.Network.dump`.
    """
    from ...utils.network import Network

    if isinstance(output_vars, Mapping):
        for name, var in output_vars.items():
            var.name = name
    net = Network()
    net.output_vars = list(
        output_vars.values() if isinstance(output_vars, Mapping) else output_vars
    )
    file = io.BytesIO()
    result = net.dump(file, **options)
    return file.getvalue(), result


def optimize_for_inference(dest_vars: Sequence[VarNode], **kwargs: Any) -> list[VarNode]:
    """The same values; see :meth:`megengine.utils.network.Network.optimize_for_inference`."""
    from ...utils.network import Network

    return Network().optimize_for_inference(dest_vars, **kwargs)


def set_priority_to_id(dest_vars: Iterable[VarNode]) -> None:
    """See :func:`megengine.utils.comp_graph_tools.set_priority_to_id`."""
    from ...utils import comp_graph_tools

    comp_graph_tools.set_priority_to_id(dest_vars)
