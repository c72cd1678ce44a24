"""Convolutions and fully connected layers with what follows them in inference."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.cases.convs import conv_ref
from tests.ops.record import Array, Record

_erfc = np.vectorize(math.erfc, otypes=[float])

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "RELU": lambda y: np.maximum(y, 0),
    "PRELU": lambda y: np.where(y < 0, 0.25 * y, y),
    "RELU6": lambda y: np.clip(y, 0, 6),
    "CLIP": lambda y: np.clip(y, -0.5, 2),
    "SIGMOID": lambda y: 1 / (1 + np.exp(-y)),
    "TANH": np.tanh,
    "SILU": lambda y: y / (1 + np.exp(-y)),
    "H_SWISH": lambda y: y * np.clip(y + 3, 0, 6) / 6,
    "HSIGMOID": lambda y: np.clip(y + 3, 0, 6) / 6,
    "GELU": lambda y: y * 0.5 * _erfc(-y / math.sqrt(2)),
}
NUMBERS = {"PRELU": {"alpha": 0.25}, "CLIP": {"alpha": -0.5, "beta": 2.0}}
# Sums of products are rounded, then an activation, and in 16 bits a residual apart from them where
# the machine has no such products.
TOLERANCE = {"float32": (2e-5, 2e-5), "float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2)}


def _followed(
    y: Array, summand: Array, activation: str | None, residual: str, scale: float, shift: float
) -> Array:
    """What follows a product, before and after its activation."""
    if residual == "BEFORE_ACTIVATION":
        y = y + summand
    if activation:
        y = ACTIVATIONS[activation](y) * scale + shift
    return y + summand if residual == "AFTER_ACTIVATION" else y


def _record(kind: str, activation: str | None, bias: bool, residual: str, groups: int) -> Record:
    attributes = {"bias": bias, "residual": residual, "activation": activation}
    attributes |= NUMBERS.get(activation or "", {})
    scale, shift = (1.5, -0.25) if activation in ("TANH", "SILU") else (1, 0)
    attributes |= {"scale": scale, "shift": shift}
    shapes: list[tuple[int, ...]]
    if kind == "FusedConvolution":
        op = builtin.FusedConvolution(
            stride_h=2, pad_h=1, pad_w=2, sparse="GROUP" if groups > 1 else "DENSE", **attributes
        )
        weight = (6, 4, 3, 3) if groups == 1 else (groups, 6 // groups, 4 // groups, 3, 3)
        shapes, bias_shape, out = [(2, 4, 5, 4), weight], (1, 6, 1, 1), (2, 6, 3, 6)
    else:
        op = builtin.FusedLinear(**attributes)
        shapes, bias_shape, out = [(2, 40, 70), (90, 70)], (90,), (2, 40, 90)
    if bias:
        shapes.append(bias_shape)
    if residual != "NONE":
        shapes.append(out)

    def ref(*a: Array) -> Array:
        y = conv_ref(a[0], a[1], None, (2, 1), (1, 2)) if len(out) == 4 else a[0] @ a[1].T
        if bias:
            y = y + a[2]
        return _followed(y, a[-1], activation, residual, scale, shift)

    return Record(
        f"{kind}-{activation}-{groups}-{'bias' if bias else 'plain'}-{residual}",
        fn=lambda *a: apply(op, *a)[0],
        ref=ref,
        inputs=lambda rng: [0.3 * rng.standard_normal(s) for s in shapes],
        ops=(kind,),
        tol=TOLERANCE,
        order=0,
        empty=False,
        exact_threads=False,
    )


def _packed(kernel: int, activation: str | None, bias: bool, residual: str, size: int) -> Record:
    """Kernels with channels for our own layouts of weights, over an odd and an even side."""
    attributes = {"bias": bias, "residual": residual, "activation": activation}
    attributes |= NUMBERS.get(activation or "", {})
    scale, shift = (1.5, -0.25) if activation == "SILU" else (1, 0)
    attributes |= {"scale": scale, "shift": shift}
    pad = (1, 0) if kernel == 3 else (0, 0)
    op = builtin.FusedConvolution(pad_h=pad[0], pad_w=pad[1], **attributes)
    out = (2, 24, size, size + 4 - kernel)
    shapes: list[tuple[int, ...]] = [(2, 16, size, size + 3), (24, 16, kernel, kernel)]
    shapes += [(24,)] * bias + [out] * (residual != "NONE")

    def ref(*a: Array) -> Array:
        y = conv_ref(a[0], a[1], None, (1, 1), pad)
        if bias:
            y = y + a[2][:, None, None]
        return _followed(y, a[-1], activation, residual, scale, shift)

    return Record(
        f"FusedConvolution-{kernel}-{activation}-{'bias' if bias else 'plain'}-{residual}-{size}",
        fn=lambda *a: apply(op, *a)[0],
        ref=ref,
        inputs=lambda rng: [0.3 * rng.standard_normal(s) for s in shapes],
        ops=("FusedConvolution",),
        tol=TOLERANCE,
        order=0,
        empty=False,
        exact_threads=True,
    )


RECORDS = [
    *(_packed(kernel, a, True, "NONE", 7) for kernel in (1, 3) for a in ACTIVATIONS),
    _packed(3, None, False, "NONE", 16),
    _packed(1, None, False, "NONE", 1),
    *(
        _packed(kernel, activation, bias, residual, 9)
        for kernel in (1, 3)
        for activation in ("SILU", "RELU")
        for bias in (False, True)
        for residual in ("BEFORE_ACTIVATION", "AFTER_ACTIVATION")
    ),
    *(_record("FusedConvolution", a, True, "NONE", 1) for a in ACTIVATIONS),
    *(_record("FusedLinear", a, True, "NONE", 1) for a in ACTIVATIONS),
    *(
        _record(kind, "SILU", bias, residual, groups)
        for kind, groups in (("FusedConvolution", 1), ("FusedConvolution", 2), ("FusedLinear", 1))
        for bias in (False, True)
        for residual in ("BEFORE_ACTIVATION", "AFTER_ACTIVATION")
    ),
    _record("FusedConvolution", None, False, "BEFORE_ACTIVATION", 2),
    _record("FusedLinear", None, False, "NONE", 1),
]
