"""Matrix products: matmul, dot, linear.

The examples assume ``import megengine as mge`` and ``import megengine.functional as F``.
"""

from __future__ import annotations

from typing import Any

from .._core import call as _call
from ..core.ops import builtin
from ..tensor import Tensor

__all__ = ["dot", "linear", "matmul"]

# Made once: a call then costs what the binding costs.
_MATMUL = {
    (a, b): builtin.MatrixMul(transposeA=a, transposeB=b)
    for a in (False, True)
    for b in (False, True)
}
_DOT = builtin.Dot()
_LINEAR = builtin.Linear()

COMPUTE_MODES = ("default", "float32")


def check_compute_mode(op: str, compute_mode: str) -> None:
    """Raises ValueError for an unknown mode; both modes accumulate in float32 at least."""
    if compute_mode not in COMPUTE_MODES and str(compute_mode).lower() not in COMPUTE_MODES:
        raise ValueError(f"{op}: expected compute_mode of {COMPUTE_MODES}, got {compute_mode!r}")


def matmul(
    inp1: Tensor,
    inp2: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    compute_mode: str = "default",
) -> Tensor:
    """The matrix product of two tensors.

    As NumPy's ``matmul``: the last two axes are matrices and all others broadcast; a 1-d operand is
    a row on the left and a column on the right, and its axis does not appear in the result.

    Args:
        inp1: ``(..., m, k)`` or ``(k,)``.
        inp2: ``(..., k, n)`` or ``(k,)``. Mixed dtypes promote.
        transpose_a: swap the last two axes of ``inp1`` first.
        transpose_b: likewise of ``inp2``.
        compute_mode: "default" or "float32". float16 and bfloat16 accumulate in float32 either way.

    Returns:
        ``(..., m, n)`` of the operands' dtype; int32 for 8- and 16-bit integers. Wider ones wrap.

    Raises:
        ValueError: if the shapes do not fit, or a 1-d operand is to be transposed.

    Example:
        >>> a = mge.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> F.matmul(a, a)
        Tensor([[ 7. 10.]
         [15. 22.]], device=xpux:0)
        >>> F.matmul(a, mge.tensor([1.0, 1.0]), transpose_a=True)
        Tensor([4. 6.], device=xpux:0)
    """
    if compute_mode != "default":
        check_compute_mode("matmul", compute_mode)
    return _call(_MATMUL[bool(transpose_a), bool(transpose_b)], inp1, inp2)


def dot(inp1: Tensor, inp2: Tensor) -> Tensor:
    """The inner product of two vectors of one length.

    Args:
        inp1: ``(n,)``, or 0-d.
        inp2: the same. Mixed dtypes promote.

    Returns:
        A 0-d tensor of the operands' dtype; int32 for 8- and 16-bit integers.

    Raises:
        ValueError: for other shapes.

    Example:
        >>> F.dot(mge.tensor([1.0, 2.0]), mge.tensor([3.0, 4.0]))
        Tensor(11.0, device=xpux:0)
    """
    return _call(_DOT, inp1, inp2)


def linear(
    inp: Tensor, weight: Tensor, bias: Tensor | None = None, compute_mode: str = "default"
) -> Tensor:
    r"""A fully connected layer: :math:`y = x W^\top + b`.

    Args:
        inp: ``(..., in_features)``.
        weight: ``(out_features, in_features)``.
        bias: ``(out_features,)``, or what broadcasts to the result.
        compute_mode: "default" or "float32"; see :func:`matmul`.

    Returns:
        ``(..., out_features)``.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> x, w = mge.tensor([[1.0, 2.0]]), mge.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> F.linear(x, w, mge.tensor([0.5, 0.5]))
        Tensor([[1.5 3.5]], device=xpux:0)
    """
    if compute_mode != "default":
        check_compute_mode("linear", compute_mode)
    if _ndim(weight) != 2:
        y = _call(_MATMUL[False, True], inp, weight)
        return y if bias is None else y + bias
    if bias is None:
        return _call(_LINEAR, inp, weight)
    if _ndim(bias) != 1:
        return _call(_LINEAR, inp, weight) + bias
    return _call(_LINEAR, inp, weight, bias)


def _ndim(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else Tensor(x).ndim
