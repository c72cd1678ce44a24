"""Models that ONNX Runtime has quantised give what they give there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime.quantization")

import onnxruntime as runtime
from onnxruntime import quantization

import megengine as mge
import megengine.onnx

from .test_training import Net, file_of


class Images(quantization.CalibrationDataReader):
    """What the ranges of activations are measured on."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rest: Iterator[dict[str, Any]] = iter(
            [{"x": rng.normal(size=(2, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self._rest, None)


@pytest.mark.parametrize("kind", ["dynamic", "pairs", "pairs per channel", "operators"])
@pytest.mark.filterwarnings("ignore")
def test_as_in_onnxruntime(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / "quantised.onnx"
    source.write_bytes(file_of(Net()))
    if kind == "dynamic":
        quantization.quantize_dynamic(source, target, op_types_to_quantize=["MatMul", "Gemm"])
    else:
        form = quantization.QuantFormat.QOperator if kind == "operators" else None
        quantization.quantize_static(
            source,
            target,
            Images(rng),
            quant_format=form or quantization.QuantFormat.QDQ,
            per_channel=kind == "pairs per channel",
            op_types_to_quantize=["Conv", "Gemm", "MatMul"] if form is None else ["Conv"],
            weight_type=quantization.QuantType.QInt8,
        )
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(target, options, providers=["CPUExecutionProvider"])
    image = rng.normal(size=(3, 3, 8, 8)).astype(np.float32)
    (wanted,) = session.run(None, {"x": image})
    found = mge.onnx.load(target)(mge.tensor(image)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
