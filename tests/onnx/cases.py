"""The test cases of the onnx package: models with inputs and the outputs that they must give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import megengine as mge
import megengine.onnx


def load_cases(kind: str) -> dict[str, Any]:
    """The cases of a kind, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are made with overflows, on purpose
        return {case.name: case for case in load_model_tests(kind=kind)}


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and wanted outputs of a case."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_as_array(v) for v in inputs], [_as_array(v) for v in outputs]
        return
    folder = Path(case.model_dir)
    graph = onnx.load(folder / "model.onnx").graph
    for place in sorted(folder.glob("test_data_set_*")):
        yield (
            [_read(place / f"input_{i}.pb", info) for i, info in enumerate(graph.input)
             if (place / f"input_{i}.pb").exists()],
            [_read(place / f"output_{i}.pb", info) for i, info in enumerate(graph.output)],
        )  # fmt: skip


def _as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path, info: Any) -> Any:
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto.FromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def run(case: Any) -> Iterator[tuple[Any, Any]]:
    """Loads and runs the model of a case: what comes out, and what is wanted."""
    source = case.model if case.model is not None else Path(case.model_dir) / "model.onnx"
    net = mge.onnx.load(source)
    for inputs, outputs in data_sets(case):
        found = net(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(outputs)
        yield from zip(found, outputs, strict=True)


def check(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    """Raises unless a value is the one that is wanted, dtype and shape included."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other, rtol, atol)
        return
    if wanted is None:
        assert found is None
        return
    found, wanted = check_kind(found, wanted)
    if wanted.dtype.kind in "OUS":
        np.testing.assert_array_equal(found.astype(object), wanted.astype(object))
        return
    if wanted.dtype.kind not in "biufc":  # what NumPy has no arithmetic for
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def check_kind(found: Any, wanted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Raises unless dtype and shape are those wanted; gives both as arrays."""
    found = found.numpy() if isinstance(found, mge.Tensor) else found
    wanted = np.asarray(wanted)
    text = wanted.dtype.kind in "OUS"
    assert found.dtype.kind in "OUS" if text else found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    return found, wanted
