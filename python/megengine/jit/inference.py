"""Running a graph from a file."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from .._core import Executable, Graph, GraphNode, TraceError, Tracer
from ..core._imperative_rt.core2 import apply
from ..tensor import Tensor
from .graph_file import Axis, DumpedGraph, load, numbers_of
from .profile import profile_of
from .recording import record, sized_by_contents
from .sizes import Expression

__all__ = ["GraphInference"]

# Programs for so many sets of shapes are kept, those that were used last.
MOST_PROGRAMS = 8

Shapes = tuple[tuple[int, ...], ...]


def with_outputs(dumped: DumpedGraph, wanted: Sequence[str]) -> None:
    """Makes named values the outputs of a graph."""
    ids = dict(zip(dumped.input_names, dumped.inputs, strict=True))
    ids |= {name: i for i, name in dumped.value_names.items()}
    ids |= dict(zip(dumped.output_names, dumped.graph.outputs, strict=True))
    for name in wanted:
        if name not in ids:
            known = sorted({*dumped.input_names, *dumped.output_names})
            raise ValueError(
                f"GraphInference: there is no '{name}' among {known} and "
                f"{len(dumped.value_names)} names of parameters"
            )
    dumped.graph.outputs = tuple(ids[name] for name in wanted)
    dumped.output_names = list(wanted)


@dataclass
class Change:
    """A size that differs from the recorded one: what it does to numbers of fields.

    Args:
        what: the size in words.
        by: the difference.
        step: the difference that `growth` is for.
        growth: by index of a node and name of a field, how much larger its numbers are.
    """

    what: str
    by: int
    step: int
    growth: dict[tuple[int, str], list[int]]


def fields_after(graph: Graph, changes: list[Change]) -> dict[int, dict[str, Any]]:
    """Fields that take other values after changes of sizes, by index of the node.

    Raises:
        ValueError: where a size is none that its numbers follow.
    """
    nodes = graph.nodes if changes else []
    numbers: dict[tuple[int, str], list[int]] = {}
    grown: set[tuple[int, str, int]] = set()
    for change in changes:
        for (index, name), growth in change.growth.items():
            node = nodes[index]
            new = numbers.setdefault((index, name), numbers_of(node.fields[name]))
            for i, step in enumerate(growth):
                if step and (index, name, i) in grown:
                    raise ValueError(
                        f"GraphInference: field '{name}' of op {index}, {node.op}, depends on "
                        f"several sizes; {change.what} must be that of the record when another "
                        "one differs"
                    )
                if step * change.by % change.step:
                    raise ValueError(
                        f"GraphInference: {change.what} differs from that of the record by "
                        f"{change.by}, which op {index}, {node.op}, does not follow"
                    )
                new[i] += step * change.by // change.step
                if step:
                    grown.add((index, name, i))
    out: dict[int, dict[str, Any]] = {}
    for (index, name), new in numbers.items():
        one = isinstance(nodes[index].fields[name], int)
        out.setdefault(index, {})[name] = new[0] if one else tuple(new)
    return out


def fields_followed(
    node: GraphNode,
    follows: Sequence[tuple[str, int, Expression]],
    size: Callable[[int, int], int],
) -> dict[str, Any]:
    """Fields of a node for other sizes.

    Args:
        node: the node.
        follows: of its fields, the names, which of their numbers follow sizes, and how.
        size: the size of an axis of a value.

    Raises:
        ValueError: where a number has no value for these sizes.
    """
    if not follows:
        return {}
    fields = node.fields
    numbers: dict[str, list[Any]] = {}
    for name, position, expression in follows:
        new = numbers.setdefault(name, numbers_of(fields[name]))
        number = expression.value(size)
        if isinstance(new[position], int) and not float(number).is_integer():
            raise ValueError(f"field '{name}': expected a whole number, got {number}")
        new[position] = type(new[position])(number)
    return {n: tuple(new) if isinstance(fields[n], tuple) else new[0] for n, new in numbers.items()}


def first_by_contents(dumped: DumpedGraph) -> int:
    """The first node with a number that depends on what the inputs hold; else, the end."""
    depends = sized_by_contents(dumped.graph, dumped.inputs) if dumped.follows else set()
    return min(
        (
            node
            for (node, _, _), e in dumped.follows.items()
            if any(d.value in depends for d in e.axes())
        ),
        default=len(dumped.graph.nodes),
    )


class GraphInference:
    """Runs a graph from a file that ``trace.dump`` wrote.

    The graph is optimised when it is loaded. It runs with the shapes that it was recorded with, and
    with other batch sizes, image sizes, lengths, where ``trace.dump`` found that the function takes
    them; the first run with other sizes takes longer.

    Args:
        file: the name of a file, or a file open for reading bytes.
        outputs: names of the outputs to compute; all of them without it.
        profiling: notes how long each op takes, for :meth:`get_profile`.
        optimize_for_inference: accepted: graphs are always optimised.
        kwargs: options of that, accepted too.

    Raises:
        ValueError: the file is damaged, or no graph file; or there is no output of such a name.

    >>> import io
    >>> import numpy as np
    >>> import megengine as mge
    >>> from megengine.jit import trace
    >>> f = trace(lambda x: x * 2 + 1, capture_as_const=True)
    >>> f(mge.tensor([1.0, 2.0]))
    Tensor([3. 5.], device=xpux:0)
    >>> file = io.BytesIO()
    >>> _ = f.dump(file, arg_names=["x"], output_names=["y"])
    >>> _ = file.seek(0)
    >>> GraphInference(file).run(np.float32([5, 6, 7]))["y"]
    array([11., 13., 15.], dtype=float32)
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        outputs: Sequence[str] | None = None,
        profiling: bool = False,
        optimize_for_inference: bool = False,
        **kwargs: Any,
    ) -> None:
        self._dumped = load(file)
        if outputs is not None:
            with_outputs(self._dumped, outputs)
        values = self._dumped.graph.values
        inputs = [values[i] for i in self._dumped.inputs]
        self._specs = [(v.dtype, v.shape, v.device) for v in inputs]
        # Programs end where numbers depend on what inputs hold; the nodes behind run one by one.
        self._end = first_by_contents(self._dumped)
        self._is_whole = self._end == len(self._dumped.graph.nodes)
        self._programs: OrderedDict[Shapes, Executable] = OrderedDict()
        if self._is_whole:
            self._programs[self._shapes()] = Executable(self._dumped.graph, self._dumped.inputs)
        self._kept = self._results_of_programs()
        self._tracer = Tracer(record_only=True, profiling=True) if profiling else None

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in the order in which :meth:`run` takes them."""
        return list(self._dumped.input_names)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in the order in which :meth:`run` gives them."""
        return list(self._dumped.output_names)

    @property
    def user_info(self) -> Any:
        """What ``trace.dump`` was given to keep in the file."""
        return self._dumped.user_info

    def run(
        self, *inp_args: Any, inp_dict: Mapping[str, Any] | None = None
    ) -> OrderedDict[str, np.ndarray[Any, Any]]:
        """Computes the outputs.

        Args:
            inp_args: arrays (or Tensors, or nested lists of numbers), in the order of the inputs.
            inp_dict: arrays by name, for the inputs that were not given in order.

        Returns:
            An ordered dict from names of outputs to arrays.

        Raises:
            ValueError: for inputs that are missing, unknown or of shapes that the graph does not
                take.
            TypeError: for inputs whose numbers do not convert to the dtype of the input.
            RuntimeError: where somebody cut the file shorter while its constants were in use.
        """
        tensors = self._tensors(self._by_name(inp_args, inp_dict or {}))
        if self._tracer is not None:
            results = self._tracer.call(self._replay, tuple(tensors), {})
        else:
            results = self._behind(tensors, self._program(tensors)(*tensors))
        arrays = [t.numpy() for t in results]
        memory = self._dumped.memory
        if memory is not None and memory.lost:
            raise RuntimeError(
                "GraphInference: the file was cut shorter while its constants were in use; "
                "load it again"
            )
        return OrderedDict(zip(self._dumped.output_names, arrays, strict=True))

    def get_profile(self) -> dict[str, Any]:
        """How long each op of the last run took, as ``trace.get_profile`` says it.

        Raises:
            TraceError: without ``profiling=True``, and before the first run.
        """
        samples = self._tracer.samples() if self._tracer is not None else None
        if self._tracer is None or samples is None or self._tracer.last_graph() is None:
            raise TraceError(
                "get_profile: expected GraphInference(file, profiling=True) that has run"
            )
        return profile_of(samples)

    # ---- inputs

    def _shapes(self) -> Shapes:
        return tuple(shape for _, shape, _ in self._specs)

    def _by_name(self, args: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
        names = self._dumped.input_names
        if len(args) > len(names):
            raise ValueError(f"GraphInference: expected {len(names)} inputs, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        twice = sorted(given.keys() & more.keys())
        if twice:
            raise ValueError(f"GraphInference: input '{twice[0]}' is given twice")
        given |= more
        if given.keys() != set(names):
            raise ValueError(f"GraphInference: expected inputs {names}, got {list(given)}")
        return given

    def _tensors(self, given: dict[str, Any]) -> list[Tensor]:
        out = []
        for name, (dtype, _, device) in zip(self._dumped.input_names, self._specs, strict=True):
            value = given[name]
            array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
            number = array.dtype.kind in "biufc" or array.dtype.name == "bfloat16"
            loses = array.dtype.kind in "fc" and dtype.kind in "biu"
            if not number or loses or (array.dtype.kind == "c" and dtype.kind != "c"):
                raise TypeError(
                    f"GraphInference: expected input '{name}' of {dtype}, got {array.dtype}"
                )
            out.append(Tensor(array, dtype=dtype, device=device))
        return out

    # ---- programs for other shapes

    def _results_of_programs(self) -> list[int]:
        """Ids of what programs give: the outputs, or what the nodes behind them need."""
        dumped, nodes = self._dumped, self._dumped.graph.nodes
        if self._is_whole:
            return list(dumped.graph.outputs)
        made = {i for node in nodes[: self._end] for i in node.outputs}
        needed = [i for node in nodes[self._end :] for i in node.inputs]
        needed += dumped.graph.outputs
        numbers = [e for (node, _, _), e in dumped.follows.items() if node >= self._end]
        needed += [d.value for e in (*numbers, *dumped.decided) for d in e.axes()]
        return [i for i in dict.fromkeys(needed) if i in made]

    def _program(self, tensors: list[Tensor]) -> Executable:
        shapes = tuple(t.shape for t in tensors)
        found = self._programs.get(shapes)
        if found is None:
            found = record(self._before, *tensors).compile()
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.popitem(last=False)
        self._programs[shapes] = found
        self._programs.move_to_end(shapes)
        return found

    def _check_shapes(self, tensors: Sequence[Tensor]) -> None:
        """Raises for shapes that the graph does not take."""
        dumped = self._dumped
        free = {(0, i): dumped.batch.refusal for i in dumped.batch.inputs} if dumped.batch else {}
        for axis in dumped.axes:
            free |= {(axis.axis, i): axis.refusal for i in axis.inputs}
        for i, (tensor, (_, shape, _)) in enumerate(zip(tensors, self._specs, strict=True)):
            got = tensor.shape
            wrong = [k for k in range(min(len(got), len(shape))) if got[k] != shape[k]]
            if len(got) == len(shape) and all(free.get((k, i)) == "" for k in wrong):
                continue
            text = ", ".join(
                "any number" if free.get((k, i)) == "" else str(n) for k, n in enumerate(shape)
            )
            reasons = [free[k, i] for k in wrong if free.get((k, i))]
            raise ValueError(
                f"GraphInference: expected input '{dumped.input_names[i]}' of shape "
                f"({text}{',' if len(shape) == 1 else ''}), got {got}"
                + "".join(f": {reason}" for reason in reasons)
            )

    def _changes(self, tensors: Sequence[Tensor]) -> list[Change]:
        """The sizes that differ from those of the record.

        Raises:
            ValueError: for shapes that the graph does not take.
        """
        self._check_shapes(tensors)
        dumped = self._dumped
        axes = list(dumped.axes)
        batch = dumped.batch
        if batch is not None:
            axes.insert(
                0, Axis(0, batch.size, batch.inputs, 1, batch.slopes, followed=batch.followed)
            )
        out = []
        tied: dict[int, tuple[int, int]] = {}
        for a in axes:
            axis, size, step, growth = a.axis, a.size, a.step, a.growth
            sizes = {tensors[i].shape[axis] for i in a.inputs} or {size}
            if len(sizes) > 1 and (growth or a.followed or a.tied):
                raise ValueError(
                    f"GraphInference: expected one size in axis {axis} of all inputs, got "
                    f"{sorted(sizes)}"
                )
            if any((n - size) % a.every for n in sizes):
                raise ValueError(
                    f"GraphInference: expected axis {axis} to differ from {size}, that of the "
                    f"record, by a multiple of {a.every}, got {max(sizes)}: in between, the "
                    "function goes another way"
                )
            other, same = tied.setdefault(a.tied, (axis, max(sizes))) if a.tied else (0, 0)
            if a.tied and sizes != {same}:
                raise ValueError(
                    f"GraphInference: expected axis {axis} to be as large as axis {other}, "
                    f"{same}, got {max(sizes)}"
                )
            if sizes != {size} and growth:
                what = f"the size of axis {axis}" if axis else "the batch size"
                out.append(Change(what, max(sizes) - size, step, growth))
        return out

    def _replay(self, *tensors: Tensor) -> list[Tensor]:
        """Runs the graph op by op, with inputs of any sizes that it takes."""
        return self._behind(tensors, self._before(*tensors))

    def _before(self, *tensors: Tensor) -> list[Tensor]:
        """What programs give."""
        values = self._run_nodes(tensors, {}, 0, self._end)
        return [values[i] for i in self._kept]

    def _behind(self, tensors: Sequence[Tensor], made: list[Tensor]) -> list[Tensor]:
        """The outputs, from what programs gave."""
        if self._is_whole:
            return made
        count = len(self._dumped.graph.nodes)
        known = dict(zip(self._kept, made, strict=True))
        values = self._run_nodes(tensors, known, self._end, count)
        return [values[i] for i in self._dumped.graph.outputs]

    def _run_nodes(
        self, tensors: Sequence[Tensor], made: dict[int, Tensor], begin: int, end: int
    ) -> dict[int, Tensor]:
        """Runs nodes begin ... end - 1 one by one, on what was made before; gives all values."""
        dumped = self._dumped
        graph: Graph = dumped.graph
        changed = fields_after(graph, self._changes(tensors))
        follows: dict[int, list[tuple[str, int, Expression]]] = {}
        for (index, name, position), number in dumped.follows.items():
            follows.setdefault(index, []).append((name, position, number))
        values: dict[int, Any] = {
            i: v.constant for i, v in enumerate(graph.values) if v.constant is not None
        }
        values |= dict(zip(dumped.inputs, tensors, strict=True)) | made

        def size(value: int, axis: int) -> int:
            shape: tuple[int, ...] = values[value]._tuple_shape
            return shape[axis]

        self._check_decided(size, values)
        for index, node in enumerate(graph.nodes[begin:end], begin):
            op = node.op
            try:
                for name, value in fields_followed(node, follows.get(index, ()), size).items():
                    op._set_field(name, value)
                for name, value in changed.get(index, {}).items():
                    op._set_field(name, value)
                results = apply(op, *(values[i] for i in node.inputs))
            except (ValueError, TypeError, IndexError, RuntimeError) as error:
                raise ValueError(f"GraphInference: op {index}, {op}: {error}") from error
            values |= dict(zip(node.outputs, results, strict=True))
        self._check_decided(size, values)
        return values

    def _check_decided(self, size: Callable[[int, int], int], there: Collection[int]) -> None:
        """Raises where the function would go another way than it was recorded.

        Args:
            size: the size of an axis of a value.
            there: the values that are known already.
        """
        names = dict(zip(self._dumped.inputs, self._dumped.input_names, strict=True))
        for decided in self._dumped.decided:
            if all(d.value in there for d in decided.axes()) and not decided.value(size):
                raise ValueError(
                    f"GraphInference: expected sizes for which {decided.shown(names)}, as in all "
                    "records: for others the function may go another way"
                )
