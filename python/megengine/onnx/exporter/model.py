"""From a plan to an ONNX model: each node by its rule, then names, types and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...version import __version__
from . import rules as rules  # fills the registry
from .arguments import Arguments
from .builder import Builder, Call, onnx_dtype
from .plan import Node, Plan, Value, has_sizes
from .registry import RULES, RefusedError, has_rule, why_not
from .sizes import DependsOnSizeError, Number, Size

LARGEST_FILE = 2**31 - 2**20  # protobuf's limit, with some room for the nodes
SMALLEST_OUTSIDE = 1024  # bytes of a constant that goes into the second file, if there is one
ALIGNMENT = 4096  # of constants there, so that readers can map them


def emit(builder: Builder) -> None:
    """Writes all nodes; raises NotImplementedError for all that cannot be, together."""
    plan = builder.plan
    used = plan.used
    refused: dict[str, list[str]] = {}
    for node in plan.nodes:
        builder.scope, builder.operands = _scope(node, plan), node.inputs
        names: str | list[str] = []
        try:
            call = Call(
                node,
                tuple(builder.arg(i) for i in node.inputs),
                tuple(plan.values[i] for i in node.outputs),
                tuple(i in used for i in node.outputs),
            )
            if not has_rule(node, plan):
                raise RefusedError(why_not(node))
            names = RULES[node.kind].rule(builder, call)
        except RefusedError as error:
            refused.setdefault(str(error), []).append(_shown(node))
        except DependsOnSizeError:
            refused.setdefault(
                "depends on a dynamic size, and ONNX wants a constant there; leave the axis static",
                [],
            ).append(_shown(node))
        names = [names] if isinstance(names, str) else names
        for i, name in zip(node.outputs, names, strict=False):
            builder.define(i, name)
        # A result that a rule leaves out is one that nobody reads; or the call was refused.
        for i in node.outputs[len(names) :]:
            builder.names[i] = "not exported"
    if refused:
        lines = [f"{', '.join(dict.fromkeys(ops))}: {reason}" for reason, ops in refused.items()]
        raise NotImplementedError("export: no file is written, because of\n  " + "\n  ".join(lines))


def _shown(node: Node) -> str:
    if not has_sizes(list(node.fields.values())):
        return repr(node.op)
    fields = ", ".join(f"{name}={_shown_field(v)}" for name, v in node.fields.items())
    return f"{node.kind}({fields})"


def _shown_field(value: Any) -> str:
    if isinstance(value, Size | Number):
        return "/".join(map(str, value.samples))
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_shown_field, value))})"
    return repr(value)


def _scope(node: Node, plan: Plan) -> str:
    """The layer that an op is of: that of the first named Tensor that it reads."""
    for i in node.inputs:
        name = plan.values[i].name
        if "." in name:
            return name.rpartition(".")[0]
    return ""


@dataclass(frozen=True)
class Model:
    """A model, and the constants that lie in a file beside it: where in the file, and which."""

    proto: onnx.ModelProto
    outside: list[tuple[int, np.ndarray[Any, Any]]]


def model_of(
    builder: Builder, arguments: Arguments, names: Sequence[str], data_file: str | None
) -> Model:
    """The ONNX model of what the builder has.

    Args:
        builder: after :func:`emit`.
        arguments: of the function.
        names: of the results.
        data_file: the name of a second file that large constants go to; None for no such file.

    Raises:
        ValueError: where the constants are too large for one file, and there is no second one.
    """
    plan, function = builder.plan, arguments.function
    symbols = {samples: name for name, samples in builder.symbols.items()}

    def info(name: str, value: Value) -> onnx.ValueInfoProto:
        dims: list[int | str] = [
            symbols.get(n.samples, f"{name}_{axis}") if isinstance(n, Size) else n
            for axis, n in enumerate(value.shape)
        ]
        return helper.make_tensor_value_info(name, onnx_dtype(value.dtype), dims)

    inputs = [
        info(leaf.name, plan.values[i])
        for leaf, i in zip(arguments.leaves, plan.inputs, strict=True)
    ]
    _name_outputs(builder, names)
    outputs = [info(name, plan.values[i]) for name, i in zip(names, plan.outputs, strict=True)]
    nodes = builder.needed_nodes(names)
    read = {name for node in nodes for name in node.input}
    constants = {name: array for name, array in builder.constants.items() if name in read}
    size = sum(array.nbytes for array in constants.values())
    if size > LARGEST_FILE and data_file is None:
        raise ValueError(
            f"export: the constants are {size / 2**30:.1f} GiB, and an ONNX file holds at most 2; "
            "external_data=True puts them into a file of their own"
        )
    initializers, outside = _initializers(constants, data_file)
    title = getattr(function, "__name__", type(function).__name__)
    graph = helper.make_graph(nodes, title, inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", builder.opset)]
    model = helper.make_model(graph, producer_name="openmge", producer_version=__version__)
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    # The newest version of the format that these operators need, so that old readers read it.
    model.ir_version = helper.find_min_ir_version_for(opsets)
    return Model(model, outside)


def _initializers(
    constants: Mapping[str, np.ndarray[Any, Any]], data_file: str | None
) -> tuple[list[onnx.TensorProto], list[tuple[int, np.ndarray[Any, Any]]]]:
    """Constants as ONNX has them; the large ones only say where they are in the second file."""
    tensors, outside, end = [], [], 0
    for name, array in constants.items():
        if data_file is None or array.nbytes < SMALLEST_OUTSIDE:
            tensors.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
            continue
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        end = begin + array.nbytes
        tensor = onnx.TensorProto(
            name=name,
            data_type=onnx_dtype(array.dtype),
            dims=array.shape,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        place = {"location": data_file, "offset": begin, "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
        outside.append((begin, array))
    return tensors, outside


def _name_outputs(builder: Builder, names: Sequence[str]) -> None:
    """Gives the results their names; what is not made by a node of its own goes through one."""
    made = {name for node in builder.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for i, name in zip(builder.plan.outputs, names, strict=True):
        current = builder.arg(i).name
        if current in made and current not in renamed:
            renamed[current] = name
        else:
            builder.nodes.append(
                helper.make_node("Identity", [renamed.get(current, current)], [name], name)
            )
    for node in builder.nodes:
        for names_of in (node.input, node.output):
            names_of[:] = [renamed.get(name, name) for name in names_of]
    for i, name in builder.names.items():
        builder.names[i] = renamed.get(name, name)
