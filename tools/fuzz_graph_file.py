"""Alters files of graphs in every way that it can think of, and loads and runs what comes out.

Whatever a file holds, loading it gives a graph or a ValueError, and running a graph gives arrays or
an exception: no crash, no endless loop, no memory beyond what the file is worth. Cases run in child
processes; one that dies is reported with its number, and --only repeats it.

    PYTHONPATH=python python tools/fuzz_graph_file.py --cases 100000 --jobs 2

CONTRIBUTING.md says how to run it under the sanitizers.
"""

from __future__ import annotations

import io
import math
import random
import re
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import fuzzing
import numpy as np
from fuzzing import NUMBERS, alter_bytes

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.jit import graph_file, trace
from megengine.utils.comp_graph_tools import GraphInference

SECONDS = 20  # of processor time that a case may take: most take a millisecond
# What running a graph may raise; loading one raises ValueError alone.
RUN_ERRORS = (ValueError, TypeError, IndexError, RuntimeError, MemoryError, NotImplementedError)
# Only graphs of fewer elements are run, and only loads of so many more bytes than the file's.
MOST_ELEMENTS = 1 << 18
SLACK = 1 << 20


def dumped(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> bytes:
    """The bytes of a file of a function of float32 arrays."""
    rng = np.random.default_rng(0)
    traced = trace(function, capture_as_const=True)
    traced(*[mge.tensor(rng.normal(size=shape).astype("float32")) for shape in shapes])
    file = io.BytesIO()
    traced.dump(file, keep_param_name=True, **options)
    return file.getvalue()


def seeds() -> list[bytes]:
    """Files of small graphs with ops of many kinds."""
    net = M.Sequential(
        M.Conv2d(2, 3, 3), M.BatchNorm2d(3), M.ReLU(), M.AvgPool2d(2), M.Linear(2, 9)
    )
    net.eval()
    rows = mge.tensor([2, 0, 1], dtype="int32")
    flags = mge.tensor(np.arange(12) % 3 == 0)
    table = mge.tensor(np.arange(12.0))
    lstm = M.LSTM(3, 4)
    return [
        dumped(net, (2, 2, 6, 6), user_info={"classes": ["a", "b"], "mean": np.float32([1, 2])}),
        dumped(lambda x: x[:, ::-1][rows] + F.concat([x[1:], x[:1]]), (3, 4)),
        dumped(lambda x: (F.where(flags, x.reshape(x.shape[0], -1), table), F.sum(x)), (2, 3, 4)),
        dumped(lambda x: lstm(x)[0], (3, 2, 3)),
        dumped(lambda x: {"y": F.softmax(F.exp(x) * 2, axis=-1), "i": F.topk(x, 2)[1]}, (2, 5)),
        dumped(lambda x: F.matmul(F.split(x, 2, axis=1)[0], x.transpose(1, 0)[:4].T.T), (4, 8)),
        dumped(
            lambda x, y: F.vision.interpolate(x, scale_factor=2) + F.broadcast_to(y, (1, 1, 4, 4)),
            (1, 1, 2, 2),
            (4,),
        ),
        dumped(
            lambda x: (
                F.full((x.shape[0], -(-x.shape[1] // 4) * 4), x.shape[0] / min(x.shape[1], 9)),
                F.sum(x) / x.shape[0] ** 0.5 + F.arange(x.shape[1]),
            ),
            (2, 3),
        ),
        dumped(
            lambda x: F.gather(x, 1, F.argmax(x, axis=1, keepdims=True)) + F.full((2, 1), 3), (2, 3)
        ),
    ]


# ---- altering ----------------------------------------------------------------------------------


def parts(data: bytes) -> tuple[bytes, bytes]:
    """The header, and the contents of the constants."""
    (size,) = struct.unpack_from("<Q", data, 12)
    return data[64 : 64 + size], data[64 + size + (-size) % 64 :]


def sealed(header: bytes, contents: bytes, rng: random.Random | None = None) -> bytes:
    """A file of a header and contents, with right checksums, and at times with wrong sizes."""
    rest = b"\0" * (-len(header) % 64) + contents
    sizes = [len(header), 64 + len(header) + len(rest)]
    if rng is not None and rng.random() < 0.1:
        sizes[rng.randrange(2)] = rng.choice([*NUMBERS, sizes[0] + 64, sizes[1] + 64])
    version = 2 if rng is None or rng.random() < 0.95 else rng.choice([0, 1, 3, 2**32 - 1])
    preamble = struct.pack(
        "<8sIQQII", graph_file.MAGIC, version, *sizes, zlib.crc32(header), zlib.crc32(rest)
    )
    preamble += struct.pack("<I", zlib.crc32(preamble))
    return preamble.ljust(64, b"\0") + header + rest


def alter_header(data: bytes, rng: random.Random) -> bytes:
    """Alters bytes of the message, under right checksums."""
    header, contents = parts(data)
    return sealed(alter_bytes(header, rng), contents, rng)


def alter_contents(data: bytes, rng: random.Random) -> bytes:
    """Alters bytes of the constants, under right checksums."""
    header, contents = parts(data)
    return sealed(header, alter_bytes(contents, rng), rng)


def alter_message(data: bytes, rng: random.Random) -> bytes:
    """Gives fields of the message other values."""
    header, contents = parts(data)
    message = graph_file._messages().Graph()
    message.ParseFromString(header)
    for _ in range(rng.choice([1, 1, 2, 4])):
        alter_fields(message, rng)
    return sealed(message.SerializeToString(deterministic=True), contents, rng)


def alter_fields(message: Any, rng: random.Random) -> None:
    """Gives one field of a message, or of one inside it, another value."""
    fields = message.DESCRIPTOR.fields
    field = rng.choice(fields)
    value = getattr(message, field.name)
    repeated = not isinstance(value, (str, bytes, int)) and hasattr(value, "__len__")
    if repeated and len(value) and rng.random() < 0.5:
        at = rng.randrange(len(value))
        if rng.random() < 0.3:
            del value[at]
        elif field.message_type is not None:
            if rng.random() < 0.3:
                value.add().CopyFrom(value[at])
            else:
                alter_fields(value[at], rng)
        elif isinstance(value[at], int):
            value[at] = rng.choice(NUMBERS) % 2**63
        else:
            value[at] = rng.choice(["", "x", "\0", "é" * 300, alter_arithmetic(value[at], rng)])
    elif repeated and field.message_type is not None:
        alter_fields(value.add(), rng)
    elif repeated:
        value.append(
            rng.choice(["", "x"])
            if field.type == field.TYPE_STRING
            else rng.choice(NUMBERS) % 2**63
        )
    elif field.message_type is not None:
        alter_fields(value, rng)
    elif isinstance(value, bool):
        setattr(message, field.name, not value)
    elif isinstance(value, int):
        setattr(message, field.name, rng.choice([*NUMBERS, value + 1, value + 64]) % 2**64)
    elif isinstance(value, bytes):
        setattr(message, field.name, alter_bytes(value, rng))
    elif field.name == "text":
        message.text = alter_text(value, rng)
    elif field.name == "number":
        message.number = alter_arithmetic(value, rng)
    else:
        setattr(message, field.name, rng.choice(["", "x", "bool", "int8", "complex128", "cpu0:3"]))


SYMBOLS = ["%0[0]", "%0[1]", "%1[0]", "%4294967296[0]", "%0[999]", "2", "0", "-1", "64", "1e308"]
SYMBOLS += [str(2**63 - 1), "9" * 40, "nan", "inf", "+", "-", "*", "/", "//", "%", "**", "min", "<"]
SYMBOLS += ["neg", "sqrt", "trunc", "round", "float", "x", ""]


def alter_arithmetic(text: str, rng: random.Random) -> str:
    """Puts other symbols into arithmetic on sizes."""
    symbols = text.split(" ")
    for _ in range(rng.choice([1, 2, 100])):
        at = rng.randrange(len(symbols) + 1)
        symbols[at : at + rng.randrange(2)] = rng.choices(SYMBOLS, k=rng.randrange(3))
    return " ".join(symbols)


TOKEN = re.compile(r"%\d+|-?\d+\.\d+(?:e-?\d+)?|-?\d+|'[^']*'|\w+|\s+|.", re.DOTALL)
DTYPES = ["float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64"]
WORDS = [
    "None",
    "True",
    "False",
    "inf",
    "nan",
    "()",
    "(1,)",
    "(2, 3)",
    "(0,)",
    "''",
    "input",
    *DTYPES,
]
SIZES = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "12",
    "16",
    "-1",
    "-2",
    "7",
    "100",
    "1000000",
    str(2**31),
]
SIZES += [str(2**40), str(2**62), str(2**63 - 1), str(-(2**63)), str(2**64), "1" * 40]
OPS = sorted({t["name"] for t in mge._core.op_types()})


def alter_token(tokens: list[str], at: int, rng: random.Random) -> None:
    token = tokens[at]
    if token.startswith("%"):
        ids = [t for t in tokens if t.startswith("%")]
        tokens[at] = rng.choice([*ids, "%0", f"%{rng.choice(NUMBERS)}"])
    elif re.fullmatch(r"-?\d+", token):
        numbers = [t for t in tokens if re.fullmatch(r"\d+", t)]
        tokens[at] = rng.choice([rng.choice(numbers), rng.choice(SIZES), str(int(token) + 1)])
    elif token in DTYPES:
        tokens[at] = rng.choice(DTYPES)
    elif token in OPS:
        tokens[at] = rng.choice(OPS)
    elif token.startswith("'"):
        names = [t for t in tokens if t.startswith("'")]
        tokens[at] = rng.choice([*names, "'MAX'", "'ADD'", "'x'", "'\\x00'", "'"])
    else:
        tokens[at] = rng.choice([token, rng.choice(WORDS), rng.choice("()[],:=%'\\\n#"), ""])


def alter_text(text: str, rng: random.Random) -> str:
    """Puts other ids, numbers, dtypes, ops and names into a graph, and moves its lines."""
    lines = text.splitlines(keepends=True)
    if rng.random() < 0.2 and lines:
        at, kind = rng.randrange(len(lines)), rng.randrange(3)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(rng.randrange(len(lines)), lines[at])
        else:
            lines.insert(rng.randrange(len(lines)), lines.pop(at))
    tokens = TOKEN.findall("".join(lines))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        if tokens:
            alter_token(tokens, rng.randrange(len(tokens)), rng)
    return "".join(tokens)


def alter_graph(data: bytes, rng: random.Random) -> bytes:
    """Alters the text of the graph, under right checksums."""
    header, contents = parts(data)
    message = graph_file._messages().Graph()
    message.ParseFromString(header)
    message.text = alter_text(message.text, rng)
    return sealed(message.SerializeToString(deterministic=True), contents)


ALTER = [alter_bytes, alter_header, alter_contents, alter_message, alter_graph, alter_graph]


def case(files: list[bytes], seed: int, number: int) -> bytes:
    """The file of a number, which is always the same one."""
    rng = random.Random(f"{seed}:{number}")
    return rng.choice(ALTER)(rng.choice(files), rng)


# ---- trying ------------------------------------------------------------------------------------


def attempt(data: bytes) -> str:
    """Loads a file and runs what it holds; says how that ended."""
    mge.device.reset_max_memory_stats()
    before = mge.device.get_allocated_memory()
    try:
        values = graph_file.load(io.BytesIO(data)).graph.values
    except ValueError:
        return "refused"
    finally:
        took = mge.device.get_max_allocated_memory() - before
        if took > 2 * len(data) + SLACK:
            raise AssertionError(f"loading {len(data)} bytes took {took} bytes")
    if sum(math.prod(v.shape) for v in values) > MOST_ELEMENTS:
        return "loaded, too large to run"
    try:
        net = GraphInference(io.BytesIO(data))
        for more in (0, 1):
            net.run(*[ones(dtype, shape, more) for dtype, shape, _ in net._specs])
    except RUN_ERRORS as error:
        return f"loaded, raised {type(error).__name__}"
    return "ran"


def ones(dtype: np.dtype[Any], shape: tuple[int, ...], more: int) -> np.ndarray[Any, Any]:
    return np.ones((shape[0] + more, *shape[1:]) if shape else (), dtype)


def main() -> None:
    """Tries many cases in child processes, or one in this."""
    options = fuzzing.arguments(__doc__)
    mge.device.set_num_threads(1)
    files = seeds()
    if options.only is not None:
        data = case(files, options.seed, options.only)
        sys.stdout.write(f"{len(data)} bytes: {data!r}\n")
        sys.stdout.flush()
        sys.stdout.write(attempt(data) + "\n")
        return
    sys.exit(
        fuzzing.run(options, lambda number: attempt(case(files, options.seed, number)), SECONDS)
    )


if __name__ == "__main__":
    main()
