"""Fake quantisation, mesh indexing and checks of gradients, through OpenMGE."""

from __future__ import annotations

import numpy as np

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import backward, integers, normal
from megengine._core import apply
from megengine.core.ops import builtin

T = mge.tensor
FAKE = builtin.FakeQuant(qmin=-128, qmax=127)


@workload
def fake_quant() -> Work:
    x, scale, zero = normal(1 << 22), T(0.02), T(0.0)
    return Work(lambda: apply(FAKE, x, scale, zero), bytes=8 << 22)


@workload
def fake_quant_small() -> Work:
    x, scale, zero = normal(1 << 10), T(0.02), T(0.0)
    return repeat(lambda: apply(FAKE, x, scale, zero), 1000)


@workload
def fake_quant_channels() -> Work:
    x = normal(16, 64, 56, 56)
    scale = T(np.linspace(0.01, 0.05, 64).astype("float32").reshape(1, 64, 1, 1))
    zero = F.zeros((1, 64, 1, 1))
    return Work(lambda: apply(FAKE, x, scale, zero), bytes=8 * 16 * 64 * 56 * 56)


@workload
def fake_quant_train() -> Work:
    x, scale, zero = normal(1 << 22), T(0.02), T(0.0)
    return backward(lambda: apply(FAKE, x, scale, zero)[0], [x])


@workload
def lsq_train() -> Work:
    x, scale, zero, gain = normal(1 << 22), T(0.02), T(0.0), T(0.5)
    op = builtin.LSQ(qmin=-128, qmax=127)
    return backward(lambda: apply(op, x, scale, zero, gain)[0], [x, scale])


@workload
def unscale_and_check() -> Work:
    grads = [normal(512, 512) for _ in range(20)] + [normal(512) for _ in range(20)]
    op = builtin.CheckNonFinite(scale=0.5)
    return Work(lambda: apply(op, *grads), bytes=8 * (20 * 512 * 512 + 20 * 512))


@workload
def mesh_read() -> Work:
    x, i, j = normal(2048, 2048), integers(2048, 1024), integers(2048, 1024)
    items = [(0, False, False, False, True), (1, False, False, False, True)]
    op = builtin.MeshIndexing(items=items)
    return Work(lambda: apply(op, x, i, j), bytes=8 << 20)


@workload
def mesh_add() -> Work:
    x, v = normal(2048, 2048), normal(1024, 1024)
    i, j = integers(2048, 1024), integers(2048, 1024)
    items = [(0, False, False, False, True), (1, False, False, False, True)]
    op = builtin.IncrMeshIndexing(items=items)
    return Work(lambda: apply(op, x, v, i, j), bytes=8 << 22)


@workload
def inplace_add() -> Work:
    x, y = normal(1 << 22), normal(1 << 22)
    alpha, beta = T(0.9), T(0.1)
    return Work(lambda: F.inplace._inplace_add_(x, y, alpha, beta), bytes=12 << 22)


@workload
def masked_fill() -> Work:
    x = normal(1 << 22)
    mask = x > 0
    op = builtin.MaskedFill(value=0.5)
    return Work(lambda: apply(op, x, mask), bytes=9 << 22)
