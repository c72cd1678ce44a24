"""Records of what stands beside the plain convolutions: kernels that differ by position or region,
windows, padding, pixel shuffle, response normalisation, and convolutions with an activation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine.functional as F
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.cases.contraction import (
    CONV,
    SUMS,
    TWICE,
    _normal,
    _windows,
    conv_ref,
    conv_transpose_ref,
)
from tests.ops.record import FLOATS, INTS, Array, Record

Pair = tuple[int, int]


def _flip(w: Array, spatial: int) -> Array:
    return np.flip(w, tuple(range(-spatial, 0)))


# ---- true convolutions -------------------------------------------------------------------------


def _flipped(
    name: str, x: tuple[int, ...], w: tuple[int, ...], fn: Any, transposed: bool = False, **at: Any
) -> Record:
    n = len(x) - 2
    groups = w[0] if len(w) == n + 3 else 1
    ref = conv_transpose_ref if transposed else conv_ref
    stride, pad = at.get("stride", (1,) * n), at.get("pad", (0,) * n)
    single = n == 1
    return Record(
        f"convolution-mode-{name}",
        fn=lambda a, b: fn(
            a,
            b,
            stride=stride[0] if single else stride,
            padding=pad[0] if single else pad,
            groups=groups,
            conv_mode="convolution",
        ),
        ref=lambda a, b: ref(a, _flip(b, n), None, stride, pad, (1,) * n, *[(0,) * n] * transposed),
        inputs=_normal(x, w),
        tol=SUMS,
        **CONV,
    )


def _long_depthwise(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
    **options: Any,
) -> Record:
    return Record(
        f"conv2d-long-depthwise-{name}",
        fn=lambda a, b: F.conv2d(a, b, None, stride, pad, dilation, groups=b.shape[0]),
        ref=lambda a, b: conv_ref(a, b, None, stride, pad, dilation),
        inputs=_normal(x, w),
        ops=("Convolution", "ConvolutionBackwardFilter"),
        tol=SUMS,
        **{"order": 1, **CONV, "exact_threads": True, **options},
    )


# Filters of depthwise convolutions with kernels above 3 x 3, and inputs of few channels: these have
# ways of their own.
SPECIAL = [
    _long_depthwise("7x7", (2, 20, 9, 10), (20, 1, 1, 7, 7), pad=(3, 3)),
    _long_depthwise("row", (2, 5, 1, 30), (5, 1, 1, 1, 13), pad=(0, 6)),
    _long_depthwise("strided", (1, 35, 12, 11), (35, 1, 1, 5, 4), (2, 3), (2, 1), (1, 2)),
    _long_depthwise("padded-far", (2, 3, 3, 4), (3, 1, 1, 5, 5), (3, 2), (7, 9)),
    _long_depthwise(
        "large",
        (2, 20, 9, 10),
        (20, 1, 1, 5, 5),
        pad=(2, 2),
        dtypes=("float32",),
        large=_normal((4, 160, 20, 21), (160, 1, 1, 5, 5)),
    ),
    Record(
        "conv2d-few-channels",
        fn=lambda a, b: F.conv2d(a, b, None, 2, 1),
        ref=lambda a, b: conv_ref(a, b, None, (2, 2), (1, 1)),
        inputs=_normal((5, 2, 8, 9), (20, 2, 3, 3)),
        ops=("Convolution", "ConvolutionBackwardData"),
        tol=SUMS,
        order=1,
        **CONV,
    ),
    Record(
        "conv3d-few-channels",
        fn=lambda a, b: F.conv3d(a, b, None, 1, 1),
        ref=lambda a, b: conv_ref(a, b, None, (1, 1, 1), (1, 1, 1), (1, 1, 1)),
        inputs=_normal((4, 1, 4, 5, 4), (18, 1, 3, 3, 3)),
        ops=("Convolution3D", "Convolution3DBackwardData"),
        tol=SUMS,
        order=1,
        **CONV,
    ),
]

TRUE_CONVOLUTIONS = [
    _flipped("conv1d", (2, 3, 8), (4, 3, 3), F.conv1d, stride=(2,), pad=(1,)),
    _flipped("conv2d", (2, 3, 6, 7), (4, 3, 3, 2), F.conv2d, stride=(2, 1), pad=(1, 1)),
    _flipped("conv2d-1x1", (2, 3, 4, 4), (4, 3, 1, 1), F.conv2d),
    _flipped("conv2d-groups", (2, 4, 5, 5), (2, 3, 2, 3, 3), F.conv2d, pad=(1, 1)),
    _flipped("conv3d", (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), F.conv3d, pad=(1, 0, 1)),
    _flipped("conv_transpose2d", (2, 3, 4, 3), (3, 4, 3, 2), F.conv_transpose2d, True),
    _flipped("conv_transpose3d", (1, 2, 3, 3, 3), (2, 2, 2, 3, 2), F.conv_transpose3d, True),
]


# ---- convolutions with what follows them -------------------------------------------------------

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda y: y,
    "relu": lambda y: np.maximum(y, 0),
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "h_swish": lambda y: y * np.clip(y + 3, 0, 6) / 6,
}


def _clear_of_kinks(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[Array]:
    """Numbers whose sums of products keep off the kinks of the activations at 0 and +-3."""
    return [np.asarray(rng.integers(-3, 4, s) + 0.5 * (i == 2)) for i, s in enumerate(shapes)]


def _conv_bias(
    activation: str, x: tuple[int, ...], w: tuple[int, ...], bias: tuple[int, ...] | None
) -> Record:
    groups = w[0] if len(w) == 5 else 1
    shapes = [x, w] + ([bias] if bias is not None else [])

    def ref(*a: Array) -> Array:
        y = conv_ref(a[0], a[1], None, (1, 1), (1, 1))
        if len(a) > 2:
            y = y + (a[2].reshape(1, -1, 1, 1) if a[2].ndim == 1 else a[2])
        return ACTIVATIONS[activation](y)

    kinked = activation in ("relu", "h_swish")
    label = "-".join(map(str, bias)) if bias else "none"
    return Record(
        f"conv_bias-{activation}-{groups}-{label}",
        fn=lambda *a: F.quantized.conv_bias_activation(
            a[0],
            a[1],
            a[2] if len(a) > 2 else None,
            padding=1,
            groups=groups,
            nonlinear_mode=activation,
        ),
        ref=ref,
        inputs=(lambda rng: _clear_of_kinks(rng, *shapes)) if kinked and bias else _normal(*shapes),
        ops=("ConvBias",),
        tol=TWICE,
        order=1 if kinked else 2,
        **{k: v for k, v in CONV.items() if k != "order"},
    )


def _batch_conv_bias(
    activation: str, x: tuple[int, ...], w: tuple[int, ...], bias: tuple[int, ...]
) -> Record:
    groups = w[1] if len(w) == 6 else 1

    def ref(a: Array, b: Array, c: Array) -> Array:
        y = [conv_ref(a[i : i + 1], b[i], None, (2, 1), (1, 0)) for i in range(len(a))]
        return ACTIVATIONS[activation](np.concatenate(y) + c.reshape(1, -1, 1, 1))

    return Record(
        f"batch_conv_bias-{activation}-{groups}",
        fn=lambda a, b, c: F.quantized.batch_conv_bias_activation(
            a, b, c, stride=(2, 1), padding=(1, 0), groups=groups, nonlinear_mode=activation
        ),
        ref=ref,
        inputs=_normal(x, w, bias),
        ops=("BatchConvBias",),
        tol=TWICE,
        **CONV,
    )


CONV_BIAS = [
    _conv_bias("identity", (2, 3, 4, 4), (4, 3, 3, 3), (1, 4, 1, 1)),
    _conv_bias("relu", (2, 3, 4, 4), (4, 3, 3, 3), (1, 4, 1, 1)),
    _conv_bias("relu", (2, 4, 4, 4), (2, 2, 2, 3, 3), (4,)),
    _conv_bias("relu", (2, 4, 4, 4), (2, 4, 3, 3), None),
    _conv_bias("relu", (2, 3, 4, 4), (4, 3, 3, 3), (1, 1, 4, 4)),
    _conv_bias("sigmoid", (2, 3, 4, 4), (4, 3, 3, 3), (4,)),
    _conv_bias("h_swish", (2, 3, 4, 4), (4, 3, 3, 3), (1, 4, 1, 1)),
    _batch_conv_bias("identity", (2, 3, 4, 4), (2, 4, 3, 3, 3), (4,)),
    _batch_conv_bias("sigmoid", (2, 4, 4, 4), (2, 2, 3, 2, 3, 3), (1, 6, 1, 1)),
    Record(
        "conv_bias-residual",
        fn=lambda x, w, b, z: apply(builtin.ConvBias(pad_h=1, pad_w=1), x, w, b, z)[0],
        ref=lambda x, w, b, z: conv_ref(x, w, b, (1, 1), (1, 1)) + z,
        inputs=_normal((2, 3, 4, 4), (4, 3, 3, 3), (1, 4, 1, 1), (2, 4, 4, 4)),
        ops=("ConvBias",),
        tol=TWICE,
        **CONV,
    ),
]


# ---- kernels of each position's own ------------------------------------------------------------


def local_conv_ref(
    x: Array, w: Array, stride: Pair = (1, 1), pad: Pair = (0, 0), dilation: Pair = (1, 1)
) -> Array:
    """Each position with the weights that it has."""
    groups, out_h, out_w, per_group = w.shape[:4]
    win = _windows(x, w.shape[4:6], stride, pad, dilation)
    win = win.reshape(len(x), groups, per_group, out_h, out_w, *w.shape[4:6])
    y = np.einsum("ngchwij,ghwcijo->ngohw", win, w)
    return y.reshape(len(x), -1, out_h, out_w)


def _local(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
    mode: str = "cross_correlation",
    **options: Any,
) -> Record:
    def ref(a: Array, b: Array, c: Array) -> Array:
        if mode == "convolution":
            b = b[:, :, :, :, ::-1, ::-1]
        return local_conv_ref(a, b, stride, pad, dilation) + c

    options = {"tol": TWICE, **CONV, "exact_threads": True, **options}
    return Record(
        f"local_conv2d-{name}",
        fn=lambda a, b, c: F.local_conv2d(a, b, c, stride, pad, dilation, mode),
        ref=ref,
        inputs=_normal(x, w, (1, w[0] * w[6], w[1], w[2])),
        ops=("GroupLocal", "GroupLocalBackwardData", "GroupLocalBackwardFilter"),
        **options,
    )


LOCAL = [
    _local("plain", (2, 3, 4, 5), (1, 2, 3, 3, 3, 3, 4)),
    _local("strided", (3, 2, 7, 8), (1, 4, 3, 2, 3, 3, 5), (2, 3), (1, 1)),
    _local("dilated", (1, 2, 7, 7), (1, 5, 3, 2, 2, 3, 3), pad=(0, 0), dilation=(2, 2)),
    _local("groups", (5, 4, 4, 4), (2, 4, 4, 2, 3, 3, 3), pad=(1, 1)),
    _local("depthwise", (2, 3, 4, 4), (3, 3, 3, 1, 2, 2, 1)),
    _local("flipped", (2, 2, 4, 4), (1, 3, 3, 2, 2, 2, 2), mode="convolution"),
    _local("1x1", (7, 3, 3, 3), (1, 3, 3, 3, 1, 1, 2)),
    _local(
        "wide",
        (4, 8, 6, 6),
        (1, 6, 6, 8, 3, 3, 37),
        pad=(1, 1),
        order=1,
        dtypes=("float32", "float16"),
        large=_normal((4, 8, 6, 6), (1, 6, 6, 8, 3, 3, 37), (1, 37, 6, 6)),
    ),
]


# ---- regions -----------------------------------------------------------------------------------


def region_conv_ref(
    x: Array, w: Array, rin: Array, rout: Array, stride: Pair = (1, 1), pad: Pair = (0, 0)
) -> Array:
    """Windows with what lies in other regions set to 0."""
    w = w if w.ndim == 5 else w[None]
    groups, out, per_group = w.shape[:3]
    win = _windows(x, w.shape[3:], stride, pad, (1, 1))
    same = (
        _windows(rin[:, None], w.shape[3:], stride, pad, (1, 1)) == rout[:, None, :, :, None, None]
    )
    win = np.where(same, win, 0).reshape(len(x), groups, per_group, *win.shape[2:])
    y = np.einsum("ngchwij,gocij->ngohw", win, w)
    return y.reshape(len(x), groups * out, *y.shape[3:])


def _region(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    mode: str = "cross_correlation",
    regions: int = 2,
    large: tuple[int, ...] | None = None,
    **options: Any,
) -> Record:
    groups = w[0] if len(w) == 5 else 1

    def inputs(rng: np.random.Generator, x: tuple[int, ...] = x) -> Sequence[Array]:
        sizes = zip(x[2:], pad, w[-2:], stride, strict=True)
        out = [(size + 2 * p - k) // t + 1 for size, p, k, t in sizes]
        return [
            rng.standard_normal(x),
            rng.standard_normal(w),
            rng.integers(0, regions, (x[0], *x[2:])),
            rng.integers(0, regions, (x[0], *out)),
        ]

    def ref(a: Array, b: Array, rin: Array, rout: Array) -> Array:
        return region_conv_ref(
            a, _flip(b, 2) if mode == "convolution" else b, rin, rout, stride, pad
        )

    own = len(w) == 5 and w[1:3] == (1, 1)  # the others end in a product of matrices
    options = {"tol": SUMS, **CONV, "exact_threads": own, **options}
    if large:
        options["large"] = lambda rng: inputs(rng, large)
    return Record(
        f"region_restricted_conv-{name}",
        fn=lambda a, b, rin, rout: F.region_restricted_conv(
            a, b, rin, rout, None, stride, pad, groups=groups, conv_mode=mode
        ),
        ref=ref,
        inputs=inputs,
        ops=(
            "RegionRestrictedConvolution",
            "RegionRestrictedConvolutionBackwardData",
            "RegionRestrictedConvolutionBackwardFilter",
        ),
        **options,
    )


REGIONS = [
    _region("depthwise", (2, 4, 5, 6), (4, 1, 1, 3, 3), pad=(1, 1)),
    _region("depthwise-strided", (2, 3, 7, 6), (3, 1, 1, 3, 2), (2, 3), (1, 0)),
    _region("depthwise-flipped", (1, 3, 5, 5), (3, 1, 1, 3, 2), mode="convolution"),
    _region("one-region", (2, 3, 5, 5), (3, 1, 1, 3, 3), regions=1),
    _region("groups", (2, 4, 5, 4), (2, 3, 2, 3, 3), pad=(1, 1)),
    _region("groups-flipped", (2, 4, 4, 4), (2, 1, 2, 2, 3), (2, 1), (1, 1), "convolution"),
    _region("dense", (2, 3, 5, 5), (4, 3, 2, 2), (2, 2)),
    _region(
        "depthwise-wide",
        (2, 150, 9, 8),
        (150, 1, 1, 3, 3),
        pad=(1, 1),
        order=1,
        large=(4, 150, 40, 30),
    ),
]


# ---- windows -----------------------------------------------------------------------------------


def window_sum_ref(
    w: Array,
    size: Pair,
    pad: Pair = (0, 0),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
) -> Array:
    """Adds each window where it lies."""
    n, c, out_h, out_w, kh, kw = w.shape
    out = np.zeros((n, c, size[0] + 2 * pad[0], size[1] + 2 * pad[1]), w.dtype)
    for i, j in np.ndindex(out_h, out_w):
        h, v = i * stride[0], j * stride[1]
        out[
            :,
            :,
            h : h + (kh - 1) * dilation[0] + 1 : dilation[0],
            v : v + (kw - 1) * dilation[1] + 1 : dilation[1],
        ] += w[:, :, i, j]
    return out[:, :, pad[0] : pad[0] + size[0], pad[1] : pad[1] + size[1]]


def _window_records(
    name: str,
    x: tuple[int, int, int, int],
    kernel: Pair,
    pad: Pair = (0, 0),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
) -> list[Record]:
    out = [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, p, k, t, d in zip(x[2:], pad, kernel, stride, dilation, strict=True)
    ]
    ops = ("Images2Neibs", "SlidingWindowTranspose")
    size = x[2:]
    return [
        Record(
            f"sliding_window-{name}",
            fn=lambda a: F.sliding_window(a, kernel, pad, stride, dilation),
            ref=lambda a: _windows(a, kernel, stride, pad, dilation),
            inputs=_normal(x),
            ops=ops,
        ),
        Record(
            f"sliding_window_transpose-{name}",
            fn=lambda a: F.sliding_window_transpose(a, size, kernel, pad, stride, dilation),
            ref=lambda a: window_sum_ref(a, size, pad, stride, dilation),
            inputs=_normal((*x[:2], *out, *kernel)),
            ops=ops,
            tol=SUMS,
        ),
    ]


WINDOWS = [
    *_window_records("plain", (2, 3, 5, 6), (3, 2)),
    *_window_records("padded", (2, 2, 4, 5), (3, 3), (1, 2)),
    *_window_records("strided", (1, 2, 9, 8), (3, 2), (1, 0), (2, 3)),
    *_window_records("dilated", (2, 1, 8, 9), (2, 3), (1, 1), (1, 2), (3, 2)),
    *_window_records("apart", (2, 2, 8, 9), (2, 2), (0, 0), (4, 3)),
    *_window_records("far", (1, 1, 3, 3), (2, 2), (4, 3), (3, 2)),
    Record(
        "sliding_window_transpose-large",
        fn=lambda a: F.sliding_window_transpose(a, (20, 24), 3, 1),
        ref=lambda a: window_sum_ref(a, (20, 24), (1, 1)),
        inputs=_normal((2, 3, 20, 24, 3, 3)),
        large=_normal((4, 16, 20, 24, 3, 3)),
        ops=("SlidingWindowTranspose",),
        order=0,
        dtypes=("float32", "float16"),
        tol=SUMS,
    ),
    Record(
        "sliding_window-int",
        fn=lambda a: F.sliding_window(a, 2, 1),
        ref=lambda a: _windows(a, (2, 2), (1, 1), (1, 1), (1, 1)),
        inputs=lambda rng: [rng.integers(0, 100, (1, 2, 4, 4))],
        dtypes=(*INTS, *FLOATS),
        int_data=True,
        order=0,
        out_dtype={d: d for d in (*INTS, *FLOATS)},
    ),
    Record(
        "sliding_window_transpose-int",
        fn=lambda a: F.sliding_window_transpose(a, 4, 2),
        ref=lambda a: window_sum_ref(a, (4, 4)),
        inputs=lambda rng: [rng.integers(0, 100, (1, 2, 3, 3, 2, 2))],
        dtypes=INTS,
        int_data=True,
        order=0,
        out_dtype={d: d if d.endswith(("32", "64")) else "int32" for d in INTS},
    ),
]


# ---- padding and pixel shuffle -----------------------------------------------------------------

NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _pad(
    name: str, shape: tuple[int, ...], widths: tuple[Pair, ...], mode: str, **options: Any
) -> Record:
    full = [*widths, *[(0, 0)] * (len(shape) - len(widths))]
    extra = {"constant_values": 0.5} if mode == "constant" else {}
    return Record(
        f"pad-{mode}-{name}",
        fn=lambda a: F.nn.pad(a, widths, mode, 0.5),
        ref=lambda a: np.pad(a, full, NUMPY_MODES[mode], **extra),
        inputs=_normal(shape),
        ops=("Padding",) if mode == "constant" else ("Padding", "PaddingBackward"),
        **{"empty": mode == "constant", "tol": SUMS, **options},
    )


PADS = [
    *(_pad("1d", (5,), ((2, 3),), m) for m in NUMPY_MODES),
    *(_pad("image", (2, 3, 4, 5), ((0, 0), (0, 0), (1, 2), (3, 1)), m) for m in NUMPY_MODES),
    *(_pad("leading", (3, 4, 2), ((2, 1), (0, 3)), m) for m in NUMPY_MODES),
    *(
        _pad("5d", (2, 3, 2, 3, 4), ((1, 0), (0, 1), (1, 1), (0, 2), (3, 0)), m)
        for m in NUMPY_MODES
    ),
    *(
        _pad(
            "large",
            (2, 3, 5, 6),
            ((0, 0), (0, 0), (1, 1), (2, 2)),
            m,
            large=_normal((4, 16, 40, 40)),
            dtypes=("float32",),
            order=0,
        )
        for m in NUMPY_MODES
    ),
    Record(
        "pad-int",
        fn=lambda a: F.nn.pad(a, ((1, 2), (0, 1)), "constant", 7),
        ref=lambda a: np.pad(a, ((1, 2), (0, 1)), constant_values=7),
        inputs=lambda rng: [rng.integers(0, 100, (3, 4))],
        dtypes=(*INTS, *FLOATS),
        int_data=True,
        order=0,
        out_dtype={d: d for d in (*INTS, *FLOATS)},
    ),
    Record(
        "pad-8d",
        fn=lambda a: F.nn.pad(a, ((0, 0),) * 7 + ((1, 2),), "replicate"),
        ref=lambda a: np.pad(a, ((0, 0),) * 7 + ((1, 2),), "edge"),
        inputs=_normal((1, 2, 1, 1, 2, 1, 2, 3)),
        empty=False,
        tol=SUMS,
    ),
]


def pixel_shuffle_ref(x: Array, r: int) -> Array:
    """Pixel (h r + i, w r + j) of channel c comes from channel c r r + i r + j."""
    *lead, c, h, w = x.shape
    y = np.zeros((*lead, c // (r * r), h * r, w * r), x.dtype)
    for i, j in np.ndindex(r, r):
        y[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return y


def _shuffle(shape: tuple[int, ...], r: int, **options: Any) -> Record:
    return Record(
        f"pixel_shuffle-{len(shape)}d-{r}",
        fn=lambda a: F.pixel_shuffle(a, r),
        ref=lambda a: pixel_shuffle_ref(a, r),
        inputs=_normal(shape),
        ops=("PixelShuffle", "PixelShuffleBackward"),
        **options,
    )


SHUFFLES = [
    _shuffle((2, 8, 3, 4), 2, large=_normal((2, 64, 32, 32))),
    _shuffle((2, 9, 2, 3), 3),
    _shuffle((2, 3, 2, 3), 1),
    _shuffle((8, 2, 3), 2, channels_last=False),
    _shuffle((2, 2, 4, 2, 3), 2),
    _shuffle((1, 2, 1, 2, 1, 4, 2, 1), 2),
]


# ---- local response normalisation --------------------------------------------------------------


def lrn_ref(x: Array, n: int, k: float, alpha: float, beta: float) -> Array:
    """Krizhevsky et al., section 3.3, with n channels in all."""
    squares = np.pad(x * x, ((0, 0), (n // 2, n // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(n))
    return np.asarray(x / (k + alpha * sums) ** beta)


def _lrn(
    name: str, shape: tuple[int, ...], n: int, k: float, alpha: float, beta: float, **options: Any
) -> Record:
    return Record(
        f"local_response_norm-{name}",
        fn=lambda a: F.local_response_norm(a, n, k, alpha, beta),
        ref=lambda a: lrn_ref(a, n, k, alpha, beta),
        inputs=_normal(shape),
        ops=("LRN", "LRNBackward"),
        tol=SUMS,
        **options,
    )


NORMS = [
    _lrn("usual", (2, 7, 3, 4), 5, 2.0, 1e-1, 0.75),
    _lrn("whole-power", (2, 4, 2, 3), 3, 1.0, 0.5, 2.0),
    _lrn("odd-power", (2, 5, 3, 3), 3, 1.5, 0.25, 0.6),
    _lrn("one-channel", (2, 1, 3, 3), 3, 1.5, 0.25, 0.75),
    _lrn("wider-than-channels", (2, 3, 2, 2), 99, 1.5, 0.25, 0.75),
    _lrn("itself", (2, 3, 1, 1), 1, 1.5, 0.25, 0.75),
    _lrn(
        "large",
        (2, 33, 5, 7),
        5,
        2.0,
        1e-2,
        0.75,
        order=1,
        dtypes=("float32", "float64", "bfloat16"),
        large=_normal((2, 96, 27, 27)),
    ),
]


RECORDS = [
    *SPECIAL,
    *TRUE_CONVOLUTIONS,
    *CONV_BIAS,
    *LOCAL,
    *REGIONS,
    *WINDOWS,
    *PADS,
    *SHUFFLES,
    *NORMS,
]
