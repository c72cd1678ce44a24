"""Writes the nodes of an ONNX graph. Export rules call it; it knows no op of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...jit.explaining import Explainer
from ...jit.sizes import Dim, Expression
from .arithmetic import arithmetic
from .plan import Node, Plan, Value
from .sizes import AnySize, DependsOnSizeError, Formula, Number, Shape, Size, is_static

SMALL = 64  # elements of a constant that is written once, however often it is made


def onnx_dtype(dtype: np.dtype[Any]) -> int:
    """The number that ONNX has for a dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of floats; NumPy does not count bfloat16 among them."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


class Arg:
    """An operand of the call that is exported.

    A constant is written into the file only when a rule asks its name: some rules want it in
    another shape, or want its numbers alone.

    Args:
        dtype: of its elements.
        shape: its sizes.
        name: in the graph; may be left out for a constant.
        constant: its contents, where they are known.
        base: what a constant is to be called.
        builder: where a constant without a name goes.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        shape: Shape,
        name: str = "",
        *,
        constant: np.ndarray[Any, Any] | None = None,
        base: str = "",
        builder: Builder | None = None,
    ) -> None:
        self.dtype, self.shape, self.constant, self.base = dtype, shape, constant, base
        self._name, self._builder = name, builder

    @property
    def name(self) -> str:
        """Its name in the graph."""
        if not self._name:
            assert self._builder is not None
            self._name = self._builder.constant(self.constant, name=self.base)
        return self._name

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)


@dataclass(frozen=True)
class Call:
    """A node of the plan as an export rule sees it.

    Args:
        node: fields as ``call["axis"]``.
        inputs: its operands.
        outputs: dtype and shape of its results.
        used: which results somebody reads.
    """

    node: Node
    inputs: tuple[Arg, ...]
    outputs: tuple[Value, ...]
    used: tuple[bool, ...]

    def __getitem__(self, field: str) -> Any:
        return self.node.fields[field]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the first result."""
        return self.outputs[0].dtype

    @property
    def shape(self) -> Shape:
        """Of the first result."""
        return self.outputs[0].shape


class Builder:
    """An ONNX graph that grows.

    Args:
        plan: what is exported.
        opset: version of the operator set, 17 to 23.
        symbols: the samples of each dynamic size, by name.
        input_names: of the plan's inputs.
        reserved: names that values on the way must not have.
        odd: how many of the samples, the last ones, are of odd sizes.
    """

    def __init__(
        self,
        plan: Plan,
        opset: int,
        symbols: dict[str, tuple[int, ...]],
        input_names: Sequence[str],
        reserved: Sequence[str],
        odd: int = 0,
    ) -> None:
        self.plan, self.opset, self.symbols, self.odd = plan, opset, symbols, odd
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.names: dict[int, str] = dict(zip(plan.inputs, input_names, strict=True))
        self.scope = ""
        self.operands: tuple[int, ...] = ()  # of the node that is written
        self._taken = {*input_names, *reserved}
        self._small: dict[Any, str] = {}  # names of small constants, by their contents
        self._cache: dict[Any, str] = {}  # names of what is written once
        self._args: dict[int, Arg] = {}
        self._derived: dict[tuple[Arg, Any], Arg] = {}
        self._ready: list[int] = list(plan.inputs)  # values that are there, in order

    # ---- names -----------------------------------------------------------------------------------

    def unique(self, wanted: str) -> str:
        """The name, or with a number where it is taken."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def arg(self, i: int) -> Arg:
        """A value of the plan as an operand."""
        if i not in self._args:
            self._args[i] = self._new_arg(i)
        return self._args[i]

    def _new_arg(self, i: int) -> Arg:
        value = self.plan.values[i]
        if i in self.names or value.constant is None:
            return Arg(value.dtype, value.shape, self.names[i])
        if value.constant.dtype == object:  # numbers that are computed from sizes
            numbers = list(value.constant.reshape(-1))
            if all(isinstance(n, int | Size) for n in numbers):
                name = self.cast(self.sizes(numbers), value.dtype, given="int64")
            else:
                parts = [self.number(n, value.dtype) for n in numbers]
                name = self.emit("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
            return Arg(value.dtype, value.shape, self.reshape(name, value.shape))
        return Arg(value.dtype, value.shape, constant=value.constant, base=value.name, builder=self)

    def define(self, i: int, name: str) -> None:
        """Says which name a value of the plan has."""
        self.names[i] = name
        self._ready.append(i)

    # ---- nodes -----------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: Arg | str, **attributes: Any) -> str:
        """Adds a node of one output; returns its name."""
        return self.emit_many(op, 1, *inputs, **attributes)[0]

    def emit_many(self, op: str, count: int, *inputs: Arg | str, **attributes: Any) -> list[str]:
        """Adds a node of several outputs; returns their names."""
        operands = [_name(x) for x in inputs]
        base = f"{self.scope}/{op}" if self.scope else op
        made = [self.unique(base) for _ in range(count)]
        # Attributes are plain numbers; a Size among them raises DependsOnSizeError here.
        plain = {k: _plain(v) for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op, operands, made, made[0], **plain))
        return made

    def needed_nodes(self, outputs: Sequence[str]) -> list[onnx.NodeProto]:
        """The nodes that something reads: rules may have written more."""
        wanted, kept = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        return kept[::-1]

    # ---- constants -------------------------------------------------------------------------------

    def constant(self, array: Any, dtype: Any = None, name: str = "") -> str:
        """A constant, kept as an initializer if a node reads it."""
        array = np.asarray(array, dtype)
        if name:
            name = self.unique(name)
            self.constants[name] = array
            return name
        if array.size > SMALL:
            made = self.unique("constant")
            self.constants[made] = array
            return made
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._small:
            self._small[key] = self.unique(_constant_name(array))
            self.constants[self._small[key]] = array
        return self._small[key]

    def scalar(self, number: float, dtype: Any) -> str:
        """A 0-d constant."""
        return self.constant(np.asarray(number).astype(dtype))

    def ints(self, numbers: Sequence[int]) -> str:
        """An int64 vector of plain numbers."""
        return self.constant(np.array([int(n) for n in numbers], "int64"))

    # ---- sizes -----------------------------------------------------------------------------------

    def size(self, n: AnySize) -> str:
        """A number as an int64 vector of one element, computed from the sizes where it is one."""
        if not isinstance(n, Size):
            return self.ints([n])
        if ("size", n) not in self._cache:
            self._cache["size", n] = self._compute_size(n)
        return self._cache["size", n]

    def sizes(self, numbers: Sequence[AnySize]) -> str:
        """Numbers as an int64 vector."""
        if is_static(numbers):
            return self.ints([int(n) for n in numbers])
        key = ("sizes", tuple(numbers))
        if key not in self._cache:
            # Neighbours that are plain numbers are one constant.
            parts: list[str] = []
            plain: list[int] = []
            for n in (*numbers, None):
                if isinstance(n, int):
                    plain.append(n)
                    continue
                if plain:
                    parts.append(self.ints(plain))
                    plain = []
                if n is not None:
                    parts.append(self.size(n))
            self._cache[key] = parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)
        return self._cache[key]

    def dimension(self, i: int, axis: int) -> str:
        """The size of an axis of a value, as an int64 vector of one element."""
        key = ("shape", i)
        if key not in self._cache:
            self._cache[key] = self.emit("Shape", self.names[i])
        return self.emit("Gather", self._cache[key], self.ints([axis]), axis=0)

    def _compute_size(self, n: Size) -> str:
        scope, self.scope = self.scope, "sizes"
        try:
            place = self._place(n, self.plan.inputs)
            if place is not None:
                return self.dimension(*place)
            formula = Formula.of(n, list(self.symbols.values()), self.odd)
            if formula is not None and formula.divisor == 1:
                return self._formula(formula)
            expression = self._explained(n.samples, None)
            if expression is not None:
                name, is_fraction = arithmetic(self, expression)
                if not is_fraction:
                    return name
            # Sizes that were halved on the way are those of values: rounding is theirs.
            place = self._place(n, reversed(self._ready))
            if place is not None:
                return self.dimension(*place)
            if formula is not None:
                return self._formula(formula)
        finally:
            self.scope = scope
        raise DependsOnSizeError

    def number(self, n: AnySize | Number | float, dtype: Any) -> str:
        """A number as a vector of one element of a dtype, computed from the sizes."""
        if isinstance(n, int | Size):
            return self.cast(self.size(n), dtype, given="int64")
        if isinstance(n, float):
            return self.constant(np.asarray([n]).astype(dtype))
        expression = self._explained(n.samples, dtype)
        if expression is None:
            raise DependsOnSizeError
        scope, self.scope = self.scope, "sizes"
        name, is_fraction = arithmetic(self, expression)
        self.scope = scope
        return self.cast(name, dtype, given="float64" if is_fraction else "int64")

    def decided(self) -> list[str]:
        """What the code of the function went by in all recordings, as text."""
        if not (self.symbols and self.plan.decided):
            return []
        names = {i: self.names[i] for i in self.plan.inputs}
        return [e.shown(names) for e in self._explainer.holding(self.plan.decided)]

    @cached_property
    def _explainer(self) -> Explainer:
        """Of the recordings, by what Python computed from sizes in the first one."""
        shapes = {i: value.shape for i, value in self.plan.values.items()}
        found = (n for shape in shapes.values() for n in shape if isinstance(n, Size))
        count = len(next(found).samples)
        records = [
            {
                i: tuple(n.samples[k] if isinstance(n, Size) else n for n in shape)
                for i, shape in shapes.items()
            }
            for k in range(count)
        ]
        places = (self._place(Size(s), self.plan.inputs) for s in self.symbols.values())
        roots = [Dim(*place) for place in places if place is not None]
        return Explainer(records, self.plan.seen, self.plan.inputs, roots)

    def _explained(self, samples: tuple[int | float, ...], dtype: Any) -> Expression | None:
        there = set(self._ready)
        return self._explainer.find(samples, there.__contains__, self.operands, dtype)

    def _place(self, n: Size, ids: Iterable[int]) -> tuple[int, int] | None:
        """The first of these values, and its axis, that has the size in all recordings."""
        for i in ids:
            for axis, size in enumerate(self.plan.values[i].shape):
                if size == n:
                    return i, axis
        return None

    def _formula(self, formula: Formula) -> str:
        symbols = [Size(samples) for samples in self.symbols.values()]
        total = ""
        for coefficient, group in formula.terms:
            term = self.size(symbols[group[0]])
            for other in group[1:]:
                term = self.emit("Mul", term, self.size(symbols[other]))
            if coefficient != 1:
                term = self.emit("Mul", term, self.ints([coefficient]))
            total = self.emit("Add", total, term) if total else term
        if formula.offset:
            total = self.emit("Add", total, self.ints([formula.offset]))
        if formula.divisor != 1:
            total = self.emit("Div", total, self.ints([formula.divisor]))
        return total

    def once(self, key: Any, make: Callable[[], str]) -> str:
        """What ``make`` gave when it was first asked for this key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    # ---- what many rules need --------------------------------------------------------------------

    def cast(self, x: Arg | str, dtype: Any, given: Any = None) -> str:
        """The operand in another dtype; x itself where it has it. A name alone needs ``given``."""
        given = x.dtype if isinstance(x, Arg) else given
        name = x.name if isinstance(x, Arg) else x
        if given is not None and np.dtype(given) == np.dtype(dtype):
            return name
        return self.emit("Cast", name, to=onnx_dtype(np.dtype(dtype)))

    def reshape(self, x: Arg | str, shape: Shape) -> str:
        """The operand under another shape; a constant is reshaped here."""
        if isinstance(x, Arg):
            if x.shape == tuple(shape):
                return x.name
            if x.constant is not None and is_static(shape):
                array = x.constant.reshape([int(n) for n in shape])
                return self.derived(x, array, ("reshape", array.shape)).name
            return self.emit("Reshape", x.name, self._target(x.shape, shape))
        return self.emit("Reshape", x, self._target((), shape))

    def _target(self, given: Shape, shape: Shape) -> str:
        """The simplest second input of Reshape: 0 keeps a size, -1 is what is left."""
        if is_static(shape):
            return self.ints([int(n) for n in shape])
        if 0 in shape:
            return self.sizes(shape)  # an empty tensor: 0 and -1 mean other things
        wanted: list[AnySize] = [
            0 if isinstance(n, Size) and i < len(given) and given[i] == n else n
            for i, n in enumerate(shape)
        ]
        dynamic = [i for i, n in enumerate(wanted) if isinstance(n, Size)]
        if len(dynamic) == 1:
            wanted[dynamic[0]] = -1
        return self.sizes(wanted)

    def derived(self, x: Arg, array: np.ndarray[Any, Any], how: Any) -> Arg:
        """A constant that was made of x, under its name if that is still free."""
        key = (x, how)
        if key not in self._derived:
            self._derived[key] = Arg(
                array.dtype, array.shape, constant=array, base=x.base, builder=self
            )
        return self._derived[key]

    def unsqueeze(self, x: Arg | str, axes: Sequence[int]) -> str:
        """The operand with new axes of size 1."""
        return self.emit("Unsqueeze", x, self.ints(axes))

    def squeeze(self, x: Arg | str, axes: Sequence[int]) -> str:
        """The operand without axes of size 1."""
        return self.emit("Squeeze", x, self.ints(axes)) if len(axes) else _name(x)

    def transpose(self, x: Arg | str, perm: Sequence[int]) -> str:
        """The operand with its axes in another order."""
        if list(perm) == list(range(len(perm))):
            return _name(x)
        return self.emit("Transpose", x, perm=list(perm))

    def slice(
        self,
        x: Arg | str,
        axes: Sequence[int],
        starts: Sequence[AnySize],
        ends: Sequence[AnySize],
        steps: Sequence[int] | None = None,
    ) -> str:
        """The part x[start:end:step] along axes."""
        operands = [self.sizes(starts), self.sizes(ends), self.ints(axes)]
        if steps is not None and any(s != 1 for s in steps):
            operands.append(self.ints(steps))
        return self.emit("Slice", x, *operands)

    def expand(self, x: Arg | str, shape: Shape) -> str:
        """The operand broadcast to a shape."""
        return self.emit("Expand", x, self.sizes(shape))

    def reduce(self, op: str, x: Arg | str, axes: Sequence[int] | None, keepdims: bool) -> str:
        """ReduceSum and its kin, whose axes became an input in version 18."""
        keep = int(keepdims)
        if axes is None:
            return self.emit(op, x, keepdims=keep)
        if op == "ReduceSum" or self.opset >= 18:
            return self.emit(op, x, self.ints(axes), keepdims=keep)
        return self.emit(op, x, axes=list(axes), keepdims=keep)


def _name(x: Arg | str) -> str:
    return x if isinstance(x, str) else x.name


def _plain(value: Any) -> Any:
    if isinstance(value, Size | Number):
        raise DependsOnSizeError
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _constant_name(array: np.ndarray[Any, Any]) -> str:
    if array.size == 1:
        return f"constant_{array.reshape(-1)[0]}"
    return "constant"
