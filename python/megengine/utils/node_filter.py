"""Filters of nodes: ``net.opr_filter.type(Elemwise).name("fc*").as_unique()``."""

from __future__ import annotations

import fnmatch
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from .network_node import ConstOpBase, Host2DeviceCopy, NetworkNode, OpNode, VarNode, topological

__all__ = [
    "NodeFilter",
    "NodeFilterCheckType",
    "NodeFilterHasInput",
    "NodeFilterName",
    "NodeFilterNotType",
    "NodeFilterType",
]

N = TypeVar("N", bound=NetworkNode)
Class = type[Any]  # NodeFilter has a method of the name of type


class NodeFilter(Generic[N]):
    """Nodes, to be narrowed down step by step; each step gives another filter.

    Args:
        node_iter: the nodes.
    """

    def __init__(self, node_iter: Iterable[N]) -> None:
        self._nodes = list(node_iter)

    @classmethod
    def make_all_deps(cls, *dest_vars: VarNode) -> NodeFilter[OpNode]:
        """All ops that values need."""
        return NodeFilter(topological(dest_vars))

    def __iter__(self) -> Iterator[N]:
        return iter(self._nodes)

    def type(self, node_type: Class) -> NodeFilter[N]:
        """Nodes of a class.

        Raises:
            TypeError: where it is none.
        """
        return NodeFilterType(self, node_type)

    def check_type(self, node_type: Class) -> NodeFilter[N]:
        """The same nodes, all of which must be of a class.

        Raises:
            TypeError: where one is not.
        """
        return NodeFilterCheckType(self, node_type)

    def not_type(self, node_type: Class) -> NodeFilter[N]:
        """Nodes of all other classes.

        Raises:
            TypeError: where it is none.
        """
        return NodeFilterNotType(self, node_type)

    def param_provider(self) -> NodeFilter[N]:
        """Constants."""
        return NodeFilterType(self, ConstOpBase)

    def data_provider(self) -> NodeFilter[N]:
        """Inputs of the graph."""
        return NodeFilterType(self, Host2DeviceCopy)

    def name(self, pattern: str, ignorecase: bool = True) -> NodeFilter[N]:
        """Nodes whose whole name fits a pattern, in which ``*`` stands for anything.

        Args:
            pattern: as of :mod:`fnmatch`.
            ignorecase: whether small and capital letters are one.

        Raises:
            TypeError: for a pattern that is no string.
        """
        return NodeFilterName(self, pattern, ignorecase)

    def has_input(self, var: VarNode) -> NodeFilter[N]:
        """Ops that take a value.

        Raises:
            TypeError: where a node is no op.
        """
        return NodeFilterHasInput(self, var)

    def as_list(self) -> list[N]:
        """The nodes."""
        return list(self._nodes)

    def as_unique(self) -> N:
        """The only node.

        Raises:
            ValueError: where there are none or several.
        """
        if len(self._nodes) != 1:
            raise ValueError(f"NodeFilter: expected one node, found {len(self._nodes)}")
        return self._nodes[0]

    def as_dict(self) -> OrderedDict[str, N]:
        """The nodes by name; of those of one name, the last one."""
        return OrderedDict((node.name, node) for node in self._nodes)  # type: ignore[attr-defined]

    def as_count(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)


class NodeFilterType(NodeFilter[N]):
    """Nodes of a class."""

    def __init__(self, node_iter: Iterable[N], node_type: Class) -> None:
        super().__init__(node for node in node_iter if isinstance(node, node_type))


class NodeFilterNotType(NodeFilter[N]):
    """Nodes of all classes but one."""

    def __init__(self, node_iter: Iterable[N], node_type: Class) -> None:
        super().__init__(node for node in node_iter if not isinstance(node, node_type))


class NodeFilterCheckType(NodeFilter[N]):
    """Nodes, all of which must be of a class."""

    def __init__(self, node_iter: Iterable[N], node_type: Class) -> None:
        super().__init__(node_iter)
        for node in self._nodes:
            if not isinstance(node, node_type):
                raise TypeError(
                    f"NodeFilter: expected nodes of class {node_type.__name__}, got {node!r}"
                )


class NodeFilterHasInput(NodeFilter[N]):
    """Ops that take a value."""

    def __init__(self, node_iter: Iterable[N], var: VarNode) -> None:
        nodes = list(node_iter)
        for node in nodes:
            if not isinstance(node, OpNode):
                raise TypeError(f"NodeFilter: expected ops, which have inputs, got {node!r}")
        super().__init__(n for n in nodes if any(v is var for v in n.inputs))  # type: ignore[attr-defined]


class NodeFilterName(NodeFilter[N]):
    """Nodes whose names fit a pattern."""

    def __init__(self, node_iter: Iterable[N], pattern: str, ignorecase: bool) -> None:
        fits = self.make_re(pattern, ignorecase)
        super().__init__(n for n in node_iter if fits.match(n.name))  # type: ignore[attr-defined]

    @classmethod
    def make_re(cls, pattern: str, ignorecase: bool = True) -> re.Pattern[str]:
        """The pattern as a regular expression.

        >>> bool(NodeFilterName.make_re("conv*.weight").match("Conv1.weight"))
        True
        """
        if not isinstance(pattern, str):
            raise TypeError(f"NodeFilter: expected a pattern, got {type(pattern).__name__}")
        return re.compile(fnmatch.translate(pattern), re.IGNORECASE if ignorecase else 0)
