"""From protos to steps that run in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from . import registry
from .reader import Reader, attribute_value, check_text
from .registry import Context, Impl
from .values import Constant, Value

__all__ = ["Body", "Builder", "Call", "Graph", "Step"]

_MAX_STEPS = 300_000  # of a model, functions expanded
_MAX_DEPTH = 64  # of functions in functions and graphs in graphs


class Body:
    """A graph that a node holds (a branch, the body of a loop), in the midst of a run."""

    def __init__(self, graph: Graph, ctx: Context, outer: Mapping[str, Any]) -> None:
        self._graph, self._ctx, self._outer = graph, ctx, outer

    @property
    def n_inputs(self) -> int:
        """How many inputs the graph has."""
        return len(self._graph.inputs)

    @property
    def n_outputs(self) -> int:
        """How many outputs the graph has."""
        return len(self._graph.outputs)

    def __call__(self, *inputs: Value) -> list[Value]:
        """Computes the outputs of the graph."""
        return self._graph.run(self._ctx, inputs, self._outer)


@dataclass
class Call:
    """A node that stands for a function: it runs the graph of it."""

    graph: Graph

    folds = False

    def run(self, ctx: Context, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """Computes the outputs of the function."""
        found = self.graph.run(ctx, [x.array if isinstance(x, Constant) else x for x in inputs])
        return tuple(found)


@dataclass
class Step:
    """A node: what computes it, and the names of what it takes and gives."""

    label: str
    op: str
    impl: Impl | Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    graphs: dict[str, Graph]
    release: tuple[str, ...] = ()  # what nothing after this step needs

    def run(self, ctx: Context, env: dict[str, Any]) -> None:
        """Takes the inputs from ``env``, and puts the outputs there."""
        inputs = [env[name] if name else None for name in self.inputs]
        attributes = self.attributes
        if self.graphs:
            bodies = {name: Body(graph, ctx, env) for name, graph in self.graphs.items()}
            attributes = {**attributes, **bodies}
        ctx.n_outputs = len(self.outputs)
        try:
            found = self.impl.run(ctx, inputs, attributes)
            if not isinstance(found, tuple):
                found = (found,)
            if len(found) < len(self.outputs):
                raise NotImplementedError(f"output {self.outputs[len(found)]!r} is not computed")
        except Exception as error:
            error.add_note(f"in the ONNX node {self.label}")
            raise
        for name, value in zip(self.outputs, found, strict=False):
            if name:
                env[name] = value
        for name in self.release:
            del env[name]

    def needs(self) -> Iterable[str]:
        """The names of everything it reads."""
        yield from (name for name in self.inputs if name)
        for graph in self.graphs.values():
            yield from graph.captured


@dataclass
class Graph:
    """Steps in order, and the names of what goes in and comes out."""

    inputs: list[str]
    outputs: list[str]
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)  # name: a Slot of the module
    captured: list[str] = field(default_factory=list)  # names of the graphs around it

    def run(
        self, ctx: Context, inputs: Sequence[Value], outer: Mapping[str, Any] | None = None
    ) -> list[Value]:
        """Computes the outputs; ``outer`` holds the values of the graphs around this one."""
        env: dict[str, Any] = dict(self.constants)
        for name, slot in self.weights.items():
            env[name] = slot.get()
        if outer is not None:
            for name in self.captured:
                env[name] = outer[name]
        if len(inputs) > len(self.inputs):
            raise ValueError(f"expected {len(self.inputs)} inputs of a graph, got {len(inputs)}")
        env.update(zip(self.inputs, inputs, strict=False))
        for name in self.inputs[len(inputs) :]:
            env[name] = None
        for step in self.steps:
            step.run(ctx, env)
        found = [env[name] for name in self.outputs]
        return [value.array if isinstance(value, Constant) else value for value in found]

    def finish(self) -> None:
        """Notes after which step each value may go, once the steps are complete."""
        kept = {*self.outputs, *self.constants, *self.weights, *self.captured}
        last: dict[str, int] = {}
        for i, step in enumerate(self.steps):
            for name in (*step.outputs, *step.needs()):
                if name and name not in kept:
                    last[name] = i
        release: list[list[str]] = [[] for _ in self.steps]
        for name, i in last.items():
            release[i].append(name)
        for step, names in zip(self.steps, release, strict=True):
            step.release = tuple(names)
            for graph in step.graphs.values():
                graph.finish()
            if isinstance(step.impl, Call):
                step.impl.graph.finish()

    def fold(self, outer: Mapping[str, Constant] | None = None) -> None:
        """Computes what depends on constants only."""
        ctx = Context()
        known = {name: outer[name] for name in self.captured if name in outer} if outer else {}
        known.update((n, c) for n, c in self.constants.items() if n not in self.weights)
        steps = []
        for step in self.steps:
            for graph in step.graphs.values():
                graph.fold(known)
            if isinstance(step.impl, Call):
                step.impl.graph.fold()
            constant = all(name in known for name in step.inputs if name)
            if step.impl.folds and constant and not step.graphs and _fold(step, ctx, known):
                self.constants.update((n, known[n]) for n in step.outputs if n)
            else:
                steps.append(step)
        self.steps = steps
        needed = {*self.outputs, *(name for step in steps for name in step.needs())}
        self.constants = {n: c for n, c in self.constants.items() if n in needed}


# Up to this many elements in all, any op is computed when the model is loaded: what comes out is at
# most the square of that. Of more, only what is no larger than its inputs.
_FOLDED_ELEMENTS = 4096
_FOLDED_ALWAYS = frozenset(
    {
        "Cast",
        "Concat",
        "DequantizeLinear",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


def _fold(step: Step, ctx: Context, known: dict[str, Constant]) -> bool:
    env: dict[str, Any] = {name: known[name] for name in step.inputs if name}
    small = sum(constant.array.size for constant in env.values()) <= _FOLDED_ELEMENTS
    if not small and step.op not in _FOLDED_ALWAYS:
        return False
    try:
        step.run(ctx, env)
    except Exception:  # It may never be run; if it is, it raises then.
        return False
    found = {name: env[name] for name in step.outputs if name}
    if not all(hasattr(value, "dtype") and hasattr(value, "flags") for value in found.values()):
        return False
    known.update((name, Constant(value)) for name, value in found.items())
    return True


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
        self._stack: list[Any] = []
        self._n_steps = 0
        self.unsupported: Counter[str] = Counter()

    def graph(
        self, proto: GraphProto, domains: Mapping[str, int], outer: frozenset[str] = frozenset()
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
        self._nodes(graph, proto.node, domains, outer, {})
        return graph

    def _nodes(
        self,
        graph: Graph,
        nodes: Iterable[NodeProto],
        domains: Mapping[str, int],
        outer: frozenset[str],
        parameters: Mapping[str, AttributeProto],
    ) -> None:
        known = {*graph.inputs, *graph.constants}
        if len(known) != len(graph.inputs) + len(graph.constants):
            raise ValueError("onnx.load: two inputs of a graph have the same name")
        captured: dict[str, None] = {}
        check_text(*graph.inputs, *graph.outputs)
        for node in nodes:
            check_text(node.op_type, node.domain, node.name, node.overload)
            check_text(*node.input, *node.output)
            for attribute in node.attribute:
                check_text(attribute.name, attribute.ref_attr_name)
            around = outer | known
            label = f"{node.name!r} ({node.op_type})" if node.name else f"({node.op_type})"
            step = self._step(graph, node, label, domains, frozenset(around), parameters)
            outputs = [name for name in node.output if name]
            for name in () if step is None else step.needs():
                if name not in around:
                    raise ValueError(
                        f"onnx.load: node {label} takes {name!r}, which nothing before it gives"
                    )
                if name not in known:
                    captured[name] = None
            for name in outputs:
                if name in known:
                    raise ValueError(f"onnx.load: {name!r} is given twice, by node {label} too")
                known.add(name)
            if step is not None:
                graph.steps.append(step)
        for name in graph.outputs:
            if name not in known:
                if name not in outer:
                    raise ValueError(f"onnx.load: nothing gives the output {name!r}")
                captured[name] = None
        graph.captured = list(captured)

    def _step(
        self,
        graph: Graph,
        node: NodeProto,
        label: str,
        domains: Mapping[str, int],
        around: frozenset[str],
        parameters: Mapping[str, AttributeProto],
    ) -> Step | None:
        self._n_steps += 1
        if self._n_steps > _MAX_STEPS:
            raise ValueError(f"onnx.load: the model has more than {_MAX_STEPS} nodes")
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = _resolved(node, label, parameters)
        if (domain, node.op_type) == ("", "Constant"):
            if len(node.output) != 1 or node.input:
                raise ValueError(f"onnx.load: node {label} must have one output and no inputs")
            _add(graph.constants, node.output[0], self._constant(attributes, label))
            return None
        impl = self._implementation(node, domain, domains, attributes)
        if impl is None:
            return None
        values: dict[str, Any] = {}
        graphs: dict[str, Graph] = {}
        if isinstance(impl, Impl):
            _check_inputs(node, impl, label)
            for name, (hint, default) in impl.signature.attributes.items():
                if name not in attributes and default is registry.REQUIRED:
                    raise ValueError(f"onnx.load: node {label} lacks the attribute {name!r}")
                if name in attributes:
                    value = attribute_value(attributes[name], self._reader)
                    if isinstance(value, GraphProto):
                        graphs[name] = self._body(value, domains, around)
                    elif not registry.fits(value, hint):
                        raise ValueError(
                            f"onnx.load: node {label}: attribute {name!r} has a value of a wrong "
                            f"type: {type(value).__name__}"
                        )
                    else:
                        values[name] = value
                    if (name in graphs) != (Body in registry.members(hint)):
                        raise ValueError(
                            f"onnx.load: node {label}: attribute {name!r} has a wrong type"
                        )
            unknown = sorted(set(attributes) - set(impl.signature.attributes))
            if unknown:
                raise ValueError(f"onnx.load: node {label} has unknown attributes {unknown}")
        elif len(node.input) > len(impl.graph.inputs) or len(node.output) > len(impl.graph.outputs):
            raise ValueError(
                f"onnx.load: node {label} has more inputs or outputs than its function"
            )
        if domain == "ai.onnx.preview.training" and node.op_type == "Gradient":
            graphs["of"] = _part_of(graph, values["xs"], values["y"])
        return Step(
            label, node.op_type, impl, tuple(node.input), tuple(node.output), values, graphs
        )

    def _body(self, proto: GraphProto, domains: Mapping[str, int], around: frozenset[str]) -> Graph:
        if len(self._stack) >= _MAX_DEPTH:
            raise ValueError(f"onnx.load: graphs are nested more than {_MAX_DEPTH} deep")
        self._stack.append(None)
        try:
            return self.graph(proto, domains, around)
        finally:
            self._stack.pop()

    def _constant(self, attributes: Mapping[str, AttributeProto], label: str) -> Constant:
        if len(attributes) != 1:
            raise ValueError(f"onnx.load: node {label} must have one attribute, its value")
        ((name, proto),) = attributes.items()
        value = attribute_value(proto, self._reader)
        dtypes = {
            "value": None, "sparse_value": None, "value_int": "int64", "value_ints": "int64",
            "value_float": "float32", "value_floats": "float32",
            "value_string": "object", "value_strings": "object",
        }  # fmt: skip
        if name not in dtypes:
            raise ValueError(f"onnx.load: node {label} has an unknown attribute {name!r}")
        try:
            return Constant(np.array(value, dtype=dtypes[name]))
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"onnx.load: node {label}: {error}") from error

    def _implementation(
        self,
        node: NodeProto,
        domain: str,
        domains: Mapping[str, int],
        attributes: Mapping[str, AttributeProto],
    ) -> Impl | Call | None:
        for key in ((node.domain, node.op_type, node.overload), (domain, node.op_type, "")):
            if key in self._functions:
                function = self._functions[key]
                return self._call(key, function, imports_of(function.opset_import), attributes)
        name = f"{domain or 'ai.onnx'}::{node.op_type}"
        if domain not in domains:
            raise ValueError(
                f"onnx.load: the model uses {name} and imports no operator set of that domain"
            )
        version = domains[domain]
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            impl = registry.find(domain, node.op_type, version)
            if impl is None:
                self.unsupported[f"{name} (version {version})"] += 1
            return impl
        known = registry.KNOWN_VERSIONS.get(domain, 0)
        newest = max(known, onnx.defs.onnx_opset_version() if domain == "" else version)
        if schema.since_version <= known and version <= newest:
            impl = registry.find(domain, node.op_type, schema.since_version)
            if impl is not None:
                return impl
            if schema.has_function:
                proto = FunctionProto()
                proto.ParseFromString(schema.get_function_with_opset_version(version))
                imports = imports_of(proto.opset_import) or {domain: version}
                known_as = (domain, node.op_type, version)
                defaults = {
                    name: attribute.default_value
                    for name, attribute in schema.attributes.items()
                    if attribute.default_value.name
                }
                attributes = {**defaults, **attributes}
                return self._call(known_as, proto, {**imports, domain: version}, attributes)
        self.unsupported[f"{name} (version {schema.since_version})"] += 1
        return None

    def _call(
        self,
        key: Any,
        function: FunctionProto,
        domains: Mapping[str, int],
        attributes: Mapping[str, AttributeProto],
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
            self._nodes(graph, function.node, domains, frozenset(), parameters)
        finally:
            self._stack.pop()
        if not attributes:
            self._calls[key] = graph
        return Call(graph)


def _part_of(graph: Graph, xs: Sequence[str], y: str) -> Graph:
    """The steps of a graph that compute ``y`` from ``xs``."""
    needed, steps = {y}, []
    for step in reversed(graph.steps):
        if needed.intersection(step.outputs) and not set(xs).issuperset(step.outputs):
            steps.append(replace(step))
            needed.update(step.needs())
    given = {name for step in steps for name in step.outputs}
    captured = sorted(needed - given - set(xs))
    return Graph(list(xs), [y], steps[::-1], captured=captured)


def imports_of(opsets: Iterable[Any]) -> dict[str, int]:
    """The version of each operator set, by domain."""
    check_text(*(o.domain for o in opsets))
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in opsets}


def _add(constants: dict[str, Constant], name: str, constant: Constant) -> None:
    if name in constants:
        raise ValueError(f"onnx.load: {name!r} is given twice")
    constants[name] = constant


def _resolved(
    node: NodeProto, label: str, parameters: Mapping[str, AttributeProto]
) -> dict[str, AttributeProto]:
    """The attributes of a node, with those of the function around it put in for references."""
    found: dict[str, AttributeProto] = {}
    for proto in node.attribute:
        if proto.name in found:
            raise ValueError(f"onnx.load: node {label} has the attribute {proto.name!r} twice")
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


def _with_references(
    proto: AttributeProto, parameters: Mapping[str, AttributeProto]
) -> AttributeProto:
    """A graph inside a function, with the attributes that its nodes refer to put in."""
    copy = AttributeProto()
    copy.CopyFrom(proto)
    for node in copy.g.node:
        attributes = list(_resolved(node, node.op_type, parameters).values())
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
