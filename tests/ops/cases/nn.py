"""Normalisation, softmax, pooling, losses, embedding, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine.functional as F
from tests.ops.record import Array, Record

# Means of 16-bit tensors are float32.
MEAN32 = {"float16": "float32", "bfloat16": "float32"}
# A normalised value inherits the rounding of mean and deviation.
NORM = {"float32": (5e-6, 1e-5), "float64": (1e-11, 1e-11)}
# Losses made of several ops round at each.
CHAIN = {**NORM, "float16": (5e-3, 5e-3), "bfloat16": (4e-2, 4e-2)}
FULL = ("float32", "float64")


def normal(*shapes: tuple[int, ...], scale: float = 2.0) -> Any:
    """A generator of float inputs of these shapes."""
    return lambda rng: [rng.standard_normal(shape) * scale for shape in shapes]


def norm_ref(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    if x.size == 0:
        return x
    centered = x - x.mean(axes, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + eps)


# ---- batch norm --------------------------------------------------------------------------------


def per_channel(v: Array, x: Array) -> Array:
    return v.reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm_ref(x: Array, w: Array, b: Array) -> Array:
    axes = (0, *range(2, x.ndim))
    return norm_ref(x, axes) * per_channel(w, x) + per_channel(b, x)


def batch_norm_stats_ref(x: Array, m: Array, v: Array) -> tuple[Array, ...]:
    axes = (0, *range(2, x.ndim))
    mean, var = x.mean(axes).reshape(m.shape), x.var(axes, ddof=1).reshape(v.shape)
    return norm_ref(x, axes), 0.9 * m + 0.1 * mean, 0.9 * v + 0.1 * var


def batch_norm_eval_ref(x: Array, w: Array, b: Array, m: Array, v: Array) -> Array:
    h = (x - per_channel(m, x)) / np.sqrt(per_channel(v, x) + 1e-5)
    return h * per_channel(w, x) + per_channel(b, x)


def batch_norm_eval_inputs(rng: np.random.Generator) -> list[Array]:
    w, b, m = (rng.standard_normal(3) for _ in range(3))
    return [rng.standard_normal((4, 3, 5, 2)), w, b, m, rng.random(3) + 0.5]


def batch_norm_records() -> list[Record]:
    shapes = {"2d": (6, 3), "3d": (4, 3, 5), "4d": (4, 3, 5, 2)}
    out = [
        Record(
            f"batch_norm-training-{name}",
            fn=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            ref=batch_norm_ref,
            inputs=normal(shape, (3,), (3,)),
            ops=("BatchNorm", "BatchNormBackward"),
            tol=NORM,
            empty=lambda shape=shape: [[np.zeros((0, *shape[1:])), np.ones(3), np.ones(3)]],
            large=normal((40, 3, *[30] * (len(shape) - 2)), (3,), (3,)),
        )
        for name, shape in shapes.items()
    ]
    out.append(
        Record(
            "batch_norm-statistics",
            fn=lambda x, m, v: F.batch_norm(x, m, v, training=True, inplace=False),
            ref=batch_norm_stats_ref,
            inputs=lambda rng: [
                rng.standard_normal((4, 3, 5, 2)),
                np.ones((1, 3, 1, 1)),
                np.ones(3),
            ],
            ops=("BatchNorm",),
            tol=NORM,
            order=0,
            empty=False,
        )
    )
    out.append(
        Record(
            "batch_norm-inference",
            fn=lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
            ref=batch_norm_eval_ref,
            inputs=batch_norm_eval_inputs,
            ops=("BatchNorm", "BatchNormBackward"),
            tol=NORM,
            empty=lambda: [[np.zeros((0, 3, 4, 4)), *[np.ones(3)] * 4]],
        )
    )
    return out


# ---- layer norm and its relatives --------------------------------------------------------------


def layer_norm_ref(dims: int) -> Callable[..., Array]:
    def ref(x: Array, w: Array | None = None, b: Array | None = None) -> Array:
        h = norm_ref(x, tuple(range(-dims, 0)))
        return h if w is None or b is None else h * w + b

    return ref


def group_norm_ref(groups: int) -> Callable[..., Array]:
    def ref(x: Array, w: Array | None = None, b: Array | None = None) -> Array:
        if x.size == 0:
            return x
        h = norm_ref(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)
        return h if w is None or b is None else h * per_channel(w, x) + per_channel(b, x)

    return ref


def layer_norm_records() -> list[Record]:
    out = []
    for dims, shape in ((1, (4, 3, 7)), (2, (4, 3, 7)), (3, (2, 3, 4))):
        last = shape[-dims:]
        out += [
            Record(
                f"layer_norm-{dims}-affine",
                fn=lambda x, w, b, last=last: F.layer_norm(x, last, True, w, b),
                ref=layer_norm_ref(dims),
                inputs=normal(shape, last, last),
                ops=("LayerNorm", "LayerNormBackward"),
                tol=NORM,
                empty=dims < 3,
                large=normal((300, *shape[1:]), last, last) if dims < 3 else None,
            ),
            Record(
                f"layer_norm-{dims}",
                fn=lambda x, last=last: F.layer_norm(x, last, False),
                ref=layer_norm_ref(dims),
                inputs=normal(shape),
                ops=("LayerNorm", "LayerNormBackward"),
                tol=NORM,
                empty=dims < 3,
            ),
        ]
    out.append(
        Record(
            "general_norm",
            fn=lambda x, w, b: F.general_norm(x, (0, 2), True, w, b),
            ref=lambda x, w, b: norm_ref(x, (0, 2)) * w[:, None] + b[:, None],
            inputs=normal((3, 4, 5), (3, 5), (3, 5)),
            ops=("LayerNorm",),
            tol=NORM,
            empty=False,
        )
    )
    return out


def group_norm_records() -> list[Record]:
    out = []
    # Planes below and above the length from which each has a loop of its own.
    for name, shape, groups in (
        ("small", (4, 6, 3, 2), 2),
        ("planes", (2, 6, 5, 4), 3),
        ("vector", (5, 12), 3),
    ):
        channels = (shape[1],)
        out += [
            Record(
                f"group_norm-{name}-affine",
                fn=lambda x, w, b, g=groups: F.group_norm(x, g, True, w, b),
                ref=group_norm_ref(groups),
                inputs=normal(shape, channels, channels),
                ops=("GroupNorm", "GroupNormBackward"),
                tol=NORM,
                empty=lambda s=shape: [[np.zeros((0, *s[1:])), np.ones(s[1]), np.ones(s[1])]],
                large=normal((60, *shape[1:]), channels, channels),
            ),
            Record(
                f"group_norm-{name}",
                fn=lambda x, g=groups: F.group_norm(x, g, False),
                ref=group_norm_ref(groups),
                inputs=normal(shape),
                ops=("GroupNorm", "GroupNormBackward"),
                tol=NORM,
            ),
        ]
    out.append(
        Record(
            "instance_norm",
            fn=lambda x, w, b: F.instance_norm(x, True, w, b),
            ref=group_norm_ref(3),
            inputs=normal((4, 3, 5, 2), (3,), (3,)),
            ops=("GroupNorm",),
            tol=NORM,
            empty=False,
        )
    )
    return out


# ---- softmax -----------------------------------------------------------------------------------


def lse_ref(x: Array, axis: Any, keepdims: bool = False) -> Array:
    m = x.max(axis, keepdims=True, initial=-1e300)
    y = np.log(np.exp(x - m).sum(axis, keepdims=True)) + m
    return y if keepdims else y.squeeze(axis)


def softmax_records() -> list[Record]:
    out = []
    for shape, axis in (((3, 7), 1), ((3, 7), 0), ((2, 5, 3), 1), ((4,), 0), ((2, 3, 2, 3), -3)):
        large = normal((*[50] * (len(shape) - 1), 70), scale=3) if len(shape) < 4 else None
        common: dict[str, Any] = {"inputs": normal(shape, scale=3), "large": large}
        name = f"{len(shape)}d-{axis}"
        out += [
            Record(
                f"softmax-{name}",
                fn=lambda x, a=axis: F.softmax(x, a),
                ref=lambda x, a=axis: np.exp(x - lse_ref(x, a, True)),
                ops=("Softmax", "SoftmaxBackward"),
                **common,
            ),
            Record(
                f"logsoftmax-{name}",
                fn=lambda x, a=axis: F.logsoftmax(x, a),
                ref=lambda x, a=axis: x - lse_ref(x, a, True),
                ops=("LogSoftmax", "LogSoftmaxBackward"),
                **common,
            ),
            Record(
                f"logsumexp-{name}",
                fn=lambda x, a=axis: F.logsumexp(x, a),
                ref=lambda x, a=axis: lse_ref(x, a),
                ops=("LogSumExp", "LogSumExpBackward"),
                empty=shape != (4,) and axis != 0,
                **common,
            ),
        ]
    out.append(
        Record(
            "logsumexp-axes",
            fn=lambda x: F.logsumexp(x, (0, 2), keepdims=True),
            ref=lambda x: lse_ref(x, (0, 2), True),
            inputs=normal((2, 3, 4), scale=3),
            empty=False,
        )
    )
    return out


# ---- pooling -----------------------------------------------------------------------------------


def windows(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], fill: float
) -> Array:
    """(N, C, out_h, out_w, kernel_h * kernel_w)"""
    width = ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1]))
    padded = np.pad(x, width, constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), (2, 3))
    view = view[:, :, :: stride[0], :: stride[1]]
    return view.reshape(*view.shape[:4], kernel[0] * kernel[1])


def average_ref(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], full: bool
) -> Array:
    sums = windows(x, kernel, stride, pad, 0.0).sum(-1)
    if full:
        return sums / (kernel[0] * kernel[1])
    return sums / windows(np.ones_like(x), kernel, stride, pad, 0.0).sum(-1)


def distinct(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    """Values that are far apart: maxima that no small step changes."""
    size = int(np.prod(shape))
    return lambda rng: [(rng.permutation(size).reshape(shape) - size / 2) / 8]


def pool_records() -> list[Record]:
    out = []
    for name, kernel, stride, pad in (
        ("2", (2, 2), (2, 2), (0, 0)),
        ("3-2-1", (3, 3), (2, 2), (1, 1)),
        ("mixed", (2, 3), (3, 1), (1, 2)),
        ("all", (6, 7), (1, 1), (0, 0)),
    ):
        args = (kernel, stride, pad)
        large = distinct(3, 2, 40, 50) if name != "all" else None
        out.append(
            Record(
                f"max_pool2d-{name}",
                fn=lambda x, a=args: F.max_pool2d(x, *a),
                ref=lambda x, a=args: windows(x, *a, -np.inf).max(-1),
                inputs=distinct(2, 3, 6, 7),
                ops=("Pooling", "PoolingBackward", "MaxPoolPick"),
                large=large,
            )
        )
        for mode in ("average", "average_count_exclude_padding"):
            out.append(
                Record(
                    f"avg_pool2d-{name}-{mode}",
                    fn=lambda x, a=args, m=mode: F.avg_pool2d(x, *a, mode=m),
                    ref=lambda x, a=args, m=mode: average_ref(x, *a, full=m == "average"),
                    inputs=normal((2, 3, 6, 7)),
                    ops=("Pooling", "PoolingBackward"),
                    large=large,
                )
            )
    adaptive = ((2, 3), (2, 2), (0, 0))  # 6 x 7 to 3 x 3: strides 2, 2, windows 2, 3
    out += [
        Record(
            "adaptive_max_pool2d",
            fn=lambda x: F.adaptive_max_pool2d(x, 3),
            ref=lambda x: windows(x, *adaptive, -np.inf).max(-1),
            inputs=distinct(2, 3, 6, 7),
            ops=("AdaptivePooling",),
        ),
        Record(
            "adaptive_avg_pool2d",
            fn=lambda x: F.adaptive_avg_pool2d(x, (3, 3)),
            ref=lambda x: average_ref(x, *adaptive, full=True),
            inputs=normal((2, 3, 6, 7)),
            ops=("AdaptivePooling",),
        ),
    ]
    return out


# ---- losses ------------------------------------------------------------------------------------


def reduced(loss: Array, reduction: str) -> Array:
    if reduction == "none":
        return loss
    total = np.float64(loss.sum())
    return np.asarray(total / loss.size if reduction == "mean" else total)


def cross_entropy_ref(axis: int, smooth: float, reduction: str) -> Callable[[Array, Array], Array]:
    def ref(x: Array, label: Array) -> Array:
        log_p = x - lse_ref(x, axis, True)
        own = np.take_along_axis(log_p, np.expand_dims(label, axis), axis).squeeze(axis)
        loss = -(1 - smooth) * own - smooth * log_p.sum(axis) / log_p.shape[axis]
        return reduced(loss, reduction)

    return ref


def labelled(*shape: int, axis: int = 1) -> Callable[[np.random.Generator], list[Array]]:
    labels = tuple(n for i, n in enumerate(shape) if i != axis % len(shape))
    return lambda rng: [rng.standard_normal(shape) * 3, rng.integers(0, shape[axis], labels)]


def cross_entropy_records() -> list[Record]:
    out = []
    for shape, axis, smooth, reduction in (
        ((5, 4), 1, 0.0, "mean"),
        ((5, 4), -1, 0.2, "mean"),
        ((5, 4), 1, 0.0, "none"),
        ((5, 4), 1, 0.2, "sum"),
        ((2, 4, 3, 2), 1, 0.0, "mean"),
        ((2, 4, 3, 2), 1, 0.2, "none"),
        ((4, 5), 0, 0.1, "mean"),
    ):
        out.append(
            Record(
                f"cross_entropy-{len(shape)}d-{axis}-{smooth}-{reduction}",
                fn=lambda x, t, a=axis, s=smooth, r=reduction: F.nn.cross_entropy(
                    x, t, axis=a, label_smooth=s, reduction=r
                ),
                ref=cross_entropy_ref(axis, smooth, reduction),
                inputs=labelled(*shape, axis=axis),
                ops=("CrossEntropy", "CrossEntropyBackward"),
                out_dtype=MEAN32 if reduction == "mean" else None,
                empty=axis != 0,
                large=labelled(*[60] * len(shape), axis=axis) if len(shape) == 2 else None,
            )
        )
    return out


def probabilities(rng: np.random.Generator) -> list[Array]:
    p = rng.random((5, 4)) + 0.1
    return [p / p.sum(1, keepdims=True), rng.integers(0, 4, 5)]


def probability_cross_entropy_ref(p: Array, label: Array) -> Array:
    own = -np.log(np.take_along_axis(p, label[:, None], 1)[:, 0])
    return reduced(0.9 * own - 0.1 * np.log(p).mean(1), "mean")


def loss_records() -> list[Record]:
    bce = Record(
        "binary_cross_entropy",
        fn=lambda x, y: F.nn.binary_cross_entropy(x, y),
        ref=lambda x, y: reduced(np.maximum(x, 0) - x * y + np.log1p(np.exp(-abs(x))), "mean"),
        inputs=lambda rng: [rng.standard_normal((5, 4)) * 3, rng.random((5, 4))],
        dtypes=FULL,
        tol=CHAIN,
    )
    return [
        bce,
        Record(
            "binary_cross_entropy-probabilities",
            fn=lambda p, y: F.nn.binary_cross_entropy(p, y, with_logits=False, reduction="sum"),
            ref=lambda p, y: reduced(-y * np.log(p) - (1 - y) * np.log1p(-p), "sum"),
            inputs=lambda rng: [rng.random((5, 4)) * 0.8 + 0.1, rng.random((5, 4))],
            dtypes=FULL,
            tol=CHAIN,
        ),
        Record(
            "cross_entropy-probabilities",
            fn=lambda p, t: F.nn.cross_entropy(p, t, with_logits=False, label_smooth=0.1),
            ref=probability_cross_entropy_ref,
            inputs=probabilities,
            dtypes=FULL,
            tol=CHAIN,
            empty=False,
        ),
        Record(
            "l1_loss",
            fn=lambda x, y: F.nn.l1_loss(x, y),
            ref=lambda x, y: reduced(abs(x - y), "mean"),
            inputs=normal((5, 4), (5, 4)),
            dtypes=FULL,
            tol=CHAIN,
        ),
        Record(
            "square_loss",
            fn=lambda x, y: F.nn.square_loss(x, y),
            ref=lambda x, y: reduced((x - y) ** 2, "mean"),
            inputs=normal((5, 4), (5, 4)),
            dtypes=FULL,
            tol=CHAIN,
        ),
        Record(
            "square_loss-none",
            fn=lambda x, y: F.nn.square_loss(x, y, reduction="none"),
            ref=lambda x, y: (x - y) ** 2,
            inputs=normal((5, 4), (4,)),
            tol=CHAIN,
            empty=False,
        ),
        Record(
            "hinge_loss-l2",
            fn=lambda x, y: F.nn.hinge_loss(x, y, norm="L2", reduction="sum"),
            ref=lambda x, y: reduced((np.maximum(0, 1 - x * y) ** 2).sum(1), "sum"),
            inputs=lambda rng: [rng.standard_normal((5, 4)), rng.integers(0, 2, (5, 4)) * 2.0 - 1],
            grad=(0,),
            tol={**CHAIN, "float16": (5e-3, 5e-2), "bfloat16": (4e-2, 0.5)},
        ),
    ]


# ---- embedding, padding, rearrangement ---------------------------------------------------------


def local_response_ref(x: Array) -> Array:
    padded = np.pad(x * x, ((0, 0), (2, 2), (0, 0), (0, 0)))
    sums = np.stack([padded[:, c : c + 5].sum(1) for c in range(x.shape[1])], 1)
    return np.asarray(x / (2.0 + 0.1 * sums) ** 0.75)


def pixel_shuffle_ref(x: Array) -> Array:
    n, c, h, w = x.shape
    split = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, c // 4, h * 2, w * 2)


PADDING = ((1, 2), (0, 1))


def other_records() -> list[Record]:
    out = [
        Record(
            "embedding",
            fn=lambda w, i: F.embedding(i, w),
            ref=lambda w, i: w[i],
            inputs=lambda rng: [rng.standard_normal((6, 3)), rng.integers(-6, 6, (4, 5))],
            empty=lambda: [[np.ones((6, 3)), np.zeros((0, 2), np.int64)]],
        ),
        Record(
            "local_response_norm",
            fn=lambda x: F.local_response_norm(x, alpha=0.1),
            ref=local_response_ref,
            inputs=normal((2, 7, 3, 2)),
            dtypes=FULL,
            tol=NORM,
            empty=False,
        ),
        Record(
            "pixel_shuffle",
            fn=lambda x: F.pixel_shuffle(x, 2),
            ref=pixel_shuffle_ref,
            inputs=normal((2, 8, 3, 2)),
        ),
        Record(
            "pad-constant",
            fn=lambda x: F.nn.pad(x, PADDING, constant_value=2.5),
            ref=lambda x: np.pad(x, (*PADDING, (0, 0)), constant_values=2.5),
            inputs=normal((3, 4, 2)),
        ),
    ]
    for mode, name in (("replicate", "edge"), ("reflect", "reflect")):
        out.append(
            Record(
                f"pad-{mode}",
                fn=lambda x, m=mode: F.nn.pad(x, PADDING, mode=m),
                ref=lambda x, n=name: np.pad(x, PADDING, mode=n),
                inputs=normal((3, 4)),
                empty=False,
            )
        )
    return out


RECORDS = [
    *batch_norm_records(),
    *layer_norm_records(),
    *group_norm_records(),
    *softmax_records(),
    *pool_records(),
    *cross_entropy_records(),
    *loss_records(),
    *other_records(),
]
