"""DLPack both ways: memory is shared, lifetimes hold, nobody writes into a value."""

from __future__ import annotations

import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.utils.dlpack import from_dlpack, to_dlpack
from tests.exchange import DTYPES


class Producer:
    """An array that speaks DLPack through NumPy, whose end can be watched."""

    def __init__(self, array, legacy=False):
        self.array, self.legacy = array, legacy

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        if self.legacy and kwargs:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**kwargs)


def watched(shape, dtype="float32"):
    """An array and a reference that tells whether its memory lives."""

    class Memory(np.ndarray):
        pass

    array = np.arange(np.prod(shape), dtype=dtype).reshape(shape).view(Memory)
    return array, weakref.ref(array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3, 4)])
def test_to_and_from_numpy(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    taken = from_dlpack(array)
    assert taken.dtype == array.dtype
    assert taken.shape == array.shape
    np.testing.assert_array_equal(taken.numpy(), array)
    given = np.from_dlpack(taken)
    np.testing.assert_array_equal(given, array)
    assert given.dtype == array.dtype
    if array.size:
        assert np.shares_memory(taken.numpy(), array)
        assert np.shares_memory(given, array)
        assert not given.flags.writeable


def test_bfloat16():
    x = mge.tensor([1.5, -2.0], dtype="bfloat16")
    back = from_dlpack(x)
    assert back.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(back.numpy(), x.numpy())


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2, 1:],
        lambda a: a[::-1],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[:1], (3, 6)),
        lambda a: a.reshape(1, 2, 3, 4).transpose(0, 3, 1, 2),
    ],
    ids=["slices", "reversed", "transposed", "broadcast", "channels last"],
)
def test_strides(view):
    array = view(np.arange(24, dtype="float32").reshape(4, 6))
    x = from_dlpack(array)
    assert np.shares_memory(x.numpy(), array)
    np.testing.assert_array_equal((x + 1).numpy(), array + 1)
    np.testing.assert_array_equal(np.from_dlpack(x), array)


def test_tensor_views_are_given_with_their_strides():
    x = mge.tensor(np.arange(24, dtype="float32").reshape(4, 6))
    view = x[1:, ::2]
    given = np.from_dlpack(view)
    assert np.shares_memory(given, x.numpy())
    np.testing.assert_array_equal(given, x.numpy()[1:, ::2])


def test_axes_that_run_backwards_are_given_as_a_copy():
    view = mge.tensor([1.0, 2.0])[::-1]
    given = np.from_dlpack(view)
    assert given.strides == (4,)
    assert given.tolist() == [2, 1]
    assert np.from_dlpack(view, copy=False).strides == (-4,)


def test_the_producer_is_freed_with_the_last_view():
    array, alive = watched((4, 6))
    x = from_dlpack(array)
    del array
    view = x[1:3]
    del x
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(view.numpy()[0], np.arange(6, 12))
    del view
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_consumes_is_freed():
    array, alive = watched((3,))
    x = from_dlpack(array)
    del array
    capsules = [x.__dlpack__(max_version=(1, 0)), x.__dlpack__(max_version=(1, 0))]
    del x
    gc.collect()
    assert alive() is not None
    del capsules
    gc.collect()
    assert alive() is None


def test_an_array_keeps_the_tensor_alive():
    x = mge.tensor(np.arange(100_000, dtype="float32"))
    given = np.from_dlpack(x)
    del x
    F.ones((100_000,))  # would get the memory, if it were free
    np.testing.assert_array_equal(given, np.arange(100_000))


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_is_consumed_once(max_version):
    capsule = mge.tensor([1.0, 2.0]).__dlpack__(max_version=max_version)
    from_dlpack(capsule)
    with pytest.raises(ValueError, match="nobody has consumed yet, got one named 'used_dltensor"):
        from_dlpack(capsule)


def test_updates_in_place_leave_the_producer_alone():
    array = np.ones(4, "float32")
    x = from_dlpack(array)
    x += 1
    x[0] = 7
    np.testing.assert_array_equal(array, np.ones(4))
    np.testing.assert_array_equal(x.numpy(), [7, 2, 2, 2])
    y = from_dlpack(array)
    y *= 3
    np.testing.assert_array_equal(array, np.ones(4))


def test_an_optimizer_leaves_the_producer_alone():
    array = np.ones(4, "float32")
    p = mge.Parameter([0.0])
    p._reset(from_dlpack(array))
    optimizer = mge.optimizer.SGD([p], lr=1.0)
    with mge.autodiff.GradManager().attach([p]) as gm:
        gm.backward(F.sum(p * 2))
    optimizer.step()
    np.testing.assert_array_equal(p.numpy(), -np.ones(4))
    np.testing.assert_array_equal(array, np.ones(4))


def test_later_writes_of_the_producer_show_unless_copied():
    array = np.zeros(2, "float32")
    shared, own = from_dlpack(array), from_dlpack(array, copy=True)
    array[0] = 5
    assert shared.tolist() == [5, 0]
    assert own.tolist() == [0, 0]


def test_legacy_consumers_get_a_copy():
    x = mge.tensor([1.0, 2.0])

    class Legacy:
        def __dlpack_device__(self):
            return x.__dlpack_device__()

        def __dlpack__(self, **kwargs):
            return to_dlpack(x)

    given = np.from_dlpack(Legacy())
    assert not np.shares_memory(given, x.numpy())
    np.testing.assert_array_equal(given, [1, 2])
    with pytest.raises(BufferError, match="read-only, which capsules before DLPack"):
        x.__dlpack__(copy=False)


def test_a_copy_is_writable():
    x = mge.tensor([1.0, 2.0])
    given = np.from_dlpack(x, copy=True)
    given[0] = 9
    assert x.tolist() == [1, 2]


def test_legacy_producers():
    array = np.arange(3, dtype="int32")
    x = from_dlpack(Producer(array, legacy=True))
    assert np.shares_memory(x.numpy(), array)


def test_read_only_producers():
    array = np.arange(3, dtype="int32")
    array.flags.writeable = False
    x = from_dlpack(array)
    x += 1
    assert x.tolist() == [1, 2, 3]
    assert array.tolist() == [0, 1, 2]


def test_memory_that_is_not_aligned_is_copied():
    raw = np.zeros(17, "uint8")
    array = raw[1:].view("float32")
    array[:] = [1, 2, 3, 4]
    assert from_dlpack(array[::2]).tolist() == [1, 3]
    with pytest.raises(BufferError, match="not aligned"):
        from_dlpack(array, copy=False)


def test_a_traced_call_is_computed_first():
    @mge.jit.trace
    def doubled(x):
        return x * 2

    for _ in range(3):
        np.testing.assert_array_equal(np.from_dlpack(doubled(mge.tensor([1.0, 2.0]))), [2, 4])


def four_bit_integers():
    """A capsule of a dtype that neither Tensors nor NumPy have."""
    capsule = to_dlpack(mge.tensor([1, 2], dtype="int32"))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The dtype follows the address, the device and the number of dimensions.
    bits = ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 21)
    bits.value = 4
    return capsule


def test_refusals():
    with pytest.raises(BufferError, match="dtype that Tensors have, got int4"):
        from_dlpack(four_bit_integers())
    with pytest.raises(TypeError, match="expected an array with __dlpack__"):
        from_dlpack(3)
    with pytest.raises(TypeError, match="to_dlpack: expected a Tensor, got int"):
        to_dlpack(3)
    with pytest.raises(ValueError, match="no streams"):
        from_dlpack(np.zeros(2), stream=1)
    with pytest.raises(ValueError, match="no streams"):
        mge.tensor([1.0]).__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"expected dl_device=\(1, 0\), the CPU, got \(2, 0\)"):
        mge.tensor([1.0]).__dlpack__(dl_device=(2, 0))

    class Elsewhere(Producer):
        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(BufferError, match="memory of the CPU, got device type 2"):
        from_dlpack(Elsewhere(np.zeros(2)))
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        from_dlpack(np.zeros((1,) * 9))


def test_torch():
    torch = pytest.importorskip("torch")
    source = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = from_dlpack(source)
    assert x.numpy().ctypes.data == source.data_ptr()
    back = torch.from_dlpack(x.astype("bfloat16"))
    assert back.dtype == torch.bfloat16
    assert back.tolist() == source.tolist()
    legacy = torch.utils.dlpack.from_dlpack(to_dlpack(x))
    legacy[0, 0] = 9
    assert x.tolist()[0][0] == 0
    half = from_dlpack(source.to(torch.bfloat16).to(memory_format=torch.contiguous_format))
    assert half.dtype == ml_dtypes.bfloat16


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    x = from_dlpack(jnp.arange(6, dtype="float32").reshape(2, 3))
    np.testing.assert_array_equal(x.numpy(), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(x)), x.numpy())
