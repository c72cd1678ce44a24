"""Tools for graphs in files: running one.

The other names are here so that programs that only import them run. Using one raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor.megbrain_graph import no_graphs, set_priority_to_id
from ..jit.inference import GraphInference

__all__ = [
    "GraphInference",
    "get_dep_vars",
    "get_opr_type",
    "get_oprs_seq",
    "get_owner_opr_inputs",
    "get_owner_opr_type",
    "graph_traversal",
    "replace_oprs",
    "replace_vars",
    "set_priority_to_id",
]


def get_dep_vars(var: Any, var_type: Any = None) -> NoReturn:
    """Would list the values that a value depends on.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("get_dep_vars")


def get_opr_type(opr: Any) -> NoReturn:
    """Would give the type of an op.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("get_opr_type")


def get_oprs_seq(
    outputs: Any, prune_reshape: bool = False, prune_immtensor: bool = True
) -> NoReturn:
    """Would list the ops that outputs need, in order.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("get_oprs_seq")


def get_owner_opr_inputs(var: Any) -> NoReturn:
    """Would list the inputs of the op that made a value.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("get_owner_opr_inputs")


def get_owner_opr_type(var: Any) -> NoReturn:
    """Would give the type of the op that made a value.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("get_owner_opr_type")


def graph_traversal(outputs: Any) -> NoReturn:
    """Would list the ops and values that outputs need.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("graph_traversal")


def replace_oprs(dst: Any, oprmap: Any) -> NoReturn:
    """Would put other ops into a graph.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("replace_oprs")


def replace_vars(dst: Any, varmap: Any) -> NoReturn:
    """Would put other values into a graph.

    Raises:
        NotImplementedError: always.
    """
    no_graphs("replace_vars")
