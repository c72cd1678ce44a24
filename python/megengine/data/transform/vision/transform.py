"""Transforms of images, and of the boxes, points and masks that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..meta_transform import Transform

__all__ = ["Compose", "VisionTransform"]

_CHANGED = ("image", "coords", "boxes", "keypoints", "polygons", "mask")
_KEPT = ("category", "boxes_category", "image_category", "info")
_CORNERS = [(0, 1), (2, 1), (0, 3), (2, 3)]


class VisionTransform(Transform):
    """Base of transforms of images.

    A subclass defines ``_apply_image``, and ``_apply_coords`` where it moves points: boxes,
    keypoints and polygons follow from that. ``_apply_mask`` is on its own.

    Args:
        order: what the parts of an item are, in order: "image" (height, width, channels), "coords"
            (n, 2), "boxes" (n, 4), "keypoints" (n, k, 2 or more), "polygons", "mask", and
            "category", "boxes_category", "image_category", "info", which stay as they are. Parts
            beyond these stay as well.

    Raises:
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

    def apply_batch(self, inputs: Sequence[Any]) -> Any:
        """The items of a batch, changed one by one."""
        return tuple(self.apply(item) for item in inputs)

    def apply(self, input: Any) -> Any:
        """The item, changed: a tuple of parts, or the only part itself."""
        parts = input if isinstance(input, tuple) else (input,)
        out = [
            getattr(self, f"_apply_{name}")(part) if name in _CHANGED else part
            for name, part in zip(self.order, parts, strict=False)
        ]
        out += parts[len(self.order) :]
        return tuple(out) if len(out) > 1 else out[0]

    def _get_image(self, input: Any) -> Any:
        parts = input if isinstance(input, tuple) else (input,)
        return parts[list(self.order).index("image")]

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_image")

    def _apply_coords(self, coords: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_coords")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_mask")

    def _apply_boxes(self, boxes: Any) -> Any:
        """The upright boxes around where the corners go."""
        corners = np.asarray(boxes)[:, _CORNERS].reshape(-1, 2)
        moved = np.asarray(self._apply_coords(corners)).reshape(-1, 4, 2)
        return np.concatenate([moved.min(axis=1), moved.max(axis=1)], axis=1)

    def _apply_keypoints(self, keypoints: Any) -> Any:
        points = np.asarray(keypoints)
        moved = np.asarray(self._apply_coords(points[..., :2].reshape(-1, 2)))
        moved = moved.reshape(*points.shape[:-1], 2)
        return np.concatenate([moved, points[..., 2:]], axis=-1)

    def _apply_polygons(self, polygons: Any) -> Any:
        return [[self._apply_coords(part) for part in polygon] for polygon in polygons]


class Compose(VisionTransform):
    """Transforms, one after the other.

    Args:
        transforms: the transforms.
        batch_compose: whether ``apply_batch`` gives each transform the whole batch, instead of each
            item all transforms.
        shuffle_indices: groups of positions, counted from 1: the transforms at these change places
            at random, anew for each item.
        order: set for all transforms; see :class:`VisionTransform`. ``("image",)`` without.

    Raises:
        ValueError: for a position outside the list.

    >>> Compose([]).apply(3)
    3
    """

    def __init__(
        self,
        transforms: Sequence[Any] = (),
        batch_compose: bool = False,
        shuffle_indices: Sequence[Sequence[int]] | None = None,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.transforms = list(transforms)
        self.batch_compose = batch_compose
        self.shuffle_indices = shuffle_indices
        for at in (i for group in shuffle_indices or () for i in group):
            if not 1 <= at <= len(self.transforms):
                raise ValueError(
                    f"shuffle_indices: expected positions from 1 to {len(self.transforms)}, got "
                    f"{at}"
                )
        self._set_order()

    def _set_order(self) -> None:
        for transform in self.transforms:
            transform.order = self.order
            if isinstance(transform, Compose):
                transform._set_order()

    def apply_batch(self, inputs: Sequence[Any]) -> Any:
        """The items of a batch, changed."""
        if not self.batch_compose:
            return super().apply_batch(inputs)
        for transform in self._shuffle():
            inputs = transform.apply_batch(inputs)
        return inputs

    def apply(self, input: Any) -> Any:
        """The item, changed by all transforms."""
        for transform in self._shuffle():
            input = transform.apply(input)
        return input

    def _shuffle(self) -> list[Any]:
        """The transforms in the order of one application."""
        out = list(self.transforms)
        for group in self.shuffle_indices or ():
            moved = np.random.permutation(len(group))
            for place, source in zip(group, moved, strict=True):
                out[place - 1] = self.transforms[group[source] - 1]
        return out
