"""GradManager and Function: recording, accumulation, callbacks, order, several at once."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import Function, GradManager

T = mge.tensor


def test_gradients_add_up_over_backwards():
    x = T([3.0])
    gm = GradManager().attach([x])
    for _ in range(2):
        with gm:
            gm.backward(x * x)
    np.testing.assert_array_equal(x.grad.numpy(), [12.0])


@pytest.mark.parametrize("wrap", [list, tuple])
def test_several_outputs_with_their_gradients(wrap):
    x = T([3.0])
    gm = GradManager().attach([x])
    with gm:
        ys = wrap([x**2, 2 * x])
        gm.backward(ys, wrap([T([1.0]), T([10.0])]))
    np.testing.assert_allclose(x.grad.numpy(), [26.0])


def test_attached_intermediate():
    x = T([3.0])
    gm = GradManager().attach([x])
    with gm:
        y = x * x
        gm.attach([y])
        gm.backward(y * y)
    assert (x.grad.item(), y.grad.item()) == (108.0, 18.0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_order(order):
    x = T([2.0])
    managers = [GradManager().attach([x]) for _ in range(order)]
    for gm in managers:
        gm.record()
    value = x**4
    for gm in reversed(managers):
        gm.backward(value)
        value, x.grad = x.grad, None
    expected = {1: 32.0, 2: 48.0, 3: 48.0}[order]
    np.testing.assert_allclose(value.numpy(), [expected], rtol=1e-6)


def test_two_managers_side_by_side():
    x = T([3.0])
    g1, g2 = GradManager().attach([x]), GradManager().attach([x])
    with g1, g2:
        y = x * x
        g1.backward(y)
        first, x.grad = x.grad, None
        g2.backward(y)
    assert first.item() == x.grad.item() == 6.0


def test_upstream_broadcasts_and_its_shape_is_checked():
    x = T([3.0, 4.0])
    gm = GradManager().attach([x])
    with gm:
        gm.backward(x * x, T(2.0))
    np.testing.assert_array_equal(x.grad.numpy(), [12.0, 16.0])
    with gm, pytest.raises(ValueError, match=r"backward.*shape"):
        gm.backward(x * x, T([1.0, 2.0, 3.0]))
    with gm, pytest.raises(ValueError, match="a gradient for each of 2 outputs, got 1"):
        gm.backward([x, x], [T([1.0, 1.0])])


def test_callbacks_see_and_change_the_gradient():
    x = T([3.0])
    seen = []

    def double(tensor, grad):
        seen.append((tensor is x, grad.item()))
        return grad * 2

    gm = GradManager().attach(x, callbacks=[double, lambda _, g: g + 1])
    with gm:
        gm.backward(x * x)
    assert seen == [(True, 6.0)]
    assert x.grad.item() == 13.0


def test_a_record_ends_with_backward():
    x = T([3.0])
    gm = GradManager().attach([x])
    with pytest.raises(RuntimeError, match="no computation history"):
        gm.backward(x * x)
    with gm:
        y = x * x
        gm.backward(y)
        with pytest.raises(RuntimeError, match="no computation history"):
            gm.backward(y)
    with gm, pytest.raises(RuntimeError, match="already recording"), gm:
        pass


def test_an_exception_inside_leaves_the_manager_usable():
    x = T([3.0])
    gm = GradManager().attach([x])
    with pytest.raises(ZeroDivisionError), gm:
        _ = x * (1 // 0)
    with gm:
        gm.backward(x * x)
    assert x.grad.item() == 6.0


def test_what_is_not_followed_has_no_gradient():
    x, w = T([3.0]), T([1.0])
    gm = GradManager().attach([x, w])
    with gm:
        gm.backward(x.detach() * 2 + w)
    assert x.grad is None
    assert w.grad.item() == 1.0


def test_attach_takes_float_tensors_only():
    with pytest.raises(TypeError, match="expected Tensors, got int"):
        GradManager().attach([3])
    with pytest.raises(TypeError, match=r"float dtype.*int32"):
        GradManager().attach(T([1]))


def test_attached_tensors_are_not_kept_alive():
    x = T([3.0])
    gm = GradManager().attach([x])
    del x
    gc.collect()
    assert gm.attached_tensors() == []
    with gm:
        gm.backward(T([1.0]) * 2)


def test_gradient_survives_in_place_assignment():
    x = T([3.0, 4.0])
    v = T([7.0])
    gm = GradManager().attach([x, v])
    with gm:
        y = x * 1
        y[0:1] = v
        gm.backward((y * y).sum())
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 8.0])
    np.testing.assert_array_equal(v.grad.numpy(), [14.0])


def test_gradient_goes_back_through_devices_and_dtypes():
    x = T([3.0, 4.0])
    gm = GradManager().attach([x])
    with gm:
        gm.backward((x.to("cpu0").astype("float16") * 2).sum())
    assert str(x.grad) == "Tensor([2. 2.], device=xpux:0)"


class Cube(Function):
    def forward(self, x):
        self.x = x
        return x * x * x

    def backward(self, dy):
        return 3 * self.x * self.x * dy


def test_function_to_second_order():
    x = T([3.0])
    outer, inner = GradManager().attach([x]), GradManager().attach([x])
    with outer:
        with inner:
            inner.backward(Cube()(x))
        first, x.grad = x.grad, None
        outer.backward(first)
    assert (first.item(), x.grad.item()) == (27.0, 18.0)


def test_function_with_several_inputs_and_outputs():
    got = []

    class Both(Function):
        def forward(self, x, y):
            return x * y, x + y

        def backward(self, d0, d1):
            got.append((d0, d1))
            return d0 * 10, None

    x, w = T([3.0]), T([5.0])
    gm = GradManager().attach([x, w])
    with gm:
        product, _ = Both()(x, w)
        gm.backward(product * 2)
    assert got[0][0].item() == 2.0
    assert got[0][1] is None
    assert x.grad.item() == 20.0
    assert w.grad is None


def test_function_says_what_is_wrong():
    class Wrong(Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            return T([1.0, 2.0, 3.0])

    x = T([3.0])
    gm = GradManager().attach([x])
    with gm, pytest.raises(RuntimeError, match=r"Function.*shape \(1,\).*\(3,\)"):
        gm.backward(Wrong()(x))
    with pytest.raises(TypeError, match="expected Tensors as inputs, got float"):
        Cube()(1.0)
    with pytest.raises(NotImplementedError, match=r"forward\(\)"):
        Function()(x)


def test_nothing_in_forward_of_a_function_is_recorded():
    class Scaled(Function):
        def forward(self, x):
            self.inner = F.exp(x)
            return self.inner * 1

        def backward(self, dy):
            return dy * 100

    x = T([0.0])
    gm = GradManager().attach([x])
    with gm:
        f = Scaled()
        gm.backward(f(x) + f.inner)
    assert x.grad.item() == 100.0


@pytest.mark.parametrize(
    "make",
    [
        mge.Tensor,
        mge.tensor,
        mge.Parameter,
        lambda x: mge.tensor(x, dtype="float32", device="cpu0"),
        lambda x: mge.Tensor(x, dtype="float64"),
    ],
    ids=["Tensor", "tensor", "Parameter", "device", "dtype"],
)
def test_a_tensor_made_of_a_tensor_has_its_gradient(make: Callable[[Any], Any]) -> None:
    x = mge.Parameter([1.0, 2.0])
    gm = GradManager().attach([x])
    with gm:
        y = make(x * 3.0)
        gm.backward((y * y).sum())
    np.testing.assert_allclose(x.grad.numpy(), [18.0, 36.0])
    z = make(x)
    z[0] = 7.0
    assert x.numpy().tolist() == [1.0, 2.0]


class Rounded(Function):
    """Rounds; backward returns what a test gives it behind the gradient."""

    def __init__(self, behind: tuple[Any, ...]):
        self.behind = behind

    def forward(self, x: Any) -> Any:
        return F.round(x)

    def backward(self, dy: Any) -> Any:
        return (dy, *self.behind)


def test_nones_behind_the_gradients_of_a_function_are_left_out() -> None:
    x = mge.Parameter([0.2, 1.7])
    gm = GradManager().attach([x])
    with gm:
        gm.backward(Rounded((None, None))(x * 2.0).sum())
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0])
    with gm, pytest.raises(ValueError, match="a gradient for each of 1 inputs, got 3"):
        gm.backward(Rounded((None, x))(x * 2.0).sum())
