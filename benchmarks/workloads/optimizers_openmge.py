"""Optimizer steps over the parameters of a ResNet-50: 25 million numbers in 161 tensors."""

from __future__ import annotations

from collections.abc import Callable

import megengine as mge
import megengine.optimizer as optim
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import normal
from benchmarks.workloads.shapes import RESNET50


def stepping(make: Callable[[list[mge.Parameter]], optim.Optimizer]) -> Work:
    """Steps with gradients that stay."""
    params = [mge.Parameter(normal(*s)) for s in RESNET50]
    for p in params:
        p.grad = normal(*p.shape)
    optimizer = make(params)
    return Work(lambda: optimizer.step())


@workload
def sgd_momentum_step() -> Work:
    return stepping(lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9, weight_decay=1e-4))


@workload
def adam_step() -> Work:
    return stepping(lambda ps: optim.Adam(ps, lr=1e-3))


@workload
def adamw_step() -> Work:
    return stepping(lambda ps: optim.AdamW(ps, lr=1e-3))


@workload
def adagrad_step() -> Work:
    return stepping(lambda ps: optim.Adagrad(ps, lr=1e-3))


@workload
def adadelta_step() -> Work:
    return stepping(lambda ps: optim.Adadelta(ps))


@workload
def lamb_step() -> Work:
    return stepping(lambda ps: optim.LAMB(ps, lr=1e-3, weight_decay=1e-2))


@workload
def small_adam_step() -> Work:
    """A hundred parameters of 64 numbers: what a step costs beside its arithmetic."""
    params = [mge.Parameter(normal(64)) for _ in range(100)]
    for p in params:
        p.grad = normal(64)
    optimizer = optim.Adam(params, lr=1e-3)
    return repeat(lambda: optimizer.step(), 100)


@workload
def clip_grad_norm() -> Work:
    params = [mge.Parameter(normal(*s)) for s in RESNET50]
    for p in params:
        p.grad = normal(*p.shape)
    return Work(lambda: optim.clip_grad_norm(params, 1.0))
