"""How much work a graph is: parameters, operations and activations by kind of op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .._core import Graph
from .diagram import kind_of, op_name, parts_of

__all__ = ["OpRow", "op_rows", "operations", "summary", "table_text"]


class OpRow(NamedTuple):
    """Sums over the ops of one kind.

    Args:
        op: the kind; elementwise ops by their mode.
        number: how many there are.
        parameters: numbers in their weights. A weight that several ops take counts once.
        operations: see :func:`operations`.
        activations: bytes of what they make; reshaped views count as well.
    """

    op: str
    number: int
    parameters: int
    operations: int
    activations: int


# Of an op's fields, inputs and outputs (of which the shapes count).
Rule = Callable[[Mapping[str, Any], Sequence[Any], Sequence[Any]], int]


def _size(value: Any) -> int:
    return math.prod(value.shape)


def _window(weight: Any, image: Any) -> int:
    """How many weights an output number of a convolution takes: channels of a group x window."""
    return math.prod(weight.shape[-(len(image.shape) - 1) :])


def _attention(fields: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    query, key = inputs[0], inputs[1]
    return (_size(query) + _size(outputs[0])) * key.shape[-2]


def _multi_head_attention(
    fields: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]
) -> int:
    query, key, _, weights = inputs[:4]
    attention = 2 * _size(query) * key.shape[1]
    return attention + _size(weights) * query.shape[0] * query.shape[1]


def _recurrent(fields: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """A multiply-add for each weight in each step."""
    steps = math.prod(inputs[0].shape[:2])
    weights = inputs[2 if fields.get("mode") != "LSTM" else 3 :]
    return steps * sum(_size(v) for v in weights if len(v.shape) < 3)


def _product(fields: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """A multiply-add for each term of the sum that an output number is."""
    return _size(outputs[0]) * inputs[0].shape[-2 if fields.get("transposeA") else -1]


def _of_outputs(each: int) -> Rule:
    return lambda fields, inputs, outputs: _size(outputs[0]) * each


def _of_inputs(each: int) -> Rule:
    return lambda fields, inputs, outputs: _size(inputs[0]) * each


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        [
            "Convolution",
            "Convolution3D",
            "ConvBias",
            "BatchConvBias",
            "DeformableConv",
            "RegionRestrictedConvolution",
        ],
        lambda fields, inputs, outputs: _size(outputs[0]) * _window(inputs[1], outputs[0]),
    ),
    **dict.fromkeys(
        ["ConvolutionBackwardData", "Convolution3DBackwardData"],
        lambda fields, inputs, outputs: _size(inputs[1]) * _window(inputs[0], outputs[0]),
    ),
    **dict.fromkeys(
        ["ConvolutionBackwardFilter", "Convolution3DBackwardFilter"],
        lambda fields, inputs, outputs: _size(inputs[1]) * _window(outputs[0], inputs[0]),
    ),
    "GroupLocal": lambda fields, inputs, outputs: (
        _size(outputs[0]) * math.prod(inputs[1].shape[3:6])
    ),
    **dict.fromkeys(["MatrixMul", "BatchedMatrixMul", "Linear"], _product),
    "Dot": _of_inputs(1),
    "ScaledDotProductAttention": _attention,
    "MultiHeadAttn": _multi_head_attention,
    **dict.fromkeys(["RNN", "LSTM", "RecurrentLayer"], _recurrent),
    "Pooling": lambda fields, inputs, outputs: (
        _size(outputs[0]) * fields["window_h"] * fields["window_w"]
    ),
    **dict.fromkeys(
        ["BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "GeneralNorm"], _of_inputs(7)
    ),
    **dict.fromkeys(["Reduce", "Argmax", "Argmin", "Variance", "Norm2"], _of_inputs(1)),
}


def operations(
    op: str, fields: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]
) -> int:
    """Multiply-adds of an op, counted as :func:`megengine.utils.module_stats.module_stats` does.

    A normalised number counts 7, one of a pooled window 1, and so does an output number of any
    other op. Ops that only move numbers count nothing.

    Args:
        op: its kind.
        fields: its attributes.
        inputs: anything with the shapes of its inputs.
        outputs: likewise.

    >>> import megengine.functional as F
    >>> operations("Linear", {}, [F.ones((2, 8)), F.ones((4, 8))], [F.ones((2, 4))])
    64
    """
    rule = _RULES.get(op.removeprefix("Fused"))
    if rule is not None:
        return rule(fields, inputs, outputs)
    if kind_of(op) in ("shape", "indexing", "source"):
        return 0
    return sum(_size(v) for v in outputs[:1])


def op_rows(graph: Graph) -> list[OpRow]:
    """A row for each kind of op in a graph, those with most operations first.

    >>> import megengine as mge
    >>> from megengine.jit.recording import record
    >>> recording = record(lambda x: x * x + x, mge.tensor([1.0, 2.0]))
    >>> for row in op_rows(recording.graph):
    ...     print(*row)
    add 1 0 2 8
    mul 1 0 2 8
    """
    values = graph.values
    sums: dict[str, list[int]] = {}
    counted: set[int] = set()
    for node in graph.nodes:
        outputs = [values[i] for i in node.outputs]
        work = operations(node.kind, node.fields, [values[i] for i in node.inputs], outputs)
        work += _size(outputs[0]) * max(len(parts_of(node)) - 1, 0)
        weights = {i for i in node.inputs if values[i].constant is not None} - counted
        counted |= weights
        row = [
            1,
            sum(_size(values[i]) for i in weights),
            work,
            sum(_size(v) * v.dtype.itemsize for v in outputs),
        ]
        name = op_name(node)
        sums[name] = [a + b for a, b in zip(sums.get(name, [0] * 4), row, strict=True)]
    rows = [OpRow(name, *numbers) for name, numbers in sums.items()]
    return sorted(rows, key=lambda r: (-r.operations, -r.activations, r.op))


def _short(number: int, base: int = 1000) -> str:
    """1234567 is 1.23 M."""
    value, units = float(number), ["", "K", "M", "G", "T", "P"]
    while value >= base and len(units) > 1:
        value /= base
        units.pop(0)
    if not units[0]:
        return str(number)
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {units[0]}"


def _bytes(number: int) -> str:
    text = _short(number, 1024)
    return text + ("B" if text[-1].isalpha() else " B")


def summary(rows: Sequence[OpRow]) -> str:
    """One line about all of a graph."""
    total = [sum(column) for column in zip(*(r[1:] for r in rows), strict=True)] or [0] * 4
    return (
        f"{total[0]} ops, {_short(total[1])} parameters, {_short(total[2])} multiply-adds, "
        f"{_bytes(total[3])} of activations"
    )


def table_text(rows: Sequence[OpRow]) -> str:
    """The rows and their sum as a table.

    >>> print(table_text([OpRow("Linear", 2, 5000, 123456, 2048)]))
    op      number  parameters  multiply-adds  activations
    Linear       2      5.00 K          123 K      2.00 KB
    """
    cells = [["op", "number", "parameters", "multiply-adds", "activations"]]
    lines = list(rows)
    if len(rows) > 1:
        sums = (sum(column) for column in zip(*(r[1:] for r in rows), strict=True))
        lines.append(OpRow("total", *sums))
    for r in lines:
        cells.append(
            [r.op, str(r.number), _short(r.parameters), _short(r.operations), _bytes(r.activations)]
        )
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
