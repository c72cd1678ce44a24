"""The base of transforms of images, and of the boxes, points and masks that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..meta_transform import Transform

__all__ = ["VisionTransform"]

_CHANGED = ("image", "coords", "boxes", "keypoints", "polygons", "mask")
_KEPT = ("category", "boxes_category", "image_category", "info")
_CORNERS = [(0, 1), (2, 1), (0, 3), (2, 3)]


class VisionTransform(Transform):
    """Base of transforms of images.

    A subclass defines ``_apply_image``, and ``_apply_coords`` where it moves points: boxes,
    keypoints and polygons follow from that. ``_apply_mask`` is on its own. A transform that draws
    numbers does so in ``apply`` and keeps them in attributes until the next item, so threads must
    not share one.

    Args:
        order: what the parts of an item are, in order: "image" (height, width, channels), "coords"
            (n, 2), "boxes" (n, 4), "keypoints" (n, k, 2 or more), "polygons", "mask" (height,
            width) or (height, width, 1), and "category", "boxes_category", "image_category",
            "info", which stay as they are. Parts beyond these stay as well. Points are x, then y,
            in pixels from the left upper corner of the image; boxes are x1, y1, x2, y2.

    Raises:
        ValueError: ``order`` is no sequence.
        NotImplementedError: for another name.

    >>> import numpy as np
    >>> class Brighter(VisionTransform):
    ...     def _apply_image(self, image):
    ...         return image + 1
    >>> Brighter(order=["image", "image_category"]).apply((np.zeros((1, 1, 1)), 3))
    (array([[[1.]]]), 3)
    """

    def __init__(self, order: Sequence[str] | None = None) -> None:
        super().__init__()
        order = ("image",) if order is None else order
        if not isinstance(order, Sequence):
            raise ValueError(f"order should be a sequence, but got order={order}")
        for name in order:
            if name not in _CHANGED and name not in _KEPT:
                raise NotImplementedError(f"{name} is unsupported data type")
        self.order = order

    def apply(self, input: Any) -> Any:
        """The item, changed: a tuple of parts, or the only part itself."""
        parts = input if isinstance(input, tuple) else (input,)
        out = [self._get_apply(name)(part) for name, part in zip(self.order, parts, strict=False)]
        out += parts[len(self.order) :]
        return out[0] if len(out) == 1 else tuple(out)

    def _get_apply(self, key: str) -> Callable[[Any], Any]:
        """What changes the parts of this name."""
        return getattr(self, f"_apply_{key}") if key in _CHANGED else _keep

    def _get_image(self, input: Any) -> Any:
        """The image of an item, for transforms that depend on its size."""
        parts = input if isinstance(input, tuple) else (input,)
        order = list(self.order)
        if "image" not in order or order.index("image") >= len(parts):
            raise ValueError(
                f"{type(self).__name__}: expected an image among the parts of an item, got "
                f"order={tuple(order)} and {len(parts)} parts; other parts are changed by its size"
            )
        return parts[order.index("image")]

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_image")

    def _apply_coords(self, coords: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_coords")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_mask")

    def _apply_boxes(self, boxes: Any) -> Any:
        """The upright boxes around where the corners go."""
        array = np.asarray(boxes)
        if array.ndim == 0 or array.dtype == object or array.size % 4:
            raise ValueError(
                f"{type(self).__name__}: expected boxes of shape (n, 4), got "
                f"{type(boxes).__name__} of shape {array.shape}"
            )
        corners = array.reshape(-1, 4)[:, _CORNERS].reshape(-1, 2)
        moved = np.asarray(self._apply_coords(corners)).reshape(-1, 4, 2)
        return np.concatenate([moved.min(axis=1), moved.max(axis=1)], axis=1)

    def _apply_keypoints(self, keypoints: Any) -> Any:
        points = np.asarray(keypoints)
        moved = np.asarray(self._apply_coords(points[..., :2].reshape(-1, 2)))
        moved = moved.reshape(*points.shape[:-1], 2)
        return np.concatenate([moved, points[..., 2:]], axis=-1)

    def _apply_polygons(self, polygons: Any) -> Any:
        return [[self._apply_coords(part) for part in polygon] for polygon in polygons]


class ValueTransform(VisionTransform):
    """Base of transforms that change the values of the image and leave everything in its place."""

    def _apply_coords(self, coords: Any) -> Any:
        return coords

    def _apply_mask(self, mask: Any) -> Any:
        return mask


def _keep(part: Any) -> Any:
    return part


def move(
    coords: Any,
    scale: tuple[float, float] = (1, 1),
    shift: tuple[float, float] = (0, 0),
) -> NDArray[Any]:
    """Points (n, 2), x and y, times `scale`, plus `shift`, in their own dtype.

    Integers are cut, not rounded.
    """
    out = np.array(coords)
    for axis in (0, 1):
        if scale[axis] != 1:
            out[:, axis] = out[:, axis] * scale[axis]
        if shift[axis]:
            out[:, axis] += shift[axis]
    return out
