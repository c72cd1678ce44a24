"""Complex tensors: conversions, promotion, gradients, and what they do not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager


@pytest.fixture
def z() -> mge.Tensor:
    return mge.tensor([1 + 3j, 2 - 4j])


@pytest.mark.parametrize(
    ("data", "dtype", "want"),
    [
        (1j, None, "complex64"),
        ([1, 2j], None, "complex64"),
        (np.array([1j], "complex64"), None, "complex64"),
        (np.array([1j]), None, "complex64"),
        (np.array([1j]), "complex128", "complex128"),
        (1j, "complex128", "complex128"),
        ([1.5, 2], "complex64", "complex64"),
        (np.array([1j], ">c8"), None, "complex64"),
        (np.array([1j, 2, 3j])[::-2], None, "complex64"),
        (np.empty((0, 3), "complex64"), None, "complex64"),
    ],
)
def test_comes_from_numpy_and_goes_back(data: Any, dtype: Any, want: str) -> None:
    t = mge.tensor(data, dtype=dtype)
    assert t.dtype == np.dtype(want)
    assert t.numpy().dtype == np.dtype(want)
    np.testing.assert_array_equal(t.numpy(), np.asarray(data))


def test_one_number_comes_out_as_a_python_complex(z: mge.Tensor) -> None:
    assert z[1].item() == complex(z[1]) == 2 - 4j
    assert bool(z[0])
    assert not bool(z[0] * 0)
    with pytest.raises(TypeError):
        float(z[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("complex64", "float32", "complex64"),
        ("complex64", "float16", "complex64"),
        ("complex64", "int8", "complex64"),
        ("complex64", "float64", "complex128"),
        ("complex64", "complex128", "complex128"),
        ("float32", 1j, "complex64"),
        ("int32", 1j, "complex64"),
        ("float64", 1j, "complex128"),
        ("complex64", 2.5, "complex64"),
        ("complex64", 2, "complex64"),
        ("complex128", 1j, "complex128"),
    ],
)
def test_promotes(a: str, b: Any, want: str) -> None:
    left = F.ones((2,), dtype=a)
    right = F.ones((2,), dtype=b) if isinstance(b, str) else b
    for out in (left + right, right * left, left / right):
        assert out.dtype == np.dtype(want)


def test_astype() -> None:
    x = mge.tensor([1.0, -2.0])
    z = x.astype("complex64")
    assert z.dtype == np.complex64
    assert z.astype("complex128").dtype == np.complex128
    for dtype in ("float32", "int32", "bool"):
        with pytest.raises(TypeError, match=r"take F.real or F.imag"):
            z.astype(dtype)
    with pytest.raises(TypeError):
        x[0] = 1j
    np.testing.assert_array_equal(x.numpy(), [1, -2])


def test_assignment_takes_real_and_complex_values(z: mge.Tensor) -> None:
    z[0] = 5.0
    z[mge.tensor([False, True])] = 1j
    np.testing.assert_array_equal(z.numpy(), [5, 1j])


@pytest.mark.parametrize(
    "f",
    [
        F.softmax,
        F.relu,
        F.max,
        F.prod,
        F.sort,
        F.argmax,
        F.norm,
        F.var,
        F.sin,
        F.floor,
        lambda z: z**2,
        lambda z: z % z,
        lambda z: z < z,
        lambda z: F.dropout(z, 0.5),
        lambda z: F.matmul(z, z) if z.ndim > 3 else F.clip(z, 0, 1),
    ],
)
def test_what_complex_numbers_do_not_do_names_the_way_out(f: Any, z: mge.Tensor) -> None:
    with pytest.raises(TypeError, match=r"complex64 is .*take F.real and F.imag"):
        f(z)


@pytest.mark.parametrize("make", [F.complex, F.polar])
def test_parts_must_be_real_and_fit(make: Any, z: mge.Tensor) -> None:
    with pytest.raises(TypeError, match="expected real tensors"):
        make(z, 1.0)
    with pytest.raises(ValueError, match="broadcast"):
        make(F.ones((2,)), F.ones((3,)))
    assert make(F.ones((2,), dtype="float16"), 1).dtype == np.complex64
    assert make(np.ones(2), mge.tensor([0.0], dtype="float64")).dtype == np.complex128


def test_gradient_of_the_parts() -> None:
    a, b = mge.tensor([1.0, 2.0]), mge.tensor([3.0, 4.0])
    with GradManager().attach([a, b]) as gm:
        w = F.complex(a, b) * F.complex(a, b)
        gm.backward(F.sum(3 * F.real(w) + 2 * F.imag(w)))
    np.testing.assert_array_equal(a.grad.numpy(), [18, 28])
    np.testing.assert_array_equal(b.grad.numpy(), [-14, -16])


def test_gradient_of_a_complex_tensor_is_complex(z: mge.Tensor) -> None:
    with GradManager().attach([z]) as gm:
        gm.backward(F.sum(F.abs(z) ** 2))
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.numpy(), rtol=1e-6)


def test_backward_wants_a_real_output(z: mge.Tensor) -> None:
    with pytest.raises(TypeError, match="expected a real output"), GradManager().attach([z]) as gm:
        gm.backward(F.sum(z * z))
    with GradManager().attach([z]) as gm:
        gm.backward(z * z, mge.tensor([1 + 0j, 1j]))
    np.testing.assert_allclose(z.grad.numpy(), np.array([1, 1j]) * 2 * np.conj(z.numpy()))


def test_extremes_of_abs_and_division() -> None:
    big = np.array([3e38 + 3e38j, 1e-30 - 1e-30j, 0, complex(np.inf, np.nan)], "complex64")
    np.testing.assert_allclose(F.abs(mge.tensor(big)).numpy(), np.abs(big), rtol=1e-6)
    wide = np.array([1e300 + 1e300j, 1e-300j, 0, complex(np.nan, -np.inf)])
    out = F.abs(mge.tensor(wide, dtype="complex128"))
    np.testing.assert_allclose(out.numpy(), np.abs(wide), rtol=1e-14)
    a = np.array([1 + 1j, 1e38 + 1e38j, 1, 1j], "complex64")
    b = np.array([0, 1e38 - 1e38j, np.inf, 1e-38], "complex64")
    with np.errstate(all="ignore"):
        want = a.astype("complex128") / b.astype("complex128")
    np.testing.assert_allclose(
        (mge.tensor(a) / mge.tensor(b)).numpy(), want.astype("complex64"), rtol=1e-6
    )


def test_every_layout_of_complex128_copies() -> None:
    x = (np.arange(2 * 5 * 7) * (1 - 2j)).reshape(2, 5, 7)
    t = mge.tensor(x, dtype="complex128")
    np.testing.assert_array_equal(
        F.transpose(t, (2, 0, 1)).reshape(-1).numpy(), x.transpose(2, 0, 1).ravel()
    )
    np.testing.assert_array_equal(t[:, ::-2, 1::3].reshape(-1).numpy(), x[:, ::-2, 1::3].ravel())
    np.testing.assert_array_equal(t[:, [3, 0]].numpy(), x[:, [3, 0]])
    index = np.array([[[1], [0]]])
    np.testing.assert_array_equal(
        F.gather(t, 1, mge.tensor(index)).numpy(), np.take_along_axis(x[:1, :, :1], index, 1)
    )
