"""Known networks as ONNX files, for all who run such files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.onnx
from benchmarks.workloads.networks_openmge import resnet, vit
from examples.models.mobilenet_v2 import STAGES, MobileNetV2


class SentenceEncoder(M.Module):
    """A BERT of the sizes of all-MiniLM-L6-v2: the mean over the tokens of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        width = 384
        self.words = M.Embedding(30522, width)
        self.places = M.Embedding(512, width)
        self.norms = [M.LayerNorm(width) for _ in range(13)]
        self.attentions = [M.MultiHeadAttention(width, 12) for _ in range(6)]
        self.expand = [M.Linear(width, 4 * width) for _ in range(6)]
        self.project = [M.Linear(4 * width, width) for _ in range(6)]

    def forward(self, tokens: mge.Tensor) -> mge.Tensor:
        """Tokens (N, L) to (N, 384)."""
        places = F.arange(tokens.shape[1], dtype="int32")
        x = self.norms[0](self.words(tokens) + self.places(places))
        for i, attention in enumerate(self.attentions):
            x = self.norms[2 * i + 1](x + attention(x, x, x)[0])
            x = self.norms[2 * i + 2](x + self.project[i](F.gelu(self.expand[i](x))))
        return F.normalize(F.mean(x, axis=1), axis=1)


NETWORKS: dict[str, Callable[[], M.Module]] = {
    "resnet50": lambda: resnet(50),
    "mobilenet_v2": lambda: MobileNetV2(1000, 1.0, STAGES, 1280),
    "vit": vit,
    "minilm": SentenceEncoder,
}


def inputs(name: str) -> np.ndarray:
    """An image, or 128 tokens."""
    rng = np.random.default_rng(0)
    if name == "minilm":
        return rng.integers(0, 30522, (1, 128)).astype("int32")
    return rng.standard_normal((1, 3, 224, 224)).astype("float32")


def exported(name: str) -> bytes:
    """The file of a network, exported from a new one."""
    net = NETWORKS[name]()
    net.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{name}.onnx")
        megengine.onnx.export(net, mge.tensor(inputs(name)), path, verify=False)
        with open(path, "rb") as f:
            return f.read()
