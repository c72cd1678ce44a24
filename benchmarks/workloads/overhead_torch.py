"""The cost of a call, not of its arithmetic, through PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.workloads import Work, repeat, workload


@workload
def add_10() -> Work:
    a, b = torch.randn(10), torch.randn(10)
    return repeat(lambda: a + b, 10000)


@workload
def chain_32() -> Work:
    a, w = torch.randn(32, 32), torch.randn(32, 32)
    return repeat(lambda: (F.relu(torch.matmul(a, w)) * 2 + 1).reshape(-1, 16).sum(1), 1000)


@workload
def reshape() -> Work:
    a = torch.randn(4, 4)
    return repeat(lambda: a.reshape(2, 8), 10000)


@workload
def getitem() -> Work:
    a = torch.randn(8, 8)
    return repeat(lambda: a[1:3, 2], 10000)


@workload
def backward_10() -> Work:
    a = torch.randn(10, requires_grad=True)

    def f() -> None:
        (a * a).sum().backward()
        a.grad = None

    return repeat(f, 1000)
