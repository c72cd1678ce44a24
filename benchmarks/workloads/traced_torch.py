"""What is traced there, as PyTorch runs it op by op."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.torch_peer import backward, forward

LARGE = 1 << 24
MEDIUM = 1 << 18


def chain(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 2 + 1) * x - torch.abs(x)


def heads(n: int, number: int, length: int, depth: int) -> list[torch.Tensor]:
    return [torch.randn(n, length, number, depth).transpose(1, 2) for _ in range(3)]


def written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v


@workload
def traced_chain() -> Work:
    x = torch.randn(LARGE)
    return forward(lambda: chain(x))


@workload
def traced_chain_medium() -> Work:
    x = torch.randn(MEDIUM)
    return repeat(lambda: chain(x), 20)


@workload
def traced_chain_tiny() -> Work:
    x = torch.randn(10)
    return repeat(lambda: chain(x), 1000)


@workload
def traced_cheap() -> Work:
    x, y = torch.randn(LARGE), torch.randn(LARGE)
    return forward(lambda: torch.maximum((x + y) * 0.5, x - y))


@workload
def traced_huber() -> Work:
    x, y = torch.randn(LARGE), torch.randn(LARGE)

    def huber() -> torch.Tensor:
        d = torch.abs(x - y)
        return torch.where(d < 1, d * d * 0.5, d - 0.5)

    return forward(huber)


@workload
def traced_squared_error() -> Work:
    x, y = torch.randn(LARGE), torch.randn(LARGE)
    return forward(lambda: torch.mean((x - y) ** 2))


@workload
def traced_channels() -> Work:
    x = torch.randn(32, 64, 56, 56).to(memory_format=torch.channels_last)
    scale, shift = torch.randn(1, 64, 1, 1), torch.randn(1, 64, 1, 1)
    return forward(lambda: torch.relu(x * scale + shift))


@workload
def traced_attention() -> Work:
    q, k, v = heads(8, 12, 197, 64)
    return forward(lambda: written_out(q, k, v))


@workload
def traced_attention_train() -> Work:
    x = [t.detach() for t in heads(8, 12, 197, 64)]
    return backward(lambda: written_out(*x), x)


@workload
def traced_parts_train() -> Work:
    qkv = torch.randn(8, 197, 3, 12, 64)
    return backward(lambda: qkv[:, :, 0] * qkv[:, :, 1] + qkv[:, :, 2], [qkv])
