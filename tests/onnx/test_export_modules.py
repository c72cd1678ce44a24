"""Every Module class as an ONNX file, with a dynamic batch."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import megengine as mge
import megengine.module as M
import megengine.onnx
from megengine.jit.recording import tensors_in
from megengine.onnx.exporter.check import difference

RNG = np.random.default_rng(7)
BATCH = {0: "batch"}


def floats(*shape: int) -> mge.Tensor:
    return mge.tensor(RNG.standard_normal(shape).astype("float32"))


def integers(most: int, *shape: int) -> mge.Tensor:
    return mge.tensor(RNG.integers(0, most, shape).astype("int32"))


def settled(module: M.Module) -> M.Module:
    """The module with all its numbers drawn, running statistics too, so that none is 0 or 1."""
    for tensor in module.tensors():
        drawn = RNG.uniform(0.5, 1.5, tensor.shape) * RNG.choice([-1, 1], tensor.shape)
        if tensor.ndim and np.all(tensor.numpy() == 1):  # variances and scales
            drawn = np.abs(drawn)
        tensor._reset(mge.tensor(drawn.astype(tensor.dtype) * 0.5))
    module.eval()
    return module


IMAGE, VOLUME, ROWS = (3, 4, 8, 8), (2, 4, 5, 6, 6), (3, 6)
# Class: how to make one, its inputs, and the axes that are dynamic where it is not axis 0 of all.
Case = tuple[Callable[[], M.Module], Callable[[], tuple[Any, ...]], dict[str, Any] | None]


def on(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(floats(*s) for s in shapes)


CASES: dict[str, Case] = {
    "AdaptiveAvgPool2d": (lambda: M.AdaptiveAvgPool2d(2), on(IMAGE), None),
    "AdaptiveMaxPool2d": (lambda: M.AdaptiveMaxPool2d((2, 4)), on(IMAGE), None),
    "AvgPool2d": (lambda: M.AvgPool2d(3, 2, 1), on(IMAGE), None),
    "AvgPool2d-average": (lambda: M.AvgPool2d(3, 2, 1, mode="average"), on(IMAGE), None),
    "BatchMatMulActivation": (
        lambda: M.BatchMatMulActivation(3, 6, 5, nonlinear_mode="relu"),
        on((3, 6, 4)),
        {},
    ),
    "BatchNorm1d": (lambda: M.BatchNorm1d(6), on(ROWS), None),
    "BatchNorm2d": (lambda: M.BatchNorm2d(4), on(IMAGE), None),
    "BatchNorm2d-plain": (lambda: M.BatchNorm2d(4, affine=False), on(IMAGE), None),
    "Concat": (lambda: M.Concat(), lambda: ([floats(3, 2), floats(3, 5)], 1), None),
    "Conv1d": (lambda: M.Conv1d(4, 6, 3, 2, 1), on((3, 4, 9)), None),
    "Conv2d": (lambda: M.Conv2d(4, 6, 3, 2, 1, 2), on(IMAGE), None),
    "Conv2d-groups": (lambda: M.Conv2d(4, 6, (3, 1), padding=(1, 0), groups=2), on(IMAGE), None),
    "Conv2d-flipped": (lambda: M.Conv2d(4, 6, 3, conv_mode="convolution"), on(IMAGE), None),
    "Conv2d-reflect": (
        lambda: M.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
        on(IMAGE),
        None,
    ),
    "Conv3d": (lambda: M.Conv3d(4, 6, 3, padding=1), on(VOLUME), None),
    "ConvBn2d": (lambda: M.ConvBn2d(4, 6, 3), on(IMAGE), None),
    "ConvBnRelu2d": (lambda: M.ConvBnRelu2d(4, 6, 3), on(IMAGE), None),
    "ConvRelu2d": (lambda: M.ConvRelu2d(4, 6, 3), on(IMAGE), None),
    "ConvTranspose2d": (
        lambda: M.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1),
        on(IMAGE),
        None,
    ),
    "ConvTranspose2d-groups": (lambda: M.ConvTranspose2d(4, 6, 3, 2, groups=2), on(IMAGE), None),
    "ConvTranspose3d": (lambda: M.ConvTranspose3d(4, 6, 3, 2), on(VOLUME), None),
    "ConvTransposeBn2d": (lambda: M.ConvTransposeBn2d(4, 6, 3), on(IMAGE), None),
    "ConvTransposeBnRelu2d": (lambda: M.ConvTransposeBnRelu2d(4, 6, 3), on(IMAGE), None),
    "ConvTransposeRelu2d": (lambda: M.ConvTransposeRelu2d(4, 6, 3), on(IMAGE), None),
    "DequantStub": (lambda: M.DequantStub(), on(ROWS), None),
    "Dropout": (lambda: M.Dropout(0.5), on(ROWS), None),
    "Elemwise": (lambda: M.Elemwise("fuse_add_relu"), on(ROWS, ROWS), None),
    "Embedding": (lambda: M.Embedding(9, 4), lambda: (integers(9, 3, 5),), None),
    "GELU": (lambda: M.GELU(), on(ROWS), None),
    "GeneralNorm": (lambda: M.GeneralNorm((4, 8), (1, 2)), on(IMAGE), None),
    "GeneralNorm-last": (lambda: M.GeneralNorm((8, 8), (2, 3)), on(IMAGE), None),
    "GroupNorm": (lambda: M.GroupNorm(2, 4), on(IMAGE), None),
    "Identity": (lambda: M.Identity(), on(ROWS), None),
    "InstanceNorm": (lambda: M.InstanceNorm(4), on(IMAGE), None),
    "LSTM": (
        lambda: M.LSTM(6, 5, num_layers=2, bidirectional=True),
        on((4, 3, 6)),
        {"input": {1: "batch", 0: "steps"}},
    ),
    "LSTM-batch-first": (
        lambda: M.LSTM(6, 5, bias=False, batch_first=True),
        on((3, 4, 6)),
        None,
    ),
    "LSTMCell": (lambda: M.LSTMCell(6, 5), on(ROWS), None),
    "LayerNorm": (lambda: M.LayerNorm((8, 8)), on(IMAGE), None),
    "LayerNorm-plain": (lambda: M.LayerNorm(8, affine=False), on(IMAGE), None),
    "LeakyReLU": (lambda: M.LeakyReLU(0.1), on(ROWS), None),
    "Linear": (lambda: M.Linear(6, 5), on(ROWS), None),
    "Linear-3d": (lambda: M.Linear(8, 5), on(IMAGE), None),
    "LinearBn1d": (lambda: M.LinearBn1d(6, 5), on(ROWS), None),
    "LinearBnRelu1d": (lambda: M.LinearBnRelu1d(6, 5), on(ROWS), None),
    "LinearRelu": (lambda: M.LinearRelu(6, 5), on(ROWS), None),
    "LocalConv2d": (lambda: M.LocalConv2d(4, 6, 8, 8, 3, 1, 1, groups=2), on(IMAGE), None),
    "LocalResponseNorm": (lambda: M.LocalResponseNorm(3, 1.0, 0.1), on(IMAGE), None),
    "MaxPool2d": (lambda: M.MaxPool2d(3, 2, 1), on(IMAGE), None),
    "MultiHeadAttention": (
        lambda: M.MultiHeadAttention(8, 2),
        on((3, 4, 8), (3, 5, 8), (3, 5, 8)),
        None,
    ),
    "PReLU": (lambda: M.PReLU(4), on(IMAGE), None),
    "Pad": (lambda: M.Pad(((0, 0), (0, 0), (1, 2), (3, 1)), "replicate"), on(IMAGE), None),
    "PixelShuffle": (lambda: M.PixelShuffle(2), on(IMAGE), None),
    "QuantStub": (lambda: M.QuantStub(), on(ROWS), None),
    "RNN": (
        lambda: M.RNN(6, 5, num_layers=2, nonlinearity="relu"),
        on((4, 3, 6)),
        {"input": {1: "batch"}},
    ),
    "RNN-identity": (
        lambda: M.RNN(6, 5, nonlinearity="identity", bidirectional=True),
        on((4, 3, 6)),
        {"input": {1: "batch"}},
    ),
    "RNNCell": (lambda: M.RNNCell(6, 5), on(ROWS), None),
    "ReLU": (lambda: M.ReLU(), on(ROWS), None),
    "RegionRestrictedConv": (
        lambda: M.RegionRestrictedConv(4, 4, 3, groups=4, padding=1),
        lambda: (floats(*IMAGE), integers(3, 3, 8, 8), integers(3, 3, 8, 8)),
        None,
    ),
    "Sequential": (lambda: M.Sequential(M.Linear(6, 4), M.ReLU()), on(ROWS), None),
    "SiLU": (lambda: M.SiLU(), on(ROWS), None),
    "Sigmoid": (lambda: M.Sigmoid(), on(ROWS), None),
    "SlidingWindow": (lambda: M.SlidingWindow(3, 1, 2, 1), on(IMAGE), None),
    "SlidingWindowTranspose": (
        lambda: M.SlidingWindowTranspose((8, 8), 3, 1, 2),
        on((3, 4, 4, 4, 3, 3)),
        None,
    ),
    "Softmax": (lambda: M.Softmax(1), on(ROWS), None),
    "SyncBatchNorm": (lambda: M.SyncBatchNorm(4), on(IMAGE), None),
}
# Class: how to make one, its inputs, and what the error must say.
REFUSED: dict[str, tuple[Callable[[], M.Module], Callable[[], tuple[Any, ...]], str]] = {
    "DeformableConv2d": (
        lambda: M.DeformableConv2d(4, 6, 3),
        on(IMAGE, (3, 18, 6, 6), (3, 9, 6, 6)),
        "opset 19",
    ),
    "DeformablePSROIPooling": (
        lambda: M.DeformablePSROIPooling(True, 2, 2, 2, 2, 1.0, 0.1),
        lambda: (floats(*IMAGE), mge.tensor([[0, 1, 1, 5, 5.0]]), floats(1, 2, 2, 2)),
        "ONNX has no operator",
    ),
}


def test_all_classes_are_here() -> None:
    classes = {
        name
        for name, value in vars(M).items()
        if inspect.isclass(value) and issubclass(value, M.Module) and value is not M.Module
    }
    assert classes == {name.partition("-")[0] for name in itertools.chain(CASES, REFUSED)}


@pytest.mark.parametrize("name", CASES)
def test_module(name: str, tmp_path: Path) -> None:
    make, inputs_of, axes = CASES[name]
    module, inputs, path = settled(make()), inputs_of(), tmp_path / "module.onnx"
    if axes is None:
        names = list(inspect.signature(module.forward).parameters)
        if name in ("Concat", "Elemwise"):
            names = ["inps.0", "inps.1"]
        axes = {n: BATCH for n, _ in zip(names, tensors_in(inputs), strict=False)}
    megengine.onnx.export(module, inputs, path, dynamic_axes=axes)  # compares at other sizes too
    # LSTM and RNN compute with other weights than those of their cells, attention with parts of one
    # parameter; LinearBn1d has a bias that it does not use.
    if not name.startswith(("LSTM", "RNN", "MultiHead")):
        parameters = {n for n, _ in module.named_tensors() if n != "bias" or "LinearBn" not in name}
        assert parameters <= {i.name for i in onnx.load(path).graph.initializer}
    loaded = megengine.onnx.load(path)
    flat = list(tensors_in(inputs))
    for a, b in zip(tensors_in(loaded(*flat)), tensors_in(module(*inputs)), strict=True):
        assert difference(a.numpy(), b.numpy(), 1e-4) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    make, inputs_of, message = REFUSED[name]
    with pytest.raises(NotImplementedError, match=message):
        megengine.onnx.export(settled(make()), inputs_of(), tmp_path / "module.onnx")


def test_deformable_convolutions_need_opset_19(tmp_path: Path) -> None:
    make, inputs_of, _ = REFUSED["DeformableConv2d"]
    megengine.onnx.export(settled(make()), inputs_of(), tmp_path / "module.onnx", opset=19)
