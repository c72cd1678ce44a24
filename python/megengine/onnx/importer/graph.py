"""A graph: steps that run in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .registry import Context, Impl
from .values import Array, Constant, Value

__all__ = ["Body", "Call", "Graph", "Step"]


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

    def empty_output(self, i: int) -> Array:
        """No elements of the dtype and shape that the graph declares of output i."""
        dtype, shape = self._graph.declared[i] if self._graph.declared else (None, ())
        return np.zeros((0, *shape), np.float32 if dtype is None else dtype)

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
    attributes: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
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
    # What it says of its outputs: dtypes, and shapes with 0 for sizes that are not given.
    declared: list[tuple[np.dtype[Any] | None, tuple[int, ...]]] = field(default_factory=list)

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

    def part(self, xs: Sequence[str], y: str) -> Graph:
        """The steps that compute ``y`` from ``xs``, as a graph inside this one."""
        needed, steps = {y}, []
        for step in reversed(self.steps):
            if needed.intersection(step.outputs) and not set(xs).issuperset(step.outputs):
                steps.append(replace(step))
                needed.update(step.needs())
        given = {name for step in steps for name in step.outputs}
        captured = sorted(needed - given - set(xs))
        return Graph(list(xs), [y], steps[::-1], captured=captured)

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
