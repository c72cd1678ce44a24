"""LAMB against its paper, in float64 NumPy: the reference release cannot make one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine import optimizer as optim

Array = np.ndarray[Any, np.dtype[Any]]
SHAPES = [(2, 3), (4,), (40_000,), (1, 3, 1)]
OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.05, "weight_decay": wd, "always_adapt": adapt, "bias_correction": bias}
    for wd, adapt, bias in product((0.0, 0.1), (False, True), (False, True))
] + [
    {"lr": 0.05, "betas": (0.5, 0.7), "weight_decay": 0.1},
    {"lr": 0.05, "eps": 0.3, "weight_decay": 0.1},
]


def start(rng: np.random.Generator) -> list[Array]:
    return [rng.standard_normal(s) for s in SHAPES]


def gradients(rng: np.random.Generator) -> list[list[Array]]:
    return [[rng.standard_normal(s) for s in SHAPES] for _ in range(10)]


def paper(
    params: list[Array],
    grads: list[list[Array]],
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    bias_correction: bool = True,
    weight_decay: float = 0.0,
    always_adapt: bool = False,
) -> list[list[Array]]:
    """Algorithm 2 of the paper, with phi the identity: parameters after each step."""
    (b1, b2), seen = betas, []
    params = [p.copy() for p in params]
    ms, vs = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    for t, gs in enumerate(grads, 1):
        c1, c2 = (1 - b1**t, 1 - b2**t) if bias_correction else (1.0, 1.0)
        for i, g in enumerate(gs):
            ms[i] = b1 * ms[i] + (1 - b1) * g
            vs[i] = b2 * vs[i] + (1 - b2) * g * g
            u = (ms[i] / c1) / (np.sqrt(vs[i] / c2) + eps) + weight_decay * params[i]
            norms = np.linalg.norm(params[i]), np.linalg.norm(u)
            adapt = (weight_decay > 0 or always_adapt) and all(norms)
            params[i] = params[i] - lr * (norms[0] / norms[1] if adapt else 1.0) * u
        seen.append([p.copy() for p in params])
    return seen


def steps(
    params: list[Array],
    grads: list[list[Array]],
    dtype: str,
    cls: type[optim.LAMB] = optim.LAMB,
    **options: Any,
) -> tuple[list[list[Array]], optim.LAMB]:
    ps = [mge.Parameter(p, dtype=dtype) for p in params]
    optimizer, seen = cls(ps, **options), []
    for gs in grads:
        for p, g in zip(ps, gs, strict=True):
            p.grad = mge.tensor(g, dtype=dtype)
        optimizer.step()
        seen.append([p.numpy() for p in ps])
    return seen, optimizer


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-5), ("float64", 1e-12)])
def test_ten_steps(
    options: dict[str, Any], dtype: str, rtol: float, rng: np.random.Generator
) -> None:
    params, grads = start(rng), gradients(rng)
    seen, _ = steps(params, grads, dtype, **options)
    for got, want in zip(seen, paper(params, grads, **options), strict=True):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_round_once_a_step(dtype: str, rng: np.random.Generator) -> None:
    params, grads = start(rng), gradients(rng)
    seen, optimizer = steps(params, grads, dtype, lr=0.05, weight_decay=0.1)
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    for got, want in zip(seen, paper(params, grads, lr=0.05, weight_decay=0.1), strict=True):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.astype("float64"), w, atol=60 * unit)
    for state in optimizer.state_dict()["state"].values():
        assert {v.dtype.name for v in state.values()} == {"float32"}


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_lamb_fp16_keeps_a_float32_copy(
    dtype: str, weight_decay: float, rng: np.random.Generator
) -> None:
    params = [mge.tensor(p, dtype=dtype).astype("float32").numpy() for p in start(rng)]
    grads = [
        [mge.tensor(g, dtype=dtype).astype("float32").numpy() for g in gs] for gs in gradients(rng)
    ]
    options = {"lr": 1e-3, "weight_decay": weight_decay}
    seen, optimizer = steps(params, grads, dtype, optim.LAMBFp16, **options)
    wide, _ = steps(params, grads, "float32", **options)
    for got, want in zip(seen, wide, strict=True):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, mge.tensor(w).astype(dtype).numpy())
    for i, w in enumerate(wide[-1]):
        np.testing.assert_array_equal(optimizer.state_dict()["state"][i]["param_fp32"], w)


def test_zeros_have_no_scale() -> None:
    """A parameter of zeros moves as Adam's does; one without a gradient only decays."""
    p, q = mge.Parameter(np.zeros(3, "float32")), mge.Parameter(np.ones(3, "float32"))
    optimizer = optim.LAMB([p, q], lr=0.1, weight_decay=0.1, always_adapt=True)
    p.grad, q.grad = mge.tensor(np.ones(3, "float32")), mge.tensor(np.zeros(3, "float32"))
    optimizer.step()
    np.testing.assert_allclose(p.numpy(), -0.1, rtol=1e-6)
    np.testing.assert_allclose(q.numpy(), 0.9, rtol=1e-6)
    empty = mge.Parameter(np.zeros((0, 3), "float32"))
    empty.grad = mge.tensor(np.zeros((0, 3), "float32"))
    optim.LAMB([empty], lr=0.1, weight_decay=0.1).step()


def test_norms_do_not_overflow() -> None:
    p = mge.Parameter(np.full(4, 1e30, "float32"))
    p.grad = mge.tensor(np.ones(4, "float32"))
    optim.LAMB([p], lr=0.1, always_adapt=True).step()
    np.testing.assert_allclose(p.numpy(), 0.9e30, rtol=1e-5)


def test_any_number_of_threads_gives_the_same_numbers(rng: np.random.Generator) -> None:
    params, grads = [rng.standard_normal(100_001)], [[rng.standard_normal(100_001)]]
    before = mge.device.get_num_threads()
    try:
        results = []
        for n in (1, 3):
            mge.device.set_num_threads(n)
            results.append(steps(params, grads * 3, "float32", lr=0.1, weight_decay=0.1)[0])
    finally:
        mge.device.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one[0], three[0])


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -1.0},
        {"lr": 0.1, "weight_decay": -1.0},
        {"lr": 0.1, "betas": (1.0, 0.9)},
        {"lr": 0.1, "betas": (0.9, -0.1)},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Invalid"):
        optim.LAMB([mge.Parameter([1.0])], **options)


def test_a_wrong_gradient_raises_before_anything_changes() -> None:
    p = mge.Parameter(np.ones(3, "float16"))
    optimizer = optim.LAMBFp16([p], lr=0.1)
    p.grad = mge.tensor(np.ones(2, "float16"))
    with pytest.raises(ValueError, match=r"LAMBFp16.*shape"):
        optimizer.step()
    np.testing.assert_array_equal(p.numpy(), 1.0)
