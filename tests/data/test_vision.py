"""The bases of transforms and datasets of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from megengine.data.dataset.vision.meta_vision import VisionDataset
from megengine.data.transform.vision.transform import Compose, VisionTransform


class Double(VisionTransform):
    def _apply_image(self, image: Any) -> Any:
        return image + 1

    def _apply_coords(self, coords: Any) -> Any:
        return coords * -2


class Append:
    """Appends a number to a list."""

    def __init__(self, number: int) -> None:
        self.number = number

    def apply(self, item: list[int]) -> list[int]:
        return [*item, self.number]

    def apply_batch(self, items: list[Any]) -> list[Any]:
        return [*items, "batch"]


def test_parts_of_an_item():
    image = np.zeros((2, 2, 3))
    assert Double().apply(image).sum() == 12
    changed, label = Double().apply((image, 5))
    assert (changed.sum(), label) == (12, 5)
    assert Double(order=["image", "image_category"]).apply((image,)).shape == (2, 2, 3)
    assert Double(order=["info"]).apply({"a": 1}) == {"a": 1}
    boxes = Double(order=["boxes"]).apply(np.arange(8).reshape(2, 4))
    assert boxes.tolist() == [[-4, -6, 0, -2], [-12, -14, -8, -10]]
    points = Double(order=["keypoints"]).apply(np.arange(12.0).reshape(2, 2, 3))
    assert points[0].tolist() == [[-0.0, -2.0, 2.0], [-6.0, -8.0, 5.0]]
    (polygon,) = Double(order=["polygons"]).apply([[np.array([[1.0, 2.0]])]])
    assert polygon[0].tolist() == [[-2.0, -4.0]]
    assert Double(order=["coords"]).apply(np.ones((1, 2))).tolist() == [[-2.0, -2.0]]
    assert Double(order=["info", "image"])._get_image((3, image)) is image
    assert [item[1] for item in Double().apply_batch([(image, 2), (image, 3)])] == [2, 3]


def test_what_is_not_defined_raises():
    for order in ("image", "coords", "boxes", "mask"):
        value = np.ones((1, 4)) if order == "boxes" else np.ones((1, 2))
        with pytest.raises(NotImplementedError, match="does not define"):
            VisionTransform(order=[order]).apply(value)
    with pytest.raises(NotImplementedError, match="foo is unsupported data type"):
        VisionTransform(order=["foo"])
    with pytest.raises(ValueError, match="order should be a sequence"):
        VisionTransform(order=3)


def test_compose():
    steps = [Append(n) for n in (1, 2, 3)]
    assert Compose(steps).apply([]) == [1, 2, 3]
    assert Compose(steps[:2]).apply_batch([[0], [5]]) == ([0, 1, 2], [5, 1, 2])
    assert Compose(steps[:2], batch_compose=True).apply_batch([[0]]) == [[0], "batch", "batch"]
    np.random.seed(0)
    shuffled = [tuple(Compose(steps, shuffle_indices=[(1, 3)]).apply([])) for _ in range(50)]
    assert set(shuffled) == {(1, 2, 3), (3, 2, 1)}
    for at in (0, 4):
        with pytest.raises(ValueError, match="positions from 1 to 3"):
            Compose(steps, shuffle_indices=[(1, at)])
    inner = Double()
    outer = Compose([Compose([inner])], order=["boxes"])
    assert list(inner.order) == ["boxes"]
    assert outer.apply(np.ones((1, 4))).tolist() == [[-2.0] * 4]


def test_dataset():
    class Numbers(VisionDataset):
        def __getitem__(self, index: int) -> int:
            return index

        def __len__(self) -> int:
            return 3

    assert Numbers("/data").order == ("image",)
    assert not Numbers("~/data").root.startswith("~")
    assert Numbers(None, supported_order=("image",)).root is None
    with pytest.raises(NotImplementedError, match="boxes is unsupported data type"):
        Numbers("/data", order=("image", "boxes"), supported_order=("image",))
    with pytest.raises(ValueError, match="order should be a sequence"):
        Numbers("/data", order=3)
    for call in (len, lambda d: d[0]):
        with pytest.raises(NotImplementedError):
            call(VisionDataset("/data"))
