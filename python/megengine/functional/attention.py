"""Attention: of queries to keys, and with the projections of several heads around it.

Neither function holds the matrix of scores unless the weights are asked for.
"""

from __future__ import annotations

import math
from functools import lru_cache

from .._core import OpDef, apply, result_type
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor

__all__ = ["multi_head_attention", "scaled_dot_product_attention"]

_op = lru_cache(maxsize=4096)


def _float_tensor(name: str, what: str, value: Tensor) -> Tensor:
    if value is None:
        raise TypeError(f"{name}: expected {what} of a float dtype, got None")
    out = value if isinstance(value, Tensor) else Tensor(value)
    if "float" not in str(out.dtype):
        raise TypeError(f"{name}: expected {what} of a float dtype, got {out.dtype}")
    return out


def _shape(tensor: Tensor) -> tuple[int, ...]:
    shape: tuple[int, ...] = tensor._tuple_shape
    return shape


def _is_mask(mask: Tensor) -> bool:
    return mask.dtype == bool or "float" in str(mask.dtype)


# ---- one attention -----------------------------------------------------------------------------


@_op
def _attention_op(scale: float, causal: bool, drop_prob: float) -> OpDef:
    return builtin.ScaledDotProductAttention(scale=scale, causal=causal, drop_prob=drop_prob)


@_op
def _counters_op(count: int) -> OpDef:
    return builtin.RandomCounters(count=count)


def _probability(name: str, what: str, p: float) -> float:
    if not 0 <= p < 1:
        raise ValueError(f"{name}: expected {what} in [0, 1), got {p}")
    return float(p)


@named
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    drop_prob: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    training: bool = True,
) -> Tensor:
    r"""Attention of queries to keys: :math:`\mathrm{softmax}(s\, q k^T + m)\, v` over the keys.

    Time is :math:`O(L S E)`, memory beside the result is that of a few heads: the ``(L, S)`` matrix
    of weights is never held, forward or backward. float16 and bfloat16 compute in float32.

    Args:
        query: ``(..., L, E)`` of a float dtype.
        key: ``(..., S, E)``.
        value: ``(..., S, V)``.
        attn_mask: broadcasts to ``(..., L, S)``. Of bool, True hides a key from a query; of floats,
            it is added to the scores and may be differentiated.
        drop_prob: the probability with which each weight is dropped; the others are divided by
            ``1 - drop_prob``.
        is_causal: query i sees the keys 0 to i alone, beside what the mask says.
        scale: s; ``1 / sqrt(E)`` by default.
        training: False drops nothing.

    Returns:
        ``(..., L, V)``. A query that sees no key gives 0, and finite gradients.

    Raises:
        ValueError: if shapes do not fit, and for a probability outside [0, 1).
        TypeError: if q, k and v are not of one float dtype.

    >>> import megengine.functional as F
    >>> q, k = F.ones((2, 4, 3, 8)), F.ones((2, 4, 5, 8))
    >>> F.nn.scaled_dot_product_attention(q, k, k).shape
    (2, 4, 3, 8)
    >>> v = F.arange(3).reshape(1, 1, 3, 1)
    >>> F.nn.scaled_dot_product_attention(F.zeros((1, 1, 3, 1)), v, v, is_causal=True).flatten()
    Tensor([0.  0.5 1. ], device=xpux:0)

    References: Vaswani et al., Attention is all you need, 2017; Dao et al., FlashAttention, 2022.
    """
    name = "scaled_dot_product_attention"
    q, k, v = (_float_tensor(name, "inputs", t) for t in (query, key, value))
    rank = len(_shape(q))
    if rank < 2 or {len(_shape(k)), len(_shape(v))} != {rank}:
        shapes = f"{_shape(q)}, {_shape(k)} and {_shape(v)}"
        raise ValueError(f"{name}: expected query, key and value of as many axes, got {shapes}")
    leading = _shape(q)[:-2]
    if _shape(k)[:-2] != leading or _shape(v)[:-2] != leading:
        shapes = f"{_shape(q)}, {_shape(k)} and {_shape(v)}"
        raise ValueError(f"{name}: expected leading axes that agree, got shapes {shapes}")
    p = _probability(name, "drop_prob", drop_prob) if training else 0.0
    s = float(scale) if scale is not None else 1 / math.sqrt(max(_shape(q)[-1], 1))
    inputs = [_four_axes(t) for t in (q, k, v)]
    weights = (*_shape(inputs[0])[:3], _shape(k)[-2])
    if attn_mask is not None:
        inputs.append(_broadcast_mask(name, attn_mask, (*leading, weights[2], weights[3])))
    if p > 0:
        rows = weights[0] * weights[1] * weights[2]
        inputs.append(apply(_counters_op(rows * 16 * ((weights[3] + 63) // 64)))[0])
    out: Tensor = apply(_attention_op(s, bool(is_causal), p), *inputs)[0]
    return out if rank == 4 else out.reshape(*leading, weights[2], _shape(v)[-1])


def _four_axes(t: Tensor) -> Tensor:
    """With two leading axes: more are joined, fewer get axes of size 1."""
    shape = _shape(t)
    if len(shape) == 4:
        return t
    if len(shape) < 4:
        return t.reshape(*(1,) * (4 - len(shape)), *shape)
    return t.reshape(math.prod(shape[:-3]), *shape[-3:])


def _broadcast_mask(name: str, mask: Tensor, weights: tuple[int, ...]) -> Tensor:
    """A mask with four axes that broadcast to those of the weights."""
    out = mask if isinstance(mask, Tensor) else Tensor(mask)
    if not _is_mask(out):
        raise TypeError(f"{name}: expected a mask of bool or of a float dtype, got {out.dtype}")
    shape = _shape(out)
    padded = (1,) * (len(weights) - len(shape)) + shape
    fits = len(padded) == len(weights) and all(
        m in (1, w) for m, w in zip(padded, weights, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: expected a mask that broadcasts to {weights}, got shape {shape}")
    if len(weights) > 4:
        from .tensor import broadcast_to

        # Leading axes are joined: they can be so only as a whole.
        out = broadcast_to(out, (*weights[:-2], *padded[-2:]))
        return _four_axes(out)
    return out.reshape(*(1,) * (4 - len(padded)), *padded)


# ---- several heads -----------------------------------------------------------------------------


@_op
def _multi_head_op(**fields: object) -> OpDef:
    return builtin.MultiHeadAttn(**fields)


@named
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_heads: int,
    attn_drop: float,
    out_drop: float,
    io_weight_bias: Tensor | None,
    qproj_size: int | None = None,
    kproj_size: int | None = None,
    vproj_size: int | None = None,
    oproj_size: int | None = None,
    qbias: bool = False,
    kbias: bool = False,
    vbias: bool = False,
    obias: bool = False,
    bias_k: Tensor | None = None,
    bias_v: Tensor | None = None,
    add_zero_attn: bool = False,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    need_weights: bool = False,
    average_attn_weights: bool = False,
    is_causal: bool = False,
    maybe_cudnn_style_mask: bool = False,
    reslink: bool = False,
    training: bool = True,
) -> tuple[Tensor, Tensor | None]:
    r"""Attention of several heads, each on its own projection of queries, keys and values.

    .. math::
        y = \mathrm{concat}(h_1, ..., h_H) W_O + b_O, \quad
        h_i = \mathrm{softmax}(s\, q_i k_i^T + m)\, v_i, \quad
        (q, k, v) = (Q W_Q + b_Q, K W_K + b_K, V W_V + b_V)

    with :math:`s = 1 / \sqrt{E / H}`, or :math:`1 / \sqrt{E}` for queries that are not projected.
    Without ``need_weights`` the ``(L, S)`` matrix of weights is
    never held, forward or backward.

    Args:
        query: ``(N, L, E)`` of a float dtype, or ``(L, E)``.
        key: ``(N, S, Ek)``, or ``(S, Ek)``.
        value: ``(N, S, Ev)``, or ``(S, Ev)``.
        embed_dim: E.
        num_heads: H, which divides the widths of the projections.
        attn_drop: the probability with which each weight of the attention is dropped.
        out_drop: the probability with which each element of the output is dropped.
        io_weight_bias: the matrices :math:`W_Q, W_K, W_V, W_O`, each ``(in, out)``, then the
            biases, all flat and one behind the other. None where there are none of them.
        qproj_size: columns of :math:`W_Q`, shared out to the heads; None is ``embed_dim``. 0
            leaves the projection out: every head gets all of the queries.
        kproj_size: the same of :math:`W_K`.
        vproj_size: the same of :math:`W_V`.
        oproj_size: the same of :math:`W_O`.
        qbias: whether there is a bias behind :math:`W_Q`.
        kbias: the same for :math:`W_K`.
        vbias: the same for :math:`W_V`.
        obias: the same for :math:`W_O`.
        bias_k: ``(1, 1, width)``, one more key after the projection; with ``bias_v``.
        bias_v: ``(1, 1, width)``, its value.
        add_zero_attn: one more key and value of zeros.
        key_padding_mask: ``(N, S)``, or ``(S,)`` for inputs of two axes: keys to leave out.
        attn_mask: ``(L, S)``, or ``(N * H, L, S)``. In both masks True hides a key; floats are
            added to the scores.
        need_weights: return the weights too.
        average_attn_weights: their mean over the heads.
        is_causal: query i sees the keys 0 to i alone. A hint that ``attn_mask`` says so where that
            is given, which then counts alone.
        maybe_cudnn_style_mask: the masks are integers in the style of cuDNN: ``attn_mask`` of shape
            ``(2, L)`` the first key that each query sees and the one behind its last,
            ``key_padding_mask`` of shape ``(2, N)`` how many queries and keys of each sample count.
        reslink: add the query to the output.
        training: whether to drop at all.

    Returns:
        ``(N, L, oproj_size)``, as wide as all heads without :math:`W_O`; and None, or the weights
        after dropout, ``(N * H, L, S)``, averaged ``(N, L, S)``. A query that sees no key attends
        to nothing: its heads are 0, and its gradients finite.

    Raises:
        ValueError: if sizes do not fit, and for a probability outside [0, 1).
        TypeError: for inputs that are not float, and masks of another dtype.

    >>> import megengine.functional as F
    >>> x = F.ones((2, 5, 8))
    >>> y, weights = F.nn.multi_head_attention(
    ...     x, x, x, 8, 2, 0.0, 0.0, F.ones((4 * 64,)), need_weights=True
    ... )
    >>> y.shape, weights.shape
    ((2, 5, 8), (4, 5, 5))

    Reference: Vaswani et al., Attention is all you need, 2017.
    """
    name = "multi_head_attention"
    q, k, v = (_float_tensor(name, "inputs", t) for t in (query, key, value))
    batched = len(_shape(q)) == 3
    ranks = {len(_shape(t)) for t in (q, k, v)}
    if ranks not in ({2}, {3}):
        shapes = f"{_shape(q)}, {_shape(k)} and {_shape(v)}"
        raise ValueError(
            f"{name}: expected query, key and value of three axes, or two, got shapes {shapes}"
        )
    if not batched:
        q, k, v = (t.reshape(1, *_shape(t)) for t in (q, k, v))
    if (bias_k is None) != (bias_v is None):
        raise ValueError(f"{name}: expected both of bias_k and bias_v, or neither")
    if not isinstance(num_heads, int) or num_heads < 1:
        raise ValueError(f"{name}: expected one head or more, got {num_heads}")
    masks, mask_type = _masks(
        name, (q, k), num_heads, batched, key_padding_mask, attn_mask, maybe_cudnn_style_mask
    )
    if is_causal and attn_mask is None:
        mask_type = "DEFAULT_MASK"
    queries = int(embed_dim if qproj_size is None else qproj_size)
    head_dim = embed_dim // num_heads if queries else embed_dim
    biases = [] if bias_k is None or bias_v is None else [bias_k, bias_v]
    combination = {(0, 0): "NONE", (1, 0): "ONLY_MASK", (0, 1): "ONLY_BIASKV", (1, 1): "ALL"}
    op = _multi_head_op(
        num_heads=num_heads,
        embeding_size=int(embed_dim),
        k_size=_shape(k)[2],
        v_size=_shape(v)[2],
        qproj_size=queries,
        kproj_size=int(embed_dim if kproj_size is None else kproj_size),
        vproj_size=int(embed_dim if vproj_size is None else vproj_size),
        oproj_size=int(embed_dim if oproj_size is None else oproj_size),
        qbias=bool(qbias),
        kbias=bool(kbias),
        vbias=bool(vbias),
        obias=bool(obias),
        sm_scaler=1 / math.sqrt(max(head_dim, 1)),
        attn_mask_type=mask_type,
        tensor_combination_type=combination[bool(masks), bool(biases)],
        add_zero_attn=bool(add_zero_attn),
        need_weights=bool(need_weights),
        reslink=bool(reslink),
        training=bool(training),
        attn_prob=_probability(name, "attn_drop", attn_drop) if training else 0.0,
        out_prob=_probability(name, "out_drop", out_drop) if training else 0.0,
    )
    parameters = io_weight_bias
    if parameters is None:
        parameters = Tensor([], dtype=result_type(q))
    y, weights, *_ = apply(op, q, k, v, parameters, *masks, *biases)
    if not batched:
        y = y.reshape(_shape(y)[1:])
    if not need_weights:
        return y, None
    if average_attn_weights:
        n, length, keys = _shape(q)[0], _shape(q)[1], _shape(weights)[2]
        weights = weights.reshape(n, num_heads, length, keys).mean(axis=1)
        if weights.dtype != y.dtype:
            weights = weights.astype(y.dtype)
        return y, weights if batched else weights.reshape(length, keys)
    return y, weights


def _masks(
    name: str,
    operands: tuple[Tensor, Tensor],
    heads: int,
    batched: bool,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    cudnn_style: bool,
) -> tuple[list[Tensor], str]:
    """The masks as builtin.MultiHeadAttn takes them, and their kind."""
    n, length, keys = *_shape(operands[0])[:2], _shape(operands[1])[1]
    if cudnn_style:
        if attn_mask is None or key_padding_mask is None:
            raise ValueError(
                f"{name}: expected attn_mask and key_padding_mask in the style of cuDNN"
            )
        return [attn_mask, key_padding_mask], "CUDNN_STYLE_MASK"
    masks = []
    if attn_mask is not None:
        shapes = ((length, keys), (n * heads, length, keys))
        masks.append(_checked_mask(name, "attn_mask", attn_mask, shapes))
    if key_padding_mask is not None:
        wanted = (n, keys) if batched else (keys,)
        mask = _checked_mask(name, "key_padding_mask", key_padding_mask, (wanted,))
        masks.append(mask.reshape(n, 1, 1, keys))
    return masks, "USER_DEFINED_MASK" if masks else "NO_MASK"


def _checked_mask(
    name: str, what: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]
) -> Tensor:
    out = mask if isinstance(mask, Tensor) else Tensor(mask)
    if not _is_mask(out):
        raise TypeError(f"{name}: expected {what} of bool or of a float dtype, got {out.dtype}")
    if _shape(out) not in shapes:
        wanted = " or ".join(str(s) for s in shapes)
        raise ValueError(f"{name}: expected {what} of shape {wanted}, got {_shape(out)}")
    return out
