"""Tensors made from numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.compare import array, dtype_name
from tests.ops.record import FLOATS, INTS

DTYPES = (*FLOATS, *INTS, "bool")


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_in_every_dtype(dtype: str) -> None:
    for shape in ((), (3,), (2, 0), (2, 3)):
        out = F.full(shape, 1, dtype)
        assert dtype_name(out) == dtype
        np.testing.assert_array_equal(array(out), np.ones(shape))
        assert dtype_name(F.zeros(shape, dtype)) == dtype
        np.testing.assert_array_equal(array(F.zeros(shape, dtype)), np.zeros(shape))


def test_full_takes_its_dtype_from_the_value() -> None:
    assert F.full((2,), 3).dtype == np.int32
    assert F.full((2,), 3.5).dtype == np.float32
    assert F.full((2,), True).dtype == np.bool_
    assert F.full((2,), mge.tensor([1.0, 2.0])).numpy().tolist() == [1, 2]
    assert F.full((2,), mge.tensor(3), dtype="float32").dtype == np.float32


def test_full_of_integers() -> None:
    assert F.full((1,), 3.7, dtype="int8").item() == 3
    assert F.full((1,), -1, dtype="uint8").item() == 255
    big = 2**62 + 1
    assert F.full((2,), big, dtype="int64").numpy().tolist() == [big, big]


def test_shapes_are_ints_sequences_or_tensors() -> None:
    for shape in (2, [2], (2,), mge.tensor([2]), np.array([2]), (mge.tensor(2),)):
        assert F.zeros(shape).shape == (2,)
    with pytest.raises(ValueError, match="full"):
        F.full((-1,), 3)
    with pytest.raises(TypeError, match="full"):
        F.full((1.5,), 3)


def test_like() -> None:
    x = mge.tensor([[1, 2]], dtype="int8")
    for f, value in ((F.zeros_like, 0), (F.ones_like, 1)):
        out = f(x)
        assert out.dtype == np.int8
        assert out.numpy().tolist() == [[value, value]]
    assert F.full_like(x, 3.9).numpy().tolist() == [[3, 3]]
    assert F.full_like(x, mge.tensor(3.0)).dtype == np.int8
    with pytest.raises(TypeError, match="full_like"):
        F.zeros_like([1, 2])  # type: ignore[arg-type]


def test_arange_integers_are_exact() -> None:
    out = F.arange(16777216, 16777221, dtype="int32")
    assert out.numpy().tolist() == [16777216, 16777217, 16777218, 16777219, 16777220]
    big = 2**60
    assert F.arange(big, big + 3, dtype="int64").numpy().tolist() == [big, big + 1, big + 2]
    with pytest.raises(ValueError, match="arange"):
        F.arange(2**70, 2**70 + 2, dtype="int64")


@pytest.mark.parametrize(
    "args",
    [(5,), (1, 5), (5, 1), (5, 1, -2), (0, 1, 0.1), (2.5,), (1, 2, 0.3), (-3,), (3, -4, -1), (0,)],
)
def test_arange_as_numpy(args: tuple[float, ...]) -> None:
    out = F.arange(*args)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.numpy(), np.arange(*args), rtol=1e-6)


def test_arange_of_tensors_and_dtypes() -> None:
    assert F.arange(mge.tensor(3.0)).shape == (3,)
    assert F.arange(mge.tensor([3])).shape == (3,)
    assert F.arange(0, 1, 0.1, dtype="int32").numpy().tolist() == [0] * 10
    assert F.arange(1, 3, 0.5, dtype="float16").numpy().tolist() == [1, 1.5, 2, 2.5]
    assert F.arange(0, 1, 0.1).shape == (10,)
    np.testing.assert_array_equal(F.arange(70000).numpy(), np.arange(70000))


@pytest.mark.parametrize(
    "args", [(0, 1, 0), (0, float("inf")), (float("nan"),), (0, 1, float("nan"))]
)
def test_arange_refuses(args: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="arange"):
        F.arange(*args)


def test_linspace() -> None:
    for args in ((3, 10, 5), (10, 3, 3), (3, 10, 1), (3, 10, 0), (0, 1, 1000)):
        out = F.linspace(*args)
        np.testing.assert_allclose(out.numpy(), np.linspace(*args), rtol=1e-6)
    assert F.linspace(0.1, 0.7, 100000).numpy()[-1] == np.float32(0.7)
    assert F.linspace(3, 10, 5, dtype="int32").numpy().tolist() == [3, 4, 6, 8, 10]
    assert F.linspace(mge.tensor(10), mge.tensor(3.0), mge.tensor(3)).shape == (3,)
    assert F.linspace(0, 1, 3, dtype="float64").dtype == np.float64
    with pytest.raises(TypeError, match="linspace"):
        F.linspace(3, 10, 2.5)
    with pytest.raises(ValueError, match="Linspace"):
        F.linspace(3, 10, -1)


def test_eye() -> None:
    for args in ((2,), (2, 3), (4, 2), (0,)):
        np.testing.assert_array_equal(F.eye(*args).numpy(), np.eye(*args))
    assert F.eye((2, 3)).shape == (2, 3)
    assert F.eye(2, dtype="int32").dtype == np.int32
    with pytest.raises(ValueError, match="Eye"):
        F.eye(-1)


def test_constants_too_large_raise() -> None:
    with pytest.raises(MemoryError):
        F.zeros((1 << 30, 1 << 20))
    for shape in ((1 << 40, 1 << 40), (1 << 62, 4)):
        with pytest.raises((ValueError, MemoryError)):
            F.zeros(shape)


def test_eye_of_no_columns() -> None:
    """It has nothing to write, however many rows."""
    assert F.eye(1 << 40, 0).shape == (1 << 40, 0)
    assert F.eye(0, 1 << 40).shape == (0, 1 << 40)


@pytest.mark.parametrize("op", [builtin.Linspace(), builtin.Arange(), builtin.Eye()])
def test_numbers_are_fields_of_the_ops(op: builtin.OpDef) -> None:
    with pytest.raises(TypeError, match="numbers as fields and no inputs, got 2 inputs"):
        apply(op, mge.tensor(0), mge.tensor(3))
