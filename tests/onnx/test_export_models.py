"""The example models as ONNX files, with dynamic axes; read back, they compute the same."""

from __future__ import annotations

import collections
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
from examples.models.faster_rcnn import FasterRCNN
from examples.models.lenet import LeNet
from examples.models.lstm import LanguageModel
from examples.models.mobilenet_v2 import MobileNetV2
from examples.models.resnet import ResNet
from examples.models.shufflenet_v2 import ShuffleNetV2
from examples.models.swin import Swin
from examples.models.unet import UNet
from examples.models.vit import ViT
from megengine.jit.recording import tensors_in
from megengine.onnx.exporter.check import difference

BATCH = {0: "batch"}
IMAGES = {0: "batch", 2: "height", 3: "width"}


def image(*shape: int) -> mge.Tensor:
    return mge.tensor(np.random.default_rng(3).standard_normal(shape).astype("float32"))


def words(*shape: int) -> mge.Tensor:
    return mge.tensor(np.random.default_rng(3).integers(0, 50, shape).astype("int32"))


BOXES = [[0, 3, 5, 40, 31], [1, 0, 0, 79, 63], [0, 50, 20, 61, 44], [1, 10, 12, 90, 30]]


class Heads(M.Module):
    """Features, scores of anchors, and the heads of boxes that are given."""

    def __init__(self) -> None:
        super().__init__()
        self.net = FasterRCNN()

    def forward(self, image: mge.Tensor, rois: mge.Tensor) -> dict[str, Any]:
        features = self.net.backbone(image)
        logits, deltas, anchors = self.net.rpn(features)
        boxes = self.net.head(features, rois)
        return {"logits": logits, "deltas": deltas, "anchors": anchors, "boxes": boxes}


class Proposals(Heads):
    """The boxes that the first stage proposes, after suppression, and their heads."""

    def forward(self, image: mge.Tensor) -> Any:  # type: ignore[override]
        features = self.net.backbone(image)
        rois = self.net.rpn.propose(*self.net.rpn(features), *image.shape[2:])
        return rois, self.net.head(features, rois)


MODELS: dict[str, tuple[M.Module, tuple[mge.Tensor, ...], dict[int, str] | None]] = {
    "lenet": (LeNet(), (image(2, 1, 32, 32),), BATCH),
    "resnet18": (ResNet(18, width=8), (image(2, 3, 32, 32),), BATCH),
    "resnet50": (ResNet(50, width=8, small_images=False), (image(2, 3, 64, 64),), IMAGES),
    "mobilenet_v2": (MobileNetV2(), (image(2, 3, 64, 64),), IMAGES),
    "shufflenet_v2": (ShuffleNetV2(), (image(2, 3, 64, 64),), IMAGES),
    "vit": (ViT(), (image(2, 3, 32, 32),), BATCH),
    "swin": (Swin(), (image(2, 3, 32, 32),), BATCH),
    "lstm": (LanguageModel(), (words(9, 2),), {0: "steps", 1: "batch"}),
    "unet": (UNet(), (image(1, 1, 48, 52),), BATCH),
    "unet-bilinear": (
        UNet(in_channels=3, num_classes=4, depth=3, padding=1, bilinear=True),
        (image(2, 3, 32, 40),),
        IMAGES,
    ),
    "faster_rcnn-heads": (Heads(), (image(2, 3, 64, 80), mge.tensor(BOXES, "float32")), None),
    "faster_rcnn-proposals": (Proposals(), (image(2, 3, 64, 80),), None),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    model, inputs, axes = MODELS[name]
    model.eval()
    path = tmp_path / "model.onnx"
    names = ["input"] if len(inputs) == 1 else ["image", "rois"]
    dynamic = {"input": axes} if axes else {}
    # Of images whose sides are no multiples of 8, this one crops more the coarser they are.
    sizes = {"height": (32, 64, 48), "width": (40, 80, 24)} if name == "unet-bilinear" else None
    megengine.onnx.export(
        model, inputs, path, input_names=names, dynamic_axes=dynamic, sample_sizes=sizes
    )
    written = onnx.load(path).graph
    tensors = dict(model.named_tensors())
    for tensor in written.initializer:  # what has a parameter's name is the whole of it
        if tensor.name in tensors:
            assert np.prod(tensor.dims) == tensors[tensor.name].size
    large = [t.raw_data for t in written.initializer if len(t.raw_data) > 4096]
    assert len(large) == len(set(large))
    try:
        loaded = megengine.onnx.load(path)
    except NotImplementedError:
        return  # load() has operators of its own that it lacks, and tests of them
    for a, b in zip(tensors_in(loaded(*inputs)), tensors_in(model(*inputs)), strict=True):
        assert difference(a.numpy(), b.numpy(), 1e-4) == ""


def test_a_resnet_is_written_in_the_plainest_ops(tmp_path: Path) -> None:
    model, inputs, _ = MODELS["resnet18"]
    model.eval()
    megengine.onnx.export(model, inputs, tmp_path / "model.onnx")
    ops = collections.Counter(n.op_type for n in onnx.load(tmp_path / "model.onnx").graph.node)
    assert ops == {
        "Conv": 20,
        "BatchNormalization": 20,
        "Relu": 17,
        "Add": 8,
        "GlobalAveragePool": 1,
        "Reshape": 1,
        "Gemm": 1,
    }


@pytest.mark.parametrize("name", ["lenet", "resnet18", "vit"])
def test_what_was_loaded_is_exported_again(name: str, tmp_path: Path) -> None:
    """So that a model that was fine-tuned goes back: its parameters keep their names."""
    model, inputs, _ = MODELS[name]
    model.eval()
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    axes = {"input": BATCH}
    megengine.onnx.export(model, inputs, first, input_names=["input"], dynamic_axes=axes)
    loaded = megengine.onnx.load(first)
    loaded.eval()
    megengine.onnx.export(loaded, inputs, second, input_names=["input"], dynamic_axes=axes)
    parameters = {n for n, _ in model.named_parameters()}
    names = [{i.name for i in onnx.load(p).graph.initializer} & parameters for p in (first, second)]
    assert names[0]
    assert names[0] == names[1]


def test_boxes_of_any_number(tmp_path: Path) -> None:
    net, inputs, _ = MODELS["faster_rcnn-heads"]
    net.eval()
    megengine.onnx.export(net, inputs, tmp_path / "m.onnx", dynamic_axes={"rois": {0: "boxes"}})


def test_a_detector_that_reads_its_proposals(tmp_path: Path) -> None:
    """Which proposals are of which image is decided in NumPy, and so fixed: the export says so."""
    net = FasterRCNN()
    net.eval()
    with pytest.warns(UserWarning, match="Python reads numbers that depend on the inputs"):
        megengine.onnx.export(net, image(2, 3, 64, 80), tmp_path / "m.onnx")
    names = [o.name for o in onnx.load(tmp_path / "m.onnx").graph.output]
    assert names == [f"output.{i}.{part}" for i in range(2) for part in range(3)]


def test_a_loop_over_the_batch_is_refused_for_a_dynamic_batch(tmp_path: Path) -> None:
    net, inputs, _ = MODELS["faster_rcnn-proposals"]
    net.eval()
    with pytest.raises(NotImplementedError, match="a loop has another length"):
        megengine.onnx.export(
            net, inputs, tmp_path / "m.onnx", dynamic_axes={"image": {0: "batch"}}
        )
    assert not list(tmp_path.iterdir())
