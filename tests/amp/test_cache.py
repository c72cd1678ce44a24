"""Casts that open scopes keep."""

import gc

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine import _core
from megengine.amp import autocast
from megengine.autodiff import GradManager
from megengine.device import get_allocated_memory


def counts():
    now = _core.autocast_cache()
    return now["casts"], now["reuses"], now["entries"]


def weight(n=64):
    return mge.Parameter(np.random.default_rng(0).standard_normal((n, n)).astype(np.float32))


def test_weights_are_cast_once_in_a_scope():
    w, x = weight(), mge.tensor(np.ones((4, 64), np.float32)).astype("bfloat16")
    casts, reuses, _ = counts()
    with autocast():
        for _ in range(5):
            x = F.matmul(x, w)
        assert counts() == (casts + 1, reuses + 4, 1)
    assert counts()[2] == 0


def test_a_training_step_casts_each_weight_once():
    net = M.Sequential(*(M.Linear(16, 16, bias=False) for _ in range(3)))
    gm, opt = GradManager().attach(net.parameters()), optim.SGD(net.parameters(), lr=0.1)
    x = mge.tensor(np.ones((4, 16), np.float32)).astype("bfloat16")
    for _ in range(3):
        casts, _, _ = counts()
        with autocast(), gm:
            gm.backward(net(net(x)).astype("float32").sum())
        opt.step().clear_grad()
        assert counts()[0] == casts + 3
        assert counts()[2] == 0


def test_a_changed_value_is_cast_again():
    w, x = weight(2), mge.tensor(np.eye(2, dtype=np.float32))
    with autocast():
        before = F.matmul(x, w).numpy().astype(np.float32)
        w[...] = w * 2
        after = F.matmul(x, w).numpy().astype(np.float32)
    np.testing.assert_array_equal(after, 2 * before)


def test_another_dtype_in_an_inner_scope():
    w, x = weight(2), mge.tensor(np.eye(2, dtype=np.float32))
    with autocast():
        assert str(F.matmul(x, w).dtype) == "bfloat16"
        with autocast(low_prec_dtype="float16"):
            assert str(F.matmul(x, w).dtype) == "float16"
        assert str(F.matmul(x, w).dtype) == "bfloat16"


def test_a_cast_goes_with_its_value():
    with autocast():
        w = weight()
        F.matmul(w, w)
        assert counts()[2] == 1
        del w
        gc.collect()
        assert counts()[2] == 0


def test_optimizers_step_in_place_within_a_scope():
    """The kept cast does not hold the weight, whose buffer the step takes over."""
    w = weight(512)
    opt, gm = optim.SGD([w], lr=0.1), GradManager().attach([w])
    x = mge.tensor(np.ones((4, 512), np.float32))

    @autocast()
    def step():
        with gm:
            gm.backward(F.matmul(x, w).astype("float32").sum())
        place = w.numpy().ctypes.data
        opt.step().clear_grad()
        return place == w.numpy().ctypes.data

    assert step()
    assert step()


def test_memory_comes_back():
    w, x = weight(256), mge.tensor(np.ones((4, 256), np.float32))
    gc.collect()
    before = get_allocated_memory()
    for _ in range(3):
        with autocast():
            F.matmul(x, w)
            assert get_allocated_memory() >= before + 2 * 256 * 256
        gc.collect()
        assert get_allocated_memory() == before


def test_gradients_of_several_uses_add_up_in_float32():
    """Each use has a gradient of its own: 1 + 256 times 2^-9 is 1.5, which bfloat16 sums lose."""
    w = mge.Parameter(np.ones((1, 1), np.float32))
    gm = GradManager().attach([w])
    with autocast(), gm:
        one = mge.tensor([[1.0]])
        small = mge.tensor([[2.0**-9]])
        y = F.matmul(one, w).astype("float32")
        for _ in range(256):
            y = y + F.matmul(small, w).astype("float32")
        gm.backward(y)
    np.testing.assert_array_equal(w.grad.numpy(), [[1.5]])


def test_a_cast_from_outside_the_tape_still_gets_a_gradient():
    w, x = weight(2), mge.tensor(np.eye(2, dtype=np.float32))
    with autocast():
        F.matmul(x, w)
        gm = GradManager().attach([w])
        for _ in range(2):
            with gm:
                gm.backward(F.matmul(x, w).astype("float32").sum())
    np.testing.assert_array_equal(w.grad.numpy(), 2 * np.ones((2, 2)))
