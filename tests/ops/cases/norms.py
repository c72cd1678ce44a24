"""Norm ops that are other ops underneath, and a step of LAMB as an op."""

from __future__ import annotations

import numpy as np

from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

CHAIN = {"float32": (2e-5, 5e-6), "float64": (1e-11, 1e-11)}


def normalized(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """(y, mean, rstd) over `axes`."""
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean.squeeze(axes), rstd.squeeze(axes)


def general_norm(start: int, end: int, affine: bool) -> Record:
    op = builtin.GeneralNorm(affine=affine, eps=1e-3, axis_start=start, axis_end=end)
    shape = (3, 4, 2, 5)
    own = tuple(n if start <= i < end else 1 for i, n in enumerate(shape))

    def ref(x: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
        y, _, _ = normalized(x, tuple(range(start, end)), 1e-3)
        return y if weight is None else y * weight.reshape(own) + bias.reshape(own)

    def inputs(rng: np.random.Generator) -> list[Array]:
        parameters = [rng.standard_normal([n for n in own if n > 1]) for _ in range(2)]
        return [rng.standard_normal(shape) * 2 + 1, *(parameters if affine else [])]

    return Record(
        f"general_norm-{start}-{end}{'-affine' if affine else ''}",
        fn=lambda *xs: apply(op, *xs)[0],
        ref=ref,
        inputs=inputs,
        ops=("GeneralNorm",),
        tol=CHAIN,
        empty=False,
    )


def instance_norm(affine: bool) -> Record:
    op = builtin.InstanceNorm(affine=affine, eps=1e-3)

    def ref(x: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
        y, _, _ = normalized(x, (2, 3), 1e-3)
        return y if weight is None else y * weight[:, None, None] + bias[:, None, None]

    return Record(
        f"instance_norm-op{'-affine' if affine else ''}",
        fn=lambda *xs: apply(op, *xs)[0],
        ref=ref,
        inputs=lambda rng: [
            rng.standard_normal((2, 3, 4, 5)) * 2 + 1,
            *([rng.standard_normal(3), rng.standard_normal(3)] if affine else []),
        ],
        ops=("InstanceNorm",),
        tol=CHAIN,
        empty=False,
    )


def lamb(weight_decay: float, always_adapt: bool, bias_correction: bool) -> Record:
    options = {
        "beta_1": 0.9,
        "beta_2": 0.99,
        "step": 3.0,
        "lr": 0.1,
        "eps": 1e-3,
        "weight_decay": weight_decay,
        "always_adapt": always_adapt,
        "bias_correction": bias_correction,
    }
    op = builtin.LAMBUpdate(**options)

    def ref(m: Array, v: Array, p: Array, g: Array) -> tuple[Array, ...]:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        c1, c2 = (1 - 0.9**3, 1 - 0.99**3) if bias_correction else (1.0, 1.0)
        u = (m / c1) / (np.sqrt(v / c2) + 1e-3) + weight_decay * p
        adapt = always_adapt or weight_decay > 0
        ratio = np.linalg.norm(p) / np.linalg.norm(u) if adapt and p.size else 1.0
        return m, v, p - 0.1 * ratio * u

    return Record(
        f"lamb_update-{weight_decay}-{always_adapt}-{bias_correction}",
        fn=lambda *xs: apply(op, *xs),
        ref=ref,
        inputs=lambda rng: [
            rng.standard_normal((5, 7)),
            rng.random((5, 7)) + 0.1,
            *(rng.standard_normal((5, 7)) for _ in range(2)),
        ],
        ops=("LAMBUpdate",),
        dtypes=("float32", "float64"),
        tol=CHAIN,
        order=0,
        large=lambda rng: [np.abs(rng.standard_normal((257, 500))) + 0.1 for _ in range(4)],
    )


RUNS = ((1, 3, False), (1, 3, True), (0, 2, True), (2, 4, True), (0, 4, False))
RECORDS: list[Record] = [
    *(general_norm(start, end, affine) for start, end, affine in RUNS),
    instance_norm(False),
    instance_norm(True),
    lamb(0.1, False, True),
    lamb(0.0, True, False),
    lamb(0.0, False, True),
]
