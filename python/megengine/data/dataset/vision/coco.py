"""COCO: photographs with boxes around things and the joints of people; and its file's format."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .meta_vision import VisionDataset
from .utils import read_image

__all__ = ["COCO", "CocoFormat", "has_valid_annotation"]

Annotation = dict[str, Any]

min_keypoints_per_image = 10


def _count_visible_keypoints(anno: Sequence[Annotation]) -> int:
    return sum(1 for ann in anno for visible in ann["keypoints"][2::3] if visible > 0)


def has_valid_annotation(anno: Sequence[Annotation], order: Sequence[str]) -> bool:
    """Whether an image with these annotations is worth training on.

    Args:
        anno: the annotations.
        order: what is wanted of them: with "keypoints", at least ten must be visible.

    >>> has_valid_annotation([], ["boxes"])
    False
    >>> has_valid_annotation([{"bbox": [0, 0, 2, 2]}], ["boxes"])
    True
    """
    if "keypoints" not in order:
        return bool(anno)
    if not all("keypoints" in ann for ann in anno):
        return False
    return _count_visible_keypoints(anno) >= min_keypoints_per_image


class CocoFormat(VisionDataset):
    """A dataset whose annotations are one file in the format of COCO.

    Args:
        root: the folder of the images.
        ann_file: the file of annotations (JSON).
        remove_images_without_annotations: leaves out annotations of crowds and with empty boxes,
            then images that have none left, and with "keypoints" in ``order`` those with fewer than
            ten visible ones.
        order: what an item is made of.

    Attributes:
        ids: the numbers that images have in the file, sorted; item i is of image ``ids[i]``.
        imgs: what the file says of each image, by its number.
        img_to_anns: the annotations of each image, by its number.
        cats: what the file says of each category, by its number.
        json_category_id_to_contiguous_id: from the categories' numbers in the file to 1, 2, 3, ...
        contiguous_category_id_to_json_id: the way back.
    """

    supported_order: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    keypoint_names: tuple[str, ...] = ()

    def __init__(
        self,
        root: str,
        ann_file: str,
        remove_images_without_annotations: bool = False,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(root, order=order, supported_order=self.supported_order)
        self._ann_file = ann_file
        content = self._read()
        self.imgs: dict[Any, dict[str, Any]] = {
            self._id(image, "id"): image for image in content["images"]
        }
        self.cats: dict[Any, dict[str, Any]] = {
            self._id(category, "id"): category for category in content["categories"]
        }
        self.img_to_anns: defaultdict[Any, list[Annotation]] = defaultdict(list)
        for ann in content["annotations"]:
            self.img_to_anns[self._id(ann, "image_id")].append(ann)
        self.ids = sorted(self.imgs)
        if remove_images_without_annotations:
            for i in self.ids:
                self.img_to_anns[i] = [ann for ann in self.img_to_anns[i] if self._is_thing(ann)]
            valid = {i for i in self.ids if has_valid_annotation(self.img_to_anns[i], self.order)}
            self.ids = sorted(valid)
            self.imgs = {i: self.imgs[i] for i in self.ids}
        self.json_category_id_to_contiguous_id = {c: i for i, c in enumerate(sorted(self.cats), 1)}
        self.contiguous_category_id_to_json_id = dict(enumerate(sorted(self.cats), 1))

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        info = self.get_img_info(index)
        annotations = self.img_to_anns.get(self.ids[index], [])
        return tuple(self._part(name, info, annotations) for name in self.order)

    def __len__(self) -> int:
        return len(self.ids)

    def get_img_info(self, index: int) -> dict[str, Any]:
        """What the file says of an image: "height", "width", "file_name", ..."""
        return self.imgs[self.ids[index]]

    def _part(self, name: str, info: dict[str, Any], annotations: list[Annotation]) -> Any:
        if name == "image":
            return read_image(os.path.join(self.root, self._get(info, "file_name")))
        if name == "info":
            return [self._get(info, key) for key in ("height", "width", "file_name")]
        if name == "boxes_category":
            return np.array([self._category(ann) for ann in annotations], np.int32)
        if name == "keypoints":
            return self._numbers(annotations, "keypoints", (len(self.keypoint_names), 3))
        boxes = self._numbers(annotations, "bbox", (4,))
        boxes[:, 2:] += boxes[:, :2]  # from width and height to the other corner
        return boxes

    def _read(self) -> dict[str, list[Any]]:
        with open(self._ann_file, encoding="utf-8") as file:
            try:
                content = json.load(file)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{self._ann_file} is damaged: {error}") from error
        for part in ("images", "annotations", "categories"):
            if not isinstance(content, dict) or not isinstance(content.get(part), list):
                raise ValueError(f"{self._ann_file}: expected a list of {part}, as in COCO's files")
        return content

    def _get(self, record: Any, key: str) -> Any:
        if not isinstance(record, dict) or key not in record:
            raise ValueError(f"{self._ann_file}: expected {key!r} in {str(record)[:200]}")
        return record[key]

    def _id(self, record: Any, key: str) -> int | str:
        value = self._get(record, key)
        if not isinstance(value, (int, str)):
            raise ValueError(f"{self._ann_file}: expected a number as {key!r}, got {value!r}")
        return value

    def _is_thing(self, ann: Annotation) -> bool:
        _, _, width, height = self._numbers([ann], "bbox", (4,))[0]
        return not self._get(ann, "iscrowd") and width > 0 and height > 0

    def _numbers(
        self, annotations: list[Annotation], key: str, shape: tuple[int, ...]
    ) -> np.ndarray:
        values = [self._get(ann, key) for ann in annotations]
        try:
            return np.array(values, np.float32).reshape(len(values), *shape)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self._ann_file}: expected numbers of shape {shape} as {key!r}: {error}"
            ) from error

    def _category(self, ann: Annotation) -> int:
        category = self._id(ann, "category_id")
        if category not in self.json_category_id_to_contiguous_id:
            raise ValueError(f"{self._ann_file}: there is no category {category!r}")
        return self.json_category_id_to_contiguous_id[category]


class COCO(CocoFormat):
    """`COCO <https://cocodataset.org>`_: photographs with boxes around things of 80 categories.

    An item has what ``order`` names, in its order:

    - ``"image"``: uint8 (height, width, 3) in the order blue, green, red;
    - ``"boxes"``: float32 (n, 4), left, top, right and bottom;
    - ``"boxes_category"``: int32 (n,), from 1 on;
    - ``"keypoints"``: float32 (n, 17, 3), x, y and 0 (none), 1 (hidden) or 2 (visible);
    - ``"info"``: a list of height, width and file name.

    The arguments and attributes are those of :class:`CocoFormat`.

    Raises:
        FileNotFoundError: the file of annotations, or an image, is missing.
        ValueError: the file of annotations, or an image, is damaged.
        ImportError: OpenCV is not installed (when an image is read).

    >>> photos = COCO("/data/val2017", "/data/instances_val2017.json",  # doctest: +SKIP
    ...               order=("image", "boxes", "boxes_category"))
    >>> image, boxes, categories = photos[0]  # doctest: +SKIP
    """

    supported_order = ("image", "boxes", "boxes_category", "keypoints", "info")

    class_names = tuple(
        """
        person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic
        light, fire hydrant, stop sign, parking meter, bench, bird, cat, dog, horse,
        sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, handbag, tie,
        suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball
        glove, skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, knife,
        spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza,
        donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop,
        mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator,
        book, clock, vase, scissors, teddy bear, hair drier, toothbrush
        """.strip()
        .replace("\n        ", " ")
        .split(", ")
    )

    # The numbers in the file go to 90; ten of them are not used.
    classes_originID: ClassVar[dict[str, int]] = dict(  # noqa: N815 - the reference's name
        zip(
            class_names,
            (i for i in range(1, 91) if i not in {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}),
            strict=True,
        )
    )

    keypoint_names = (
        "nose",
        "left_eye",
        "right_eye",
        "left_ear",
        "right_ear",
        "left_shoulder",
        "right_shoulder",
        "left_elbow",
        "right_elbow",
        "left_wrist",
        "right_wrist",
        "left_hip",
        "right_hip",
        "left_knee",
        "right_knee",
        "left_ankle",
        "right_ankle",
    )
