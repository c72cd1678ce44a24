"""The collator: kinds of items, structures, dtypes. Results were read off the reference."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from megengine.data import Collator

Point = namedtuple("Point", "x y")  # what users write

apply = Collator().apply


@pytest.mark.parametrize(
    ("items", "want", "dtype"),
    [
        ([1, 2], [1, 2], np.int64),
        ([1.0, 2.0], [1.0, 2.0], np.float64),
        ([1, 2.5], [1.0, 2.5], np.float64),
        ([True, False], [True, False], np.bool_),
        ([np.float16(1), np.float16(2)], [1.0, 2.0], np.float16),
        ([np.float32(1), np.float32(2)], [1.0, 2.0], np.float32),
        ([np.ones(2, "float32"), np.ones(2, "float64")], [[1, 1], [1, 1]], np.float64),
        ([np.ones(2, ">f4"), np.ones(2, ">f4")], [[1, 1], [1, 1]], np.float32),
        ([np.ones(2, ml_dtypes.bfloat16)] * 2, [[1, 1], [1, 1]], ml_dtypes.bfloat16),
        ([np.array(3), np.array(4)], [3, 4], np.int64),
        ([np.zeros((0, 3))] * 2, [[], []], np.float64),
        ([np.array(["a", "bb"])] * 2, [["a", "bb"]] * 2, np.dtype("U2")),
        ([np.datetime64("2020-01-01")] * 2, [np.datetime64("2020-01-01")] * 2, "datetime64[D]"),
    ],
)
def test_arrays_and_numbers(items: list[Any], want: list[Any], dtype: Any) -> None:
    got = apply(items)
    assert got.dtype == dtype
    assert (got == np.array(want).reshape(got.shape).astype(dtype)).all()


def test_strides_of_items() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    for item in (a.T, a[:, ::-1], a[::2], np.broadcast_to(a[0], a.shape), np.asfortranarray(a)):
        assert (apply([item, item]) == np.stack([item, item])).all()


def test_structures() -> None:
    ones = np.ones(2, "float32")
    images, labels = apply([(ones, 1), (ones, 2)])
    assert (images.shape, images.dtype, labels.tolist()) == ((2, 2), np.float32, [1, 2])
    assert isinstance(apply([[1, 2], [3, 4]]), list)
    got = apply([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert got["a"].tolist() == [1, 2]
    assert got["b"] == ["x", "y"]
    assert type(apply([OrderedDict(a=1)] * 2)) is dict
    point = apply([Point(1, 2), Point(3, 4)])
    assert isinstance(point, Point)
    assert point.y.tolist() == [2, 4]


def test_text_stays_as_it_is() -> None:
    assert apply(["a", "b"]) == ["a", "b"]
    assert apply((b"a", b"b")) == (b"a", b"b")
    assert apply([np.str_("a"), np.str_("b")]) == ["a", "b"]
    assert apply([(1, "a"), (2, "b")])[1] == ("a", "b")


def test_errors() -> None:
    for wrong in ([None], [object()], [{1}], [np.array([None])]):
        with pytest.raises(TypeError, match="default_collator"):
            apply(wrong)
    for ragged in ([np.ones(2), np.ones(3)], [(1, 2), (1,)], []):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own
            apply(ragged)
    with pytest.raises(KeyError):
        apply([{"a": 1}, {"b": 2}])
