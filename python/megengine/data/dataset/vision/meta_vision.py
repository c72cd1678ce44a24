"""The base of datasets of images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..meta_dataset import Dataset
from .utils import _default_dataset_root

__all__ = ["VisionDataset"]


class VisionDataset(Dataset):
    """Base of datasets of images in files.

    Args:
        root: the folder that holds the files; ``~`` is the user's.
        order: what the parts of an item are, such as ``("image", "boxes")``; ``("image",)``
            without.
        supported_order: the names that ``order`` may hold; any without.

    Raises:
        NotImplementedError: for another name.

    >>> class Nothing(VisionDataset):
    ...     def __getitem__(self, index):
    ...         raise IndexError(index)
    ...     def __len__(self):
    ...         return 0
    >>> Nothing("/data", order=("image", "boxes")).order
    ('image', 'boxes')
    """

    _repr_indent = 4

    def __init__(
        self,
        root: str | None,
        *,
        order: Sequence[str] | None = None,
        supported_order: Sequence[str] | None = None,
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        order = ("image",) if order is None else order
        if not isinstance(order, Sequence):
            raise ValueError(f"order should be a sequence, but got order={order}")
        if supported_order is not None:
            for name in order:
                if name not in supported_order:
                    raise NotImplementedError(f"{name} is unsupported data type")
        self.order = order

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__()")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")

    @property
    def _default_root(self) -> str:
        """Where downloads go without a ``root``."""
        return os.path.join(_default_dataset_root(), type(self).__name__)


class ArraysOfFiles(VisionDataset):
    """Base of datasets of images and their classes that are read whole, into ``arrays``."""

    def __init__(self, root: str | None) -> None:
        super().__init__(root or self._default_root, order=("image", "image_category"))
        self.arrays: tuple[Any, ...] = ()

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(array[index] for array in self.arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])
