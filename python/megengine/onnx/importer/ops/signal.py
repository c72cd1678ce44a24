"""Fourier transforms."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .... import functional as F
from ....tensor import Tensor
from ..registry import op
from ..values import Array, Constant, dtype_from_onnx, dtype_of
from .tensor import padded

# The transform is a product with the matrix of its roots of unity, which is differentiated like
# any other. It is quick for the lengths of frames of sound; that of a longer signal does not fit.
_MAX_LENGTH = 8192


@lru_cache(maxsize=32)
def _waves(rows: int, columns: int, length: int, dtype: str) -> tuple[Constant, Constant]:
    """Cos and sin of 2 pi row column / length."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    angle = turns * (2 * np.pi / length)
    return Constant(np.cos(angle).astype(dtype)), Constant(np.sin(angle).astype(dtype))


def _fit(x: Tensor, axis: int, length: int) -> Tensor:
    """The first elements along an axis, with zeros behind them where there are too few."""
    size = x._tuple_shape[axis]
    if size > length:
        return x[(slice(None),) * axis + (slice(0, length),)]
    grow = [0] * (2 * x.ndim)
    grow[x.ndim + axis] = length - size
    return padded(x, grow, "constant", 0.0)


def _transform(x: Tensor, axis: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of (..., 1 or 2), of real and imaginary parts."""
    if length > _MAX_LENGTH:
        raise NotImplementedError(f"DFT: expected a length up to {_MAX_LENGTH}, got {length}")
    is_real = x._tuple_shape[-1] == 1
    order = [d for d in range(x.ndim - 1) if d != axis] + [axis]
    real = F.transpose(x[..., 0], order)
    imaginary = None if is_real else F.transpose(x[..., 1], order)
    dtype = dtype_of(x).name
    back = [order.index(d) for d in range(x.ndim - 1)]
    if inverse and onesided:
        return _to_real(real, imaginary, length, dtype, back)
    rows = real._tuple_shape[-1]
    columns = length // 2 + 1 if onesided else length
    cos, sin = (c.tensor for c in _waves(rows, columns, length, dtype))
    sign = 1.0 if inverse else -1.0
    out_real, out_imaginary = F.matmul(real, cos), F.matmul(real, sin) * sign
    if imaginary is not None:
        out_real = out_real - F.matmul(imaginary, sin) * sign
        out_imaginary = out_imaginary + F.matmul(imaginary, cos)
    if inverse:
        out_real, out_imaginary = out_real / length, out_imaginary / length
    return F.stack([F.transpose(out_real, back), F.transpose(out_imaginary, back)], -1)


def _to_real(
    real: Tensor, imaginary: Tensor | None, length: int, dtype: str, back: list[int]
) -> Tensor:
    """The real signal that has this half of a spectrum."""
    half = length // 2 + 1
    last = real.ndim - 1
    cos, sin = (c.tensor for c in _waves(half, length, length, dtype))
    # All but the first, and the middle of an even length, stand for their mirror image too.
    times = np.full((half, 1), 2.0, dtype)
    times[0] = 1.0
    if length % 2 == 0:
        times[-1] = 1.0
    factor = Constant(times / length).tensor.astype(dtype)
    out = F.matmul(_fit(real, last, half), cos * factor)
    if imaginary is not None:
        out = out - F.matmul(_fit(imaginary, last, half), sin * factor)
    return F.expand_dims(F.transpose(out, back), out.ndim)


@op("DFT", since=17)
def dft_by_attribute(
    x: Tensor,
    dft_length: Array | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    return _dft(x, dft_length, axis, bool(inverse), bool(onesided))


@op("DFT", since=20)
def dft(
    x: Tensor,
    dft_length: Array | None = None,
    axis: Array | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    where = -2 if axis is None else int(axis.item())
    return _dft(x, dft_length, where, bool(inverse), bool(onesided))


def _dft(x: Tensor, dft_length: Array | None, axis: int, inverse: bool, onesided: bool) -> Tensor:
    i = axis % x.ndim
    size = x._tuple_shape[i]
    if inverse and onesided:
        length = 2 * (size - 1) if dft_length is None else int(dft_length.item())
        return _transform(x, i, length, inverse, onesided)
    length = size if dft_length is None else int(dft_length.item())
    return _transform(_fit(x, i, length), i, length, inverse, onesided)


@op("STFT", since=17)
def stft(
    signal: Tensor,
    frame_step: Array,
    window: Tensor | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    if signal.ndim == 2:
        signal = F.expand_dims(signal, 2)
    size = signal._tuple_shape[1]
    length = size if window is None else window.size
    if frame_length is not None:
        length = int(frame_length.item())
    step = int(frame_step.item())
    n_frames = (size - length) // step + 1
    places = np.arange(n_frames)[:, None] * step + np.arange(length)
    frames = signal[:, places]  # (batch, frames, length, parts)
    if window is not None:
        frames = frames * F.reshape(window, (length, 1))
    return _transform(frames, 2, length, False, bool(onesided))


@op("MelWeightMatrix", since=17)
def mel_weight_matrix(
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: int = 1,
) -> Array:
    bins, length = int(num_mel_bins.item()), int(dft_length.item())
    rate = float(sample_rate.item())
    edges = [float(e.item()) for e in (lower_edge_hertz, upper_edge_hertz)]
    low, high = (2595 * np.log10(1 + e / 700) for e in edges)
    mel = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    hertz = 700 * (10 ** (mel / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(np.int64)
    rows = np.arange(length // 2 + 1)[:, None]
    start, peak, end = places[:-2], places[1:-1], places[2:]
    rising = (rows - start) / np.maximum(peak - start, 1)
    falling = (end - rows) / np.maximum(end - peak, 1)
    weight = np.where((rows >= start) & (rows < peak), rising, 0.0)
    weight = np.where((rows >= peak) & (rows < end), falling, weight)
    weight = np.where(rows == peak, 1.0, weight)
    return weight.astype(dtype_from_onnx(output_datatype))
