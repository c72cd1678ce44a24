"""Attention and what goes with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..graph import Body
from ..registry import Context, op
from ..values import Array, dtype_from_onnx, dtype_of, to_tensor
from .math import like

_PREVIEW = "ai.onnx.preview"


def _heads(x: Tensor, n_heads: int | None) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not n_heads:
        raise ValueError("expected 4 dimensions, or 3 and the number of heads")
    batch, length, hidden = x._tuple_shape
    split = F.reshape(x, (batch, length, n_heads, hidden // n_heads))
    return F.transpose(split, (0, 2, 1, 3))


def _packed(x: Tensor) -> Tensor:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x._tuple_shape
    return F.reshape(F.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _shared(x: Tensor, n_heads: int) -> Tensor:
    """Each head as often as query heads share it."""
    times = n_heads // x._tuple_shape[1]
    if times * x._tuple_shape[1] != n_heads:
        raise ValueError(f"{n_heads} heads do not share {x._tuple_shape[1]}")
    return F.repeat(x, times, axis=1) if times > 1 else x


def _allowed(
    queries: int, keys: int, offset: Array, causal: bool, left: int, right: int
) -> Array | None:
    """Which keys each query may look at, (batch or 1, 1, queries, keys); None where all."""
    if not causal and left < 0 and right < 0:
        return None
    place = offset.reshape(-1, 1, 1, 1) + np.arange(queries)[:, None]
    key = np.arange(keys)
    found = np.ones((len(place), 1, queries, keys), np.bool_)
    if causal:
        found &= key <= place
    if left >= 0:
        found &= key >= place - left
    if right >= 0:
        found &= key <= place + right
    return found


def _bias(mask: Tensor, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """A mask as what is added to scores, or as which keys are allowed."""
    missing = keys - mask._tuple_shape[-1]
    boolean = dtype_of(mask) == np.bool_
    if missing > 0:
        shape = (*mask._tuple_shape[:-1], missing)
        fill = F.full(shape, False if boolean else -math.inf, dtype=mask.dtype)
        mask = F.concat([mask, fill], -1)
    return (None, mask) if boolean else (mask, None)


def _fused(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, allowed: Tensor | None, scale: float
) -> Tensor:
    """Attention that never holds the matrix of scores."""
    mask = bias
    if allowed is not None:
        mask = F.logical_not(allowed)
        if bias is not None:
            mask = F.where(allowed, bias, F.full_like(bias, -math.inf))
    return F.nn.scaled_dot_product_attention(q, k, v, mask, scale=scale)


@op("Attention", since=23)
def attention(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> Any:
    three = q.ndim == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    offset = np.zeros(1, np.int64)
    if past_key is not None and past_value is not None:
        offset[:] = past_key._tuple_shape[2]
        k, v = F.concat([past_key, k], 2), F.concat([past_value, v], 2)
    elif nonpad_kv_seqlen is not None:
        offset = nonpad_kv_seqlen - q._tuple_shape[2]
    present_key, present_value = k, v
    n_heads, queries, size = q._tuple_shape[1:]
    keys = k._tuple_shape[2]
    k, v = _shared(k, n_heads), _shared(v, n_heads)
    factor = scale if scale is not None else 1.0 / math.sqrt(size)
    bias, allowed = (None, None) if attn_mask is None else _bias(attn_mask, keys)
    window = _allowed(queries, keys, offset, bool(is_causal), left_window_size, right_window_size)
    if nonpad_kv_seqlen is not None:
        real = np.arange(keys) < nonpad_kv_seqlen.reshape(-1, 1, 1, 1)
        window = real if window is None else window & real
    if window is not None:
        both = to_tensor(window)
        allowed = both if allowed is None else F.logical_and(allowed, both)
    if ctx.n_outputs == 1 and not softcap and softmax_precision is None:
        y = _fused(q, k, v, bias, allowed, factor)
        return _packed(y) if three else y
    root = math.sqrt(factor)
    scores = F.matmul(q * root, k * root, transpose_b=True)
    steps = [scores]
    if softcap:
        scores = softcap * F.tanh(scores / softcap)
    steps.append(scores)
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = F.where(allowed, scores, F.full_like(scores, -math.inf))
    steps.append(scores)
    wide = scores
    if softmax_precision is not None:
        wide = wide.astype(dtype_from_onnx(softmax_precision))
    # Where a query may look at nothing, its row is 0.
    largest = F.max(wide, -1, True)
    empty = F.equal(largest, -math.inf) if bias is not None or allowed is not None else None
    weights = F.softmax(wide if empty is None else F.where(empty, F.zeros_like(wide), wide), -1)
    if empty is not None:
        weights = F.where(empty, F.zeros_like(weights), weights)
    weights = like(weights, scores)
    steps.append(weights)
    y = F.matmul(weights, v)
    y = _packed(y) if three else y
    if ctx.n_outputs == 1:
        return y
    return y, present_key, present_value, steps[qk_matmul_output_mode]


@op("FlexAttention", domain=_PREVIEW)
def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    prob_mod: Body | None = None,
    scale: float | None = None,
    score_mod: Body | None = None,
    softmax_precision: int | None = None,
) -> Tensor:
    n_heads, _, size = q._tuple_shape[1:]
    k, v = _shared(k, n_heads), _shared(v, n_heads)
    if softmax_precision is not None:
        precision = dtype_from_onnx(softmax_precision)
    else:
        precision = np.dtype("float64" if dtype_of(q) == np.float64 else "float32")
    scores = F.matmul(q, k, transpose_b=True) * (scale or 1.0 / math.sqrt(size))
    scores = scores.astype(precision)
    if score_mod is not None:
        scores = to_tensor(score_mod(scores)[0])
    weights = F.softmax(scores, -1)
    if prob_mod is not None:
        weights = to_tensor(prob_mod(weights)[0])
    return F.matmul(weights.astype(v.dtype), v)


@op("LinearAttention", since=27)
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"LinearAttention: unknown update_rule {update_rule!r}")
    batch, length, _ = q._tuple_shape
    factor = scale or 1.0 / math.sqrt(q._tuple_shape[2] // q_num_heads)
    dtype = q.dtype
    # What happens from step to step is summed in float32.
    wide = [None if x is None else _wide(x) for x in (q, k, v, past_state, decay, beta)]
    qw, kw, vw, state, decay, beta = wide
    assert qw is not None
    assert kw is not None
    assert vw is not None
    q4, k4, v4 = _heads(qw, q_num_heads), _heads(kw, kv_num_heads), _heads(vw, kv_num_heads)
    d_k, d_v = k4._tuple_shape[3], v4._tuple_shape[3]
    if state is None:
        state = F.zeros((batch, kv_num_heads, d_k, d_v), dtype=q4.dtype)
    gated, delta = "gated" in update_rule, "delta" in update_rule
    fade = None
    if gated:
        if decay is None:
            raise ValueError(f"LinearAttention: update_rule {update_rule!r} needs decay")
        fade = F.expand_dims(F.exp(_heads(decay, kv_num_heads)), -1)
    rate = None
    if delta:
        if beta is None:
            raise ValueError(f"LinearAttention: update_rule {update_rule!r} needs beta")
        rate = F.expand_dims(F.transpose(beta, (0, 2, 1)), -1)  # (batch, heads or 1, length, 1)
    outputs = []
    for t in range(length):
        kt, vt = F.expand_dims(k4[:, :, t], -1), F.expand_dims(v4[:, :, t], -2)
        if fade is not None:
            state = state * fade[:, :, t]
        if rate is not None:
            vt = (vt - F.matmul(kt, state, transpose_a=True)) * F.expand_dims(rate[:, :, t], -1)
        state = state + kt * vt
        qt = F.expand_dims(q4[:, :, t], -2)
        outputs.append(F.matmul(qt, _shared(state, q_num_heads)) * factor)
    y = F.concat(outputs, 2)
    return _packed(y).astype(dtype), state.astype(dtype)


def _wide(x: Tensor) -> Tensor:
    return x if dtype_of(x) in (np.float32, np.float64) else x.astype("float32")


@op("CausalConvWithState", since=27)
def causal_conv_with_state(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    batch, channels, length = x._tuple_shape
    k = weight._tuple_shape[2]
    past = F.zeros((batch, channels, k - 1), dtype=x.dtype) if past_state is None else past_state
    whole = F.concat([past, x], 2)
    kernel = F.reshape(weight, (channels, 1, 1, k))
    y = F.conv1d(whole, kernel, None, groups=channels) if channels > 1 else F.conv1d(whole, weight)
    if bias is not None:
        y = y + F.reshape(bias, (1, channels, 1))
    if activation in ("silu", "swish"):
        y = F.silu(y)
    elif activation != "none":
        raise ValueError(f"CausalConvWithState: unknown activation {activation!r}")
    return like(y, x), whole[:, :, length:]


@op("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    three = x.ndim == 3
    x = _heads(x, num_heads)
    turned = rotary_embedding_dim or x._tuple_shape[3]
    half = turned // 2
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = F.expand_dims(cos_cache, 1), F.expand_dims(sin_cache, 1)
    if cos._tuple_shape[-1] != half:
        raise ValueError(f"RotaryEmbedding: expected {half} angles, got {cos._tuple_shape[-1]}")
    part, rest = x[..., :turned], x[..., turned:]
    a, b = (
        (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., :half], part[..., half:])
    )
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        pair = F.stack([real, imaginary], -1)
        part = F.reshape(pair, part._tuple_shape)
    else:
        part = F.concat([real, imaginary], -1)
    y = part if turned == x._tuple_shape[3] else F.concat([part, rest], -1)
    return _packed(y) if three else y
