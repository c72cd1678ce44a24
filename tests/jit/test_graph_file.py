"""Files of graphs: what is written is read back, and a file that was altered is an error."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine._core import Executable, Graph
from megengine.jit import graph_file
from megengine.jit.graph_file import Axis, Batch, DumpedGraph, load, save
from megengine.jit.recording import record
from megengine.jit.sizes import Dim, Expression

T = mge.tensor


def dumped(function: Any, *args: mge.Tensor, **more: Any) -> DumpedGraph:
    recording = record(function, *args)
    recording.compile()
    graph = recording.graph
    names = [f"in{i}" for i in range(len(recording.inputs))]
    outputs = [f"out{i}" for i in range(len(graph.outputs))]
    return DumpedGraph(graph, recording.inputs, names, outputs, **more)


def small_net() -> DumpedGraph:
    net = M.Sequential(M.Conv2d(3, 4, 3), M.BatchNorm2d(4), M.ReLU(), M.Linear(6, 2))
    net.eval()
    return dumped(net, T(np.random.default_rng(0).normal(size=(2, 3, 8, 8))))


def run(model: DumpedGraph, *arrays: np.ndarray) -> list[np.ndarray]:
    return [t.numpy() for t in Executable(model.graph, model.inputs)(*map(T, arrays))]


def file_bytes(model: DumpedGraph) -> bytes:
    file = io.BytesIO()
    save(model, file)
    return file.getvalue()


@pytest.mark.parametrize("by_name", [True, False])
def test_round_trip(tmp_path: Path, by_name: bool) -> None:
    model = small_net()
    model.user_info = {"classes": ["cat", "dog"], "mean": np.float32([0.5, 0.25])}
    model.metadata = {"note": "déjà vu"}
    (weight,) = [
        i
        for i, v in enumerate(model.graph.values)
        if v.constant is not None and v.shape == (4, 3, 3, 3)
    ]
    model.value_names = {weight: "conv.weight"}
    if by_name:
        sizes = save(model, tmp_path / "net.mge")
        assert os.path.getsize(tmp_path / "net.mge") == sizes.total
        assert os.listdir(tmp_path) == ["net.mge"]
        back = load(str(tmp_path / "net.mge"))
    else:
        file = io.BytesIO()
        sizes = save(model, file)
        file.seek(0)
        back = load(file)
        assert file.read() == b""
    assert sizes.weights == 4 * (4 * 3 * 9 + 5 * 4 + 2 * 6)
    assert back.input_names == ["in0"]
    assert back.output_names == ["out0"]
    assert back.user_info["classes"] == ["cat", "dog"]
    np.testing.assert_array_equal(back.user_info["mean"], model.user_info["mean"])
    assert back.metadata == {"note": "déjà vu", "writer": f"OpenMGE {mge.__version__}"}
    (name,) = back.value_names
    assert back.value_names[name] == "conv.weight"
    assert back.graph.values[name].shape == (4, 3, 3, 3)
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype("float32")
    for a, b in zip(run(model, x), run(back, x), strict=True):
        np.testing.assert_array_equal(a, b)
    assert file_bytes(back) == file_bytes(model)


def test_same_graph_same_bytes() -> None:
    model = small_net()
    assert file_bytes(model) == file_bytes(model)


def test_every_dtype_and_layout() -> None:
    rng = np.random.default_rng(2)
    names = ["float32", "float16", "bfloat16", "float64", "bool"]
    names += ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    held = [T(rng.integers(0, 2, (3, 5)), dtype=n) for n in names]
    held += [T(rng.normal(size=(3, 5)) + 1j, dtype=n) for n in ("complex64", "complex128")]
    held += [held[0].T, held[0][::-1, ::2], F.broadcast_to(held[3], (2, 3, 5)), T(np.nan)]
    held += [T(np.zeros((0, 3))), T([1.0], device="cpu0:1")]
    model = dumped(lambda: held)
    back = load(io.BytesIO(file_bytes(model)))
    got = Executable(back.graph, [])()
    for want, have in zip(held, got, strict=True):
        assert want.dtype == have.dtype
        assert str(want.device) == str(have.device)
        np.testing.assert_array_equal(want.numpy(), have.numpy())


def test_weights_are_aligned_and_names_stay_unchanged() -> None:
    data = file_bytes(small_net())
    assert len(data) % 64 == 0
    back = load(io.BytesIO(data))
    for value in back.graph.values:
        if value.constant is not None and value.constant.size > 8:
            assert value.constant.numpy().ctypes.data % 64 == 0


def test_sizes_come_back() -> None:
    model = dumped(lambda x: x.reshape(2, -1) + 1, T(np.ones((2, 3, 4))))
    (node,) = [i for i, n in enumerate(model.graph.nodes) if n.kind == "Reshape"]
    model.batch = Batch(2, [0], {(node, "shape"): [1, 0]}, "no reason")
    model.axes = [
        Axis(1, 3, [0], 3, tied=2, followed=True, every=4),
        Axis(2, 4, [0], 4, {(node, "shape"): [0, -1]}, "none", tied=2),
    ]
    model.follows = {(node, "shape", 0): Expression((Dim(model.inputs[0], 0), 1.5, "*", "ceil"))}
    model.decided = [Expression((Dim(model.inputs[0], 2), 5, "<"))]
    back = load(io.BytesIO(file_bytes(model)))
    assert [e.text() for e in back.decided] == ["%0[2] 5 <"]
    assert (back.batch, back.axes) == (model.batch, model.axes)
    assert back.follows == {(node, "shape", 0): Expression((Dim(0, 0), 1.5, "*", "ceil"))}


def test_several_in_one_file(tmp_path: Path) -> None:
    one, two = dumped(lambda x: x + 1, T([1.0])), small_net()
    path = tmp_path / "both"
    save(one, path, append=True)
    save(two, path, append=True)
    assert load(path).graph == one.graph.renumbered(one.inputs)[0]
    with open(path, "rb") as file:
        assert len(load(file).graph.nodes) == 1
        assert len(load(file).graph.nodes) == len(two.graph.nodes)
        assert file.read() == b""
    with open(path, "ab") as file:
        file.write(b"more")
    load(path)
    with open(path, "r+b") as file:
        file.truncate(len(file_bytes(one)))
        file.seek(0, os.SEEK_END)
        file.write(b"something else")
    with pytest.raises(ValueError, match="expected a file of"):
        load(path)


LARGE = (1 << 20) // 4 * 3  # elements of 3 MB, which are mapped


def large_net(tmp_path: Path) -> tuple[Path, np.ndarray]:
    values = np.random.default_rng(3).normal(size=LARGE).astype("float32")
    weight = T(values)
    save(dumped(lambda x: x + weight, T([1.0])), tmp_path / "large")
    return tmp_path / "large", values


def test_writing_to_a_loaded_tensor_leaves_the_file(tmp_path: Path) -> None:
    path, _ = large_net(tmp_path)
    before = path.read_bytes()
    (tensor,) = [v.constant for v in load(path).graph.values if v.constant is not None]
    tensor[:1000] = 7
    tensor += 1
    assert tensor[0].item() == 8
    assert path.read_bytes() == before


def test_file_deleted_and_replaced_while_in_use(tmp_path: Path) -> None:
    path, values = large_net(tmp_path)
    model = load(path)
    save(small_net(), path)
    assert len(load(path).inputs) == 1
    np.testing.assert_array_equal(run(model, np.float32([0]))[0], values)
    os.remove(path)
    np.testing.assert_array_equal(run(model, np.float32([1]))[0], values + 1)
    assert not model.memory.lost


def test_a_file_that_shrinks_does_not_end_the_process(tmp_path: Path) -> None:
    path, _ = large_net(tmp_path)
    code = """
import os, sys
import numpy as np, megengine as mge
from megengine._core import Executable
from megengine.jit.graph_file import load
model = load(sys.argv[1])
os.truncate(sys.argv[1], 4096)
(out,) = Executable(model.graph, model.inputs)(mge.tensor([5.0]))
assert model.memory.lost
assert out.numpy()[-1] == 5  # what is lost reads as zeros
del model, out
# The memory goes back to the system, not to the next tensor.
assert np.all(mge.functional.full((1 << 20,), 2.0).numpy() == 2)
print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "alive\n", done.stderr


def test_mapped_memory_is_given_back(tmp_path: Path) -> None:
    path, _ = large_net(tmp_path)
    for _ in range(1100):  # more than can be mapped at once
        load(path)


def reseal(data: bytes, new_header: bytes | None = None, **fields: int) -> bytes:
    """The file with another header or preamble, and the checksums that belong to them."""
    names = ["magic", "version", "header", "total", "header_crc", "rest_crc"]
    first = dict(zip(names, graph_file.PREAMBLE.unpack_from(data), strict=False))
    size = first["header"]
    old_header, rest = data[64 : 64 + size], data[64 + size :]
    header = old_header
    if new_header is not None:
        header = new_header
        begin = -(-(64 + size) // 64) * 64
        weights = data[begin:]
        rest = b"\0" * (-len(header) % 64) + weights
        first["header"] = len(header)
        first["total"] = 64 + len(header) + len(rest)
    first["header_crc"], first["rest_crc"] = zlib.crc32(header), zlib.crc32(rest)
    first.update(fields)
    preamble = struct.pack("<8sIQQII", *first.values())
    preamble += struct.pack("<I", zlib.crc32(preamble))
    return preamble.ljust(64, b"\0") + header + rest


def with_message(data: bytes, change: Any) -> bytes:
    """The file after a change of its message, with right checksums."""
    (size,) = struct.unpack_from("<Q", data, 12)
    message = graph_file._messages().Graph()
    message.ParseFromString(data[64 : 64 + size])
    change(message)
    return reseal(data, message.SerializeToString(deterministic=True))


def test_resealing_changes_nothing() -> None:
    data = file_bytes(small_net())
    assert reseal(data) == data
    assert with_message(data, lambda m: None) == data


def test_every_truncation() -> None:
    data = file_bytes(dumped(lambda x: x + 1, T([1.0])))
    for size in range(len(data)):
        with pytest.raises(ValueError, match="load: "):
            load(io.BytesIO(data[:size]))


def test_every_altered_byte() -> None:
    data = file_bytes(dumped(lambda x: x * T(np.arange(20.0)), T([1.0])))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        with pytest.raises(ValueError, match="load: "):
            load(io.BytesIO(bytes(broken)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.weights.add(id=1), "constant %1 is there twice"),
        (
            lambda m: m.weights.add(id=99, dtype="int8", device="xpux"),
            "that the graph does not name",
        ),
        (lambda m: setattr(m.weights[0], "id", 1 << 32), "there is no constant %4294967296"),
        (lambda m: m.weights.pop(), "the contents of %1 are not given"),
        (lambda m: setattr(m.weights[0], "offset", 1 << 40), "%1 goes beyond the end"),
        (lambda m: setattr(m.weights[0], "offset", 1 << 63), "%1 goes beyond the end"),
        (lambda m: setattr(m.weights[0], "offset", 8), "in steps of 64 bytes"),
        (lambda m: setattr(m.weights[0], "dtype", "float31"), "constant %1: .*float31"),
        (lambda m: setattr(m.weights[0], "dtype", "bool"), "more than True and False"),
        (
            lambda m: setattr(m.weights[0], "dtype", "int32"),
            "and the graph says|expected contents of",
        ),
        (lambda m: setattr(m.weights[0], "device", "gpu0"), "'gpu0' is not there"),
        (lambda m: m.weights[0].shape.extend([1 << 62, 1 << 62]), "constant %1"),
        (lambda m: m.weights[0].shape.extend([1] * 9), "at most 8 dimensions"),
        (lambda m: m.weights[0].shape.extend([1 << 63]), "constant %1"),
        (lambda m: m.inputs.add(id=0, name="b"), "two inputs are one value"),
        (lambda m: m.inputs.add(id=1, name="b"), "input %1 is no value from outside"),
        (lambda m: m.inputs.add(id=1 << 50, name="b"), "is no value from outside"),
        (lambda m: m.inputs.pop(), "%0 is neither an input nor a constant"),
        (lambda m: setattr(m.inputs[0], "name", ""), "a name of its own for each input"),
        (lambda m: m.outputs.append("b"), "expected 1 output names, got 2"),
        (lambda m: setattr(m, "user_info", b"junk"), "user_info cannot be read"),
        (lambda m: setattr(m.batch, "size", 2) or m.batch.inputs.append(0), "no batch of 2"),
        (lambda m: m.batch.inputs.append(7), "input 7 has no batch of 0"),
        (lambda m: m.axes.add(axis=0, size=2, inputs=[0], step=1), "axis 0 of input 0 has no size"),
        (lambda m: m.axes.add(axis=1, size=1, inputs=[0], step=1), "axis 1 of input 0 has no size"),
        (lambda m: m.batch.slopes.add(node=9, field="a"), "there is no node 9"),
        (lambda m: m.batch.slopes.add(node=0, field="a", numbers=[1]), "has 0 numbers"),
        (lambda m: m.batch.slopes.add(node=0, field="a"), "has 0 numbers"),
        (lambda m: m.follows.add(node=9, field="a", number="1"), "there is no node 9"),
        (lambda m: m.follows.add(field="mode", number="1"), "'mode' of node 0 has no number 0"),
        (lambda m: m.follows.add(field="x", number="1"), "'x' of node 0 has no number 0"),
        (lambda m: m.decided.append("%0[0] <"), "expected operands before '<'"),
        (lambda m: m.decided.append("%0[1] 2 <"), "a comparison is about axis 1 of %0, which"),
        (lambda m: m.decided.append("%1[0] 2 <"), "a comparison is about axis 0 of %1, which"),
        (lambda m: m.decided.append("%99[0] 2 <"), "a comparison is about axis 0 of %99, which"),
        (lambda m: setattr(m, "text", m.text + "x"), "column 1: expected nothing after"),
        (lambda m: setattr(m, "text", ""), "that the graph does not name"),
        (lambda m: setattr(m, "text", m.text.replace("return", "end")), "expected '%' or 'return'"),
    ],
)
def test_headers_that_lie(change: Any, message: str) -> None:
    """Checksums keep accidents out; whoever writes a file on purpose is found out too."""
    data = file_bytes(dumped(lambda x: x * T(np.arange(20.0)), T([1.0])))
    with pytest.raises(ValueError, match=message) as error:
        load(io.BytesIO(with_message(data, change)))
    assert str(error.value).startswith("load: the graph file is damaged: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: setattr(f[0], "position", 2), "'shape' of node 1 has no number 2"),
        (lambda f: setattr(f[0], "node", 0), "'shape' of node 0 has no number 0"),
        (lambda f: f.add().CopyFrom(f[0]), "has no number 0 that follows sizes, or two"),
        (lambda f: setattr(f[0], "number", "%0[0] +"), "expected operands before"),
        (lambda f: setattr(f[0], "number", "%0[2]"), "node 1 follows axis 2 of %0, which it"),
        (lambda f: setattr(f[0], "number", "%3[0]"), "node 1 follows axis 0 of %3, which it"),
        (lambda f: setattr(f[0], "number", "%2[0]"), "node 1 follows axis 0 of %2, which it"),
        (lambda f: setattr(f[0], "number", "%999999[0]"), "node 1 follows axis 0 of %999999"),
    ],
)
def test_arithmetic_that_lies(change: Any, message: str) -> None:
    """It may be about values that are made before the node that has the number."""
    model = dumped(lambda x: F.exp(x) + F.zeros((2, 1)), T([[1.0], [2.0]]))
    model.follows = {(1, "shape", 0): Expression((Dim(model.inputs[0], 0),))}
    data = file_bytes(model)
    assert "Fill" in load(io.BytesIO(data)).graph.nodes[1].kind
    with pytest.raises(ValueError, match=message) as error:
        load(io.BytesIO(with_message(data, lambda m: change(m.follows))))
    assert str(error.value).startswith("load: the graph file is damaged: ")


def test_preambles_that_lie() -> None:
    data = file_bytes(small_net())
    for fields, message in [
        ({"version": 3}, "is of version 3, and this OpenMGE reads up to 2"),
        ({"header": 1 << 60}, "sections do not fit"),
        ({"total": 64}, "sections do not fit"),
        ({"total": 1 << 40}, "it ends after"),
        ({"header": 3}, "the checksum of its header"),
        ({"rest_crc": 3}, "the checksum of its constants"),
    ]:
        with pytest.raises(ValueError, match=message):
            load(io.BytesIO(reseal(data, **fields)))
    with pytest.raises(ValueError, match="its header cannot be read"):
        load(io.BytesIO(reseal(data, b"\xff" * 64)))


def test_other_files(tmp_path: Path) -> None:
    for start in (b"L\x0b\0\0\x1c\0\0\0mgv2\x14\0 \0", b"MGBC\0\0\0\0\0\0\0\0"):
        with pytest.raises(ValueError, match="was dumped by MegEngine, in a format of its own"):
            load(io.BytesIO(start * 9))
    with pytest.raises(ValueError, match=r"expected a file of trace\.dump, which begins with"):
        load(io.BytesIO(b"PK\3\4" * 30))
    with pytest.raises(ValueError, match="it ends after 0 bytes"):
        load(io.BytesIO())
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="expected a file name or a file open for reading, got 3"):
        load(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="open for writing, got 3"):
        save(small_net(), 3)  # type: ignore[arg-type]


def test_what_cannot_be_saved() -> None:
    model = small_net()
    for change, message in [
        ({"input_names": []}, "expected 1 input names, got 0"),
        ({"output_names": ["a", "b"]}, "expected 1 output names, got 2"),
        ({"input_names": [""]}, "a name of its own"),
        ({"inputs": [], "input_names": []}, "%0 is neither an input nor a constant"),
    ]:
        broken = DumpedGraph(**{**vars(model), **change})
        with pytest.raises(ValueError, match=message):
            save(broken, io.BytesIO())


def test_an_interrupted_save_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "net"
    save(small_net(), path)
    before = path.read_bytes()
    model = small_net()
    model.user_info = lambda: None  # cannot be saved
    with pytest.raises(Exception, match=r"pickle|Can't"):
        save(model, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["net"]


def test_weights_do_not_grow_in_memory() -> None:
    """Whatever a header says, tensors are parts of the file."""
    data = file_bytes(dumped(lambda x: x * T(np.arange(20.0)), T([1.0])))
    big = with_message(data, lambda m: m.weights[0].shape.__setitem__(0, 1 << 40))
    with pytest.raises(ValueError, match="and the file has"):
        load(io.BytesIO(big))


def test_text_is_the_graph() -> None:
    model = small_net()
    text = model.graph.renumbered(model.inputs)[0].text()
    assert text.encode() in file_bytes(model)
    assert isinstance(load(io.BytesIO(file_bytes(model))).graph, Graph)


def test_altered_files_at_random() -> None:
    """A short run of the fuzzer, in processes of its own; it says which case it was that failed."""
    tool = Path(__file__).parents[2] / "tools" / "fuzz_graph_file.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--cases", "1500", "--batch", "500"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout
    assert "ran" in done.stdout
