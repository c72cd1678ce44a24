"""Pascal VOC: photographs with boxes around things of 20 classes, or the class of each pixel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from .meta_vision import VisionDataset
from .utils import read_image

__all__ = ["PascalVOC"]


class PascalVOC(VisionDataset):
    """`Pascal VOC <http://host.robots.ox.ac.uk/pascal/VOC/>`_, for detection or for segmentation.

    The files are ``root/ImageSets/Main/train.txt`` (with "mask" in ``order``:
    ``root/ImageSets/Segmentation/train.txt``), ``root/JPEGImages/NAME.jpg``,
    ``root/Annotations/NAME.xml`` and ``root/SegmentationClass/NAME.png``.

    An item has what ``order`` names, in its order:

    - ``"image"``: uint8 (height, width, 3) in the order blue, green, red;
    - ``"boxes"``: float32 (n, 4), left, top, right and bottom;
    - ``"boxes_category"``: int32 (n,), the position of the class in ``class_names``, from 1 on;
    - ``"mask"``: uint8 (height, width, 1), likewise, with 0 for what is none of them and 255 for
      the edges, which do not count;
    - ``"info"``: a list of height, width and name.

    Args:
        root: the folder that holds ``JPEGImages``.
        image_set: the name of the list of images: "train", "val", "trainval", ...
        order: what an item is made of; ``("image",)`` without. Boxes and masks exclude each other.

    Attributes:
        file_names: the names of the images.
        images: their paths.

    Raises:
        RuntimeError: there is no such folder.
        FileNotFoundError: the list, an image or its annotations are missing.
        ValueError: ``order`` has both boxes and masks; a file is damaged, declares entities or a
            document type, or names an unknown class.
        ImportError: OpenCV is not installed (when an image is read).

    >>> photos = PascalVOC("/data/VOC2012", "val", order=("image", "boxes"))  # doctest: +SKIP
    >>> image, boxes = photos[0]  # doctest: +SKIP
    """

    supported_order = ("image", "boxes", "boxes_category", "mask", "info")

    class_names = (
        "aeroplane",
        "bicycle",
        "bird",
        "boat",
        "bottle",
        "bus",
        "car",
        "cat",
        "chair",
        "cow",
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    )

    # Of the background and the classes in the files of masks: blue, green, red.
    class_colors = (
        [0, 0, 0],
        [0, 0, 128],
        [0, 128, 0],
        [0, 128, 128],
        [128, 0, 0],
        [128, 0, 128],
        [128, 128, 0],
        [128, 128, 128],
        [0, 0, 64],
        [0, 0, 192],
        [0, 128, 64],
        [0, 128, 192],
        [128, 0, 64],
        [128, 0, 192],
        [128, 128, 64],
        [128, 128, 192],
        [0, 64, 0],
        [0, 64, 128],
        [0, 192, 0],
        [0, 192, 128],
        [128, 64, 0],
    )

    def __init__(self, root: str, image_set: str, *, order: Sequence[str] | None = None) -> None:
        super().__init__(root, order=order, supported_order=self.supported_order)
        if not os.path.isdir(self.root):
            raise RuntimeError(f"Dataset not found or corrupted. There is no folder {self.root}")
        if "mask" in self.order and ("boxes" in self.order or "boxes_category" in self.order):
            raise ValueError("PascalVOC only supports boxes & boxes_category or mask, not both.")
        self.image_set = image_set
        kind = "Segmentation" if "mask" in self.order else "Main"
        with open(os.path.join(self.root, "ImageSets", kind, f"{image_set}.txt")) as file:
            self.file_names = [line.strip() for line in file if line.strip()]
        self.images = self._paths("JPEGImages", ".jpg")
        self.annotations = self._paths("Annotations", ".xml")
        self.masks = self._paths("SegmentationClass", ".png")
        self.img_infos: dict[int, dict[str, Any]] = {}

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        image = read_image(self.images[index]) if "image" in self.order else None
        parts: dict[str, Any] = {"image": image}
        if "boxes" in self.order or "boxes_category" in self.order:
            parts["boxes"], parts["boxes_category"] = self._boxes(index)
        if "mask" in self.order:
            mask = read_image(self.masks[index])
            parts["mask"] = self._trans_mask(mask)[:, :, np.newaxis]
        if "info" in self.order:
            info = self.get_img_info(index, image)
            parts["info"] = [info["height"], info["width"], info["file_name"]]
        return tuple(parts[name] for name in self.order)

    def __len__(self) -> int:
        return len(self.images)

    def get_img_info(self, index: int, image: np.ndarray | None = None) -> dict[str, Any]:
        """The height, width and name of an image.

        Args:
            index: which image.
            image: the image, if it has been read.
        """
        if index not in self.img_infos:
            height, width = (read_image(self.images[index]) if image is None else image).shape[:2]
            name = self.file_names[index]
            self.img_infos[index] = {"height": height, "width": width, "file_name": name}
        return self.img_infos[index]

    def parse_voc_xml(self, node: Element) -> dict[str, Any]:
        """Makes dicts of an element: its text, or what is in it; lists of what is there repeatedly.

        The objects of an annotation are a list in any case.
        """
        if len(node) == 0 and node.tag != "annotation":
            return {node.tag: node.text.strip()} if node.text and node.text.strip() else {}
        parts: dict[str, list[Any]] = {"object": []} if node.tag == "annotation" else {}
        for child in node:
            for tag, value in self.parse_voc_xml(child).items():
                parts.setdefault(tag, []).append(value)
        return {
            node.tag: {
                tag: values[0]
                if len(values) == 1 and (node.tag, tag) != ("annotation", "object")
                else values
                for tag, values in parts.items()
            }
        }

    def _paths(self, folder: str, ending: str) -> list[str]:
        return [os.path.join(self.root, folder, name + ending) for name in self.file_names]

    def _boxes(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        path = self.annotations[index]
        boxes: list[list[float]] = []
        categories: list[int] = []
        root = _parse_xml(path)
        try:
            things = self.parse_voc_xml(root)["annotation"]["object"]
            for thing in things:
                box = [float(thing["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")]
                boxes.append(box)
                categories.append(self.class_names.index(thing["name"]) + 1)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged, or names an unknown class: {error!r}") from error
        return np.array(boxes, np.float32).reshape(-1, 4), np.array(categories, np.int32)

    def _trans_mask(self, mask: np.ndarray) -> np.ndarray:
        label = np.full(mask.shape[:2], 255, np.uint8)
        for number, color in enumerate(self.class_colors):
            label[(mask == np.array(color, np.uint8)).all(axis=2)] = number
        return label


def _parse_xml(path: str) -> Element:
    """Reads a file of XML that declares no document type: so no entities, and no other files."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()

    def refuse(*args: object) -> None:
        raise ValueError(f"{path}: a document type is declared, which annotations do not need")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    with open(path, "rb") as file:
        try:
            parser.ParseFile(file)
        except expat.ExpatError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
    return builder.close()
