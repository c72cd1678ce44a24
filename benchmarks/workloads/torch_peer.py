"""What the workloads through PyTorch share."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Maker, Work, workload

memory_format = torch.contiguous_format
torch.manual_seed(0)


def use_channels_last() -> None:
    """Makes the networks and images that follow channels-last."""
    global memory_format
    memory_format = torch.channels_last


def workload_of_images(maker: Maker) -> Maker:
    """Registers a workload that runs in both of PyTorch's memory formats; the better one counts."""
    return workload(maker, both_formats=True)


def images(*shape: int) -> torch.Tensor:
    """Standard normal numbers, (N, C, H, W), in the memory format that is measured."""
    return torch.randn(*shape).contiguous(memory_format=memory_format)


def forward(f: Callable[[], object]) -> Work:
    """Work that records no gradients."""

    def step() -> None:
        with torch.no_grad():
            f()

    return Work(step)


def training(
    net: nn.Module, x: torch.Tensor, labels: torch.Tensor, optimizer: torch.optim.Optimizer
) -> Work:
    """Forward, backward and a step of the optimizer."""

    def step() -> None:
        F.cross_entropy(net(x), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return Work(step)


def backward(f: Callable[[], torch.Tensor], wrt: list[torch.Tensor]) -> Work:
    """Work that runs f and takes the gradients of its sum."""
    for t in wrt:
        t.requires_grad_()

    def step() -> None:
        f().sum().backward()
        for t in wrt:
            t.grad = None

    return Work(step)
