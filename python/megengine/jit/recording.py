"""The record of one call of a function: what is dumped, exported and drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._core import Executable, Graph, TracedCall, TracedFunction, op_types
from ..module import Module
from ..module import module as modules_file
from ..tensor import Tensor
from .sizes import Sizes

__all__ = ["Recording", "record", "record_with_sizes", "sized_by_contents"]

# Ops whose results have as many elements as what they are given says, in one of these inputs.
_ALL_SAY = ("CondTake", "NonZero")
_BY_CONTENTS = {op["name"] for op in op_types() if op["by_contents"]}


@dataclass
class Recording:
    """A graph, and what its values are to the function that it was recorded of.

    Args:
        graph: the ops of the call. Its outputs are the Tensors of the result.
        inputs: ids of the Tensors among the arguments, positional ones first, nested ones in order.
        captured: by id, Tensors from outside that are no arguments: parameters, globals, numbers.
        result: what the function returned.
        names: by id, what the Modules that were called call their parameters and buffers; and
            those that record() was told.
        reads: ids of values whose contents Python has seen (``numpy()``, ``item()``, ``if``): what
            it did with them is not in the graph.
        sizes: what it did with sizes, of a record by record_with_sizes().
    """

    graph: Graph
    inputs: list[int]
    captured: dict[int, Tensor]
    result: Any
    names: dict[int, str] = field(default_factory=dict)
    reads: tuple[int, ...] = ()
    sizes: Sizes = field(default_factory=Sizes)

    def compile(self) -> Executable:
        """The graph as a program of its inputs, with what it captured as constants.

        >>> import megengine as mge
        >>> from megengine.jit.recording import record
        >>> two = mge.tensor(2.0)
        >>> program = record(lambda x: x * two + 1, mge.tensor([1.0])).compile()
        >>> program(mge.tensor([5.0]))
        [Tensor([11.], device=xpux:0)]
        """
        for i, tensor in self.captured.items():
            self.graph.set_constant(i, tensor)
        return Executable(self.graph, self.inputs)

    def read_by_python(self) -> list[str]:
        """The ops whose results, which depend on the inputs, Python has seen during the call.

        >>> import megengine as mge
        >>> from megengine.jit.recording import record
        >>> record(lambda x: x * x.sum().item(), mge.tensor([1.0])).read_by_python()
        ["Reduce(mode='SUM', axis=None, keepdim=False)"]
        """
        depends = set(self.inputs)
        makers = {}
        for node in self.graph.nodes:
            if depends.intersection(node.inputs):
                depends.update(node.outputs)
                makers.update(dict.fromkeys(node.outputs, repr(node.op)))
        read = [i for i in self.reads if i in depends]
        return list(dict.fromkeys(makers.get(i, "an input") for i in read))


def sized_by_contents(graph: Graph, inputs: Iterable[int]) -> set[int]:
    """Values of a graph whose sizes may depend on what its inputs hold.

    >>> import megengine as mge
    >>> from megengine.jit.recording import record, sized_by_contents
    >>> r = record(lambda x: x[x > 0] * 2, mge.tensor([1.0, -1.0]))
    >>> [r.graph.values[i].shape for i in sized_by_contents(r.graph, r.inputs)]
    [(1,), (1,), (1,)]
    """
    free = set(inputs)
    out: set[int] = set()
    for node in graph.nodes:
        # After the first input come sizes and positions.
        says = node.inputs if node.kind in _ALL_SAY else node.inputs[1:]
        by_contents = node.kind in _BY_CONTENTS and bool(free.intersection(says))
        if by_contents or out.intersection(node.inputs):
            out.update(node.outputs)
        free.update(node.outputs)
    return out


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The Tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


@contextlib.contextmanager
def _modules_called() -> Iterator[list[Module]]:
    """The modules that are called in the block, in order."""
    before, modules_file._called = modules_file._called, []
    try:
        yield modules_file._called
    finally:
        modules_file._called = before


def _names_in(modules: Iterable[Module]) -> dict[str, Tensor]:
    """Parameters and buffers of modules under the names that the outermost of them give."""
    names: dict[str, Tensor] = {}
    inner: set[int] = set()
    known: set[int] = set()
    for module in modules:
        if id(module) in inner:
            continue
        inner.update(id(m) for m in module.modules())
        prefix = module.name or module._name
        for name, tensor in module.named_tensors(prefix):
            if id(tensor) in known:
                continue
            known.add(id(tensor))
            at, free = 0, name
            while free in names:
                at += 1
                free = f"{name}[{at}]"
            names[free] = tensor
    return names


def record(
    function: Callable[..., Any],
    *args: Any,
    named: Mapping[str, Tensor] | None = None,
    **kwargs: Any,
) -> Recording:
    """Calls a function and returns the record of the call.

    Args:
        function: a function or Module of Tensors; its result holds Tensors in lists, tuples, dicts.
        args: what it is called with.
        named: Tensors from outside that ``names`` shall have; those of the Modules that are called
            are in it anyway.
        kwargs: what it is called with, by name.

    Raises:
        ValueError: where one Tensor is two arguments: they could not be told apart in the record.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> from megengine.jit.recording import record
    >>> r = record(lambda x: F.exp(x), mge.tensor([0.0, 1.0]))
    >>> [node.kind for node in r.graph.nodes], r.inputs, r.graph.outputs
    (['Elemwise'], [0], (1,))
    """
    return _record(function, args, kwargs, named or {}, None)


def record_with_sizes(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    named: Mapping[str, Tensor] | None = None,
) -> Recording:
    """As :func:`record`; the sizes that the function sees remember where they come from.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> from megengine.jit.recording import record_with_sizes
    >>> r = record_with_sizes(lambda x: F.zeros(x.shape[0] * 2 + 1), (mge.tensor([0.0, 1.0]),), {})
    >>> [" ".join(map(str, symbols)) for symbols in r.sizes.seen][1:]
    ['Dim(value=0, axis=0) 2 *', 'Dim(value=0, axis=0) 2 * 1 +']
    """
    return _record(function, args, kwargs, named or {}, Sizes())


def _record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    named: Mapping[str, Tensor],
    sizes: Sizes | None,
) -> Recording:
    call = TracedCall(TracedFunction())
    call.enter()
    try:
        call.keep_externals()
        given = list(tensors_in((args, kwargs)))
        inputs = [call.bind(t) for t in given]
        if len(set(inputs)) < len(inputs):
            raise ValueError(
                "record: expected a Tensor of its own for each argument, got one Tensor twice; "
                "pass a copy (F.copy)"
            )
        if sizes is not None:
            sizes.inputs = set(inputs)
            call.follow_sizes(sizes.shape)
        with _modules_called() as modules:
            result = function(*args, **kwargs)
        outputs = [call.bind(t) for t in tensors_in(result)]
        graph, reads = call.graph(), call.reads()
        captured = {i: t for i, t in call.externals().items() if i not in inputs}
        told = _names_in([function, *modules] if isinstance(function, Module) else modules)
        names = {call.bind(t): name for name, t in told.items()}
        names.update((call.bind(t), name) for name, t in named.items())
    except BaseException:
        call.exit(failed=True)
        raise
    finally:
        if sizes is not None:
            sizes.close()
    call.exit(failed=False)
    graph.outputs = tuple(outputs)
    # What the Module has and the call did not use is not in the graph.
    names = {i: name for i, name in names.items() if i in captured}
    return Recording(graph, inputs, captured, result, names, reads, sizes or Sizes())
