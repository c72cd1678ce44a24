"""Matrix products and convolutions where the generic checks do not look: long sums, packed weights,
errors, empty batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager
from tests.ops.cases.contraction import conv_ref, conv_transpose_ref

Shape = tuple[int, ...]


def normal(*shape: int, dtype: str = "float32") -> Any:
    return mge.tensor(np.random.standard_normal(shape), dtype=dtype)


def float64(x: Any) -> Any:
    return x.numpy().astype(np.float64)


# ---- shapes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (1, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((0, 3), (3, 4)),
        ((2, 0), (0, 4)),
        ((2, 0, 3), (3, 4)),
        ((0, 2, 3), (1, 3, 4)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_matmul_shapes_are_numpys(a: Shape, b: Shape, dtype: str) -> None:
    got = F.matmul(F.ones(a, dtype=dtype), F.ones(b, dtype=dtype))
    want = np.matmul(np.ones(a), np.ones(b))
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.astype("float32").numpy(), want)


def test_mixed_dtypes_promote() -> None:
    half, single = F.ones((2, 3), dtype="float16"), F.ones((3, 4))
    assert F.matmul(half, single).dtype == np.float32
    assert F.matmul(F.ones((2, 3), dtype="int32"), single).dtype == np.float32
    assert F.conv2d(F.ones((1, 1, 3, 3), dtype="float16"), F.ones((1, 1, 2, 2))).dtype == np.float32
    assert F.matmul(np.ones((2, 3), np.float32), single).shape == (2, 4)


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1),
        (1, 17, 300),
        (300, 1, 17),
        (2, 130, 64),
        (13, 33, 65),
        (64, 64, 64),
        (65, 63, 257),
        (121, 31, 513),
        (8, 1030, 40),
        (130, 48, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_products_of_many_sizes(sizes: tuple[int, int, int], dtype: str) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(0)
    draw: Callable[[Shape], Any] = (
        (lambda s: rng.integers(-(2**40), 2**40, s)) if dtype == "int64" else rng.standard_normal
    )
    a, b = draw((m, k)), draw((k, n))
    for ta in (False, True):
        for tb in (False, True):
            x = mge.tensor(np.ascontiguousarray(a.T if ta else a), dtype=dtype)
            y = mge.tensor(np.ascontiguousarray(b.T if tb else b), dtype=dtype)
            got = F.matmul(x, y, transpose_a=ta, transpose_b=tb).numpy()
            if dtype == "int64":
                np.testing.assert_array_equal(got, a @ b)
                continue
            exact = np.asarray(a, dtype).astype(np.float64) @ np.asarray(b, dtype).astype(float)
            tolerance = 1e-6 if dtype == "float32" else 1e-14
            np.testing.assert_allclose(got, exact, rtol=0, atol=tolerance * k**0.5 * 4)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_columns_are_convolved_as_rows(groups: int) -> None:
    """Images of one pixel across give what their transposes give, and so do the gradients."""
    x, w = normal(2, 6, 40, 1), normal(12, 6 // groups, 5, 1)
    w = F.reshape(w, (groups, 12 // groups, 6 // groups, 5, 1)) if groups > 1 else w
    options = [{"stride": (2, 1), "padding": (3, 0)}, {"stride": (1, 2), "dilation": (2, 1)}]
    for o in options:
        turned = {k: v[::-1] for k, v in o.items()}
        found = []
        for flip, kwargs in ((False, o), (True, turned)):
            a, b = (F.swapaxes(t, -1, -2) if flip else t for t in (x, w))
            a, b = a * 1, b * 1
            with GradManager().attach([a, b]) as gm:
                y = F.conv2d(a, b, groups=groups, **kwargs)
                gm.backward(y, F.ones_like(y))
            found.append(
                [float64(F.swapaxes(t, -1, -2) if flip else t) for t in (y, a.grad, b.grad)]
            )
        for got, want in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


# ---- accuracy ------------------------------------------------------------------------


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("sizes", [(1600, 40, 70), (1537, 600, 450), (130, 33, 2100)])
def test_rows_and_columns_of_large_matrices(
    sizes: tuple[int, int, int], transpose_a: bool, transpose_b: bool
) -> None:
    """Many rows and columns of the first operand take other ways through oneDNN than few."""
    m, n, k = sizes
    a = normal(*((k, m) if transpose_a else (m, k)))
    b = normal(*((n, k) if transpose_b else (k, n)))
    x, y = (t.numpy().astype(np.float64) for t in (a, b))
    want = (x.T if transpose_a else x) @ (y.T if transpose_b else y)
    for _ in range(2):
        got = F.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-6 * k)
    part = F.matmul(a[:, 3:] if transpose_a else a[3:], b, transpose_a, transpose_b)
    np.testing.assert_allclose(part.numpy(), want[3:], rtol=1e-4, atol=1e-6 * k)


def test_long_sums_keep_their_digits() -> None:
    x = F.full((4000000,), 0.1)
    exact = 4e6 * float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(F.dot(x, x).numpy(), exact, rtol=1e-6)
    wide = F.full((4, 500000), 0.1)
    np.testing.assert_allclose(F.matmul(wide, wide, transpose_b=True).numpy(), exact / 8, rtol=5e-6)


def test_integers_wrap_as_numpys() -> None:
    a = np.full((2, 3), 2**30, np.int32)
    np.testing.assert_array_equal(F.matmul(mge.tensor(a), mge.tensor(a.T)).numpy(), a @ a.T)


def test_small_integers_do_not_wrap() -> None:
    a = F.full((2, 300), 127, dtype="int8")
    y = F.matmul(a, a, transpose_b=True)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y.numpy(), 127 * 127 * 300)
    assert F.dot(a[0], a[1]).item() == 127 * 127 * 300


def test_nan_and_infinity_spread() -> None:
    a = np.ones((3, 4), np.float32)
    a[1, 2] = np.nan
    a[2, 0] = np.inf
    y = F.matmul(mge.tensor(a), F.ones((4, 5))).numpy()
    assert np.isnan(y[1]).all()
    assert np.isinf(y[2]).all()
    assert (y[0] == 4).all()


# ---- convolutions ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_empty_batch(dtype: str) -> None:
    w = mge.Parameter(np.ones((4, 3, 3, 3)), dtype=dtype)
    b = mge.Parameter(np.ones((1, 4, 1, 1)), dtype=dtype)
    manager = GradManager().attach([w, b])
    with manager:
        y = F.conv2d(F.zeros((0, 3, 8, 8), dtype=dtype), w, b)
        manager.backward(y.sum())
    assert y.shape == (0, 4, 6, 6)
    for p in (w, b):
        assert p.grad is not None
        assert p.grad.shape == p.shape
        assert not p.grad.numpy().any()


def test_no_channels() -> None:
    y = F.conv2d(F.ones((2, 0, 5, 5)), F.ones((3, 0, 2, 2)), F.ones((1, 3, 1, 1)))
    np.testing.assert_array_equal(y.numpy(), np.ones((2, 3, 4, 4)))
    assert F.conv2d(F.ones((2, 3, 5, 5)), F.ones((0, 3, 2, 2))).shape == (2, 0, 4, 4)


def test_weights_that_change_are_packed_anew() -> None:
    x, w = normal(2, 32, 8, 8), normal(32, 32, 3, 3)
    for _ in range(4):
        for _ in range(3):
            np.testing.assert_allclose(
                F.conv2d(x, w).numpy(), conv_ref(float64(x), float64(w)), atol=2e-4
            )
        w[1] = normal(32, 3, 3)
        w += 1


def test_one_weight_on_many_threads() -> None:
    w = normal(32, 32, 3, 3)
    inputs = [normal(2, 32, 8 + i, 8) for i in range(4)]
    wrong: list[str] = []

    def work(x: Any) -> None:
        for _ in range(20):
            if not np.allclose(F.conv2d(x, w).numpy(), want[id(x)], atol=2e-4):
                wrong.append("differs")

    want = {id(x): conv_ref(float64(x), float64(w)) for x in inputs}
    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_number_of_threads_may_change() -> None:
    x, w = normal(4, 16, 20, 20), normal(32, 16, 3, 3)
    want = conv_ref(float64(x), float64(w))
    before = device.get_num_threads()
    try:
        for n in (1, 2, 3, 1):
            device.set_num_threads(n)
            np.testing.assert_allclose(F.conv2d(x, w).numpy(), want, atol=2e-4)
    finally:
        device.set_num_threads(before)


def test_many_shapes_do_not_fill_memory() -> None:
    w = normal(3, 2, 2, 2)
    for i in range(1100):  # more than the primitives that are kept
        x = F.ones((1, 2, 2, 2 + i))
        assert F.conv2d(x, w).shape == (1, 3, 1, 1 + i)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_strided_operands_give_what_copies_give(dtype: str) -> None:
    x = normal(12, 4, 3, 10, dtype=dtype)[::-2].transpose(0, 2, 3, 1)[:, :, ::-1]
    w = normal(6, 2, 3, 8, dtype=dtype).transpose(3, 2, 1, 0)[:, :, :, ::2]
    got = F.conv2d(x, w, padding=1)
    plain = F.conv2d(
        mge.tensor(x.numpy(), dtype=dtype), mge.tensor(w.numpy(), dtype=dtype), padding=1
    )
    np.testing.assert_array_equal(got.numpy(), plain.numpy())
    y = F.conv2d(
        F.broadcast_to(F.ones((1, 3, 1, 1), dtype=dtype), (2, 3, 5, 5)),
        F.ones((2, 3, 2, 2), dtype=dtype),
    )
    np.testing.assert_array_equal(y.astype("float32").numpy(), np.full((2, 2, 4, 4), 12))


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_output_padding(extra: int) -> None:
    x, w = normal(2, 3, 4, 5, dtype="float64"), normal(3, 2, 3, 3, dtype="float64")
    y = F.conv_transpose2d(x, w, stride=3, padding=1, output_padding=extra)
    want = conv_transpose_ref(x.numpy(), w.numpy(), stride=(3, 3), pad=(1, 1), extra=(extra, extra))
    np.testing.assert_allclose(y.numpy(), want, atol=1e-12)


# ---- errors ------------------------------------------------------------------------


def image(*shape: int) -> Any:
    return F.ones(shape)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: F.matmul(image(2, 3), image(2, 3)), ValueError, r"MatrixMul.*\(2, 3\)"),
        (lambda: F.matmul(image(2, 3, 4), image(3, 4, 2)), ValueError, "MatrixMul"),
        (lambda: F.matmul(image(3), image(3, 2), transpose_a=True), ValueError, "transpose"),
        (lambda: F.matmul(1.0, 2.0), ValueError, "MatrixMul"),
        (lambda: F.matmul(image(2, 2), image(2, 2), compute_mode="fast"), ValueError, "fast"),
        (
            lambda: F.matmul(F.ones((2, 2), dtype="bool"), F.ones((2, 2), dtype="bool")),
            TypeError,
            "bool",
        ),
        (lambda: F.dot(image(2), image(3)), ValueError, "Dot"),
        (lambda: F.dot(image(2, 2), image(2)), ValueError, "Dot"),
        (lambda: F.linear(image(2, 3), image(4, 2)), ValueError, r"Linear.*\(4, 2\)"),
        (lambda: F.linear(image(2, 3), image(4, 3), image(3)), ValueError, "bias"),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 3, 3, 3)), ValueError, "3 channels"),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 9, 9)), ValueError, "padded input"),
        (lambda: F.conv2d(image(4, 8, 8), image(6, 4, 3, 3)), ValueError, "4 dimensions"),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3)), ValueError, "weight"),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 0, 3)), ValueError, "kernel"),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), groups=3), ValueError, "3 groups"),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(2, 3, 2, 3, 3)),
            ValueError,
            "groups",
        ),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), stride=0), ValueError, "stride"),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), dilation=0),
            ValueError,
            "dilation",
        ),
        (lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), padding=-1), ValueError, "padding"),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), padding=2**40),
            ValueError,
            "padding",
        ),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), padding=2**28),
            (MemoryError, ValueError),
            "allocate|Convolution",
        ),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), stride=(1, 2, 3)),
            ValueError,
            "stride",
        ),
        (
            lambda: F.conv2d(image(1, 4, 8, 8), image(6, 4, 3, 3), conv_mode="correlation"),
            ValueError,
            "conv_mode",
        ),
        (
            lambda: F.conv_transpose2d(image(1, 4, 8, 8), image(5, 4, 3, 3)),
            ValueError,
            "5 channels",
        ),
        (
            lambda: F.conv_transpose2d(image(1, 4, 2, 2), image(4, 5, 3, 3), padding=9),
            ValueError,
            "output of size",
        ),
        (
            lambda: F.conv_transpose2d(image(1, 4, 2, 2), image(4, 5, 3, 3), output_padding=1),
            ValueError,
            "output_padding",
        ),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        call()
