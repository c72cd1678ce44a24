"""Single ops at sizes that take milliseconds, through PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, repeat, torch_peer, workload
from benchmarks.workloads.torch_peer import backward, forward, images, workload_of_images


@workload
def add_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: x + x)


@workload
def exp_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: torch.exp(x))


@workload
def gelu_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: F.gelu(x))


@workload
def chain_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: torch.tanh(x * 2 + 1) * x - torch.abs(x))


@workload
def sum_16m() -> Work:
    x = torch.randn(1 << 24)
    return forward(lambda: torch.sum(x))


@workload
def sum_columns() -> Work:
    x = torch.randn(4096, 4096)
    return forward(lambda: x.sum(0))


@workload
def softmax_rows() -> Work:
    x = torch.randn(8192, 1024)
    return forward(lambda: F.softmax(x, -1))


@workload
def layer_norm_rows() -> Work:
    x, norm = torch.randn(8192, 1024), nn.LayerNorm(1024)
    return forward(lambda: norm(x))


@workload
def sort_rows() -> Work:
    x = torch.randn(1024, 4096)
    return forward(lambda: torch.sort(x))


@workload
def topk_rows() -> Work:
    x = torch.randn(1024, 10000)
    return forward(lambda: torch.topk(x, 10))


@workload
def transpose_copy() -> Work:
    x = torch.randn(4096, 4096)
    return forward(lambda: x.t().contiguous())


@workload
def embedding() -> Work:
    table, rows = torch.randn(50000, 256), torch.randint(0, 50000, (65536,))
    return forward(lambda: F.embedding(rows, table))


@workload
def matmul_64() -> Work:
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    return repeat(lambda: a @ b, 1000)


@workload
def matmul_1024() -> Work:
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return Work(lambda: a @ b)


@workload
def matmul_2048() -> Work:
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return Work(lambda: a @ b)


@workload
def matmul_batched() -> Work:
    a, b = torch.randn(96, 196, 64), torch.randn(96, 64, 196)
    return Work(lambda: a @ b)


@workload_of_images
def conv3x3() -> Work:
    x, conv = images(16, 64, 56, 56), nn.Conv2d(64, 64, 3, padding=1)
    conv = conv.to(memory_format=torch_peer.memory_format)
    return forward(lambda: conv(x))


@workload_of_images
def max_pool() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.max_pool2d(x, 3, 2, 1))


@workload_of_images
def max_pool_features() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.max_pool2d(x, 3, 2, 1))


@workload_of_images
def max_pool_overlapping() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.max_pool2d(x, 3, 1, 1))


@workload_of_images
def max_pool_train() -> Work:
    x = images(16, 64, 112, 112)
    return backward(lambda: F.max_pool2d(x, 3, 2, 1), [x])


@workload_of_images
def max_pool_features_train() -> Work:
    x = images(16, 64, 112, 112)
    return backward(lambda: F.max_pool2d(x, 3, 2, 1), [x])


@workload_of_images
def average_pool() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


@workload_of_images
def average_pool_features() -> Work:
    x = images(16, 64, 112, 112)
    return forward(lambda: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


@workload_of_images
def average_pool_train() -> Work:
    x = images(16, 64, 112, 112)
    return backward(lambda: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [x])


@workload_of_images
def average_pool_whole() -> Work:
    x = images(16, 256, 56, 56)
    return forward(lambda: F.adaptive_avg_pool2d(x, 1))


@workload_of_images
def batch_norm() -> Work:
    x, norm = images(16, 64, 56, 56), nn.BatchNorm2d(64)
    return forward(lambda: norm(x))
