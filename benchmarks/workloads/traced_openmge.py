"""Traced functions, through OpenMGE: elementwise chains, attention as it is written out."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import features, normal
from megengine.autodiff import GradManager
from megengine.jit import trace

LARGE = 1 << 24
MEDIUM = 1 << 18


def chain(x: mge.Tensor) -> mge.Tensor:
    """Six ops, one of which takes time of its own."""
    return F.tanh(x * 2 + 1) * x - F.abs(x)


def cheap(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
    """Four ops that a pass over memory is all of."""
    return F.maximum((x + y) * 0.5, x - y)


def huber(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
    """A comparison chooses between two formulas."""
    d = F.abs(x - y)
    return F.where(d < 1, d * d * 0.5, d - 0.5)


def squared_error(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
    """A reduction of a chain that nothing else needs."""
    return F.mean((x - y) ** 2)


def scale_shift(x: mge.Tensor, scale: mge.Tensor, shift: mge.Tensor) -> mge.Tensor:
    """One number for each channel."""
    return F.relu(x * scale + shift)


def written_out(q: mge.Tensor, k: mge.Tensor, v: mge.Tensor) -> mge.Tensor:
    """Attention as products and a softmax."""
    scores = F.matmul(q, k, transpose_b=True) * 0.125
    return F.matmul(F.softmax(scores, axis=-1), v)


def heads(n: int, number: int, length: int, depth: int) -> list[mge.Tensor]:
    return [F.transpose(normal(n, length, number, depth), (0, 2, 1, 3)) for _ in range(3)]


@workload
def traced_chain() -> Work:
    f, x = trace(chain), normal(LARGE)
    return Work(lambda: f(x), bytes=8.0 * LARGE)


@workload
def traced_chain_medium() -> Work:
    f, x = trace(chain), normal(MEDIUM)
    return repeat(lambda: f(x), 20)


@workload
def traced_chain_tiny() -> Work:
    f, x = trace(chain), normal(10)
    return repeat(lambda: f(x), 1000)


@workload
def traced_cheap() -> Work:
    f, x, y = trace(cheap), normal(LARGE), normal(LARGE)
    return Work(lambda: f(x, y), bytes=12.0 * LARGE)


@workload
def traced_huber() -> Work:
    f, x, y = trace(huber), normal(LARGE), normal(LARGE)
    return Work(lambda: f(x, y), bytes=12.0 * LARGE)


@workload
def traced_squared_error() -> Work:
    f, x, y = trace(squared_error), normal(LARGE), normal(LARGE)
    return Work(lambda: f(x, y), bytes=8.0 * LARGE)


@workload
def traced_channels() -> Work:
    f, x = trace(scale_shift), features(32, 64, 56, 56)
    scale, shift = normal(1, 64, 1, 1), normal(1, 64, 1, 1)
    return Work(lambda: f(x, scale, shift), bytes=8.0 * x.size)


@workload
def traced_attention() -> Work:
    f, (q, k, v) = trace(written_out), heads(8, 12, 197, 64)
    return Work(lambda: f(q, k, v))


@workload
def traced_attention_train() -> Work:
    x = heads(8, 12, 197, 64)
    gm = GradManager().attach(x)

    @trace
    def step(q: mge.Tensor, k: mge.Tensor, v: mge.Tensor) -> list[mge.Tensor | None]:
        with gm:
            loss = written_out(q, k, v).sum()
            gm.backward(loss)
        results = [loss, *(t.grad for t in x)]
        for t in x:
            t.grad = None
        return results

    return Work(lambda: step(*x))


@workload
def traced_parts_train() -> Work:
    """The gradients of three parts of a tensor: queries, keys and values of one projection."""
    qkv = normal(8, 197, 3, 12, 64)
    gm = GradManager().attach([qkv])

    @trace
    def step(qkv: mge.Tensor) -> mge.Tensor | None:
        with gm:
            gm.backward((qkv[:, :, 0] * qkv[:, :, 1] + qkv[:, :, 2]).sum())
        gradient = qkv.grad
        qkv.grad = None
        return gradient

    return Work(lambda: step(qkv))
