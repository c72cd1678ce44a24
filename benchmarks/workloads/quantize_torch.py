"""Fake quantisation, mesh indexing and checks of gradients, through PyTorch."""

from __future__ import annotations

import torch

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.torch_peer import backward, forward, images


@workload
def fake_quant() -> Work:
    x = torch.randn(1 << 22)
    return forward(lambda: torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -128, 127))


@workload
def fake_quant_small() -> Work:
    x = torch.randn(1 << 10)
    return repeat(lambda: torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -128, 127), 1000)


@workload
def fake_quant_channels() -> Work:
    x = images(16, 64, 56, 56)
    scale, zero = torch.linspace(0.01, 0.05, 64), torch.zeros(64, dtype=torch.int32)
    return forward(lambda: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127))


@workload
def fake_quant_train() -> Work:
    x = torch.randn(1 << 22)
    return backward(lambda: torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -128, 127), [x])


@workload
def lsq_train() -> Work:
    x, scale, zero = torch.randn(1 << 22), torch.tensor([0.02]), torch.zeros(1)
    quantize = torch._fake_quantize_learnable_per_tensor_affine
    return backward(lambda: quantize(x, scale, zero, -128, 127, 0.5), [x, scale])


@workload
def unscale_and_check() -> Work:
    grads = [torch.randn(512, 512) for _ in range(20)] + [torch.randn(512) for _ in range(20)]
    found, scale = torch.zeros(1), torch.tensor([0.99999])  # by 1 it would do nothing
    check = torch._amp_foreach_non_finite_check_and_unscale_
    return forward(lambda: check(grads, found, scale))


def positions() -> tuple[torch.Tensor, torch.Tensor]:
    i, j = torch.randint(0, 2048, (2, 1024))
    return i[:, None], j


@workload
def mesh_read() -> Work:
    x, (i, j) = torch.randn(2048, 2048), positions()
    return forward(lambda: x[i, j])


@workload
def mesh_add() -> Work:
    x, v, at = torch.randn(2048, 2048), torch.randn(1024, 1024), positions()
    return forward(lambda: x.index_put(at, v, accumulate=True))


@workload
def inplace_add() -> Work:
    x, y = torch.randn(1 << 22), torch.randn(1 << 22)
    return forward(lambda: x.mul_(0.9).add_(y, alpha=0.1))


@workload
def masked_fill() -> Work:
    x = torch.randn(1 << 22)
    mask = x > 0
    return forward(lambda: x.masked_fill(mask, 0.5))
