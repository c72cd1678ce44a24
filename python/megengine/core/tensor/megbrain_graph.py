"""Static graphs, in which the reference keeps models for deployment: not in this release.

The names are here so that programs that only import them run. Using one raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

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


def no_graphs(name: str) -> NoReturn:
    """Raises what every use of a static graph raises."""
    raise NotImplementedError(
        f"{name}: static graphs are not supported yet; keep models as modules, saved with "
        "megengine.save(module.state_dict(), file)"
    )


class _Node:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        no_graphs(type(self).__name__)


class Graph(_Node):
    """Would be a static graph.

    Raises:
        NotImplementedError: always.
    """


class VarNode(_Node):
    """Would be a value in a static graph.

    Raises:
        NotImplementedError: always.
    """


class OpNode(_Node):
    """Would be an op in a static graph.

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


def load_graph(*args: Any, **kwargs: Any) -> NoReturn:
    """Would read a static graph from a file.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("load_graph")


def dump_graph(*args: Any, **kwargs: Any) -> NoReturn:
    """Would write a static graph into a file.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("dump_graph")


def optimize_for_inference(*args: Any, **kwargs: Any) -> NoReturn:
    """Would optimise a static graph.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("optimize_for_inference")


def set_priority_to_id(*args: Any, **kwargs: Any) -> NoReturn:
    """Would order the ops of a static graph.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("set_priority_to_id")
