"""Known networks as ONNX files, for all who run such files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import numpy as np

import megengine as mge
import megengine.module as M
import megengine.onnx
from benchmarks.workloads.networks_openmge import resnet, vit
from examples.models.mobilenet_v2 import STAGES, MobileNetV2

NETWORKS: dict[str, Callable[[], M.Module]] = {
    "resnet50": lambda: resnet(50),
    "mobilenet_v2": lambda: MobileNetV2(1000, 1.0, STAGES, 1280),
    "vit": vit,
}


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 224, 224)).astype("float32")


def exported(name: str) -> bytes:
    """The file of a network, exported from a new one."""
    net = NETWORKS[name]()
    net.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{name}.onnx")
        megengine.onnx.export(net, mge.tensor(image()), path, verify=False)
        with open(path, "rb") as f:
            return f.read()
