"""Tensor: construction, dtypes, devices, text, NumPy, Python's protocols."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import megengine as mge
from megengine import Parameter, Tensor

T = mge.tensor


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        ([1.0, 2.0], None, "Tensor([1. 2.], device=xpux:0)"),
        (1, None, "Tensor(1, dtype=int32, device=xpux:0)"),
        (1.0, None, "Tensor(1.0, device=xpux:0)"),
        ([True, False], None, "Tensor([ True False], dtype=bool, device=xpux:0)"),
        (range(3), None, "Tensor([0 1 2], dtype=int32, device=xpux:0)"),
        (np.arange(3.0), None, "Tensor([0. 1. 2.], device=xpux:0)"),
        ([1, 2.5], None, "Tensor([1.  2.5], device=xpux:0)"),
        ([1.7, -1.7], "int32", "Tensor([ 1 -1], dtype=int32, device=xpux:0)"),
        ([300], "uint8", "Tensor([44], dtype=uint8, device=xpux:0)"),
        ([1.5], "bfloat16", "Tensor([1.5], dtype=bfloat16, device=xpux:0)"),
        ([0.1], "float64", "Tensor([0.1], dtype=float64, device=xpux:0)"),
        ([2**40], "int64", "Tensor([1099511627776], dtype=int64, device=xpux:0)"),
        ([], None, "Tensor([], device=xpux:0)"),
        (np.zeros((2, 0), "float32"), None, "Tensor([], device=xpux:0)"),
        (np.float64(1.5), None, "Tensor(1.5, device=xpux:0)"),
        (np.uint32(7), None, "Tensor(7, dtype=uint32, device=xpux:0)"),
        ([2**64 - 1], None, "Tensor([18446744073709551615], dtype=uint64, device=xpux:0)"),
        (2**64 - 1, "uint64", "Tensor(18446744073709551615, dtype=uint64, device=xpux:0)"),
    ],
)
def test_construction(data, dtype, text):
    assert repr(T(data, dtype=dtype)) == str(T(data, dtype=dtype)) == text


def test_long_tensors_are_cut_as_numpy_does():
    assert "..." in repr(T(np.arange(2000.0)))


@pytest.mark.parametrize("data", ["a", ["a"], [None], [[1, 2], [3]], {1: 2}])
def test_what_is_no_number_raises(data):
    with pytest.raises((TypeError, ValueError)):
        T(data)


def test_integers_that_do_not_fit_warn():
    with pytest.warns(UserWarning, match="int32"):
        t = T(np.array([2**40 + 1]))
    assert t.dtype == np.int32
    with pytest.raises((ValueError, OverflowError)):
        T(2**70)


def test_no_memory_is_shared_with_numpy():
    a = np.ones(3, "float32")
    t = T(a)
    a[0] = 9
    np.testing.assert_array_equal(t.numpy(), [1, 1, 1])
    view = t.numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 7
    t[0] = 5
    np.testing.assert_array_equal(view, [1, 1, 1])
    np.testing.assert_array_equal(t.numpy(), [5, 1, 1])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(4.0)[::-1],
        np.broadcast_to(np.float32(3), (2, 2)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(6, dtype=">i4"),
        np.zeros(3, dtype=[("a", "i1"), ("b", "<f4")])["b"],
    ],
)
def test_any_layout_of_array(array):
    np.testing.assert_array_equal(T(array).numpy(), array)


def test_numpy_protocols():
    t = T([[1.0, 4.0]])
    assert np.asarray(t).dtype == np.float32
    assert np.array(t, dtype="float64", copy=True).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype="float64", copy=False)
    assert isinstance(np.sqrt(t), Tensor)
    np.testing.assert_array_equal(np.sqrt(t).numpy(), [[1.0, 2.0]])
    assert isinstance(np.ones((1, 2)) * t, Tensor)
    assert (np.float64(2) * t).dtype == np.float32
    assert np.mean(t) == 2.5
    np.testing.assert_array_equal(np.concatenate([t, t]), [[1, 4], [1, 4]])
    np.testing.assert_allclose(t, t)


def test_bfloat16_is_ml_dtypes():
    t = T([1.5, -2.0], dtype="bfloat16")
    assert t.numpy().dtype == ml_dtypes.bfloat16
    back = T(t.numpy())
    assert back.dtype == ml_dtypes.bfloat16
    assert back.tolist() == [1.5, -2.0]


DTYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_promotion(a, b):
    """Tensors of two dtypes, by the reference's rule; float64, int64 and bfloat16 are ours."""
    x, y = T([1], dtype=a), T([1], dtype=b)
    kinds = [np.dtype(d).kind if d != "bfloat16" else "f" for d in (a, b)]
    wide = {"uint32", "uint64"} & {a, b}
    if not wide and kinds in (["i", "u"], ["u", "i"]):
        with pytest.raises(TypeError, match="signed and unsigned"):
            _ = x + y
        return
    if kinds == ["b", "b"]:
        with pytest.raises(TypeError, match="bool"):
            _ = x + y
        return
    if a == b:
        want = a
    elif "float64" in (a, b):
        want = "float64"
    elif "f" in kinds or "b" in kinds:
        want = "float32"
    elif wide:
        want = str(np.promote_types(a, b))
    else:
        want = max(a, b, key=lambda d: np.dtype(d).itemsize)
    assert str((x + y).dtype) == want
    assert (x == y).dtype == np.bool_


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_numbers_are_weak(dtype):
    x = T([1], dtype=dtype)
    floating = "float" in dtype
    assert str((x + 1.5).dtype) == (dtype if floating else "float32")
    assert str((x + 1).dtype) == ("float32" if dtype == "bool" else dtype)
    assert str((1 - x).dtype) == ("float32" if dtype == "bool" else dtype)
    assert str((x / 2).dtype) == (dtype if floating else "float32")
    assert str((x**2).dtype) == (dtype if floating else "float32")


def test_operators_of_strange_operands():
    t = T([1.0])
    pair = [1.0, 2.0]
    for other in (None, object(), "a"):
        with pytest.raises(TypeError):
            _ = t + other
    with pytest.raises(TypeError, match="bool"):
        _ = t & 1
    np.testing.assert_array_equal((t + pair).numpy(), [2.0, 3.0])
    np.testing.assert_array_equal((pair + t).numpy(), [2.0, 3.0])


def test_in_place_operators_keep_the_object():
    x = y = T([1.0, 2.0])
    y += 1
    assert x is y
    np.testing.assert_array_equal(x.numpy(), [2.0, 3.0])
    p = Parameter([1.0])
    p *= 3
    assert repr(p) == "Parameter([3.], device=xpux:0)"
    p += T([1.0, 2.0])  # as the reference: the shape may change
    np.testing.assert_array_equal(p.numpy(), [4.0, 5.0])


def test_python_protocols():
    assert float(T([2.0])) == 2.0
    assert int(T(2)) == 2
    assert list(range(3))[T(1)] == 1
    assert bool(T(0.0)) is False
    with pytest.raises(ValueError, match="ambiguous"):
        bool(T([1.0, 2.0]))
    with pytest.raises(TypeError, match="no dimensions"):
        len(T(1.0))
    with pytest.raises(TypeError, match="no dimensions"):
        iter(T(1.0))
    assert [t.item() for t in T([1, 2])] == [1, 2]
    assert f"{T(1.5):.2f}" == "1.50"
    assert 2.0 in T([1.0, 2.0])
    assert len({T(1.0), T(1.0)}) == 2
    with pytest.raises(AttributeError, match="reserved"):
        _ = T(1.0).requires_grad


def test_parameter_is_a_tensor_and_results_are_tensors():
    p = Parameter([1.0])
    assert isinstance(p, Tensor)
    assert type(p + 1) is type(p.detach()) is type(p[0]) is Tensor
    assert type(Tensor(p)) is Tensor
    assert type(Parameter(T([1.0]))) is Parameter


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_and_pickles(dtype):
    p = Parameter(T([[1, 0]], dtype=dtype), name="weight")
    for q in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is Parameter
        assert q.dtype == p.dtype
        assert q.tolist() == p.tolist()
    assert copy.deepcopy(p).name == "weight"


def test_devices():
    assert str(T([1.0]).device) == "xpux:0"
    assert repr(T([1.0], device="cpux").device) == 'CompNode("cpu0:0" from "cpux:0")'
    assert repr(T([1.0]).to("cpu0")) == "Tensor([1.], device=cpu0:0)"
    for name in ("gpu0", "gpux"):
        with pytest.raises(RuntimeError, match="not there"):
            T([1.0], device=name)
    with pytest.raises(ValueError, match="unknown device 'foo'"):
        T([1.0], device="foo")
    with pytest.raises(RuntimeError, match="one device"):
        _ = T([1.0], device="cpu0") + T([1.0], device="cpu1")


def test_default_device():
    try:
        mge.set_default_device("cpux")
        assert mge.get_default_device() == "cpux"
        assert str(T([1.0])) == "Tensor([1.], device=cpux:0)"
    finally:
        mge.set_default_device("xpux")
    with pytest.raises(RuntimeError, match="not there"):
        mge.set_default_device("gpux")


def test_memory_is_counted_and_given_back():
    before = mge.get_allocated_memory()
    t = T(np.zeros(1 << 20, "float32"))
    assert mge.get_allocated_memory() - before >= 4 << 20
    del t
    assert mge.get_allocated_memory() == before
    mge.coalesce_free_memory()
    assert mge.get_reserved_memory() >= mge.get_allocated_memory()


def test_too_large_raises_memory_error():
    import megengine.functional as F

    with pytest.raises(MemoryError, match="bytes"):
        F.zeros((1 << 20, 1 << 20, 64))
    with pytest.raises(ValueError, match="elements"):
        F.zeros((1 << 40, 1 << 40))
