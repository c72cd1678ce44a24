"""Operators as older versions define them: what they give is what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime as runtime
from onnx import helper

import megengine as mge
import megengine.onnx

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE = floats(2, 4, 6, 8)
LINES = floats(3, 5)
POSITIVE = np.abs(IMAGE) + np.float32(0.1)
LAYER = [floats(5, 3, 4), floats(1, 16, 4), floats(1, 16, 4), floats(1, 32)]
CELLS = [floats(5, 3, 4), floats(2, 12, 4), floats(2, 12, 4), floats(2, 24)]

# (operator, version, inputs, attributes, number of outputs)
CASES: list[tuple[str, int, list[Any], dict[str, Any], int]] = [
    ("Softmax", 11, [IMAGE], {"axis": 2}, 1),
    ("Softmax", 11, [LINES], {}, 1),
    ("LogSoftmax", 11, [IMAGE], {"axis": 1}, 1),
    ("Hardmax", 11, [IMAGE], {"axis": 3}, 1),
    ("Squeeze", 11, [floats(1, 3, 1, 2)], {"axes": [0, 2]}, 1),
    ("Squeeze", 11, [floats(1, 3, 1, 2)], {}, 1),
    ("Unsqueeze", 11, [LINES], {"axes": [0, -1]}, 1),
    ("ReduceSum", 11, [IMAGE], {"axes": [1, -1], "keepdims": 0}, 1),
    ("ReduceMean", 11, [IMAGE], {"axes": [2, 3]}, 1),
    ("ReduceMax", 12, [IMAGE], {}, 1),
    ("ReduceL2", 11, [IMAGE], {"axes": [1]}, 1),
    ("ReduceLogSumExp", 11, [IMAGE], {"axes": [1]}, 1),
    ("Clip", 7, [IMAGE], {"min": -0.5, "max": 0.25}, 1),
    ("Clip", 11, [IMAGE, np.float32(-0.5), np.float32(0.25)], {}, 1),
    ("Pad", 8, [IMAGE], {"pads": [0, 1, 0, 2, 0, 0, 3, 1], "value": 1.5}, 1),
    ("Pad", 10, [IMAGE], {"pads": [0, 0, 2, 2, 0, 0, 1, 3], "mode": "reflect"}, 1),
    ("Pad", 11, [IMAGE, ints(0, 0, 2, 2, 0, 0, 1, 3)], {"mode": "edge"}, 1),
    ("Slice", 9, [IMAGE], {"starts": [1, -3], "ends": [9, -1], "axes": [1, 3]}, 1),
    ("Slice", 10, [IMAGE, ints(-1, 0), ints(-9, 4), ints(3, 1), ints(-2, 3)], {}, 1),
    ("Split", 11, [IMAGE], {"axis": 3, "split": [2, 5, 1]}, 3),
    ("Split", 11, [IMAGE], {"axis": 1}, 2),
    ("TopK", 9, [LINES], {"axis": 1, "k": 3}, 2),
    ("TopK", 10, [LINES, ints(2)], {"axis": 0}, 2),
    ("TopK", 11, [LINES, ints(2)], {"axis": -1, "largest": 0}, 2),
    ("Resize", 10, [IMAGE, np.float32([1, 1, 2, 3])], {"mode": "nearest"}, 1),
    ("Resize", 10, [IMAGE, np.float32([1, 1, 2, 1.5])], {"mode": "linear"}, 1),
    ("Resize", 11, [IMAGE, floats(0), np.float32([1, 1, 0.5, 2])], {"mode": "linear"}, 1),
    ("Resize", 11, [IMAGE, floats(0), np.float32([1, 1, 1.5, 2])],
     {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, 1),
    ("Resize", 11, [IMAGE, floats(0), np.float32([1, 1, 1.5, 2])],
     {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}, 1),
    ("Resize", 11, [IMAGE, floats(0), np.float32([1, 1, 2, 2])],
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     1),
    ("Resize", 13, [IMAGE, None, None, ints(2, 4, 9, 5)], {"mode": "linear"}, 1),
    ("Resize", 13, [IMAGE, None, np.float32([1, 1, 4, 3])], {"mode": "nearest"}, 1),
    ("Resize", 13, [IMAGE, None, np.float32([1, 1, 1.7, 0.4])], {"mode": "nearest"}, 1),
    ("Resize", 13, [IMAGE, None, np.float32([1, 2, 1, 2])], {"mode": "nearest"}, 1),
    ("Resize", 13, [floats(2, 3, 5), None, np.float32([1, 1, 2])], {"mode": "nearest"}, 1),
    ("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 2.0]}, 1),
    ("Upsample", 9, [IMAGE, np.float32([1, 1, 2, 2])], {"mode": "linear"}, 1),
    ("Dropout", 7, [IMAGE], {"ratio": 0.4}, 1),
    ("Dropout", 10, [IMAGE], {"ratio": 0.4}, 1),
    ("BatchNormalization", 7, [IMAGE, *floats(3, 4), np.abs(floats(4))], {"epsilon": 1e-3}, 1),
    ("BatchNormalization", 9, [IMAGE, *floats(3, 4), np.abs(floats(4))], {}, 1),
    ("OneHot", 9, [ints(1, 0, -1), ints(4), np.float32([0, 2])], {"axis": 0}, 1),
    ("Scatter", 9, [LINES, np.array([[1, 0, 2]]), floats(1, 3)], {"axis": 1}, 1),
    ("ScatterElements", 11, [LINES, np.array([[1, 0, -1]]), floats(1, 3)], {"axis": 1}, 1),
    ("ScatterND", 11, [LINES, np.array([[1], [0]]), floats(2, 5)], {}, 1),
    ("GatherND", 11, [IMAGE, np.array([[0, 1], [1, 3]])], {}, 1),
    ("Cast", 9, [IMAGE * 10], {"to": 7}, 1),
    ("Gemm", 7, [LINES, floats(5, 2), floats(2)], {"alpha": 0.5, "beta": 2.0}, 1),
    ("Gemm", 9, [LINES, floats(2, 5), floats(3, 1)], {"transB": 1}, 1),
    ("PRelu", 7, [IMAGE, floats(4, 1, 1)], {}, 1),
    ("AveragePool", 7, [IMAGE],
     {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}, 1),
    ("AveragePool", 10, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, 1),
    ("MaxPool", 8, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}, 2),
    ("MaxPool", 10, [IMAGE],
     {"kernel_shape": [3, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1]}, 1),
    ("MaxPool", 11, [floats(1, 2, 9)], {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, 1),
    ("MaxPool", 11, [floats(1, 2, 5, 5, 5)], {"kernel_shape": [2, 2, 2]}, 1),
    ("LpPool", 11, [IMAGE], {"kernel_shape": [2, 2], "p": 3}, 1),
    ("GlobalLpPool", 2, [IMAGE], {}, 1),
    ("ArgMax", 11, [IMAGE], {"axis": -1, "keepdims": 0}, 1),
    ("ArgMin", 12, [np.round(IMAGE)], {"axis": 2, "select_last_index": 1}, 1),
    ("Pow", 7, [POSITIVE, np.float32(0.5)], {}, 1),
    ("Pow", 12, [POSITIVE, ints(2)], {}, 1),
    ("LRN", 1, [IMAGE], {"size": 3, "alpha": 0.01, "bias": 2.0}, 1),
    ("InstanceNormalization", 6, [IMAGE, floats(4), floats(4)], {}, 1),
    ("MeanVarianceNormalization", 9, [IMAGE], {}, 1),
    ("LpNormalization", 1, [LINES], {"axis": 1, "p": 1}, 1),
    ("HardSigmoid", 6, [IMAGE], {"alpha": 0.3}, 1),
    ("Conv", 1, [IMAGE, floats(6, 2, 3, 3), floats(6)],
     {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2, 2]}, 1),
    ("Conv", 11, [floats(2, 4, 9), floats(4, 1, 3)], {"group": 4, "pads": [2, 1]}, 1),
    ("Conv", 11, [floats(2, 4, 9, 1), floats(4, 2, 3, 1), floats(4)],
     {"group": 2, "pads": [2, 0, 1, 0], "strides": [2, 1]}, 1),
    ("Conv", 11, [floats(1, 2, 5, 6, 7), floats(3, 2, 2, 2, 2)], {"dilations": [1, 2, 1]}, 1),
    ("ConvTranspose", 11, [IMAGE, floats(4, 2, 3, 3), floats(4)],
     {"group": 2, "strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, 1),
    ("ConvTranspose", 11, [floats(1, 2, 7), floats(2, 3, 4)], {"strides": [2]}, 1),
    ("ConvTranspose", 11, [floats(1, 2, 3, 4, 3), floats(2, 3, 2, 2, 2)],
     {"strides": [2, 1, 2]}, 1),
    ("ConvTranspose", 11, [IMAGE, floats(4, 2, 3, 3)],
     {"strides": [2, 2], "output_shape": [12, 16]}, 1),
    ("DepthToSpace", 11, [IMAGE], {"blocksize": 2, "mode": "CRD"}, 1),
    ("SpaceToDepth", 1, [IMAGE], {"blocksize": 2}, 1),
    ("CumSum", 11, [IMAGE, np.array(2)], {"exclusive": 1, "reverse": 1}, 1),
    ("Mod", 10, [IMAGE, POSITIVE], {"fmod": 1}, 1),
    ("Mod", 10, [np.int32([-7, 7, -7]), np.int32([3, -3, -3])], {}, 1),
    ("Div", 7, [np.int32([-7, 7, -8]), np.int32([2, -2, 3])], {}, 1),
    ("Round", 11, [np.float32([-2.5, -1.5, 0.5, 1.5, 2.6])], {}, 1),
    ("Celu", 12, [IMAGE], {"alpha": 2.0}, 1),
    ("Einsum", 12, [LINES, floats(5, 2)], {"equation": "ij, jk -> ki"}, 1),
    ("Range", 11, [np.float32(1), np.float32(4.2), np.float32(0.7)], {}, 1),
    ("Tile", 6, [LINES, ints(2, 3)], {}, 1),
    ("Expand", 8, [floats(3, 1), ints(2, 1, 4)], {}, 1),
    ("Where", 9, [IMAGE > 0, IMAGE, np.float32(0.0)], {}, 1),
    ("NonZero", 9, [np.round(IMAGE)], {}, 1),
    ("EyeLike", 9, [LINES], {"k": 1}, 1),
    ("Shrink", 9, [IMAGE], {"lambd": 0.4, "bias": 0.1}, 1),
    ("IsInf", 10, [np.float32([1, np.inf, -np.inf])], {"detect_negative": 0}, 1),
    ("Compress", 9, [IMAGE, np.array([True, False, True])], {"axis": 1}, 1),
    ("ReverseSequence", 10, [floats(5, 3, 2), ints(2, 5, 1)], {}, 1),
    ("Unique", 11, [np.float32([3, 1, 2, 1])], {"sorted": 0}, 4),
    ("Det", 11, [floats(2, 3, 3)], {}, 1),
    ("Flatten", 9, [IMAGE], {"axis": 0}, 1),
    ("Flatten", 11, [IMAGE], {"axis": -1}, 1),
    ("Transpose", 1, [IMAGE], {}, 1),
    ("Concat", 4, [LINES, LINES], {"axis": 0}, 1),
    ("Max", 8, [LINES, floats(1, 5), floats(3, 1)], {}, 1),
    ("Mean", 8, [LINES, floats(1, 5)], {}, 1),
    ("QuantizeLinear", 10, [IMAGE, np.float32(0.05), np.uint8(120)], {}, 1),
    ("QuantizeLinear", 13, [IMAGE, np.abs(floats(4)) + np.float32(0.01), np.int8([0, 1, 2, 3])],
     {"axis": 1}, 1),
    ("DequantizeLinear", 13, [np.int8([[1, -2], [3, 4]]), np.float32([0.5, 2]), np.int8([1, 0])],
     {"axis": 0}, 1),
    ("DynamicQuantizeLinear", 11, [IMAGE], {}, 3),
    ("MatMulInteger", 10, [RNG.integers(0, 255, (3, 400)).astype(np.uint8),
                           RNG.integers(-128, 127, (400, 2)).astype(np.int8), np.uint8(7)], {}, 1),
    ("GridSample", 16, [IMAGE, floats(2, 3, 5, 2)], {"padding_mode": "reflection"}, 1),
    ("GridSample", 16, [IMAGE, floats(2, 3, 5, 2)],
     {"mode": "bicubic", "align_corners": 1, "padding_mode": "border"}, 1),
    ("RoiAlign", 10, [IMAGE, np.float32([[0, 0, 9, 5], [2, 1, 4, 8]]), ints(1, 0)],
     {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}, 1),
    ("MaxRoiPool", 1, [IMAGE, np.float32([[1, 0, 0, 7, 5], [0, 2, 1, 4, 5]])],
     {"pooled_shape": [2, 2]}, 1),
    ("LSTM", 7, LAYER, {"hidden_size": 4}, 3),
    ("LSTM", 7, [*LAYER, np.int32([5, 2, 3])], {"hidden_size": 4, "direction": "reverse"}, 3),
    ("LSTM", 7, LAYER, {"hidden_size": 4, "clip": 0.3, "input_forget": 1}, 3),
    ("GRU", 7, CELLS, {"hidden_size": 4, "direction": "bidirectional"}, 2),
    ("GRU", 7, CELLS, {"hidden_size": 4, "direction": "bidirectional", "linear_before_reset": 1},
     2),
    ("RNN", 7, [floats(5, 3, 4), floats(1, 4, 4), floats(1, 4, 4)],
     {"hidden_size": 4, "activations": ["Relu"]}, 2),
]  # fmt: skip


def build(name: str, version: int, inputs: list[Any], attributes: Any, n: int) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(n)]
    given = {name: np.asarray(x) for name, x in zip(names, inputs, strict=True) if name}
    graph = helper.make_graph(
        [helper.make_node(name, names, outputs, **attributes)],
        "g",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for name, x in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{name}-{version}-{i}" for i, (name, version, *_) in enumerate(CASES)]
)
def test_version(case: Any) -> None:
    name, version, inputs, attributes, n = case
    proto = build(name, version, inputs, attributes, n)
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    wanted = session.run(None, given)
    found = mge.onnx.load(proto)(**given)
    found = found if isinstance(found, tuple) else (found,)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert tuple(one.shape) == other.shape
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-5)
