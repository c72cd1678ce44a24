"""Memory of batches that are made in this process.

A batch of images is so large that the C library gives its memory back to the system when it is
let go, and asks for it anew, page by page, for the next. Here it is kept for the next one. That
takes a fifth off the time of a batch of decoded images.
"""

from __future__ import annotations

import math
import sys

import numpy as np

__all__ = ["MIN_BUFFER", "Buffers", "unused"]

MIN_BUFFER = 8 * 1024  # bytes; smaller arrays stay in the C library's own lists
MAX_BUFFERS = 4

# glibc gives memory at the end of its heap back when there is more than twice the size of the
# largest block that was ever let go, up to this size (mallopt(3), M_MMAP_THRESHOLD). The images
# of a batch are such memory.
_LARGEST_KEPT = 31 << 20

_alone = [np.empty(0)]
_ALONE = sys.getrefcount(_alone[0])


def unused(references: int) -> bool:
    """Whether only one container holds an object, by what ``sys.getrefcount(container[i])`` says.

    Arrays over a buffer hold that buffer itself, never one another.
    """
    return references == _ALONE


class Buffers:
    """A few buffers, each of which is used again when no array in it is referred to any more."""

    def __init__(self) -> None:
        self._buffers: list[np.ndarray] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array like that of ``np.empty``."""
        size = math.prod(shape) * dtype.itemsize
        if size < MIN_BUFFER:
            return np.empty(shape, dtype)
        buffers = self._buffers
        free = [i for i in range(len(buffers)) if unused(sys.getrefcount(buffers[i]))]
        for i in free:
            # Not in one that is much too large: an array that is kept would keep all of it.
            if size <= buffers[i].size <= 2 * size:
                return np.ndarray(shape, dtype, buffers[i])
        if not buffers:
            np.empty(_LARGEST_KEPT, np.uint8)  # is let go at once, and its pages are never touched
        if len(buffers) == MAX_BUFFERS:
            if not free:
                return np.empty(shape, dtype)
            del buffers[free[0]]
        buffers.append(np.empty(size, np.uint8))
        return np.ndarray(shape, dtype, buffers[-1])
