"""Products of matrices and vectors."""

from __future__ import annotations

import numpy as np

from ..builder import Arg, Builder, Call, is_float
from ..registry import RefusedError, exports


@exports("MatrixMul", "BatchedMatrixMul")
def matrix_mul(g: Builder, call: Call) -> str:
    """MatMul, with operands transposed before."""
    a, b = call.inputs
    if (
        a.ndim == 2
        and b.ndim == 2
        and is_float(call.dtype)
        and (call["transposeA"] or call["transposeB"])
    ):
        return g.emit("Gemm", a, b, transA=int(call["transposeA"]), transB=int(call["transposeB"]))
    left = _transposed(g, a, call["transposeA"])
    right = _transposed(g, b, call["transposeB"])
    if b.ndim == 1 and left != a.name:
        # As a matrix of one column: onnxruntime 1.32 mistakes a vector after a transposed matrix.
        right = g.unsqueeze(right, [1])
        return g.squeeze(product(g, left, right, a.dtype, b.dtype, call.dtype), [-1])
    return product(g, left, right, a.dtype, b.dtype, call.dtype)


def _transposed(g: Builder, x: Arg, wanted: bool) -> str:
    if not wanted or x.ndim < 2:
        return x.name
    axes = list(range(x.ndim))
    return transposed_once(g, x, [*axes[:-2], axes[-1], axes[-2]])


def transposed_once(g: Builder, x: Arg, perm: list[int]) -> str:
    """The operand transposed; a constant that several calls read, once."""
    if x.constant is None:
        return g.transpose(x, perm)
    return g.once(("transpose", x.name, tuple(perm)), lambda: g.transpose(x, perm))


def product(
    g: Builder,
    left: str,
    right: str,
    left_dtype: np.dtype,
    right_dtype: np.dtype,
    dtype: np.dtype,
) -> str:
    """MatMul of operands in the dtype of the result."""
    a = g.cast(left, dtype, given=left_dtype)
    b = g.cast(right, dtype, given=right_dtype)
    return g.emit("MatMul", a, b)


@exports("Dot")
def dot(g: Builder, call: Call) -> str:
    """MatMul of two vectors is a number."""
    a, b = call.inputs
    return product(g, a.name, b.name, a.dtype, b.dtype, call.dtype)


@exports("Linear")
def linear(g: Builder, call: Call) -> str:
    """Gemm for a matrix; for more axes a product with the transposed weight, and the bias."""
    x, weight, *bias = call.inputs
    if not is_float(call.dtype):
        raise RefusedError("ONNX has fully connected layers of floats alone")
    if x.ndim == 2:
        return g.emit("Gemm", x, weight, *bias, transB=1)
    name = g.emit("MatMul", x, transposed_once(g, weight, [1, 0]))
    return g.emit("Add", name, bias[0]) if bias else name


@exports("CrossProduct")
def cross_product(g: Builder, call: Call) -> str:
    """The numbers a_{i+1} b_{i+2} - a_{i+2} b_{i+1}."""
    a, b = (g.cast(x, call.dtype) for x in call.inputs)

    def turned(x: str, by: int) -> str:
        return g.emit("Gather", x, g.ints([(i + by) % 3 for i in range(3)]), axis=-1)

    return g.emit(
        "Sub",
        g.emit("Mul", turned(a, 1), turned(b, 2)),
        g.emit("Mul", turned(a, 2), turned(b, 1)),
    )


@exports("MatrixInverse", "SVD")
def refused(g: Builder, call: Call) -> str:
    """Not in ONNX."""
    raise RefusedError(
        "ONNX has no linear solver; compute it before the export, or pass it as an input"
    )
