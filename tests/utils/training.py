"""A training run that is saved, stopped and resumed by other processes.

    python -m tests.utils.training DIRECTORY LAST_STEP TOTAL_STEPS WORKERS

It goes on from the newest checkpoint in the directory, and stops after LAST_STEP as if killed. At
TOTAL_STEPS it prints a checksum of all weights, of the optimizer's state and of the generators.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.data import DataLoader, RandomSampler
from megengine.data.dataset import ArrayDataset
from megengine.data.transform import Compose, RandomHorizontalFlip, ToMode
from megengine.data.transform.vision.transform import VisionTransform
from megengine.utils.checkpoint import Checkpointer


class Noise(VisionTransform):
    """Adds noise from NumPy's global generator to an image."""

    def _apply_image(self, image: Any) -> Any:
        return image + np.random.normal(0, 0.1, image.shape)


class Net(M.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = M.Conv2d(1, 6, 3)
        self.bn = M.BatchNorm2d(6)
        self.drop = M.Dropout(0.3)
        self.fc = M.Linear(6 * 9, 3)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.fc(self.drop(F.flatten(x, 1)))


def without_end(loader: DataLoader) -> Iterator[Any]:
    while True:
        yield from loader


def main(directory: str, last: int, total: int, workers: int) -> None:
    mge.random.seed(3)
    np.random.seed(3)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(70, 8, 8, 1)).astype("float32")
    labels = rng.integers(0, 3, 70).astype("int32")
    data = ArrayDataset(images, labels)
    transform = Compose(
        [RandomHorizontalFlip(0.5), Noise(), ToMode("CHW")], order=["image", "image_category"]
    )
    loader = DataLoader(
        data, RandomSampler(data, batch_size=8, seed=5), transform=transform, num_workers=workers
    )
    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    scheduler = optim.MultiStepLR(optimizer, [60, 120], gamma=0.5)
    manager = GradManager().attach(net.parameters())
    with Checkpointer(
        directory, keep=2, model=net, optimizer=optimizer, scheduler=scheduler, loader=loader
    ) as checkpointer:
        found = checkpointer.restore()
        step = found.step if found else 0
        for image, label in without_end(loader):
            with manager:
                loss = F.nn.cross_entropy(net(mge.Tensor(image)), mge.Tensor(label))
                manager.backward(loss)
            optimizer.step().clear_grad()
            scheduler.step()
            step += 1
            if step in (last, total) or step % 50 == 0:
                checkpointer.save(step, loss=loss.item())
            if step == last < total:
                checkpointer.wait()
                os._exit(7)  # as if killed
            if step == total:
                break
    digest = hashlib.sha256(
        np.random.rand(3).tobytes() + mge.random.uniform(size=(3,)).numpy().tobytes()
    )
    for tensor in [*net.tensors(), *(t for s in optimizer._state.values() for t in s.values())]:
        digest.update(tensor.numpy().tobytes())
    print(digest.hexdigest(), optimizer.param_groups[0]["lr"])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
