"""Graphs in files are run; functions on values of a graph (:mod:`megengine.utils.network`).

>>> import megengine.functional as F
>>> from megengine.utils.network import Network
>>> net = Network()
>>> x = net.make_input_node((2, 3), "float32", name="x")
>>> y = F.exp(x) + 1
>>> get_dep_vars(y, "Host2DeviceCopy"), get_owner_opr_type(y), get_oprs_seq([y])
([VarNode:x], 'Elemwise', [x{Host2DeviceCopy}, EXP{Elemwise:EXP}, ADD{Elemwise:ADD}])
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..jit.inference import GraphInference
from .network import as_oprnode, as_varnode, dependencies, listed
from .network_node import ConstOpBase, Host2DeviceCopy, OpNode, VarNode, applied, topological

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


def get_dep_vars(
    var: VarNode | Iterable[VarNode], var_type: str | Sequence[str] | None = None
) -> list[VarNode]:
    """The values that one or several values depend on, themselves first.

    Args:
        var: a value, or several.
        var_type: kinds of ops; only what these make is listed. All without it.
    """
    kinds = (var_type,) if isinstance(var_type, str) else var_type
    found = dependencies(var)
    return [v for v in found if kinds is None or get_owner_opr_type(v) in kinds]


def get_owner_opr_inputs(var: VarNode) -> list[VarNode]:
    """The inputs of the op that makes a value."""
    return as_oprnode(var).inputs


def get_owner_opr_type(var: VarNode) -> str:
    """The kind of the op that makes a value: ``"Convolution"``, ``"Host2DeviceCopy"``."""
    return get_opr_type(as_oprnode(var))


def get_opr_type(opr: OpNode) -> str:
    """The kind of an op.

    Raises:
        TypeError: for anything else.
    """
    if not isinstance(opr, OpNode):
        raise TypeError(f"get_opr_type: expected an OpNode, got {type(opr).__name__}")
    return opr.type or type(opr).__name__


def graph_traversal(
    outputs: Iterable[VarNode],
) -> tuple[
    dict[int, OpNode],
    dict[int, VarNode],
    dict[int, list[tuple[int, int]]],
    dict[int, list[int]],
    dict[int, set[int]],
    dict[int, int],
]:
    """All that outputs need, by the numbers of nodes (``node.id``).

    Args:
        outputs: the values.

    Returns:
        Six dicts: ops; values; (op, place among its inputs) that take a value; ops that take what
        an op makes; ops by their number of inputs; numbers of inputs by ops.
    """
    ops = topological(listed(outputs))
    map_oprs = {op.id: op for op in ops}
    map_vars = {v.id: v for v in dependencies(outputs)}
    var2oprs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    opr2receivers: dict[int, list[int]] = defaultdict(list)
    indegree2opr: dict[int, set[int]] = defaultdict(set)
    opr2indegree: dict[int, int] = {}
    for op in ops:
        indegree2opr[len(op.inputs)].add(op.id)
        opr2indegree[op.id] = len(op.inputs)
        for place, v in enumerate(op.inputs):
            var2oprs[v.id].append((op.id, place))
            opr2receivers[as_oprnode(v).id].append(op.id)
    return map_oprs, map_vars, var2oprs, opr2receivers, indegree2opr, opr2indegree


def get_oprs_seq(
    outputs: Iterable[VarNode], prune_reshape: bool = False, prune_immtensor: bool = True
) -> list[OpNode]:
    """The ops that outputs need, in an order in which they can run.

    Args:
        outputs: the values.
        prune_reshape: whether to leave out what only computes shapes for ``Reshape``; there is no
            such op here, since ``Reshape`` holds the shape itself.
        prune_immtensor: whether to leave out constants.
    """
    ops = topological(listed(outputs))
    return [op for op in ops if not (prune_immtensor and isinstance(op, ConstOpBase))]


def replace_vars(dst: Iterable[VarNode], varmap: Mapping[VarNode, VarNode]) -> list[VarNode]:
    """Values like given ones, computed from other values; those and their graph stay as they are.

    Args:
        dst: the values.
        varmap: by value, the one to put in its place.

    Raises:
        TypeError: for what is no value.
        ValueError: where an op does not take what is put in the place of its input.

    >>> from megengine.utils.network import Network
    >>> net = Network()
    >>> x = net.make_input_node((2, 3), "float32", name="x")
    >>> z = net.make_input_node((5, 3), "float32", name="z")
    >>> (y,) = replace_vars([x * 2], {x: z})
    >>> y.shape, get_dep_vars(y, "Host2DeviceCopy")
    ((5, 3), [VarNode:z])
    """
    outputs = [as_varnode(v) for v in dst]
    instead = {id(as_varnode(old)): as_varnode(new) for old, new in varmap.items()}
    for op in topological(outputs):
        if isinstance(op, ConstOpBase | Host2DeviceCopy):
            continue
        if not any(id(v) in instead for v in op.inputs):
            continue
        made = applied(op, [instead.get(id(v), v) for v in op.inputs])
        for old, new in zip(op.outputs, made, strict=True):
            if id(old) not in instead:
                instead[id(old)] = new
                new.name = old.name
        as_oprnode(made[0]).name = op.name
    return [instead.get(id(v), v) for v in outputs]


def replace_oprs(dst: Iterable[VarNode], oprmap: Mapping[OpNode, OpNode]) -> list[VarNode]:
    """Values like given ones, computed by other ops.

    Args:
        dst: the values.
        oprmap: by op, the one whose outputs to put in the place of its own.

    Raises:
        ValueError: where the two have other numbers of outputs; see also :func:`replace_vars`.
    """
    varmap: dict[VarNode, VarNode] = {}
    for old, new in oprmap.items():
        if len(old.outputs) != len(new.outputs):
            raise ValueError(
                f"replace_oprs: expected {len(old.outputs)} outputs, as {old!r} has, got "
                f"{len(new.outputs)} of {new!r}"
            )
        varmap.update(zip(old.outputs, new.outputs, strict=True))
    return replace_vars(dst, varmap)


def set_priority_to_id(dest_vars: Iterable[VarNode]) -> None:
    """Gives the ops that values need and that have no priority their number as one."""
    for op in topological(listed(dest_vars)):
        if op._priority == 0:
            op._priority = op.id
