"""megengine.onnx.export itself: arguments, names, dynamic axes, comparison, files and errors."""

from __future__ import annotations

import functools
import importlib.util
import math
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.onnx
from megengine._core import apply
from megengine.core.ops import builtin
from megengine.jit import trace
from megengine.onnx.exporter import check, registry
from megengine.onnx.exporter.sizes import DependsOnSizeError, Formula, Size

T = mge.tensor


def floats(*shape: int) -> mge.Tensor:
    return T(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def run(path: Path, *arrays: Any) -> list[Any]:
    """The outputs of a file in onnxruntime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    feed = {name: np.asarray(a) for name, a in zip(names, arrays, strict=True)}
    return session.run(None, feed)


def operators(path: Path) -> list[str]:
    return [n.op_type for n in onnx.load(path).graph.node]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


# ---- what can be exported ----------------------------------------------------------------------


def test_a_weight_that_is_an_input_stays_one(path: Path) -> None:
    x, k = F.ones((1, 1, 3, 3)), F.ones((1, 1, 2, 2))
    megengine.onnx.export(lambda x, k: F.conv2d(x, k), (x, k), path)
    assert [i.name for i in onnx.load(path).graph.input] == ["x", "k"]
    (y,) = run(path, x.numpy(), 2 * k.numpy())
    np.testing.assert_array_equal(y, np.full((1, 1, 2, 2), 8, "float32"))


def test_traced_functions_methods_and_partials(path: Path) -> None:
    class Net(M.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = M.Linear(3, 2)

        def forward(self, x: mge.Tensor) -> mge.Tensor:
            return self.encode(x, 2.0)

        def encode(self, x: mge.Tensor, by: float) -> mge.Tensor:
            return self.fc(x) * by

    net = Net()
    net.eval()
    x = floats(4, 3)
    for function in (
        net,
        trace(net),
        trace(lambda x: net(x)),
        functools.partial(net.encode, by=2.0),
        lambda x: net.encode(x, 2.0),
    ):
        megengine.onnx.export(function, x, path)
        (y,) = run(path, x.numpy())
        np.testing.assert_allclose(y, net(x).numpy(), rtol=1e-5)
        named = {i.name for i in onnx.load(path).graph.initializer}
        assert "fc.weight" in named or "net.fc.weight" in named


def test_nested_arguments_and_results(path: Path) -> None:
    class Pair(NamedTuple):
        left: mge.Tensor
        right: mge.Tensor

    def f(pair: Pair, rest: dict[str, Any], *more: mge.Tensor, scale: float = 3.0) -> Any:
        total = pair.left + pair.right * scale
        return {"total": total, "parts": [rest["a"][0] * 2, more[0]], "again": total}

    inputs = (Pair(T([1.0]), T([2.0])), {"a": [T([5], dtype="int32")]}, T([True]))
    megengine.onnx.export(f, inputs, path)
    graph = onnx.load(path).graph
    assert [i.name for i in graph.input] == ["pair.0", "pair.1", "rest.a.0", "more"]
    assert [o.name for o in graph.output] == ["total", "parts.0", "parts.1", "again"]
    got = run(path, np.float32([1]), np.float32([2]), np.int32([5]), np.array([False]))
    assert [g.tolist() for g in got] == [[7.0], [10], [False], [7.0]]


def test_keyword_arguments_names_and_numbers(path: Path) -> None:
    def f(x: mge.Tensor, scale: Any, *, shift: mge.Tensor) -> mge.Tensor:
        return x * scale + shift

    inputs = {"x": floats(2, 3), "scale": 2.0, "shift": T(1.0)}
    megengine.onnx.export(f, inputs, path, input_names=["image", "offset"], output_names=["y"])
    graph = onnx.load(path).graph
    assert [i.name for i in graph.input] == ["image", "offset"]
    assert graph.output[0].name == "y"
    (y,) = run(path, np.ones((2, 3), "float32"), np.float32(4))  # a scalar is an input like others
    np.testing.assert_array_equal(y, np.full((2, 3), 6, "float32"))
    with pytest.raises(ValueError, match=r"output_names has \['x'\], which are names of inputs"):
        megengine.onnx.export(f, inputs, path, output_names=["x"])
    megengine.onnx.export(lambda x: {"x": x + 1, "y": x}, floats(2), path)
    assert [o.name for o in onnx.load(path).graph.output] == ["x_output", "y"]


def test_integers_masks_and_numpy_arrays(path: Path) -> None:
    def f(ids: mge.Tensor, mask: mge.Tensor, table: mge.Tensor) -> mge.Tensor:
        return F.where(mask.reshape(-1, 1), F.nn.embedding(ids, table), 0.0)

    ids, mask = T([2, 0, 1], dtype="int32"), T([True, False, True])
    table = np.arange(6, dtype="float32").reshape(3, 2)
    megengine.onnx.export(f, (ids, mask, table), path)
    (y,) = run(path, np.int32([1, 1, 0]), np.array([False, True, True]), table)
    assert y.tolist() == [[0, 0], [2, 3], [0, 1]]


def test_inputs_that_nobody_reads_and_results_that_nobody_made(path: Path) -> None:
    constant = T([7.0])
    megengine.onnx.export(lambda x, y: (y, constant, y), (T([1.0]), T([2.0])), path)
    assert [g.tolist() for g in run(path, np.float32([3]), np.float32([4]))] == [[4], [7], [4]]


def test_one_tensor_as_two_arguments(path: Path) -> None:
    x = T([3.0])
    megengine.onnx.export(F.sub, (x, x), path)
    assert run(path, np.float32([5]), np.float32([1]))[0].tolist() == [4.0]


def test_a_constant_is_written_once(path: Path) -> None:
    table = floats(300, 20)
    net = M.Linear(20, 300, bias=False)
    net.weight = mge.Parameter(table)
    net.eval()
    megengine.onnx.export(lambda i: net(F.nn.embedding(i, net.weight)), T([[1, 2]], "int32"), path)
    large = [t.name for t in onnx.load(path).graph.initializer if np.prod(t.dims) > 1000]
    assert large == ["net.weight"]


def test_what_is_detached_is_not_a_constant(path: Path) -> None:
    megengine.onnx.export(lambda x: x.detach() * 2, T([1.0]), path)
    assert run(path, np.float32([5]))[0].tolist() == [10.0]


def test_boxes_after_suppression_in_any_number(path: Path) -> None:
    def best(boxes: mge.Tensor, scores: mge.Tensor) -> Any:
        kept = F.vision.nms(boxes, scores, 0.5)
        return boxes[kept], F.full((kept.shape[0], 1), 3.0)

    rng = np.random.default_rng(2)
    corner = rng.uniform(0, 20, (30, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 9, (30, 2))], 1).astype("float32")
    scores = rng.uniform(size=30).astype("float32")
    apart = boxes + 100 * np.arange(30, dtype="float32")[:, None]
    axes = {"boxes": {0: "n"}, "scores": {0: "n"}}
    for dynamic in ({}, axes):
        megengine.onnx.export(best, (T(boxes), T(scores)), path, dynamic_axes=dynamic)
        kept, threes = run(path, apart, scores)
        assert len(kept) == len(threes) == 30
        assert len(run(path, boxes, scores)[0]) < 30
    assert len(run(path, apart[:7], scores[:7])[0]) == 7


def test_elements_under_a_mask(path: Path) -> None:
    megengine.onnx.export(lambda x: F.sum(x[x > 0]) / (x > 0).sum(), floats(4, 5), path)
    x = np.float32([[3, -1, 5, -2, -3]] * 4)
    assert run(path, x)[0] == 4.0


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_floats(dtype: str, path: Path) -> None:
    net = M.Sequential(M.Linear(3, 4), M.LayerNorm(4), M.Sigmoid())
    for tensor in net.tensors():
        tensor._reset(tensor.astype(dtype))
    net.eval()
    x = floats(2, 3).astype(dtype)
    if dtype == "bfloat16":
        with pytest.warns(UserWarning, match="takes and gives no bfloat16"):
            megengine.onnx.export(net, x, path)
    else:
        megengine.onnx.export(net, x, path)
    assert (
        onnx.load(path).graph.input[0].type.tensor_type.elem_type
        == {
            "float16": onnx.TensorProto.FLOAT16,
            "float64": onnx.TensorProto.DOUBLE,
            "bfloat16": onnx.TensorProto.BFLOAT16,
        }[dtype]
    )


def test_a_dtype_that_an_operator_lacks(path: Path) -> None:
    x, k = (F.ones(s).astype("bfloat16") for s in ((1, 1, 3, 3), (1, 1, 2, 2)))
    with pytest.raises(NotImplementedError, match="does not take one of its dtypes in opset 17"):
        megengine.onnx.export(F.conv2d, (x, k), path)
    with pytest.warns(UserWarning, match="bfloat16"):
        megengine.onnx.export(F.conv2d, (x, k), path, opset=22)


def test_results_beside_the_first_of_an_op(path: Path) -> None:
    """LayerNormalization gives no mean: the op is written as what it is made of."""
    op = builtin.LayerNorm(affine=False, eps=1e-5, normalized_dim=1)
    megengine.onnx.export(lambda x: apply(op, x)[:2], floats(4, 6), path)
    assert "LayerNormalization" not in operators(path)


def test_opsets(path: Path) -> None:
    for opset, wanted in ((17, "Erf"), (20, "Gelu"), (23, "Gelu")):
        megengine.onnx.export(F.gelu, floats(3), path, opset=opset)
        model = onnx.load(path)
        assert model.opset_import[0].version == opset
        assert wanted in operators(path)
    assert model.producer_name == "openmge"


# ---- evaluation mode ---------------------------------------------------------------------------


class Noisy(M.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn = M.BatchNorm2d(2)
        self.drop = M.Dropout(0.5)
        self.still = M.Dropout(0.5)
        self.still.eval()

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        return self.drop(self.still(self.bn(x)))


def test_training_mode_is_exported_as_evaluation_with_a_warning(path: Path) -> None:
    net = Noisy()
    net.bn.running_mean._reset(F.full((1, 2, 1, 1), 3.0))
    x = floats(4, 2, 5, 5)
    with pytest.warns(UserWarning, match="in training mode; what is exported is"):
        megengine.onnx.export(net, x, path)
    assert (net.training, net.bn.training, net.still.training) == (True, True, False)
    assert np.all(net.bn.running_mean.numpy() == 3)
    (y,) = run(path, x.numpy())
    net.eval()
    np.testing.assert_allclose(y, net(x).numpy(), rtol=1e-4, atol=1e-5)


def test_the_mode_comes_back_after_an_error(path: Path) -> None:
    net = Noisy()
    with (
        pytest.warns(UserWarning, match="training mode"),
        pytest.raises(ValueError, match="expected"),
    ):
        megengine.onnx.export(net, floats(4, 3, 5, 5), path)
    assert net.training
    assert net.drop.training


def test_ops_of_training_are_refused(path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"dropout is of training: call eval\(\)"):
        megengine.onnx.export(lambda x: F.dropout(x, 0.5), floats(3), path)
    with pytest.raises(NotImplementedError, match="pass them as an input"):
        megengine.onnx.export(lambda x: x + mge.random.normal(size=(3,)), floats(3), path)


# ---- dynamic axes ------------------------------------------------------------------------------


def shapes(path: Path) -> list[list[Any]]:
    graph = onnx.load(path).graph
    return [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.input, *graph.output)
    ]


def test_axes_have_names(path: Path) -> None:
    megengine.onnx.export(F.relu, floats(2, 3), path, dynamic_axes={"x": {0: "n", -1: "m"}})
    assert shapes(path) == [["n", "m"], ["n", "m"]]
    megengine.onnx.export(F.relu, floats(2, 3), path, dynamic_axes={"x": [1]})
    assert shapes(path) == [[2, "x_1"], [2, "x_1"]]


def test_a_batch_needs_no_arithmetic(path: Path) -> None:
    megengine.onnx.export(
        lambda x: F.transpose(x, (0, 2, 1)).reshape(x.shape[0], -1),
        floats(2, 3, 4),
        path,
        dynamic_axes={"x": {0: "n"}},
    )
    assert operators(path) == ["Transpose", "Reshape"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.broadcast_to(x[:, :1], x.shape),
        lambda x: x.reshape(-1, 2),
        lambda x: F.flatten(x),
        lambda x: x + F.arange(x.shape[0]).reshape(-1, 1),
        lambda x: x * x.shape[0] + x.shape[1],
        lambda x: x[: x.shape[0] - 1],
        lambda x: x[x.shape[0] - 2],
        lambda x: F.concat([x, F.zeros((3, x.shape[1]))], 0),
        lambda x: F.mean(x, 0) + F.sum(x) / x.shape[1],
        lambda x: F.full((2 * x.shape[0] + 1, x.shape[1]), 2.5) + x[0],
        lambda x: F.repeat(x, 2, axis=1),
        lambda x: F.tile(x, (2, 3)),
        lambda x: F.topk(x, x.shape[1] // 2, descending=True)[0],
        lambda x: F.sort(x)[0],
        lambda x: F.linspace(0, 1, x.shape[1]) + x,
        lambda x: F.split(x, [2, 3], axis=1)[2],
        lambda x: F.matmul(x, x, transpose_b=True),
        lambda x: F.eye(x.shape[0]) @ x,
        lambda x: F.cumsum(x, 0),
        lambda x: F.where(x > 0, x, F.zeros_like(x)),
        lambda x: x[:, ::2] * 2,
        lambda x: F.max_pool2d(x.reshape(1, 1, *x.shape), 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, *x.shape), 1),
        lambda x: F.vision.interpolate(x.reshape(1, 1, *x.shape), scale_factor=2),
        lambda x: F.repeat(F.max_pool2d(x.reshape(1, 1, *x.shape), (1, 2)), 3, 0),
    ],
)  # fmt: skip
def test_sizes_are_computed(function: Any, path: Path) -> None:
    """Compared at sizes that no recording had."""
    x = floats(4, 6)
    megengine.onnx.export(function, x, path, dynamic_axes={"x": {0: "n", 1: "m"}})
    for sizes in ((3, 8), (7, 4)):
        given = floats(*sizes)
        (y,) = run(path, given.numpy())
        np.testing.assert_allclose(y, function(given).numpy(), rtol=1e-5, atol=1e-5)


def test_writes_to_parts_of_any_size(path: Path) -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 1
        y[1:, ::2] = 0.0
        return y

    megengine.onnx.export(f, floats(4, 6), path, dynamic_axes={"x": [0, 1]})
    x = floats(3, 5)
    np.testing.assert_array_equal(run(path, x.numpy())[0], f(x).numpy())


def test_sizes_that_are_rounded(path: Path) -> None:
    axes = {"x": {1: "m"}}
    for part in (lambda m: m // 2, lambda m: -(-m // 2), lambda m: m // 4 + 1):

        def fill(x: mge.Tensor, part: Any = part) -> mge.Tensor:
            return F.full((part(x.shape[1]),), 1.0) * x[0, 0]

        megengine.onnx.export(fill, (floats(2, 4),), path, dynamic_axes=axes)
        for m in (5, 6, 7, 12):
            assert run(path, np.zeros((2, m), "float32"))[0].shape == (part(m),)


def test_sizes_that_only_multiples_give(path: Path) -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        m = x.shape[1]
        return F.full((m // 2 if m % 2 == 0 else 7 * m,), 1.0) * x[0, 0]

    axes = {"x": {1: "m"}}
    with pytest.warns(UserWarning, match=r"sizes like {'m': 12}.*not for m=13.*\n.*Fill\("):
        megengine.onnx.export(f, floats(2, 4), path, dynamic_axes=axes)
    assert run(path, np.zeros((2, 8), "float32"))[0].shape == (4,)
    sizes = {"m": (2, 4, 8)}
    megengine.onnx.export(f, floats(2, 4), path, dynamic_axes=axes, sample_sizes=sizes)


def test_a_size_that_is_that_of_another_value(path: Path) -> None:
    def skip(x: mge.Tensor) -> mge.Tensor:
        return x + F.vision.interpolate(F.max_pool2d(x, 2), x.shape[2:])

    megengine.onnx.export(skip, floats(1, 2, 8, 8), path, dynamic_axes={"x": {2: "h", 3: "w"}})
    x = floats(1, 2, 11, 9)
    np.testing.assert_allclose(run(path, x.numpy())[0], skip(x).numpy(), rtol=1e-4, atol=1e-5)


def test_sizes_shared_between_inputs(path: Path) -> None:
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    megengine.onnx.export(F.add, (floats(2, 3), floats(2, 3)), path, dynamic_axes=axes)
    assert shapes(path) == [["n", 3]] * 3
    with pytest.raises(ValueError, match="'n' is 2 and 1 in the inputs"):
        megengine.onnx.export(F.add, (floats(2, 3), floats(1, 3)), path, dynamic_axes=axes)


def test_what_depends_on_the_size_otherwise_is_refused_by_name(path: Path) -> None:
    axes = {"x": {0: "n"}}
    with pytest.raises(NotImplementedError, match=r"Pooling\(.*depends on a dynamic size"):
        megengine.onnx.export(
            lambda x: F.adaptive_avg_pool2d(x, 2),
            floats(1, 2, 8, 8),
            path,
            dynamic_axes={"x": {2: "h"}},
        )
    with pytest.raises(NotImplementedError, match="a constant has another shape"):
        megengine.onnx.export(
            lambda x: x + T(np.arange(x.shape[0], dtype="float32")),
            floats(4),
            path,
            dynamic_axes=axes,
        )
    with pytest.raises(NotImplementedError, match=r"'MUL'.*depends on a dynamic size"):
        megengine.onnx.export(
            lambda x: x * math.gamma(x.shape[0]), floats(4), path, dynamic_axes=axes
        )
    with pytest.raises(NotImplementedError, match="at most 64 real numbers can be computed"):
        megengine.onnx.export(
            lambda x: x + T(np.full(65, x.shape[0] + 0.5, "float32")),
            floats(4, 1),
            path,
            dynamic_axes=axes,
        )
    with pytest.raises(NotImplementedError, match="takes another way"):
        megengine.onnx.export(
            lambda x: F.exp(x) if x.shape[0] > 2 else x, floats(4), path, dynamic_axes=axes
        )
    assert not path.exists()


def test_sample_sizes(path: Path) -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        if x.shape[0] % 7:
            raise ValueError("only multiples of seven")
        return x.reshape(-1, 7)

    axes = {"x": {0: "n"}}
    with pytest.raises(ValueError, match="multiples of seven") as info:
        megengine.onnx.export(f, floats(14), path, dynamic_axes=axes)
    assert "sample_sizes chooses others" in info.value.__notes__[0]
    with pytest.warns(UserWarning, match="not compared on random inputs with n=1"):
        megengine.onnx.export(
            f, floats(14), path, dynamic_axes=axes, sample_sizes={"n": (7, 14, 28)}
        )
    assert run(path, np.zeros(35, "float32"))[0].shape == (5, 7)


def test_formulas() -> None:
    n, m = (2, 3, 2, 5), (8, 8, 16, 24)
    cases = {
        (7, 10, 7, 16): [((3, (0,)),), 1, 1],
        (16, 24, 32, 120): [((1, (0, 1)),), 0, 1],
        (4, 4, 8, 12): [((1, (1,)),), 0, 2],
        (11, 12, 19, 30): [((1, (0,)), (1, (1,))), 1, 1],
    }
    for samples, (terms, offset, divisor) in cases.items():
        assert Formula.of(Size(samples), [n, m]) == Formula(terms, offset, divisor)
    assert Formula.of(Size((4, 9, 4, 25)), [n, m]) is None
    with pytest.raises(DependsOnSizeError):
        int(Size(n))  # type: ignore[call-overload]
    with pytest.raises(DependsOnSizeError):
        assert Size(n) > 2
    assert Size(n) * 2 - Size(n) == Size(n)
    assert Size(n) - Size(n) == 0


# ---- comparison --------------------------------------------------------------------------------


def test_a_wrong_rule_is_found_and_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.RULES["Cumsum"]
    wrong = entry._replace(rule=lambda g, call: g.emit("Neg", call.inputs[0]))
    monkeypatch.setitem(registry.RULES, "Cumsum", wrong)
    path.write_bytes(b"what was there before")
    large = M.Linear(300, 300)
    large.eval()
    with pytest.raises(RuntimeError, match="first op that differs is Cumsum"):
        megengine.onnx.export(
            lambda x: F.cumsum(large(x), 0), floats(2, 300), path, external_data=True
        )
    message = r"first op that differs is Cumsum\(axis=0.*'Neg' in the file"
    with pytest.raises(RuntimeError, match=message):
        megengine.onnx.export(lambda x: F.exp(F.cumsum(F.abs(x), 0)) + 1, floats(4), path)
    assert path.read_bytes() == b"what was there before"
    assert [p.name for p in path.parent.iterdir()] == ["model.onnx"]
    megengine.onnx.export(lambda x: F.cumsum(x, 0), floats(4), path, verify=False)
    assert operators(path) == ["Neg"]


def test_what_is_wrong_at_other_sizes_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a batch of 1, where the size of another axis is that of the batch by accident."""

    def rule(g: Any, call: Any) -> str:
        return g.emit("Mul", call.inputs[0], g.cast(g.size(call.shape[0]), "float32"))

    wrong = registry.RULES["Cumsum"]._replace(rule=rule)
    monkeypatch.setitem(registry.RULES, "Cumsum", wrong)
    with pytest.raises(RuntimeError, match=r"inputs with n=2: .*differs is Cumsum\(axis=0"):
        megengine.onnx.export(
            lambda x: F.exp(F.cumsum(F.ones_like(x) * x[:1], 0)),
            F.ones((1, 3)),
            path,
            dynamic_axes={"x": {0: "n"}},
        )


def test_numbers_that_python_read_are_found_out(path: Path) -> None:
    message = r"Python reads numbers that depend on the inputs.*results of Reduce\(mode='SUM'"
    with (
        pytest.warns(UserWarning, match=message),
        pytest.raises(RuntimeError, match="on random inputs"),
    ):
        megengine.onnx.export(lambda x: x + F.sum(x).item(), floats(4), path)
    with pytest.warns(UserWarning, match="results of an input"):
        megengine.onnx.export(lambda x: x if x.numpy().size else -x, floats(4), path)
    table = mge.Parameter([1.0, 2.0])  # reading what does not depend on inputs is no matter
    megengine.onnx.export(lambda x: x * float(table.numpy().max()), floats(4), path)


def test_inputs_to_compare_on(path: Path) -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        return x + float((x == 3).numpy().any())

    with pytest.warns(UserWarning, match="results of Elemwise"):
        megengine.onnx.export(f, floats(4), path)
    with (
        pytest.warns(UserWarning, match="results of Elemwise"),
        pytest.raises(RuntimeError, match="inputs 1 of verify"),
    ):
        megengine.onnx.export(f, floats(4), path, verify=[floats(4), T([3.0, 3, 3, 3])])


def test_without_onnxruntime(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
    )
    with pytest.warns(UserWarning, match="not compared with the function"):
        megengine.onnx.export(F.relu, floats(3), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        megengine.onnx.export(F.relu, floats(3), path, verify=False)


def test_differences_of_results() -> None:
    a = np.array([1000.0, 1e-4], "float32")
    assert check.difference(a, a, 1e-4) == ""
    assert check.difference(a + np.float32([0.05, 0]), a, 1e-4) == ""
    assert "off by" in check.difference(a + np.float32([0.5, 0]), a, 1e-4)
    assert "shape" in check.difference(a[:1], a, 1e-4)
    assert "dtype" in check.difference(a.astype("float64"), a, 1e-4)
    assert "NaN" in check.difference(np.float32([np.nan, 1]), np.float32([1, 1]), 1e-4)
    assert check.difference(np.float32([np.nan, 1]), np.float32([np.nan, 1]), 1e-4) == ""
    assert "1 of 2" in check.difference(np.int32([1, 2]), np.int32([1, 3]), 1e-4)


# ---- files and errors --------------------------------------------------------------------------


def test_all_that_cannot_be_exported_is_listed_at_once(path: Path) -> None:
    def f(x: mge.Tensor) -> Any:
        return (
            F.linalg.svd(x)[0] if hasattr(F, "linalg") else F.svd(x)[0],
            F.matinv(x),
            F.dropout(x, 0.5),
        )

    with pytest.raises(NotImplementedError) as info:
        megengine.onnx.export(f, floats(3, 3), path)
    text = str(info.value)
    assert "SVD(full_matrices=False" in text
    assert "MatrixInverse()" in text
    assert "Dropout(" in text
    assert "no linear solver" in text
    assert not list(path.parent.iterdir())


def test_colours_of_integers_are_refused(path: Path) -> None:
    with pytest.raises(NotImplementedError, match="convert the image before the model"):
        megengine.onnx.export(
            lambda x: F.vision.cvt_color(x, "RGB2GRAY"), T(np.ones((1, 4, 4, 3), "uint8")), path
        )


def test_external_data(path: Path) -> None:
    net = M.Linear(30, 20)
    net.eval()
    x = floats(2, 30)
    megengine.onnx.export(net, x, path, external_data=True)
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert path.stat().st_size < 1000
    held = {
        t.name: t.data_location for t in onnx.load(path, load_external_data=False).graph.initializer
    }
    assert held == {"weight": onnx.TensorProto.EXTERNAL, "bias": onnx.TensorProto.DEFAULT}
    np.testing.assert_allclose(run(path, x.numpy())[0], net(x).numpy(), rtol=1e-4, atol=1e-5)
    loaded = megengine.onnx.load(path)
    np.testing.assert_allclose(loaded(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)


def test_too_large_for_one_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("megengine.onnx.exporter.model.LARGEST_FILE", 1000)
    net = M.Linear(30, 20)
    net.eval()
    with pytest.raises(ValueError, match="external_data=True puts them into a file of their own"):
        megengine.onnx.export(net, floats(2, 30), path)
    megengine.onnx.export(net, floats(2, 30), path, external_data=True)


def test_arguments_that_do_not_fit(path: Path) -> None:
    x = floats(2, 3)
    with pytest.raises(ValueError, match="opset from 17 to 23, got 16"):
        megengine.onnx.export(F.relu, x, path, opset=16)
    with pytest.raises(TypeError, match="expected a function or a Module, got int"):
        megengine.onnx.export(3, x, path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a tuple of arguments or a dict"):
        megengine.onnx.export(F.relu, "x", path)
    with pytest.raises(ValueError, match="1 different input_names"):
        megengine.onnx.export(F.relu, x, path, input_names=["a", "b"])
    with pytest.raises(ValueError, match="1 different output_names"):
        megengine.onnx.export(F.relu, x, path, output_names=[])
    with pytest.raises(ValueError, match="dynamic_axes names 'y', but the inputs are x"):
        megengine.onnx.export(F.relu, x, path, dynamic_axes={"y": [0]})
    with pytest.raises(ValueError, match="has no axis 2"):
        megengine.onnx.export(F.relu, x, path, dynamic_axes={"x": [2]})
    with pytest.raises(ValueError, match="no dynamic axis"):
        megengine.onnx.export(F.relu, x, path, sample_sizes={"n": (1, 2, 3)})
    with pytest.raises(ValueError, match="three different positive sample_sizes"):
        megengine.onnx.export(
            F.relu, x, path, dynamic_axes={"x": {0: "n"}}, sample_sizes={"n": (1, 2)}
        )
    with pytest.raises(TypeError, match="got NoneType"):
        megengine.onnx.export(lambda x: None, x, path)
    with pytest.raises(FileNotFoundError):
        megengine.onnx.export(F.relu, x, path / "nowhere" / "x.onnx")


def test_importing_megengine_does_not_import_onnx() -> None:
    program = textwrap.dedent("""
        import sys
        import megengine
        assert "onnx" not in sys.modules
        sys.modules["onnx"] = None
        try:
            import megengine.onnx
        except ImportError as error:
            assert "pip install openmge[onnx]" in str(error)
        else:
            raise AssertionError("imported")
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
