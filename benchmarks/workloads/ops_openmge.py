"""Single ops at sizes that take milliseconds, through OpenMGE."""

from __future__ import annotations

import megengine.functional as F
import megengine.module as M
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import backward, features, integers, normal


@workload
def add_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: x + x, bytes=8 << 24)


@workload
def exp_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.exp(x), bytes=8 << 24)


@workload
def gelu_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.gelu(x), bytes=8 << 24)


@workload
def chain_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.tanh(x * 2 + 1) * x - F.abs(x), bytes=8 << 24)


@workload
def sum_16m() -> Work:
    x = normal(1 << 24)
    return Work(lambda: F.sum(x), bytes=4 << 24)


@workload
def sum_columns() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: F.sum(x, 0), bytes=4 << 24)


@workload
def softmax_rows() -> Work:
    x = normal(8192, 1024)
    return Work(lambda: F.softmax(x, axis=-1), bytes=8 << 23)


@workload
def layer_norm_rows() -> Work:
    x, norm = normal(8192, 1024), M.LayerNorm(1024)
    return Work(lambda: norm(x), bytes=8 << 23)


@workload
def sort_rows() -> Work:
    x = normal(1024, 4096)
    return Work(lambda: F.sort(x))


@workload
def topk_rows() -> Work:
    x = normal(1024, 10000)
    return Work(lambda: F.topk(x, 10, descending=True), bytes=4 * 1024 * 10000)


@workload
def transpose_copy() -> Work:
    x = normal(4096, 4096)
    return Work(lambda: F.transpose(x, (1, 0)) + 0, bytes=8 << 24)


@workload
def embedding() -> Work:
    table, rows = normal(50000, 256), integers(50000, 65536)
    return Work(lambda: F.embedding(rows, table), bytes=8 * 65536 * 256)


@workload
def matmul_64() -> Work:
    a, b = normal(64, 64), normal(64, 64)
    return repeat(lambda: F.matmul(a, b), 1000)


@workload
def matmul_1024() -> Work:
    a, b = normal(1024, 1024), normal(1024, 1024)
    return Work(lambda: F.matmul(a, b), flops=2 << 30)


@workload
def matmul_2048() -> Work:
    a, b = normal(2048, 2048), normal(2048, 2048)
    return Work(lambda: F.matmul(a, b), flops=2 << 33)


@workload
def matmul_batched() -> Work:
    a, b = normal(96, 196, 64), normal(96, 64, 196)
    return Work(lambda: F.matmul(a, b), flops=2 * 96 * 196 * 196 * 64)


@workload
def conv3x3() -> Work:
    x, conv = normal(16, 64, 56, 56), M.Conv2d(64, 64, 3, padding=1)
    # Four multiplications for nine: Winograd's transforms of 2 x 2 results.
    return Work(lambda: conv(x), flops=2 * 4 * 64 * 64 * 16 * 56 * 56)


@workload
def max_pool() -> Work:
    x = normal(16, 64, 112, 112)
    return Work(lambda: F.max_pool2d(x, 3, 2, 1), bytes=5 * 16 * 64 * 112 * 112)


@workload
def max_pool_features() -> Work:
    x = features(16, 64, 112, 112)
    return Work(lambda: F.max_pool2d(x, 3, 2, 1), bytes=5 * 16 * 64 * 112 * 112)


@workload
def max_pool_overlapping() -> Work:
    x = normal(16, 64, 112, 112)
    return Work(lambda: F.max_pool2d(x, 3, 1, 1), bytes=9 * 16 * 64 * 112 * 112)


@workload
def max_pool_train() -> Work:
    x = normal(16, 64, 112, 112)
    return backward(lambda: F.max_pool2d(x, 3, 2, 1), [x])


@workload
def max_pool_features_train() -> Work:
    x = features(16, 64, 112, 112)
    return backward(lambda: F.max_pool2d(x, 3, 2, 1), [x])


@workload
def average_pool() -> Work:
    x = normal(16, 64, 112, 112)
    return Work(lambda: F.avg_pool2d(x, 3, 2, 1), bytes=5 * 16 * 64 * 112 * 112)


@workload
def average_pool_features() -> Work:
    x = features(16, 64, 112, 112)
    return Work(lambda: F.avg_pool2d(x, 3, 2, 1), bytes=5 * 16 * 64 * 112 * 112)


@workload
def average_pool_train() -> Work:
    x = normal(16, 64, 112, 112)
    return backward(lambda: F.avg_pool2d(x, 3, 2, 1), [x])


@workload
def average_pool_whole() -> Work:
    x = normal(16, 256, 56, 56)
    return Work(lambda: F.adaptive_avg_pool2d(x, 1), bytes=4 * 16 * 256 * 56 * 56)


@workload
def batch_norm() -> Work:
    x, norm = normal(16, 64, 56, 56), M.BatchNorm2d(64)
    return Work(lambda: norm(x), bytes=8 * 16 * 64 * 56 * 56)
