"""Compares a written model with the function that it was made of, in onnxruntime."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...jit.recording import tensors_in
from ...tensor import Tensor
from .arguments import Arguments
from .builder import onnx_dtype
from .plan import Plan, run

# What models with 16-bit floats are good for.
LOOSER = {"float16": 5e-3, "bfloat16": 4e-2}


def cannot(plan: Plan) -> str:
    """Why a model of this plan cannot be compared; empty where it can be."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime is not installed (pip install onnxruntime; verify=False wants none)"
    outside = [plan.values[i] for i in (*plan.inputs, *plan.outputs)]
    if any(value.dtype.name == "bfloat16" for value in outside):
        return "onnxruntime takes and gives no bfloat16 arrays (verify=False wants none)"
    return ""


def tolerance(rtol: float, plan: Plan) -> float:
    """The largest relative difference for a plan: 16-bit floats anywhere in it loosen it."""
    return max([rtol, *(LOOSER.get(value.dtype.name, 0.0) for value in plan.values.values())])


def _session(model: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes share no base
        raise RuntimeError(
            "export: onnxruntime does not take the model, which is therefore not written "
            f"(verify=False writes it nevertheless): {error}"
        ) from error


def difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rtol: float) -> str:
    """What is wrong with a result; empty where nothing is."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if want.size == 0:
        return ""
    if want.dtype.kind in "iub":
        wrong = int(np.count_nonzero(got != want))
        return f"{wrong} of {want.size} elements differ" if wrong else ""
    a, b = got.astype("float64"), want.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(np.where(np.isfinite(a), 0, a), np.where(finite, 0, b), equal_nan=True):
        return "infinities or NaN stand elsewhere"
    scale = float(np.abs(b[finite]).max(initial=0.0))
    error = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    # The largest numbers of a result say how well small ones, where they cancel, can be known.
    if error <= rtol * scale + 1e-7:
        return ""
    return f"off by {error:.3g} where the largest number is {scale:.3g}"


@dataclass(frozen=True)
class Sample:
    """Inputs to compare on: what to call them, and how to make them.

    ``instead`` are others for where the function refuses these. It must take ``required`` ones.
    """

    label: str
    tensors: list[Tensor]
    instead: list[Tensor] | None = None
    required: bool = False


def sizes_to_compare(
    arguments: Arguments, samples: Sequence[dict[str, int]], odd: Sequence[dict[str, int]]
) -> list[dict[str, int]]:
    """Those of the first and the last recording, a batch of 1, and the odd ones."""
    batches = {
        symbol for found in arguments.axes.values() for axis, symbol in found.items() if axis == 0
    }
    single = {**samples[-1], **dict.fromkeys(batches, 1)}
    return [samples[0], samples[-1], single, *odd]


def inputs_to_compare(
    arguments: Arguments, samples: Sequence[dict[str, int]], wanted: bool | Sequence[Any]
) -> list[Sample]:
    """The example's inputs, random ones of several sizes, and those of the caller."""
    rng = np.random.default_rng(0)
    example = arguments.tensors([leaf.array for leaf in arguments.leaves])
    out = [Sample("the example's inputs", example, required=True)]
    for sizes in samples:
        shown = ", ".join(f"{k}={v}" for k, v in sizes.items())
        out.append(
            Sample(
                f"random inputs with {shown}" if shown else "random inputs",
                arguments.tensors(arguments.random(sizes, rng)),
                arguments.tensors(arguments.resampled(sizes, rng)),
            )
        )
    for number, given in enumerate([] if isinstance(wanted, bool) else wanted):
        leaves = Arguments(arguments.function, given).leaves
        tensors = arguments.tensors([leaf.array for leaf in leaves])
        out.append(Sample(f"inputs {number} of verify", tensors, required=True))
    return out


def verify(
    path: Path,
    arguments: Arguments,
    output_names: Sequence[str],
    samples: Sequence[Sample],
    rtol: float,
    find_first: Callable[[Path, list[Tensor]], str],
) -> None:
    """Runs the model on inputs and raises RuntimeError where a result is not the function's.

    Args:
        path: the model.
        arguments: of the function.
        output_names: of its results.
        samples: inputs.
        rtol: the largest difference, relative to the largest number of a result.
        find_first: says which op differs first.
    """
    session = _session(path)
    wanted_inputs = {i.name for i in session.get_inputs()}
    for sample in samples:
        tensors, want = _called(arguments, sample)
        if want is None:
            continue
        feed = {
            name: np.ascontiguousarray(t.numpy()).reshape(t.shape)
            for name, t in zip(arguments.names, tensors, strict=True)
            if name in wanted_inputs
        }
        try:
            got = session.run(list(output_names), feed)
        except Exception as error:  # its classes share no base
            raise RuntimeError(
                f"export: onnxruntime fails on {sample.label}, and the model is not written: "
                f"{error}"
            ) from error
        for name, g, w in zip(output_names, got, want, strict=True):
            wrong = difference(np.asarray(g), w, rtol)
            if wrong:
                first = find_first(path, tensors)
                raise RuntimeError(
                    f"export: in onnxruntime, output '{name}' is not that of the function on "
                    f"{sample.label}: {wrong}. {first}The model is not written."
                )


def _called(
    arguments: Arguments, sample: Sample
) -> tuple[list[Tensor], list[np.ndarray[Any, Any]] | None]:
    """The inputs of a sample that the function takes, and its results; None for none."""
    refusal = ""
    for tensors in (sample.tensors, sample.instead):
        if tensors is None:
            continue
        try:
            return tensors, [t.numpy() for t in tensors_in(arguments.call(*tensors))]
        except Exception as error:  # what a function raises for inputs that it does not take
            if sample.required:
                raise
            refusal = str(error)
    warnings.warn(
        f"export: not compared on {sample.label}, which the function itself refuses ({refusal}); "
        "verify=[...] takes inputs to compare on",
        stacklevel=7,
    )
    return sample.tensors, None


def first_difference(
    path: Path,
    plan: Plan,
    value_names: dict[int, str],
    tensors: Sequence[Tensor],
    rtol: float,
) -> str:
    """A sentence on the first op of a plan whose result differs, with all of them as outputs."""
    ours = run(plan, tensors)
    model = onnx.load(path, load_external_data=False)
    outputs = {o.name for o in model.graph.output}
    made = {name for node in model.graph.node for name in node.output}
    exposed = []
    for node in plan.nodes:
        for i in node.outputs:
            name = value_names.get(i, "")
            if name in made:
                exposed.append((node, i, name))
                if name not in outputs:
                    outputs.add(name)
                    dtype = onnx_dtype(plan.values[i].dtype)
                    model.graph.output.append(helper.make_tensor_value_info(name, dtype, None))
    exposing = path.with_name(f"{path.name}.exposing")  # beside the constants that it reads
    exposing.write_bytes(model.SerializeToString())
    session = _session(exposing)
    feed = {
        i.name: np.ascontiguousarray(ours[p].numpy()).reshape(ours[p].shape)
        for i, p in zip(model.graph.input, plan.inputs, strict=True)
    }
    got = session.run([name for _, _, name in exposed], feed)
    for (node, i, name), g in zip(exposed, got, strict=True):
        wrong = difference(np.asarray(g), ours[i].numpy(), rtol)
        if wrong:
            return f"The first op that differs is {node.op} ('{name}' in the file): {wrong}. "
    return ""
