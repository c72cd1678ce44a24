"""export(): from a function to a file."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...jit.recording import Recording, record, tensors_in
from ...module import Module
from ...tensor import Tensor
from ...version import __version__
from . import check
from . import rules as rules  # fills the registry
from .arguments import Arguments, held_by, named_tensors
from .builder import Builder, Call, onnx_dtype
from .plan import (
    MismatchError,
    Node,
    Plan,
    Value,
    expanded,
    folded,
    has_sizes,
    plan_of,
    read_by_python,
    unified,
)
from .registry import RULES, RefusedError, has_rule, why_not
from .sizes import DependsOnSizeError, Size

OPSETS = range(17, 24)
LARGEST_FILE = 2**31 - 2**20  # protobuf's limit, with some room for the nodes
# Ops whose results have as many elements as what they are given says.
BY_CONTENTS = {"CondTake", "NonZero"}
DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]


def export(
    function: Callable[..., Any],
    inputs: Any,
    path: str | os.PathLike[str],
    *,
    opset: int = 17,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: DynamicAxes | None = None,
    sample_sizes: Mapping[str, Sequence[int]] | None = None,
    verify: bool | Sequence[Any] = True,
    rtol: float = 1e-4,
    external_data: bool = False,
) -> None:
    """Writes what a function computes as an ONNX file.

    The function is called with ``inputs``, Modules in evaluation mode, and the ops of the call are
    written: what Python decided on the way (branches, numbers read with ``item()``) is fixed.
    Parameters are initializers under the names that the Module gives them, Tensors among the inputs
    stay inputs whatever they are used for, and other arguments are constants.

    A file appears at ``path`` only if the ``onnx`` checker takes it and, where ``onnxruntime`` is
    installed, if that gives the function's results on ``inputs`` and on random ones.

    Args:
        function: a Module, a function of Tensors or a traced one.
        inputs: what it is called with: a Tensor, a tuple of arguments, or a dict of keyword
            arguments. Arguments may be nested lists, tuples and dicts; NumPy arrays count as
            Tensors. Random inputs of the comparison are in the range of these.
        path: of the file.
        opset: version of the operator set, 17 to 23.
        input_names: of all Tensors in ``inputs`` in order. Without it, the names of the function's
            parameters; nested ones are ``pair.0``, ``batch.image``.
        output_names: of all Tensors in the result. Without it ``output``, or ``output.0`` ..., or
            the keys of a dict.
        dynamic_axes: axes whose size the file leaves open, by the name of the input:
            ``{"x": {0: "batch", 2: "height"}}``, or ``{"x": [0]}``. Axes with one name have one
            size.
        sample_sizes: sizes to try for a dynamic axis, three for each name. Without it 2, 3, 5, ...
            for an axis 0, else multiples of the size in ``inputs``, and odd ones where the function
            takes those.
        verify: whether to compare; or further inputs to compare on, a list of what ``inputs`` is.
        rtol: how far results may be off, relative to the largest number of each.
        external_data: put the parameters into a second file, ``path`` + ``.data``. Models of 2 GB
            and more need it.

    Raises:
        NotImplementedError: where ONNX has nothing for ops of the function, or something depends on
            a dynamic size in a way that cannot be written; the text lists all of them.
        RuntimeError: where onnxruntime disagrees with the function; the text names the first op.
        ValueError: for arguments that do not fit, and models that need ``external_data``.

    >>> import os, tempfile
    >>> import megengine as mge, megengine.module as M, megengine.onnx
    >>> net = M.Sequential(M.Linear(3, 4), M.ReLU())
    >>> net.eval()
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> megengine.onnx.export(
    ...     net, mge.tensor([[1.0, 2.0, 3.0]]), path, dynamic_axes={"inp": {0: "batch"}}
    ... )
    >>> import onnx
    >>> [node.op_type for node in onnx.load(path).graph.node]
    ['Gemm', 'Relu']
    """
    if not callable(function):
        raise TypeError(f"export: expected a function or a Module, got {type(function).__name__}")
    if opset not in OPSETS:
        raise ValueError(f"export: expected an opset from 17 to 23, got {opset}")
    arguments = Arguments(function, inputs, input_names)
    axes = _checked_axes(arguments, dynamic_axes or {})
    samples = _sizes_to_try(arguments, axes, sample_sizes or {})
    with _evaluation_mode(function):
        plans, labels = _record(function, arguments, axes, samples)
        names = _output_names(labels, output_names, [leaf.name for leaf in arguments.leaves])
        odd = [] if sample_sizes else _record_odd(function, arguments, axes, samples)
        built = _build(plans, samples, odd, arguments, names, opset, function)

        def compare(file: Path) -> None:
            sizes = _sizes_to_compare(axes, samples, built.odd_sizes)
            inputs = _inputs_to_compare(function, arguments, axes, sizes, verify)
            _verify(file, function, arguments, inputs, rtol, built.builder, plans[0], names)

        _write(built.model, Path(path), external_data, compare if verify is not False else None)


@dataclass(frozen=True)
class _Built:
    """A model, what wrote it, and the odd sizes that it is for as well."""

    model: onnx.ModelProto
    builder: Builder
    odd_sizes: list[dict[str, int]]


def _build(
    plans: Sequence[Plan],
    samples: Sequence[dict[str, int]],
    odd: Sequence[tuple[Plan, dict[str, int]]],
    arguments: Arguments,
    names: Sequence[str],
    opset: int,
    function: Callable[..., Any],
) -> _Built:
    """The model for all sizes that were recorded; without the odd ones, where they do not fit."""

    def build(
        plans: Sequence[Plan], samples: Sequence[dict[str, int]], odd: list[dict[str, int]]
    ) -> _Built:
        plan = _one_plan(plans, samples)
        symbols = {name: tuple(s[name] for s in samples) for name in samples[0]}
        inputs = [leaf.name for leaf in arguments.leaves]
        builder = Builder(plan, opset, symbols, inputs, names, len(odd))
        _emit(builder, plan)
        return _Built(_model(builder, plan, arguments, names, function), builder, odd)

    if not odd:
        return build(plans, samples, [])
    sizes = [s for _, s in odd]
    try:
        return build([*plans, *(plan for plan, _ in odd)], [*samples, *sizes], sizes)
    except NotImplementedError as error:
        refusal = error
    built = build(plans, samples, [])
    shown = ", ".join(f"{k}={v}" for k, v in sizes[0].items())
    warnings.warn(
        f"export: the file is right for sizes like {samples[-1]}, multiples of those in the "
        f"inputs, but not for {shown}, which the function takes too (sample_sizes says which "
        f"sizes matter). {refusal}",
        stacklevel=3,
    )
    return built


# ---- arguments ---------------------------------------------------------------------------------


def _checked_axes(arguments: Arguments, given: DynamicAxes) -> dict[str, dict[int, str]]:
    leaves = {leaf.name: leaf for leaf in arguments.leaves}
    out: dict[str, dict[int, str]] = {}
    sizes: dict[str, int] = {}
    for name, wanted in given.items():
        if name not in leaves:
            raise ValueError(
                f"export: dynamic_axes names '{name}', but the inputs are {', '.join(leaves)}"
            )
        shape = leaves[name].array.shape
        pairs = (
            wanted.items()
            if isinstance(wanted, Mapping)
            else [(axis, f"{name}_{axis}") for axis in wanted]
        )
        out[name] = {}
        for axis, symbol in pairs:
            if not -len(shape) <= axis < len(shape):
                raise ValueError(f"export: '{name}' of shape {shape} has no axis {axis}")
            axis %= len(shape)
            if sizes.setdefault(symbol, shape[axis]) != shape[axis]:
                raise ValueError(
                    f"export: dynamic size '{symbol}' is {sizes[symbol]} and {shape[axis]} in the "
                    "inputs; give the axes names of their own"
                )
            out[name][axis] = symbol
    return out


def _sizes_to_try(
    arguments: Arguments,
    axes: Mapping[str, Mapping[int, str]],
    given: Mapping[str, Sequence[int]],
) -> list[dict[str, int]]:
    """The sizes of each recording.

    The first has the first of all; then each differs alone; in the last all do. So a formula of all
    of them is determined, and checked once.
    """
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
    choices: dict[str, Sequence[int]] = {}
    for leaf in arguments.leaves:
        for axis, symbol in axes.get(leaf.name, {}).items():
            size = leaf.array.shape[axis]
            # Sizes of batches are any; heights and widths are often multiples of something.
            count = len(choices)
            small = primes[3 * (count % 3) : 3 * (count % 3) + 3]
            choices.setdefault(
                symbol, small if axis == 0 or size <= 1 else (size, 2 * size, 3 * size)
            )
    for symbol, sizes in given.items():
        if symbol not in choices:
            raise ValueError(f"export: sample_sizes names '{symbol}', which is no dynamic axis")
        if len(set(sizes)) < 3 or min(sizes) < 1:
            raise ValueError(
                f"export: expected three different positive sample_sizes for '{symbol}', got "
                f"{list(sizes)}"
            )
        choices[symbol] = list(dict.fromkeys(sizes))
    first = {symbol: sizes[0] for symbol, sizes in choices.items()}
    if not first:
        return [first]
    return [
        first,
        *({**first, symbol: sizes[1]} for symbol, sizes in choices.items()),
        {symbol: sizes[2] for symbol, sizes in choices.items()},
    ]


@contextmanager
def _evaluation_mode(function: Callable[..., Any]) -> Iterator[None]:
    """Puts the Modules of a function into evaluation mode, and back afterwards."""
    modules = [
        m for _, held in held_by(function) if isinstance(held, Module) for m in held.modules()
    ]
    before = [(m, m.training) for m in modules]
    if any(training for _, training in before):
        warnings.warn(
            "export: the function holds Modules in training mode; what is exported is what they "
            "compute in evaluation mode (call eval() to say so)",
            stacklevel=4,
        )
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


# ---- recording ---------------------------------------------------------------------------------


def _record(
    function: Callable[..., Any],
    arguments: Arguments,
    axes: Mapping[str, Mapping[int, str]],
    samples: list[dict[str, int]],
) -> tuple[list[Plan], list[str]]:
    """A plan for each choice of sizes, and labels of the results.

    Where shapes depend on what the inputs hold, further recordings are of other contents; samples
    of the sizes are appended for them.
    """
    named = named_tensors(function)
    rng = np.random.default_rng(1)
    plans: list[Plan] = []
    labels: list[str] = []
    by_contents = False
    while len(plans) < len(samples):
        sizes = samples[len(plans)]
        choices = [arguments.example(axes, sizes)]
        if by_contents:
            choices = [arguments.random(axes, sizes, rng), arguments.resampled(axes, sizes, rng)]
        for attempt, arrays in enumerate(choices):

            def call(*leaves: Tensor) -> Any:
                return arguments.call(function, leaves)

            try:
                recording = record(call, *arguments.tensors(arrays), named=named)
                break
            except Exception as error:
                if attempt + 1 < len(choices):
                    continue
                if sizes:
                    error.add_note(
                        f"export: the function was called with the dynamic sizes {sizes}; "
                        "sample_sizes chooses others"
                    )
                raise
        labels = _labels("output", recording.result)
        if not labels:
            raise TypeError(
                "export: expected a Tensor, or Tensors in lists, tuples and dicts, as the result; "
                f"got {type(recording.result).__name__}"
            )
        if not plans:
            _warn_of_reads(recording)
        plans.append(expanded(plan_of(recording), has_rule))
        if not by_contents and BY_CONTENTS.intersection(n.kind for n in plans[0].nodes):
            by_contents = True
            if len(samples) == 1:
                samples.extend([sizes, sizes])
    return plans, labels


def _warn_of_reads(recording: Recording) -> None:
    read = read_by_python(recording)
    if read:
        warnings.warn(
            "export: during the call Python reads numbers that depend on the inputs, with numpy(), "
            "item() or a branch, and what it does with them is fixed in the file; they are results "
            f"of {', '.join(read)}",
            stacklevel=4,
        )


def _record_odd(
    function: Callable[..., Any],
    arguments: Arguments,
    axes: Mapping[str, Mapping[int, str]],
    samples: Sequence[dict[str, int]],
) -> list[tuple[Plan, dict[str, int]]]:
    """Recordings at sizes that are no multiples of anything, where the function takes them.

    They tell a size that was doubled from that of another value, and how quotients are rounded.
    """
    out = []
    for step in (1, -1) if samples[0] else ():
        sizes = {symbol: n + step for symbol, n in samples[-1].items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said of the first recording
                found, _ = _record(function, arguments, axes, [sizes])
        except Exception:  # whatever a function raises for sizes that it does not take
            continue
        out.append((found[0], sizes))
    return out


def _labels(name: str, result: Any) -> list[str]:
    if isinstance(result, Tensor):
        return [name]
    if isinstance(result, list | tuple):
        return [n for i, v in enumerate(result) for n in _labels(f"{name}.{i}", v)]
    if isinstance(result, dict):
        prefix = "" if name == "output" else f"{name}."
        return [n for k, v in result.items() for n in _labels(f"{prefix}{k}", v)]
    return []


def _output_names(
    labels: Sequence[str], given: Sequence[str] | None, inputs: Sequence[str]
) -> list[str]:
    if given is None:
        return [f"{label}_output" if label in inputs else label for label in labels]
    taken = set(given).intersection(inputs)
    if taken:
        raise ValueError(
            f"export: output_names has {sorted(taken)}, which are names of inputs; an ONNX file "
            "has one value of a name"
        )
    if len(given) != len(labels) or len(set(given)) != len(given):
        raise ValueError(
            f"export: expected {len(labels)} different output_names, got {list(given)}"
        )
    return list(given)


def _one_plan(plans: Sequence[Plan], samples: Sequence[dict[str, int]]) -> Plan:
    try:
        return folded(unified(plans))
    except MismatchError as error:
        shown = "; ".join(", ".join(f"{k}={v}" for k, v in s.items()) for s in samples)
        what = f"the dynamic sizes ({shown})" if samples[0] else "the contents of the inputs"
        raise NotImplementedError(
            f"export: the ops of the function depend on {what}: {error}. Leave such an axis "
            "static, or compute what depends on it from shapes of Tensors, by sums and products"
        ) from error


# ---- emission ----------------------------------------------------------------------------------


def _emit(builder: Builder, plan: Plan) -> None:
    """Writes all nodes; raises NotImplementedError for all that cannot be, together."""
    used = plan.used
    refused: dict[str, list[str]] = {}
    for node in plan.nodes:
        call = Call(
            node,
            tuple(builder.arg(i) for i in node.inputs),
            tuple(plan.values[i] for i in node.outputs),
            tuple(i in used for i in node.outputs),
        )
        builder.scope = _scope(node, plan)
        names: str | list[str] = []
        try:
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
    if isinstance(value, Size):
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


def _model(
    builder: Builder,
    plan: Plan,
    arguments: Arguments,
    names: Sequence[str],
    function: Callable[..., Any],
) -> onnx.ModelProto:
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
    _name_outputs(builder, plan, names)
    outputs = [info(name, plan.values[i]) for name, i in zip(names, plan.outputs, strict=True)]
    nodes = builder.needed_nodes(names)
    read = {name for node in nodes for name in node.input}
    initializers = [
        numpy_helper.from_array(np.asarray(array, order="C"), name)
        for name, array in builder.constants.items()
        if name in read
    ]
    title = getattr(function, "__name__", type(function).__name__)
    graph = helper.make_graph(nodes, title, inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", builder.opset)]
    model = helper.make_model(graph, producer_name="openmge", producer_version=__version__)
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    # The newest version of the format that these operators need, so that old readers read it.
    model.ir_version = helper.find_min_ir_version_for(opsets)
    return model


def _name_outputs(builder: Builder, plan: Plan, names: Sequence[str]) -> None:
    """Gives the results their names; what is not made by a node of its own goes through one."""
    made = {name for node in builder.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for i, name in zip(plan.outputs, names, strict=True):
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


# ---- writing -----------------------------------------------------------------------------------


def _write(
    model: onnx.ModelProto, path: Path, external_data: bool, compare: Callable[[Path], None] | None
) -> None:
    """Writes beside the target, checks, and only then puts it there."""
    size = sum(len(t.raw_data) for t in model.graph.initializer)
    if size > LARGEST_FILE and not external_data:
        raise ValueError(
            f"export: the constants are {size / 2**30:.1f} GiB, and an ONNX file holds at most 2; "
            "external_data=True puts them into a file of their own"
        )
    directory = path.parent if str(path.parent) else Path(".")
    with tempfile.TemporaryDirectory(prefix=".export-", dir=directory) as scratch:
        aside = Path(scratch) / path.name
        data = f"{path.name}.data"
        if external_data:
            onnx.save_model(
                model, str(aside), save_as_external_data=True, location=data, size_threshold=0
            )
        else:
            aside.write_bytes(model.SerializeToString())
        try:
            onnx.checker.check_model(str(aside), full_check=True)
        except onnx.shape_inference.InferenceError as error:
            if "unsupported type" not in str(error):
                raise
            opset = model.opset_import[0].version
            raise NotImplementedError(
                f"export: an operator does not take one of its dtypes in opset {opset}; a newer "
                f"one may: {error}"
            ) from error
        if compare is not None:
            compare(aside)
        files = [Path(scratch) / data, aside] if external_data else [aside]
        for file in files:
            if file.exists():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                file.replace(directory / file.name)
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sizes_to_compare(
    axes: Mapping[str, Mapping[int, str]],
    samples: Sequence[dict[str, int]],
    odd: Sequence[dict[str, int]],
) -> list[dict[str, int]]:
    """Those of the first and the last recording, a batch of 1, and the odd ones."""
    batches = {symbol for found in axes.values() for axis, symbol in found.items() if axis == 0}
    single = {**samples[-1], **dict.fromkeys(batches, 1)}
    return [samples[0], samples[-1], single, *odd]


def _inputs_to_compare(
    function: Callable[..., Any],
    arguments: Arguments,
    axes: Mapping[str, Mapping[int, str]],
    samples: Sequence[dict[str, int]],
    wanted: bool | Sequence[Any],
) -> list[check.Sample]:
    """The example's inputs, random ones of several sizes, and those of the caller."""
    rng = np.random.default_rng(0)
    example = arguments.tensors(arguments.example(axes, samples[0]))
    out = [check.Sample("the example's inputs", example, required=True)]
    for sizes in samples:
        shown = ", ".join(f"{k}={v}" for k, v in sizes.items())
        out.append(
            check.Sample(
                f"random inputs with {shown}" if shown else "random inputs",
                arguments.tensors(arguments.random(axes, sizes, rng)),
                arguments.tensors(arguments.resampled(axes, sizes, rng)),
            )
        )
    for number, given in enumerate([] if isinstance(wanted, bool) else wanted):
        leaves = Arguments(function, given, None).leaves
        tensors = arguments.tensors([leaf.array for leaf in leaves])
        out.append(check.Sample(f"inputs {number} of verify", tensors, required=True))
    return out


def _verify(
    file: Path,
    function: Callable[..., Any],
    arguments: Arguments,
    inputs: Sequence[check.Sample],
    rtol: float,
    builder: Builder,
    first_plan: Plan,
    output_names: Sequence[str],
) -> None:
    if not check.has_runtime():
        warnings.warn(
            "export: the file is not compared with the function, since onnxruntime is not "
            "installed (pip install onnxruntime; verify=False says that none is wanted)",
            stacklevel=5,
        )
        return

    outside = [builder.plan.values[i] for i in (*builder.plan.inputs, *builder.plan.outputs)]
    if any(value.dtype.name == "bfloat16" for value in outside):
        warnings.warn(
            "export: the file is not compared with the function, since onnxruntime takes and gives "
            "no bfloat16 arrays (verify=False says that none is wanted)",
            stacklevel=5,
        )
        return
    rtol = check.tolerance(rtol, builder.plan)

    def call(leaves: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        return [t.numpy() for t in tensors_in(arguments.call(function, leaves))]

    def find_first(model: onnx.ModelProto, leaves: list[Tensor]) -> str:
        if [t.shape for t in leaves] != [first_plan.values[i].shape for i in first_plan.inputs]:
            return ""
        return check.first_difference(model, first_plan, builder.names, leaves, rtol)

    names = ([leaf.name for leaf in arguments.leaves], output_names)
    check.verify(file, call, names, inputs, rtol, find_first)
