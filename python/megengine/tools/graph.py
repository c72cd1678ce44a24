"""Graphs of ops as text and as pictures.

From a shell::

    python -m megengine.tools.graph model.onnx --svg model.svg

In a notebook, :func:`draw` shows the graph of a module, a function or a file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._core import Graph
from ..jit.recording import Recording, record
from .diagram import Diagram, diagram_of, shape_text
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


def draw(
    source: Graph | Recording | str | os.PathLike[str] | Callable[..., Any],
    *args: Any,
    optimized: bool = False,
    title: str | None = None,
    **kwargs: Any,
) -> Drawing:
    """Draws a graph: ops from top to bottom, shapes beside the lines, weights inside their ops.

    Args:
        source: a module or function, which is called with the arguments that follow; a graph or a
            record of a call; or the name of an ONNX file.
        args: what the module or function is called with.
        optimized: whether to draw what runs, with ops fused, not what was written.
        title: what stands above the drawing; a name of the source without one.
        kwargs: what the module or function is called with.

    Raises:
        TypeError: for any other source, or arguments for one that is not called.

    >>> import megengine as mge
    >>> import megengine.module as M
    >>> picture = draw(M.Linear(3, 4), mge.tensor([[1.0, 2.0, 3.0]]))
    >>> picture.svg.startswith("<svg")
    True
    """
    name = title
    if isinstance(source, Graph | Recording | str | os.PathLike):
        if args or kwargs:
            raise TypeError(f"draw: expected no arguments for a {type(source).__name__}")
    elif callable(source):
        name = name if name is not None else getattr(source, "__name__", type(source).__name__)
        source = record(source, *args, **kwargs)
    else:
        raise TypeError(
            "draw: expected a module, a function, a Graph, a Recording or the name of a file, "
            f"got {type(source).__name__}"
        )
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        name = name if name is not None else path.stem
        if path.suffix == ".onnx":
            from .onnx_diagram import onnx_diagram

            return Drawing(onnx_diagram(path, name))
        raise ValueError(f"draw: expected an .onnx file, got {path}")
    if isinstance(source, Graph):
        inputs = [i for i, v in enumerate(source.values) if v.external and v.constant is None]
        source = Recording(source, inputs, {}, None)
    return Drawing(_diagram(source, optimized, name or ""))


def _diagram(recording: Recording, optimized: bool, title: str) -> Diagram:
    graph = recording.compile().optimized() if optimized else _with_constants(recording)
    return diagram_of(graph, recording.inputs, recording.names, title, summary(op_rows(graph)))


def _with_constants(recording: Recording) -> Graph:
    for i, tensor in recording.captured.items():
        recording.graph.set_constant(i, tensor)
    return recording.graph


def describe(recording: Recording) -> str:
    """A graph as text: inputs, a line for each op, outputs, and a table of what the ops cost."""
    graph = _with_constants(recording)
    names, values = recording.names, graph.values
    lines = [f"input  %{i} {names.get(i, '')}  {shape_text(values[i])}" for i in recording.inputs]
    lines += [graph.text().rstrip()]
    lines += [f"output %{i} {names.get(i, '')}  {shape_text(values[i])}" for i in graph.outputs]
    return "\n".join([*lines, "", table_text(op_rows(graph)), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """What ``python -m megengine.tools.graph`` runs."""
    parser = argparse.ArgumentParser(
        prog="python -m megengine.tools.graph", description="Draws graphs of ops."
    )
    parser.add_argument("file", type=Path, help="an .onnx file")
    parser.add_argument(
        "--svg", type=Path, metavar="OUT", required=True, help="draw it into this file"
    )
    options = parser.parse_args(arguments)
    if not options.file.exists():
        parser.error(f"there is no file {options.file}")
    draw(options.file).save(options.svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
