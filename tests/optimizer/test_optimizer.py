"""Groups, state dicts, schedules and clipping."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
from megengine import optimizer as optim


def param(*values: float) -> mge.Parameter:
    return mge.Parameter(np.array(values, dtype="float32"))


def with_grad(values, grad) -> mge.Parameter:
    p = mge.Parameter(np.array(values, dtype="float32"))
    p.grad = mge.Tensor(np.array(grad, dtype="float32"))
    return p


# ---- groups -------------------------------------------------------------------------------------


def test_options_of_groups() -> None:
    p, q = param(1), param(2)
    optimizer = optim.SGD([{"params": [p]}, {"params": q, "lr": 0.3, "note": "head"}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.3]
    assert optimizer.param_groups[1]["note"] == "head"
    assert optimizer.param_groups[1]["params"] == [q]


def test_a_group_added_later_has_state() -> None:
    p, q = with_grad([1.0], [1.0]), with_grad([1.0], [1.0])
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": [q], "lr": 0.5})
    optimizer.step()
    np.testing.assert_allclose([p.item(), q.item()], [0.9, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: optim.SGD([], lr=0.1), ValueError),
        (lambda: optim.SGD([mge.Tensor([1.0])], lr=0.1), TypeError),
        (lambda: optim.SGD([np.zeros(3)], lr=0.1), TypeError),
        (lambda: optim.SGD([{"lr": 1}], lr=0.1), KeyError),
        (lambda: optim.SGD([param(1)], lr=-1), AssertionError),
        (lambda: optim.SGD([param(1)], lr=0.1, momentum=-1), AssertionError),
        (lambda: optim.SGD([param(1)], lr=0.1, weight_decay=-1), AssertionError),
        (lambda: optim.SGD([param(1)], lr=0.1, nesterov=True), AssertionError),
        (lambda: optim.Adam([param(1)], lr=-1), ValueError),
        (lambda: optim.Adam([param(1)], lr=0.1, betas=(1.0, 0.9)), ValueError),
        (lambda: optim.AdamW([param(1)], lr=0.1, betas=(0.9, -0.1)), ValueError),
        (lambda: optim.AdamW([param(1)], lr=0.1, weight_decay=-0.1), ValueError),
        (lambda: optim.Adagrad([param(1)], lr_decay=-1), AssertionError),
        (lambda: optim.Adadelta([param(1)], rho=1.5), AssertionError),
        (lambda: optim.Optimizer([param(1)], {}), TypeError),
    ],
)
def test_wrong_options_raise(make, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_a_parameter_in_two_groups_raises() -> None:
    p = param(1)
    with pytest.raises(AssertionError, match="more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    optimizer = optim.SGD([p], lr=0.1)
    with pytest.raises(AssertionError):
        optimizer.add_param_group({"params": [p]})
    with pytest.raises(AssertionError):
        optimizer.add_param_group([param(2)])


def test_required_options() -> None:
    class Plain(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": optim.optimizer.required})

        def _create_state(self, param_group):
            for p in param_group["params"]:
                self._add_state(p, "sum")
                self._add_state(p, "count", 3)

        def _updates(self, param_group):
            for p in param_group["params"]:
                p._reset(p - p.grad * param_group["lr"])

    p = with_grad([1.0, 2.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="lr"):
        Plain([p])
    optimizer = Plain([{"params": [p], "lr": 0.5}])
    optimizer.step()
    np.testing.assert_allclose(p.numpy(), [0.5, 1.5])
    state = optimizer.state_dict()["state"][0]
    np.testing.assert_array_equal(state["sum"], [0.0, 0.0])
    assert state["count"] == 3


def test_step_returns_the_optimizer_and_clear_grad_forgets() -> None:
    p = with_grad([1.0], [1.0])
    optimizer = optim.SGD([p], lr=0.1)
    assert optimizer.step() is optimizer
    assert optimizer.clear_grad() is None
    assert p.grad is None


def test_identity_of_parameters_is_kept() -> None:
    p = with_grad([1.0], [1.0])
    group = optim.SGD([p], lr=0.1).step().param_groups[0]
    assert group["params"][0] is p


def test_weight_decay_leaves_the_gradient_alone() -> None:
    """Case 49 of the field: the stored gradient must not take in the decay."""
    p = with_grad(1.0, 0.5)
    optim.SGD([p], lr=0.1, weight_decay=0.1).step()
    np.testing.assert_allclose([p.item(), p.grad.item()], [0.94, 0.5], rtol=1e-6)


# ---- state dicts --------------------------------------------------------------------------------


def test_state_dict_is_a_copy() -> None:
    """Case 50: saving changes nothing, and edits of what was saved change nothing."""
    p = with_grad(1.0, 1.0)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    optimizer.step()
    saved = optimizer.state_dict()
    optimizer.step()
    assert p.item() == pytest.approx(0.71)
    assert saved["state"][0]["momentum_buffer"] == pytest.approx(1.0)
    for name, value in saved["state"][0].items():
        saved["state"][0][name] = np.zeros_like(value)
    saved["param_groups"][0]["lr"] = 100.0
    optimizer.step()
    assert p.item() == pytest.approx(0.71 - 0.1 * 2.71)


def test_layout_of_the_state_dict() -> None:
    optimizer = optim.SGD([{"params": [param(1), param(2)]}, {"params": [param(3)]}], lr=0.1)
    saved = optimizer.state_dict()
    assert [g["params"] for g in saved["param_groups"]] == [[0, 1], [2]]
    assert saved["state"] == {}
    adam = optim.Adam([param(1, 2)], lr=0.1)
    assert list(adam.state_dict()["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    assert (
        adam.state_dict(keep_var=True)["state"][0]["step"]
        is adam._state[adam.param_groups[0]["params"][0]]["step"]
    )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta"])
def test_training_goes_on_after_loading(name: str) -> None:
    options = {"momentum": 0.9} if name == "SGD" else {}

    def make():
        p = param(1.0, 2.0)
        return p, getattr(optim, name)([p], lr=0.1, **options)

    def steps(p, optimizer, n):
        for i in range(n):
            p.grad = mge.Tensor([1.0 + i, -0.5])
            optimizer.step()

    p, optimizer = make()
    steps(p, optimizer, 3)
    q, other = make()
    q._reset(mge.Tensor(p.numpy()))
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(p, optimizer, 2)
    steps(q, other, 2)
    np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_a_state_dict_that_does_not_fit_changes_nothing() -> None:
    saved = optim.SGD([param(1, 2), param(3)], lr=0.1, momentum=0.9).state_dict()
    for optimizer, message in [
        (optim.SGD([param(1, 2)], lr=0.5, momentum=0.9), "size of optimizer's group"),
        (optim.Adam([param(1, 2), param(3)], lr=0.5), "keys of optimizer's group"),
        (optim.SGD([{"params": [param(1)]}, {"params": [param(3)]}], lr=0.5), "number of"),
        (optim.SGD([param(1, 2, 3), param(3)], lr=0.5, momentum=0.9), "shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(saved)
        assert optimizer.param_groups[0]["lr"] == 0.5


# ---- schedules ----------------------------------------------------------------------------------


def rates(optimizer: optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


def test_resuming_with_a_schedule() -> None:
    """Case 52: the order of loading does not matter, and a fresh optimizer takes the state."""
    wanted = pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])

    def run(optimizer, schedule, epochs):
        seen = []
        for _ in range(epochs):
            seen += rates(optimizer)
            schedule.step()
        return seen

    optimizer = optim.SGD([param(1)], lr=0.1)
    assert run(optimizer, optim.MultiStepLR(optimizer, [2, 4], gamma=0.1), 5) == wanted

    for order in ("optimizer first", "schedule first", "schedule made last"):
        optimizer = optim.SGD([param(1)], lr=0.1)
        schedule = optim.MultiStepLR(optimizer, [2, 4], gamma=0.1)
        seen = run(optimizer, schedule, 3)
        saved = [optimizer.state_dict(), schedule.state_dict()]
        optimizer = optim.SGD([param(1)], lr=0.1)
        if order == "schedule made last":
            optimizer.load_state_dict(saved[0])
        schedule = optim.MultiStepLR(optimizer, [2, 4], gamma=0.1)
        if order == "schedule first":
            schedule.load_state_dict(saved[1])
            optimizer.load_state_dict(saved[0])
        else:
            if order == "optimizer first":
                optimizer.load_state_dict(saved[0])
            schedule.load_state_dict(saved[1])
        assert seen + run(optimizer, schedule, 2) == wanted, order


def test_multi_step_lr() -> None:
    optimizer = optim.SGD([{"params": [param(1)]}, {"params": [param(2)], "lr": 0.3}], lr=0.1)
    schedule = optim.MultiStepLR(optimizer, [1, 3], gamma=0.5)
    assert schedule.state_dict() == {"milestones": [1, 3], "gamma": 0.5, "current_epoch": 0}
    schedule.step()
    assert rates(optimizer) == pytest.approx([0.05, 0.15])
    schedule.step(4)
    assert rates(optimizer) == pytest.approx([0.025, 0.075])
    with pytest.raises(ValueError, match="increasing"):
        optim.MultiStepLR(optimizer, [3, 1])
    with pytest.raises(TypeError):
        optim.MultiStepLR(3, [1])
    with pytest.raises(KeyError, match="initial_lr"):
        optim.MultiStepLR(optim.SGD([param(1)], lr=0.1), [1], current_epoch=3)
    with pytest.raises(KeyError, match="milestones"):
        schedule.load_state_dict({})


def test_a_schedule_of_ones_own() -> None:
    class Halve(optim.LRScheduler):
        def get_lr(self):
            return [base * 0.5**self.current_epoch for base in self.base_lrs]

    optimizer = optim.SGD([param(1)], lr=0.8)
    schedule = Halve(optimizer)
    schedule.step()
    assert rates(optimizer) == [0.4]
    assert schedule.state_dict() == {"current_epoch": 1}


# ---- clipping -----------------------------------------------------------------------------------


def test_clip_grad_norm() -> None:
    """Case 55: returns the norm; an infinite gradient makes no NaN."""
    p = with_grad([0.0, 0.0], [3.0, 4.0])
    before = p.grad
    assert optim.clip_grad_norm([p], 1.0).item() == pytest.approx(5.0)
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], atol=1e-6)
    assert p.grad is before

    p = with_grad([0.0, 0.0], [np.inf, 1.0])
    assert np.isinf(optim.clip_grad_norm([p], 1.0).item())
    np.testing.assert_array_equal(p.grad.numpy(), [np.inf, 1.0])


@pytest.mark.parametrize(
    ("order", "norm"), [(1.0, 7.0), (2.0, 5.0), (3.0, 91 ** (1 / 3)), (float("inf"), 4.0)]
)
def test_clip_grad_norm_of_several_tensors(order: float, norm: float) -> None:
    p, q, r = with_grad([0.0], [3.0]), with_grad([[0.0], [0.0]], [[4.0], [0.0]]), param(1)
    got = optim.clip_grad_norm((x for x in (p, q, r)), 1.0, ord=order)
    assert got.item() == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(p.grad.numpy(), [3.0 / norm], rtol=1e-6)
    np.testing.assert_allclose(q.grad.numpy(), [[4.0 / norm], [0.0]], rtol=1e-6)


def test_clip_grad_norm_of_small_or_no_gradients() -> None:
    p = with_grad([0.0, 0.0], [3.0, 4.0])
    optim.clip_grad_norm(p, 10.0)
    np.testing.assert_array_equal(p.grad.numpy(), [3.0, 4.0])
    assert optim.clip_grad_norm([param(1)], 1.0).item() == 0.0
    assert optim.clip_grad_norm([], 1.0).item() == 0.0
    with pytest.raises(ValueError, match="max_norm"):
        optim.clip_grad_norm(p, -1.0)


def test_clip_grad_value() -> None:
    p = with_grad([0.0] * 3, [-3.0, 0.5, 4.0])
    before = p.grad
    assert optim.clip_grad_value([p, param(1)], -1.0, 2.0) is None
    np.testing.assert_array_equal(p.grad.numpy(), [-1.0, 0.5, 2.0])
    assert p.grad is before


def test_state_that_does_not_fit_is_named_at_once() -> None:
    net = M.Linear(2, 3)
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    for parameter in net.parameters():
        parameter.grad = mge.Tensor(np.ones(parameter.shape))
    optimizer.step()
    before = optimizer.state_dict()
    state = copy.deepcopy(before)
    state["param_groups"][0]["lr"] = 5.0
    state["state"][0]["exp_avg"] = np.zeros((9, 9), "float32")
    state["state"][0]["more"] = np.zeros(3, "float32")
    state["state"][1]["step"] = "three"
    del state["state"][1]["exp_avg_sq"]
    with pytest.raises(ValueError, match="exp_avg") as raised:
        optimizer.load_state_dict(state)
    for part in (
        "loaded state 'exp_avg' of parameter 0 has shape (9, 9), expected (3,)",
        "loaded state 'step' of parameter 1 has no dtype of tensors",
        "loaded state dict lacks the state exp_avg_sq of parameter 1",
        "loaded state dict has unknown state more of parameter 0",
    ):
        assert part in str(raised.value)
    del state["param_groups"][0]["eps"], state["param_groups"][0]["params"][1]
    with pytest.raises(ValueError, match=r"group 0 has 2 parameters, got 1; .*group 0 lacks eps"):
        optimizer.load_state_dict(state)
    with pytest.raises(KeyError, match="lacks the state exp_avg, exp_avg_sq, step of parameter 0"):
        optimizer.load_state_dict({**before, "state": {}})
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for number, values in before["state"].items():
        for name, value in values.items():
            np.testing.assert_array_equal(after["state"][number][name], value)


def test_options_decide_which_state_there_is() -> None:
    parameter = mge.Parameter([1.0])
    plain = optim.SGD([parameter], lr=0.1)
    momentum = optim.SGD([parameter], lr=0.1, momentum=0.9)
    states = plain.state_dict(), momentum.state_dict()
    plain.load_state_dict(states[1])
    momentum.load_state_dict(states[0])
    assert plain.state_dict()["state"].keys() == {0}
    assert momentum.state_dict() == states[0]
    parameter.grad = mge.Tensor([1.0])
    plain.step()
    momentum.step()
