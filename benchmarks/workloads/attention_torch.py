"""Attention at the sizes of known models, through PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, workload
from benchmarks.workloads.torch_peer import backward, forward

attention = F.scaled_dot_product_attention


def operands(n: int, heads: int, length: int, depth: int, queries: int = 0) -> list[torch.Tensor]:
    """Queries, keys and values as projections give them: heads beside one another in memory."""
    lengths = (queries or length, length, length)
    return [torch.randn(n, size, heads, depth).transpose(1, 2) for size in lengths]


def leaves(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.detach() for t in tensors]


@workload
def attention_vit_b() -> Work:
    q, k, v = operands(8, 12, 197, 64)
    return forward(lambda: attention(q, k, v))


@workload
def attention_vit_b_train() -> Work:
    x = leaves(operands(8, 12, 197, 64))
    return backward(lambda: attention(*x), x)


@workload
def attention_gpt() -> Work:
    q, k, v = operands(2, 12, 1024, 64)
    return forward(lambda: attention(q, k, v, is_causal=True))


@workload
def attention_gpt_train() -> Work:
    x = leaves(operands(2, 12, 1024, 64))
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_gpt_dropout_train() -> Work:
    x = leaves(operands(2, 12, 1024, 64))
    return backward(lambda: attention(*x, is_causal=True, dropout_p=0.1), x)


@workload
def attention_gpt_bfloat16() -> Work:
    q, k, v = (t.bfloat16() for t in operands(2, 12, 1024, 64))
    return forward(lambda: attention(q, k, v, is_causal=True))


@workload
def attention_gpt_bfloat16_train() -> Work:
    x = leaves([t.bfloat16() for t in operands(2, 12, 1024, 64)])
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_long() -> Work:
    q, k, v = operands(1, 8, 4096, 64)
    return forward(lambda: attention(q, k, v))


@workload
def attention_long_train() -> Work:
    x = leaves(operands(1, 8, 4096, 64))
    return backward(lambda: attention(*x), x)


@workload
def attention_one_head_train() -> Work:
    x = leaves(operands(1, 1, 4096, 128))
    return backward(lambda: attention(*x, is_causal=True), x)


@workload
def attention_windows() -> Work:
    q, k, v = operands(256, 3, 49, 32)
    bias = torch.randn(1, 3, 49, 49)
    return forward(lambda: attention(q, k, v, bias))


@workload
def attention_windows_train() -> Work:
    x, bias = leaves(operands(256, 3, 49, 32)), torch.randn(1, 3, 49, 49)
    return backward(lambda: attention(*x, bias), [*x, bias])


@workload
def attention_padding() -> Work:
    q, k, v = operands(16, 12, 128, 64)
    seen = torch.randn(16, 1, 1, 128) <= 1.0
    return forward(lambda: attention(q, k, v, seen))


@workload
def attention_one_query() -> Work:
    q, k, v = operands(8, 12, 2048, 64, queries=1)
    return forward(lambda: attention(q, k, v))


@workload
def multi_head_vit_b() -> Work:
    net, x = nn.MultiheadAttention(768, 12, batch_first=True).eval(), torch.randn(8, 197, 768)
    return forward(lambda: net(x, x, x, need_weights=False))


@workload
def multi_head_vit_b_train() -> Work:
    net, x = nn.MultiheadAttention(768, 12, batch_first=True), torch.randn(8, 197, 768)
    return backward(lambda: net(x, x, x, need_weights=False)[0], [x, *net.parameters()])


@workload
def multi_head_vit_b_weights() -> Work:
    net, x = nn.MultiheadAttention(768, 12, batch_first=True).eval(), torch.randn(8, 197, 768)
    return forward(lambda: net(x, x, x, average_attn_weights=False))


@workload
def multi_head_gpt_train() -> Work:
    net, x = nn.MultiheadAttention(768, 12, batch_first=True), torch.randn(2, 1024, 768)
    mask = nn.Transformer.generate_square_subsequent_mask(1024)

    def run() -> torch.Tensor:
        y: torch.Tensor = net(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)[0]
        return y

    return backward(run, [x, *net.parameters()])


@workload
def multi_head_long_train() -> Work:
    net, x = nn.MultiheadAttention(512, 8, batch_first=True), torch.randn(1, 4096, 512)
    return backward(lambda: net(x, x, x, need_weights=False)[0], [x, *net.parameters()])


@workload
def multi_head_small() -> Work:
    net, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 10, 32)
    work = forward(lambda: [net(x, x, x, need_weights=False) for _ in range(200)])
    return Work(work.step, calls=200)
