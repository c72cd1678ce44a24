"""trace.dump and GraphInference: what a file computes is what the function computes."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from examples.models.lenet import LeNet
from examples.models.mobilenet_v2 import MobileNetV2
from examples.models.resnet import ResNet
from examples.models.shufflenet_v2 import ShuffleNetV2
from examples.models.swin import Swin
from examples.models.unet import UNet
from examples.models.vit import ViT
from megengine.jit import TraceError, graph_file, trace
from megengine.utils.comp_graph_tools import GraphInference
from megengine.utils.network import Network

T = mge.tensor
Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def dump(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[io.BytesIO, Any]:
    """Traces a function, calls it on arrays and dumps it."""
    traced = trace(function, capture_as_const=True)
    traced(*[T(a) for a in args])
    file = io.BytesIO()
    result = traced.dump(file, **options)
    file.seek(0)
    return file, result


def test_result_and_names(tmp_path: Path) -> None:
    net = M.Linear(4, 2)
    traced = trace(net, symbolic=True, capture_as_const=True)
    x = normal(3, 4)
    want = traced(T(x)).numpy()
    path = tmp_path / "net.mge"
    result = traced.dump(path, arg_names="data", output_names=["score"], keep_param_name=True)
    assert result.nr_opr == 4  # the input, two parameters, one op
    assert result.tot_bytes == path.stat().st_size
    assert result.tensor_value_bytes == 4 * 8  # the bias stands in the text
    assert (result.inputs, result.outputs) == (["data"], ["score"])
    assert sorted(result.params) == ["bias", "weight"]
    assert result._fields[:4] == ("nr_opr", "tot_bytes", "tensor_value_bytes", "content_hash")
    got = GraphInference(path).run(x)
    assert isinstance(got, OrderedDict)
    np.testing.assert_array_equal(got["score"], want)
    assert not got["score"].flags.writeable
    assert set(graph_file.load(path).value_names.values()) == {"weight", "bias"}
    again = traced.dump(tmp_path / "again", arg_names="data", keep_var_name=0)
    assert again.params == []


class Pair(M.Module):
    """Two layers, one of them in a list, and a weight of its own."""

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self.layers = [M.Linear(4, 4)]
        self.last = M.Linear(4, 2, bias=False)
        self.scale = mge.Parameter([2.0])

    def forward(self, x: Any) -> Any:
        return self.last(self.layers[0](x)) * self.scale


def test_parameters_are_called_as_the_modules_call_them() -> None:
    net, named = Pair(), Pair("head")
    own = {"layers.0.weight", "layers.0.bias", "last.weight", "scale"}

    def names(function: Callable[..., Any]) -> set[str]:
        return set(dump(function, normal(3, 4))[1].params)

    assert names(lambda x: net(x)) == own
    assert names(lambda x: F.relu(net(x)) + F.sum(net(x))) == own
    assert names(lambda x: named(x)) == {f"head.{name}" for name in own}
    assert names(lambda x: net.last(net.layers[0](x))) == own - {"scale"}
    two = Pair()
    assert names(lambda x: net(x) + two(x)) == own | {f"{name}[1]" for name in own}


def test_default_names() -> None:
    def function(x: Any, pair: Any, *, scale: Any, more: Any) -> Any:
        return F.exp(x) + pair[0], pair[1] * scale, F.sum(x), more[0] * 2, more[0] * 3, x

    traced = trace(function, capture_as_const=True)
    x = T(normal(2, 3))
    args = [T(normal(2, 3, seed=i)) for i in range(4)]
    traced(x, (args[0], args[1]), scale=args[2], more=[args[3]])
    result = traced.dump(io.BytesIO())
    assert result.inputs == ["arg_0", "arg_1", "arg_2", "scale", "more_0"]
    assert result.outputs == ["ADD", "MUL", "Reduce", "MUL_1", "MUL_2", "arg_0"]


def test_results_as_a_dict() -> None:
    x = normal(2, 3)
    file, result = dump(lambda x: {"twice": x * 2, "sum": F.sum(x)}, x)
    assert result.outputs == ["twice", "sum"]
    got = GraphInference(file).run(x)
    np.testing.assert_array_equal(got["twice"], x * 2)
    np.testing.assert_allclose(got["sum"], x.sum(), rtol=1e-5)


def test_an_input_used_as_a_weight_stays_an_input() -> None:
    file, result = dump(
        F.conv2d, np.ones((1, 1, 3, 3), "float32"), np.ones((1, 1, 2, 2), "float32")
    )
    assert len(result.inputs) == 2
    net = GraphInference(file)
    (got,) = net.run(np.ones((1, 1, 3, 3)), 2 * np.ones((1, 1, 2, 2))).values()
    np.testing.assert_array_equal(got, np.full((1, 1, 2, 2), 8.0))


@pytest.mark.parametrize("make", [mge.Tensor, mge.tensor, mge.Parameter])
def test_tensors_made_of_tensors_follow_the_input(make: Callable[[Any], Any]) -> None:
    file, _ = dump(lambda x: make(x * 2.0) + 1.0, normal(2), arg_names=["x"])
    out = GraphInference(file).run(np.array([10.0, 20.0], "float32"))
    np.testing.assert_array_equal(next(iter(out.values())), [21.0, 41.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.mean().item(),
        lambda x: x if x.mean() > 0 else -x,
        lambda x: F.arange(x.mean() + 3),
        lambda x: F.topk(x, (x.mean() + 2).astype("int32"))[0],
        lambda x: x[: (x.mean() + 2).astype("int32")],
    ],
    ids=["item", "branch", "arange", "topk", "slice"],
)
def test_numbers_that_python_reads_are_told_of(function: Callable[[Any], Any]) -> None:
    with pytest.warns(UserWarning, match=r"trace.dump: .* Python reads numbers .*fixed"):
        dump(function, normal(4))


def test_sizes_and_constants_are_no_reads(recwarn: pytest.WarningsRecorder) -> None:
    two = T([2.0])
    dump(lambda x: x * x.shape[0] * two.item() * len(x), normal(4))
    assert not [w for w in recwarn if "Python reads" in str(w.message)]


def test_parameters_are_those_of_the_dump() -> None:
    """Not of the first call, nor of the time when the file is used."""
    net = M.Linear(2, 2)
    traced = trace(net, capture_as_const=True)
    x = normal(1, 2)
    traced(T(x))
    net.weight[...] = 3.0
    file = io.BytesIO()
    traced.dump(file)
    want = net(T(x)).numpy()
    net.weight[...] = 5.0
    file.seek(0)
    (got,) = GraphInference(file).run(x).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_methods_and_decorators(tmp_path: Path) -> None:
    @trace(symbolic=True, capture_as_const=True)
    def double(x: Any) -> Any:
        return x * 2

    double(T([1.0]))
    double.dump(str(tmp_path / "double"))
    (got,) = GraphInference(str(tmp_path / "double")).run([4.0]).values()
    assert got == [8.0]


# ---- batches -----------------------------------------------------------------------------------


class Recurrent(M.Module):
    """An LSTM whose first states are made for the batch that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = M.LSTM(5, 6, batch_first=True)
        self.head = M.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        h = F.zeros((1, x.shape[0], 6))
        out, _ = self.lstm(x, (h, h + 1))
        return self.head(out[:, -1])


class Patches(M.Module):
    """A class token for each image, and attention with heads split by reshape."""

    def __init__(self) -> None:
        super().__init__()
        self.token = mge.Parameter(normal(1, 1, 8))
        self.qkv = M.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        x = F.concat([F.broadcast_to(self.token, (n, 1, 8)), x], axis=1)
        q, k, v = F.split(self.qkv(x).reshape(n, -1, 3, 2, 4).transpose(2, 0, 3, 1, 4), 3, axis=0)
        weights = F.softmax(F.matmul(q[0], k[0], transpose_b=True) / 2, axis=-1)
        return F.matmul(weights, v[0]).transpose(0, 2, 1, 3).reshape(n, -1, 8)[:n, 0]


MODELS: dict[str, tuple[Callable[[], M.Module], tuple[int, ...]]] = {
    "lenet": (LeNet, (1, 32, 32)),
    "resnet": (ResNet, (3, 32, 32)),
    "mobilenet": (MobileNetV2, (3, 32, 32)),
    "shufflenet": (ShuffleNetV2, (3, 32, 32)),
    "unet": (lambda: UNet(padding=1, bilinear=True), (1, 16, 16)),
    "vit": (ViT, (3, 32, 32)),
    "swin": (Swin, (3, 32, 32)),
    "lstm": (Recurrent, (7, 5)),
    "patches": (Patches, (5, 8)),
}


@pytest.mark.parametrize("recorded", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_models_at_other_batch_sizes(name: str, recorded: int) -> None:
    """What is recorded with one batch size runs with others, and gives what the model gives."""
    make, shape = MODELS[name]
    net = make()
    net.eval()
    file, _ = dump(net, normal(recorded, *shape))
    inference = GraphInference(file)
    for batch in (recorded, 3, 1, 3):
        x = normal(batch, *shape, seed=batch)
        (got,) = inference.run(x).values()
        want = net(T(x)).numpy()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_tensor_made_from_the_batch_size() -> None:
    """It would be wrong for other batch sizes in silence."""
    file, _ = dump(lambda x: x + T(np.ones((x.shape[0], 1), "float32")), normal(2, 3))
    inference = GraphInference(file)
    inference.run(normal(2, 3))
    with pytest.raises(
        ValueError, match=r"of shape \(2, any number\), got \(3, 3\): a number or Tensor"
    ):
        inference.run(normal(3, 3))


def test_a_function_that_takes_one_batch_size() -> None:
    def function(x: Any) -> Any:
        if x.shape[0] != 2:
            raise KeyError("only two")
        return x + 1

    file, _ = dump(function, normal(2, 3))
    with pytest.raises(
        ValueError, match=r"got \(4, 3\): with a batch of 3 the function raised KeyErr"
    ):
        GraphInference(file).run(normal(4, 3))


def test_a_function_that_goes_another_way() -> None:
    file, _ = dump(lambda x: x + 1 if x.shape[0] == 2 else F.exp(x), normal(2, 3))
    with pytest.raises(ValueError, match=r"with a batch of 3 its op 0 is Elemwise.*EXP"):
        GraphInference(file).run(normal(4, 3))
    file, _ = dump(lambda x: F.sum(F.concat([x[i] for i in range(x.shape[0])])), normal(2, 3))
    with pytest.raises(ValueError, match="with a batch of 3 its op 2 is"):
        GraphInference(file).run(normal(4, 3))


def test_shapes_that_do_not_fit() -> None:
    file, _ = dump(lambda x, y: F.matmul(x, y), normal(2, 3), normal(3, 4))
    inference = GraphInference(file)
    assert inference.run(normal(5, 3), normal(3, 7))["MatrixMul"].shape == (5, 7)
    assert inference.run(normal(2, 6), normal(6, 4))["MatrixMul"].shape == (2, 4)
    for arrays, message in [
        ((normal(2, 4), normal(3, 4)), "expected axis 1 to be as large as axis 0, 3, got 4"),
        ((normal(2, 3), normal(2, 4)), "expected axis 1 to be as large as axis 0, 2, got 3"),
        (
            (normal(2, 3), normal(3)),
            r"'arg_1' of shape \(any number, any number\), got \(3,\)",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            inference.run(*arrays)


@pytest.mark.parametrize("shape", [(3, 48, 80), (1, 16, 16), (2, 32, 16)])
def test_images_of_other_sizes(shape: tuple[int, ...]) -> None:
    """A network that is all convolutions takes any image that its poolings divide."""
    net = UNet(padding=1, bilinear=True)
    net.eval()
    file, _ = dump(net, normal(2, 1, 32, 32))
    x = normal(shape[0], 1, *shape[1:])
    (got,) = GraphInference(file).run(x).values()
    np.testing.assert_allclose(got, net(T(x)).numpy(), rtol=1e-4, atol=1e-5)


def test_sequences_of_other_lengths() -> None:
    net = Recurrent()
    file, _ = dump(net, normal(2, 7, 5))
    for shape in [(2, 3, 5), (4, 9, 5), (1, 1, 5)]:
        x = normal(*shape)
        (got,) = GraphInference(io.BytesIO(file.getvalue())).run(x).values()
        np.testing.assert_allclose(got, net(T(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_batch_sizes_that_differ() -> None:
    file, _ = dump(lambda x, y: x.reshape(x.shape[0], 6) + y, normal(2, 3, 2), normal(2, 6))
    inference = GraphInference(file)
    assert inference.run(normal(4, 3, 2), normal(4, 6))["ADD"].shape == (4, 6)
    with pytest.raises(ValueError, match=r"one size in axis 0 of all inputs, got \[1, 4\]"):
        inference.run(normal(4, 3, 2), normal(1, 6))
    file, _ = dump(lambda x, y: x + y, normal(2, 3), normal(2, 3))
    inference = GraphInference(file)
    assert inference.run(normal(4, 3), normal(1, 3))["ADD"].shape == (4, 3)
    with pytest.raises(ValueError, match=r"op 0, Elemwise.*: ADD: shapes \(4, 3\) and \(3, 3\)"):
        inference.run(normal(4, 3), normal(3, 3))


def test_an_empty_batch_and_many_sizes() -> None:
    file, _ = dump(M.Linear(3, 2), normal(2, 3))
    inference = GraphInference(file)
    assert inference.run(normal(0, 3))["Linear"].shape == (0, 2)
    for n in range(1, 30):
        assert inference.run(normal(n, 3))["Linear"].shape == (n, 2)
    assert len(inference._programs) <= 8


# ---- running -----------------------------------------------------------------------------------


def two_inputs() -> GraphInference:
    file, _ = dump(
        lambda x, k: (x + k, x * k),
        normal(2),
        normal(2),
        arg_names=["x", "k"],
        output_names=["s", "p"],
    )
    return GraphInference(file)


def test_inputs_in_order_and_by_name() -> None:
    net = two_inputs()
    assert (net.input_names, net.output_names) == (["x", "k"], ["s", "p"])
    x, k = normal(2, seed=1), normal(2, seed=2)
    for got in (
        net.run(x, k),
        net.run(x, inp_dict={"k": k}),
        net.run(inp_dict={"k": k, "x": x}),
        net.run(T(x), k.tolist()),
    ):
        assert list(got) == ["s", "p"]
        np.testing.assert_array_equal(got["s"], x + k)
        np.testing.assert_array_equal(got["p"], x * k)


@pytest.mark.parametrize(
    ("args", "named", "error", "message"),
    [
        ([1.0], {}, ValueError, r"expected inputs \['x', 'k'\], got \['x'\]"),
        ([1.0, 1.0, 1.0], {}, ValueError, "expected 2 inputs, got 3"),
        ([1.0], {"z": 1.0}, ValueError, r"expected inputs \['x', 'k'\], got \['x', 'z'\]"),
        ([1.0], {"x": 1.0}, ValueError, "input 'x' is given twice"),
        (["a", 1.0], {}, TypeError, "expected input 'x' of float32, got <U1"),
        ([1j, 1.0], {}, TypeError, "expected input 'x' of float32, got complex128"),
    ],
)
def test_wrong_inputs(args: list[Any], named: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        two_inputs().run(*args, inp_dict=named)


def test_integers_do_not_take_floats() -> None:
    file, _ = dump(lambda i: i + 1, np.arange(3))
    with pytest.raises(TypeError, match="of int32, got float64"):
        GraphInference(file).run([0.5, 1, 2])
    file.seek(0)
    assert GraphInference(file).run([5, 1, 2])["ADD"].tolist() == [6, 2, 3]


def test_some_of_the_outputs() -> None:
    net = M.Sequential(M.Linear(3, 3), M.Linear(3, 2))
    x = normal(2, 3)
    file, _ = dump(lambda x: (net(x), net[0](x)), x, output_names=["end", "middle"])
    inference = GraphInference(file, outputs=["middle"])
    got = inference.run(x)
    assert list(got) == ["middle"]
    np.testing.assert_allclose(got["middle"], net[0](T(x)).numpy(), rtol=1e-5)
    file.seek(0)
    with pytest.raises(ValueError, match=r"there is no 'start' among \['arg_0', 'end', 'middle'\]"):
        GraphInference(file, outputs=["start"])


def test_weights_by_name() -> None:
    net = M.Linear(3, 12)
    file, _ = dump(net, normal(2, 3), keep_var_name=2)
    got = GraphInference(file, outputs=["weight"]).run(normal(2, 3))
    np.testing.assert_array_equal(got["weight"], net.weight.numpy())


def test_profile() -> None:
    file, _ = dump(lambda x: F.sum(F.exp(x) * 2), normal(2, 3))
    inference = GraphInference(file, profiling=True)
    with pytest.raises(TraceError, match="that has run"):
        inference.get_profile()
    inference.run(normal(2, 3))
    kinds = inference.get_profile()["kinds"]
    assert {k: v["count"] for k, v in kinds.items()} == {"Elemwise": 2, "Reduce": 1}
    file.seek(0)
    with pytest.raises(TraceError, match="profiling=True"):
        GraphInference(file).get_profile()


def test_random_ops_stay_random_and_dumping_draws_nothing() -> None:
    traced = trace(lambda x: x + mge.random.uniform(0, 1, (2,)), capture_as_const=True)
    traced(T([0.0, 0.0]))
    mge.random.seed(5)
    file = io.BytesIO()
    traced.dump(file)
    first = mge.random.uniform(0, 1, (2,)).numpy()
    mge.random.seed(5)
    file.seek(0)
    inference = GraphInference(file)
    mge.random.seed(5)
    np.testing.assert_array_equal(inference.run([0.0, 0.0])["ADD"], first)
    assert not np.array_equal(inference.run([0.0, 0.0])["ADD"], first)


def test_user_info_and_metadata() -> None:
    info = {"labels": ["a", "b"], "mean": np.float32([1, 2])}
    file, _ = dump(lambda x: x + 1, normal(2), user_info=info, enable_metadata=False)
    inference = GraphInference(file)
    assert inference.user_info["labels"] == ["a", "b"]
    file.seek(0)
    assert graph_file.load(file).metadata == {}


def test_append_and_strip_info(tmp_path: Path) -> None:
    path, info = tmp_path / "two", tmp_path / "strip.json"
    traced = trace(lambda x: F.exp(x) * 2, capture_as_const=True)
    traced(T([1.0]))
    traced.dump(path, strip_info_file=info)
    one = json.loads(info.read_text())
    assert one["opr_types"] == ["Elemwise"]
    assert one["elemwise_modes"] == ["EXP", "MUL"]
    assert one["dtypes"] == ["float32"]
    traced.dump(path, append=True, strip_info_file=info, append_json=True)
    assert json.loads(info.read_text()) == [one, one]
    with open(path, "rb") as file:
        assert [len(graph_file.load(file).graph.nodes) for _ in range(2)] == [2, 2]


def test_in_another_process_without_the_code(tmp_path: Path) -> None:
    net = M.Sequential(M.Conv2d(3, 4, 3), M.BatchNorm2d(4), M.ReLU())
    net.eval()
    x = normal(2, 3, 8, 8)
    traced = trace(net, capture_as_const=True)
    want = traced(T(x)).numpy()
    traced.dump(tmp_path / "net")
    np.save(tmp_path / "x.npy", x)
    code = """
import sys, numpy as np
from megengine.utils.comp_graph_tools import GraphInference
(y,) = GraphInference(sys.argv[1] + "/net").run(np.load(sys.argv[1] + "/x.npy")).values()
np.save(sys.argv[1] + "/y.npy", y)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-6)


def test_a_file_that_shrinks_while_in_use(tmp_path: Path) -> None:
    weight = T(normal(1 << 20))
    traced = trace(lambda x: x + weight, capture_as_const=True)
    traced(T([1.0]))
    traced.dump(tmp_path / "net")
    code = """
import os, sys
from megengine.utils.comp_graph_tools import GraphInference
net = GraphInference(sys.argv[1])
os.truncate(sys.argv[1], 4096)
try:
    net.run([1.0])
except RuntimeError as error:
    print(error)
"""
    path = str(tmp_path / "net")
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert "the file was cut shorter while its constants were in use" in done.stdout


def test_what_a_network_knows_of_the_file() -> None:
    file, _ = dump(lambda x: x + 1, normal(2), user_info={"a": 1})
    told = Network.load(file).metadata
    assert told == {"user_info": {"a": 1}, "graph_modified": False, "optimized_for_inference": True}


# ---- what is refused ---------------------------------------------------------------------------


def test_batch_norm_in_training_mode() -> None:
    """It is refused, before anything has run again."""
    net = M.BatchNorm2d(2)
    traced = trace(net, capture_as_const=True)
    traced(T(normal(2, 2, 3, 3)))
    mean = net.running_mean.numpy().copy()
    with pytest.raises(ValueError, match=r"a BatchNorm is in training mode.*call eval\(\)"):
        traced.dump(io.BytesIO())
    np.testing.assert_array_equal(net.running_mean.numpy(), mean)
    net.eval()
    x = normal(2, 2, 3, 3)
    traced(T(x))
    file = io.BytesIO()
    traced.dump(file)
    file.seek(0)
    (got,) = GraphInference(file).run(x).values()
    np.testing.assert_allclose(got, net(T(x)).numpy(), rtol=1e-5)


def test_dropout_in_training_mode() -> None:
    with pytest.raises(ValueError, match="Dropout drops elements at random"):
        dump(lambda x: F.dropout(x, 0.5), normal(2))
    file, _ = dump(lambda x: F.dropout(x, 0.5, training=False) + 1, normal(2))
    assert GraphInference(file).run([1.0, 2.0])["ADD"].tolist() == [2.0, 3.0]


def test_what_has_to_be_there() -> None:
    plain = trace(lambda x: x + 1)
    plain(T([1.0]))
    with pytest.raises(ValueError, match=r"expected trace\(..., capture_as_const=True\)"):
        plain.dump(io.BytesIO())
    with pytest.raises(ValueError, match="call the traced function first"):
        trace(lambda x: x, capture_as_const=True).dump(io.BytesIO())
    for result, message in [
        (lambda x: None, "to Tensors, got None"),
        (lambda x: 5, "got a int"),
        (lambda x: [x, [x]], "got a list of Tensor, list"),
        (lambda x: [], "got a list of nothing"),
    ]:
        with pytest.raises(ValueError, match=message):
            dump(result, [1.0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"arg_names": ["a", "b"]}, ValueError, "wrong number of arg_names, expected 1, got 2"),
        ({"output_names": ["a", "b"]}, ValueError, "wrong number of output_names"),
        ({"arg_names": [""]}, ValueError, "a name of its own for each input"),
        ({"foo": 1}, ValueError, "unknown option 'foo'"),
        ({"enable_io16xc32": True}, NotImplementedError, "enable_io16xc32 is not supported"),
        ({"input_data": ["#rand(0,255)"]}, NotImplementedError, "holds no test cases"),
        ({"resize_input": True}, NotImplementedError, "holds no test cases"),
        ({"dump_format": "FBS_V2"}, NotImplementedError, "expected dump_format=None, got 'FBS_V2'"),
    ],
)
def test_refused_options(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dump(lambda x: x + 1, [1.0], **options)


def test_accepted_options() -> None:
    file, _ = dump(
        lambda x: x + 1,
        [1.0],
        keep_opr_name=True,
        keep_opr_priority=True,
        no_change_graph=True,
        optimize_for_inference=False,
        enable_nchw44=True,
        model_version=1,
    )
    assert GraphInference(file, optimize_for_inference=True).run([1.0])["ADD"] == [2.0]


def test_signatures() -> None:
    parameters = list(inspect.signature(trace.dump).parameters)
    assert parameters[:5] == ["self", "file", "arg_names", "output_names", "append"]
    assert str(inspect.signature(GraphInference.run)).startswith("(self, *inp_args")


def test_one_tensor_as_two_arguments() -> None:
    traced = trace(lambda x, y: x + y, capture_as_const=True)
    x = T([1.0])
    traced(x, x)
    with pytest.raises(ValueError, match="got one Tensor twice"):
        traced.dump(io.BytesIO())


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    traced = trace(lambda x: x + 1, capture_as_const=True)
    traced(T([1.0]))
    with pytest.raises(FileNotFoundError):
        traced.dump(tmp_path / "missing" / "net")
    assert os.listdir(tmp_path) == []
