"""The buffer protocol, and NumPy's conversions with their ``copy``."""

from __future__ import annotations

import io

import numpy as np
import pytest

import megengine as mge
from tests.exchange import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_memoryview(dtype, shape):
    x = mge.tensor(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype=dtype)
    view = memoryview(x)
    assert view.readonly
    assert view.shape == shape
    assert view.nbytes == x.numpy().nbytes
    array = np.asarray(view)
    assert array.dtype == x.dtype
    np.testing.assert_array_equal(array, x.numpy())


def test_a_view_keeps_the_value():
    x = mge.tensor([1.0, 2.0])
    view = memoryview(x)
    x += 1
    assert view.tolist() == [1, 2]
    del x
    assert view.tolist() == [1, 2]


def test_strides():
    x = mge.tensor(np.arange(12, dtype="int32").reshape(3, 4))
    view = memoryview(x[::2, ::-1])
    assert view.strides == (32, -4)
    assert view.tolist() == [[3, 2, 1, 0], [11, 10, 9, 8]]
    assert memoryview(x[0]).tobytes() == np.arange(4, dtype="int32").tobytes()
    assert memoryview(x.T).f_contiguous


def test_refusals():
    with pytest.raises(BufferError, match="no name for bfloat16"):
        memoryview(mge.tensor([1.0], dtype="bfloat16"))
    x = mge.tensor([1], dtype="int8")
    with pytest.raises((TypeError, BufferError), match="read-"):
        io.BytesIO(b"\2").readinto(x)
    assert x.tolist() == [1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_copy(dtype):
    x = mge.tensor([1.0, 2.0], dtype=dtype)
    for array in (np.asarray(x), np.array(x, copy=False)):
        assert np.shares_memory(array, x.numpy())
        assert not array.flags.writeable
    own = np.array(x)
    assert not np.shares_memory(own, x.numpy())
    own[0] = 5
    assert x.tolist() == [1, 2]
    with pytest.raises(ValueError):  # noqa: PT011 - NumPy's message
        np.array(x, dtype="int32", copy=False)
    assert np.asarray(x, dtype="int32").tolist() == [1, 2]
