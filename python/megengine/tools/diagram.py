"""What a drawing of a graph shows: a box for each op, with its weights and settings folded in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core import Graph, GraphNode, GraphValue, op_types

__all__ = [
    "Box",
    "Diagram",
    "diagram_of",
    "kind_of",
    "op_name",
    "parts_of",
    "shape_text",
    "short_text",
    "split_names",
    "weight_lines",
]

# The kinds that have a colour, and the names of ops that belong to them: the first match counts.
_KINDS: dict[str, str] = {
    "activation": r"relu|prelu|tanh|sigmoid|gelu|silu|swish|softplus|softmax|logsigmoid|erf|clip"
    r"|dropout|leakyrelu|hardswish|elu|mish",
    "contraction": r".*conv.*|.*matmul|.*matrixmul|gemm|dot|linear|einsum|grouplocal.*"
    r"|.*attention.*|multiheadattn.*|rnn.*|lstm.*|gru|recurrent.*",
    "normalisation": r".*norm\d?|.*normalization|.*normbackward|lrn.*",
    "reduction": r".*pool.*|reduce.*|arg.*|variance|topk|cumsum|logsumexp.*|.*crossentropy.*",
    "shape": r"reshape|flatten|dimshuffle|transpose|broadcast|expand|addaxis|removeaxis|squeeze"
    r"|unsqueeze|concat|stack|split|copy|contiguous|identity|padding|pad|tile|cast|typecvt"
    r"|getvarshape|shape|pixelshuffle|resize.*|interpolate|upsample",
    "indexing": r".*subtensor|slice|gather.*|scatter.*|.*indexing.*|indexitems|meshitems"
    r"|condtake|nonzero|where|nmskeep",
    "source": r".*rng|randomcounters|.*mask|fill.*|linspace|arange|range|eye|constant.*",
}


def kind_of(op: str) -> str:
    """The kind of an op, which gives its colour.

    >>> kind_of("Convolution"), kind_of("RELU"), kind_of("ADD")
    ('contraction', 'activation', 'arithmetic')
    """
    for kind, pattern in _KINDS.items():
        if re.fullmatch(pattern, op.lower().replace("_", "")):
            return kind
    return "arithmetic"


@dataclass
class Box:
    """An op, an input or an output.

    Args:
        title: what the box is called.
        kind: which colour it has; see :func:`kind_of`.
        details: lines below the title.
        note: more about it, shown where a pointer rests on it.
        parts: the ops that a fused one is made of.
        inputs: (index of a box, index of an output of it); only earlier boxes.
        outputs: what stands beside the lines of each output.
    """

    title: str
    kind: str
    details: list[str] = field(default_factory=list)
    note: str = ""
    parts: list[str] = field(default_factory=list)
    inputs: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass
class Diagram:
    """Boxes in an order in which they could be calculated."""

    boxes: list[Box]
    title: str = ""
    summary: str = ""


def shape_text(value: Any) -> str:
    """Shape and dtype as short as they can be said.

    >>> import megengine as mge
    >>> shape_text(mge.tensor([[1.0, 2.0]])), shape_text(mge.tensor(3))
    ('1×2', 'int32 scalar')
    """
    shape = "×".join(str(n) for n in value.shape) or "scalar"
    dtype = value.dtype.name if hasattr(value.dtype, "name") else str(value.dtype)
    return shape if dtype == "float32" else f"{dtype} {shape}"


_DEFAULTS = {t["name"]: {name: default for name, default, _ in t["fields"]} for t in op_types()}
# Settings that say nothing to who looks at a network.
_UNSAID = {"handle", "comp_node", "device", "program", "format", "training", "avg_factor"}
_LONGEST_LIST = 24  # letters of names of weights
_MOST_SETTINGS = 5  # in a box; what rests is shown under the pointer


def _settings(node: GraphNode) -> list[str]:
    """The fields that are not as usual: ``stride 2×2``, ``axis 1``."""
    defaults = _DEFAULTS.get(node.kind, {})
    fields = {
        name: value
        for name, value in node.fields.items()
        if name not in _UNSAID and (name not in defaults or value != defaults[name])
    }
    if node.kind == "Elemwise":
        fields.pop("mode", None)
    if parts_of(node):  # which are shown
        for name in ("activation", "residual", "bias"):
            fields.pop(name, None)
    # x_d, x_h, x_w are one setting. Where one of them is not as usual, all are shown.
    lines: dict[str, str] = {}
    for name in fields:
        stem, _, axis = name.rpartition("_")
        if stem and axis in ("d", "h", "w"):
            sizes = [node.fields[f"{stem}_{a}"] for a in "dhw" if f"{stem}_{a}" in node.fields]
            lines[stem] = f"{stem} " + "×".join(str(n) for n in sizes)
        else:
            lines[name] = f"{name} {short_text(fields[name])}"
    shown = list(lines.values())
    return shown if len(shown) <= _MOST_SETTINGS else [*shown[: _MOST_SETTINGS - 1], "…"]


def short_text(value: Any) -> str:
    """A value of a setting in a few letters."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(short_text(v) for v in value) or "()"
    text = value.lower() if isinstance(value, str) else str(value)
    return text if len(text) <= 24 else text[:23] + "…"


def parts_of(node: GraphNode) -> list[str]:
    """The ops that a fused op does one after the other; empty for any other op."""
    fields = node.fields
    if isinstance(fields.get("program"), str):
        return [name.lower() for name in re.findall(r"=\s*(\w+)\(", fields["program"])]
    if not node.kind.startswith("Fused") or "residual" not in fields:
        return []
    parts = [node.kind.removeprefix("Fused")]
    if fields["residual"] == "BEFORE_ACTIVATION":
        parts.append("add")
    if fields["activation"] is not None:
        parts.append(fields["activation"].lower())
    if fields["residual"] == "AFTER_ACTIVATION":
        parts.append("add")
    return parts


def op_name(node: GraphNode) -> str:
    """What an op is called: elementwise ops by their mode."""
    if node.kind == "Elemwise":
        return str(node.fields["mode"]).lower()
    return node.kind


def split_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """Names such as ``a.conv.weight`` as the module that has them all, and what it calls them.

    >>> split_names(["a.conv.weight", "a.conv.bias"])
    ('a.conv', ['weight', 'bias'])
    """
    scopes = {name.rpartition(".")[0] for name in names if name}
    if len(scopes) != 1:
        return "", list(names)
    scope = scopes.pop()
    return scope, [name[len(scope) + 1 :] if scope else name for name in names]


def weight_lines(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    """Lines for the weights of an op. Those of one shape, as in batch norm, share a line.

    Args:
        names: of the weights, as far as they have any.
        values: their shapes and dtypes, and ``number`` where one is a single known number; None
            where nothing is known.
    """
    lines: list[str] = []
    groups: dict[str, list[str]] = {}
    for name, value in zip(names, values, strict=True):
        number = getattr(value, "number", None)
        if number is not None:
            lines.append(f"{name} = {short_text(number)}" if name else short_text(number))
        else:
            groups.setdefault(shape_text(value) if value is not None else "", []).append(name)
    for shape, group in groups.items():
        named = ", ".join(name for name in group if name)
        if len(named) > _LONGEST_LIST or (len(group) > 1 and not named):
            named = f"{len(group)} weights"
        lines.append(f"{named} {shape}".strip())
    return lines


class _Weight:
    """What :func:`weight_lines` asks of a value of a graph."""

    def __init__(self, value: GraphValue) -> None:
        self.shape = value.shape
        self.dtype = value.dtype
        self.number = None
        if value.constant is not None and math.prod(value.shape) == 1:
            self.number = value.constant.numpy().reshape(()).item()


def diagram_of(
    graph: Graph,
    inputs: Sequence[int] = (),
    names: Mapping[int, str] | None = None,
    title: str = "",
    summary: str = "",
) -> Diagram:
    """The boxes of a graph.

    Args:
        graph: the graph.
        inputs: ids of the values that are given in each call. Other values from outside are
            weights, which are written into the ops that take them.
        names: of values, by id.
        title: stands above the drawing.
        summary: stands below the title.
    """
    names = names or {}
    values = graph.values
    boxes: list[Box] = []
    made: dict[int, tuple[int, int]] = {}  # by id of a value: box and output
    for id in inputs:
        made[id] = (len(boxes), 0)
        label = shape_text(values[id])
        boxes.append(Box(names.get(id, "input"), "input", outputs=[label], note=f"input: {label}"))
    for node in graph.nodes:
        box = Box(op_name(node), kind_of(op_name(node)), parts=parts_of(node), note=repr(node.op))
        box.details = _settings(node)
        box.inputs = [made[id] for id in node.inputs if id in made]
        weights = [id for id in node.inputs if id not in made]
        scope, own = split_names([names.get(id, "") for id in weights])
        box.details += weight_lines(own, [_Weight(values[id]) for id in weights])
        called = ", ".join([scope] * bool(scope) + [names[i] for i in node.outputs if i in names])
        if called:
            box.note = f"{called}: {box.note}"
        if scope:
            box.details.insert(0, scope)
        for i, id in enumerate(node.outputs):
            made[id] = (len(boxes), i)
            box.outputs.append(shape_text(values[id]))
        boxes.append(box)
    for i, id in enumerate(graph.outputs):
        name = names.get(id) if id not in inputs else None
        box = Box(name or (f"output {i}" if len(graph.outputs) > 1 else "output"), "output")
        if id in made:
            box.inputs = [made[id]]
        else:
            box.details = weight_lines([names.get(id, "")], [_Weight(values[id])])
        box.note = f"output: {shape_text(values[id])}"
        boxes.append(box)
    return Diagram(boxes, title, summary)
