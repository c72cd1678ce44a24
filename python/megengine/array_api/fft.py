"""The extension fft of the standard: discrete Fourier transforms, computed by NumPy.

NumPy reads the memory of the Tensor and its result becomes one without a copy. float32 and
complex64 are computed and kept in single precision. Gradients of any order are recorded: those of a
transform are transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .. import functional as F
from ..autodiff import Function
from ..tensor import Tensor
from . import _support, manipulation
from .data_types import astype
from .elementwise import conj

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm = Literal["backward", "ortho", "forward"]

# Which transforms 1 / n belongs to: the other way around for the adjoint of a transform, which goes
# the other way.
_ADJOINT: dict[Any, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _checked(op: str, x: Tensor, n: int | None, axis: int, norm: Any, kinds: str) -> int:
    """The axis as a number from 0; raises for what no transform takes."""
    _support.expect(op, x, kinds=kinds)
    if norm not in _ADJOINT:
        raise ValueError(f"{op}: expected norm 'backward', 'ortho' or 'forward', got {norm!r}")
    if n is not None and n < 1:
        raise ValueError(f"{op}: expected n >= 1, got {n}")
    (at,) = _support.axes_of(op, axis, x.ndim)
    if n is None and x.shape[at] < 1:
        raise ValueError(f"{op}: axis {axis} has no elements, shape {x.shape}; pass n")
    return at


def _fitted(x: Tensor, n: int, axis: int) -> Tensor:
    """The first ``n`` elements along an axis, with zeros where there are fewer."""
    have = x.shape[axis]
    if have > n:
        return x[(slice(None),) * axis + (slice(n),)]
    if have == n:
        return x
    shape = (*x.shape[:axis], n - have, *x.shape[axis + 1 :])
    zeros = _support.from_array(np.zeros(shape, x.dtype), x.device)
    return F.concat([x, zeros], axis=axis)


def _run(numpy: Callable[..., Any], x: Tensor, n: int, axis: int, norm: Norm, dtype: Any) -> Tensor:
    array = numpy(x.numpy(), n, axis, norm)
    # NumPy 1 computes in double precision whatever it is given.
    return _support.from_array(array.astype(dtype, copy=False), x.device)


class _Complex(Function):
    """A transform of complex numbers, or its inverse."""

    def __init__(self, n: int, axis: int, norm: Norm, inverse: bool) -> None:
        self.n, self.axis, self.norm, self.inverse = n, axis, norm, inverse

    def forward(self, x: Tensor) -> Tensor:
        self.length = x.shape[self.axis]
        numpy = np.fft.ifft if self.inverse else np.fft.fft
        return _run(numpy, x, self.n, self.axis, self.norm, x.dtype)

    def backward(self, dy: Tensor) -> Tensor:
        adjoint = _Complex(self.n, self.axis, _ADJOINT[self.norm], not self.inverse)
        return _fitted(adjoint(dy), self.length, self.axis)


def _weighted(x: Tensor, n: int, axis: int, inner: float) -> Tensor:
    """The frequencies of a real signal of length n; all but 0 and n / 2, which stand for two."""
    weights = np.full(n // 2 + 1, inner, x.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = [1] * x.ndim
    shape[axis] = -1
    return F.mul(x, _support.from_array(weights.reshape(shape), x.device))


class _FromReal(Function):
    """The frequencies 0 ... n / 2 of real numbers."""

    def __init__(self, n: int, axis: int, norm: Norm) -> None:
        self.n, self.axis, self.norm = n, axis, norm

    def forward(self, x: Tensor) -> Tensor:
        self.length = x.shape[self.axis]
        dtype = np.result_type(x.dtype, np.complex64)
        return _run(np.fft.rfft, x, self.n, self.axis, self.norm, dtype)

    def backward(self, dy: Tensor) -> Tensor:
        adjoint = _ToReal(self.n, self.axis, _ADJOINT[self.norm])
        dx = adjoint(_weighted(dy, self.n, self.axis, 0.5))
        return _fitted(dx, self.length, self.axis)


class _ToReal(Function):
    """Real numbers of the frequencies 0 ... n / 2."""

    def __init__(self, n: int, axis: int, norm: Norm) -> None:
        self.n, self.axis, self.norm = n, axis, norm

    def forward(self, x: Tensor) -> Tensor:
        self.length = x.shape[self.axis]
        dtype = np.float64 if x.dtype == np.complex128 else np.float32
        return _run(np.fft.irfft, x, self.n, self.axis, self.norm, dtype)

    def backward(self, dy: Tensor) -> Tensor:
        adjoint = _FromReal(self.n, self.axis, _ADJOINT[self.norm])
        dx = _weighted(adjoint(dy), self.n, self.axis, 2.0)
        return _fitted(dx, self.length, self.axis)


def _as_complex(x: Tensor) -> Tensor:
    if _support.kind(x.dtype) == "c":
        return x
    return astype(x, np.result_type(x.dtype, np.complex64))


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform of floats or complex numbers along an axis.

    Args:
        x: floats or complex numbers.
        n: how many elements: the first ones, or zeros behind those that there are.
        axis: the axis.
        norm: which transform is divided by its length: "backward" the inverse, "forward" this one,
            "ortho" both, by the root of it.

    Raises:
        ValueError: for ``n`` below 1, an axis without elements, and another ``norm``.

    >>> import megengine.array_api as xp
    >>> xp.fft.fft(xp.asarray([1.0, 0.0, 1.0, 0.0]))
    Tensor([2.+0.j 0.+0.j 2.+0.j 0.+0.j], dtype=complex64, device=xpux:0)
    """
    at = _checked("fft", x, n, axis, norm, "fc")
    return _Complex(n or x.shape[at], at, norm, inverse=False)(_as_complex(x))


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`fft`."""
    at = _checked("ifft", x, n, axis, norm, "fc")
    return _Complex(n or x.shape[at], at, norm, inverse=True)(_as_complex(x))


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The first n // 2 + 1 elements of :func:`fft` of floats; they say the others."""
    at = _checked("rfft", x, n, axis, norm, "f")
    return _FromReal(n or x.shape[at], at, norm)(x)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`rfft`: ``n`` floats, 2 (m - 1) of m elements without it."""
    at = _checked("irfft", x, n, axis, norm, "fc")
    length = n or 2 * (x.shape[at] - 1)
    if length < 1:
        raise ValueError(f"irfft: expected at least 2 elements or n, got shape {x.shape}")
    return _ToReal(length, at, norm)(_as_complex(x))


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The :func:`fft`, which is real, of a signal with Hermitian symmetry, of which ``x`` is half.

    ``n`` is the length of the result, 2 (m - 1) of m elements without it.
    """
    _checked("hfft", x, n, axis, norm, "fc")
    return irfft(conj(x), n=n, axis=axis, norm=_ADJOINT[norm])


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`hfft`: n // 2 + 1 elements of ``n`` floats."""
    _checked("ihfft", x, n, axis, norm, "f")
    return conj(rfft(x, n=n, axis=axis, norm=_ADJOINT[norm]))


def _lengths(
    op: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> list[tuple[int | None, int]]:
    """The length (None for all elements) and number of each axis, in order."""
    if axes is None:
        if s is not None and len(s) > x.ndim:
            raise ValueError(f"{op}: got {len(s)} lengths for {x.ndim} dimensions")
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    at = _support.axes_of(op, tuple(axes), x.ndim)
    if s is None:
        return [(None, a) for a in at]
    if len(s) != len(at):
        raise ValueError(f"{op}: got {len(s)} lengths for {len(at)} axes")
    # -1 takes an axis as it is.
    return [(None if n == -1 else n, a) for n, a in zip(s, at, strict=True)]


def _each(
    op: str,
    transform: Callable[..., Tensor],
    x: Tensor,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: Norm,
) -> Tensor:
    _support.expect(op, x, kinds="fc")
    x = _as_complex(x)
    for n, a in reversed(_lengths(op, x, s, axes)):
        x = transform(x, n=n, axis=a, norm=norm)
    return x


def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """:func:`fft` along several axes, all of them without ``axes``; ``s`` are their lengths.

    Raises:
        ValueError: for as many lengths as there are no axes, and as :func:`fft`.
    """
    return _each("fftn", fft, x, s, axes, norm)


def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of :func:`fftn`."""
    return _each("ifftn", ifft, x, s, axes, norm)


def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """:func:`rfft` along the last of some axes, :func:`fft` along the others."""
    _support.expect("rfftn", x, kinds="f")
    *others, last = _lengths("rfftn", x, s, axes) or [(None, -1)]
    x = rfft(x, n=last[0], axis=last[1], norm=norm)
    for n, a in reversed(others):
        x = fft(x, n=n, axis=a, norm=norm)
    return x


def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of :func:`rfftn`; the last of the lengths ``s`` is that of the result."""
    _support.expect("irfftn", x, kinds="fc")
    *others, last = _lengths("irfftn", x, s, axes) or [(None, -1)]
    for n, a in others:
        x = ifft(x, n=n, axis=a, norm=norm)
    return irfft(x, n=last[0], axis=last[1], norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of :func:`fft`, for samples that are ``d`` apart.

    >>> import megengine.array_api as xp
    >>> xp.fft.fftfreq(4)
    Tensor([ 0.    0.25 -0.5  -0.25], device=xpux:0)
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of :func:`rfft`."""
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(
    op: str, numpy: Callable[..., Any], n: int, d: float, dtype: Any, device: Any
) -> Tensor:
    dtype = np.float32 if dtype is None else dtype
    if n < 1 or d == 0:
        raise ValueError(f"{op}: expected n >= 1 and a distance d other than 0, got {n} and {d}")
    if _support.kind(dtype) != "f":
        raise TypeError(f"{op}: expected a float dtype, got {dtype}")
    return _support.from_array(numpy(n, d).astype(dtype), device)


def _shifted(op: str, x: Tensor, axes: int | Sequence[int] | None, up: bool) -> Tensor:
    _support.expect(op, x, kinds="biufc")
    at = _support.axes_of(op, tuple(axes) if isinstance(axes, Sequence) else axes, x.ndim)
    if not at:
        return x
    shift = tuple(x.shape[a] // 2 if up else -(x.shape[a] // 2) for a in at)
    return manipulation.roll(x, shift, axis=at)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequencies in ascending order: the one of 0 moves to the middle of each axis."""
    return _shifted("fftshift", x, axes, up=True)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of :func:`fftshift`."""
    return _shifted("ifftshift", x, axes, up=False)
