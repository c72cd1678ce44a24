"""Files that hold a graph: what ``trace.dump`` writes and ``GraphInference`` reads.

A file is a preamble of 64 bytes, a header (a protobuf message with the graph as text and the names
of its values) and the contents of the constants, each at a multiple of 64 bytes. Each part has a
checksum. ``docs/design/0008-graph-files.md`` describes it byte by byte.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import re
import struct
import zlib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from .. import serialization
from .._core import FileMemory, Graph
from ..core._imperative_rt.core2 import apply
from ..core.ops import builtin
from ..version import __version__
from .sizes import Expression

__all__ = ["Axis", "Batch", "DumpedGraph", "FileSizes", "Place", "load", "save"]

MAGIC = b"\x89OMGE\r\n\n"  # cut or converted line ends are found out, as in PNG
VERSION = 2  # 2 adds numbers that follow sizes
ALIGNMENT = 64
# magic, version, bytes of the header, bytes in all, CRC-32 of the header and of all after it, and
# of the 36 bytes before: 40 bytes, then zeros.
PREAMBLE = struct.Struct("<8sIQQIII")
PREAMBLE_BYTES = 64

# A number in a field: index of the node, name of the field, and which of its numbers.
Place = tuple[int, str, int]


@dataclass
class Batch:
    """How a graph changes with the batch size of its inputs.

    Args:
        size: the batch size that it was recorded with.
        inputs: positions among the inputs whose first axis is the batch.
        slopes: by index of a node and name of a field, how much its numbers grow with the batch:
            in files of version 1, and of edited graphs.
        refusal: why no other batch size will do; empty where others do.
        followed: whether numbers of the graph follow it, so that inputs need to agree.
    """

    size: int
    inputs: list[int]
    slopes: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    refusal: str = ""
    followed: bool = False


@dataclass
class Axis:
    """How a graph changes with the size of another axis of its inputs.

    Args:
        axis: which one; 0 for inputs whose first axis is not the batch.
        size: the size that it was recorded with.
        inputs: positions among the inputs that have this size there.
        step: how much larger it was in the second record.
        growth: by index of a node and name of a field, how much larger its numbers were then, in
            files of version 1.
        refusal: why no other size will do; empty where others do.
        tied: axes of the same number, other than 0, must have one size.
        followed: whether numbers of the graph follow it, so that inputs need to agree.
        every: other sizes differ from this one by multiples of it.
    """

    axis: int
    size: int
    inputs: list[int]
    step: int
    growth: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    refusal: str = ""
    tied: int = 0
    followed: bool = False
    every: int = 1


@dataclass
class DumpedGraph:
    """A graph with its constants, and the names of its values.

    Args:
        graph: what comes from outside in it is an input or a constant.
        inputs: ids of the inputs, in order.
        input_names: a name for each.
        output_names: a name for each output of the graph.
        value_names: names of other values (weights above all), by id.
        batch: how it takes other batch sizes, where that is known.
        axes: how it takes other sizes of other axes, where that is known.
        follows: numbers in fields that are arithmetic on sizes of values.
        decided: what must be true of sizes: the code of the function went by it.
        user_info: what the user wants to keep with it: numbers, text, arrays, containers of them.
        metadata: what wrote it, and when it was read from a file, the version of the format.
    """

    graph: Graph
    inputs: list[int]
    input_names: list[str]
    output_names: list[str]
    value_names: dict[int, str] = field(default_factory=dict)
    batch: Batch | None = None
    axes: list[Axis] = field(default_factory=list)
    follows: dict[Place, Expression] = field(default_factory=dict)
    decided: list[Expression] = field(default_factory=list)
    user_info: Any = None
    metadata: dict[str, str] = field(default_factory=dict)
    memory: FileMemory | None = None


@dataclass
class FileSizes:
    """How large a file came out.

    Args:
        total: bytes in all.
        weights: bytes of the constants.
        checksum: CRC-32 of the header and the constants.
    """

    total: int
    weights: int
    checksum: int


# ---- the message ---------------------------------------------------------------------------------


@functools.cache
def _messages() -> SimpleNamespace:
    """The classes of the messages, made from a description, so that no generated code is needed."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="openmge/graph.proto", package="openmge", syntax="proto3"
    )

    def message(name: str, *fields: tuple[str, int, Any, bool]) -> None:
        made = file.message_type.add(name=name)
        for label, number, kind, repeated in fields:
            added = made.field.add(name=label, number=number)
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".openmge.{kind}"
            else:
                added.type = kind

    text, data, whole, signed = (
        kinds.TYPE_STRING,
        kinds.TYPE_BYTES,
        kinds.TYPE_UINT64,
        kinds.TYPE_SINT64,
    )
    message("Name", ("id", 1, whole, False), ("name", 2, text, False))
    message(
        "Weight",
        ("id", 1, whole, False),
        ("offset", 2, whole, False),
        ("dtype", 3, text, False),
        ("shape", 4, whole, True),
        ("device", 5, text, False),
    )
    message("Entry", ("key", 1, text, False), ("value", 2, text, False))
    message(
        "Slope", ("node", 1, whole, False), ("field", 2, text, False), ("numbers", 3, signed, True)
    )
    message(
        "Batch",
        ("size", 1, whole, False),
        ("inputs", 2, whole, True),
        ("slopes", 3, "Slope", True),
        ("refusal", 4, text, False),
        ("followed", 5, kinds.TYPE_BOOL, False),
    )
    message(
        "Follow",
        ("node", 1, whole, False),
        ("field", 2, text, False),
        ("position", 3, whole, False),
        ("number", 4, text, False),
    )
    message(
        "Axis",
        ("axis", 1, whole, False),
        ("size", 2, whole, False),
        ("inputs", 3, whole, True),
        ("step", 4, whole, False),
        ("growth", 5, "Slope", True),
        ("refusal", 6, text, False),
        ("tied", 7, whole, False),
        ("followed", 8, kinds.TYPE_BOOL, False),
        ("every", 9, whole, False),
    )
    message(
        "Graph",
        ("text", 1, text, False),
        ("inputs", 2, "Name", True),
        ("outputs", 3, text, True),
        ("names", 4, "Name", True),
        ("weights", 5, "Weight", True),
        ("batch", 6, "Batch", False),
        ("user_info", 7, data, False),
        ("metadata", 8, "Entry", True),
        ("axes", 9, "Axis", True),
        ("follows", 10, "Follow", True),
        ("decided", 11, text, True),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("Name", "Weight", "Entry", "Slope", "Batch", "Follow", "Axis", "Graph")
    made = [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"openmge.{n}")) for n in names
    ]
    return SimpleNamespace(**dict(zip(names, made, strict=True)))


# ---- saving --------------------------------------------------------------------------------------


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def _outside_the_text(text: str) -> list[int]:
    """Ids of the constants whose contents are not in the text."""
    return [int(i) for i in re.findall(r"^%(\d+) = constant : ", text, re.MULTILINE)]


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _dense(dumped: DumpedGraph) -> DumpedGraph:
    """The same with dense ids, and constants in row-major order."""
    graph, ids = dumped.graph.renumbered(dumped.inputs)
    for i, value in enumerate(graph.values):
        if value.constant is not None and value.strides != _row_major(value.shape):
            (plain,) = apply(builtin.Contiguous(), value.constant)
            graph.set_constant(i, plain)
    return replace(
        dumped,
        graph=graph,
        inputs=[ids[i] for i in dumped.inputs],
        value_names={ids[i]: name for i, name in dumped.value_names.items() if i in ids},
        follows={place: e.renamed(ids) for place, e in dumped.follows.items()},
        decided=[e.renamed(ids) for e in dumped.decided],
    )


def _check_names(dumped: DumpedGraph) -> None:
    for what, names, count in (
        ("input", dumped.input_names, len(dumped.inputs)),
        ("output", dumped.output_names, len(dumped.graph.outputs)),
    ):
        if len(names) != count:
            raise ValueError(f"expected {count} {what} names, got {len(names)}")
    twice = [n for n in dumped.input_names if dumped.input_names.count(n) > 1]
    if twice or "" in dumped.input_names:
        raise ValueError(f"expected a name of its own for each input, got {dumped.input_names}")


def _header(dumped: DumpedGraph, text: str, offsets: dict[int, int]) -> bytes:
    messages = _messages()
    graph = messages.Graph(text=text, outputs=dumped.output_names)
    for i, name in zip(dumped.inputs, dumped.input_names, strict=True):
        graph.inputs.add(id=i, name=name)
    for i, name in sorted(dumped.value_names.items()):
        graph.names.add(id=i, name=name)
    for i, offset in offsets.items():
        value = dumped.graph.values[i]
        graph.weights.add(
            id=i,
            offset=offset,
            dtype=value.dtype.name,
            shape=value.shape,
            device=value.device,
        )
    if dumped.batch is not None:
        graph.batch.size, graph.batch.refusal = dumped.batch.size, dumped.batch.refusal
        graph.batch.inputs.extend(dumped.batch.inputs)
        graph.batch.followed = dumped.batch.followed
        for (node, label), numbers in dumped.batch.slopes.items():
            graph.batch.slopes.add(node=node, field=label, numbers=numbers)
    for axis in dumped.axes:
        added = graph.axes.add(
            axis=axis.axis,
            size=axis.size,
            inputs=axis.inputs,
            step=axis.step,
            refusal=axis.refusal,
            tied=axis.tied,
            followed=axis.followed,
            every=axis.every,
        )
        for (node, label), numbers in axis.growth.items():
            added.growth.add(node=node, field=label, numbers=numbers)
    for (node, label, position), expression in dumped.follows.items():
        graph.follows.add(node=node, field=label, position=position, number=expression.text())
    graph.decided.extend(e.text() for e in dumped.decided)
    if dumped.user_info is not None:
        info = io.BytesIO()
        serialization.save(dumped.user_info, info)
        graph.user_info = info.getvalue()
    for key, text_ in sorted(dumped.metadata.items()):
        graph.metadata.add(key=key, value=text_)
    header: bytes = graph.SerializeToString(deterministic=True)
    return header


def _checksum(pieces: list[Any]) -> int:
    return functools.reduce(lambda crc, piece: zlib.crc32(memoryview(piece), crc), pieces, 0)


def _pieces(dumped: DumpedGraph) -> tuple[bytes, list[Any], int]:
    """The preamble, what follows it in order, and how much of that is contents of constants."""
    text = dumped.graph.text()
    arrays: list[Any] = []
    offsets: dict[int, int] = {}
    end = weights = 0
    for i in _outside_the_text(text):
        array = dumped.graph.values[i].constant.numpy()  # type: ignore[union-attr]
        offsets[i] = end
        arrays.append(array.reshape(-1).view(np.uint8))
        arrays.append(b"\0" * (_aligned(array.nbytes) - array.nbytes))
        end += _aligned(array.nbytes)
        weights += array.nbytes
    header = _header(dumped, text, offsets)
    before = PREAMBLE_BYTES + len(header)
    arrays.insert(0, b"\0" * (_aligned(before) - before))
    rest = _checksum(arrays)
    first = PREAMBLE.pack(
        MAGIC, VERSION, len(header), _aligned(before) + end, zlib.crc32(header), rest, 0
    )[:-4]
    preamble = first + struct.pack("<I", zlib.crc32(first))
    return preamble.ljust(PREAMBLE_BYTES, b"\0"), [header, *arrays], weights


def save(
    dumped: DumpedGraph,
    file: str | os.PathLike[str] | IO[bytes],
    append: bool = False,
    metadata: bool = True,
) -> FileSizes:
    """Writes a graph into a file.

    A file given by its name is written aside and renamed when it is complete and on disk.

    Args:
        dumped: the graph. What comes from outside in it must be an input or a constant.
        file: the name of a file, or a file open for writing bytes.
        append: keep what the named file holds, and put the graph after it.
        metadata: note in it which version of OpenMGE wrote it.

    Raises:
        ValueError: names that do not fit, or a value that is neither an input nor a constant.
        TypeError: ``file`` is of another kind.
    """
    _check_names(dumped)
    dense = _dense(dumped)
    if metadata:
        dense.metadata = {"writer": f"OpenMGE {__version__}", **dense.metadata}
    _check_externals(dense.graph, dense.inputs)
    preamble, pieces, weights = _pieces(dense)
    sizes = FileSizes(len(preamble) + sum(len(p) for p in pieces), weights, _checksum(pieces))

    def write(out: IO[bytes]) -> None:
        out.write(preamble)
        for piece in pieces:
            out.write(piece)

    if isinstance(file, (str, os.PathLike)):
        before = b""
        if append:
            with contextlib.suppress(FileNotFoundError), open(file, "rb") as old:
                before = old.read()

        def write_all(out: IO[bytes]) -> None:
            out.write(before.ljust(_aligned(len(before)), b"\0"))
            write(out)

        serialization.write_aside(os.fspath(file), write_all)
    elif hasattr(file, "write"):
        write(file)
    else:
        raise TypeError(f"expected a file name or a file open for writing, got {file!r}")
    return sizes


def _check_externals(graph: Graph, inputs: list[int]) -> None:
    values = graph.values
    for i, value in enumerate(values):
        if value.external and value.constant is None and i not in inputs:
            raise ValueError(f"%{i} is neither an input nor a constant")


# ---- loading -------------------------------------------------------------------------------------


def _damaged(what: str) -> ValueError:
    return ValueError(f"load: the graph file is damaged: {what}")


def _reject_others(data: np.ndarray[Any, Any]) -> None:
    """Raises for what is no graph file."""
    start = data[: len(MAGIC)].tobytes()
    if start == MAGIC:
        return
    if data[8:12].tobytes() == b"mgv2" or start[:4] == b"MGBC":
        raise ValueError(
            "load: this file was dumped by MegEngine, in a format of its own. Load the model's "
            "code and weights (megengine.load reads its checkpoints), and dump it again with "
            "megengine.jit.trace(..., capture_as_const=True)"
        )
    if len(start) < len(MAGIC) and MAGIC.startswith(start):
        raise _damaged(f"it ends after {len(start)} bytes")
    raise ValueError(
        f"load: expected a file of trace.dump, which begins with {MAGIC!r}, got {start!r}"
    )


def _sections(data: np.ndarray[Any, Any]) -> tuple[bytes, int, int]:
    """The header, where the contents of the constants begin, and where all ends."""
    _reject_others(data)
    if len(data) < PREAMBLE_BYTES:
        raise _damaged(f"it ends after {len(data)} of at least {PREAMBLE_BYTES} bytes")
    preamble = data[:PREAMBLE_BYTES].tobytes()
    _, version, header_bytes, total, header_crc, rest_crc, own_crc = PREAMBLE.unpack_from(preamble)
    if zlib.crc32(preamble[: PREAMBLE.size - 4]) != own_crc or any(preamble[PREAMBLE.size :]):
        raise _damaged("the checksum of its first 64 bytes is wrong")
    if version > VERSION:
        raise ValueError(
            f"load: the graph file is of version {version}, and this OpenMGE reads up to {VERSION}"
        )
    begin = _aligned(PREAMBLE_BYTES + header_bytes)
    if begin > total or total % ALIGNMENT:
        raise _damaged("its sections do not fit its size")
    if len(data) < total:
        raise _damaged(f"it ends after {len(data)} of {total} bytes")
    header = data[PREAMBLE_BYTES : PREAMBLE_BYTES + header_bytes].tobytes()
    if zlib.crc32(header) != header_crc:
        raise _damaged("the checksum of its header is wrong")
    rest: Any = data[PREAMBLE_BYTES + header_bytes : total]
    if zlib.crc32(rest) != rest_crc:
        raise _damaged("the checksum of its constants is wrong")
    return header, begin, total


def _constants(message: Any, memory: FileMemory, begin: int, end: int) -> dict[int, Any]:
    out: dict[int, Any] = {}
    for weight in message.weights:
        if weight.id in out:
            raise _damaged(f"constant %{weight.id} is there twice")
        if weight.id >= end:  # more than there are letters in the text of the graph
            raise _damaged(f"there is no constant %{weight.id}")
        if weight.offset > end:
            raise _damaged(f"constant %{weight.id} goes beyond the end")
        if weight.offset % ALIGNMENT:
            raise _damaged(f"constant %{weight.id} is not in steps of {ALIGNMENT} bytes")
        try:
            tensor = memory.tensor(
                begin + weight.offset, weight.dtype, tuple(weight.shape), weight.device
            )
        except (ValueError, TypeError, RuntimeError) as error:
            raise _damaged(f"constant %{weight.id}: {error}") from error
        array = tensor.numpy()
        if begin + weight.offset + array.nbytes > end:
            raise _damaged(f"constant %{weight.id} goes beyond the end")
        if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
            raise _damaged(f"constant %{weight.id} holds more than True and False")
        out[weight.id] = tensor
    return out


def _changes(graph: Graph, message: Any) -> dict[tuple[int, str], list[int]]:
    out = {}
    for change in message:
        numbers = _numbers(graph, change.node, change.field)
        if not numbers or len(numbers) != len(change.numbers):
            raise _damaged(
                f"field '{change.field}' of node {change.node} has {len(numbers)} numbers"
            )
        out[change.node, change.field] = list(change.numbers)
    return out


def _batch(message: Any, graph: Graph, inputs: list[int]) -> Batch | None:
    if not message.HasField("batch"):
        return None
    batch = message.batch
    for position in batch.inputs:
        shape = graph.values[inputs[position]].shape if position < len(inputs) else ()
        if not shape or shape[0] != batch.size:
            raise _damaged(f"input {position} has no batch of {batch.size}")
    slopes = _changes(graph, batch.slopes)
    return Batch(batch.size, list(batch.inputs), slopes, batch.refusal, batch.followed)


def _axes(message: Any, graph: Graph, inputs: list[int]) -> list[Axis]:
    out = []
    taken = set()
    for axis in message.axes:
        for position in axis.inputs:
            shape = graph.values[inputs[position]].shape if position < len(inputs) else ()
            if axis.axis >= len(shape) or shape[axis.axis] != axis.size or axis.step == 0:
                raise _damaged(f"axis {axis.axis} of input {position} has no size of {axis.size}")
            if (axis.axis, position) in taken:
                raise _damaged(f"axis {axis.axis} of input {position} is there twice")
            taken.add((axis.axis, position))
        growth = _changes(graph, axis.growth)
        out.append(
            Axis(
                axis.axis,
                axis.size,
                list(axis.inputs),
                axis.step,
                growth,
                axis.refusal,
                axis.tied,
                axis.followed,
                axis.every or 1,
            )
        )
    return out


def _follows(message: Any, graph: Graph, inputs: list[int]) -> dict[Place, Expression]:
    out: dict[Place, Expression] = {}
    nodes, values = graph.nodes if message.follows else [], graph.values
    makers = {v: i for i, node in enumerate(nodes) for v in node.outputs}
    makers |= dict.fromkeys(inputs, -1)
    fields: dict[int, dict[str, Any]] = {}
    for follow in message.follows:
        place = follow.node, follow.field, follow.position
        if follow.node >= len(nodes):
            raise _damaged(f"there is no node {follow.node}")
        known = fields.setdefault(follow.node, nodes[follow.node].fields)
        if follow.position >= len(numbers_of(known.get(follow.field))) or place in out:
            raise _damaged(
                f"field '{follow.field}' of node {follow.node} has no number {follow.position} "
                "that follows sizes, or two"
            )
        expression = _expression(follow.number)
        for value, axis in expression.axes():
            if makers.get(value, len(nodes)) >= follow.node or axis >= len(values[value].shape):
                raise _damaged(
                    f"node {follow.node} follows axis {axis} of %{value}, which it cannot"
                )
        out[place] = expression
    return out


def _decided(message: Any, graph: Graph, inputs: list[int]) -> list[Expression]:
    out = [_expression(text) for text in message.decided]
    values = graph.values if out else []
    made = {v for node in (graph.nodes if out else []) for v in node.outputs}.union(inputs)
    for value, axis in (d for e in out for d in e.axes()):
        if value not in made or axis >= len(values[value].shape):
            raise _damaged(f"a comparison is about axis {axis} of %{value}, which it cannot")
    return out


def _expression(text: str) -> Expression:
    try:
        return Expression.parse(text)
    except ValueError as error:
        raise _damaged(str(error)) from error


def numbers_of(value: Any) -> list[Any]:
    """The numbers of a field, which may depend on sizes: it is one, or a tuple of them."""
    numbers = list(value) if isinstance(value, tuple) else [value]
    fits = all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
    return numbers if fits else []


def _numbers(graph: Graph, node: int, label: str) -> list[int]:
    nodes = graph.nodes
    if node >= len(nodes):
        raise _damaged(f"there is no node {node}")
    numbers = numbers_of(nodes[node].fields.get(label))
    return numbers if all(isinstance(n, int) for n in numbers) else []


def _parse(memory: FileMemory) -> tuple[DumpedGraph, int]:
    """The first graph in a file, and where it ends."""
    data = memory.array()
    header, begin, end = _sections(data)
    messages = _messages()
    from google.protobuf.message import DecodeError

    message = messages.Graph()
    try:
        message.ParseFromString(header)
    except DecodeError as error:
        raise _damaged(f"its header cannot be read: {error}") from error
    constants = _constants(message, memory, begin, end)
    if constants.keys() - set(_outside_the_text(message.text)):
        raise _damaged("it has constants that the graph does not name")
    try:
        graph = Graph.parse(message.text, constants, dense=True)
    except ValueError as error:
        raise _damaged(str(error)) from error
    values = graph.values
    inputs = [i.id for i in message.inputs]
    for i in inputs:
        if i >= len(values) or not values[i].external or values[i].constant is not None:
            raise _damaged(f"input %{i} is no value from outside")
    if len(set(inputs)) < len(inputs):
        raise _damaged("two inputs are one value")
    names = {n.id: n.name for n in message.names if n.id < len(values)}
    out = DumpedGraph(
        graph,
        inputs,
        [i.name for i in message.inputs],
        list(message.outputs),
        names,
        _batch(message, graph, inputs),
        _axes(message, graph, inputs),
        _follows(message, graph, inputs),
        _decided(message, graph, inputs),
        _user_info(message.user_info),
        {entry.key: entry.value for entry in message.metadata},
        memory,
    )
    try:
        _check_names(out)
        _check_externals(graph, inputs)
    except ValueError as error:
        raise _damaged(str(error)) from error
    return out, end


def _user_info(data: bytes) -> Any:
    if not data:
        return None
    try:
        return serialization.load(io.BytesIO(data))
    except (pickle.UnpicklingError, EOFError) as error:
        raise _damaged(f"its user_info cannot be read: {error}") from error


def load(file: str | os.PathLike[str] | IO[bytes]) -> DumpedGraph:
    """Reads a graph from a file.

    Constants of a large file that is given by its name are mapped, not read: they take memory where
    they are used, and what is written to them does not go into the file. The file may be deleted or
    replaced while they are in use.

    Args:
        file: the name of a file, or a file open for reading bytes. The latter is left at the end of
            the graph, where another one may follow.

    Raises:
        ValueError: the file is damaged, or no graph file.
        TypeError: ``file`` is of another kind.
    """
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            memory = FileMemory.open(opened.fileno(), size)
        dumped, end = _parse(memory)
        if end < size:
            _reject_others(memory.array()[end:])
        return dumped
    if not hasattr(file, "read"):
        raise TypeError(f"load: expected a file name or a file open for reading, got {file!r}")
    data = file.read()
    dumped, end = _parse(FileMemory.copy(data))
    if end < len(data):
        file.seek(end - len(data), os.SEEK_CUR)
    return dumped
