"""The base of datasets of images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..meta_dataset import Dataset

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
