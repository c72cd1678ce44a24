"""Boxes as a detector proposes them: many of them small, around a few objects."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]

HEIGHT, WIDTH, IMAGES = 800, 1088, 2


def boxes(count: int) -> Array:
    """(count, 5): an image, x1, y1, x2, y2 in pixels."""
    rng = np.random.default_rng(0)
    objects = rng.random((max(1, count // 20), 2)) * [WIDTH, HEIGHT]
    size = np.exp(rng.uniform(np.log(16), np.log(400), (len(objects), 2)))
    which = rng.integers(0, len(objects), count)
    extent = size[which] * np.exp(rng.standard_normal((count, 2)) * 0.15)
    centre = objects[which] + extent * rng.standard_normal((count, 2)) * 0.15
    corners = np.concatenate([centre - extent / 2, centre + extent / 2], 1)
    corners = np.clip(corners, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT])
    image = which[:, None] % IMAGES
    return np.concatenate([image, corners], 1).astype(np.float32)


def scores(count: int) -> Array:
    return np.random.default_rng(1).random(count).astype(np.float32)
