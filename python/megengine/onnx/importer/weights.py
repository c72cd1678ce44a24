"""Which constants of a model are weights: what it learnt, and what it goes on learning from."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from ...module import Module
from ...tensor import Parameter, Tensor
from .graph import Call, Graph, Step
from .values import Array, is_float

__all__ = ["Container", "Slot", "take_weights"]


class Role(Enum):
    """What a constant is to the module."""

    PARAMETER = "parameter"
    BUFFER = "buffer"


# The inputs of ops that hold what is learnt. -1 stands for each.
_LEARNT: dict[str, tuple[int, ...]] = {
    "Attention": (0, 1, 2),
    "BatchNormalization": (1, 2),
    "CausalConvWithState": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "Einsum": (-1,),
    "GRU": (1, 2, 3),
    "Gemm": (-1,),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 7),
    "LayerNormalization": (1, 2),
    "MatMul": (-1,),
    "PRelu": (1,),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3),
}
# So are those of these ops, where there is more than one number: a bias that is added to a matrix
# product, a scale behind a normalisation. A single number is a part of a formula.
_LEARNT_IF_MANY = frozenset({"Add", "Sub", "Mul", "Div"})
# Embeddings.
_LEARNT_IF_MATRIX = {"Gather": (0,), "GatherND": (0,)}

_BUFFERS = {"BatchNormalization": (3, 4)}

# What is learnt may be rearranged on its way.
_REARRANGES = frozenset(
    {
        "Cast",
        "Concat",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


class Container(Module):
    """Holds weights under the names that the file gives them."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """Holds weights and computes nothing."""
        raise NotImplementedError("a part of an ONNX model holds weights and computes nothing")


class Slot:
    """The attribute of a module that holds a weight."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: Module, name: str) -> None:
        self._owner, self._name = owner, name

    def get(self) -> Tensor:
        """The weight that is there now."""
        return self._owner.__dict__[self._name]


def take_weights(graph: Graph, module: Module) -> None:
    """Makes the weights of a graph, and of the graphs in it, parameters and buffers of a module."""
    uses: dict[int, dict[str, list[tuple[Step, int]]]] = {}
    for part in _graphs(graph):
        for name, constant in list(part.constants.items()):
            array = constant.array
            role = _role(part, name, array, uses, set()) if is_float(array.dtype) else None
            if role is not None:
                del part.constants[name]
                part.weights[name] = _place(module, name, array, role)


def _graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and those inside it; not those of functions, whose constants are formulas."""
    yield graph
    for step in graph.steps:
        for body in step.graphs.values():
            yield from _graphs(body)


def _uses(
    graph: Graph, known: dict[int, dict[str, list[tuple[Step, int]]]]
) -> dict[str, list[tuple[Step, int]]]:
    """The steps that take each name, and as which input (-1: in a graph inside)."""
    found = known.get(id(graph))
    if found is None:
        found = known[id(graph)] = {}
        for step in graph.steps:
            for i, name in enumerate(step.inputs):
                found.setdefault(name, []).append((step, i))
            for body in step.graphs.values():
                for name in body.captured:
                    found.setdefault(name, []).append((step, -1))
    return found


def _role(
    graph: Graph,
    name: str,
    array: Array,
    known: dict[int, dict[str, list[tuple[Step, int]]]],
    seen: set[tuple[int, str]],
) -> Role | None:
    if (id(graph), name) in seen:
        return None
    seen.add((id(graph), name))
    role = None
    for step, i in _uses(graph, known).get(name, ()):
        found = None
        if i < 0:
            for body in step.graphs.values():
                if name in body.captured:
                    found = found or _role(body, name, array, known, seen)
        elif isinstance(step.impl, Call):
            inner = step.impl.graph
            found = _role(inner, inner.inputs[i], array, known, seen)
        elif _is_learnt(step.op, i, array):
            found = Role.PARAMETER
        elif i in _BUFFERS.get(step.op, ()):
            found = Role.BUFFER
        elif step.op in _REARRANGES and (i == 0 or step.op == "Concat"):
            for output in step.outputs:
                found = found or _role(graph, output, array, known, seen)
        if found is Role.PARAMETER:
            return found
        role = role or found
    return role


def _is_learnt(op: str, i: int, array: Array) -> bool:
    if op in _LEARNT:
        return i in _LEARNT[op] or -1 in _LEARNT[op]
    if op in _LEARNT_IF_MANY:
        return array.size > 1
    return i in _LEARNT_IF_MATRIX.get(op, ()) and array.ndim >= 2


def _place(module: Module, name: str, array: Array, role: Role) -> Slot:
    """Puts a weight into the module: ``a.b.c`` is attribute c of b of a."""
    *path, last = [part or "_" for part in name.split(".")] if name else ["_"]
    owner = module
    for part in path:
        while not isinstance(owner.__dict__.get(part), Container):
            if not hasattr(owner, part):
                setattr(owner, part, Container())
                break
            part += "_"
        owner = owner.__dict__[part]
    while hasattr(owner, last):
        last += "_"
    kind = Parameter if role is Role.PARAMETER else Tensor
    setattr(owner, last, kind(np.asarray(array), dtype=array.dtype))
    return Slot(owner, last)
