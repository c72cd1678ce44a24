"""How the record of a function follows the sizes of its inputs.

The function is recorded at further sizes, and the records are compared: the same ops on the same
values, with other numbers in their fields. A number that differs is arithmetic on sizes, and the
first record knows which (:mod:`megengine.jit.sizes`). It counts where it gives the number of every
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import functional as F
from .. import random
from .._core import Graph
from ..core.ops import builtin
from ..tensor import Tensor
from .explaining import Explainer
from .graph_file import Axis, Batch, Place, numbers_of
from .recording import Recording, record, sized_by_contents, tensors_in
from .sizes import Dim, Expression

__all__ = ["Call", "FollowedConstant", "Following", "with_made_constants"]

# Elements of a Tensor from outside that may be numbers computed from sizes.
MOST_ELEMENTS = 64


@dataclass
class FollowedConstant:
    """A Tensor from outside whose elements are computed from sizes.

    Args:
        value: its id.
        user: the first node that takes it.
        elements: what each of them is, in row-major order; None where it is always the same.
        numbers: what they are in the record.
    """

    value: int
    user: int
    elements: list[Expression | None]
    numbers: list[int | float]


@dataclass
class Following:
    """How a record follows sizes.

    Args:
        batch: the first axis of the first input, and of others that have its size.
        axes: the others.
        fields: numbers in fields of nodes.
        constants: Tensors from outside.
        decided: comparisons of sizes that are true in all records: what code went by.
        fixed: about what depends on what inputs hold, and stays as it is in this record.
    """

    batch: Batch | None = None
    axes: list[Axis] = field(default_factory=list)
    fields: dict[Place, Expression] = field(default_factory=dict)
    constants: list[FollowedConstant] = field(default_factory=list)
    decided: list[Expression] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)


# ---- records -----------------------------------------------------------------------------------


class _Sample:
    """What is compared of a record."""

    def __init__(self, recording: Recording):
        graph = recording.graph
        self.nodes = graph.nodes
        self.fields = [node.fields for node in self.nodes]
        self.shapes = {i: value.shape for i, value in enumerate(graph.values)}
        self.captured = recording.captured

    def size(self, value: int, axis: int) -> int:
        return self.shapes[value][axis]


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def _same_contents(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = a.numpy(), b.numpy()
    if x.ctypes.data == y.ctypes.data and x.strides == y.strides:
        return True
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def _may_follow(a: Tensor, b: Tensor) -> bool:
    """Whether elements of a Tensor from outside may be numbers computed from sizes."""
    kinds = a.dtype.kind in "iuf" or a.dtype.name == "bfloat16"
    return kinds and a.shape == b.shape and a.dtype == b.dtype and a.size <= MOST_ELEMENTS


def _stays(sample: _Sample, value: int) -> str:
    """Why a Tensor from outside that should change does not."""
    tensor = sample.captured[value]
    user = next((n.op for n in sample.nodes if value in n.inputs), "nothing")
    shown = tensor.numpy().tolist() if tensor.size <= 8 else tensor.shape
    return (
        "a number or Tensor that is computed from the size outside of the graph "
        f"(here {shown}, which goes into {user}) would stay what it is"
    )


def _difference(one: _Sample, more: _Sample, size: str) -> str:
    """Why two records are not the same ops with other numbers; empty where they are."""
    for i, (a, b) in enumerate(zip(one.nodes, more.nodes, strict=False)):
        if a.kind != b.kind or a.inputs != b.inputs or a.outputs != b.outputs:
            return f"with {size} its op {i} is {b.op}, not {a.op}"
        for name, old in one.fields[i].items():
            new = more.fields[i][name]
            if not _same(old, new) and (
                not numbers_of(old) or len(numbers_of(old)) != len(numbers_of(new))
            ):
                return f"field '{name}' of its op {i} becomes {new!r} with {size}"
    if len(one.nodes) != len(more.nodes):
        return f"with {size} it has {len(more.nodes)} ops, not {len(one.nodes)}"
    for i, tensor in one.captured.items():
        other = more.captured.get(i)
        if other is None or not (_same_contents(tensor, other) or _may_follow(tensor, other)):
            return _stays(one, i)
    return ""


# ---- the search ----------------------------------------------------------------------------------


@dataclass
class _Group:
    """Axes of inputs that are one size."""

    axis: int
    size: int
    inputs: list[int]
    refusal: str = ""
    tied: int = 0  # groups of the same number, not 0, have one size
    every: int = 1  # other sizes differ by multiples of this
    followed: bool = False

    def places(self) -> list[tuple[int, int]]:
        return [(i, self.axis) for i in self.inputs]


@dataclass
class _Tried:
    """What came of a call with other sizes: a record that is like the first one, or a reason."""

    sample: _Sample | None
    reason: str = ""
    raised: bool = False


@dataclass
class Call:
    """A call of a function, and its record with sizes."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    record: Recording

    def __post_init__(self) -> None:
        self.tensors = list(tensors_in((self.args, self.kwargs)))

    @cached_property
    def sample(self) -> _Sample:
        """What is compared of the record."""
        return _Sample(self.record)

    def groups(self) -> list[_Group]:
        """Axes of the inputs, those together that have one number and one size."""
        found: dict[tuple[int, int], _Group] = {}
        for i, t in enumerate(self.tensors):
            for axis, n in enumerate(t._tuple_shape):
                if n:
                    found.setdefault((axis, n), _Group(axis, n, [])).inputs.append(i)
        return [found[key] for key in sorted(found, key=lambda key: key[0])]

    def at(self, sizes: dict[tuple[int, int], int], text: str) -> _Tried:
        """Records the call with other sizes of axes of inputs, and compares; or says why not."""
        new = []
        for i, t in enumerate(self.tensors):
            resized = t
            for axis, size in enumerate(t._tuple_shape):
                wanted = sizes.get((i, axis), size)
                if wanted != size:
                    copies = F.concat([resized] * -(-wanted // size), axis=axis)
                    resized = copies[(slice(None),) * axis + (slice(0, wanted),)]
            new.append(resized)
        return self._with(new, text)

    def _with(self, tensors: Sequence[Tensor], text: str) -> _Tried:
        new = {id(t): n for t, n in zip(self.tensors, tensors, strict=True)}
        state = random.get_rng_state()
        try:
            more = record(self.function, *_replaced(self.args, new), **_replaced(self.kwargs, new))
        except Exception as error:  # the function takes this size alone; the file says so
            return _Tried(
                None, f"with {text} the function raised {type(error).__name__}: {error}", True
            )
        finally:
            random.set_rng_state(state)
        sample = _Sample(more)
        reason = _difference(self.sample, sample, text)
        return _Tried(None if reason else sample, reason)

    def following(self) -> Following:
        """How the record follows the sizes of the inputs."""
        groups = self.groups()
        tried = [(group, self._alone(group)) for group in groups]
        samples = [(group, sample) for group, sample in tried if sample is not None]
        samples += self._tied(groups)
        rest = self._at_odd_sizes([g for g in groups if not g.refusal])
        others = []
        if sized_by_contents(self.record.graph, self.record.inputs):
            others = self._with_other_contents()
        out = self._explained(groups, samples, rest, others)
        for group in groups:
            if group.tied and any(g.refusal for g in groups if g.tied == group.tied):
                group.refusal = next(g.refusal for g in groups if g.tied == group.tied)
        for position, g in enumerate(groups):
            if position == 0 and g.axis == 0:
                out.batch = Batch(g.size, g.inputs, {}, g.refusal, g.followed)
            else:
                out.axes.append(
                    Axis(
                        g.axis,
                        g.size,
                        g.inputs,
                        g.size,
                        refusal=g.refusal,
                        tied=g.tied,
                        followed=g.followed,
                        every=g.every,
                    )
                )
        return out

    def _alone(self, group: _Group) -> _Sample | None:
        is_batch = group.axis == 0 and 0 in group.inputs
        # Twice as large: what is halved on the way stays even.
        size = group.size + 1 if is_batch else 2 * group.size
        text = f"a batch of {size}" if is_batch else f"{size} elements in axis {group.axis}"
        tried = self.at(dict.fromkeys(group.places(), size), text)
        group.refusal = tried.reason
        return tried.sample

    def _tied(self, groups: list[_Group]) -> list[tuple[_Group, _Sample]]:
        """Groups of one size that cannot differ, such as both axes of a square mask."""
        out = []
        refused = [g for g in groups if g.refusal and g.size > 1]
        for number, size in enumerate(dict.fromkeys(g.size for g in refused), 1):
            group = [g for g in refused if g.size == size]
            if len(group) < 2:
                continue
            places = dict.fromkeys((p for g in group for p in g.places()), 2 * size)
            sample = self.at(places, f"{2 * size} elements in several axes").sample
            if sample is not None:
                for g in group:
                    g.refusal, g.tied = "", number
                    out.append((g, sample))
        return out

    def _at_odd_sizes(self, groups: list[_Group]) -> list[_Sample]:
        """Records in which all sizes differ, and are no multiples where the function takes that.

        So sums are told from products, and how quotients are rounded.
        """
        units: dict[int, list[_Group]] = {}
        for k, group in enumerate(sorted(groups, key=lambda g: -g.size)):
            units.setdefault(group.tied or -k - 1, []).append(group)
        new: list[int] = []
        # The largest first: what is not much smaller becomes larger, so that no comparison stays.
        for k, unit in enumerate(units.values()):
            size = unit[0].size
            is_batch = unit[0].axis == 0 and 0 in unit[0].inputs
            larger = [n + 2 for n in new if n <= 2 * size + 1 and not is_batch]
            odd = max(size + 1 + 2 * k, *larger, 0)
            new.append(odd + (odd - size + 1) % 2)
        everything = self._units_at(units.values(), new)
        if everything.sample is not None or not units:
            return [everything.sample] if everything.sample is not None else []
        # Which of them cannot be such a size?
        out = []
        for k, unit in enumerate(units.values()):
            size = unit[0].size
            alone = self._units_at([unit], [new[k]])
            if alone.sample is not None:
                out.append(alone.sample)
            elif unit[0].axis == 0 and 0 in unit[0].inputs:
                unit[0].refusal = "" if alone.raised else alone.reason
                new[k] = size
            else:
                step = size if alone.raised else self._step(unit)
                new[k] = size + step if step < size else 3 * size
        everything = self._units_at(units.values(), new)
        return out + ([everything.sample] if everything.sample is not None else [])

    def _units_at(self, units: Iterable[list[_Group]], sizes: Iterable[int]) -> _Tried:
        places = {
            place: size
            for unit, size in zip(units, sizes, strict=True)
            for group in unit
            for place in group.places()
        }
        return self.at(places, "other sizes in all axes")

    def _step(self, unit: list[_Group]) -> int:
        """By what sizes may differ where the function goes another way in between.

        A function that pads images to multiples of 8 does nothing for those that are.
        """
        size = unit[0].size
        steps = [n for n in range(2, size) if size % n == 0]
        works = (n for n in steps if self._units_at([unit], [size + n]).sample is not None)
        step = next(works, size)
        for group in unit:
            group.every = step
        return step

    def _with_other_contents(self) -> list[_Sample]:
        """Records in which, most likely, as many elements are taken as never before."""
        rng = np.random.default_rng(0)
        out = []
        for by_rows in (True, False):
            new = []
            for t in self.tensors:
                some = t if by_rows and t.ndim else F.flatten(t)
                count = some._tuple_shape[0]
                some = some[Tensor(rng.integers(count, size=count), dtype="int32")] if count else t
                new.append(F.reshape(some, t._tuple_shape))
            sample = self._with(new, "other contents").sample
            if sample is not None:
                out.append(sample)
        return out

    def _decide(self, explainer: Explainer, out: Following) -> None:
        """What comparisons came out the same in all records, of numbers that did not."""
        by_contents = sized_by_contents(self.record.graph, self.record.inputs)
        of_inputs = {}
        for symbols, result in self.record.sizes.decided.items():
            compared = Expression(symbols if result else (*symbols, "not"))
            if by_contents.intersection(d.value for d in compared.axes()):
                out.fixed.append(
                    f"Python goes by {compared.shown({})}, where a size depends on what the "
                    "inputs hold; the file always goes this way"
                )
            else:
                of_inputs[symbols] = result
        out.decided = explainer.holding(of_inputs)

    # ---- numbers

    def _explained(
        self,
        groups: list[_Group],
        samples: list[tuple[_Group, _Sample]],
        rest: list[_Sample],
        others: list[_Sample],
    ) -> Following:
        """What the numbers that differ are; groups that move one that nothing explains refuse.

        `others` have the sizes of the first record.
        """
        first = self.sample
        records = [first, *others, *(sample for _, sample in samples), *rest]
        inputs = self.record.inputs
        roots = [Dim(inputs[g.inputs[0]], g.axis) for g in groups if not g.refusal]
        explainer = Explainer(
            [record.shapes for record in records], self.record.sizes.seen, inputs, roots
        )
        made = {v: i for i, node in enumerate(first.nodes) for v in node.outputs}
        made |= dict.fromkeys(inputs, -1)

        def made_before(node: int) -> Callable[[int], bool]:
            return lambda value: made.get(value, node) < node

        out = Following()
        self._decide(explainer, out)

        def note(numbers: Sequence[Any], found: object, why: str) -> None:
            end = 1 + len(others)
            pairs = zip(samples, numbers[end:], strict=False)
            movers = [group for (group, _), n in pairs if not _same(n, numbers[0])]
            if found is None and any(not _same(n, numbers[0]) for n in numbers[1:end]):
                out.fixed.append(f"{why}; the file has the number of this call")
            for group in movers or [group for group, _ in samples]:
                if found is None:
                    group.refusal = group.refusal or why
                else:
                    group.followed = True

        for i, fields in enumerate(first.fields):
            for name, value in fields.items():
                if all(_same(value, r.fields[i][name]) for r in records[1:]):
                    continue
                columns = zip(*(numbers_of(r.fields[i][name]) for r in records), strict=True)
                for position, numbers in enumerate(columns):
                    if all(_same(n, numbers[0]) for n in numbers):
                        continue
                    found = explainer.find(numbers, made_before(i), first.nodes[i].inputs)
                    if found is not None:
                        out.fields[i, name, position] = found
                    note(
                        numbers,
                        found,
                        f"no arithmetic on sizes explains the numbers {sorted(set(numbers))} in "
                        f"field '{name}' of its op {i}, {first.nodes[i].op}",
                    )
        for value, tensor in first.captured.items():
            if all(_same_contents(tensor, r.captured[value]) for r in records[1:]):
                continue
            user = next((i for i, n in enumerate(first.nodes) if value in n.inputs), -1)
            user = user if user >= 0 else len(first.nodes)
            elements: list[Expression | None] = []
            recorded: list[int | float] = []
            explained = True
            arrays = [r.captured[value].numpy().astype("float64") for r in records]
            if tensor.dtype.kind in "iu":
                arrays = [r.captured[value].numpy() for r in records]
            for numbers in zip(*(a.reshape(-1).tolist() for a in arrays), strict=True):
                found = None
                if any(not _same(n, numbers[0]) for n in numbers):
                    found = explainer.find(numbers, made_before(user), dtype=tensor.dtype)
                    note(numbers, found, _stays(first, value))
                    explained = explained and found is not None
                elements.append(found)
                recorded.append(found.value(first.size) if found is not None else numbers[0])
            if explained:
                out.constants.append(FollowedConstant(value, user, elements, recorded))
        return out


def _replaced(value: Any, new: dict[int, Tensor]) -> Any:
    """Nested arguments with other Tensors in them."""
    if isinstance(value, Tensor):
        return new.get(id(value), value)
    if isinstance(value, list | tuple):
        items = [_replaced(v, new) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _replaced(v, new) for k, v in value.items()}
    return value


# ---- the graph -----------------------------------------------------------------------------------


def with_made_constants(graph: Graph, following: Following) -> dict[Place, Expression]:
    """Makes constants that follow sizes by nodes, whose fields do, in the place of the constants.

    Returns:
        all fields that follow sizes, by where they are in the graph then.
    """
    fields = dict(following.fields)
    for constant in sorted(following.constants, key=lambda c: c.user, reverse=True):
        value = graph.values[constant.value]
        made: list[tuple[Any, list[int], int]] = []
        alone = value.shape == ()
        parts = []
        for number in constant.numbers:
            at = constant.value if alone else graph.add_value(value.dtype, (1,), False)
            fill = builtin.Fill(
                value=float(number),
                dtype=value.dtype,
                comp_node=value.device,
                shape=() if alone else (1,),
            )
            made.append((fill, [], at))
            parts.append(at)
        if not alone:
            flat = value.shape == (len(parts),)
            joined = constant.value if flat else graph.add_value(value.dtype, (len(parts),), False)
            made.append((builtin.Concat(axis=0), parts, joined))
            if not flat:
                made.append((builtin.Reshape(shape=value.shape), [joined], constant.value))
        fields = {
            (node + len(made) if node >= constant.user else node, name, position): e
            for (node, name, position), e in fields.items()
        }
        for k, (op, inputs, output) in enumerate(made):
            graph.insert_node(constant.user + k, op, inputs, [output])
        for k, element in enumerate(constant.elements):
            if element is not None:
                fields[constant.user + k, "value", 0] = element
    return fields
