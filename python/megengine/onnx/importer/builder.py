"""From protos to graphs. What is wrong with a model raises ValueError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from . import registry
from .graph import Body, Call, Graph, Step
from .reader import Reader, attribute_value, check_text
from .registry import Impl
from .values import Constant, dtype_from_onnx

__all__ = ["Builder", "imports_of"]

_MAX_STEPS = 300_000  # of a model, functions expanded
_MAX_DEPTH = 64  # of functions in functions and graphs in graphs

_Attributes = Mapping[str, AttributeProto]


@dataclass
class _Scope:
    """What nodes of one graph see."""

    graph: Graph
    versions: Mapping[str, int]  # of operator sets, by domain
    outer: Set[str]  # names of the graphs around it
    parameters: _Attributes  # attributes of the function around it
    known: set[str] = field(default_factory=set)  # names given so far


class Builder:
    """Makes graphs of the protos of a model, and collects what cannot be computed.

    Args:
        model: the model.
        reader: makes arrays of its tensors.
    """

    def __init__(self, model: ModelProto, reader: Reader) -> None:
        self._reader = reader
        for f in model.functions:
            check_text(f.domain, f.name, f.overload, *f.input, *f.output, *f.attribute)
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._calls: dict[Any, Graph] = {}
        self._stack: list[Any] = []  # the functions and bodies that are being built
        self._n_steps = 0
        self.unsupported: Counter[str] = Counter()

    def graph(
        self, proto: GraphProto, versions: Mapping[str, int], outer: Set[str] = frozenset()
    ) -> Graph:
        """A graph; ``outer`` are the names of the graphs around it."""
        constants: dict[str, Constant] = {}
        for tensor in proto.initializer:
            _add(constants, tensor.name, Constant(self._reader.tensor(tensor)))
        for sparse in proto.sparse_initializer:
            array = self._reader.sparse_tensor(sparse)
            _add(constants, sparse.values.name, Constant(array))
        inputs = [i.name for i in proto.input if i.name not in constants]
        graph = Graph(inputs, [o.name for o in proto.output], constants=constants)
        graph.declared = [_declared(info) for info in proto.output]
        self._nodes(_Scope(graph, versions, outer, {}), proto.node)
        return graph

    def _nodes(self, scope: _Scope, nodes: Iterable[NodeProto]) -> None:
        graph, known = scope.graph, scope.known
        check_text(*graph.inputs, *graph.outputs)
        known.update(graph.inputs, graph.constants)
        if len(known) != len(graph.inputs) + len(graph.constants):
            raise ValueError("onnx.load: two inputs of a graph have the same name")
        captured: dict[str, None] = {}
        for node in nodes:
            _check_names(node)
            step = self._step(scope, node)
            if step is not None:
                for name in step.needs():
                    if name not in known:
                        if name not in scope.outer:
                            raise ValueError(
                                f"onnx.load: node {step.label} takes {name!r}, which nothing "
                                "before it gives"
                            )
                        captured[name] = None
                graph.steps.append(step)
            for name in filter(None, node.output):
                if name in known:
                    raise ValueError(
                        f"onnx.load: {name!r} is given twice, by node {_label(node)} too"
                    )
                known.add(name)
        for name in graph.outputs:
            if name not in known:
                if name not in scope.outer:
                    raise ValueError(f"onnx.load: nothing gives the output {name!r}")
                captured[name] = None
        graph.captured = list(captured)

    def _step(self, scope: _Scope, node: NodeProto) -> Step | None:
        """The step of a node; None for constants, and for what is not supported."""
        self._n_steps += 1
        if self._n_steps > _MAX_STEPS:
            raise ValueError(f"onnx.load: the model has more than {_MAX_STEPS} nodes")
        label, domain = _label(node), _domain(node.domain)
        attributes = _resolved(node, scope.parameters)
        if (domain, node.op_type) == ("", "Constant"):
            if len(node.output) != 1 or node.input:
                raise ValueError(f"onnx.load: node {label} must have one output and no inputs")
            _add(scope.graph.constants, node.output[0], self._constant(attributes, label))
            return None
        impl = self._implementation(node, domain, scope.versions, attributes)
        if impl is None:
            return None
        step = Step(label, node.op_type, impl, tuple(node.input), tuple(node.output))
        if isinstance(impl, Call):
            if len(node.input) > len(impl.graph.inputs) or len(node.output) > len(
                impl.graph.outputs
            ):
                raise ValueError(
                    f"onnx.load: node {label} has more inputs or outputs than its function"
                )
            return step
        _check_inputs(node, impl, label)
        self._set_attributes(step, impl, attributes, scope)
        if (domain, node.op_type) == ("ai.onnx.preview.training", "Gradient"):
            step.graphs["of"] = scope.graph.part(step.attributes["xs"], step.attributes["y"])
        return step

    def _set_attributes(
        self, step: Step, impl: Impl, attributes: _Attributes, scope: _Scope
    ) -> None:
        """Reads the attributes of a node, as its function wants them."""
        wanted = impl.signature.attributes
        unknown = sorted(set(attributes) - set(wanted))
        if unknown:
            raise ValueError(f"onnx.load: node {step.label} has unknown attributes {unknown}")
        for name, (hint, default) in wanted.items():
            if name not in attributes:
                if default is registry.REQUIRED:
                    raise ValueError(f"onnx.load: node {step.label} lacks the attribute {name!r}")
                continue
            value = attribute_value(attributes[name], self._reader)
            if isinstance(value, GraphProto) and Body in registry.members(hint):
                step.graphs[name] = self._body(value, scope)
            elif registry.fits(value, hint):
                step.attributes[name] = value
            else:
                raise ValueError(
                    f"onnx.load: node {step.label}: attribute {name!r} has a value of a wrong "
                    f"type: {type(value).__name__}"
                )

    def _body(self, proto: GraphProto, scope: _Scope) -> Graph:
        if len(self._stack) >= _MAX_DEPTH:
            raise ValueError(f"onnx.load: graphs are nested more than {_MAX_DEPTH} deep")
        self._stack.append(None)
        try:
            return self.graph(proto, scope.versions, scope.outer | scope.known)
        finally:
            self._stack.pop()

    def _constant(self, attributes: _Attributes, label: str) -> Constant:
        if len(attributes) != 1:
            raise ValueError(f"onnx.load: node {label} must have one attribute, its value")
        ((name, proto),) = attributes.items()
        dtypes = {
            "value": None, "sparse_value": None, "value_int": "int64", "value_ints": "int64",
            "value_float": "float32", "value_floats": "float32",
            "value_string": "object", "value_strings": "object",
        }  # fmt: skip
        if name not in dtypes:
            raise ValueError(f"onnx.load: node {label} has an unknown attribute {name!r}")
        value = attribute_value(proto, self._reader)
        try:
            return Constant(np.array(value, dtype=dtypes[name]))
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"onnx.load: node {label}: {error}") from error

    def _implementation(
        self, node: NodeProto, domain: str, versions: Mapping[str, int], attributes: _Attributes
    ) -> Impl | Call | None:
        """What computes a node: a function of the model, of the registry, or of the standard."""
        for key in ((node.domain, node.op_type, node.overload), (domain, node.op_type, "")):
            if key in self._functions:
                function = self._functions[key]
                return self._call(key, function, imports_of(function.opset_import), attributes)
        name = f"{domain or 'ai.onnx'}::{node.op_type}"
        if domain not in versions:
            raise ValueError(
                f"onnx.load: the model uses {name} and imports no operator set of that domain"
            )
        version = versions[domain]
        since, found = version, None
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            found = registry.find(domain, node.op_type, version)
        else:
            since = schema.since_version
            if _is_known(domain, since, version):
                found = registry.find(domain, node.op_type, since)
                if found is None and schema.has_function:
                    return self._standard_function(schema, domain, version, attributes)
        if found is None:
            self.unsupported[f"{name} (version {since})"] += 1
        return found

    def _standard_function(
        self, schema: Any, domain: str, version: int, attributes: _Attributes
    ) -> Call:
        """A call of an operator that the standard defines by other operators."""
        function = FunctionProto()
        function.ParseFromString(schema.get_function_with_opset_version(version))
        defaults = {
            name: attribute.default_value
            for name, attribute in schema.attributes.items()
            if attribute.default_value.name
        }
        versions = {**imports_of(function.opset_import), domain: version}
        key = (domain, schema.name, version)
        return self._call(key, function, versions, {**defaults, **attributes})

    def _call(
        self,
        key: Any,
        function: FunctionProto,
        versions: Mapping[str, int],
        attributes: _Attributes,
    ) -> Call:
        if not attributes and key in self._calls:
            return Call(self._calls[key])
        if key in self._stack:
            raise ValueError(f"onnx.load: the function {function.name!r} calls itself")
        if len(self._stack) >= _MAX_DEPTH:
            raise ValueError(f"onnx.load: functions are nested more than {_MAX_DEPTH} deep")
        parameters = {proto.name: proto for proto in function.attribute_proto}
        parameters.update(attributes)
        graph = Graph(list(function.input), list(function.output))
        self._stack.append(key)
        try:
            self._nodes(_Scope(graph, versions, frozenset(), parameters), function.node)
        finally:
            self._stack.pop()
        if not attributes:
            self._calls[key] = graph
        return Call(graph)


def _is_known(domain: str, since: int, version: int) -> bool:
    """Whether an operator that changed in ``since`` is one that the functions were written for.

    Of an operator set that is newer than the onnx package, nothing is known.
    """
    known = registry.KNOWN_VERSIONS.get(domain, 0)
    newest = max(known, onnx.defs.onnx_opset_version()) if domain == "" else version
    return since <= known and version <= newest


def _declared(info: ValueInfoProto) -> tuple[np.dtype[Any] | None, tuple[int, ...]]:
    """The dtype and shape that a graph states of an output."""
    tensor = info.type.tensor_type
    dtype = dtype_from_onnx(tensor.elem_type) if tensor.elem_type else None
    return dtype, tuple(max(d.dim_value, 0) for d in tensor.shape.dim)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _label(node: NodeProto) -> str:
    return f"{node.name!r} ({node.op_type})" if node.name else f"({node.op_type})"


def _check_names(node: NodeProto) -> None:
    check_text(node.op_type, node.domain, node.name, node.overload, *node.input, *node.output)
    for attribute in node.attribute:
        check_text(attribute.name, attribute.ref_attr_name)


def imports_of(opsets: Iterable[Any]) -> dict[str, int]:
    """The version of each operator set, by domain."""
    check_text(*(o.domain for o in opsets))
    return {_domain(o.domain): o.version for o in opsets}


def _add(constants: dict[str, Constant], name: str, constant: Constant) -> None:
    if name in constants:
        raise ValueError(f"onnx.load: {name!r} is given twice")
    constants[name] = constant


def _resolved(node: NodeProto, parameters: _Attributes) -> dict[str, AttributeProto]:
    """The attributes of a node, with those of the function around it put in for references."""
    found: dict[str, AttributeProto] = {}
    for proto in node.attribute:
        if proto.name in found:
            raise ValueError(
                f"onnx.load: node {_label(node)} has the attribute {proto.name!r} twice"
            )
        if proto.ref_attr_name:
            if proto.ref_attr_name not in parameters:
                continue  # one that the call leaves out, and that has no default
            copy = AttributeProto()
            copy.CopyFrom(parameters[proto.ref_attr_name])
            copy.name = proto.name
            proto = copy
        if proto.type == AttributeProto.UNDEFINED:
            proto = _with_type(proto)
        if proto.type == AttributeProto.GRAPH and parameters:
            proto = _with_references(proto, parameters)
        found[proto.name] = proto
    return found


def _with_type(proto: AttributeProto) -> AttributeProto:
    """Files of the first version of the format leave out which field holds the value."""
    fields = {
        "f": AttributeProto.FLOAT, "i": AttributeProto.INT, "s": AttributeProto.STRING,
        "t": AttributeProto.TENSOR, "g": AttributeProto.GRAPH,
        "floats": AttributeProto.FLOATS, "ints": AttributeProto.INTS,
        "strings": AttributeProto.STRINGS, "tensors": AttributeProto.TENSORS,
    }  # fmt: skip
    for descriptor, _ in proto.ListFields():
        if descriptor.name in fields:
            copy = AttributeProto()
            copy.CopyFrom(proto)
            copy.type = fields[descriptor.name]
            return copy
    return proto


def _with_references(proto: AttributeProto, parameters: _Attributes) -> AttributeProto:
    """A graph inside a function, with the attributes that its nodes refer to put in."""
    copy = AttributeProto()
    copy.CopyFrom(proto)
    for node in copy.g.node:
        attributes = list(_resolved(node, parameters).values())
        del node.attribute[:]
        node.attribute.extend(attributes)
    return copy


def _check_inputs(node: NodeProto, impl: Impl, label: str) -> None:
    signature = impl.signature
    given, most = len(node.input), len(signature.inputs)
    if given > most and signature.rest is None:
        raise ValueError(f"onnx.load: node {label} takes at most {most} inputs, got {given}")
    for i in range(signature.n_required):
        if i >= given or not node.input[i]:
            raise ValueError(f"onnx.load: node {label} lacks its input {i}")
