"""What trace.dump does.

It records the function once more, finds out how the record depends on the batch size, and writes
both into a file.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from .. import random
from .._core import Graph, GraphNode
from ..tensor import Tensor
from .following import Call, with_made_constants
from .graph_file import DumpedGraph, save
from .recording import Recording, record_with_sizes, tensors_in

__all__ = ["CompGraphDumpResult", "DumpOptions", "dump"]


class CompGraphDumpResult(NamedTuple):
    """What was dumped.

    Args:
        nr_opr: the number of ops, inputs and constants.
        tot_bytes: the size of the file.
        tensor_value_bytes: bytes of the constants that stand beside the graph's text.
        content_hash: a checksum of the graph and its constants.
        inputs: names of the inputs.
        outputs: names of the outputs.
        params: names of the constants that have one.
    """

    nr_opr: int
    tot_bytes: int
    tensor_value_bytes: int
    content_hash: int
    inputs: list[str]
    outputs: list[str]
    params: list[str]


@dataclass
class DumpOptions:
    """Arguments of ``trace.dump`` that say what goes into the file; see there."""

    arg_names: str | list[str] | None = None
    output_names: str | list[str] | None = None
    append: bool = False
    keep_var_name: int = 1
    keep_param_name: bool = False
    strip_info_file: str | os.PathLike[str] | None = None
    append_json: bool = False
    user_info: Any = None
    enable_metadata: bool = True
    optimize_for_inference: bool = True


# Options of the reference's optimisation that choose layouts, which are chosen on loading here.
_LAYOUTS = {
    "enable_hwcd4",
    "enable_nchw88",
    "enable_nchw44",
    "enable_nchw44_dot",
    "enable_nchw4",
    "enable_nchw32",
    "enable_nchw64",
    "enable_chwn4",
    "enable_fuse_conv_bias_nonlinearity",
    "enable_fuse_conv_bias_with_z",
    "enable_fuse_grain",
    "enable_fuse_preprocess",
    "enable_layout_transform",
    "layout_transform_target",
    "enable_weight_preprocess",
}
# Those that change what is computed.
_PRECISIONS = {"enable_io16xc32", "enable_ioc16"}


def check_unsupported(
    input_data: Any,
    resize_input: bool,
    input_transform: Any,
    dump_format: Any,
    others: Mapping[str, Any],
) -> None:
    """Raises for arguments of ``trace.dump`` that ask for what there is not."""
    if input_data is not None or input_transform is not None or resize_input:
        raise NotImplementedError(
            "trace.dump: a file holds no test cases (input_data, input_transform, resize_input); "
            "run GraphInference on the file and compare with the function"
        )
    if dump_format is not None:
        raise NotImplementedError(
            f"trace.dump: expected dump_format=None, got {dump_format!r}: files in MegEngine's own "
            "formats are not written"
        )
    check_options("trace.dump", others)


def check_options(caller: str, options: Mapping[str, Any]) -> None:
    """Raises for options of the reference's optimisation that are unknown or change numbers."""
    for name, value in options.items():
        if name in _PRECISIONS:
            if value:
                raise NotImplementedError(
                    f"{caller}: {name} is not supported; trace the function under amp.autocast, "
                    "or with a float16 module"
                )
        elif name not in _LAYOUTS:
            raise ValueError(f"{caller}: unknown option '{name}'")


# ---- the record --------------------------------------------------------------------------------


def check_inference(nodes: Iterable[GraphNode]) -> None:
    """Raises where a graph is one of training: its file would not compute what the model does."""
    for node in nodes:
        kind, fields = node.kind, node.fields
        if kind == "BatchNorm" and fields["fwd_mode"] == "TRAINING":
            raise ValueError(
                "trace.dump: a BatchNorm is in training mode, where it normalises by the batch "
                "that it sees; call eval() on the module and call the traced function again"
            )
        chances = ("drop_prob", "dropout", "attn_prob", "out_prob")
        training = fields.get("training", True) and fields.get("fwd_mode") != "INFERENCE"
        if training and any(fields.get(name) for name in chances):
            raise ValueError(
                f"trace.dump: {kind} drops elements at random, as in training; call eval() on the "
                "module and call the traced function again"
            )


def _warn_of_reads(recording: Recording) -> None:
    read = recording.read_by_python()
    if read:
        warnings.warn(
            "trace.dump: during the call Python reads numbers that depend on the inputs, with "
            "numpy(), item(), a branch or a Tensor as a size, and what it does with them is fixed "
            f"in the file; they are results of {', '.join(read)}",
            stacklevel=4,
        )


def _named_outputs(result: Any) -> list[str] | None:
    """Names of the outputs where the result gives them; raises where it holds no Tensors."""
    tensors = [result] if isinstance(result, Tensor) else result
    if isinstance(result, dict) and all(isinstance(k, str) for k in result):
        tensors = list(result.values())
    fits = isinstance(tensors, list | tuple) and all(isinstance(t, Tensor) for t in tensors)
    if not fits or not tensors:
        raise ValueError(
            "trace.dump: expected the function to return a Tensor, a list or tuple of Tensors, or "
            f"a dict from names to Tensors, got {_described(result)}"
        )
    return list(result) if isinstance(result, dict) else None


def _described(value: Any) -> str:
    if isinstance(value, list | tuple | dict):
        items = value.values() if isinstance(value, dict) else value
        kinds = sorted({type(v).__name__ for v in items})
        return f"a {type(value).__name__} of {', '.join(kinds) or 'nothing'}"
    return "None" if value is None else f"a {type(value).__name__}"


def _unique(names: Iterable[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        at, wanted = 0, name
        while wanted in out:
            at += 1
            wanted = f"{name}_{at}"
        out.append(wanted)
    return out


def _argument_names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    names = [f"arg_{i}" for i, _ in enumerate(tensors_in(args))]
    for key, value in kwargs.items():
        count = len(list(tensors_in(value)))
        names += [key] if isinstance(value, Tensor) else [f"{key}_{i}" for i in range(count)]
    return names


def _output_names(graph: Graph, input_names: dict[int, str]) -> list[str]:
    """Each output is called after the op that made it."""
    made = dict(input_names)
    for node in graph.nodes:
        name = node.fields.get("mode") if node.kind == "Elemwise" else node.kind
        for i in node.outputs:
            made[i] = str(name)
    return _unique(made.get(i, "const") for i in graph.outputs)


def _given(names: str | list[str] | None, default: list[str], what: str) -> list[str]:
    if names is None:
        return default
    names = [names] if isinstance(names, str) else list(names)
    if len(names) != len(default):
        raise ValueError(
            f"trace.dump: wrong number of {what}, expected {len(default)}, got {len(names)}"
        )
    return names


# ---- the file ----------------------------------------------------------------------------------


def write_strip_info(
    graph: Graph, file: str | os.PathLike[str], append: bool, checksum: int
) -> None:
    """Which ops, modes and dtypes the graph needs, for builds that leave the others out."""
    nodes = graph.nodes
    info: dict[str, Any] = {
        "dtypes": sorted({v.dtype.name for v in graph.values}),
        "elemwise_modes": sorted({n.fields["mode"] for n in nodes if n.kind == "Elemwise"}),
        "opr_types": sorted({n.kind for n in nodes}),
        "hash": checksum,
    }
    content: Any = info
    if append and os.path.exists(file):
        with open(file, encoding="utf-8") as old:
            before = json.load(old)
        content = [*(before if isinstance(before, list) else [before]), info]
    with open(file, "w", encoding="utf-8") as new:
        json.dump(content, new)


def _metadata(options: DumpOptions) -> dict[str, str]:
    """What Network.metadata tells of a file."""
    return {
        "graph_modified": "False",
        "optimized_for_inference": str(options.optimize_for_inference),
    }


def dump(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    file: str | os.PathLike[str] | IO[bytes],
    options: DumpOptions,
) -> CompGraphDumpResult:
    """Records a call of the function and writes it into a file; see ``trace.dump``."""
    state = random.get_rng_state()
    try:
        recording = record_with_sizes(function, args, kwargs)
    finally:
        random.set_rng_state(state)
    graph = recording.graph
    check_inference(graph.nodes)
    _warn_of_reads(recording)
    names = _named_outputs(recording.result)
    inputs = _given(options.arg_names, _argument_names(args, kwargs), "arg_names")
    default = names or _output_names(graph, dict(zip(recording.inputs, inputs, strict=True)))
    outputs = _given(options.output_names, default, "output_names")
    following = Call(function, args, kwargs, recording).following()
    for why in following.fixed:
        warnings.warn(f"trace.dump: {why}", stacklevel=3)
    for i, tensor in recording.captured.items():
        graph.set_constant(i, tensor)
    follows = with_made_constants(graph, following)
    keep_names = options.keep_param_name or options.keep_var_name > 0
    dumped = DumpedGraph(
        graph,
        recording.inputs,
        inputs,
        outputs,
        recording.names if keep_names else {},
        following.batch,
        following.axes,
        follows,
        following.decided,
        options.user_info,
        _metadata(options) if options.enable_metadata else {},
    )
    sizes = save(dumped, file, append=options.append, metadata=options.enable_metadata)
    if options.strip_info_file is not None:
        write_strip_info(graph, options.strip_info_file, options.append_json, sizes.checksum)
    constants = {i for i, value in enumerate(graph.values) if value.constant is not None}
    used = {i for node in graph.nodes for i in node.inputs} | set(graph.outputs)
    return CompGraphDumpResult(
        nr_opr=len(graph.nodes) + len(used & constants) + len(inputs),
        tot_bytes=sizes.total,
        tensor_value_bytes=sizes.weights,
        content_hash=sizes.checksum,
        inputs=inputs,
        outputs=outputs,
        params=list(dumped.value_names.values()),
    )
