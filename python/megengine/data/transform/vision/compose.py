"""Transforms made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import functional as F
from .base import VisionTransform
from .value import Normalize, NormalizeToMode, ToMode

__all__ = ["Compose", "TorchTransformCompose"]


class Compose(VisionTransform):
    """Transforms, one after the other.

    Args:
        transforms: the transforms.
        batch_compose: whether ``apply_batch`` gives each transform the whole batch, instead of each
            item all transforms.
        shuffle_indices: groups of positions, counted from 1: the transforms at these change places
            at random, anew for each item, with ``np.random.permutation``.
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
        for transform in _fuse(self._shuffle()):
            inputs = transform.apply_batch(inputs)
        return inputs

    def apply(self, input: Any) -> Any:
        """The item, changed by all transforms."""
        for transform in _fuse(self._shuffle()):
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


def _fuse(transforms: list[Any]) -> list[Any]:
    """The transforms, with one in the place of two where that gives the same and takes less time.

    Only of the classes themselves: a subclass may do something else.
    """
    out: list[Any] = []
    for transform in transforms:
        last = out[-1] if out else None
        if type(last) is Normalize and type(transform) is ToMode and last.order == transform.order:
            out[-1] = NormalizeToMode(last, transform)
        else:
            out.append(transform)
    return out


class TorchTransformCompose(VisionTransform):
    """Transforms of torchvision, or any functions of PIL's images, one after the other.

    Images are arrays of (height, width, 3), blue, green and red. The transforms see them as PIL's
    RGB images of 8 bits, and may give one, an array or a PyTorch tensor; colours come back in the
    order blue, green, red, the layout as the transforms leave it. Needs the package pillow.

    Args:
        transforms: the transforms.
        order: see :class:`VisionTransform`; only images are changed.

    Raises:
        ImportError: pillow is not installed.

    >>> TorchTransformCompose([]).apply(np.zeros((2, 3, 3), dtype="uint8")).shape
    (2, 3, 3)
    """

    def __init__(
        self, transforms: Sequence[Callable[[Any], Any]], *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.transforms = transforms

    def _apply_image(self, image: Any) -> Any:
        F.check_image("TorchTransformCompose", image, kinds="biuf")
        if image.shape[2] != 3:
            raise ValueError(
                f"TorchTransformCompose: expected 3 channels, got an image of shape {image.shape}"
            )
        try:
            from PIL import Image
        except ImportError as error:
            raise ImportError(
                "TorchTransformCompose needs pillow, which is not installed: pip install pillow"
            ) from error
        out: Any = Image.fromarray(np.ascontiguousarray(image[:, :, ::-1].astype(np.uint8)))
        for transform in self.transforms:
            out = transform(out)
        out = out.numpy() if hasattr(out, "numpy") else np.asarray(out)
        if out.ndim != 3 or 3 not in (out.shape[0], out.shape[2]):
            raise ValueError(
                "TorchTransformCompose: expected the transforms to give an image of 3 channels, "
                f"got shape {out.shape}"
            )
        return np.ascontiguousarray(out[::-1] if out.shape[0] == 3 else out[:, :, ::-1])
