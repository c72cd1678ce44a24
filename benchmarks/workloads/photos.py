"""A photograph as it comes from a file, and how it is decoded: the same for all frameworks."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

HEIGHT, WIDTH = 375, 500  # the most frequent size of ImageNet
MEAN, STD = (103.530, 116.280, 123.675), (57.375, 57.120, 58.395)  # blue, green, red

Image = np.ndarray[Any, np.dtype[np.uint8]]

cv2.setNumThreads(1)  # one process prepares one image: a loader has several


def photo() -> Image:
    """(375, 500, 3): smooth, with noise, as photographs are."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    smooth = np.stack([y * 200 / HEIGHT, x * 200 / WIDTH, (x + y) * 100 / (HEIGHT + WIDTH)], -1)
    noise = np.random.default_rng(0).uniform(0, 50, smooth.shape)
    return (smooth + noise).astype(np.uint8)


def jpeg() -> Image:
    """Its file."""
    return cv2.imencode(".jpg", photo())[1]


def decode(file: Image, rgb: bool = False) -> Image:
    """What is in the file: blue, green, red, or the other way round."""
    return cv2.imdecode(file, cv2.IMREAD_COLOR_RGB if rgb else cv2.IMREAD_COLOR)


def boxes() -> np.ndarray[Any, np.dtype[np.float32]]:
    """(20, 4): x1, y1, x2, y2."""
    corners = np.random.default_rng(1).uniform(0, 1, (20, 2, 2)) * [WIDTH, HEIGHT]
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype(np.float32)
