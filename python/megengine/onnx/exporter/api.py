"""export(): from a function to a file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...tensor import Tensor
from . import check
from .arguments import Arguments, DynamicAxes, evaluation_mode
from .builder import Builder
from .file import data_file_of, write
from .model import Model, emit, model_of
from .plan import Plan
from .recordings import one_plan, plan_for, record_all, record_odd

OPSETS = range(17, 24)


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
    arguments = Arguments(function, inputs, input_names, dynamic_axes)
    with evaluation_mode(function):
        plans, samples, labels = record_all(arguments, sample_sizes or {})
        names = _output_names(labels, output_names, arguments.names)
        odd = [] if sample_sizes else record_odd(arguments, samples)
        data_file = data_file_of(Path(path)) if external_data else None
        built = _build(plans, samples, odd, arguments, names, opset, data_file)
        decided = built.builder.decided()
        told = sample_sizes or len(odd) > len(built.odd_sizes)  # which sizes the file is for
        if decided and not told:
            warnings.warn(
                f"export: the file is right for sizes for which {' and '.join(decided)}, as in all "
                "recordings; for others the function may go another way",
                stacklevel=2,
            )
        sizes = check.sizes_to_compare(arguments, samples, built.odd_sizes)

        def compare(file: Path) -> None:
            chosen = check.inputs_to_compare(arguments, sizes, verify)
            _compare(file, arguments, chosen, rtol, built.builder, plans[0], names)

        write(built.model, Path(path), None if verify is False else compare)


def _compare(
    file: Path,
    arguments: Arguments,
    samples: Sequence[check.Sample],
    rtol: float,
    builder: Builder,
    first_plan: Plan,
    names: Sequence[str],
) -> None:
    """Compares a file with the function; warns where that cannot be done here."""
    why_not = check.cannot(builder.plan)
    if why_not:
        warnings.warn(
            f"export: the file is not compared with the function, since {why_not}", stacklevel=5
        )
        return
    rtol = check.tolerance(rtol, builder.plan)

    def find_first(file: Path, leaves: list[Tensor]) -> str:
        plan = plan_for(arguments, leaves)
        if [n.kind for n in plan.nodes] != [n.kind for n in first_plan.nodes]:
            return "The function calls other ops for them. "
        return check.first_difference(file, plan, builder.names, leaves, rtol)

    check.verify(file, arguments, names, samples, rtol, find_first)


@dataclass(frozen=True)
class _Built:
    """A model, what wrote it, and the odd sizes that it is for as well."""

    model: Model
    builder: Builder
    odd_sizes: list[dict[str, int]]


def _build(
    plans: Sequence[Plan],
    samples: Sequence[dict[str, int]],
    odd: Sequence[tuple[Plan, dict[str, int]]],
    arguments: Arguments,
    names: Sequence[str],
    opset: int,
    data_file: str | None,
) -> _Built:
    """The model for all sizes that were recorded; without the odd ones, where they do not fit."""

    def build(
        plans: Sequence[Plan], samples: Sequence[dict[str, int]], odd: list[dict[str, int]]
    ) -> _Built:
        plan = one_plan(plans, samples)
        symbols = {name: tuple(s[name] for s in samples) for name in samples[0]}
        builder = Builder(plan, opset, symbols, arguments.names, names, len(odd))
        emit(builder)
        return _Built(model_of(builder, arguments, names, data_file), builder, odd)

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
