"""Images and what belongs to them move together, under every transform and any chain of them.

The image holds in each pixel where it is. So the pixels that come out say where they were, and the
points at those places, moved by the same transform, must be where the pixels are now.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import megengine.data.transform as T

ORDER = ("image", "coords", "boxes", "keypoints", "polygons", "mask", "info")
LEAST = 12  # pixels of an edge

lengths = st.integers(LEAST, 60)
sizes = st.one_of(lengths, st.tuples(lengths, lengths))
borders = st.one_of(
    st.integers(0, 9), st.tuples(*[st.integers(0, 9)] * 2), st.tuples(*[st.integers(0, 9)] * 4)
)
shares = st.tuples(st.floats(0.3, 1), st.floats(0.3, 1)).map(sorted)
ratios = st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)).map(sorted)

MOVES: dict[str, st.SearchStrategy[Any]] = {
    "Pad": st.builds(T.Pad, borders, st.just(-1.0), st.just(-1)),
    "Resize": st.builds(T.Resize, sizes),
    "ShortestEdgeResize": st.builds(T.ShortestEdgeResize, lengths, st.integers(40, 90)),
    "RandomResize": st.builds(T.RandomResize, st.just((0.8, 2))),
    "RandomCrop": st.builds(T.RandomCrop, sizes, borders, st.just([-1.0] * 3), st.just(-1)),
    "RandomResizedCrop": st.builds(T.RandomResizedCrop, sizes, shares, ratios),
    "CenterCrop": st.builds(T.CenterCrop, st.just((3, 4))),
    "RandomHorizontalFlip": st.builds(T.RandomHorizontalFlip),
    "RandomVerticalFlip": st.builds(T.RandomVerticalFlip),
}
STAYS = st.sampled_from(
    [
        T.ColorJitter(0, 0, 0),
        T.Normalize(),
        T.BrightnessTransform(0),
        T.Lighting(0),
    ]
)


def places(height: int, width: int) -> Any:
    """(height, width, 3): x and y of the middle of each pixel, and 1."""
    y, x = np.mgrid[:height, :width] + 0.5
    return np.stack([x, y, np.ones_like(x)], -1).astype(np.float32)


def check(transforms: list[Any], height: int, width: int, seed: int) -> None:
    image = places(height, width)
    ids = np.arange(height * width, dtype=np.int32).reshape(height, width)
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 1, (6, 2)) * [width, height]
    boxes = np.concatenate(
        [np.minimum(points[:3], points[3:]), np.maximum(points[:3], points[3:])], 1
    )
    keypoints = np.concatenate([points.reshape(2, 3, 2), np.ones((2, 3, 1))], -1)
    np.random.seed(seed)
    out = T.Compose(transforms, order=ORDER).apply(
        (image, points, boxes, keypoints, [[points]], ids, {"id": 5})
    )
    new_image, new_points, new_boxes, new_keypoints, new_polygons, new_ids, info = out
    assert info == {"id": 5}
    assert new_image.shape[:2] == new_ids.shape

    def moved(coords: Any) -> Any:
        """Points, moved as those of the last item."""
        for transform in transforms:
            coords = transform._apply_coords(coords)
        return coords

    # What belongs to the points are the points.
    np.testing.assert_allclose(new_points, moved(points), atol=1e-9)
    np.testing.assert_allclose(new_polygons[0][0], new_points)
    np.testing.assert_allclose(new_keypoints[..., :2].reshape(-1, 2), new_points)
    assert (new_keypoints[..., 2] == 1).all()
    corners = np.stack([moved(boxes[:, :2]), moved(boxes[:, 2:])])
    np.testing.assert_allclose(new_boxes, np.concatenate([corners.min(0), corners.max(0)], 1))

    # How far off pixels may be: a pixel of what a step was given, scaled by it and all later ones.
    off = np.zeros(2)
    for transform in transforms:
        ends = np.array([[0.0, 0], [1, 1]])
        scale = np.abs(np.diff(transform._apply_coords(ends), axis=0))[0]
        off = off * scale + np.maximum(scale, 1)

    # Pixels that are not mixed with a border say where they come from. At the edge of what was
    # resized they are half a pixel off: what is beyond it takes no part.
    x, y, whole = (new_image[..., i] for i in range(3))
    at = places(*whole.shape)[..., :2]
    alone = np.abs(whole - 1) < 1e-5
    error = np.abs(moved(np.stack([x[alone], y[alone]], -1).astype(np.float64)) - at[alone])
    assert (error <= off / 2 + 0.05).all()
    if len(transforms) == 1:
        from_edge = np.minimum(at[alone], whole.shape[::-1] - at[alone])
        assert (error[(from_edge > off).all(-1)] <= 0.02).all()

    # So do those of the mask, of which the nearest was taken.
    kept = new_ids >= 0
    old = np.stack([new_ids[kept] % width, new_ids[kept] // width], -1) + 0.5
    assert (np.abs(moved(old) - at[kept]) <= off + 1e-3).all()


@pytest.mark.parametrize("name", MOVES)
def test_each_transform(name: str):
    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(MOVES[name], lengths, lengths, st.integers(0, 1 << 30))
    def run(transform: Any, height: int, width: int, seed: int) -> None:
        check([transform], height, width, seed)

    run()


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(
    st.lists(st.one_of(*MOVES.values(), STAYS), min_size=1, max_size=4),
    lengths,
    lengths,
    st.integers(0, 1 << 30),
)
def test_chains(transforms: list[Any], height: int, width: int, seed: int):
    check(transforms, height, width, seed)
