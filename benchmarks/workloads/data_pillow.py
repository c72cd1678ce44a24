"""The same through PyTorch's loader, with pillow and torchvision for the images."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image
from torchvision import transforms as T

from benchmarks.workloads import Work, data_torch, photos, transforms_pillow, workload


class Photos(data_torch.Dataset):
    """JPEG files in memory, opened and prepared as in torchvision's training programs."""

    def __init__(self) -> None:
        self.file = photos.jpeg().tobytes()
        self.transform = T.Compose(
            [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *transforms_pillow.to_network()]
        )

    def __getitem__(self, index: int) -> Any:
        image = Image.open(io.BytesIO(self.file)).convert("RGB")
        return self.transform(image), index % 1000

    def __len__(self) -> int:
        return 10000


@workload
def load_images_0_workers() -> Work:
    return data_torch.images(Photos(), 0)


@workload
def load_images_1_worker() -> Work:
    return data_torch.images(Photos(), 1)


@workload
def load_images_2_workers() -> Work:
    return data_torch.images(Photos(), 2)
