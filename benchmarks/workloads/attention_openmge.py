"""Attention at the sizes of known models, through OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
import megengine.module as M
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import backward, normal

attention = F.nn.scaled_dot_product_attention


def operands(n: int, heads: int, length: int, depth: int, queries: int = 0) -> list[mge.Tensor]:
    """Queries, keys and values as projections give them: heads beside one another in memory."""
    lengths = (queries or length, length, length)
    return [F.transpose(normal(n, size, heads, depth), (0, 2, 1, 3)) for size in lengths]


def flops(n: int, heads: int, length: int, depth: int, products: int = 2) -> float:
    return 2.0 * products * n * heads * length * length * depth


@workload
def attention_vit_b() -> Work:
    q, k, v = operands(8, 12, 197, 64)
    return Work(lambda: attention(q, k, v), flops=flops(8, 12, 197, 64))


@workload
def attention_vit_b_train() -> Work:
    x = operands(8, 12, 197, 64)
    return backward(lambda: attention(*x), x)


@workload
def attention_gpt() -> Work:
    q, k, v = operands(2, 12, 1024, 64)
    return Work(lambda: attention(q, k, v, is_causal=True), flops=flops(2, 12, 1024, 64, 1))


@workload
def attention_gpt_train() -> Work:
    x = operands(2, 12, 1024, 64)
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_gpt_dropout_train() -> Work:
    x = operands(2, 12, 1024, 64)
    return backward(lambda: attention(*x, is_causal=True, drop_prob=0.1), x)


@workload
def attention_gpt_bfloat16() -> Work:
    q, k, v = (t.astype("bfloat16") for t in operands(2, 12, 1024, 64))
    return Work(lambda: attention(q, k, v, is_causal=True))


@workload
def attention_gpt_bfloat16_train() -> Work:
    x = [t.astype("bfloat16") for t in operands(2, 12, 1024, 64)]
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_long() -> Work:
    q, k, v = operands(1, 8, 4096, 64)
    return Work(lambda: attention(q, k, v), flops=flops(1, 8, 4096, 64))


@workload
def attention_long_train() -> Work:
    x = operands(1, 8, 4096, 64)
    return backward(lambda: attention(*x), x)


@workload
def attention_one_head_train() -> Work:
    x = operands(1, 1, 4096, 128)
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_windows() -> Work:
    q, k, v = operands(256, 3, 49, 32)
    bias = normal(1, 3, 49, 49)
    return Work(lambda: attention(q, k, v, bias), flops=flops(256, 3, 49, 32))


@workload
def attention_windows_train() -> Work:
    x, bias = operands(256, 3, 49, 32), normal(1, 3, 49, 49)
    return backward(lambda: attention(*x, bias), [*x, bias])


@workload
def attention_padding() -> Work:
    q, k, v = operands(16, 12, 128, 64)
    mask = normal(16, 1, 1, 128) > 1.0
    return Work(lambda: attention(q, k, v, mask), flops=flops(16, 12, 128, 64))


@workload
def attention_one_query() -> Work:
    q, k, v = operands(8, 12, 2048, 64, queries=1)
    return Work(lambda: attention(q, k, v), bytes=8.0 * 8 * 12 * 2048 * 64)


@workload
def multi_head_vit_b() -> Work:
    net, x = M.MultiHeadAttention(768, 12), normal(8, 197, 768)
    net.eval()
    return Work(lambda: net(x, x, x))


@workload
def multi_head_vit_b_train() -> Work:
    net, x = M.MultiHeadAttention(768, 12), normal(8, 197, 768)
    return backward(lambda: net(x, x, x)[0], [x, *net.parameters()])


@workload
def multi_head_vit_b_weights() -> Work:
    net, x = M.MultiHeadAttention(768, 12), normal(8, 197, 768)
    net.eval()
    return Work(lambda: net(x, x, x, need_weights=True))


@workload
def multi_head_gpt_train() -> Work:
    net, x = M.MultiHeadAttention(768, 12), normal(2, 1024, 768)
    return backward(lambda: net(x, x, x, is_causal=True)[0], [x, *net.parameters()])


@workload
def multi_head_long_train() -> Work:
    net, x = M.MultiHeadAttention(512, 8), normal(1, 4096, 512)
    return backward(lambda: net(x, x, x)[0], [x, *net.parameters()])


@workload
def multi_head_small() -> Work:
    net, x = M.MultiHeadAttention(32, 4), normal(2, 10, 32)
    net.eval()
    return Work(lambda: [net(x, x, x) for _ in range(200)], calls=200)
