"""Layers of many kinds, trained by each optimizer, against the reference: eight losses each."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import optimizer as optim
from megengine.autodiff import GradManager


class Net(M.Module):
    """Convolutions, pooling and norms of all kinds, an embedding, and a list held twice."""

    def __init__(self):
        super().__init__()
        self.images = M.Sequential(
            M.Conv2d(3, 8, 3, padding=1),
            M.BatchNorm2d(8),
            M.ReLU(),
            M.MaxPool2d(2),
            M.Conv2d(8, 16, 3, padding=1, groups=4),
            M.GroupNorm(4, 16),
            M.LeakyReLU(0.1),
            M.AvgPool2d(2),
            M.ConvTranspose2d(16, 8, 2, 2),
            M.InstanceNorm(8),
            M.PReLU(8),
            M.AdaptiveAvgPool2d(2),
        )
        self.layers = [M.Linear(32, 16), M.LayerNorm(16), M.GELU(), M.BatchNorm1d(16), M.SiLU()]
        self.words = M.Embedding(7, 32)
        self.head = M.Sequential(*self.layers, M.Linear(16, 5))

    def forward(self, images, words):
        return self.head(F.flatten(self.images(images), 1) + self.words(words))


def train(make_optimizer) -> list[float]:
    """Losses of eight batches, the last norm of gradients, and a sum of outputs in evaluation."""
    net, generator = Net(), np.random.RandomState(0)
    state = net.state_dict()
    for name, value in state.items():
        scale = 0.1 if name.endswith("bias") else 0.3
        state[name] = (generator.randn(*value.shape) * scale).astype("float32")
        if name.endswith(("running_var", "1.weight", "5.weight", "9.weight", "3.weight")):
            state[name] = np.abs(state[name]) + np.float32(0.5)
    for name in state:  # what the network shares must agree
        if name.startswith("head.") and name.replace("head", "layers") in state:
            state[name] = state[name.replace("head", "layers")]
    net.load_state_dict(state)
    optimizer = make_optimizer(net.parameters())
    gm = GradManager().attach(net.parameters())
    seen = []
    for _ in range(8):
        images = mge.tensor(generator.randn(8, 3, 16, 16).astype("float32"))
        words = mge.tensor(generator.randint(0, 7, 8).astype("int32"))
        labels = mge.tensor(generator.randint(0, 5, 8).astype("int32"))
        with gm:
            loss = F.nn.cross_entropy(net(images, words), labels)
            gm.backward(loss)
        norm = optim.clip_grad_norm(net.parameters(), 1.0)
        optimizer.step().clear_grad()
        seen.append(float(loss.numpy()))
    net.eval()
    outputs = net(images, words).numpy()
    return [*seen, float(norm.numpy()), float(np.abs(outputs).sum())]


OPTIMIZERS = {
    "adam": lambda p: optim.Adam(p, lr=1e-3),
    "adamw": lambda p: optim.AdamW(p, lr=1e-3),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "sgd": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True),
}

# train() of each, run on MegEngine 1.13.
RECORDED: dict[str, list[float]] = {
    "adam": [
        1.702457,
        1.774675,
        1.466438,
        1.70579,
        1.759229,
        1.791899,
        1.448638,
        1.689385,
        1.093523,
        70.12239,
    ],
    "adamw": [
        1.702457,
        1.77467,
        1.466442,
        1.705781,
        1.759207,
        1.791874,
        1.448645,
        1.689359,
        1.093432,
        70.10201,
    ],
    "adagrad": [
        1.702457,
        1.816762,
        1.440537,
        1.760649,
        1.705205,
        1.77361,
        1.447794,
        1.63326,
        0.9855865,
        66.92776,
    ],
    "sgd": [
        1.702457,
        1.792632,
        1.453665,
        1.733721,
        1.696128,
        1.803043,
        1.479513,
        1.601453,
        0.9561741,
        65.50894,
    ],
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name: str) -> None:
    np.testing.assert_allclose(train(OPTIMIZERS[name]), RECORDED[name], rtol=1e-4)
