"""Loads files of megengine.load that were altered at random.

Files of each kind (pickles of every protocol, safetensors, both of PyTorch's formats) are altered
as bytes, and in their inner structure: opcodes of pickles, the JSON of safetensors, entries of zip
files under right checksums. Whatever comes out has to load or raise one of ``ERRORS``: no crash, no
other exception, nothing run, no case of more than some seconds, and no more memory than a limit.
Each case is made from the seed and its number; a failure is reported with its number, and --only
repeats it.

    PYTHONPATH=python python tools/fuzz_checkpoint.py --cases 100000 --jobs 2
"""

from __future__ import annotations

import functools
import io
import json
import mmap
import os
import pathlib
import pickle
import pickletools
import random
import resource
import struct
import sys
import warnings
import zipfile
from collections import OrderedDict, defaultdict
from typing import Any

import fuzzing
import numpy as np
from fuzzing import NUMBERS, alter_bytes

import megengine as mge
import megengine.module as M
from megengine.serialization import load_safetensors, save_safetensors

SECONDS = 20  # of processor time that a case may take: most take a millisecond
MOST_BYTES = 3 << 30  # of address space beyond what the process has when it starts
# What loading may raise, as its documentation says.
ERRORS = (pickle.UnpicklingError, EOFError, ValueError)
DATA = pathlib.Path(__file__).parent.parent / "tests" / "serialization" / "data"


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """Ends the process where a file made it run something."""
    if _armed and event in FORBIDDEN:
        sys.stderr.write(f"a file caused {event} {args!r}\n")
        os.abort()


_armed: list[bool] = []
FORBIDDEN = {"exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "open"}
FORBIDDEN |= {"subprocess.Popen", "socket.connect", "ctypes.dlopen", "pickle.find_class"}


# ---- files to alter ------------------------------------------------------------------------------


def pickled(value: Any, protocol: int) -> bytes:
    file = io.BytesIO()
    mge.save(value, file, pickle_protocol=protocol)
    return file.getvalue()


def seeds() -> dict[str, list[bytes]]:
    """Valid files, by kind."""
    values = [
        M.Linear(2, 1).state_dict(),
        M.BatchNorm1d(1),
        [mge.Tensor([1.0, 2.0]), mge.Parameter([3]), mge.Tensor([True])],
        {"a": [1, 2.5, "text", None, b"x"], "b": {1, (2, "y")}, "c": 2**70},
        OrderedDict(x=np.float32(1.5), y=defaultdict(list, z=[True])),
        np.zeros(2, [("a", "f4"), ("b", "i2", (2,))]),
        [np.array(["2020-02-29"], "M8[D]"), np.dtype("m8[25us]"), np.array(["x"])],
        [np.asfortranarray(np.ones((2, 3), ">i4")), frozenset([1]), 1j, bytearray(b"z")],
    ]
    own = [pickled(value, protocol) for value in values for protocol in (0, 2, 4, 5)]
    theirs = [(DATA / "tensors.3.pkl").read_bytes()]
    file = io.BytesIO()
    state = {"a": np.ones((2, 3), "float32"), "b": np.array([True]), "c": np.zeros(0, "int8")}
    save_safetensors(state, file, {"k": "v"})
    return {
        "pickle": own + theirs,
        "safetensors": [file.getvalue()],
        "zip": torch_files("torch.small.zip.pth", "torch.zip.pth", "torch.module.pth"),
        "legacy": torch_files("torch.small.legacy.pth", "torch.legacy.pth"),
    }


def torch_files(small: str, *large: str) -> list[bytes]:
    """Files of the tests: nine times of ten the small one."""
    files = [(DATA / name).read_bytes() for name in (small, *large)]
    return [files[0]] * 9 * len(large) + files[1:]


# ---- altering ------------------------------------------------------------------------------------

OPCODES = [code.encode("latin1") for code in pickletools.code2op]
NAMES = [b"os system", b"builtins eval", b"numpy dtype", b"numpy ndarray", b"builtins set"]
NAMES += [b"megengine.tensor Tensor", b"collections OrderedDict", b"numpy.core.multiarray scalar"]
NAMES += [b"torch._utils _rebuild_tensor_v2", b"torch LongStorage", b"megengine.module.rnn LSTM"]
NAMES += [b"numpy.core.multiarray _reconstruct", b"collections defaultdict", b"_codecs encode"]


@functools.cache
def instructions(data: bytes) -> list[bytes]:
    """The instructions of a pickle, each with its argument."""
    try:
        places = [place for _, _, place in pickletools.genops(data)]
    except ValueError:
        return [data]
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]


def alter_pickle(data: bytes, rng: random.Random) -> bytes:
    """Moves, drops, doubles and exchanges instructions, and names other things."""
    # Without frames, whose sizes would be wrong.
    ops = [op for op in instructions(data) if not op.startswith(pickle.FRAME)]
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, kind = rng.randrange(len(ops)), rng.randrange(7)
        if kind == 0:
            del ops[at]
        elif kind == 1:
            ops.insert(at, ops[rng.randrange(len(ops))])
        elif kind == 2:
            other = rng.randrange(len(ops))
            ops[at], ops[other] = ops[other], ops[at]
        elif kind == 3:
            ops[at] = rng.choice(OPCODES) + ops[at][1:]
        elif kind == 4:
            ops.insert(at, b"c" + rng.choice(NAMES).replace(b" ", b"\n") + b"\n")
        elif kind == 5:
            ops[at] = alter_bytes(ops[at], rng)
        else:
            ops.insert(at, rng.choice([b"R", b"b", b"\x81", b"s", b"a", b"u", b"e", b"0", b"2"]))
        if not ops:
            break
    return b"".join(ops)


def alter_json(value: Any, rng: random.Random) -> Any:
    """Gives one place of a JSON value another value."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {**value, rng.choice(["", "x", "__metadata__"]): value[key]}
        return {**value, key: alter_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], alter_json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, str) and rng.random() < 0.7:
        return rng.choice(["F32", "F16", "BOOL", "I8", "I64", "C64", "F4", "", "x"])
    others = [None, True, -1, 1.5, "F32", [], {}, [[]], *NUMBERS]
    return rng.choice([*others, value + 1] if isinstance(value, int) else others)


def alter_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Alters the header, under its right size."""
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    text = json.dumps(alter_json(header, rng)).encode()
    if rng.random() < 0.3:
        text = alter_bytes(text, rng)
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


@functools.cache
def zip_entries(data: bytes) -> list[tuple[str, bytes]]:
    """Names and contents of the entries."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [(name, file.read(name)) for name in file.namelist()]


def alter_zip(data: bytes, rng: random.Random) -> bytes:
    """Alters entries, under right checksums."""
    entries = list(zip_entries(data))
    at = rng.randrange(len(entries)) if rng.random() < 0.3 else 0
    name, contents = entries[at]
    if name.endswith(".pkl"):
        contents = rng.choice([alter_pickle, alter_bytes])(contents, rng)
    else:
        contents = alter_bytes(contents, rng)
    if rng.random() < 0.05:
        name = rng.choice(["../x", "/x", "x", "x" * 300, entries[0][0]])
    entries[at] = name, contents
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", rng.choice([0, 0, 0, 0, 8])) as file:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, contents in entries:
            file.writestr(name, contents)
    return out.getvalue()


@functools.cache
def pickle_ends(data: bytes) -> list[int]:
    """Where the pickles that follow each other begin and end."""
    file, ends = io.BytesIO(data), [0]
    for _ in range(5):
        list(pickletools.genops(file))
        ends.append(file.tell())
    return ends


def alter_legacy(data: bytes, rng: random.Random) -> bytes:
    """Alters one of the pickles in the file."""
    ends = pickle_ends(data)
    at = rng.choice([2, 3, 3, 3, 4])
    begin, end = ends[at], ends[at + 1] if at + 1 < len(ends) else ends[-1]
    return data[:begin] + alter_pickle(data[begin:end] or b".", rng) + data[end:]


STRUCTURE = {
    "pickle": alter_pickle,
    "safetensors": alter_safetensors,
    "zip": alter_zip,
    "legacy": alter_legacy,
}


def case(files: dict[str, list[bytes]], seed: int, number: int) -> tuple[str, bytes]:
    """The file of a number, which is always the same one, and its kind."""
    rng = random.Random(f"{seed}:{number}")
    kind = rng.choice([*files, "pickle"])
    alter = alter_bytes if rng.random() < 0.4 else STRUCTURE[kind]
    return kind, alter(rng.choice(files[kind]), rng)


# ---- trying --------------------------------------------------------------------------------------


def attempt(kind: str, data: bytes) -> str:
    """Loads a file; says how that ended."""
    _armed.append(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if kind == "safetensors":
                load_safetensors(io.BytesIO(data))
            else:
                mge.load(io.BytesIO(data))
    except ERRORS as error:
        return f"{kind}: {type(error).__name__}"
    finally:
        _armed.clear()
    return f"{kind}: loaded"


def main() -> None:
    """Tries many cases in child processes, or one in this."""
    options = fuzzing.arguments(__doc__)
    mge.device.set_num_threads(1)
    files = seeds()
    for kind, examples in files.items():
        for data in examples:
            attempt(kind, data)  # imports what loading imports, before that is an alarm
    "é".encode("cp437")  # as the names in zip files may be
    sys.addaudithook(_audit)
    if options.only is not None:
        kind, data = case(files, options.seed, options.only)
        sys.stdout.write(f"{kind}, {len(data)} bytes: {data!r}\n")
        sys.stdout.flush()
        sys.stdout.write(attempt(kind, data) + "\n")
        return
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, resource.RLIM_INFINITY))
    sys.exit(
        fuzzing.run(options, lambda number: attempt(*case(files, options.seed, number)), SECONDS)
    )


if __name__ == "__main__":
    main()
