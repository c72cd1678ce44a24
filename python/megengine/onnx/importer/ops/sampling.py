"""Sampling at positions that a grid holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import op
from ..values import dtype_of


def _reflected(place: Any, low: float, high: float) -> Any:
    """A place brought between two borders, by reflection at them."""
    span = high - low
    if span <= 0:
        return F.zeros_like(place) + low
    away = F.abs(place - low) % (2 * span)
    return F.where(away > span, 2 * span - away, away) + low


def _cubic_weights(t: Tensor) -> list[Tensor]:
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taps_of(
    place: Tensor, size: int, mode: str, padding: str, align_corners: bool
) -> list[tuple[Tensor, Tensor]]:
    """Along one axis: positions (as floats) and weights of what a place is made of."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)

    def bring(p: Tensor) -> Tensor:
        if padding == "border":
            return F.clip(p, 0.0, size - 1.0)
        if padding == "reflection":
            return F.clip(_reflected(p, low, high), 0.0, size - 1.0)
        return p

    if mode == "cubic":
        base = F.floor(place)
        weights = _cubic_weights(place - base)
        return [(bring(base + float(k - 1)), weights[k]) for k in range(4)]
    place = bring(place)
    if mode == "nearest":
        near = F.floor(place + 0.5)
        tie = F.equal(near - place, 0.5)
        even = 2.0 * F.floor(near * 0.5)
        return [(F.where(tie, even, near), F.ones_like(place))]
    base = F.floor(place)
    return [(base, 1 - (place - base)), (base + 1.0, place - base)]


@op("GridSample", since=16)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic"):
        raise ValueError(f"GridSample: unknown mode {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"GridSample: unknown padding_mode {padding_mode!r}")
    n, channels, *sizes = x._tuple_shape
    out = grid._tuple_shape[1:-1]
    places = []
    for i, size in enumerate(sizes):
        g = F.reshape(grid[..., len(sizes) - 1 - i], (n, -1))  # the last axis comes first
        places.append(
            (g + 1.0) * ((size - 1) / 2) if align_corners else ((g + 1.0) * size - 1.0) / 2
        )
    flat = F.reshape(x, (n, channels, int(np.prod(sizes))))
    # Each combination of one tap along each axis: (position in the flattened image, weight).
    combined: list[tuple[Tensor, Tensor]] = []
    for place, size in zip(places, sizes, strict=True):
        taps = []
        for position, weight in _taps_of(place, size, mode, padding_mode, bool(align_corners)):
            inside = F.logical_and(position >= 0, position <= size - 1)
            weight = F.where(inside, weight, F.zeros_like(weight))
            index = F.where(inside, position, F.zeros_like(position)).astype("int32")
            taps.append((index, weight))
        if not combined:
            combined = taps
        else:
            combined = [(a * size + b, u * v) for a, u in combined for b, v in taps]
    total = None
    for index, weight in combined:
        picked = F.gather(
            flat, 2, F.broadcast_to(F.expand_dims(index, 1), (n, channels, index._tuple_shape[1]))
        )
        part = picked * F.expand_dims(weight, 1)
        total = part if total is None else total + part
    assert total is not None
    return F.reshape(total, (n, channels, *out)).astype(dtype_of(x))
