"""Cityscapes: streets with the class of each pixel."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .meta_vision import VisionDataset
from .utils import is_img, read_image

__all__ = ["Cityscapes"]


class Cityscapes(VisionDataset):
    """`Cityscapes <https://www.cityscapes-dataset.com>`_: streets, with the class of each pixel.

    The files are ``root/leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit.png`` and
    ``root/gtFine/train/aachen/aachen_000000_000019_gtFine_labelIds.png``, and so on.

    An item has what ``order`` names, in its order:

    - ``"image"``: uint8 (height, width, 3) in the order blue, green, red;
    - ``"mask"``: uint8 (height, width, 1), the position of the class in ``class_names``, 255 for
      pixels that do not count;
    - ``"info"``: a list of height, width and path.

    Args:
        root: the folder that holds ``leftImg8bit``.
        image_set: "train", "val", "test" or "train_extra".
        mode: "gtFine" or "gtCoarse".
        order: what an item is made of; ``("image",)`` without.

    Attributes:
        images: the paths of the images, sorted.
        masks: the paths of the files of classes.

    Raises:
        RuntimeError: there is no such folder.
        FileNotFoundError: a file is missing (when it is read).
        ValueError: a file is damaged (when it is read), or ``mode`` is unknown.
        ImportError: OpenCV is not installed (when an image is read).

    >>> streets = Cityscapes("/data/cityscapes", "val", "gtFine",  # doctest: +SKIP
    ...                      order=("image", "mask"))
    >>> image, mask = streets[0]  # doctest: +SKIP
    """

    supported_order = ("image", "mask", "info")

    class_names = (
        "road",
        "sidewalk",
        "building",
        "wall",
        "fence",
        "pole",
        "traffic light",
        "traffic sign",
        "vegetation",
        "terrain",
        "sky",
        "person",
        "rider",
        "car",
        "truck",
        "bus",
        "train",
        "motorcycle",
        "bicycle",
    )

    # The numbers of these classes in the files; all others do not count.
    label_ids = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)

    def __init__(
        self, root: str, image_set: str, mode: str, *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(root, order=order, supported_order=self.supported_order)
        if mode not in ("gtFine", "gtCoarse"):
            raise ValueError(f"Cityscapes: expected the mode 'gtFine' or 'gtCoarse', got {mode!r}")
        if not os.path.isdir(self.root):
            raise RuntimeError(f"Dataset not found or corrupted. There is no folder {self.root}")
        self.mode = mode
        self.images_dir = os.path.join(self.root, "leftImg8bit", image_set)
        self.masks_dir = os.path.join(self.root, mode, image_set)
        self.images: list[str] = []
        self.masks: list[str] = []
        for city in sorted(os.listdir(self.images_dir)):
            folder = os.path.join(self.images_dir, city)
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                if is_img(name):
                    start = name.split("_leftImg8bit")[0]
                    mask = f"{start}_{self._get_target_suffix(mode, 'semantic')}"
                    self.images.append(os.path.join(folder, name))
                    self.masks.append(os.path.join(self.masks_dir, city, mask))

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        parts: dict[str, Any] = {}
        if "image" in self.order or "info" in self.order:
            parts["image"] = read_image(self.images[index])
            parts["info"] = [*parts["image"].shape[:2], self.images[index]]
        if "mask" in self.order:
            mask = read_image(self.masks[index], color=False)
            parts["mask"] = self._trans_mask(mask)[:, :, np.newaxis]
        return tuple(parts[name] for name in self.order)

    def __len__(self) -> int:
        return len(self.images)

    def _trans_mask(self, mask: np.ndarray) -> np.ndarray:
        table = np.full(256, 255, np.uint8)
        table[list(self.label_ids)] = np.arange(len(self.label_ids))
        return table[mask]

    def _get_target_suffix(self, mode: str, target_type: str) -> str:
        endings = {
            "instance": "instanceIds.png",
            "semantic": "labelIds.png",
            "color": "color.png",
            "polygon": "polygons.json",
        }
        return f"{mode}_{endings[target_type]}"

    def _load_json(self, path: str) -> Any:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
