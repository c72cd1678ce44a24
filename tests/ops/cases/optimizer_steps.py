"""The step of one parameter as an op, which traced calls record."""

from __future__ import annotations

from typing import Any

import numpy as np

import megengine as mge
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

LR = 0.1
CHAIN = {"float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)}


def step_of(op: Any, *inputs: mge.Tensor) -> tuple[mge.Tensor, ...]:
    """The op takes the learning rate as a float64 number before the rest."""
    return tuple(apply(op, mge.tensor(LR, dtype="float64"), *inputs))


def momentum(nesterov: bool) -> Record:
    op = builtin.OptimizerStep(
        rule="SGD_NESTEROV" if nesterov else "SGD_MOMENTUM", momentum=0.9, weight_decay=0.01
    )

    def ref(g: Array, p: Array, a: Array) -> tuple[Array, ...]:
        d = g + 0.01 * p
        a = 0.9 * a + d
        return p - LR * (d + 0.9 * a if nesterov else a), a

    return Record(
        f"optimizer_step-momentum-{nesterov}",
        fn=lambda *xs: step_of(op, *xs),
        ref=ref,
        inputs=lambda rng: [rng.standard_normal((5, 7)) for _ in range(3)],
        ops=("OptimizerStep",),
        dtypes=("float32", "float64"),
        tol=CHAIN,
        order=0,
        large=lambda rng: [rng.standard_normal((257, 500)) for _ in range(3)],
    )


def adam() -> Record:
    op = builtin.OptimizerStep(rule="ADAM", beta1=0.9, beta2=0.99, eps=1e-3)

    def ref(g: Array, p: Array, a: Array, b: Array) -> tuple[Array, ...]:
        a, b = 0.9 * a + 0.1 * g, 0.99 * b + 0.01 * g * g
        c1, c2 = 1 - 0.9**3, 1 - 0.99**3
        return p - LR * (a / c1) / (np.sqrt(b / c2) + 1e-3), a, b

    def fn(*xs: mge.Tensor) -> tuple[mge.Tensor, ...]:
        *stepped, count = step_of(op, *xs, mge.tensor(2.0))
        assert count.item() == 3
        return tuple(stepped)

    return Record(
        "optimizer_step-adam",
        fn=fn,
        ref=ref,
        inputs=lambda rng: [
            *(rng.standard_normal((5, 7)) for _ in range(3)),
            rng.random((5, 7)) + 0.1,
        ],
        ops=("OptimizerStep",),
        dtypes=("float32", "float64"),
        tol=CHAIN,
        order=0,
        large=lambda rng: [np.abs(rng.standard_normal((257, 500))) + 0.1 for _ in range(4)],
    )


RECORDS: list[Record] = [momentum(False), momentum(True), adam()]
