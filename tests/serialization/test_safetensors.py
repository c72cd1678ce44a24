"""Safetensors files: both ways with the format's own library, mapped, and checked in full."""

from __future__ import annotations

import io
import json
import os
import pathlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import megengine as mge
import megengine.module as M
from megengine.core.tensor.dtype import bfloat16
from megengine.serialization import load_safetensors, safetensors_metadata, save_safetensors

NAMES = "bool uint8 int8 uint16 int16 int32 int64 float16 bfloat16 float32 float64 complex64"
DTYPES = NAMES.split()


def array_of(dtype: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray[Any, Any]:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2.0
    kind = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return (values % 2 if dtype == "bool" else values % 7).astype(kind)


def saved(state: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    save_safetensors(state, file, **options)
    return file.getvalue()


def loaded(data: bytes) -> dict[str, mge.Tensor]:
    return load_safetensors(io.BytesIO(data))


def test_every_dtype_goes_to_the_library_and_back() -> None:
    state = {name: array_of(name) for name in DTYPES}
    state |= {"scalar": np.array(3, "float32"), "empty": np.zeros((0, 2), "float16")}
    data = saved(state)
    theirs = dict(safetensors.deserialize(data))
    assert theirs.keys() == state.keys()
    for name, array in state.items():
        assert tuple(theirs[name]["shape"]) == array.shape
        assert bytes(theirs[name]["data"]) == array.tobytes()
    for name, tensor in loaded(data).items():
        assert tensor.dtype == state[name].dtype
        np.testing.assert_array_equal(tensor.numpy(), state[name])


def test_files_of_the_library() -> None:
    state = {n: array_of(n, (5, 3)) for n in DTYPES if n not in ("bfloat16", "complex64")}
    got = loaded(safetensors.numpy.save(state, {"epoch": "3"}))
    assert got.keys() == state.keys()
    for name, tensor in got.items():
        assert tensor.dtype == state[name].dtype
        np.testing.assert_array_equal(tensor.numpy(), state[name])


def test_by_name(tmp_path: pathlib.Path) -> None:
    net, other = M.Conv2d(2, 4, 3, groups=2), M.Conv2d(2, 4, 3, groups=2)
    path = tmp_path / "net.safetensors"
    mge.save(net.state_dict(), path)
    other.load_state_dict(mge.load(path))
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value)
    assert {str(t.device) for t in mge.load(path, map_location="cpu1").values()} == {"cpu1:0"}
    assert {str(t.device) for t in mge.load(path).values()} == {"xpux:0"}
    assert os.listdir(tmp_path) == ["net.safetensors"]


def test_metadata(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    notes = {"epoch": "3", "τ": 'a "quoted"\n'}
    save_safetensors({"x": np.ones(2)}, path, notes)
    assert safetensors_metadata(path) == notes
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == notes
    assert safetensors_metadata(io.BytesIO(saved({}))) == {}


def test_strides_and_byte_order() -> None:
    base = np.arange(24.0).reshape(2, 3, 4)
    state = {
        "transposed": base.T,
        "reversed": base[::-1, :, ::2],
        "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
        "big endian": base.astype(">f4"),
        "number": np.float32(3),
        "tensor": mge.Tensor(base).transpose(2, 0, 1),
    }
    for name, tensor in loaded(saved(state)).items():
        want = state[name]
        np.testing.assert_array_equal(tensor.numpy(), np.asarray(want))


def test_large_tensors_are_aligned_and_the_others_to_their_items() -> None:
    state = {f"{i}{n}": array_of(n, (i,)) for n in DTYPES for i in (1, 3, 16, 64, 100)}
    data = saved(state)
    (size,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8 : 8 + size]).items():
        begin = 8 + size + entry["data_offsets"][0]
        step = 64 if state[name].nbytes % 64 == 0 else state[name].itemsize
        assert begin % step == 0, name


def test_a_large_file_is_mapped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "large.safetensors"
    rows, size = 1 << 20, 512
    header = {"w": {"dtype": "F32", "shape": [rows, size // 4], "data_offsets": [0, rows * size]}}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + rows * size)  # 512 MB that take no place on disk
    before = resident()
    tensor = mge.load(path)["w"]
    part = tensor[12345]
    assert part.numpy().sum() == 0
    assert resident() - before < 64 << 20
    path.unlink()
    assert tensor[-1].numpy().sum() == 0


def resident() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_what_cannot_be_saved() -> None:
    x = np.ones(2, "float32")
    for state, error, message in [
        ([x], TypeError, "expected a dict of tensors by name, got list"),
        ({1: x}, TypeError, "expected a str for a name, got 1"),
        ({"__metadata__": x}, TypeError, "for a name"),
        ({"epoch": 3}, TypeError, "'epoch', got int; numbers and text go into metadata"),
        ({"a": {"b": x}}, TypeError, "'a', got dict"),
        ({"a": x.astype("complex128")}, TypeError, "'a' has dtype complex128"),
        ({"a": np.array(["x"])}, TypeError, "'a' has dtype <U1"),
        ({"a": np.array([None])}, TypeError, "'a' has dtype object"),
        ({"a": x, "b": x}, ValueError, "'a' and 'b' are one tensor"),
    ]:
        with pytest.raises(error, match=message):
            saved(state)
    tied = mge.Parameter([1.0])
    with pytest.raises(ValueError, match="tie them again"):
        saved({"a": tied, "b": tied})
    for metadata in ({"a": 1}, {1: "a"}):
        with pytest.raises(TypeError, match="metadata of str by str"):
            saved({}, metadata=metadata)
    with pytest.raises(TypeError, match="open file"):
        save_safetensors({}, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="open for reading"):
        load_safetensors(3)  # type: ignore[arg-type]


def test_one_value_in_two_tensors_is_stored_twice() -> None:
    x = mge.Tensor([1.0, 2.0])
    got = loaded(saved({"a": x, "b": mge.Tensor(x), "part": x[:1]}))
    assert got["a"].numpy().tolist() == got["b"].numpy().tolist() == [1.0, 2.0]
    assert got["part"].numpy().tolist() == [1.0]


# ---- files that are not what they say ------------------------------------------------------------


def file_of(header: Any, contents: bytes = bytes(range(16)), size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + contents


def entry(begin: int = 0, end: int = 16, shape: Any = (4,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "ends after 0 bytes"),
    "short": (b"\x02\0\0\0", "ends after 4 bytes"),
    "header of 2**63 bytes": (file_of({}, size=2**63), "its header 9223372036854775808"),
    "header beyond the end": (file_of({}, b"", size=3), "has 10 bytes, and its header 3"),
    "no object": (file_of(b"[]"), "no JSON object"),
    "no JSON": (file_of(b"{]"), "its header"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "its header"),
    "space first": (file_of(b" {}"), "no JSON object"),
    "deep": (file_of(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "its header"),
    "long number": (file_of(b'{"a":' + b"1" * 100_000 + b"}"), "its header"),
    "twice": (
        file_of(b'{"a":%b,"a":%b}' % ((json.dumps(entry()).encode(),) * 2)),
        "name twice",
    ),
    "more than the entries": (file_of({"a": {**entry(), "x": 1}}), "described by"),
    "less than the entries": (file_of({"a": {"dtype": "F32"}}), "described by"),
    "no entry": (file_of({"a": 3}), "described by"),
    "unknown dtype": (file_of({"a": entry(dtype="F8_E4M3")}), "dtype F8_E4M3, which tensors"),
    "dtype of a list": (file_of({"a": entry(dtype=["F32"])}), "which tensors here lack"),
    "shape of text": (file_of({"a": entry(shape="4")}), "no lists of sizes"),
    "shape of floats": (file_of({"a": entry(shape=[4.0])}), "no lists of sizes"),
    "shape of flags": (file_of({"a": entry(0, 4, [True])}), "no lists of sizes"),
    "negative": (file_of({"a": entry(shape=[-2, -2])}), "no lists of sizes"),
    "huge shape": (file_of({"a": entry(shape=[2**62, 2**62])}), "has 16 bytes"),
    "shape that wraps around": (file_of({"a": entry(shape=[2**62 + 1, 4])}), "has 16 bytes"),
    "hole": (file_of({"a": entry(4, 16, [3])}), "begins at byte 4"),
    "overlap": (file_of({"a": entry(), "b": entry(0, 16)}), "begins at byte 0"),
    "within another": (file_of({"a": entry(), "b": entry(4, 8, [1])}), "begins at byte 4"),
    "backwards": (file_of({"a": entry(16, 0)}), "has -16 bytes"),
    "beyond the end": (file_of({"a": entry(0, 64, [16])}), "16 are there"),
    "bytes behind": (file_of({"a": entry(0, 8, [2])}), "have 8 bytes, and 16 are there"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "not text"),
    "metadata of a list": (file_of({"__metadata__": ["a"]}), "not text"),
    "bool of 2": (file_of({"a": entry(shape=[16], dtype="BOOL")}), "more than True and False"),
}


@pytest.mark.parametrize("case", WRONG)
def test_damaged_files(case: str) -> None:
    data, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        loaded(data)


def test_the_library_refuses_them_too() -> None:
    """But for a bool that is neither, what follows the header's JSON, and dtypes that we lack."""
    for case, (data, _) in WRONG.items():
        if case in ("bool of 2", "unknown dtype", "twice", "more than the entries"):
            continue
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(data)


def test_every_cut_and_every_flipped_bit() -> None:
    """Ends in an exception or in tensors of the right size; the library accepts what we do."""
    data = saved({"a": np.float32([1, 2]), "b": np.int8([3])}, metadata={"k": "v"})
    for end in range(len(data)):
        with pytest.raises(ValueError, match="safetensors file is damaged"):
            loaded(data[:end])
    accepted = 0
    for at in range(8 * len(data)):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        try:
            tensors = loaded(bytes(changed))
        except ValueError:
            continue
        accepted += 1
        theirs = dict(safetensors.deserialize(bytes(changed)))
        assert theirs.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert tensor.numpy().tobytes() == bytes(theirs[name]["data"])
    assert accepted > 0


def test_pipes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    write: Callable[[], None] = lambda: path.write_bytes(saved({"x": np.ones(2, "float32")}))  # noqa: E731
    pid = os.fork()
    if pid == 0:
        write()
        os._exit(0)
    got = load_safetensors(path)
    os.waitpid(pid, 0)
    assert got["x"].numpy().tolist() == [1.0, 1.0]
