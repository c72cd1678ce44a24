"""GradScaler."""

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.optimizer as optim
from megengine.amp import GradScaler, autocast
from megengine.autodiff import GradManager
from megengine.jit import trace


def parameter(*values):
    return mge.Parameter(np.array(values, np.float32))


def step(scaler, p, gm, opt, factor):
    with gm:
        scaler.backward(gm, (p * mge.tensor(np.array([factor, 1], np.float32))).sum())
    grad = None if p.grad is None else p.grad.numpy().tolist()
    opt.step().clear_grad()
    return grad, scaler.scale_factor, scaler._growth_tracker, p.numpy().tolist()


def test_overflows_are_skipped_and_the_scale_adapts():
    """What the reference gives for the same steps."""
    p = parameter(1, 1)
    gm, opt = GradManager().attach([p]), optim.SGD([p], lr=1.0)
    scaler = GradScaler(init_scale=16, growth_interval=2)
    got = [step(scaler, p, gm, opt, f) for f in (np.inf, 1, 1, 1, np.nan, 2)]
    assert got == [
        (None, 8.0, 0, [1, 1]),
        ([1, 1], 8.0, 1, [0, 0]),
        ([1, 1], 16.0, 0, [-1, -1]),
        ([1, 1], 16.0, 1, [-2, -2]),
        (None, 8.0, 0, [-2, -2]),
        ([2, 1], 8.0, 1, [-4, -3]),
    ]


def test_one_bad_gradient_skips_all():
    p, q = parameter(1, 1), parameter(1, 1)
    p.grad, q.grad = mge.tensor([1.0, np.inf]), mge.tensor([2.0, 2.0])
    scaler = GradScaler(2.0)
    assert scaler.unscale([p, q]) is scaler
    assert p.grad is None
    assert q.grad is None
    scaler.update()
    assert scaler.scale_factor == 1.0


def test_a_scaled_gradient_that_overflows_alone():
    """The gradient is finite, scaled it is not: the step is skipped and the scale falls."""
    p = parameter(1, 1)
    gm, opt = GradManager().attach([p]), optim.SGD([p], lr=1.0)
    scaler = GradScaler(16)
    assert step(scaler, p, gm, opt, 1e38) == (None, 8.0, 0, [1, 1])


def test_unscale_keeps_the_tensor_and_its_buffer():
    p = parameter(1, 1)
    grad = p.grad = mge.tensor(np.full(1000, 4.0, np.float32))
    place = grad.numpy().ctypes.data
    GradScaler(2.0).unscale([p])
    assert p.grad is grad
    assert grad.numpy().ctypes.data == place
    np.testing.assert_array_equal(grad.numpy(), 2.0)


def test_a_gradient_that_others_see_is_not_written_over():
    p = parameter(1, 1)
    p.grad = mge.tensor([4.0, 8.0])
    seen, other = p.grad.numpy(), p.grad[...]
    GradScaler(2.0).unscale([p])
    np.testing.assert_array_equal(p.grad.numpy(), [2, 4])
    np.testing.assert_array_equal(seen, [4, 8])
    np.testing.assert_array_equal(other.numpy(), [4, 8])


def test_a_shared_gradient_is_unscaled_once():
    p, q = parameter(1, 1), parameter(1, 1)
    p.grad = q.grad = mge.tensor([4.0, 8.0])
    GradScaler(2.0).unscale([p, q])
    np.testing.assert_array_equal(q.grad.numpy(), [2, 4])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_gradients_of_other_dtypes(dtype):
    p, q = parameter(1, 1), parameter(1, 1)
    p.grad, q.grad = mge.tensor([1.0, 4.0]).astype(dtype), mge.tensor([2.0, 2.0])
    GradScaler(2.0).unscale([p, q])
    assert str(p.grad.dtype) == dtype
    np.testing.assert_array_equal(p.grad.astype("float32").numpy(), [0.5, 2])
    np.testing.assert_array_equal(q.grad.numpy(), [1, 1])


def test_strided_gradients():
    p = parameter(1, 1)
    p.grad = mge.tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).T
    GradScaler(2.0).unscale([p])
    np.testing.assert_array_equal(p.grad.numpy(), np.arange(6).reshape(2, 3).T / 2)


def test_tensors_without_gradients_are_left_out():
    p, q = parameter(1, 1), parameter(1, 1)
    q.grad = mge.tensor([2.0, 2.0])
    GradScaler(2.0).unscale(iter([p, q])).unscale([])
    assert p.grad is None
    np.testing.assert_array_equal(q.grad.numpy(), [1, 1])


def test_gradients_of_several_batches():
    p = parameter(1, 1)
    gm, scaler = GradManager().attach([p]), GradScaler(4.0)
    for _ in range(2):
        with gm:
            scaler.backward(gm, (p * 3).sum(), unscale_grad=False)
    np.testing.assert_array_equal(p.grad.numpy(), [24, 24])
    scaler.unscale(gm.attached_tensors()).update()
    np.testing.assert_array_equal(p.grad.numpy(), [6, 6])
    assert scaler._growth_tracker == 1


def test_several_outputs_and_upstream_gradients():
    p, q = parameter(1, 1), parameter(1, 1)
    gm, scaler = GradManager().attach([p, q]), GradScaler(4.0)
    with gm:
        outputs = [(p * 3).sum(), (q * 2).sum()]
        scaler.backward(gm, outputs, [mge.tensor(1.0), mge.tensor(2.0)])
    np.testing.assert_array_equal(p.grad.numpy(), [3, 3])
    np.testing.assert_array_equal(q.grad.numpy(), [4, 4])
    with gm:
        scaler.backward(gm, (p * 3).sum(), mge.tensor(2.0))
    np.testing.assert_array_equal(p.grad.numpy(), [3 / 4 + 6, 3 / 4 + 6])  # the old one, once more


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({}, 1),
        ({"update_scale": True}, 1),
        ({"update_scale": False}, 0),
        ({"unscale_grad": False}, 0),
        ({"unscale_grad": False, "update_scale": True}, 0),
    ],
)
def test_when_the_scale_is_updated(arguments, steps):
    p = parameter(1, 1)
    gm, scaler = GradManager().attach([p]), GradScaler(4.0)
    with gm:
        scaler.backward(gm, p.sum(), **arguments)
    assert scaler._growth_tracker == steps


def test_update_with_a_scale_of_ones_own():
    scaler = GradScaler(4.0)
    scaler.update()
    scaler.update(7)
    assert (scaler.scale_factor, scaler._growth_tracker) == (7.0, 1)


def test_a_growth_factor_of_0_keeps_the_scale():
    p = parameter(1, 1)
    gm, opt = GradManager().attach([p]), optim.SGD([p], lr=1.0)
    scaler = GradScaler(16, growth_factor=0, growth_interval=1)
    assert [step(scaler, p, gm, opt, f)[1] for f in (1, np.inf, 1)] == [16, 16, 16]


def test_the_scale_stays_usable():
    scaler = GradScaler(1e38, growth_interval=1)
    for _ in range(20):
        scaler.update()
    assert 1e38 <= scaler.scale_factor <= np.finfo(np.float32).max
    for _ in range(400):
        scaler._found_non_finite = True
        scaler.update()
    assert scaler.scale_factor > 0
    assert 1 / scaler.scale_factor < np.inf


def test_state():
    scaler = GradScaler(8.0, 3.0, 0.25, 5)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale_factor": 8.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 5,
        "_growth_tracker": 1,
    }
    other = GradScaler()
    other.load_state_dict({**state, "unknown": 1})
    assert other.state_dict() == state


def test_wrong_states_change_nothing():
    scaler = GradScaler()
    state = scaler.state_dict()
    with pytest.raises(KeyError, match=r"no growth_factor, .* in the state"):
        scaler.load_state_dict({"scale_factor": 1.0})
    with pytest.raises(ValueError, match="above 0"):
        scaler.load_state_dict({**state, "scale_factor": -1.0})
    assert scaler.state_dict() == state


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"init_scale": 0}, "init_scale above 0 and finite, got 0"),
        ({"init_scale": float("inf")}, "init_scale above 0"),
        ({"growth_factor": -1}, "growth_factor of at least 0"),
        ({"backoff_factor": float("nan")}, "backoff_factor of at least 0"),
        ({"growth_interval": 0}, "growth_interval of at least 1"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        GradScaler(**arguments)


def test_wrong_uses():
    p = parameter(1, 1)
    gm, scaler = GradManager().attach([p]), GradScaler()
    with pytest.raises(ValueError, match="new_scale above 0"):
        scaler.update(-1)
    with gm, pytest.raises(ValueError, match="as update_scale, got 'x'"):
        scaler.backward(gm, p.sum(), update_scale="x")
    with pytest.raises(TypeError, match="expected a Tensor"):
        scaler.unscale([1.0])
    with pytest.raises(RuntimeError, match="no computation history"):
        scaler.backward(gm, p.sum())


def test_small_float16_gradients_survive():
    """1e-8 is no float16 number; 2^16 times as much is one."""
    w = parameter(1, 1)
    gm = GradManager().attach([w])

    def gradient(scaler):
        with autocast(low_prec_dtype="float16"), gm:
            y = F.linear(mge.tensor([[1.0, 1.0]]), w.reshape(1, 2)).astype("float32") * 1e-8
            scaler.backward(gm, y.sum())
        grad, w.grad = w.grad.numpy(), None
        return grad

    np.testing.assert_array_equal(gradient(GradScaler(1.0)), [0, 0])
    np.testing.assert_allclose(gradient(GradScaler(2.0**16)), [1e-8, 1e-8], rtol=1e-3)


@pytest.mark.parametrize("symbolic", [False, True])
def test_traced_steps(symbolic):
    p = parameter(1, 1)
    gm, opt = GradManager().attach([p]), optim.SGD([p], lr=1.0)
    scaler = GradScaler(init_scale=16, growth_interval=2)

    @trace(symbolic=symbolic)
    def traced(x):
        with gm:
            scaler.backward(gm, (p * x).sum())
        opt.step().clear_grad()

    got = []
    for factor in (1, 1, 1, np.inf, 1, np.nan, 2):
        traced(mge.tensor(np.array([factor, 1], np.float32)))
        got.append((scaler.scale_factor, p.numpy().tolist()))
    assert got == [
        (16, [0, 0]),
        (32, [-1, -1]),
        (32, [-2, -2]),
        (16, [-2, -2]),
        (16, [-3, -3]),
        (8, [-3, -3]),
        (8, [-5, -4]),
    ]
