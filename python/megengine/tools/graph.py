"""Graphs of ops as text and as pictures.

From a shell::

    python -m megengine.tools.graph model.mge                  # ops, and a table of their costs
    python -m megengine.tools.graph model.mge --svg model.svg  # a picture
    python -m megengine.tools.graph model.onnx --svg model.svg

In a notebook, :func:`draw` shows the graph of a module, a function or a file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from .._core import Executable, Graph
from ..jit.graph_file import DumpedGraph, load
from ..jit.recording import Recording, record
from ..utils.network import Network
from ..utils.network_node import build_graph
from .diagram import Diagram, diagram_of
from .stats import op_rows, summary, table_text
from .svg import to_svg

__all__ = ["Drawing", "describe", "draw", "main"]


class Drawing:
    """A picture of a graph: notebooks show it, :meth:`save` writes it.

    Args:
        diagram: what it shows.
    """

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        self.svg = to_svg(diagram)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture as an SVG file, which browsers show.

        Raises:
            OSError: where the file cannot be written.
        """
        Path(path).write_text(self.svg, encoding="utf-8")


Source = Graph | Recording | DumpedGraph | Network | str | os.PathLike[str]


def draw(
    source: Source | Callable[..., Any],
    *args: Any,
    optimized: bool = False,
    title: str | None = None,
    **kwargs: Any,
) -> Drawing:
    """Draws a graph: ops from top to bottom, shapes beside the lines, weights inside their ops.

    Args:
        source: a module or function, which is called with the arguments that follow; the name of
            a file, dumped by ``trace.dump`` or in ONNX format; a
            :class:`~megengine.utils.network.Network`; or a graph or record of a call.
        args: what the module or function is called with.
        optimized: whether to draw what runs, with ops fused, not what was written.
        title: what stands above the drawing; a name of the source without one.
        kwargs: what the module or function is called with.

    Raises:
        TypeError: for any other source, or arguments for one that is not called.
        ValueError: for a file that is damaged, or holds no graph.

    >>> import megengine as mge
    >>> import megengine.module as M
    >>> picture = draw(M.Linear(3, 4), mge.tensor([[1.0, 2.0, 3.0]]))
    >>> picture.svg.startswith("<svg")
    True
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix == ".onnx":
            from .onnx_diagram import onnx_diagram

            _no_arguments(source, args, kwargs)
            return Drawing(onnx_diagram(path, title if title is not None else path.stem))
    named = named_graph(source, *args, **kwargs)
    name = title if title is not None else named.name
    graph = named.graph
    if optimized:
        graph = Executable(graph, named.inputs).optimized()
    return Drawing(diagram_of(graph, named.inputs, named.names, name, summary(op_rows(graph))))


class NamedGraph(NamedTuple):
    """A graph with its constants, and what is said about it.

    Attributes:
        graph: the graph.
        inputs: ids of what it takes.
        names: of values, by id.
        name: of all of it.
        sizes: by id of the first output of a node, which of its numbers follow sizes, and how.
    """

    graph: Graph
    inputs: list[int]
    names: dict[int, str]
    name: str
    sizes: Mapping[int, str] = MappingProxyType({})


def named_graph(source: Source | Callable[..., Any], *args: Any, **kwargs: Any) -> NamedGraph:
    """The graph of any source that :func:`draw` takes, but an ONNX file."""
    if callable(source):
        name = getattr(source, "__name__", type(source).__name__)
        return named_graph(record(source, *args, **kwargs))._replace(name=name)
    _no_arguments(source, args, kwargs)
    if isinstance(source, Recording):
        for i, tensor in source.captured.items():
            source.graph.set_constant(i, tensor)
        return NamedGraph(source.graph, source.inputs, source.names, "")
    if isinstance(source, Graph):
        given = [i for i, v in enumerate(source.values) if v.external and v.constant is None]
        return NamedGraph(source, given, {}, "")
    if isinstance(source, Network):
        built = build_graph(source.output_vars)
        names = {built.ids[id(v)]: v.name for op in built.ops for v in op.outputs}
        return NamedGraph(built.graph, [built.ids[id(v)] for v in built.inputs], names, "")
    if isinstance(source, DumpedGraph):
        names = dict(source.value_names)
        names |= zip(source.graph.outputs, source.output_names, strict=True)
        names |= zip(source.inputs, source.input_names, strict=True)
        return NamedGraph(source.graph, source.inputs, names, "", _sizes(source, names))
    if isinstance(source, str | os.PathLike):
        return named_graph(load(source))._replace(name=Path(source).stem)
    raise TypeError(
        "draw: expected a module, a function, a Network, a graph or the name of a file, got "
        f"{type(source).__name__}"
    )


def _sizes(dumped: DumpedGraph, names: Mapping[int, str]) -> dict[int, str]:
    nodes = dumped.graph.nodes
    notes: dict[int, list[str]] = {}
    for (index, field, position), number in dumped.follows.items():
        of_several = isinstance(nodes[index].fields[field], tuple)
        what = f"{field}[{position}]" if of_several else field
        notes.setdefault(nodes[index].outputs[0], []).append(f"{what} = {number.shown(names)}")
    return {i: ", ".join(texts) for i, texts in notes.items()}


def _no_arguments(source: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if args or kwargs:
        raise TypeError(f"draw: expected no arguments for a {type(source).__name__}")


def describe(source: Source | Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """A graph as text: a line for each op, with names, then a table of what the ops cost.

    Of a file, numbers that follow the sizes of the inputs are shown with the arithmetic that they
    are.

    Args:
        source: see :func:`draw`; no ONNX file.
        args: likewise.
        kwargs: likewise.

    >>> import megengine as mge
    >>> print(describe(lambda x: x * x, mge.tensor([1.0, 2.0])))
    %0 = input : float32 (2,)
    %1 = Elemwise(mode='MUL')(%0, %0) : float32 (2,)
    return %1
    <BLANKLINE>
    op   number  parameters  multiply-adds  activations
    mul       1           0              2          8 B
    <BLANKLINE>
    """
    graph, _, names, _, sizes = named_graph(source, *args, **kwargs)
    lines = []
    for line in graph.text().splitlines():
        made = re.match(r"%(\d+)", line)
        notes = [known.get(int(made[1]), "") for known in (names, sizes)] if made else []
        comment = "; ".join(filter(None, notes))
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join([*lines, "", table_text(op_rows(graph)), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """What ``python -m megengine.tools.graph`` runs."""
    parser = argparse.ArgumentParser(
        prog="python -m megengine.tools.graph", description="Prints and draws graphs of ops."
    )
    parser.add_argument("file", type=Path, help="written by trace.dump, or an .onnx file")
    parser.add_argument("--svg", type=Path, metavar="OUT", help="draw it into this file")
    parser.add_argument("--optimized", action="store_true", help="draw what runs, with ops fused")
    options = parser.parse_args(arguments)
    if not options.file.exists():
        parser.error(f"there is no file {options.file}")
    if not options.svg and options.file.suffix == ".onnx":
        parser.error("ONNX files are only drawn: give --svg")
    try:
        if options.svg:
            draw(options.file, optimized=options.optimized).save(options.svg)
        else:
            sys.stdout.write(describe(options.file))
    except ValueError as error:  # a damaged file, or one of another kind
        parser.exit(1, f"{options.file}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
