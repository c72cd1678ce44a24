"""Convolutions, pooling, softmax, dropout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import Context, op
from ..values import Array, dtype_of, is_float, to_array, to_tensor
from .math import like
from .tensor import padded

_Ints = tuple[int, ...]

# These take windows of two sizes, which the type checker cannot see here.
_max_pool2d: Callable[..., Tensor] = F.max_pool2d
_avg_pool2d: Callable[..., Tensor] = F.avg_pool2d

# ---- windows ------------------------------------------------------------------------------------


def window_pads(
    auto_pad: str,
    pads: _Ints | None,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """How much is put before and after each spatial axis."""
    n = len(sizes)
    if auto_pad in ("NOTSET", ""):
        widths = (0,) * (2 * n) if pads is None else pads
        if len(widths) != 2 * n:
            raise ValueError(f"expected {2 * n} pads, got {len(widths)}")
        return list(zip(widths[:n], widths[n:], strict=True))
    if auto_pad == "VALID":
        return [(0, 0)] * n
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"expected auto_pad NOTSET, VALID or SAME_..., got {auto_pad!r}")
    found = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return found


def or_ones(values: _Ints | None, n: int) -> _Ints:
    """Values for n axes, 1 for each without them."""
    if values is None:
        return (1,) * n
    if len(values) != n:
        raise ValueError(f"expected {n} values for {n} spatial axes, got {values}")
    return values


def _symmetric(x: Tensor, widths: list[tuple[int, int]], value: float) -> tuple[Tensor, _Ints]:
    """Pads what is not the same on both sides, and gives the widths of what is."""
    if all(a == b and a >= 0 for a, b in widths):
        return x, tuple(a for a, _ in widths)
    before = [0, 0, *(a for a, _ in widths)]
    after = [0, 0, *(b for _, b in widths)]
    return padded(x, [*before, *after], "constant", value), (0,) * len(widths)


# ---- convolutions -------------------------------------------------------------------------------

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolve(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    strides: _Ints,
    widths: list[tuple[int, int]],
    dilations: _Ints,
    group: int,
) -> Tensor:
    """A convolution over 1, 2 or 3 spatial axes, with widths of zeros on each side."""
    n = x.ndim - 2
    if n not in _CONVOLUTIONS:
        raise NotImplementedError(f"Conv: expected 1 to 3 spatial axes, got {n}")
    x, padding = _symmetric(x, widths, 0.0)
    if group > 1:
        channels, *rest = w._tuple_shape
        if channels % group:
            raise ValueError(f"Conv: {group} groups do not divide {channels} channels")
        w = F.reshape(w, (group, channels // group, *rest))
    if b is not None:
        b = F.reshape(b, (1, b.size) + (1,) * n)
    if n == 1:
        return F.conv1d(x, w, b, strides[0], padding[0], dilations[0], group)
    return _CONVOLUTIONS[n](x, w, b, strides, padding, dilations, group)


@op("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    n = x.ndim - 2
    strides, dilations = or_ones(strides, n), or_ones(dilations, n)
    kernel = w._tuple_shape[2:]
    widths = window_pads(auto_pad, pads, x._tuple_shape[2:], kernel, strides, dilations)
    return convolve(x, w, b, strides, widths, dilations, group)


@op("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    n = x.ndim - 2
    if n not in (1, 2, 3):
        raise NotImplementedError(f"ConvTranspose: expected 1 to 3 spatial axes, got {n}")
    strides, dilations = or_ones(strides, n), or_ones(dilations, n)
    extra = (0,) * n if output_padding is None else output_padding
    sizes, kernel = x._tuple_shape[2:], w._tuple_shape[2:]
    # What comes out without padding; then some is cut off each side, or put behind.
    whole = [
        (s - 1) * st + (k - 1) * d + 1
        for s, st, k, d in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    if output_shape is not None:
        wanted = output_shape[-n:]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(s * st for s, st in zip(sizes, strides, strict=True))
    else:
        wanted = None
    if wanted is None:
        widths = window_pads(auto_pad, pads, sizes, kernel, strides, dilations)
        ends = [size + e - b for size, e, (_, b) in zip(whole, extra, widths, strict=True)]
        starts = [a for a, _ in widths]
    else:
        starts, ends = [], []
        for size, e, target in zip(whole, extra, wanted, strict=True):
            total = max(size + e - target, 0)
            start = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            starts.append(start)
            ends.append(start + target)
    out = _transposed(x, w, strides, dilations, group, n)
    shift = [0, 0, *(-s for s in starts)]
    grow = [0, 0, *(end - size for end, size in zip(ends, whole, strict=True))]
    out = padded(out, [*shift, *grow], "constant", 0.0)
    return out if b is None else out + F.reshape(b, (1, b.size) + (1,) * n)


def _transposed(
    x: Tensor, w: Tensor, strides: _Ints, dilations: _Ints, group: int, n: int
) -> Tensor:
    if n == 1:
        x, w = F.expand_dims(x, 2), F.expand_dims(w, 2)
        strides, dilations = (1, *strides), (1, *dilations)
    if group > 1:
        channels, *rest = w._tuple_shape
        w = F.reshape(w, (group, channels // group, *rest))
    transposed = F.conv_transpose3d if n == 3 else F.conv_transpose2d
    out = transposed(x, w, None, strides, 0, 0, dilations, group)
    return F.squeeze(out, 2) if n == 1 else out


@op("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    if x.ndim != 4:
        raise NotImplementedError(f"DeformConv: expected 2 spatial axes, got {x.ndim - 2}")
    strides, dilations = or_ones(strides, 2), or_ones(dilations, 2)
    widths = window_pads("NOTSET", pads, x._tuple_shape[2:], w._tuple_shape[2:], strides, dilations)
    x, padding = _symmetric(x, widths, 0.0)
    n, two_taps, height, width = offset._tuple_shape
    if mask is None:
        mask = F.ones((n, two_taps // 2, height, width), dtype=x.dtype)
    if group > 1:
        out, *rest = w._tuple_shape
        w = F.reshape(w, (group, out // group, *rest))
    found = F.nn.deformable_conv2d(x, w, offset, mask, None, strides, padding, dilations, group)
    return found if b is None else found + F.reshape(b, (1, b.size, 1, 1))


# ---- pooling ------------------------------------------------------------------------------------


def _pool_geometry(
    x: Tensor,
    kernel: _Ints,
    auto_pad: str,
    ceil_mode: int,
    dilations: _Ints | None,
    pads: _Ints | None,
    strides: _Ints | None,
) -> tuple[_Ints, _Ints, list[tuple[int, int]], list[int]]:
    """Strides, dilations, widths and sizes of the output; widths reach to the last window."""
    sizes = x._tuple_shape[2:]
    n = len(sizes)
    if len(kernel) != n:
        raise ValueError(f"expected a kernel_shape of {n} values, got {kernel}")
    strides, dilations = or_ones(strides, n), or_ones(dilations, n)
    widths = window_pads(auto_pad, pads, sizes, kernel, strides, dilations)
    out, full = [], []
    for size, k, s, d, (a, b) in zip(sizes, kernel, strides, dilations, widths, strict=True):
        span = size + a + b - (k - 1) * d - 1
        count = (-(-span // s) if ceil_mode else span // s) + 1
        if ceil_mode and (count - 1) * s >= size + a:
            count -= 1  # a window that starts behind the last element
        out.append(count)
        full.append((a, max(b, (count - 1) * s + (k - 1) * d + 1 - size - a)))
    return strides, dilations, full, out


def _taps(x: Any, kernel: _Ints, strides: _Ints, dilations: _Ints, out: Sequence[int]) -> list[Any]:
    """For each place in the window, the elements at that place of all windows."""
    found = []
    for place in itertools.product(*(range(k) for k in kernel)):
        index = [slice(None), slice(None)]
        for p, s, d, o in zip(place, strides, dilations, out, strict=True):
            index.append(slice(p * d, p * d + (o - 1) * s + 1, s))
        found.append(x[tuple(index)])
    return found


def _spread(pads: list[tuple[int, int]]) -> list[int]:
    return [0, 0, *(a for a, _ in pads), 0, 0, *(b for _, b in pads)]


@op("MaxPool")
def max_pool(
    ctx: Context,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Any:
    steps, gaps, widths, out = _pool_geometry(
        x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides
    )
    fast = is_float(dtype_of(x)) and len(out) <= 2 and all(d == 1 for d in gaps)
    lowest = -np.inf if is_float(dtype_of(x)) else np.iinfo(dtype_of(x)).min
    if ctx.n_outputs == 1 and fast:
        x, padding = _symmetric(x, widths, lowest)
        if all(p < k for p, k in zip(padding, kernel_shape, strict=True)):
            if len(out) == 1:
                wide = F.expand_dims(x, 2)
                found = _max_pool2d(wide, (1, *kernel_shape), (1, *steps), (0, *padding))
                return F.squeeze(found, 2)
            return _max_pool2d(x, kernel_shape, steps, padding)
        widths = [(p, p) for p in padding]
    places = _flat_places(x._tuple_shape[2:], storage_order)
    x = padded(x, _spread(widths), "constant", lowest)
    windows = F.stack(_taps(x, kernel_shape, steps, gaps, out), -1)
    if ctx.n_outputs == 1:
        return like(F.max(windows, -1), x)
    pick = F.argmax(windows, -1)
    around = np.pad(places, widths, constant_values=-1)[None, None]
    source = np.stack(_taps(around, kernel_shape, steps, gaps, out), -1)
    n, channels = x._tuple_shape[:2]
    picked = np.take_along_axis(
        np.broadcast_to(source, (n, channels, *source.shape[2:])), to_array(pick)[..., None], -1
    )[..., 0]
    planes = np.arange(n * channels).reshape((n, channels) + (1,) * len(out)) * places.size
    return like(F.max(windows, -1), x), (picked + planes).astype(np.int64)


def _flat_places(sizes: Sequence[int], storage_order: int) -> Array:
    places = np.arange(math.prod(sizes)).reshape(tuple(sizes))
    if storage_order:
        places = places.reshape(-1).reshape(tuple(reversed(sizes))).T
    return places


@op("MaxUnpool")
def max_unpool(
    x: Tensor,
    indices: Array,
    output_shape: Array | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    n = x.ndim - 2
    strides = or_ones(strides, n)
    widths = window_pads("NOTSET", pads, x._tuple_shape[2:], kernel_shape, strides, (1,) * n)
    sizes = [
        (size - 1) * s + k - a - b
        for size, s, k, (a, b) in zip(
            x._tuple_shape[2:], strides, kernel_shape, widths, strict=True
        )
    ]
    natural = (*x._tuple_shape[:2], *sizes)
    shape = natural if output_shape is None else tuple(int(v) for v in output_shape)
    places = indices.reshape(-1)
    if output_shape is not None and shape != natural:
        # Indices count in the shape that the pooling came from.
        places = np.ravel_multi_index(np.unravel_index(places, natural), shape)
    flat = F.zeros((math.prod(shape),), dtype=x.dtype)
    flat[to_tensor(places)] = F.reshape(x, (x.size,))
    return F.reshape(flat, shape)


@op("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    steps, gaps, widths, out = _pool_geometry(
        x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides
    )
    if not any(map(any, widths)) and len(out) == 2 and all(d == 1 for d in gaps):
        return _avg_pool2d(x, kernel_shape, steps)
    sizes = x._tuple_shape[2:]
    total = _window_sums(
        padded(x, _spread(widths), "constant", 0.0), kernel_shape, steps, gaps, out
    )
    # How many elements each window has, of those that count.
    asked = window_pads(auto_pad, pads, sizes, kernel_shape, steps, gaps)
    counted = np.ones(sizes, np.float32)
    if count_include_pad:
        counted = np.pad(counted, asked, constant_values=1)
        rest = [(w[0] - a[0], w[1] - a[1]) for w, a in zip(widths, asked, strict=True)]
        counted = np.pad(counted, rest)
    else:
        counted = np.pad(counted, widths)
    counts = sum(_taps(counted[None, None], kernel_shape, steps, gaps, out))
    return like(total / to_tensor(np.maximum(np.asarray(counts, np.float32), 1)), x)


def _window_sums(
    x: Tensor, kernel: _Ints, strides: _Ints, dilations: _Ints, out: Sequence[int]
) -> Tensor:
    if len(out) == 2 and all(d == 1 for d in dilations):
        return _avg_pool2d(x, kernel, strides) * float(math.prod(kernel))
    taps = _taps(x, kernel, strides, dilations, out)
    total = taps[0]
    for tap in taps[1:]:
        total = total + tap
    return total


@op("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    p: int | float = 2,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    steps, gaps, widths, out = _pool_geometry(
        x, kernel_shape, auto_pad, ceil_mode, dilations, pads, strides
    )
    powers = F.abs(x) ** float(p)
    sums = _window_sums(
        padded(powers, _spread(widths), "constant", 0.0), kernel_shape, steps, gaps, out
    )
    return sums ** (1.0 / p)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return like(F.mean(x, _spatial(x), True), x)


@op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return F.max(x, _spatial(x), True)


@op("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int | float = 2) -> Tensor:
    return F.sum(F.abs(x) ** float(p), _spatial(x), True) ** (1.0 / p)


# ---- softmax and its kin ------------------------------------------------------------------------


def _hardmax(x: Tensor, axis: int) -> Tensor:
    best = F.argmax(x, axis)
    last = F.nn.one_hot(best, x._tuple_shape[axis]).astype(x.dtype)
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return F.transpose(last, order)


def _along_axis(name: str, function: Callable[[Tensor, int], Tensor]) -> None:
    @op(name)
    def run_flattened(x: Tensor, *, axis: int = 1) -> Tensor:
        # Before version 13 the axes from this one on count as one.
        sizes = x._tuple_shape
        i = axis % max(x.ndim, 1)
        if i == x.ndim - 1:
            return function(x, i)
        flat = F.reshape(x, (math.prod(sizes[:i]), math.prod(sizes[i:])))
        return F.reshape(function(flat, 1), sizes)

    @op(name, since=13)
    def run(x: Tensor, *, axis: int = -1) -> Tensor:
        return function(x, axis % max(x.ndim, 1))


_along_axis("Softmax", F.softmax)
_along_axis("LogSoftmax", F.logsoftmax)
_along_axis("Hardmax", _hardmax)


# ---- dropout ------------------------------------------------------------------------------------


def _dropout(ctx: Context, x: Tensor, ratio: float, training: bool, mask_dtype: Any) -> Any:
    if not training or ratio == 0.0:
        return (x, F.ones(x._tuple_shape, dtype=mask_dtype)) if ctx.n_outputs > 1 else x
    kept = F.nn.dropout(F.ones(x._tuple_shape, dtype=x.dtype), ratio)
    return x * kept, F.not_equal(kept, 0).astype(mask_dtype)


@op("Dropout")
def dropout_with_test_flag(
    ctx: Context,
    x: Tensor,
    *,
    is_test: int = 0,
    ratio: float = 0.5,
    consumed_inputs: tuple[int, ...] = (),
) -> Any:
    return _dropout(ctx, x, ratio, ctx.training, x.dtype)


@op("Dropout", since=7)
def dropout_by_attribute(ctx: Context, x: Tensor, *, ratio: float = 0.5) -> Any:
    return _dropout(ctx, x, ratio, ctx.training, "bool")


@op("Dropout", since=12)
def dropout(
    ctx: Context,
    x: Tensor,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> Any:
    training = ctx.training or (training_mode is not None and bool(training_mode.item()))
    return _dropout(ctx, x, 0.5 if ratio is None else float(ratio.item()), training, "bool")
