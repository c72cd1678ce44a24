"""uint32 and uint64, whose large numbers the signed loops would read as negative ones."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin

T = mge.tensor
WIDE = ["uint32", "uint64"]


def numbers(dtype: str) -> np.ndarray:
    """Small and large ones, on both sides of the largest signed number."""
    top = int(np.iinfo(dtype).max)
    half = top // 2
    listed = [0, 1, 2, 7, half - 1, half, half + 1, half + 2, top - 6, top - 1, top]
    return np.array(listed, dtype)


def tensors(dtype: str) -> tuple[np.ndarray, np.ndarray, mge.Tensor, mge.Tensor]:
    """All pairs of them."""
    a, b = np.meshgrid(numbers(dtype), numbers(dtype))
    return a, b, T(a, dtype=dtype), T(b, dtype=dtype)


@pytest.mark.parametrize("dtype", WIDE)
def test_arithmetic_and_comparisons(dtype):
    a, b, x, y = tensors(dtype)
    with np.errstate(over="ignore"):
        pairs = [(x + y, a + b), (x - y, a - b), (x * y, a * b), (-x, -a)]
    pairs += [(F.maximum(x, y), np.maximum(a, b)), (F.minimum(x, y), np.minimum(a, b))]
    pairs += [(x < y, a < b), (x <= y, a <= b), (x > y, a > b), (x == y, a == b), (x != y, a != b)]
    divisor = np.where(b == 0, 1, b).astype(dtype)
    pairs += [(x // T(divisor), a // divisor), (x % T(divisor), a % divisor)]
    pairs += [(abs(x), a), (F.sign(x), np.sign(a)), (F.relu(x), a), (F.clip(x, 1, 5), a.clip(1, 5))]
    for got, want in pairs:
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal((x // 0).numpy(), np.zeros_like(a))
    bits = np.iinfo(dtype).bits
    for count in (0, 1, bits - 1):
        shift = np.asarray(count, dtype)
        np.testing.assert_array_equal(F.right_shift(x, count).numpy(), a >> shift)
        np.testing.assert_array_equal(F.left_shift(x, count).numpy(), a << shift)
    (high,) = apply(builtin.Elemwise(mode="RMULH"), x, y)
    top = int(np.iinfo(dtype).max)
    products = a.astype(object) * b.astype(object)
    exact = np.minimum((products + 2 ** (bits - 1)) >> bits, top)
    assert high.numpy().tolist() == exact.tolist()


@pytest.mark.parametrize("dtype", WIDE)
def test_order(dtype):
    a = numbers(dtype)[[3, 10, 0, 6, 5, 8, 2, 1, 9, 7, 4]]
    x = T(a, dtype=dtype)
    for descending in (False, True):
        values, places = F.sort(x.reshape(1, -1), descending)
        want = np.sort(a)[:: -1 if descending else 1]
        np.testing.assert_array_equal(values.numpy()[0], want)
        np.testing.assert_array_equal(a[places.numpy()[0]], want)
    for k in (2, 9):
        np.testing.assert_array_equal(
            F.topk(x, k, descending=True)[0].numpy(), np.sort(a)[::-1][:k]
        )
    for axis, shape in ((0, (11, 1)), (1, (1, 11))):
        y = x.reshape(shape)
        assert F.max(y, axis).item() == a.max()
        assert F.min(y, axis).item() == a.min()
        assert F.argmax(y, axis).item() == a.argmax()
        assert F.argmin(y, axis).item() == a.argmin()


@pytest.mark.parametrize("dtype", WIDE)
def test_sums_and_products(dtype):
    a, b, x, y = tensors(dtype)
    with np.errstate(over="ignore"):
        pairs = [
            (F.sum(x, 0), a.sum(0, dtype=dtype)),
            (F.prod(x, 1), a.prod(1, dtype=dtype)),
            (F.cumsum(x, 1), a.cumsum(1, dtype=dtype)),
            (F.matmul(x, y), a @ b),
            (F.dot(x[0], y[0]), np.asarray(a[0] @ b[0])),
        ]
    for got, want in pairs:
        assert got.dtype == want.dtype == dtype
        np.testing.assert_array_equal(got.numpy(), want)
    mean = F.mean(x, 1)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean.numpy(), a.astype("float64").mean(1), rtol=1e-6)
    image, kernel = a[:5, :5].reshape(1, 1, 5, 5), b[:3, :3].reshape(1, 1, 3, 3)
    with np.errstate(over="ignore"):
        windows = np.lib.stride_tricks.sliding_window_view(image[0, 0], (3, 3))
        want = (windows * kernel[0, 0]).sum((2, 3), dtype=dtype)
    got = F.conv2d(T(image, dtype=dtype), T(kernel, dtype=dtype))
    np.testing.assert_array_equal(got.numpy()[0, 0], want)


@pytest.mark.parametrize("dtype", WIDE)
def test_casts_of_large_numbers(dtype):
    a = numbers(dtype)
    x = T(a, dtype=dtype)
    for target in ("float64", "float32", "float16", "int64", "uint64", "uint32", "int8", "bool"):
        with np.errstate(over="ignore"):
            want = a.astype(target)
        np.testing.assert_array_equal(x.astype(target).numpy(), want)
        np.testing.assert_array_equal(x[::-2].astype(target).numpy(), want[::-2])
    largest = float(np.iinfo(dtype).max // 2 + 1)
    assert T([largest], dtype="float64").astype(dtype).tolist() == [int(largest)]


def test_numbers_are_read_and_written_at_full_width():
    top = 2**64 - 1
    x = T([top, 0], dtype="uint64")
    assert x.tolist() == [top, 0]
    assert x[0].item() == int(x[0]) == top
    assert repr(x) == "Tensor([18446744073709551615 0], dtype=uint64, device=xpux:0)".replace(
        " 0]", "                    0]"
    )
    x[1] = 2**63
    assert (x - 2**63).tolist() == [2**63 - 1, 0]
    assert F.full((2,), top, dtype="uint64").tolist() == [top, top]
    assert T(2**63).dtype == np.uint64
    assert (T([1.0]) + 2**63).tolist() == [2.0**63]
    for array in (np.array([3], "uint32"), np.array([3], "uint64")):
        assert T(array).dtype == array.dtype
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        T(2**64)
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        x + (-(2**63) - 1)


def test_promotion_follows_numpy():
    def sums(a: str, b: str) -> str:
        return str((T([1], dtype=a) + T([1], dtype=b)).dtype)

    assert sums("uint32", "uint64") == "uint64"
    assert sums("uint8", "uint32") == "uint32"
    assert sums("uint32", "int32") == sums("uint32", "int64") == "int64"
    assert sums("uint64", "int8") == "float64"
    assert sums("uint32", "float32") == sums("uint64", "float16") == "float32"
    x = T([1], dtype="uint32")
    assert (x + 1).dtype == (x * True).dtype == np.uint32
    assert (x + 1.5).dtype == (x / x).dtype == np.float32
    chosen = F.where(T([True]), x, T([1], dtype="int32"))
    assert chosen.dtype == np.int64


@pytest.mark.parametrize("dtype", WIDE)
def test_as_indices(dtype):
    x = T([[1.0, 2.0, 3.0]])
    index = T([2, 0], dtype=dtype)
    assert x[0, index].tolist() == [3, 1]
    assert x[0, np.array([2, 0], dtype)].tolist() == [3, 1]
    assert x[0, T(1, dtype=dtype)].item() == 2
    assert F.gather(x, 1, index.reshape(1, 2)).tolist() == [[3, 1]]
    assert F.reshape(x, T([3, 1], dtype=dtype)).shape == (3, 1)
    top = int(np.iinfo(dtype).max)
    for far in (T([top], dtype=dtype), np.array([top], dtype), T(top, dtype=dtype)):
        with pytest.raises(IndexError, match=r"out of range|does not fit"):
            x[0, far]
    with pytest.raises(IndexError, match=f"index {top} is out of range"):
        F.gather(x, 1, T([[top]], dtype=dtype))
