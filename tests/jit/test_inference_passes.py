"""Programs of networks that no longer train: what passes make of them, and what it computes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.jit import trace
from megengine.jit.recording import record

T = mge.tensor
CALLS = 6  # a traced function takes hold of its parameters within so many


def data(*shape: int, seed: int = 0) -> mge.Tensor:
    """Normal random numbers."""
    return T(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def evaluated(net: M.Module, seed: int = 1) -> M.Module:
    """The module in eval mode, with parameters and statistics that are not those of a new one."""
    rng = np.random.default_rng(seed)
    for name, t in sorted([*net.named_parameters(), *net.named_buffers()]):
        if "running_var" in name:
            t[...] = T(rng.uniform(0.5, 2, t.shape).astype("float32"))
        else:
            t[...] = T((0.4 * rng.standard_normal(t.shape)).astype("float32"))
    net.eval()
    return net


def close(got: mge.Tensor, want: mge.Tensor, tolerance: float = 1e-5) -> None:
    assert got.dtype == want.dtype
    a, b = (t.astype("float32").numpy() for t in (got, want))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b).max()))


def kinds(function: Callable[..., Any], *args: mge.Tensor, tolerance: float = 1e-5) -> list[str]:
    """Checks the compiled and the traced function against the plain one; the ops that run."""
    want = function(*args)
    program = record(function, *args).compile()
    close(program(*args)[0], want, tolerance)
    traced = trace(function)
    for _ in range(CALLS):
        close(traced(*args), want, tolerance)
    return [node.kind for node in program.optimized().nodes]


def gaussian_error(x: mge.Tensor) -> mge.Tensor:
    return apply(builtin.Elemwise(mode="ERF"), x)[0]


ACTIVATIONS: dict[str, Callable[[mge.Tensor], mge.Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "clip": lambda x: F.clip(x, -0.3, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
    "silu": F.silu,
    "silu_by_hand": lambda x: x * F.sigmoid(x),
    "hswish": F.hswish,
    "hswish_by_hand": lambda x: F.hsigmoid(x) * x,
    "hsigmoid": F.hsigmoid,
    "gelu": F.gelu,
    "hswish_of_six": lambda x: x * F.clip(x + 3, 0, 6) / 6,
    "hswish_of_a_gate": lambda x: x * (F.relu6(3 + x) * (1 / 6)),
    "hsigmoid_of_six": lambda x: F.relu6(x + 3) / 6,
    "scaled": lambda x: F.hswish(x) * 1.5 - 0.25,
    "shifted_and_scaled": lambda x: 3 * (F.relu(x) + 2),
    "gelu_by_hand": lambda x: x * 0.5 * (1 + gaussian_error(x / 2**0.5)),
    "gelu_in_another_order": lambda x: 0.5 * (x * (gaussian_error(0.70710678 * x) + 1)),
}


# ---- convolutions --------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_convolution_and_activation(activation: str) -> None:
    net = evaluated(M.Sequential(M.Conv2d(3, 5, 3, padding=1), M.BatchNorm2d(5)))
    f = ACTIVATIONS[activation]
    assert kinds(lambda x: f(net(x)), data(2, 3, 7, 5)) == ["FusedConvolution"]


CONVOLUTIONS = [
    {"kernel_size": 3, "stride": 2, "padding": 1, "bias": True},
    {"kernel_size": (3, 1), "padding": (2, 0), "dilation": (2, 1), "bias": False},
    {"kernel_size": 3, "groups": 2, "bias": True},
    {"kernel_size": 5, "groups": 6, "padding": 2, "stride": (1, 2), "bias": False},
    {"kernel_size": 1, "bias": False},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("channels", [6, 18])
def test_batch_norm_in_weights(options: dict[str, Any], channels: int) -> None:
    net = evaluated(
        M.Sequential(M.Conv2d(6, channels, **options), M.BatchNorm2d(channels), M.ReLU())
    )
    assert kinds(net, data(2, 6, 9, 8)) == ["FusedConvolution"]


def test_convolution_of_one_and_three_axes() -> None:
    net = evaluated(M.Sequential(M.Conv1d(3, 4, 3), M.BatchNorm1d(4)))
    assert "BatchNorm" not in kinds(net, data(2, 3, 9))
    deep = evaluated(M.Conv3d(2, 4, 3, bias=True))
    assert kinds(lambda x: deep(x) * 3 - 1, data(1, 2, 5, 6, 4)) == ["Convolution3D"]


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(groups: int) -> None:
    net = evaluated(
        M.Sequential(
            M.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=groups, bias=False),
            M.BatchNorm2d(6),
        )
    )
    # There is no bias to take the shift: a sum stays.
    assert kinds(net, data(2, 4, 5, 4)) == ["ConvolutionBackwardData", "Elemwise"]
    shift = data(1, 6, 1, 1)
    assert len(kinds(lambda x: net[1](net[0](x) * 2 + shift) - 3, data(2, 4, 5, 4))) == 2
    assert kinds(lambda x: net[0](x) * 0.5, data(2, 4, 5, 4)) == ["ConvolutionBackwardData"]


def test_linear_and_batch_norm() -> None:
    net = evaluated(M.Sequential(M.Linear(7, 5), M.BatchNorm1d(5)))
    assert kinds(net, data(6, 7)) == ["Linear"]
    # Over three axes the channels of the two are not the same.
    both = evaluated(M.Sequential(M.Linear(7, 3), M.BatchNorm1d(3)))
    assert "BatchNorm" in kinds(both, data(6, 3, 7))


def test_several_users() -> None:
    """What somebody else needs too stays what it is."""
    conv, norm = evaluated(M.Conv2d(2, 3, 3)), evaluated(M.BatchNorm2d(3))

    def f(x: mge.Tensor) -> mge.Tensor:
        y = conv(x)
        return F.relu(norm(y)) + F.sum(y)

    assert "BatchNorm" in kinds(f, data(1, 2, 6, 6))


def test_statistics_of_the_batch() -> None:
    net = M.Sequential(M.Conv2d(2, 3, 3), M.BatchNorm2d(3))
    net.train()
    program = record(net, data(4, 2, 6, 6)).compile()
    assert [n.kind for n in program.optimized().nodes] == ["Convolution", "BatchNorm"]


@pytest.mark.parametrize("shape", [(1, 5, 1, 1), (5, 1, 1), (1,), ()])
def test_scales_and_shifts(shape: tuple[int, ...]) -> None:
    conv = evaluated(M.Conv2d(3, 5, 3, bias=False))
    a, b, c = (data(*shape, seed=s) + 2 for s in range(3))
    chain = [
        lambda x: conv(x) * a + b,
        lambda x: b - (conv(x) - c) / a,
        lambda x: a * conv(x),
    ]
    for f in chain:
        assert kinds(f, data(2, 3, 6, 7)) == ["Convolution"]


def test_scales_along_other_axes() -> None:
    conv = evaluated(M.Conv2d(3, 5, 3))
    row = data(5)  # along the width, which has as many
    assert kinds(lambda x: conv(x) * row, data(2, 3, 7, 7)) == ["Convolution", "Elemwise"]


def test_residuals() -> None:
    """The later product takes the sum, before the activation or after it."""
    a, b = evaluated(M.Conv2d(4, 4, 3, padding=1)), evaluated(M.Conv2d(4, 4, 1), 2)
    x = data(2, 4, 5, 6)
    fused = "FusedConvolution"
    assert kinds(lambda x: F.relu(a(x) + x), x) == [fused]
    assert kinds(lambda x: x + F.silu(a(x)), x) == [fused]
    assert kinds(lambda x: x + (F.silu(a(x)) * 3 - 1), x) == [fused]
    assert kinds(lambda x: F.relu(a(x) + b(x)), x) == ["Convolution", fused]
    assert kinds(lambda x: F.relu(F.relu(a(x)) + F.relu(b(x))), x) == [fused, fused, "Elemwise"]
    # Nobody's buffer is written: the residual is used again.
    assert len(kinds(lambda x: (lambda y: F.relu(b(y) + y) * y)(a(x)), x)) == 3
    assert kinds(lambda x: a(x) + F.sum(x), x) == ["Convolution", "Reduce", "Elemwise"]


def test_inputs_in_other_layouts() -> None:
    net = evaluated(M.Sequential(M.Conv2d(4, 4, 3, padding=1), M.BatchNorm2d(4)))
    x = F.transpose(data(6, 5, 4, 2), (3, 2, 1, 0))
    kinds(lambda x, z: F.relu(net(x) + z), x, F.transpose(x, (0, 1, 2, 3)))


@pytest.mark.parametrize(("channels", "out"), [(1, 1), (16, 16), (1, 24)])
def test_relu_of_nan_and_of_negative_numbers(channels: int, out: int) -> None:
    """NaN stays, and zeros have no sign, as without tracing."""
    conv = M.Conv2d(channels, out, 1, groups=channels, bias=False)
    conv.weight[...] = F.ones(conv.weight.shape)
    row = T(np.float32([-2, -0.0, 0, 3, -1e-30, np.nan, np.inf]))
    program = record(lambda x: F.relu(conv(x)), F.broadcast_to(row, (1, channels, 1, 7))).compile()
    assert [n.kind for n in program.optimized().nodes] == ["FusedConvolution"]
    got = program(F.broadcast_to(row, (1, channels, 1, 7)))[0].numpy()
    want = np.broadcast_to(np.float32([0, 0, 0, 3, 0, np.nan, np.inf]), got.shape)
    np.testing.assert_array_equal(got, want)
    assert not np.signbit(got[want == 0]).any()


@pytest.mark.parametrize(("channels", "out", "side"), [(64, 64, 20), (256, 40, 14), (32, 24, 9)])
def test_transformed_weights_are_as_exact(channels: int, out: int, side: int) -> None:
    """Kernels of 3 x 3 take Winograd's transforms, which are no further from exact results."""
    conv = evaluated(M.Conv2d(channels, out, 3, padding=1))
    x = data(2, channels, side, side + 1)
    program = record(conv, x).compile()
    assert [n.kind for n in program.optimized().nodes] == ["FusedConvolution"]
    w = T(conv.weight.numpy().astype("float64"), dtype="float64")
    bias = T(conv.bias.numpy().astype("float64"), dtype="float64")
    exact = F.conv2d(x.astype("float64"), w, bias, padding=1).numpy()
    direct, got = (np.abs(y.numpy() - exact) for y in (conv(x), program(x)[0]))
    assert np.sqrt((got**2).mean()) < 1.2 * np.sqrt((direct**2).mean())
    assert got.max() < 1.5 * direct.max()


def test_new_weights_of_3x3_kernels() -> None:
    """Transformed weights belong to the values that they were made of."""
    conv, x = evaluated(M.Conv2d(16, 16, 3)), data(1, 16, 12, 12)
    traced = trace(lambda x: F.relu(conv(x)))
    for _ in range(2):
        for _ in range(CALLS):
            close(traced(x), F.relu(conv(x)))
        conv.weight[...] = conv.weight * -0.5


def test_an_infinite_bound() -> None:
    conv = evaluated(M.Conv2d(2, 3, 3))
    assert kinds(lambda x: F.clip(conv(x), lower=-0.1), data(1, 2, 5, 5)) == ["FusedConvolution"]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("bfloat16", 4e-2)])
def test_low_precision(dtype: str, tolerance: float) -> None:
    w, norm = 0.3 * data(16, 8, 3, 3).astype(dtype), evaluated(M.BatchNorm2d(16))
    f = lambda x: F.relu(norm(F.conv2d(x, w)))  # noqa: E731
    assert "BatchNorm" not in kinds(f, data(2, 8, 7, 7).astype(dtype), tolerance=tolerance)


def test_double_precision() -> None:
    w, s = (
        T(np.random.default_rng(i).standard_normal(n), dtype="float64")
        for i, n in enumerate([(5, 3, 3, 3), (1, 5, 1, 1)])
    )
    x = T(np.random.default_rng(9).standard_normal((2, 3, 6, 6)), dtype="float64")
    assert kinds(lambda x: F.conv2d(x, w) * s, x, tolerance=1e-12) == ["Convolution"]


def test_empty_batches() -> None:
    net = evaluated(M.Sequential(M.Conv2d(2, 3, 3), M.BatchNorm2d(3), M.ReLU()))
    traced = trace(net)
    for _ in range(CALLS):
        assert traced(T(np.zeros((0, 2, 5, 5), "float32"))).shape == (0, 3, 3, 3)


# ---- matrix products -----------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh"])
def test_linear_and_activation(activation: str) -> None:
    net, f = evaluated(M.Linear(96, 100)), ACTIVATIONS[activation]
    assert kinds(lambda x: f(net(x)), data(3, 40, 96)) == ["FusedLinear"]


def test_linear_and_residual() -> None:
    a, b = evaluated(M.Linear(96, 96)), evaluated(M.Linear(96, 96, bias=False), 2)
    x = 0.1 * data(2, 50, 96)
    assert kinds(lambda x: x + a(F.gelu(b(x))), x) == ["FusedLinear", "FusedLinear"]


@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_product_and_bias(transposed: bool) -> None:
    w, b = data(80, 80), data(80, seed=1)
    f = lambda x: F.relu(F.matmul(x, w, transpose_b=transposed) + b)  # noqa: E731
    assert kinds(f, data(2, 60, 80)) == ["FusedLinear"]
    assert kinds(lambda x: F.matmul(x, w, transpose_b=transposed) * b, data(3, 80)) == ["Linear"]
    assert kinds(lambda x: F.matmul(x, w, transpose_b=transposed), data(9, 80)) == ["MatrixMul"]


def test_a_vector_and_a_matrix() -> None:
    w, b = data(8, 6), data(6, seed=1)
    assert kinds(lambda x: F.matmul(x, w) + b, data(8)) == ["MatrixMul", "Elemwise"]


# ---- constants and what changes nothing ----------------------------------------------------------


def test_constants() -> None:
    """What depends on constants alone is computed once."""
    w = data(4, 3)
    assert kinds(lambda x: F.matmul(x, F.exp(w) / F.sum(w * w)), data(2, 4)) == ["MatrixMul"]


def test_weights_that_others_are_made_of_are_let_go() -> None:
    net = evaluated(M.Sequential(M.Conv2d(2, 3, 3), M.BatchNorm2d(3)))
    values = record(net, data(1, 2, 5, 5)).compile().optimized().values
    assert sum(v.constant is not None for v in values) == 2  # a weight and a bias


def test_large_results_are_made_anew() -> None:
    row = data(1, 2048)
    f = lambda x: F.broadcast_to(row, (512, 2048)) * 1.5 + x  # noqa: E731
    assert "FusedElementwise" in kinds(f, data(512, 2048))


def test_random_numbers_are_drawn_anew() -> None:
    program = record(lambda: mge.random.normal(size=(3,)), *()).compile()
    first, second = program()[0].numpy(), program()[0].numpy()
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x * 1 + 0, 0),
        (lambda x: (x - 0) / 1, 0),
        (lambda x: x.astype("float32"), 0),
        (lambda x: x.reshape(6, 4).reshape(-1).reshape(3, 8), 1),
        (lambda x: x.transpose(2, 0, 1).transpose(1, 2, 0), 0),
        (lambda x: x.transpose(2, 0, 1).transpose(2, 1, 0), 1),
        (lambda x: x.reshape(2, 3, 4), 0),
        (lambda x: F.broadcast_to(x, (2, 3, 4)), 0),
        (lambda x: x**2, 1),
        (lambda x: x * 1.0000001, 1),
        (lambda x: 0 - x, 1),
        (lambda x: 1 / x, 1),
    ],
)
def test_what_changes_nothing(function: Callable[[mge.Tensor], mge.Tensor], left: int) -> None:
    assert len(kinds(function, data(2, 3, 4))) == left


# ---- values that change --------------------------------------------------------------------------


def network() -> M.Module:
    return evaluated(
        M.Sequential(M.Conv2d(3, 4, 3), M.BatchNorm2d(4), M.ReLU(), M.Conv2d(4, 2, 1, bias=True))
    )


def assigned(net: M.Module) -> None:
    net[0].weight[...] = 2 * net[0].weight


def one_element(net: M.Module) -> None:
    net[1].running_mean[0, 1] += 3.0


def loaded(net: M.Module) -> None:
    net.load_state_dict({k: v * 1.5 for k, v in net.state_dict().items()})


def replaced(net: M.Module) -> None:
    net[3].bias = mge.Parameter(np.ones((1, 2, 1, 1), "float32"))


def trained(net: M.Module) -> None:
    gm = GradManager().attach(net.parameters())
    opt = optim.SGD(net.parameters(), lr=0.1)
    with gm:
        gm.backward(F.mean(net(data(2, 3, 6, 6)) ** 2))
    opt.step().clear_grad()


@pytest.mark.parametrize("change", [assigned, one_element, loaded, replaced, trained])
def test_new_weights(change: Callable[[M.Module], None]) -> None:
    """Every call takes the weights that are there, also after many that had the same."""
    net = network()
    traced = trace(lambda x: net(x))
    x = data(2, 3, 6, 6, seed=5)
    for _ in range(3):
        for _ in range(CALLS):
            close(traced(x), net(x))
        before = net(x).numpy()
        change(net)
        close(traced(x), net(x))
        assert change is replaced or not np.allclose(traced(x).numpy(), before)


def test_weights_that_change_in_each_call() -> None:
    net = network()
    traced = trace(lambda x: net(x))
    x = data(2, 3, 6, 6)
    for k in range(40):
        if k % 3 == 0:
            assigned(net)
            net[0].weight[...] /= 2.5
        close(traced(x), net(x))


def ran(traced: trace) -> dict[str, int]:
    """The ops that the last call ran, by kind."""
    return {kind: row["count"] for kind, row in traced.get_profile()["kinds"].items()}


def test_arguments_are_no_constants() -> None:
    """The very same Tensor in call after call is computed with in each of them."""
    traced = trace(lambda x, pair, z: F.exp(x) @ F.exp(pair["a"][0]) + z, profiling=True)
    x, y = data(3, 3), data(3, 3, seed=2)
    for _ in range(CALLS):
        traced(x, {"a": [y]}, z=y)
    assert ran(traced) == {"Elemwise": 3, "MatrixMul": 1}


def test_what_runs_when_values_change() -> None:
    """Captured values that stay are constants from some call on, until one of them changes."""
    net = network()
    traced = trace(lambda x: net(x), profiling=True)
    x = data(2, 3, 6, 6)
    folded = {"FusedConvolution": 1, "Convolution": 1}
    for _ in range(CALLS):
        traced(x)
    assert ran(traced) == folded
    assigned(net)
    traced(x)
    assert ran(traced) == {"Convolution": 2, "BatchNorm": 1, "Elemwise": 1}
    for _ in range(2 * CALLS):
        traced(x)
    assert ran(traced) == folded


def test_numbers() -> None:
    """Python makes a new Tensor of a number in each call; equal ones are the same, others count."""
    conv = evaluated(M.Conv2d(2, 3, 3))
    bound = [1.0]
    traced = trace(lambda x: F.clip(conv(x), -bound[0], bound[0]), profiling=True)
    x = data(1, 2, 6, 6)
    for value in (1.0, 0.25):
        bound[0] = value
        for _ in range(2 * CALLS):
            close(traced(x), F.clip(conv(x), -value, value))
        assert ran(traced) == {"FusedConvolution": 1}


def test_a_training_step_is_left_as_it_is() -> None:
    net = network()
    net.train()
    gm = GradManager().attach(net.parameters())
    opt = optim.SGD(net.parameters(), lr=0.1)

    def step(x: mge.Tensor) -> mge.Tensor:
        with gm:
            loss = F.mean(net(x) ** 2)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss

    traced = trace(step, profiling=True)
    for _ in range(CALLS):
        traced(data(2, 3, 6, 6))
    assert not {"FusedConvolution", "FusedLinear"} & set(ran(traced))


def test_a_shared_weight() -> None:
    a, b = evaluated(M.Conv2d(3, 3, 1)), evaluated(M.BatchNorm2d(3))
    other = M.Conv2d(3, 3, 1)
    other.weight, other.bias = a.weight, a.bias
    assert kinds(lambda x: other(b(a(x))), data(2, 3, 4, 4)).count("Convolution") == 2


def test_modules_are_not_kept() -> None:
    net = network()
    traced = trace(lambda x: net(x))
    x = data(1, 3, 6, 6)
    for _ in range(CALLS):
        traced(x)
    reference = weakref.ref(net[0])
    traced = net = None
    gc.collect()
    assert reference() is None


def test_training_and_evaluation_in_turns() -> None:
    """Traced training beside traced evaluation ends where the plain functions end."""

    def run(wrap: Callable[[Any], Any]) -> list[np.ndarray[Any, Any]]:
        net = network()
        opt = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        gm = GradManager().attach(net.parameters())

        def step(x: mge.Tensor) -> mge.Tensor:
            net.train()
            with gm:
                loss = F.mean(net(x) ** 2)
                gm.backward(loss)
            opt.step().clear_grad()
            return loss

        def score(x: mge.Tensor) -> mge.Tensor:
            net.eval()
            return F.sum(net(x))

        train, evaluate = wrap(step), wrap(score)
        out = []
        for _ in range(4):
            for k in range(3):
                out.append(train(data(4, 3, 6, 6, seed=k)).numpy())
            out += [evaluate(data(4, 3, 6, 6, seed=k)).numpy() for k in range(6)]
        return out + [v for _, v in sorted(net.state_dict().items())]

    for got, want in zip(run(trace), run(lambda f: f), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
