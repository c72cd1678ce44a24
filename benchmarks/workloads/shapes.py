"""Shapes of the parameters of known networks."""

from __future__ import annotations


def _resnet50() -> list[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            wide = 4 * width
            convolutions = [(width, channels, 1, 1), (width, width, 3, 3), (wide, width, 1, 1)]
            if block == 0:
                convolutions.append((wide, channels, 1, 1))
            for shape in convolutions:
                shapes += [shape, (shape[0],), (shape[0],)]
            channels = wide
    return [*shapes, (1000, 2048), (1000,)]


RESNET50 = _resnet50()
