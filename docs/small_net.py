"""Draws the pictures of docs/api/graphs.md: python docs/small_net.py docs/api."""

import sys
from pathlib import Path

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.tools.graph import draw


class SmallNet(M.Module):
    """A residual block between two convolutions, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = M.Conv2d(3, 16, 3, stride=2, padding=1)
        self.first = M.Conv2d(16, 16, 3, padding=1)
        self.second = M.Conv2d(16, 16, 3, padding=1)
        self.classify = M.Linear(16, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """Images (N, 3, H, W) to probabilities (N, 10)."""
        x = F.relu(self.stem(x))
        x = F.relu(x + self.second(F.relu(self.first(x))))
        return F.softmax(self.classify(F.mean(x, axis=(2, 3))), axis=1)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    net, image = SmallNet(), mge.tensor(np.zeros((1, 3, 32, 32), "float32"))
    draw(net, image).save(folder / "small_net.svg")
    draw(net, image, optimized=True, title="What runs").save(folder / "small_net_runs.svg")
