"""Ten steps of every optimizer against the reference's, and what must hold beside the numbers."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import megengine as mge
from megengine import optimizer as optim

RECORDED = json.loads(pathlib.Path(__file__).with_name("trajectories.json").read_text())
START = [np.array(s, dtype="float64") for s in RECORDED["start"]]
GRADS = [[np.array(g, dtype="float64") for g in gs] for gs in RECORDED["grads"]]


def make(name: str, params: list[mge.Parameter]) -> optim.Optimizer:
    case = RECORDED["cases"][name]
    return getattr(optim, case["optimizer"])(params, **case["options"])


def trajectory(
    name: str, dtype: str, grad_dtype: str | None = None
) -> tuple[list[list[np.ndarray]], optim.Optimizer]:
    params = [mge.Parameter(s, dtype=dtype) for s in START]
    optimizer = make(name, params)
    seen = []
    for gs in GRADS:
        for p, g in zip(params, gs, strict=True):
            p.grad = mge.Tensor(g, dtype=grad_dtype or dtype)
        optimizer.step()
        seen.append([p.numpy() for p in params])
    return seen, optimizer


@pytest.mark.parametrize("name", RECORDED["cases"])
def test_ten_steps_agree_with_the_reference(name: str) -> None:
    wanted = RECORDED["cases"][name]
    seen, optimizer = trajectory(name, "float32")
    for got, want in zip(seen, wanted["trajectory"], strict=True):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6)
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            np.testing.assert_allclose(
                value, wanted["state"][str(number)][key], rtol=2e-5, atol=1e-6
            )


@pytest.mark.parametrize("name", RECORDED["cases"])
def test_float64_parameters_are_stepped_in_float64(name: str) -> None:
    """float64 is where float32 would go with more digits: both stay within float32's rounding."""
    seen, optimizer = trajectory(name, "float64")
    for got, want in zip(seen, RECORDED["cases"][name]["trajectory"], strict=True):
        for g, w in zip(got, want, strict=True):
            assert g.dtype == np.float64
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6)
    for state in optimizer.state_dict()["state"].values():
        assert all(v.dtype == np.float64 for k, v in state.items() if k != "step")


@pytest.mark.parametrize("name", RECORDED["cases"])
@pytest.mark.parametrize(("dtype", "eps"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_16_bit_parameters_keep_float32_state(name: str, dtype: str, eps: float) -> None:
    """Each step rounds the parameter once; state is as exact as with float32."""
    seen, optimizer = trajectory(name, dtype)
    for got, want in zip(seen, RECORDED["cases"][name]["trajectory"], strict=True):
        for g, w in zip(got, want, strict=True):
            scale = np.abs(w).max() + 1
            np.testing.assert_allclose(g.astype("float64"), w, atol=12 * eps * scale)
    for state in optimizer.state_dict()["state"].values():
        assert all(v.dtype == np.float32 for v in state.values())


@pytest.mark.parametrize("name", RECORDED["cases"])
def test_gradients_may_have_another_float_dtype(name: str) -> None:
    plain, _ = trajectory(name, "float32")
    wide, _ = trajectory(name, "float32", "float64")
    for a, b in zip(plain, wide, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["sgd_nesterov_decay", "adam", "adamw_all", "adadelta_all"])
def test_layouts_of_gradients_do_not_matter(name: str) -> None:
    plain, _ = trajectory(name, "float32")
    params = [mge.Parameter(s, dtype="float32") for s in START]
    optimizer = make(name, params)
    for gs, want in zip(GRADS, plain, strict=True):
        for p, g in zip(params, gs, strict=True):
            p.grad = mge.Tensor(np.ascontiguousarray(g.T).astype("float32")).T
        optimizer.step()
        for p, w in zip(params, want, strict=True):
            np.testing.assert_array_equal(p.numpy(), w)


def test_any_number_of_threads_gives_the_same_numbers(rng: np.random.Generator) -> None:
    shapes = [(300, 257), (7,), (1,), (100_001,), (0, 3)]
    start = [rng.standard_normal(s).astype("float32") for s in shapes]
    grads = [rng.standard_normal(s).astype("float32") for s in shapes]

    def run(threads: int) -> list[np.ndarray]:
        mge.device.set_num_threads(threads)
        params = [mge.Parameter(s) for s in start]
        optimizer = optim.AdamW(params, lr=0.1)
        for p, g in zip(params, grads, strict=True):
            p.grad = mge.Tensor(g)
        optimizer.step().step()
        return [p.numpy() for p in params]

    before = mge.device.get_num_threads()
    try:
        one, three = run(1), run(3)
    finally:
        mge.device.set_num_threads(before)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["sgd_momentum", "adam"])
def test_what_others_hold_is_not_written(name: str) -> None:
    """A step works in place only where nobody else sees the buffer."""
    params = [mge.Parameter(s, dtype="float32") for s in START]
    optimizer = make(name, params)
    for p, g in zip(params, GRADS[0], strict=True):
        p.grad = mge.Tensor(g, dtype="float32")
    arrays = [p.numpy() for p in params]
    detached = [p.detach() for p in params]
    state = optimizer.state_dict(keep_var=False)
    optimizer.step()
    for s, a, d, p in zip(START, arrays, detached, params, strict=True):
        np.testing.assert_array_equal(a, s.astype("float32"))
        np.testing.assert_array_equal(d.numpy(), a)
        assert not np.array_equal(p.numpy(), a)
    for values in state["state"].values():
        assert all(not v.any() for v in values.values())


def test_a_parameter_without_gradient_stays() -> None:
    p, q = mge.Parameter([1.0]), mge.Parameter([1.0])
    optimizer = optim.Adam([p, q], lr=0.1)
    p.grad = mge.Tensor([1.0])
    optimizer.step()
    assert q.item() == 1.0
    steps = [s["step"] for s in optimizer.state_dict()["state"].values()]
    assert [float(s) for s in steps] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("grad", "error"),
    [
        (np.ones(3, "float32"), ValueError),
        (np.ones((), "float32"), ValueError),
        (np.ones(2, "int32"), TypeError),
    ],
)
def test_a_wrong_gradient_raises_before_anything_changes(
    grad: np.ndarray, error: type[Exception]
) -> None:
    p, q = mge.Parameter([1.0, 2.0]), mge.Parameter([1.0, 2.0])
    optimizer = optim.SGD([p, q], lr=0.1, momentum=0.9)
    p.grad = mge.Tensor([1.0, 1.0])
    q.grad = mge.Tensor(grad)
    with pytest.raises(error, match="SGD"):
        optimizer.step()
    np.testing.assert_array_equal(p.numpy(), [1.0, 2.0])
    assert not optimizer.state_dict()["state"][0]["momentum_buffer"].any()


def test_nan_and_inf_pass_through() -> None:
    p = mge.Parameter([1.0, 1.0, 1.0])
    optimizer = optim.SGD([p], lr=0.5)
    p.grad = mge.Tensor([np.nan, np.inf, 1.0])
    optimizer.step()
    np.testing.assert_array_equal(p.numpy(), [np.nan, -np.inf, 0.5])
