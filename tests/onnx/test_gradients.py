"""Gradients of operators that are composed here, against differences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import megengine as mge
import megengine.functional as F
import megengine.onnx
from megengine.autodiff import GradManager

from .test_versions import build

DRAW = np.random.default_rng(3)


def reals(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape)


IMAGE = reals(2, 4, 6, 7)

# (operator, version, inputs, attributes, number of outputs); gradients of all float64 inputs
CASES: list[tuple[str, int, list[Any], dict[str, Any], int]] = [
    ("Attention", 25, [reals(2, 3, 4, 8), reals(2, 3, 5, 8), reals(2, 3, 5, 6)],
     {"is_causal": 1}, 1),
    ("Attention", 25, [reals(2, 4, 16), reals(2, 5, 8), reals(2, 5, 8), reals(4, 5)],
     {"q_num_heads": 4, "kv_num_heads": 2, "softcap": 2.0}, 1),
    ("AveragePool", 11, [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, 1),
    ("Celu", 12, [reals(9)], {"alpha": 0.7}, 1),
    ("Col2Im", 18, [reals(1, 12, 20), np.array([5, 6]), np.array([2, 2])], {}, 1),
    ("Conv", 11, [IMAGE, reals(6, 2, 3, 3), reals(6)],
     {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]}, 1),
    ("ConvTranspose", 11, [IMAGE, reals(4, 2, 3, 3), reals(2)], {"strides": [2, 2]}, 1),
    ("DFT", 17, [reals(2, 6, 2)], {"axis": 1}, 1),
    ("DFT", 17, [reals(2, 4, 2)], {"axis": 1, "inverse": 1}, 1),
    ("Det", 11, [reals(2, 3, 3)], {}, 1),
    ("Einsum", 12, [reals(2, 3), reals(3, 4)], {"equation": "ij,jk->ki"}, 1),
    ("Elu", 6, [reals(9)], {"alpha": 0.7}, 1),
    ("GRU", 7, [reals(3, 2, 4), reals(1, 9, 4), reals(1, 9, 3), reals(1, 18)],
     {"hidden_size": 3}, 2),
    ("GatherElements", 13, [reals(3, 4), np.array([[1, 1], [0, -1]])], {"axis": 1}, 1),
    ("GatherND", 13, [reals(3, 4), np.array([[1], [1], [0]])], {}, 1),
    ("Gemm", 13, [reals(3, 4), reals(5, 4), reals(5)],
     {"transB": 1, "alpha": 0.5, "beta": 2.0}, 1),
    ("GridSample", 20, [IMAGE, reals(2, 3, 5, 2)], {}, 1),
    ("GridSample", 20, [IMAGE, reals(2, 3, 5, 2)], {"mode": "cubic", "padding_mode": "border"}, 1),
    ("GroupNormalization", 21, [IMAGE, reals(4), reals(4)],
     {"num_groups": 2, "stash_type": 11}, 1),
    ("InstanceNormalization", 6, [IMAGE, reals(4), reals(4)], {}, 1),
    ("LRN", 13, [IMAGE], {"size": 3, "alpha": 0.1}, 1),
    ("LSTM", 7, [reals(3, 2, 4), reals(1, 12, 4), reals(1, 12, 3), reals(1, 24)],
     {"hidden_size": 3}, 3),
    ("LayerNormalization", 17, [reals(3, 4, 5), reals(4, 5), reals(4, 5)],
     {"axis": 1, "stash_type": 11}, 1),
    ("LpPool", 11, [np.abs(IMAGE) + 0.2], {"kernel_shape": [2, 2], "p": 3}, 1),
    ("MaxPool", 11, [IMAGE], {"kernel_shape": [3, 3], "dilations": [2, 1]}, 1),
    ("Mish", 18, [reals(9)], {}, 1),
    ("Pad", 11, [reals(3, 4), np.array([1, -1, 2, 3])], {"mode": "reflect"}, 1),
    ("Pad", 11, [reals(3, 4), np.array([1, -1, 2, 3])], {"mode": "constant"}, 1),
    ("RMSNormalization", 23, [reals(3, 4), reals(4)], {"stash_type": 11}, 1),
    ("ReduceL2", 13, [reals(3, 4)], {"axes": [1]}, 1),
    ("ReduceLogSumExp", 13, [reals(3, 4)], {"axes": [0]}, 1),
    ("Resize", 13, [IMAGE, None, np.float32([1, 1, 1.5, 2])], {"mode": "cubic"}, 1),
    ("Resize", 13, [IMAGE, None, np.float32([1, 1, 0.5, 2])], {"mode": "linear"}, 1),
    ("RoiAlign", 16, [IMAGE, np.float64([[0, 0, 5, 4]]), np.array([1])],
     {"output_height": 2, "output_width": 2}, 1),
    ("ScatterElements", 18, [reals(3, 4), np.array([[1, 1, 0]]), reals(1, 3)], {"axis": 1}, 1),
    ("ScatterElements", 18, [reals(3, 4), np.array([[1, 1, 0]]), reals(1, 3)],
     {"axis": 1, "reduction": "add"}, 1),
    ("ScatterND", 18, [reals(3, 4), np.array([[1], [0]]), reals(2, 4)], {}, 1),
    ("Selu", 6, [reals(9)], {}, 1),
    ("SoftmaxCrossEntropyLoss", 13, [reals(4, 5), np.array([1, 0, 4, 2])],
     {"ignore_index": 4}, 1),
    ("TopK", 11, [reals(3, 5), np.array([2])], {}, 2),
    ("Trilu", 14, [reals(4, 4)], {}, 1),
]  # fmt: skip


def real_outputs(found: Any) -> list[mge.Tensor]:
    outputs = found if isinstance(found, tuple) else (found,)
    return [y for y in outputs if y.dtype == np.float64]


@pytest.mark.parametrize("case", CASES, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CASES)])
def test_gradient(case: Any) -> None:
    name, _, inputs, _, _ = case
    net = mge.onnx.load(build(*case))
    given = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    tensors = {n: mge.Tensor(x, dtype=x.dtype) for n, x in given.items()}
    # Positions of regions have no gradient here.
    watched = [
        n for n, x in given.items() if x.dtype == np.float64 and (name, n) != ("RoiAlign", "x1")
    ]
    with GradManager().attach([tensors[n] for n in watched]) as manager:
        found = net(**tensors)
        found = [
            y for y in (found if isinstance(found, tuple) else (found,)) if y.dtype == np.float64
        ]
        directions = [DRAW.normal(size=y._tuple_shape) for y in found]
        total = sum(
            F.sum(y * mge.Tensor(d, dtype="float64"))
            for y, d in zip(found, directions, strict=True)
        )
        manager.backward(total)

    def value(step: float, moves: dict[str, np.ndarray]) -> float:
        moved = {n: x + step * moves[n] if n in moves else x for n, x in given.items()}
        out = real_outputs(net(**{n: mge.Tensor(x, dtype=x.dtype) for n, x in moved.items()}))
        return float(sum((y.numpy() * d).sum() for y, d in zip(out, directions, strict=True)))

    moves = {n: DRAW.normal(size=given[n].shape) for n in watched}
    slope = sum((tensors[n].grad.numpy() * moves[n]).sum() for n in watched)
    numeric = (value(1e-6, moves) - value(-1e-6, moves)) / 2e-6
    np.testing.assert_allclose(slope, numeric, rtol=2e-5, atol=1e-6)


def test_parameters_of_embeddings() -> None:
    table = numpy_helper.from_array(np.float32([[1, 2], [3, 4], [5, 6]]), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        [table],
    )
    net = mge.onnx.load(helper.make_model(graph, ir_version=9))
    with GradManager().attach(net.parameters()) as manager:
        manager.backward(F.sum(net(mge.tensor([2, 0, -1]))))
    np.testing.assert_array_equal(net.table.grad.numpy(), [[1, 1], [0, 0], [2, 2]])
