"""Where the workloads of sampling read: smooth positions with some noise, for every framework."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]


def fractions(shape: tuple[int, ...], size: int) -> Array:
    """(N, size, size, 2): x and y, -1 at the first pixel of an image and 1 at the last."""
    along = np.linspace(-1, 1, size)
    x, y = np.meshgrid(along, along)
    noise = np.random.default_rng(0).uniform(-0.05, 0.05, (shape[0], size, size, 2))
    return (np.stack([x, y], -1) + noise).astype(np.float32)


def pixels(shape: tuple[int, ...], size: int) -> Array:
    """The same positions, counted in pixels."""
    last = np.array([shape[3] - 1, shape[2] - 1], np.float32)
    return (fractions(shape, size) + 1) * last / 2


def matrices(count: int) -> Array:
    """(count, 2, 3): small turns and shifts, between positions from -1 to 1."""
    turn = np.linspace(-0.2, 0.2, count)
    c, s = np.cos(turn), np.sin(turn)
    mats = np.stack([np.stack([c, -s, turn / 4], -1), np.stack([s, c, -turn / 4], -1)], 1)
    return mats.astype(np.float32)


def pixel_matrices(count: int, size: int, out: int) -> Array:
    """The same maps from pixels of square outputs to pixels of square images."""
    mats = matrices(count).astype(np.float64)
    scale, grow = (size - 1) / 2, 2 / (out - 1)
    linear = mats[:, :, :2] * scale * grow
    shift = (mats[:, :, 2] - mats[:, :, :2].sum(-1)) * scale + scale
    return np.concatenate([linear, shift[..., None]], -1).astype(np.float32)
