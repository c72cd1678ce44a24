"""Loading never runs code from a file, and a damaged file is an exception."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pathlib
import pickle
import pickletools
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine.serialization import load, save

CALLED: list[str] = []


def canary(*args: Any, **kwargs: Any) -> str:
    CALLED.append("called")
    return "called"


class Calls:
    """Pickles as a call of any function."""

    def __init__(self, function: Callable[..., Any], *args: Any):
        self.function, self.args = function, args

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.args


class State:
    """Pickles with a state that its class would take in."""

    def __setstate__(self, state: Any) -> None:
        canary()

    def __getstate__(self) -> Any:
        return {"x": 1}


class Dict(dict):
    def __setitem__(self, key: Any, value: Any) -> None:
        canary()


def opcodes(*parts: bytes) -> bytes:
    return b"\x80\x04" + b"".join(parts) + b"."


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


RECONSTRUCT = name("numpy.core.multiarray", "_reconstruct") + name("numpy", "ndarray")
ARRAY = RECONSTRUCT + b"K\x00\x85C\x01b\x87R"  # _reconstruct(ndarray, (0,), b"b")
DTYPE = name("numpy", "dtype") + b"\x8c\x02f4\x89\x88\x87R"  # dtype("f4", False, True)
LINEAR = name("megengine.module.linear", "Linear") + b")\x81"
# (x, x) of (x, x) of ...: 2**60 items to hash
BILLION = b")" + b"\x94h\x00\x86" + b"".join(b"\x94h" + bytes([i]) + b"\x86" for i in range(1, 60))
NAMES = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "getattr"),
    ("builtins", "print"),
    ("builtins", "type"),
    ("builtins", "map"),
    ("builtins", "__import__"),
    ("operator", "attrgetter"),
    ("functools", "partial"),
    ("pickle", "loads"),
    ("_pickle", "loads"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("numpy", "frombuffer"),
    ("numpy.core.multiarray", "fromfile"),
    ("numpy.core.multiarray", "_reconstruct.__globals__"),
    ("numpy.testing._private.utils", "runstring"),
    ("megengine.tensor", "Tensor.__init__"),
    ("megengine.tensor", "np"),
    ("megengine.serialization", "os"),
    ("megengine.serialization", "load"),
    ("megengine.module", "Module"),
    ("collections", "OrderedDict.fromkeys"),
    ("types", "FunctionType"),
    ("tests.serialization.test_hostile_files", "canary"),
    ("", ""),
]

HOSTILE = {
    "call": lambda: pickle.dumps(Calls(canary)),
    "system": lambda: pickle.dumps({"w": Calls(os.system, "exit 1")}),
    "print in a dict": lambda: pickle.dumps({"weight": [Calls(print, "x")]}),
    "state of an object": lambda: pickle.dumps(State()),
    "subclass of dict": lambda: pickle.dumps(Dict(a=1)),
    "module": lambda: pickle.dumps(collections.Counter("ab")),
    "reducer of an allowed name": lambda: opcodes(name("numpy", "ndarray"), b"K\x05\x85R"),
    "call of a result": lambda: opcodes(ARRAY, b")R"),
    "call of a string": lambda: opcodes(b"\x8c\x01x)R"),
    "new of an array": lambda: opcodes(name("numpy", "ndarray"), b"K\x05\x85\x81"),
    "keywords": lambda: opcodes(name("collections", "OrderedDict"), b")}\x8c\x01aK\x01s\x92"),
    "persistent id": lambda: opcodes(b"\x8c\x01xQ"),
    "extension": lambda: opcodes(b"\x82\x01"),
    "inst": lambda: opcodes(b"(ios\nsystem\n"),
    "obj": lambda: opcodes(b"(", name("os", "system"), b"\x8c\x02idoR"),
    "dict of a dtype": lambda: opcodes(DTYPE, b"}b"),
    "fields of a dtype": lambda: opcodes(
        name("numpy", "dtype"),
        b"\x8c\x02S8\x89\x88\x87R(K\x03\x8c\x01|N(\x8c\x01at}\x8c\x01a",
        DTYPE,
        b"K\x7f\x86sK\x08K\x01K\x10tb",
    ),
    "objects": lambda: pickle.dumps(np.array([Calls(canary)], dtype=object)),
    "an object dtype": lambda: pickle.dumps(np.array([None], dtype=object)),
    "objects in a structure": lambda: pickle.dumps(np.zeros(2, dtype=[("a", "O")])),
    "array state of a dict": lambda: opcodes(b"}", b"(K\x01K\x02tb"),
    "tensor with a state": lambda: opcodes(
        name("megengine.tensor", "Tensor"), ARRAY, b"\x85R}\x8c\x01xK\x01sb"
    ),
    "tensor of text": lambda: opcodes(name("megengine.tensor", "Tensor"), b"\x8c\x01x\x85R"),
    "array of another size": lambda: opcodes(ARRAY, b"(K\x01K\x09\x85", DTYPE, b"\x89C\x04abcdtb"),
    "array of negative size": lambda: opcodes(
        ARRAY, b"(K\x01J\xff\xff\xff\xff\x85", DTYPE, b"\x89C\x04abcdtb"
    ),
    "array of a huge size": lambda: opcodes(
        ARRAY, b"(K\x01\x8a\x09", b"\x00" * 8 + b"\x01", b"\x85", DTYPE, b"\x89C\x04abcdtb"
    ),
    "flags that are neither": lambda: opcodes(
        ARRAY,
        b"(K\x01K\x04\x85",
        name("numpy", "dtype"),
        b"\x8c\x02b1\x89\x88\x87R\x89C\x04\x00\x01\x02\x00tb",
    ),
    "reconstruct of a size": lambda: opcodes(RECONSTRUCT, b"J\xff\xff\xff\x7f\x85C\x01b\x87R"),
    "call of an array type": lambda: opcodes(name("numpy", "float32"), b"K\x05\x85R"),
    "call of a list": lambda: opcodes(name("builtins", "list"), b"]\x85R"),
    "defaultdict of a function": lambda: opcodes(
        name("collections", "defaultdict"), name("_codecs", "encode"), b"\x85R"
    ),
    "reconstructor of a set": lambda: opcodes(
        name("copyreg", "_reconstructor"),
        name("builtins", "set"),
        name("builtins", "object"),
        b"N\x87R",
    ),
    "reconstructor with a state": lambda: opcodes(
        name("copyreg", "_reconstructor"),
        name("megengine.module.linear", "Linear"),
        name("builtins", "dict"),
        b"}\x87R",
    ),
    "layer without a state": lambda: opcodes(LINEAR),
    "layer with a list for a state": lambda: opcodes(LINEAR, b"]K\x01ab"),
    "method of a layer": lambda: opcodes(LINEAR, b"}\x8c\x07forwardK\x01sb"),
    "class of a layer": lambda: opcodes(LINEAR, b"}\x8c\x09__class__K\x01sb"),
    "hooks of a layer": lambda: opcodes(LINEAR, b"}\x8c\x0e_forward_hooks}K\x01", LINEAR, b"ssb"),
    "arguments of a layer": lambda: opcodes(
        name("megengine.module.linear", "Linear"), b"K\x05K\x05\x86\x81"
    ),
    "append to a tensor": lambda: opcodes(
        name("megengine.tensor", "Tensor"), ARRAY, b"\x85RK\x01a"
    ),
    "append to a type": lambda: opcodes(name("builtins", "list"), b"K\x01a"),
    "item of an array": lambda: opcodes(ARRAY, b"K\x00K\x01s"),
    "items of an array": lambda: opcodes(ARRAY, b"(K\x00K\x01u"),
    "item of a tensor": lambda: opcodes(
        name("megengine.tensor", "Tensor"), ARRAY, b"\x85RK\x00K\x01s"
    ),
    "items of a dict to a set": lambda: opcodes(b"}(K\x01\x90"),
    "an odd number of items": lambda: opcodes(b"}(K\x01u"),
    "tuples in tuples as a key": lambda: opcodes(b"}", BILLION, b"K\x01s"),
    "tuples in tuples in a set": lambda: opcodes(b"\x8f(", BILLION, b"\x90"),
    "tuples in tuples in a frozenset": lambda: opcodes(b"(", BILLION, b"\x91"),
    "tuples in tuples in an old set": lambda: opcodes(
        name("builtins", "set"), b"](", BILLION, b"e\x85R"
    ),
    "tuples in tuples in an ordered dict": lambda: opcodes(
        name("collections", "OrderedDict"), b"](](", BILLION, b"K\x01ee\x85R"
    ),
    "numbers of one hash": lambda: opcodes(b"}\x8a\x09", b"\x00" * 8 + b"\x01", b"K\x01s"),
    "bytes of 2**62": lambda: opcodes(b"\x8e", struct.pack("<Q", 2**62)),
    "text of 2**62 bytes": lambda: opcodes(b"\x8d", struct.pack("<Q", 2**62)),
    "a bytearray of 2**40": lambda: opcodes(b"\x96", struct.pack("<Q", 2**40)),
    "a number of 2**31 bytes": lambda: opcodes(b"\x8b", struct.pack("<i", 2**31 - 1)),
    "a number of -1 bytes": lambda: opcodes(b"\x8b", struct.pack("<i", -1)),
    "a frame of 2**62": lambda: opcodes(b"\x95", struct.pack("<Q", 2**62)),
    "a number of 10000 digits": lambda: b"I" + b"9" * 10_000 + b"\n.",
    "empty items without end": lambda: opcodes(
        ARRAY,
        b"(K\x01\x8a\x06",
        b"\0" * 5 + b"\x10",
        b"\x85",
        name("numpy", "dtype"),
        b"\x8c\x02V0\x89\x88\x87R(K\x03\x8c\x01|NNNK\x00K\x01K\x00tb\x89C\x00tb",
    ),
    "a type of 2**40 arrays": lambda: opcodes(
        name("numpy", "dtype"),
        b"\x8c\x02V4\x89\x88\x87R(K\x03\x8c\x01|",
        DTYPE,
        b"\x8a\x06",
        b"\0" * 5 + b"\x01",
        b"\x85\x86NNK\x04K\x01K\x00tb",
    ),
    "notes on a type": lambda: opcodes(
        DTYPE, b"(K\x04\x8c\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00}\x8c\x01aK\x01stb"
    ),
    "memo that is not there": lambda: opcodes(b"h\x07"),
    "stack underflow": lambda: opcodes(b"00R"),
    "no such opcode": lambda: b"\x80\x04\xff.",
    "protocol 200": lambda: b"\x80\xc8.",
}


@pytest.fixture(autouse=True)
def _nothing_runs() -> Any:
    CALLED.clear()
    yield
    assert CALLED == []


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickles(case: str) -> None:
    data = HOSTILE[case]()
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        load(io.BytesIO(data))


@pytest.mark.parametrize(("module", "attribute"), NAMES)
def test_names_that_are_not_data(module: str, attribute: str) -> None:
    for reference in (
        name(module, attribute),
        b"\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(attribute)])
        + attribute.encode()
        + b"\x93",
    ):
        with pytest.raises(pickle.UnpicklingError, match="pickle_module"):
            load(io.BytesIO(opcodes(reference)))


def test_the_message_names_the_culprit_and_the_way_out() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"names builtins.print.*pickle_module=pickle"):
        load(io.BytesIO(pickle.dumps(Calls(print, "x"))))


def test_opting_in() -> None:
    class Recorder:
        loads = staticmethod(pickle.loads)
        load = staticmethod(pickle.load)

    file = io.BytesIO(pickle.dumps(Calls(str.upper, "x")))
    assert load(file, pickle_module=Recorder) == "X"
    file.seek(0)
    assert load(file, pickle_module=pickle) == "X"


def checkpoint() -> bytes:
    file = io.BytesIO()
    save({"w": mge.Tensor([1.0, 2.0]), "a": np.ones((2, 2)), "n": [1, "x", (2.5, None)]}, file)
    return file.getvalue()


def test_truncated_files() -> None:
    data = checkpoint()
    for end in range(len(data)):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            load(io.BytesIO(data[:end]))


def test_damaged_files() -> None:
    """Whatever a flipped byte makes of a file: a value, or one of two exceptions."""
    data = checkpoint()
    generator = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(data)
        for position in generator.integers(0, len(data), generator.integers(1, 4)):
            damaged[position] = generator.integers(0, 256)
        with contextlib.suppress(pickle.UnpicklingError, EOFError):
            load(io.BytesIO(bytes(damaged)))


def test_sizes_are_checked_before_memory_is_taken(tmp_path: Any) -> None:
    for code, size in (("B", "<I"), ("\x8e", "<Q"), ("\x8d", "<Q"), ("\x8b", "<i")):
        path = tmp_path / "a.pkl"
        declared = struct.pack(size, 2**31 - 1 if size == "<i" else 2**32 - 1)
        path.write_bytes(b"\x80\x04" + code.encode("latin1") + declared + b"abc.")
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            load(path)


# Pickles that no stranger brings: what processes of one program tell each other, through pipes of
# their own and files in a directory that nobody else may enter.
OWN_PROCESSES = {f"data/workers/{name}.py" for name in ("packing", "pool", "process")}
OWN_PROCESSES |= {f"distributed/{name}.py" for name in ("launcher", "worker")}


def test_nothing_in_the_package_unpickles_freely() -> None:
    """Outside the loader, which takes the module from its caller, nothing calls pickle.load."""
    package = pathlib.Path(mge.__file__).parent
    for path in package.rglob("*.py"):
        if str(path.relative_to(package)) not in OWN_PROCESSES:
            text = path.read_text(encoding="utf-8")
            assert "pickle.load(" not in text.replace("mge.load(", ""), path
            assert "pickle.loads(" not in text, path


def test_every_opcode_alone() -> None:
    """No opcode, on an empty stack or after a few values, does anything but raise or give data."""
    values = [b"", b"N", b"(", b"}", b"(]K\x01", ARRAY, DTYPE, ARRAY + b"}", b"\x8c\x02os" * 2]
    for opcode in pickletools.opcodes:
        for before in values:
            data = b"\x80\x04" + before + opcode.code.encode("latin1") + b"os\nsystem\n" * 2 + b"."
            with contextlib.suppress(pickle.UnpicklingError, EOFError):
                load(io.BytesIO(data))


# ---- time and memory -----------------------------------------------------------------------------

BOUNDED = """
import io, pickle, resource, struct, sys, time
import numpy as np
import megengine as mge
from megengine.serialization import load_safetensors
from tests.serialization.test_hostile_files import BOMBS

used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20), resource.RLIM_INFINITY))
for name, (make, fate) in BOMBS.items():
    data = make()
    path = sys.argv[1] + "/" + name.replace(" ", "_")
    open(path, "wb").write(data)
    for source in (path, io.BytesIO(data)):
        start = time.process_time()
        try:
            mge.load(source)
            end = "loaded"
        except (pickle.UnpicklingError, EOFError):
            end = "refused"
        took = time.process_time() - start
        assert end == fate, (name, end)
        assert took < 5, (name, took)
print("bounded")
"""


def nested(depth: int) -> bytes:
    return opcodes(b"]" * depth + b"a" * (depth - 1))


def laughs() -> bytes:
    """A list of ten lists of ten lists of ...: 10**30 items, to whoever walks through all."""
    return opcodes(
        b"]q\x00",
        *(
            b"](" + b"h" + bytes([i]) * 1 + (b"h" + bytes([i])) * 9 + b"eq" + bytes([i + 1])
            for i in range(30)
        ),
    )


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "lists in lists": (lambda: nested(200_000), "loaded"),
    "tuples in tuples": (lambda: opcodes(b")" + b"\x85" * 200_000), "loaded"),
    "billion laughs": (laughs, "loaded"),
    "a list in itself": (lambda: opcodes(b"]q\x00h\x00a"), "loaded"),
    "a key of laughs": (lambda: opcodes(b"}", BILLION, b"K\x01s"), "refused"),
    "memo far away": (lambda: opcodes(b"K\x01r\xff\xff\xff\xffj\xff\xff\xff\xff"), "loaded"),
    "many marks": (lambda: opcodes(b"(" * 300_000), "refused"),
    "many frames": (lambda: opcodes(b"\x95" + b"\0" * 8) * 1000, "refused"),
    "numbers of one hash": (
        lambda: opcodes(
            b"}(",
            *(
                b"\x8a\x10" + ((2**61 - 1) * n).to_bytes(16, "little") + b"N"
                for n in range(1, 20_000)
            ),
            b"u",
        ),
        "refused",
    ),
    "complex numbers of one hash": (
        lambda: opcodes(
            b"}(",
            *(
                name("builtins", "complex")
                + b"G"
                + struct.pack(">d", -1000003.0 * n)
                + b"G"
                + struct.pack(">d", float(n))
                + b"\x86RN"
                for n in range(20_000)
            ),
            b"u",
        ),
        "refused",
    ),
    "one large key often": (
        lambda: opcodes(b"}" + b"(" + b"K\x01" * 60 + b"t\x940" + b"h\x00Ns" * 20_000),
        "loaded",
    ),
    "digits": (lambda: b"L" + b"7" * 3_000_000 + b"L\n.", "refused"),
    "a structure of structures": (
        lambda: opcodes(
            DTYPE,
            b"q\x00",
            *(
                name("numpy", "dtype")
                + op(f"V{4 << i}")
                + b"\x89\x88\x87R(K\x03"
                + op("|")
                + b"N("
                + op("a")
                + op("b")
                + b"t}("
                + op("a")
                + b"h\x00K\x00\x86"
                + op("b")
                + b"h\x00J"
                + struct.pack("<i", (4 << i) // 2)
                + b"\x86u"
                + b"J"
                + struct.pack("<i", 4 << i)
                + b"K\x01K\x10tbq\x00"
                for i in range(1, 28)
            ),
        ),
        "refused",
    ),
    "an array of 2**40 bytes": (
        lambda: opcodes(
            ARRAY, b"(K\x01\x8a\x06" + b"\0" * 5 + b"\x01" + b"\x85", DTYPE, b"\x89C\x04abcdtb"
        ),
        "refused",
    ),
    "a zip of zeros": (
        lambda: zipped({"a/data.pkl": b"\x80\x02N.", "a/data/0": b"\0" * (64 << 20)}),
        "refused",
    ),
}


def op(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def zipped(entries: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name_, data in entries.items():
            archive.writestr(name_, data)
    return file.getvalue()


def test_time_and_memory_are_bounded(tmp_path: pathlib.Path) -> None:
    """In a process that may take 400 MB more than it has: declared sizes reach 2**62."""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(tmp_path)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "bounded\n"


def test_altered_files_of_every_kind() -> None:
    """A short run of tools/fuzz_checkpoint.py."""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "tools/fuzz_checkpoint.py", "--cases", "600", "--batch", "600"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for kind in ("pickle", "safetensors", "zip", "legacy"):
        assert f"{kind}: loaded" in done.stdout
