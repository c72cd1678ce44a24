"""Fake quantisation, and what a gradient scaler does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from megengine._core import apply
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

LOG2 = np.log(2.0)


def away(x: Array) -> Array:
    """Rounds halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def fake_ref(lo: float, hi: float) -> Callable[..., Array]:
    def ref(x: Array, s: Array, z: Array) -> Array:
        return (np.clip(away(x / s) + z, lo, hi) - z) * s

    return ref


def fake_backward_ref(lo: float, hi: float) -> Callable[..., Array]:
    def ref(dy: Array, x: Array, s: Array, z: Array) -> Array:
        q = away(x / s) + z
        return np.where((q >= lo) & (q <= hi), dy, 0)

    return ref


def tqt_ref(lo: float, hi: float) -> Callable[..., Array]:
    return lambda x, s: np.clip(away(x / 2**s), lo, hi) * 2**s


def tqt_backward_ref(lo: float, hi: float) -> Callable[..., Any]:
    def ref(dy: Array, x: Array, s: Array) -> tuple[Array, Array]:
        step = 2**s
        t = x / step
        inside = (t >= lo - 0.5) & (t <= hi + 0.5)
        q = np.clip(away(t), lo, hi)
        return np.where(inside, dy, 0), dy * step * LOG2 * np.where(inside, q - t, q)

    return ref


def lsq_ref(lo: float, hi: float) -> Callable[..., Array]:
    def ref(x: Array, s: Array, z: Array, g: Array) -> Array:
        return (np.clip(away(x / s + z), lo, hi) - z) * s

    return ref


def lsq_backward_ref(lo: float, hi: float) -> Callable[..., Any]:
    def ref(dy: Array, x: Array, s: Array, z: Array, g: Array) -> tuple[Array, Array]:
        t = x / s + z
        inside = (t >= lo) & (t <= hi)
        q = np.clip(away(t), lo, hi)
        return np.where(inside, dy, 0), dy * g * np.where(inside, q - t, q - z)

    return ref


def one(op: Any) -> Callable[..., Any]:
    return lambda *inputs: apply(op, *inputs)[0]


def every(op: Any) -> Callable[..., Any]:
    return lambda *inputs: tuple(apply(op, *inputs))


def both(op: Any) -> Callable[..., Any]:
    """The gradients; that of the scale is float32 for 16-bit inputs, since it will be summed."""

    def fn(dy: Any, *inputs: Any) -> tuple[Any, Any]:
        dx, ds = apply(op, dy, *inputs)
        assert ds.dtype == ("float64" if dy.dtype == "float64" else "float32")
        return dx, ds.astype(dy.dtype)

    return fn


# Powers of two and halves: exact in every dtype, so that no value is moved across a step.
def inputs(
    *parameters: Array, backward: bool = False, shape: tuple[int, ...] = (3, 4, 5, 2)
) -> Callable[[np.random.Generator], list[Array]]:
    def make(rng: np.random.Generator) -> list[Array]:
        x = rng.standard_normal(shape) * 3
        return [*([rng.standard_normal(shape)] if backward else []), x, *parameters]

    return make


def channel(*values: float) -> Array:
    return np.array(values, np.float64).reshape(1, -1, 1, 1)


# The number of parameters of an op, by name, and values for them: one for all, and per channel.
ONE = {
    "FakeQuant": [np.array(0.25), np.array(3.0)],
    "TQT": [np.array(-2.0)],
    "LSQ": [np.array(0.25), np.array(1.0), np.array(0.5)],
}
PER_CHANNEL = {
    "FakeQuant": [channel(0.25, 0.5, 0.125, 1), channel(0, 3, -2, 1)],
    "TQT": [channel(-2, -1, -3, 0)],
    "LSQ": [channel(0.25, 0.5, 0.125, 1), channel(0, 1, -2, 1), channel(1, 0.5, 2, 0.25)],
}
REFS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "FakeQuant": (fake_ref, fake_backward_ref),
    "TQT": (tqt_ref, tqt_backward_ref),
    "LSQ": (lsq_ref, lsq_backward_ref),
}
# Sums of gradients of 16-bit tensors are kept in float32.
WIDE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}


def quantize_records() -> list[Record]:
    out = []
    for name, (ref, backward_ref) in REFS.items():
        for kind, parameters in {"one": ONE[name], "channel": PER_CHANNEL[name]}.items():
            op = getattr(builtin, name)(qmin=-8, qmax=7)
            back = getattr(builtin, f"{name}Backward")(qmin=-8, qmax=7)
            out.append(
                Record(
                    f"{name}-{kind}",
                    fn=one(op),
                    ref=ref(-8, 7),
                    inputs=inputs(*parameters),
                    ops=(name,),
                    order=0,
                    empty=lambda p=parameters: [[np.zeros((0, 4, 5, 2)), *p]],
                    large=inputs(*parameters, shape=(20, 4, 50, 20)),
                )
            )
            out.append(
                Record(
                    f"{name}-{kind}-backward",
                    fn=one(back) if name == "FakeQuant" else both(back),
                    ref=backward_ref(-8, 7),
                    inputs=inputs(*parameters, backward=True),
                    ops=(f"{name}Backward",),
                    grad=(0,),  # rounding has no slope, but for what passes straight through it
                    order=1,
                    tol=WIDE,
                    empty=lambda p=parameters: [
                        [np.zeros((0, 4, 5, 2)), np.zeros((0, 4, 5, 2)), *p]
                    ],
                    large=inputs(*parameters, backward=True, shape=(20, 4, 50, 20)),
                )
            )
    return out


def check_ref(*xs: Array) -> tuple[Array, ...]:
    return (*(x * 0.5 for x in xs), np.array(0))


CHECK = Record(
    "CheckNonFinite",
    fn=every(builtin.CheckNonFinite(scale=0.5)),
    ref=check_ref,
    inputs=lambda rng: [rng.standard_normal((3, 4, 5, 2)), rng.standard_normal(7)],
    ops=("CheckNonFinite",),
    order=0,
    scalar=True,
    large=lambda rng: [rng.standard_normal(300000)],
)

RECORDS = [*quantize_records(), CHECK]
