"""What is to be exported: the recordings of a function at several sizes, as one list of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._core import OpDef, apply, decompose, op_types
from ...core.ops import builtin
from ...jit.recording import Recording, record
from ...jit.sizes import Symbol
from ...tensor import Tensor
from .sizes import Number, Shape, Size, is_static, sized

DECOMPOSED = {t["name"] for t in op_types() if t["has_decompose"]}
LARGEST_FOLDED = 4096  # elements of a folded constant that is larger than what it is made of
LARGEST_SIZED = 64  # elements of a constant whose numbers may be dynamic sizes


@dataclass(frozen=True)
class Node:
    """A call of an op. Fields whose numbers differ between the recordings hold a Size."""

    op: OpDef
    kind: str
    fields: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    random: bool = False


@dataclass
class Value:
    """What is known of a value: constants have contents, an array of numbers or of Sizes."""

    dtype: np.dtype[Any]
    shape: Shape
    constant: np.ndarray[Any, Any] | None = None
    name: str = ""


@dataclass
class Plan:
    """Nodes in the order in which they run; values by id.

    ``seen`` is what Python computed from sizes, ``decided`` what it compared (``Recording.sizes``).
    """

    nodes: list[Node]
    values: dict[int, Value]
    inputs: list[int]
    outputs: list[int]
    tensors: dict[int, Tensor] = field(default_factory=dict)  # constants of the recording
    seen: tuple[tuple[Symbol, ...], ...] = ()
    decided: Mapping[tuple[Symbol, ...], bool] = field(default_factory=dict)

    @cached_property
    def used(self) -> set[int]:
        """The values that a node or the caller reads; of a plan that does not grow any more."""
        return {i for node in self.nodes for i in node.inputs} | set(self.outputs)

    def without_dead_nodes(self) -> Plan:
        """The plan without nodes whose outputs nobody reads."""
        wanted = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                kept.append(node)
                wanted.update(node.inputs)
        return replace(self, nodes=kept[::-1])


# ---- one recording -----------------------------------------------------------------------------


def plan_of(recording: Recording) -> Plan:
    """A recording as a plan: all sizes are numbers, constants are in ``tensors``."""
    graph = recording.graph
    nodes = [Node(n.op, n.kind, n.fields, n.inputs, n.outputs, n.random) for n in graph.nodes]
    values = {
        i: Value(v.dtype, v.shape, None, recording.names.get(i, ""))
        for i, v in enumerate(graph.values)
    }
    tensors = {i: t for i, t in recording.captured.items() if i in values}
    seen, decided = tuple(recording.sizes.seen), recording.sizes.decided
    return Plan(nodes, values, list(recording.inputs), list(graph.outputs), tensors, seen, decided)


def expanded(plan: Plan, has_rule: Callable[[Node, Plan], bool]) -> Plan:
    """The plan with ops that have no rule replaced by what they are made of, where they say it."""
    plan = plan.without_dead_nodes()
    out = replace(plan, nodes=[], values=dict(plan.values), tensors=dict(plan.tensors))
    for node in plan.nodes:
        _expand(node, plan, {}, out, has_rule)
    return out.without_dead_nodes()


def contents_needed(node: Node) -> list[int]:
    """Which inputs of an op say positions and sizes, so that its composition depends on them."""
    if node.kind in ("Resize", "Resize3D", "WarpAffine", "WarpPerspective"):
        return [len(node.inputs) - 1]
    if node.kind not in ("IndexItems", "MeshItems"):
        return []
    mode = str(node.fields["mode"])
    arrays = node.kind == "MeshItems" or mode.endswith("vec")
    at = 1 if mode.startswith("get") else 2
    out = []
    for code in node.fields["items"]:
        # Bits of an item: it has a start, a stop, a step, a position or an index array.
        for bit in (1, 2, 4, 8):
            if code & bit:
                if bit != 8 or not arrays:
                    out.append(at)
                at += 1
    return out


def _expand(
    node: Node,
    plan: Plan,
    ids: dict[int, int],
    out: Plan,
    has_rule: Callable[[Node, Plan], bool],
) -> None:
    """Appends a node of a plan to `out`, under the ids that values have there, or its parts."""
    moved = replace(
        node,
        inputs=tuple(ids.get(i, i) for i in node.inputs),
        outputs=tuple(ids.get(i, i) for i in node.outputs),
    )
    known = all(moved.inputs[at] in out.tensors for at in contents_needed(node))
    if node.kind not in DECOMPOSED or has_rule(node, plan) or not known:
        out.nodes.append(moved)
        return
    # Contents matter where sizes and positions are inputs; those are constants.
    arguments = [
        Tensor(out.tensors[i].numpy(), dtype=out.values[i].dtype)
        if i in out.tensors
        else Tensor(np.zeros(out.values[i].shape, "uint8"), dtype=out.values[i].dtype)
        for i in moved.inputs
    ]
    there: list[bool] = []  # an op may leave an output out, which nobody reads then

    def parts(*tensors: Tensor) -> list[Tensor]:
        results = decompose(node.op, *tensors)
        there[:] = [r is not None for r in results]
        return [r for r in results if r is not None]

    inner = plan_of(record(parts, *arguments)).without_dead_nodes()
    inside = dict(zip(inner.inputs, moved.inputs, strict=True))
    made = {i for part in inner.nodes for i in part.outputs}
    for i in sorted(inner.used | made):
        if i not in inside:
            inside[i] = max(out.values) + 1
            out.values[inside[i]] = inner.values[i]
            if i in inner.tensors:
                out.tensors[inside[i]] = inner.tensors[i]
    for part in inner.nodes:
        _expand(part, inner, inside, out, has_rule)
    targets = [i for i, is_there in zip(moved.outputs, there, strict=True) if is_there]
    for target, source in zip(targets, inner.outputs, strict=True):
        same = (inside[source],)
        out.nodes.append(Node(builtin.Identity(), "Identity", {}, same, (target,)))


def run(plan: Plan, inputs: Sequence[Tensor]) -> dict[int, Tensor]:
    """All values of the plan of one recording, for inputs of its sizes."""
    values = dict(plan.tensors)
    values.update(zip(plan.inputs, inputs, strict=True))
    for node in plan.nodes:
        results = apply(node.op, *(values[i] for i in node.inputs))
        values.update(zip(node.outputs, results, strict=True))
    return values


# ---- several recordings ------------------------------------------------------------------------


class MismatchError(Exception):
    """The recordings at several sizes are not the same calls of ops."""


def unified(plans: Sequence[Plan]) -> Plan:
    """One plan for recordings at several sizes: numbers that differ become Sizes.

    Raises:
        MismatchError: where they differ otherwise.
    """
    first = plans[0]
    nodes = []
    for position, same in enumerate(_rows([p.nodes for p in plans])):
        node = same[0]
        if any(
            n is None or (n.kind, n.inputs, n.outputs) != (node.kind, node.inputs, node.outputs)
            for n in same
        ):
            kinds = ["nothing" if n is None else n.kind for n in same]
            raise MismatchError(
                f"op {position} is {' and '.join(dict.fromkeys(kinds))}, or has other inputs: the "
                "Python code takes another way, or a loop has another length"
            )
        fields = {
            name: _unified_field(node.kind, name, [n.fields[name] for n in same])
            for name in node.fields
        }
        nodes.append(replace(node, fields=fields))
    values = {}
    reads = first.used.union(first.inputs, *(n.outputs for n in nodes))
    for i in sorted(reads):
        same_values = [p.values.get(i) for p in plans]
        shape = _unified_shape(first.values[i].name or f"value {i}", same_values)
        values[i] = Value(first.values[i].dtype, shape, None, first.values[i].name)
        if i in first.tensors:
            values[i].constant = _unified_constant(values[i], [p.tensors.get(i) for p in plans])
    return replace(first, nodes=nodes, values=values)


def _rows(columns: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    for i in range(max(len(c) for c in columns)):
        yield [c[i] if i < len(c) else None for c in columns]


def _unified_shape(what: str, values: Sequence[Value | None]) -> Shape:
    shapes = [v.shape if v is not None else () for v in values]
    if len({len(s) for s in shapes}) > 1:
        raise MismatchError(f"{what} has shapes {' and '.join(map(str, shapes))}")
    return tuple(sized(sizes) for sizes in zip(*shapes, strict=True))


def _unified_field(kind: str, name: str, samples: Sequence[Any]) -> Any:
    head = samples[0]
    if all(s == head for s in samples):
        return head
    if all(isinstance(s, int) and not isinstance(s, bool) for s in samples):
        return sized(samples)
    if isinstance(head, list | tuple) and len({len(s) for s in samples}) == 1:
        parts = [_unified_field(kind, name, numbers) for numbers in zip(*samples, strict=True)]
        return type(head)(parts)
    if all(isinstance(s, float) for s in samples):
        return _unified_number(samples)
    raise MismatchError(f"{kind}: its field '{name}' is {' and '.join(map(str, samples))}")


def _unified_number(samples: Sequence[float]) -> Any:
    if all(s == samples[0] for s in samples):
        return samples[0]
    if all(float(s).is_integer() for s in samples):
        return sized(samples)
    return Number(tuple(map(float, samples)))


def _unified_constant(value: Value, tensors: Sequence[Tensor | None]) -> np.ndarray[Any, Any]:
    arrays = [None if t is None else t.numpy() for t in tensors]
    what = f"a constant{f' ({value.name})' if value.name else ''}"
    if any(a is None for a in arrays) or not is_static(value.shape):
        raise MismatchError(f"{what} has another shape: it was made with NumPy, from a size")
    there = [a for a in arrays if a is not None]
    if all(a is there[0] or np.array_equal(a, there[0], equal_nan=_has_nan(a)) for a in there):
        return there[0]
    if there[0].size > LARGEST_SIZED or there[0].dtype.kind == "c":
        shown = " and ".join(np.array2string(a, threshold=4) for a in there)
        raise MismatchError(
            f"{what} is {shown}: at most {LARGEST_SIZED} real numbers can be computed from sizes"
        )
    out = np.empty(there[0].shape, object)
    for at in np.ndindex(out.shape):
        out[at] = _unified_number([a[at].item() for a in there])
    return out


def _has_nan(a: np.ndarray[Any, Any]) -> bool:
    return a.dtype.kind in "fc"


# ---- constants ---------------------------------------------------------------------------------


def has_sizes(value: Any) -> bool:
    """Whether a field holds a Size."""
    if isinstance(value, list | tuple):
        return any(has_sizes(v) for v in value)
    return isinstance(value, Size | Number)


def folded(plan: Plan) -> Plan:
    """The plan with nodes of constants run, unless the result is much larger than those."""
    nodes = []
    tensors = {}
    for i, tensor in plan.tensors.items():
        constant = plan.values[i].constant if i in plan.values else None
        if constant is not None and constant.dtype != object:
            tensors[i] = tensor
    reads: dict[int, int] = {}
    for node in plan.nodes:
        for i in node.inputs:
            reads[i] = reads.get(i, 0) + 1
    for node in plan.nodes:
        if not _is_foldable(node, plan, tensors):
            nodes.append(node)
            continue
        results = apply(node.op, *(tensors[i] for i in node.inputs))
        named = [i for i in node.inputs if plan.values[i].name]
        for i, result in zip(node.outputs, results, strict=True):
            tensors[i] = result
            value = plan.values[i]
            value.constant = result.numpy()
            if len(named) == 1:
                name = plan.values[named[0]].name
                whole = result.size == tensors[named[0]].size and reads[named[0]] == 1
                value.name = name if whole else f"{name}/{node.kind}"
    return replace(plan, nodes=nodes, tensors=tensors).without_dead_nodes()


def _is_foldable(node: Node, plan: Plan, tensors: Mapping[int, Tensor]) -> bool:
    if node.random or has_sizes(list(node.fields.values())):
        return False
    if not all(i in tensors for i in node.inputs):
        return False
    shapes = [plan.values[i].shape for i in node.outputs if i in plan.values]
    if not all(is_static(s) for s in shapes):
        return False
    made = sum(int(np.prod([int(n) for n in s])) for s in shapes)
    given = sum(tensors[i].size for i in node.inputs)
    return made <= max(given, LARGEST_FOLDED)
