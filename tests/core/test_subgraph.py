"""Ops that a program builds from other ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine._core import apply
from megengine.autodiff import GradManager
from megengine.core.ops import builtin
from megengine.core.tensor.utils import interpret_subgraph, subgraph, subgraph_fn

T = mge.tensor


def hard_sigmoid(inputs: Any, f: Any, c: Any) -> Any:
    (x,) = inputs
    y = f("/", f("max", f("min", f("+", x, c(3)), c(6)), c(0)), c(6))
    return (y,), (True,)


def hard_sigmoid_with_gradient(inputs: Any, f: Any, c: Any) -> Any:
    (x,) = inputs
    y = f("/", f("max", f("min", f("+", x, c(3)), c(6)), c(0)), c(6))
    (dy,) = yield (y,)
    yield (f("*", dy, c(10)),)


def gradients(call: Any, *xs: Any) -> list[Any]:
    for x in xs:
        x.grad = None
    gm = GradManager().attach(list(xs))
    with gm:
        outputs = call(*xs)
        gm.backward(outputs[0])
    return [None if x.grad is None else x.grad.tolist() for x in xs]


X = [-4.0, -1.0, 0.0, 1.0, 5.0]


def test_an_op_from_a_subgraph():
    make = subgraph("hsigmoid", np.float32, T(1.0).device, 1, gopt_level=2, jit_fusion=True)(
        hard_sigmoid
    )
    op = make()
    assert isinstance(op, builtin.OpDef)
    assert repr(op) == "CompiledOp[hsigmoid]"
    assert op == make()
    assert hash(op) == hash(make())
    (y,) = apply(op, T(X))
    np.testing.assert_allclose(y.numpy(), [0, 1 / 3, 0.5, 2 / 3, 1], rtol=1e-6)
    (slope,) = gradients(lambda x: apply(op, x), T(X))
    np.testing.assert_allclose(slope, [0, 1 / 6, 1 / 6, 1 / 6, 0], rtol=1e-6)


def test_a_function_with_a_gradient_of_its_own():
    call = subgraph_fn(
        "hsigmoid", np.float32, None, nr_inputs=1, gopt_level=2, jit_fusion=True, custom_grad=True
    )(hard_sigmoid_with_gradient)
    np.testing.assert_allclose(call(T(X))[0].numpy(), [0, 1 / 3, 0.5, 2 / 3, 1], rtol=1e-6)
    assert gradients(call, T(X)) == [[10.0] * 5]
    op = subgraph("hsigmoid", np.float32, None, 1, custom_grad=True)(hard_sigmoid_with_gradient)()
    assert gradients(lambda x: apply(op, x), T(X)) == [[10.0] * 5]
    assert gradients(op, T(X)) == [[10.0] * 5]


def test_gradients_of_several_inputs_and_outputs():
    seen = []

    @subgraph_fn("two", "float32", None, 3, custom_grad=True)
    def two(inputs, f, c):
        x, y, z = inputs
        dys = yield f("*", x, y), f("+", y, z)
        seen.append([dy.tolist() for dy in dys])
        yield f("*", dys[0], c(100)), dys[1], None

    x, y, z = T([1.0, 2.0]), T([3.0, 4.0]), T([5.0, 6.0])
    # Zeros stand for the gradient of an output that was not used.
    assert gradients(two, x, y, z) == [[100.0, 100.0], [0.0, 0.0], None]
    assert seen == [[[1.0, 1.0], [0.0, 0.0]]]
    assert [v.tolist() for v in two(x, y, z)] == [[3.0, 8.0], [8.0, 10.0]]


@pytest.mark.parametrize("custom", [False, True])
def test_second_order(custom):
    # x^3 through its square: the gradient of 3 x^2 dy is 6 x dy.
    def cube(inputs: Any, f: Any, c: Any) -> Any:
        (x,) = inputs
        return (f("*", f("*", x, x), x),), (True,)

    def cube_with_gradient(inputs: Any, f: Any, c: Any) -> Any:
        (x,) = inputs
        square = f("*", x, x)
        (dy,) = yield (f("*", square, x),)
        yield (f("*", f("*", square, c(3)), dy),)

    body = cube_with_gradient if custom else cube
    call = subgraph_fn("cube", "float32", None, 1, custom_grad=custom)(body)
    x = T([2.0, 3.0])
    outer, inner = GradManager().attach([x]), GradManager().attach([x])
    with outer:
        with inner:
            inner.backward(call(x)[0])
        first, x.grad = x.grad, None
        outer.backward(first)
    assert first.tolist() == [12.0, 27.0]
    assert x.grad.tolist() == [12.0, 18.0]


def test_two_managers_over_one_call():
    call = subgraph_fn("h", "float32", None, 1, custom_grad=True)(hard_sigmoid_with_gradient)
    x = T([1.0])
    a, b = GradManager().attach([x]), GradManager().attach([x])
    with a, b:
        (y,) = call(x)
        b.backward(y)
        a.backward(y)
    assert x.grad.tolist() == [20.0]


def test_names_ops_and_constants():
    @subgraph_fn("names", "float32", None, 1)
    def names(inputs, f, c):
        (x,) = inputs
        first, second = f(builtin.Split(axis=0, nsections=2), x, nr_out=2)
        outputs = (
            f("fma3", x, x, c(1)),
            f("cond_leq_mov", x, c(1), x),
            f("switch_gt0", x, x),
            f("additive", x, c([1, 2])),
            f("-", x),
            f("//", x, c(2)),
            f("**", x, c(T(2))),
            f("tanh", c(0)),
            f(builtin.Elemwise("exp"), c(0)),
            f("[?:]", x, c(1, dtype="int32")),
            f("[:?]", x, c(1, dtype="int32")),
            first,
            second,
        )
        return outputs, (True,) * len(outputs)

    out = [y.tolist() for y in names(T([-1.5, 2.0]))]
    assert out[:9] == [
        [3.25, 5.0], [-1.5, 0.0], [0.0, 2.0], [-0.5, 4.0], [1.5, -2.0], [-1.0, 1.0], [2.25, 4.0],
        0.0, 1.0,
    ]  # fmt: skip
    assert out[9:] == [[2.0], [-1.5], [-1.5], [2.0]]


def test_outputs_without_gradient():
    @subgraph_fn("half", "float32", None, 1)
    def half(inputs, f, c):
        y = f("*", inputs[0], c(2))
        return (y, y), (True, False)

    x = T([1.0])
    assert gradients(half, x) == [[2.0]]
    assert gradients(lambda x: half(x)[1:], x) == [None]


def test_interpreted():
    call = interpret_subgraph(hard_sigmoid, "float32", None)
    assert [y.tolist() for y in call(T([3.0]))] == [[1.0]]
    call = subgraph_fn("h", "float32", None, 1, interpret=True)(hard_sigmoid)
    assert [y.tolist() for y in call(T([3.0]))] == [[1.0]]


def test_bad_use():
    def make(body: Any, inputs: int = 1, **kw: Any) -> Any:
        return subgraph_fn("bad", "float32", None, inputs, **kw)(body)

    x = T([1.0])
    with pytest.raises(ValueError, match="bad: expected 1 inputs, got 2"):
        make(hard_sigmoid)(x, x)
    with pytest.raises(TypeError, match="bad: expected inputs as a tuple of Tensors"):
        make(hard_sigmoid)(3)
    with pytest.raises(TypeError, match="needs custom_grad=True"):
        make(hard_sigmoid_with_gradient)(x)
    with pytest.raises(TypeError, match="with custom_grad=True the function yields"):
        make(hard_sigmoid, custom_grad=True)(x)
    with pytest.raises(TypeError, match="which of them carry a gradient"):
        make(lambda i, f, c: i[0])(x)
    with pytest.raises(TypeError, match="a bool for each of 1 outputs"):
        make(lambda i, f, c: (i, ()))(x)
    with pytest.raises(TypeError, match="outputs as a tuple of Tensors"):
        make(lambda i, f, c: (3, True))(x)
    with pytest.raises(ValueError, match="unknown operator 'foo' of 1 operands"):
        make(lambda i, f, c: ((f("foo", i[0]),), (True,)))(x)
    with pytest.raises(TypeError, match="expected an op or its name"):
        make(lambda i, f, c: ((f(3, i[0]),), (True,)))(x)
    with pytest.raises(ValueError, match="expected 2 outputs"):
        make(lambda i, f, c: (f("exp", i[0], nr_out=2), (True,)))(x)
