"""What load() takes and refuses, and the module that it gives."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper

import megengine as mge
import megengine.functional as F
import megengine.onnx
from megengine.jit import trace
from megengine.jit.recording import record

FLOAT = TensorProto.FLOAT


def node(*args: Any, **attributes: Any) -> Any:
    return helper.make_node(*args, **attributes)


def value(name: str, shape: Any = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: dict[str, Any] | None = None,
    version: int = 17,
    **extra: Any,
) -> onnx.ModelProto:
    arrays = [numpy_helper.from_array(np.asarray(v), n) for n, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, arrays)
    opsets = [helper.make_opsetid("", version), *extra.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **extra)


def linear(**weights: Any) -> onnx.ModelProto:
    weights = weights or {"fc.weight": np.float32([[1.0], [2.0]]), "fc.bias": np.float32([3.0])}
    return model(
        [helper.make_node("Gemm", ["x", *weights], ["y"])],
        [value("x", ["n", 2])],
        [value("y", ["n", 1])],
        weights,
    )


# ---- what it takes ------------------------------------------------------------------------------


def test_path_bytes_and_proto(tmp_path: Path) -> None:
    proto = linear()
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (proto, path, str(path), proto.SerializeToString(), bytearray(path.read_bytes())):
        net = mge.onnx.load(source)
        assert net(mge.tensor([[1.0, 1.0]])).item() == 6.0
    with pytest.raises(TypeError, match="expected a path, the bytes of a file or a ModelProto"):
        mge.onnx.load(3)
    with pytest.raises(FileNotFoundError):
        mge.onnx.load(tmp_path / "other.onnx")


@pytest.mark.parametrize("data", [b"", b"\0" * 9, b"no model", b"\x08\x07"])
def test_no_model(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"onnx\.load: this is no ONNX model"):
        mge.onnx.load(data)


def test_inputs() -> None:
    proto = model(
        [helper.make_node("Gather", ["table", "ids"], ["rows"]),
         helper.make_node("Add", ["rows", "x"], ["y"])],
        [value("ids", ["n"], TensorProto.INT64), value("x", ["n", 2])],
        [value("y"), value("rows")],
        {"table": np.float32([[1, 2], [3, 4]])},
    )  # fmt: skip
    net = mge.onnx.load(proto)
    assert net.input_names == ("ids", "x")
    assert net.output_names == ("y", "rows")
    ids, x = mge.tensor([1, 0]), mge.tensor([[1.0, 1.0], [1.0, 1.0]])
    assert ids.dtype == np.int32  # becomes int64
    for found in (net(ids, x), net(ids, x=x), net(x=x.numpy(), ids=ids.numpy())):
        y, rows = found
        np.testing.assert_array_equal(y.numpy(), [[4, 5], [2, 3]])
        np.testing.assert_array_equal(rows.numpy(), [[3, 4], [1, 2]])
    with pytest.raises(TypeError, match=r"no value for the inputs \['x'\]"):
        net(ids)
    with pytest.raises(TypeError, match="at most 2 inputs"):
        net(ids, x, x)
    with pytest.raises(TypeError, match="two values for the input 'x'"):
        net(ids, x, x=x)
    with pytest.raises(TypeError, match="the inputs are"):
        net(ids, z=x)
    with pytest.raises(TypeError, match="expected the input 'ids' in int64, got float32"):
        net(x[0], x)
    with pytest.raises(ValueError, match="expected the input 'x' with 2 dimensions"):
        net(ids, x[0])
    with pytest.raises(TypeError, match="as a Tensor or an array, got list"):
        net([1], x)
    with pytest.raises(IndexError) as caught:
        net(mge.tensor([2, 0]), x)
    assert "in the ONNX node (Gather)" in "".join(caught.value.__notes__)


def test_float64_input() -> None:
    assert mge.onnx.load(linear())(np.ones((1, 2))).dtype == np.float32


# ---- the module ---------------------------------------------------------------------------------


def test_names_nest() -> None:
    weights = {
        "layers.0.weight": np.ones((2, 2), np.float32),
        "layers.0": np.ones((2, 2), np.float32),
        "forward": np.ones((2, 2), np.float32),
        "/a/b.c:0": np.ones((2, 2), np.float32),
        "": np.ones((2, 2), np.float32),
    }
    weights.pop("")
    nodes, last = [], "x"
    for i, name in enumerate(weights):
        nodes.append(helper.make_node("MatMul", [last, name], [f"y{i}"]))
        last = f"y{i}"
    net = mge.onnx.load(model(nodes, [value("x", [1, 2])], [value(last)], weights))
    names = {name for name, _ in net.named_parameters()}
    assert names == {"layers.0.weight", "layers.0_", "forward_", "/a/b.c:0"}
    assert net.layers is net.__dict__["layers"]
    assert set(net.state_dict()) == names
    assert net(mge.tensor([[1.0, 1.0]])).numpy().tolist() == [[16.0, 16.0]]


def test_what_is_a_parameter() -> None:
    one = np.ones((2, 2), np.float32)
    weights = {
        "matrix": one, "turned": one, "bias": np.float32([1, 2]), "scale": np.float32(2.0),
        "low": np.float32(0.0), "shape": np.array([1, 2]), "unused": one,
    }  # fmt: skip
    nodes = [
        helper.make_node("Transpose", ["turned"], ["t"]),
        helper.make_node("MatMul", ["x", "matrix"], ["a"]),
        helper.make_node("MatMul", ["a", "t"], ["b"]),
        helper.make_node("Add", ["b", "bias"], ["c"]),
        helper.make_node("Mul", ["c", "scale"], ["d"]),
        helper.make_node("Clip", ["d", "low"], ["e"]),
        helper.make_node("Reshape", ["e", "shape"], ["y"]),
    ]
    net = mge.onnx.load(model(nodes, [value("x", [1, 2])], [value("y")], weights))
    assert {n for n, _ in net.named_parameters()} == {"matrix", "turned", "bias"}
    assert not list(net.buffers())


def test_state_copies_and_files() -> None:
    net = mge.onnx.load(linear())
    x = mge.tensor([[1.0, 1.0]])
    other = copy.deepcopy(net)
    state = net.state_dict()
    other.load_state_dict({name: 2 * array for name, array in state.items()})
    assert (net(x).item(), other(x).item()) == (6.0, 12.0)
    file = io.BytesIO()
    mge.save(net.state_dict(), file)
    file.seek(0)
    other.load_state_dict(mge.load(file))
    assert other(x).item() == 6.0
    whole = pickle.loads(pickle.dumps(net))
    assert whole(x).item() == 6.0
    assert not whole.training
    net.fc.weight = mge.Parameter(np.zeros((2, 1), np.float32))
    assert net(x).item() == 3.0
    assert repr(net).startswith("ONNXModule(")


def test_shapes_are_computed_on_the_host() -> None:
    # Flattens by arithmetic on the shape, as exporters write it.
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    net = mge.onnx.load(model(nodes, [value("x", ["n", 2, 3])], [value("y")], weights))
    traced = trace(net)
    for n in (2, 2, 5):
        assert tuple(traced(mge.tensor(np.zeros((n, 2, 3), np.float32)))._tuple_shape) == (n, 6)


def test_images_enlarged_by_whole_numbers() -> None:
    """Between convolutions that is one op, in their memory format."""
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.standard_normal((20, 3, 3, 3)).astype("float32"),
        "b": rng.standard_normal((2, 20, 1, 1)).astype("float32"),
        "scales": np.float32([1, 1, 2, 3]),
    }
    nodes = [
        node("Conv", ["x", "a"], ["y"]),
        node("Resize", ["y", "", "scales"], ["z"], mode="nearest"),
        node("Conv", ["z", "b"], ["out"]),
    ]
    net = megengine.onnx.load(
        model(nodes, [value("x", [1, 3, 6, 7])], [value("out", [1, 2, 8, 15])], weights)
    )
    x = mge.tensor(rng.standard_normal((1, 3, 6, 7)).astype("float32"))
    program = record(net, x).compile()
    assert [n.kind for n in program.optimized().nodes] == [
        "Convolution",
        "Interpolate",
        "Convolution",
    ]
    a, b = (mge.tensor(weights[k]) for k in "ab")
    want = F.conv2d(F.repeat(F.repeat(F.conv2d(x, a), 2, axis=2), 3, axis=3), b)
    np.testing.assert_allclose(program(x)[0].numpy(), want.numpy(), rtol=1e-4, atol=1e-4)


def test_dropout_and_batch_norm_follow_the_mode(rng: np.random.Generator) -> None:
    stats = {"scale": np.ones(3), "bias": np.zeros(3), "mean": np.zeros(3), "var": np.ones(3)}
    nodes = [
        helper.make_node("BatchNormalization", ["x", *stats], ["b"]),
        helper.make_node("Dropout", ["b"], ["y"]),
    ]
    weights = {name: array.astype(np.float32) for name, array in stats.items()}
    net = mge.onnx.load(model(nodes, [value("x", ["n", 3])], [value("y")], weights))
    x = mge.tensor(rng.normal(2.0, 1.0, (64, 3)).astype(np.float32))
    np.testing.assert_allclose(net(x).numpy(), x.numpy(), rtol=1e-4)
    assert dict(net.named_buffers()).keys() == {"mean", "var"}
    net.train()
    y = net(x).numpy()
    assert 0.3 < (y == 0).mean() < 0.7
    np.testing.assert_allclose(net.mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-4)
    net.eval()
    assert (net(x).numpy() != 0).all()


def test_functions_of_the_model() -> None:
    scaled = helper.make_function(
        "mine", "Scaled", ["a"], ["c"],
        [helper.make_node("Constant", [], ["f"]), helper.make_node("Mul", ["a", "f"], ["c"])],
        [helper.make_opsetid("", 17)], ["factor"],
    )  # fmt: skip
    reference = scaled.node[0].attribute.add()
    reference.name, reference.ref_attr_name = "value_float", "factor"
    reference.type = onnx.AttributeProto.FLOAT
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["b"],
        [helper.make_node("Scaled", ["a"], ["b"], domain="mine", factor=2.0)],
        [helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="mine"),
        helper.make_node("Scaled", ["t"], ["y"], domain="mine", factor=5.0),
    ]
    extra: Any = {"functions": [scaled, twice], "opsets": [helper.make_opsetid("mine", 1)]}
    net = mge.onnx.load(model(nodes, [value("x", [1])], [value("y")], **extra))
    assert net(mge.tensor([3.0])).item() == 30.0


def test_a_loop_that_never_runs() -> None:
    body = helper.make_graph(
        [node("Identity", ["going"], ["again"]), node("Add", ["sum", "one"], ["next"]),
         node("Shape", ["next"], ["row"])],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("sum")],
        [value("again", [], TensorProto.BOOL), value("next"), value("row", [2], TensorProto.INT64)],
    )  # fmt: skip
    proto = model(
        [node("Loop", ["n", "", "x"], ["y", "rows"], body=body)],
        [value("n", [], TensorProto.INT64), value("x", [1, 2])],
        [value("y"), value("rows", None, TensorProto.INT64)],
        {"one": np.float32(1.0)},
    )
    net = mge.onnx.load(proto)
    x = mge.tensor([[1.0, 2.0]])
    y, rows = net(np.array(3), x)
    assert (y.numpy().tolist(), rows.numpy().tolist()) == ([[4.0, 5.0]], [[1, 2]] * 3)
    y, rows = net(np.array(0), x)
    assert (y.numpy().tolist(), rows._tuple_shape, rows.dtype) == ([[1.0, 2.0]], (0, 2), np.int64)


# ---- what it refuses ----------------------------------------------------------------------------


def test_unsupported_ops_are_listed() -> None:
    nodes = [
        helper.make_node("Fused", ["x"], ["a"], domain="com.example"),
        helper.make_node("Fused", ["a"], ["b"], domain="com.example"),
        helper.make_node("ImageDecoder", ["x"], ["c"]),
        helper.make_node("Add", ["b", "b"], ["y"]),
    ]
    opsets = [helper.make_opsetid("com.example", 3)]
    proto = model(nodes, [value("x")], [value("y")], version=20, opsets=opsets)
    with pytest.raises(NotImplementedError) as caught:
        mge.onnx.load(proto)
    message = str(caught.value)
    assert "ai.onnx::ImageDecoder (version 20) x1" in message
    assert "com.example::Fused (version 3) x2" in message
    assert "Add" not in message
    assert "another operator set" in message


def test_newer_operator_sets_are_refused() -> None:
    proto = model(
        [helper.make_node("Add", ["x", "x"], ["y"])], [value("x")], [value("y")], version=999
    )
    with pytest.raises(NotImplementedError, match=r"ai\.onnx::Add"):
        mge.onnx.load(proto)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", ["x", "z"], ["y"])], "takes 'z', which nothing before it gives"),
        ([node("Relu", ["x"], ["z"])], "nothing gives the output 'y'"),
        ([node("Relu", ["x"], ["x"])], "'x' is given twice"),
        ([node("Relu", ["x", "x"], ["y"])], "takes at most 1 inputs, got 2"),
        ([node("Add", ["x"], ["y"])], "lacks its input 1"),
        ([node("Concat", ["x"], ["y"])], "lacks the attribute 'axis'"),
        ([node("Concat", ["x"], ["y"], axis="one")], "'axis' has a value of a wrong type"),
        ([node("Relu", ["x"], ["y"], slope=1.0)], r"unknown attributes \['slope'\]"),
        ([node("Relu", ["x"], ["y"], domain="a.b")], "imports no operator set of that domain"),
        ([node("Constant", [], ["y"])], "must have one attribute"),
    ],
)  # fmt: skip
def test_invalid_graphs(nodes: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mge.onnx.load(model(nodes, [value("x", [1])], [value("y")]))


def test_a_function_that_calls_itself() -> None:
    loop = helper.make_function(
        "mine", "Loop", ["a"], ["b"], [helper.make_node("Loop", ["a"], ["b"], domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    extra: Any = {"functions": [loop], "opsets": [helper.make_opsetid("mine", 1)]}
    proto = model([node("Loop", ["x"], ["y"], domain="mine")], [value("x")], [value("y")], **extra)
    with pytest.raises(ValueError, match="the function 'Loop' calls itself"):
        mge.onnx.load(proto)


def test_tensors_that_do_not_fit() -> None:
    proto = linear()
    proto.graph.initializer[0].dims[0] = 3
    with pytest.raises(ValueError, match=r"tensor 'fc\.weight'"):
        mge.onnx.load(proto)
    proto = linear()
    proto.graph.initializer[0].dims[0] = -1
    with pytest.raises(ValueError, match="no tensor has the shape"):
        mge.onnx.load(proto)
    proto = linear()
    proto.graph.initializer[0].data_type = 99
    with pytest.raises(ValueError, match="no element type 99"):
        mge.onnx.load(proto)


# ---- data in other files ------------------------------------------------------------------------


def external(folder: Path, location: str, **entries: Any) -> Path:
    """A model whose weight lies in another file, that holds four bytes more before and after."""
    proto = linear()
    weight = proto.graph.initializer[0]
    (folder / "weights.bin").write_bytes(b"1234" + weight.raw_data + b"5678")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    given = {"location": location, "offset": 4, "length": 8, **entries}
    for key, text in given.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, str(text)
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = external(tmp_path, "weights.bin")
    assert mge.onnx.load(path)(mge.tensor([[1.0, 1.0]])).item() == 6.0
    monkeypatch.chdir(tmp_path)  # a path without a folder means this one
    assert mge.onnx.load("net.onnx")(mge.tensor([[1.0, 1.0]])).item() == 6.0
    with pytest.raises(ValueError, match="load the model from its path"):
        mge.onnx.load(path.read_bytes())


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../weights.bin", {}, "must lie in the folder of the model"),
        ("sub/../../net/weights.bin", {}, "must lie in the folder of the model"),
        ("/etc/hostname", {}, "must lie in the folder of the model"),
        ("", {}, "must lie in the folder of the model"),
        (".", {}, "must lie in the folder of the model|is no file"),
        ("link.bin", {}, "must lie in the folder of the model"),
        ("linked/weights.bin", {}, "must lie in the folder of the model"),
        ("pipe", {}, "is no file"),
        ("missing.bin", {}, "No such file"),
        ("weights.bin", {"offset": 12}, "its data end at byte 20, the file at 16"),
        ("weights.bin", {"offset": -4}, "must not be negative"),
        ("weights.bin", {"length": 4}, "tensor 'fc.weight'"),
        ("weights.bin", {"length": 1 << 60}, "its data end at byte"),
        ("weights.bin", {"offset": "x"}, "must be integers"),
    ],
)
def test_external_data_elsewhere(
    tmp_path: Path, location: str, entries: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    path = external(folder, location, **entries)
    (tmp_path / "weights.bin").write_bytes((folder / "weights.bin").read_bytes())
    (folder / "link.bin").symlink_to(folder / "weights.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    with pytest.raises(ValueError, match=message):
        mge.onnx.load(path)


# ---- the package that it needs ------------------------------------------------------------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )


def test_megengine_does_not_import_onnx() -> None:
    done = run("import sys, megengine; assert 'onnx' not in sys.modules, 'onnx is imported'")
    assert done.returncode == 0, done.stderr


def test_without_the_package() -> None:
    done = run("import sys; sys.modules['onnx'] = None\nimport megengine.onnx")
    assert done.returncode != 0
    assert (
        "ImportError: megengine.onnx needs the onnx package: pip install openmge[onnx]"
        in done.stderr
    )
