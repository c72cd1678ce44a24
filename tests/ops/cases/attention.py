"""Attention, alone and with the projections of several heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine.functional as F
from tests.ops.record import Array, Record

OPS = ("ScaledDotProductAttention", "ScaledDotProductAttentionBackward")
# Scores are sums of products; a weight inherits their absolute error.
TOL = {"float32": (3e-6, 3e-6), "float64": (1e-12, 1e-12)}
# Three matrix products in a row, each of which rounds in 16 bits.
CHAIN = {"float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12), "float16": (2e-2, 2e-2)}
CHAIN |= {"bfloat16": (1e-1, 1e-1)}
COVERED_ELSEWHERE = {
    "RandomCounters": "ops/test_attention.py",
    "AttentionDropoutMask": "ops/test_attention.py",
}


# ---- references ----------------------------------------------------------------------------------


def weights_ref(scores: Array) -> Array:
    """The softmax of the last axis; zeros where all are -inf."""
    if scores.shape[-1] == 0:
        return scores
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked(scores: Array, masks: Sequence[Array]) -> Array:
    for m in masks:
        scores = np.where(m, -np.inf, scores) if m.dtype == bool else scores + m
    return scores


def later(queries: int, keys: int) -> Array:
    return np.arange(queries)[:, None] < np.arange(keys)


def attention_ref(causal: bool = False, scale: float | None = None) -> Callable[..., Array]:
    def ref(q: Array, k: Array, v: Array, *masks: Array) -> Array:
        s = scale if scale is not None else max(q.shape[-1], 1) ** -0.5
        scores = s * q @ np.swapaxes(k, -1, -2)
        hidden = [later(q.shape[-2], k.shape[-2])] if causal else []
        return weights_ref(masked(scores, [*hidden, *masks])) @ v

    return ref


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(s) for s in shapes]


def with_bool(
    shape: tuple[int, ...], *shapes: tuple[int, ...], p: float = 0.3
) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [*(rng.standard_normal(s) for s in shapes), rng.random(shape) < p]


def zeros(*lists: Sequence[tuple[int, ...]]) -> Callable[[], list[list[Array]]]:
    return lambda: [[np.ones(s) for s in shapes] for shapes in lists]


def attention(**options: Any) -> Callable[..., Any]:
    return lambda q, k, v, mask=None: F.nn.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, **options
    )


SMALL = ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))


def attention_records() -> list[Record]:
    return [
        Record(
            "attention",
            fn=attention(),
            ref=attention_ref(),
            inputs=normal(*SMALL),
            ops=OPS,
            tol=TOL,
            empty=zeros(
                ((0, 3, 5, 4), (0, 3, 7, 4), (0, 3, 7, 6)),
                ((2, 3, 0, 4), (2, 3, 7, 4), (2, 3, 7, 6)),
                ((2, 3, 5, 4), (2, 3, 0, 4), (2, 3, 0, 6)),
                ((2, 3, 5, 0), (2, 3, 7, 0), (2, 3, 7, 6)),
                ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 0)),
            ),
            large=normal((1, 3, 333, 24), (1, 3, 700, 24), (1, 3, 700, 40)),
        ),
        Record(
            "attention-causal",
            fn=attention(is_causal=True),
            ref=attention_ref(causal=True),
            inputs=normal((2, 2, 9, 3), (2, 2, 6, 3), (2, 2, 6, 5)),
            ops=OPS,
            tol=TOL,
            large=normal((1, 1, 700, 32), (1, 1, 700, 32), (1, 1, 700, 32)),
        ),
        Record(
            "attention-scores-mask",
            fn=attention(scale=0.3),
            ref=attention_ref(scale=0.3),
            inputs=normal(*SMALL, (2, 1, 5, 7)),
            ops=OPS,
            tol=TOL,
            empty=False,
            large=normal((1, 2, 130, 16), (1, 2, 520, 16), (1, 2, 520, 16), (130, 520)),
            exact_threads=False,  # the gradient of the mask is a chain of matrix products
        ),
        Record(
            "attention-rows-mask",
            fn=attention(),
            ref=attention_ref(),
            inputs=normal((3, 5, 4), (3, 7, 4), (3, 7, 6), (5, 1)),
            ops=OPS,
            tol=TOL,
            empty=False,
        ),
        Record(
            "attention-bool-mask",
            fn=attention(),
            ref=attention_ref(),
            inputs=with_bool((3, 5, 7), *SMALL),
            ops=OPS,
            tol=TOL,
            empty=False,
            large=with_bool((2, 130, 520), (1, 2, 130, 16), (1, 2, 520, 16), (1, 2, 520, 16)),
        ),
        Record(
            "attention-padding-causal",
            fn=attention(is_causal=True),
            ref=attention_ref(causal=True),
            # Some queries see no key at all.
            inputs=with_bool((2, 1, 1, 7), *SMALL, p=0.6),
            ops=OPS,
            tol=TOL,
            empty=False,
        ),
        Record(
            "attention-two-axes",
            fn=attention(),
            ref=attention_ref(),
            inputs=normal((5, 4), (7, 4), (7, 6)),
            ops=OPS,
            tol=TOL,
            empty=False,
        ),
        Record(
            "attention-five-axes",
            fn=attention(),
            ref=attention_ref(),
            inputs=with_bool((2, 1, 5, 7), *((2, 2, *s[1:]) for s in SMALL)),
            ops=OPS,
            tol=TOL,
            empty=False,
            layouts=False,
        ),
    ]


# ---- several heads -------------------------------------------------------------------------------

HEADS, QK, V, OUT = 2, 6, 4, 5


def heads_of(x: Array, projected: bool) -> Array:
    if not projected:
        return np.broadcast_to(x[:, None], (len(x), HEADS, *x.shape[1:]))
    return np.swapaxes(x.reshape(*x.shape[:2], HEADS, -1), 1, 2)


def multi_head_ref(
    sizes: tuple[int, int, int, int] = (QK, QK, V, OUT),
    biases: bool = True,
    causal: bool = False,
    zero: bool = False,
    reslink: bool = False,
    kinds: str = "",
    weights: bool = False,
) -> Callable[..., Any]:
    """`kinds` names what follows the parameters: a for attn_mask, p for key_padding_mask, b for
    bias_k and bias_v.
    """

    def ref(q: Array, k: Array, v: Array, w: Array, *rest: Array) -> Any:
        at = 0

        def take(*shape: int) -> Array:
            nonlocal at
            part = w.reshape(-1)[at : at + int(np.prod(shape))]
            at += part.size
            return part.reshape(shape)

        widths = (q.shape[2], k.shape[2], v.shape[2], sizes[2] or HEADS * v.shape[2])
        matrices = [take(i, o) if o else None for i, o in zip(widths, sizes, strict=True)]
        shifts = [take(o) if o and biases else 0.0 for o in sizes]
        x = [
            t @ m + b if m is not None else t
            for t, m, b in zip((q, k, v), matrices, shifts, strict=False)
        ]
        more = list(rest)
        masks = []
        n, length, keys = q.shape[0], q.shape[1], k.shape[1]
        for kind in kinds:
            part = more.pop(0)
            if kind == "b":
                x[1] = np.concatenate([x[1], np.broadcast_to(part, (n, 1, part.size))], 1)
                part = more.pop(0)
                x[2] = np.concatenate([x[2], np.broadcast_to(part, (n, 1, part.size))], 1)
            elif kind == "p":
                masks.append(part.reshape(n, 1, 1, keys))
            else:
                masks.append(part.reshape(n if part.ndim == 3 else 1, -1, length, keys))
        if zero:
            x[1:] = [np.concatenate([t, np.zeros_like(t[:, :1])], 1) for t in x[1:]]
        if causal:
            masks.append(later(length, keys)[None, None])
        added = x[1].shape[1] - keys
        masks = [np.pad(m, [(0, 0)] * 3 + [(0, added)]) for m in masks]
        hq, hk, hv = (heads_of(t, o > 0) for t, o in zip(x, sizes, strict=False))
        depth = q.shape[2] // HEADS if sizes[0] else q.shape[2]
        scores = hq @ np.swapaxes(hk, -1, -2) / np.sqrt(depth)
        p = weights_ref(masked(scores, masks))
        y = np.swapaxes(p @ hv, 1, 2).reshape(n, length, -1)
        if matrices[3] is not None:
            y = y @ matrices[3] + shifts[3]
        if reslink:
            y = y + q
        return (y, p.reshape(-1, *p.shape[2:])) if weights else y

    return ref


def multi_head(kinds: str = "", weights: bool = False, **options: Any) -> Callable[..., Any]:
    sizes = options.pop("sizes", (QK, QK, V, OUT))
    biases = options.pop("biases", True)

    def fn(q: Any, k: Any, v: Any, w: Any, *rest: Any) -> Any:
        more = list(rest)
        names = {"a": ["attn_mask"], "p": ["key_padding_mask"], "b": ["bias_k", "bias_v"]}
        given = {name: more.pop(0) for kind in kinds for name in names[kind]}
        got = F.nn.multi_head_attention(
            q, k, v, q.shape[2], HEADS, 0.0, 0.0, w, *sizes, *[biases] * 4,
            need_weights=weights, **given, **options,
        )  # fmt: skip
        return got if weights else got[0]

    return fn


def multi_head_inputs(
    sizes: tuple[int, int, int, int] = (QK, QK, V, OUT),
    widths: tuple[int, int, int] = (8, 3, 4),
    biases: bool = True,
    more: Sequence[tuple[int, ...]] = (),
    lengths: tuple[int, int, int] = (2, 5, 7),
) -> Callable[[np.random.Generator], list[Array]]:
    n, length, keys = lengths
    rows = (*widths, sizes[2] or HEADS * widths[2])
    count = sum(i * o for i, o in zip(rows, sizes, strict=True))
    count += sum(sizes) if biases else 0
    shapes = [(n, length, widths[0]), (n, keys, widths[1]), (n, keys, widths[2]), (1, count)]
    return normal(*shapes, *more)


def then_bool(
    make: Callable[[np.random.Generator], list[Array]], shape: tuple[int, ...], p: float = 0.4
) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [*make(rng), rng.random(shape) < p]


def multi_head_records() -> list[Record]:
    def record(name: str, inputs: Any, kinds: str = "", **options: Any) -> Record:
        shared = {k: v for k, v in options.items() if k not in ("add_zero_attn", "is_causal")}
        reference = shared | {
            "zero": options.get("add_zero_attn", False),
            "causal": options.get("is_causal", False),
        }
        return Record(
            f"multi_head_attention-{name}",
            fn=multi_head(kinds, **options),
            ref=multi_head_ref(kinds=kinds, **reference),
            inputs=inputs,
            ops=("MultiHeadAttn",),
            tol=CHAIN,
            empty=False,
            exact_threads=False,
            grad_tol=(1e-5, 1e-6),  # third derivatives are large
        )

    none, some = (0, 0, 0, 0), (8, 0, 0, 8)
    return [
        record("plain", multi_head_inputs()),
        record("weights", multi_head_inputs(), weights=True),
        record("causal", multi_head_inputs(), is_causal=True),
        record("no-bias", multi_head_inputs(biases=False), biases=False),
        record("no-projection", multi_head_inputs(none, (8, 8, 4)), sizes=none, reslink=True),
        record("query-projected", multi_head_inputs(some, (8, 4, 6)), sizes=some, reslink=True),
        record("scores-mask", multi_head_inputs(more=[(4, 5, 7)]), "a"),
        record("both-masks", then_bool(multi_head_inputs(more=[(5, 7)]), (2, 7)), "ap"),
        record(
            "both-masks-weights",
            then_bool(multi_head_inputs(more=[(4, 5, 7)]), (2, 7)),
            "ap",
            weights=True,
        ),
        record("extra-keys", multi_head_inputs(more=[(1, 1, QK), (1, 1, V)]), "b"),
        record(
            "extra-keys-masked",
            multi_head_inputs(more=[(5, 7), (1, 1, QK), (1, 1, V)]),
            "ab",
            add_zero_attn=True,
        ),
        record(
            "causal-extra-keys",
            then_bool(multi_head_inputs(), (2, 7)),
            "p",
            is_causal=True,
            add_zero_attn=True,
        ),
    ]


RECORDS = attention_records() + multi_head_records()
