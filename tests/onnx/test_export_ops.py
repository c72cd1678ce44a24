"""Every function that has a test record, as an ONNX file: compared in onnxruntime and read back."""

from __future__ import annotations

import fnmatch
import warnings
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import megengine.onnx
from megengine.jit.recording import tensors_in
from megengine.onnx.exporter.check import difference
from tests.ops.compare import tensor_inputs
from tests.ops.record import Record, all_records

RECORDS = {record.name: record for record in all_records()}
# What ONNX cannot express, by the names of records, and what the error says.
REFUSED = {
    "complex-*": "no complex numbers",
    "polar": "no complex numbers",
    "conv2d-int": "convolutions of floats",
    "conv2d-backward-filter": "gradients are not exported",
    "sliding_window_transpose-int": "floats",
    "deformable_conv2d-*": "export with that",
    "roi_align-average-many-channels": "one number of points",
    "roi_align-average-unaligned": "one number of points",
    "roi_align-max*": "use 'average'",
    "roi_pooling-average*": "use 'max'",
    "deformable_psroi_pooling-*": "ONNX has no operator",
    "Elemwise-*_GRAD": "gradients are not exported",
    "matinv*": "no linear solver",
    "svd*": "no linear solver",
    "batch_norm-training*": "call eval()",
    "batch_norm-statistics": "call eval()",
    "lamb_update*": "steps of optimizers",
    "optimizer_step*": "steps of optimizers",
    "remap-reflect-linear": "borders",
    "remap-wrap-linear": "borders",
    "remap-constant-lanczos4": "ONNX samples images",
    "remap-replicate-lanczos4": "ONNX samples images",
    "sample-numbered": "borders",
    "warp_perspective-reflect": "borders",
    "items-*": "pass numbers, not Tensors",
    "MeshIndexing-slice": "pass numbers, not Tensors",
    "Resize*": "pass numbers, not Tensors",
    "WarpPerspective": "pass numbers, not Tensors",
}
# Random inputs are no valid ones for these: their labels belong to lengths.
UNCHECKED = {"ctc_loss-joined"}


def refusal(name: str) -> str | None:
    """What the error must say for a record; None for one that is exported."""
    for pattern, text in REFUSED.items():
        if fnmatch.fnmatch(name, pattern):
            return text
    return None


def inputs_of(record: Record) -> tuple[megengine.Tensor, ...]:
    """In float32, unless the record has no such inputs."""
    dtype = "float32" if "float32" in record.dtypes else record.dtypes[0]
    return tuple(tensor_inputs(record, record.arrays(), dtype))


@pytest.mark.parametrize("name", [name for name in RECORDS if refusal(name) is None])
def test_as_in_onnxruntime_and_read_back(name: str, tmp_path: Path) -> None:
    record, path = RECORDS[name], tmp_path / "function.onnx"
    inputs = inputs_of(record)
    with warnings.catch_warnings():
        if name in UNCHECKED:
            warnings.simplefilter("ignore")
        megengine.onnx.export(record.fn, inputs, path)  # compares
    try:
        module = megengine.onnx.load(path)
    except NotImplementedError:
        return  # load() has operators of its own that it lacks, and tests of them
    found, wanted = list(tensors_in(module(*inputs))), list(tensors_in(record.fn(*inputs)))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert difference(a.numpy(), b.numpy(), 1e-4) == ""


@pytest.mark.filterwarnings("ignore:export. during the call")  # one reads what it has updated
@pytest.mark.parametrize("name", [name for name in RECORDS if refusal(name) is not None])
def test_refused(name: str, tmp_path: Path) -> None:
    record, path = RECORDS[name], tmp_path / "function.onnx"
    with pytest.raises(NotImplementedError, match=refusal(name)):
        megengine.onnx.export(record.fn, inputs_of(record), path)
    assert not list(tmp_path.iterdir())


def test_most_functions_are_exported() -> None:
    refused = {name: refusal(name) for name in RECORDS if refusal(name) is not None}
    for pattern in REFUSED:
        assert any(fnmatch.fnmatch(name, pattern) for name in refused), pattern
    assert len(refused) < 0.2 * len(RECORDS)


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize(
    "name",
    [n for n in RECORDS if n.startswith(("gelu", "sum", "split", "layer_norm", "topk", "Elemwise-"))
     and refusal(n) is None],
)  # fmt: skip
def test_opsets(name: str, opset: int, tmp_path: Path) -> None:
    record = RECORDS[name]
    megengine.onnx.export(record.fn, inputs_of(record), tmp_path / "function.onnx", opset=opset)


@pytest.mark.parametrize("name", [n for n in RECORDS if n.startswith("deformable_conv2d")])
def test_deformable_convolutions_of_a_newer_opset(name: str, tmp_path: Path) -> None:
    record = RECORDS[name]
    megengine.onnx.export(record.fn, inputs_of(record), tmp_path / "function.onnx", opset=20)
