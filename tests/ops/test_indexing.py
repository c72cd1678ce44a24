"""Index expressions against NumPy: thousands of random ones, and the cases that matter by name."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import _core
from megengine.autodiff import GradManager
from tests.ops.compare import array, tensor
from tests.ops.record import FLOATS, INTS, Array

Key = Any
DTYPES = (*FLOATS, *INTS, "bool")


# ---- random expressions -------------------------------------------------------------------------


def random_slice(rng: np.random.Generator, n: int) -> slice:
    bounds = [None, *range(-n - 2, n + 3)]
    step = rng.choice([-3, -2, -1, 1, 1, 1, 2, 3, 100])
    start, stop = (bounds[rng.integers(len(bounds))] for _ in range(2))
    return slice(start, stop, None if step == 1 else int(step))


def random_basic(rng: np.random.Generator, shape: tuple[int, ...]) -> Key:
    items: list[Any] = []
    for n in shape[: rng.integers(0, len(shape) + 1)]:
        if n and rng.random() < 0.3:
            items.append(int(rng.integers(-n, n)))
        else:
            items.append(random_slice(rng, n))
    for _ in range(rng.integers(0, 3)):
        if rng.random() < 0.5:
            items.insert(rng.integers(len(items) + 1), None)
    if rng.random() < 0.3 and Ellipsis not in items:
        at = rng.integers(len(items) + 1)
        items.insert(at, Ellipsis)
        # What follows the ellipsis addresses the last axes.
        tail = [i for i in items[at + 1 :] if i is not None]
        axes = shape[len(shape) - len(tail) :]
        for k, n in enumerate(axes):
            place = [j for j in range(at + 1, len(items)) if items[j] is not None][k]
            if isinstance(items[place], int):
                items[place] = int(rng.integers(-n, n)) if n else slice(None)
    if len(items) == 1 and rng.random() < 0.5:
        return items[0]
    return tuple(items)


def random_advanced(rng: np.random.Generator, shape: tuple[int, ...]) -> Key:
    """Ints, slices, None, Ellipsis, index arrays that broadcast together, masks and bools."""
    common = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    items: list[Any] = []
    axis, used_mask = 0, False
    while axis < len(shape) and rng.random() < 0.85:
        n = shape[axis]
        kind = rng.random()
        if kind < 0.15 and n:
            items.append(int(rng.integers(-n, n)))
        elif kind < 0.4:
            items.append(random_slice(rng, n))
        elif kind < 0.55 and not used_mask:
            dims = int(rng.integers(1, len(shape) - axis + 1))
            mask = rng.random(shape[axis : axis + dims]) < 0.5
            if len(common) != 1 or int(mask.sum()) in (1, common[0]) or not items:
                if not any(isinstance(i, np.ndarray) for i in items):
                    common = (int(mask.sum()),)
                elif int(mask.sum()) not in (1, common[-1] if common else 1):
                    continue
                items.append(mask)
                used_mask = True
                axis += dims
                continue
            items.append(slice(None))
        elif n:
            cut = [1 if rng.random() < 0.2 else m for m in common[rng.integers(len(common) + 1) :]]
            items.append(rng.integers(-n, n, tuple(cut)))
        else:
            items.append(slice(None))
        axis += 1
    if rng.random() < 0.2:
        items.insert(rng.integers(len(items) + 1), None)
    if rng.random() < 0.2 and axis == len(shape):
        items.insert(rng.integers(len(items) + 1), Ellipsis)
    return tuple(items)


def as_given(rng: np.random.Generator, key: Key) -> Key:
    """The expression with arrays as Tensors, lists or arrays, and ints as NumPy's or Tensors."""
    if isinstance(key, tuple):
        return tuple(as_given(rng, k) for k in key)
    if isinstance(key, np.ndarray):
        way = rng.integers(3)
        if way == 0:
            return key
        # A list within a list would be read as a tuple.
        if way == 1 and key.ndim == 1:
            return key.tolist()
        return tensor(key)
    if isinstance(key, int) and not isinstance(key, bool) and rng.random() < 0.3:
        return np.int64(key) if rng.random() < 0.5 else mge.tensor(key)
    return key


def random_tensor(rng: np.random.Generator) -> tuple[Array, mge.Tensor]:
    shape = tuple(rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(0, 5)))
    x = rng.integers(-100, 100, shape).astype("float32")
    t = mge.tensor(x)
    if x.ndim > 1 and rng.random() < 0.4:  # not contiguous
        order = rng.permutation(x.ndim)
        x, t = x.transpose(order), F.transpose(t, [int(i) for i in order])
    if x.ndim and rng.random() < 0.2:
        x, t = x[::-1], t[::-1]
    return x, t


@pytest.mark.parametrize("kind", [random_basic, random_advanced], ids=["basic", "advanced"])
@pytest.mark.parametrize("part", range(4))
def test_random_expressions(rng: np.random.Generator, kind: Any, part: int) -> None:
    for i in range(500):
        rng = np.random.default_rng([part, i])
        x, t = random_tensor(rng)
        key = kind(rng, x.shape)
        given = as_given(rng, key)
        try:
            want = x[key]
        except IndexError:
            with pytest.raises((IndexError, ValueError)):
                t[given]
            continue
        got = t[given]
        assert got.shape == want.shape, (x.shape, key, got.shape, want.shape)
        np.testing.assert_array_equal(got.numpy(), want, err_msg=f"{x.shape} {key}")
        check_assignment(rng, x, t, key, given, want.shape)
        np.testing.assert_array_equal(t.numpy(), x)  # never changed by what another slot did


def check_assignment(
    rng: np.random.Generator, x: Array, t: mge.Tensor, key: Key, given: Key, shape: tuple[int, ...]
) -> None:
    cut = [1 if rng.random() < 0.2 else n for n in shape[rng.integers(len(shape) + 1) :]]
    value = rng.integers(-100, 100, tuple(cut)).astype("float32")
    want = x.copy()
    want[key] = value
    out = F.copy(t) if rng.random() < 0.5 else t.detach()
    out[given] = value.item() if value.ndim == 0 and rng.random() < 0.5 else mge.tensor(value)
    assert out.shape == want.shape
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out.numpy(), want, err_msg=f"{x.shape} {key} = {value.shape}")


def test_random_gradients() -> None:
    """x[key] and x[key] = v, with random upstreams, against the transposed maps."""
    for i in range(300):
        rng = np.random.default_rng([7, i])
        x, _ = random_tensor(rng)
        key = (random_basic if i % 2 else random_advanced)(rng, x.shape)
        try:
            want = x[key]
        except IndexError:
            continue
        given = as_given(rng, key)
        dy = rng.standard_normal(want.shape)
        expected = np.zeros(x.shape)
        np.add.at(expected, key, dy)
        t = mge.tensor(x, dtype="float64")
        gm = GradManager().attach([t])
        with gm:
            gm.backward(t[given], tensor(dy))
        np.testing.assert_allclose(t.grad.numpy(), expected, err_msg=f"{x.shape} {key}")

        # Assignment: which element of (x, v) each element of the result is.
        v = rng.standard_normal(want.shape)
        origin = np.arange(x.size).reshape(x.shape)
        origin[key] = x.size + np.arange(v.size).reshape(v.shape)
        dy = rng.standard_normal(x.shape)
        flat = np.zeros(x.size + v.size)
        np.add.at(flat, origin, dy)
        t, w = mge.tensor(x, dtype="float64"), tensor(v)
        gm = GradManager().attach([t, w])
        with gm:
            out = F.copy(t)
            out[given] = w
            gm.backward(out, tensor(dy))
        np.testing.assert_allclose(t.grad.numpy(), flat[: x.size].reshape(x.shape))
        if w.grad is not None or v.size:
            np.testing.assert_allclose(w.grad.numpy(), flat[x.size :].reshape(v.shape))


# ---- by name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    x = np.arange(24).reshape(2, 3, 4) % 2 if dtype == "bool" else np.arange(24.0).reshape(2, 3, 4)
    t = tensor(x, dtype)
    for key in (1, np.s_[:, ::-1], np.s_[..., [0, 3, 3]], np.s_[[0, 1], :, [1, 2]], x > 11):
        np.testing.assert_array_equal(array(t[key]), x[key])
        out, want = F.copy(t), x.copy()
        out[key] = 1
        want[key] = 1
        np.testing.assert_array_equal(array(out), want)
        assert out.dtype == t.dtype


def test_repeated_indices_accumulate() -> None:
    x = mge.tensor([10.0, 20.0, 30.0])
    gm = GradManager().attach([x])
    with gm:
        gm.backward(x[mge.tensor([0, 2, 0, 0], dtype="int32")], mge.tensor([1.0, 2.0, 3.0, 4.0]))
    assert x.grad.numpy().tolist() == [8, 0, 2]


def test_accumulation_is_accurate_and_fixed() -> None:
    """A float32 running sum of so many terms would be off in the third digit, or stop growing."""
    n = 1 << 22
    index = F.zeros((n,), dtype="int32")
    v = np.random.default_rng(0).random((n, 1), np.float32)
    for value in (F.full((n, 1), 0.1), tensor(v)):
        out = _core.call(
            mge.core.ops.builtin.IndexingIncrMultiAxisVec(vec_axis=(0,), at=0),
            F.zeros((2, 1)),
            value,
            index,
        )
        want = value.numpy().astype(np.float64).sum()
        np.testing.assert_allclose(out.numpy()[0, 0], want, rtol=1e-7)


def test_last_write_wins() -> None:
    a = mge.tensor([[5, 6], [7, 8]])
    a[[1, 1], [0, 0]] = mge.tensor([9, 0])
    assert a.numpy().tolist() == [[5, 6], [0, 8]]
    t = mge.tensor([[4], [5]])
    t[[1, 1]] = mge.tensor([[8], [3]])
    assert t.numpy().tolist() == [[4], [3]]


@pytest.mark.parametrize("columns", [1, 3, 2000])
def test_last_write_wins_among_threads(columns: int) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, 50, 20000)
    v = rng.standard_normal((20000, columns)).astype("float32")
    x = np.zeros((60, columns), "float32")
    t = mge.tensor(x)
    t[tensor(index)] = mge.tensor(v)
    x[index] = v
    np.testing.assert_array_equal(t.numpy(), x)


def test_assignment_keeps_the_dtype() -> None:
    x = mge.tensor([1.5, 2.5])
    x[0] = mge.tensor(3, dtype="int32")
    assert x.dtype == np.float32
    assert x.numpy().tolist() == [3, 2.5]
    i = mge.tensor([1, 2], dtype="int32")
    i[0] = 2.9
    assert i.dtype == np.int32
    assert i.numpy().tolist() == [2, 2]
    i[[1]] = [7.9]
    assert i.numpy().tolist() == [2, 7]
    u = mge.tensor([1, 2], dtype="uint8")
    u[0] = 300
    assert u.numpy().tolist() == [44, 2]
    w = mge.tensor([0], dtype="int64")
    w[0] = 2**53 + 1
    assert w.numpy().tolist() == [2**53 + 1]
    h = F.zeros((2,), dtype="float16")
    h[h == 0] = 0.5
    assert h.dtype == np.float16
    assert h.numpy().tolist() == [0.5, 0.5]


def test_slices() -> None:
    x = mge.tensor(np.arange(6.0))
    assert x[::-2].numpy().tolist() == [5, 3, 1]
    assert x[-2:].numpy().tolist() == [4, 5]
    assert x[4:1:-1].numpy().tolist() == [4, 3, 2]
    assert x[-100:2].numpy().tolist() == [0, 1]
    assert x[5:2].shape == (0,)
    assert x[mge.tensor(1) : mge.tensor(3)].numpy().tolist() == [1, 2]
    assert x[:: 2**62].numpy().tolist() == [0]
    assert x[:: -(2**63)].numpy().tolist() == [5]
    assert x[2**70 :].shape == (0,)


@pytest.mark.parametrize(
    "key",
    [
        5,
        -4,
        2**70,
        (0, 0),
        (..., 0, 0),
        (..., ...),
        mge.tensor([0, 3]),
        mge.tensor([-4]),
        [3],
        np.array([0, 3]),
        1.0,
        "a",
        mge.tensor([1.0]),
        np.array([1.0]),
        [True, False],
        np.ones((3, 1), bool),
        mge.tensor([True, False]),
        ([0, 1], [0, 1]),
        {},
        object(),
    ],
    ids=repr,
)
def test_bad_expressions_raise(key: Key) -> None:
    x = mge.tensor([1.0, 2.0, 3.0])
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises(IndexError):
        x[key] = 0.0
    assert x.numpy().tolist() == [1, 2, 3]


def test_messages_name_index_axis_and_size() -> None:
    x = F.zeros((2, 3))
    for key in ((slice(None), 7), (slice(None), mge.tensor([0, 7])), (0, [7])):
        with pytest.raises(IndexError, match=r"index 7 .*axis 1 .*size 3"):
            x[key]
    with pytest.raises(IndexError, match=r"index -4 .*axis 1 .*size 3"):
        x[1:, [0, -4]] = 1.0
    index = mge.tensor([[0, 9]])
    for run in (
        lambda: F.gather(x, 1, index),
        lambda: F.scatter(x, 1, index, F.ones((1, 2))),
        lambda: F.indexing_one_hot(x, mge.tensor([0, 9])),
    ):
        with pytest.raises(IndexError, match=r"index 9 .*axis 1 .*size 3"):
            run()
    assert not x.numpy().any()


def test_one_hot_refuses_what_is_no_class() -> None:
    for label in (-1, 3):
        with pytest.raises(IndexError, match=f"index {label} "):
            F.one_hot(mge.tensor([0, label]), 3)
        with pytest.raises(IndexError, match=f"index {label} "):
            F.indexing_one_hot(F.zeros((2, 3)), mge.tensor([0, label]))
    with pytest.raises(TypeError, match="one_hot"):
        F.one_hot(mge.tensor([0.0]), 3)
    assert F.one_hot(mge.tensor(1), 3).numpy().tolist() == [0, 1, 0]
    assert F.one_hot(mge.tensor([[0, 2]]), 3).numpy().tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert F.one_hot(F.zeros((0,), dtype="int32"), 3).shape == (0, 3)


def test_bad_values_raise_and_leave_the_tensor() -> None:
    x = F.zeros((2, 3))
    for key, value in (
        (0, F.ones((2,))),
        (slice(None), F.ones((3, 2))),
        ([0, 1], F.ones((3, 3))),
        (np.ones((2, 3), bool), F.ones((5,))),
    ):
        with pytest.raises(ValueError, match=r"write a value|broadcast"):
            x[key] = value
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises((TypeError, ValueError)):
        x[0] = "a"
    with pytest.raises((TypeError, ValueError)):
        x[0] = None
    assert x.shape == (2, 3)
    assert not x.numpy().any()


def test_lists_of_lists_are_tuples() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    t = mge.tensor(x)
    np.testing.assert_array_equal(t[[[0, 1], [1, 0]]].numpy(), x[[0, 1], [1, 0]])
    assert t[[[0, 1]]].shape == (2, 3, 4)
    assert t[[0, 1]].shape == (2, 3, 4)
    assert t[[mge.tensor(0), mge.tensor(1)]].shape == (4,)
    assert t[[slice(0, 1), 1]].shape == (1, 4)
    assert t[[]].shape == (0, 3, 4)
    assert t[[True, False]].shape == (1, 3, 4)


def test_bools_are_masks_of_no_dimensions() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = mge.tensor(x)
    for key in (True, False, (True, 0), (slice(None), True), (True, [0, 1]), np.True_):
        np.testing.assert_array_equal(t[key].numpy(), x[key])
    t[True] = 7
    assert (t.numpy() == 7).all()
    t[mge.tensor(False)] = 8
    assert (t.numpy() == 7).all()


def test_items_are_tensors_of_their_own() -> None:
    x = F.zeros((2, 2))
    row = x[0]
    row[0] = 5
    assert not x.numpy().any()
    assert row.numpy().tolist() == [5, 0]
    array_before = x.numpy()
    x[0, 0] = 1
    assert not array_before.any()
    y = x
    y[1, 1] = 2
    assert x.numpy().tolist() == [[1, 0], [0, 2]]


def test_overlapping_assignment() -> None:
    x = F.arange(6)
    x[1:] = x[:-1]
    assert x.numpy().tolist() == [0, 0, 1, 2, 3, 4]
    x[::-1] = x
    assert x.numpy().tolist() == [4, 3, 2, 1, 0, 0]
    x[F.arange(6, dtype="int32")] = x[::-1]
    assert x.numpy().tolist() == [0, 0, 1, 2, 3, 4]


def test_assignment_reuses_the_buffer() -> None:
    x = F.zeros((1000, 1000))
    gc.collect()
    before = mge.get_allocated_memory("cpu0")
    mge.reset_max_memory_stats("cpu0")
    for i in range(10):
        x[i] = float(i)
        x[[i, i + 1]] = float(i)
    assert mge.get_max_allocated_memory("cpu0") < before + 1_000_000


def test_assignment_under_autodiff() -> None:
    x, v = mge.tensor([1.0, 2.0, 3.0]), mge.tensor([5.0])
    gm = GradManager().attach([x, v])
    with gm:
        y = x * 2
        y[1:2] = v * v
        y[0] = 4
        gm.backward((y * y).sum())
    assert x.grad.numpy().tolist() == [0, 0, 24]
    assert v.grad.numpy().tolist() == [4 * 125]


def test_repeated_writes_have_one_gradient() -> None:
    x, v = F.zeros((3,)), mge.tensor([1.0, 2.0, 3.0])
    gm = GradManager().attach([x, v])
    with gm:
        y = F.copy(x)
        y[mge.tensor([1, 2, 1])] = v
        gm.backward(y, mge.tensor([10.0, 20.0, 30.0]))
    assert v.grad.numpy().tolist() == [0, 30, 20]
    assert x.grad.numpy().tolist() == [10, 0, 0]
    v.grad = x.grad = None
    with gm:
        y = F.scatter(F.copy(x), 0, mge.tensor([1, 2, 1]), v)
        gm.backward(y, mge.tensor([10.0, 20.0, 30.0]))
    assert v.grad.numpy().tolist() == [0, 30, 20]


def test_scatter_is_in_place() -> None:
    x = F.zeros((3, 2))
    index, source = mge.tensor([[0, 1], [2, 0]]), mge.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert F.scatter(x, 0, index, source) is x
    assert x.numpy().tolist() == [[1, 4], [0, 2], [3, 0]]
    for bad in (mge.tensor(5.0), mge.tensor([1.0, 2.0]), F.ones((3, 2))):
        with pytest.raises(ValueError, match="scatter"):
            F.scatter(x, 0, index, bad)
    i = F.zeros((2,), dtype="int32")
    assert F.scatter(i, 0, mge.tensor([1]), mge.tensor([2.9])).numpy().tolist() == [0, 2]


def test_gather_refuses_what_does_not_fit() -> None:
    x = F.zeros((3, 2))
    with pytest.raises(ValueError, match="Gather"):
        F.gather(x, 0, mge.tensor([0, 1]))
    with pytest.raises(ValueError, match="Gather"):
        F.gather(x, 0, mge.tensor([[0, 1, 1]]))
    with pytest.raises(ValueError, match="Gather"):
        F.gather(x, 2, mge.tensor([[0, 1]]))
    with pytest.raises(TypeError, match="Gather"):
        F.gather(x, 0, mge.tensor([[0.0, 1.0]]))
    assert F.gather(x, 0, F.zeros((0, 2), dtype="int32")).shape == (0, 2)


def test_cond_take() -> None:
    values, places = F.cond_take(mge.tensor([True, False, True]), mge.tensor([1.0, 2.0, 3.0]))
    assert values.numpy().tolist() == [1, 3]
    assert places.dtype == np.int32
    assert places.numpy().tolist() == [0, 2]
    values, places = F.cond_take(mge.tensor([False]), mge.tensor([1.0]))
    assert values.shape == (0,)
    assert places.shape == (0,)
    assert F.cond_take(mge.tensor(True), mge.tensor(1.0))[0].numpy().tolist() == [1]
    with pytest.raises(ValueError, match="CondTake"):
        F.cond_take(mge.tensor([True]), mge.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="bool"):
        F.cond_take(mge.tensor([1]), mge.tensor([1.0]))
    with pytest.raises(TypeError, match="cond_take"):
        F.cond_take(np.array([True]), mge.tensor([1.0]))  # type: ignore[arg-type]


def test_nonzero() -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (5,), (3, 4), (0, 3), (2, 3, 4), (70000,), (300, 400)):
        mask = rng.random(shape) < 0.5
        got = [v.numpy() for v in _core.nonzero(tensor(mask))]
        want = np.nonzero(mask) if mask.ndim else ()
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_non_zero() -> None:
    x = mge.tensor([[1.0, 0.0], [2.0, 3.0]])
    places = F.non_zero(x)
    assert isinstance(places, mge.Tensor)
    assert places.numpy().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert places.dtype == np.int32
    assert x[F.non_zero(x > 1, as_tuple=True)].numpy().tolist() == [2, 3]
    assert F.non_zero(F.zeros((2, 3))).shape == (0, 2)
    assert F.non_zero(mge.tensor(True)).shape == (1, 0)


def test_where_dtypes() -> None:
    m = mge.tensor([True, False])
    half = F.ones((2,), dtype="float16")
    assert F.where(m, half, half).dtype == np.float16
    assert F.where(m, half, F.ones((2,))).dtype == np.float32
    assert F.where(m, mge.tensor([1, 2]), mge.tensor([3.0, 4.0])).numpy().tolist() == [1, 4]
    assert F.where(m, 1.0, mge.tensor([3, 4])).dtype == np.float32
    for mask in (mge.tensor([1, 0]), mge.tensor([1.0, 0.0])):
        with pytest.raises(ValueError, match="bool"):
            F.where(mask, half, half)
    with pytest.raises(ValueError, match="broadcast"):
        F.where(mge.tensor([True, False, True]), half, half)


def test_memory_format_survives() -> None:
    x = F.ones((4, 3, 5, 5))
    rows = _core.call(mge.core.ops.builtin.Contiguous(), F.transpose(x, (0, 2, 3, 1)))
    last = F.transpose(rows, (0, 3, 1, 2))
    assert last._strides[1] == 1
    assert last[1:3]._strides[1] == 1
    assert last[[0, 2]]._strides[1] == 1
    assert F.concat([last, last], axis=1)._strides == (150, 1, 30, 6)
    assert F.copy(last)._strides == last._strides
    last[0] = 0.0
    assert last._strides[1] == 1
    flat = F.flatten(last, 1)
    np.testing.assert_array_equal(flat.numpy(), last.numpy().reshape(4, -1))
