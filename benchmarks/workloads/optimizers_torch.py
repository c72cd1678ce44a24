"""Optimizer steps over the parameters of a ResNet-50 through PyTorch.

It has no LAMB: that stands beside its Adam, which has less to do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.shapes import RESNET50


def stepping(make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> Work:
    """Steps with gradients that stay."""
    params = [torch.nn.Parameter(torch.randn(*s)) for s in RESNET50]
    for p in params:
        p.grad = torch.randn(*p.shape)
    optimizer = make(params)
    return Work(lambda: optimizer.step())


@workload
def sgd_momentum_step() -> Work:
    return stepping(lambda ps: torch.optim.SGD(ps, lr=0.01, momentum=0.9, weight_decay=1e-4))


@workload
def adam_step() -> Work:
    return stepping(lambda ps: torch.optim.Adam(ps, lr=1e-3))


@workload
def adamw_step() -> Work:
    return stepping(lambda ps: torch.optim.AdamW(ps, lr=1e-3))


@workload
def adagrad_step() -> Work:
    return stepping(lambda ps: torch.optim.Adagrad(ps, lr=1e-3))


@workload
def adadelta_step() -> Work:
    return stepping(lambda ps: torch.optim.Adadelta(ps))


@workload
def lamb_step() -> Work:
    return stepping(lambda ps: torch.optim.Adam(ps, lr=1e-3))


@workload
def small_adam_step() -> Work:
    params = [torch.nn.Parameter(torch.randn(64)) for _ in range(100)]
    for p in params:
        p.grad = torch.randn(64)
    optimizer = torch.optim.Adam(params, lr=1e-3)
    return repeat(lambda: optimizer.step(), 100)


@workload
def clip_grad_norm() -> Work:
    params = [torch.nn.Parameter(torch.randn(*s)) for s in RESNET50]
    for p in params:
        p.grad = torch.randn(*p.shape)
    return Work(lambda: torch.nn.utils.clip_grad_norm_(params, 1.0))
