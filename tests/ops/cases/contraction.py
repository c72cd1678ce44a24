"""Records of matrix products, fully connected layers and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.record import FLOATS, INTS, Array, Record

# oneDNN may cut long sums among threads: the last bits depend on their number.
SHARED: dict[str, Any] = {"exact_threads": False}
# Sums of up to some hundred products.
SUMS = {"float32": (3e-6, 2e-5), "float64": (1e-12, 1e-12)}
# Two ops, each of which rounds.
TWICE = SUMS | {"float16": (2e-3, 4e-3), "bfloat16": (2e-2, 4e-2)}
NARROW = dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32")


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(s) for s in shapes]


def _small_ints(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.integers(0, 6, s).astype(float) for s in shapes]


def _zeros(*lists: Sequence[tuple[int, ...]]) -> Callable[[], list[list[Array]]]:
    """Lists of inputs, some of size 0."""
    return lambda: [[np.ones(s) for s in shapes] for shapes in lists]


# ---- references ----------------------------------------------------------------------------------


def _swap(x: Array, on: bool) -> Array:
    return np.swapaxes(x, -1, -2) if on else x


def _in_groups(w: Array, spatial: int) -> Array:
    return w if w.ndim == spatial + 3 else w[None]


def _windows(
    x: Array, kernel: tuple[int, ...], stride: Sequence[int], pad: Sequence[int], dil: Sequence[int]
) -> Array:
    """(N, C, out..., kernel...): the inputs under each tap of each position."""
    n = len(kernel)
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in pad])
    covers = tuple((k - 1) * d + 1 for k, d in zip(kernel, dil, strict=True))
    view = sliding_window_view(x, covers, axis=tuple(range(2, 2 + n)))
    steps = tuple(slice(None, None, s) for s in stride)
    taps = tuple(slice(None, None, d) for d in dil)
    return view[(slice(None), slice(None), *steps, *taps)]


def conv_ref(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
) -> Array:
    """A convolution as a sum over windows."""
    n = x.ndim - 2
    w = _in_groups(w, n)
    g, o, i = w.shape[:3]
    win = _windows(x, w.shape[3:], stride, pad, dilation)
    out = win.shape[2 : 2 + n]
    win = win.reshape(x.shape[0], g, i, *out, *w.shape[3:])
    s, k = "uvw"[:n], "xyz"[:n]
    y = np.einsum(f"ngi{s}{k},goi{k}->ngo{s}", win, w).reshape(x.shape[0], g * o, *out)
    return y if bias is None else y + bias.reshape(1, -1, *(1,) * n)


def conv_transpose_ref(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    extra: Sequence[int] = (0, 0),
) -> Array:
    """Each input adds a scaled kernel to the output."""
    n = x.ndim - 2
    w = _in_groups(w, n)
    g, i, o = w.shape[:3]
    size = [
        (a - 1) * s + d * (k - 1) + 1 + e
        for a, s, d, k, e in zip(x.shape[2:], stride, dilation, w.shape[3:], extra, strict=True)
    ]
    y = np.zeros((x.shape[0], g * o, *[max(a, p) for a, p in zip(size, pad, strict=True)]), x.dtype)
    grouped = x.reshape(x.shape[0], g, i, *x.shape[2:])
    for tap in np.ndindex(*w.shape[3:]):
        part = np.einsum("ngi...,gio->ngo...", grouped, w[(..., *tap)])
        at = tuple(
            slice(t * d, t * d + (a - 1) * s + 1, s)
            for t, d, a, s in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        y[(slice(None), slice(None), *at)] += part.reshape(x.shape[0], g * o, *x.shape[2:])
    cut = tuple(slice(p, a - p) for p, a in zip(pad, size, strict=True))
    y = y[(slice(None), slice(None), *cut)]
    return y if bias is None else y + bias.reshape(1, -1, *(1,) * n)


def filter_grad_ref(
    x: Array, dy: Array, shape: tuple[int, ...], stride: Sequence[int], pad: Sequence[int]
) -> Array:
    """The gradient of a weight: windows times the upstream gradient."""
    g, o, i = shape[:3] if len(shape) == 5 else (1, *shape[:2])
    win = _windows(x, shape[-2:], stride, pad, (1, 1))[:, :, : dy.shape[2], : dy.shape[3]]
    win = win.reshape(x.shape[0], g, i, *win.shape[2:])
    up = dy.reshape(dy.shape[0], g, o, *dy.shape[2:])
    return np.einsum("nguhwxy,ngohw->gouxy", win, up).reshape(shape)


# ---- records -----------------------------------------------------------------------------------


def _matmul(
    name: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    ta: bool = False,
    tb: bool = False,
    **options: Any,
) -> Record:
    options = {"empty": False, "tol": SUMS, **options}
    return Record(
        f"matmul-{name}",
        fn=lambda x, y: F.matmul(x, y, transpose_a=ta, transpose_b=tb),
        ref=lambda x, y: np.matmul(_swap(x, ta), _swap(y, tb)),
        inputs=_normal(a, b),
        ops=("MatrixMul",),
        **options,
    )


MATMULS = [
    _matmul(
        "2d",
        (5, 7),
        (7, 4),
        large=_normal((301, 203), (203, 405)),
        **SHARED,
        empty=_zeros([(0, 3), (3, 4)], [(3, 4), (4, 0)], [(2, 0), (0, 3)]),
    ),
    _matmul("ta", (7, 5), (7, 4), ta=True),
    _matmul("tb", (5, 7), (4, 7), tb=True),
    _matmul("ta-tb", (7, 5), (4, 7), ta=True, tb=True),
    _matmul("medium", (70, 90), (90, 110), dtypes=FLOATS, order=1, **SHARED),
    _matmul("row", (7,), (7, 4), empty=_zeros([(0,), (0, 4)])),
    _matmul("column", (5, 7), (7,)),
    _matmul("vectors", (9,), (9,), empty=_zeros([(0,), (0,)])),
    _matmul("row-batch", (7,), (3, 7, 2)),
    _matmul("batch-column-ta", (3, 7, 5), (7,), ta=True),
    _matmul(
        "batch",
        (3, 5, 7),
        (3, 7, 4),
        large=_normal((6, 130, 60), (6, 60, 140)),
        **SHARED,
        empty=_zeros([(0, 2, 3), (0, 3, 4)], [(2, 0, 3), (3, 4)]),
    ),
    _matmul("batch-shared", (3, 5, 7), (7, 4)),
    _matmul("batch-shared-ta", (3, 7, 5), (7, 4), ta=True),
    _matmul("batch-shared-left", (5, 7), (3, 7, 4)),
    _matmul("batch-broadcast", (2, 1, 5, 7), (3, 4, 7), tb=True),
    Record(
        "matmul-int",
        fn=F.matmul,
        ref=np.matmul,
        inputs=_small_ints((5, 7), (7, 4)),
        dtypes=INTS,
        out_dtype=NARROW,
        order=0,
        layouts=False,
        empty=False,
    ),
    Record(
        "batched-matrix-mul",
        fn=lambda x, y: apply(builtin.BatchedMatrixMul(transposeB=True), x, y)[0],
        ref=lambda x, y: np.matmul(x, _swap(y, True)),
        inputs=_normal((3, 5, 7), (3, 4, 7)),
        ops=("BatchedMatrixMul",),
        tol=SUMS,
    ),
    Record(
        "dot",
        fn=F.dot,
        ref=np.dot,
        inputs=_normal((9,), (9,)),
        ops=("Dot",),
        tol=SUMS,
        large=_normal((300001,), (300001,)),
    ),
    Record(
        "linear",
        fn=F.linear,
        ref=lambda x, w, b: x @ w.T + b,
        inputs=_normal((5, 7), (4, 7), (4,)),
        ops=("Linear",),
        tol=SUMS,
        large=_normal((130, 300), (220, 300), (220,)),
        **SHARED,
        empty=_zeros([(0, 7), (4, 7), (4,)], [(2, 0), (4, 0), (4,)]),
    ),
    Record(
        "linear-no-bias",
        fn=F.linear,
        ref=lambda x, w: x @ w.T,
        inputs=_normal((2, 3, 7), (4, 7)),
        ops=("Linear",),
        tol=SUMS,
        empty=False,
    ),
    Record(
        "linear-vector",
        fn=F.linear,
        ref=lambda x, w, b: x @ w.T + b,
        inputs=_normal((7,), (4, 7), (4,)),
        ops=("Linear",),
        tol=SUMS,
        empty=False,
    ),
    Record(
        "linear-medium",
        fn=F.linear,
        ref=lambda x, w, b: x @ w.T + b,
        inputs=_normal((64, 100), (120, 100), (120,)),
        **SHARED,
        ops=("Linear",),
        tol=SUMS,
        order=1,
        empty=False,
    ),
]


CONV: dict[str, Any] = {"empty": False, **SHARED}


def _conv(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: tuple[int, ...] = (1, 1),
    pad: tuple[int, ...] = (0, 0),
    dilation: tuple[int, ...] = (1, 1),
    bias: bool = False,
    **options: Any,
) -> Record:
    n = len(x) - 2
    groups = w[0] if len(w) == n + 3 else 1
    channels = w[0] * w[1] if groups > 1 else w[0]
    run = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]
    shapes = [x, w] + ([(1, channels, *(1,) * n)] if bias else [])
    single = n == 1
    options = {**CONV, "tol": SUMS, **options}
    return Record(
        f"conv{n}d-{name}",
        fn=lambda *a: run(
            *a[:2],
            a[2] if bias else None,
            stride=stride[0] if single else stride,
            padding=pad[0] if single else pad,
            dilation=dilation[0] if single else dilation,
            groups=groups,
        ),
        ref=lambda *a: conv_ref(*a[:2], a[2] if bias else None, stride, pad, dilation),
        inputs=_normal(*shapes),
        ops=("Convolution3D", "Convolution3DBackwardData", "Convolution3DBackwardFilter")
        if n == 3
        else ("Convolution", "ConvolutionBackwardData", "ConvolutionBackwardFilter"),
        **options,
    )


def _conv_transpose(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: tuple[int, ...] = (1, 1),
    pad: tuple[int, ...] = (0, 0),
    dilation: tuple[int, ...] = (1, 1),
    extra: tuple[int, ...] = (0, 0),
    bias: bool = False,
    **options: Any,
) -> Record:
    n = len(x) - 2
    groups = w[0] if len(w) == n + 3 else 1
    channels = w[0] * w[2] if groups > 1 else w[1]
    run = {2: F.conv_transpose2d, 3: F.conv_transpose3d}[n]
    shapes = [x, w] + ([(1, channels, *(1,) * n)] if bias else [])
    options = {**CONV, "tol": TWICE if bias else SUMS, **options}
    return Record(
        f"conv_transpose{n}d-{name}",
        fn=lambda *a: run(
            *a[:2],
            a[2] if bias else None,
            stride=stride,
            padding=pad,
            output_padding=extra,
            dilation=dilation,
            groups=groups,
        ),
        ref=lambda *a: conv_transpose_ref(
            *a[:2], a[2] if bias else None, stride, pad, dilation, extra
        ),
        inputs=_normal(*shapes),
        ops=("ConvolutionBackwardData", "Convolution", "ConvolutionBackwardFilter")
        if n == 2
        else ("Convolution3DBackwardData", "Convolution3D", "Convolution3DBackwardFilter"),
        **options,
    )


CONVOLUTIONS = [
    _conv(
        "plain",
        (2, 3, 6, 5),
        (4, 3, 3, 2),
        bias=True,
        large=_normal((4, 16, 20, 20), (32, 16, 3, 3), (1, 32, 1, 1)),
        empty=_zeros([(0, 3, 6, 5), (4, 3, 3, 2), (1, 4, 1, 1)]),
    ),
    _conv("strided", (2, 3, 7, 8), (4, 3, 3, 3), stride=(2, 3), pad=(1, 2)),
    _conv("dilated", (2, 2, 8, 8), (3, 2, 3, 2), pad=(1, 1), dilation=(2, 3)),
    _conv("1x1", (2, 4, 3, 3), (5, 4, 1, 1), bias=True),
    _conv("1x1-strided", (2, 4, 5, 5), (5, 4, 1, 1), stride=(2, 2)),
    _conv("whole", (2, 3, 4, 4), (5, 3, 4, 4), bias=True),
    _conv("padded-far", (1, 2, 3, 3), (2, 2, 2, 2), pad=(4, 3)),
    _conv("one-channel", (2, 1, 7, 7), (3, 1, 5, 5)),
    _conv("remainder", (1, 2, 8, 8), (2, 2, 3, 3), stride=(3, 3)),
    _conv("groups", (2, 4, 5, 5), (2, 3, 2, 3, 3), pad=(1, 1), bias=True),
    _conv("depthwise", (2, 4, 5, 5), (4, 1, 1, 3, 3), pad=(1, 1), bias=True),
    _conv("depthwise-wide", (1, 32, 4, 4), (32, 1, 1, 3, 3), stride=(2, 2), pad=(1, 1), order=1),
    _conv("depthwise-multiplied", (2, 3, 5, 5), (3, 2, 1, 3, 3)),
    _conv("wide", (2, 16, 6, 6), (32, 16, 3, 3), pad=(1, 1), order=1),
    _conv("plain", (2, 3, 8), (4, 3, 3), stride=(2,), pad=(1,), dilation=(2,), bias=True),
    _conv(
        "plain",
        (2, 2, 4, 5, 4),
        (3, 2, 2, 3, 2),
        stride=(1, 2, 1),
        pad=(1, 0, 1),
        dilation=(1, 1, 2),
        bias=True,
    ),
    _conv("groups", (1, 4, 3, 3, 3), (2, 2, 2, 2, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    Record(
        "conv2d-int",
        fn=lambda x, w: F.conv2d(x, w, padding=1),
        ref=lambda x, w: conv_ref(x, w, pad=(1, 1)),
        inputs=_small_ints((2, 3, 4, 5), (4, 3, 3, 3)),
        dtypes=INTS,
        out_dtype=NARROW,
        order=0,
        layouts=False,
        empty=False,
    ),
    Record(
        "conv2d-bias-vector",
        fn=F.conv2d,
        ref=conv_ref,
        inputs=_normal((2, 3, 4, 4), (5, 3, 2, 2), (5,)),
        tol=SUMS,
        order=1,
        **CONV,
    ),
    _conv_transpose("plain", (2, 3, 4, 3), (3, 4, 3, 2), bias=True),
    _conv_transpose("strided", (2, 3, 4, 3), (3, 2, 3, 3), (2, 3), (1, 1), extra=(1, 2)),
    _conv_transpose("dilated", (1, 2, 4, 4), (2, 3, 2, 2), (1, 1), (1, 1), (2, 3)),
    _conv_transpose("groups", (2, 4, 3, 3), (2, 2, 3, 3, 3), (2, 2), (1, 1), bias=True),
    _conv_transpose(
        "plain",
        (1, 2, 2, 3, 2),
        (2, 3, 2, 2, 2),
        (2, 1, 2),
        (0, 1, 0),
        (1, 1, 1),
        (1, 0, 0),
        bias=True,
        order=1,
    ),
    Record(
        "conv2d-backward-filter",
        fn=lambda x, dy: apply(
            builtin.ConvolutionBackwardFilter(
                stride_h=2, stride_w=1, pad_h=1, pad_w=0, weight_shape=(2, 3, 2, 3, 2)
            ),
            x,
            dy,
        )[0],
        ref=lambda x, dy: filter_grad_ref(x, dy, (2, 3, 2, 3, 2), (2, 1), (1, 0)),
        inputs=_normal((2, 4, 6, 5), (2, 6, 3, 4)),
        ops=("ConvolutionBackwardFilter",),
        tol=SUMS,
    ),
]

RECORDS = MATMULS + CONVOLUTIONS
