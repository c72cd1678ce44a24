"""Complex tensors: made of real ones, and taken apart again.

A complex64 tensor holds pairs of float32. It adds, subtracts, multiplies, divides and compares, has
``abs``, ``exp``, ``log``, sums, means and matrix products, and can be reshaped, indexed and joined;
all other functions raise TypeError and are for its parts. complex128, of float64 parts, comes of
float64 inputs and of ``dtype="complex128"``.

Gradients treat the two parts as independent real numbers: that of a tensor ``z`` is complex, and
holds the gradients of ``real(z)`` and ``imag(z)`` in its parts.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .._core import call as _call
from .._core import result_type
from ..core.ops import builtin
from ..core.tensor.utils import convert_single_value, get_device
from ..tensor import Tensor
from .elemwise import cos, mul, sin

__all__ = ["complex", "imag", "polar", "real"]

TensorLike: TypeAlias = "Tensor | npt.ArrayLike"

_COMPLEX = builtin.Complex()
_REAL = builtin.RealPart()
_IMAG = builtin.ImagPart()


def _as_parts(op: str, *inputs: TensorLike) -> list[Tensor]:
    dtype = result_type(*inputs)
    if np.dtype(dtype).kind == "c":
        raise TypeError(f"{op}: expected real tensors, got {dtype}")
    part = "float64" if dtype == np.float64 else "float32"
    device = get_device(inputs)
    return [convert_single_value(x, part, device) for x in inputs]


def complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """The complex numbers ``real + 1j * imag``.

    Args:
        real: the real parts.
        imag: the imaginary parts; broadcasts with ``real``.

    Returns:
        A complex64 tensor, or a complex128 one where an input is float64. Other dtypes become
        float32 first.

    Raises:
        TypeError: for a complex input.

    >>> z = F.complex(mge.tensor([1.0, 2.0]), mge.tensor([3.0, -4.0]))
    >>> z
    Tensor([1.+3.j 2.-4.j], dtype=complex64, device=xpux:0)
    >>> z * z
    Tensor([ -8. +6.j -12.-16.j], dtype=complex64, device=xpux:0)
    """
    return _call(_COMPLEX, *_as_parts("complex", real, imag))


def polar(abs: TensorLike, angle: TensorLike) -> Tensor:
    """The complex numbers of given absolute values and angles: ``abs * exp(1j * angle)``.

    Args:
        abs: the absolute values.
        angle: the angles in radians; broadcasts with ``abs``.

    Returns:
        A complex64 tensor, or a complex128 one where an input is float64.

    Raises:
        TypeError: for a complex input.

    >>> F.polar(mge.tensor([2.0]), mge.tensor([0.0]))
    Tensor([2.+0.j], dtype=complex64, device=xpux:0)
    """
    size, turn = _as_parts("polar", abs, angle)
    return _call(_COMPLEX, mul(size, cos(turn)), mul(size, sin(turn)))


def real(complex: Tensor) -> Tensor:
    """The real parts, float32 of complex64; a real tensor is its own real part.

    >>> F.real(mge.tensor([1 + 2j]))
    Tensor([1.], device=xpux:0)
    """
    return _call(_REAL, _expect("real", complex))


def imag(complex: Tensor) -> Tensor:
    """The imaginary parts, float32 of complex64; those of a real tensor are zeros.

    >>> F.imag(mge.tensor([1 + 2j]))
    Tensor([2.], device=xpux:0)
    """
    return _call(_IMAG, _expect("imag", complex))


def _expect(op: str, value: TensorLike) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected a Tensor, got {type(value).__name__}")
    return value
