"""From arrays to Tensors and back, in every dtype, and the comparisons of the generic checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager
from tests.ops.record import Array, Record, in_range, round_to


def tensor(array: Array, dtype: str | None = None) -> mge.Tensor:
    """`array` as a Tensor of exactly `dtype` (of the array's own where None)."""
    name = dtype or array.dtype.name
    if name == "bfloat16":  # NumPy has none
        return mge.tensor(np.asarray(array, np.float32)).astype("bfloat16")
    return mge.tensor(in_range(np.asarray(array), name).astype(name), dtype=name)


def array(x: Any) -> Array:
    """The values of a Tensor: float64 for floats, int64 for integers, bool for bool."""
    if not isinstance(x, mge.Tensor):
        return np.asarray(x)
    name = dtype_name(x)
    a = (x.astype("float32") if name == "bfloat16" else x).numpy()
    if a.dtype.kind == "f":
        return a.astype(np.float64)
    return a.astype(np.int64) if a.dtype.kind in "iu" else a


def dtype_name(x: mge.Tensor) -> str:
    """NumPy's name of a Tensor's dtype, and 'bfloat16'."""
    dtype = np.dtype(x.dtype)
    metadata = dtype.metadata or {}
    return "bfloat16" if "bfloat16" in str(metadata) or dtype.name == "bfloat16" else dtype.name


def listed(out: Any) -> list[Any]:
    """The results of a function as a list."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


def reference_inputs(record: Record, arrays: Sequence[Array], dtype: str) -> list[Array]:
    """What the reference gets: the values that the inputs have in `dtype`."""
    return [
        round_to(a, dtype)
        if record.is_data(a)
        else (a.astype(np.int64) if a.dtype.kind in "iu" else a)
        for a in arrays
    ]


def tensor_inputs(record: Record, arrays: Sequence[Array], dtype: str) -> list[mge.Tensor]:
    """The inputs as Tensors."""
    out = []
    for a in arrays:
        if record.is_data(a):
            out.append(
                tensor(np.rint(a) if a.dtype.kind == "f" and not is_float(dtype) else a, dtype)
            )
        else:
            out.append(tensor(a, "int32" if a.dtype.kind in "iu" else "bool"))
    return out


def is_float(dtype: str) -> bool:
    """True for the names of the float dtypes."""
    return "float" in dtype


def check_close(record: Record, got: mge.Tensor, want: Any, dtype: str, what: str) -> None:
    """Shape, then values within the tolerance of the result's dtype."""
    want = np.asarray(want)
    assert tuple(got.shape) == want.shape, (
        f"{what}: shape {tuple(got.shape)}, expected {want.shape}"
    )
    name = dtype_name(got)
    a = array(got)
    if not is_float(name):
        np.testing.assert_array_equal(a, want, err_msg=what)
        return
    exact = want.astype(np.float64)
    close_arrays(a, round_overflow(exact, name), record.tolerance(name, exact), what)


def round_overflow(exact: Array, dtype: str) -> Array:
    """`exact`, with what is too large for `dtype` turned into infinities."""
    rounded = round_to(exact, dtype)
    return np.where(np.isinf(rounded), rounded, exact)


def close_arrays(got: Array, want: Array, tolerance: Array | float, what: str) -> None:
    """Raises where |got - want| is over `tolerance`, or where NaN and infinities differ."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype == want.dtype == bool:  # which NumPy does not subtract
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    with np.errstate(invalid="ignore"):
        bad = ~(
            (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= tolerance)
        )
    if bad.any():
        i = tuple(int(k[0]) for k in np.nonzero(np.atleast_1d(bad)))
        g, w = np.atleast_1d(got)[i], np.atleast_1d(want)[i]
        t = np.broadcast_to(np.atleast_1d(tolerance), np.atleast_1d(got).shape)[i]
        raise AssertionError(
            f"{what}: {int(bad.sum())} of {bad.size} differ; first at {i}: {g!r}, "
            f"expected {w!r} within {t:.3g}"
        )


def float_results(outputs: Sequence[Any]) -> list[mge.Tensor]:
    """Those results that may carry a gradient."""
    return [y for y in outputs if isinstance(y, mge.Tensor) and is_float(dtype_name(y))]


def gradients(
    record: Record, inputs: Sequence[mge.Tensor], wrt: Sequence[int], upstream: Sequence[mge.Tensor]
) -> tuple[list[Any], list[Array]]:
    """(results, gradients of the inputs `wrt`) with these upstream gradients; zeros where no path
    leads.
    """
    for i in wrt:
        inputs[i].grad = None
    manager = GradManager().attach([inputs[i] for i in wrt])
    with manager:
        outputs = listed(record.fn(*inputs))
        manager.backward(float_results(outputs), list(upstream))
    return outputs, [grad_or_zeros(inputs[i]) for i in wrt]


def grad_or_zeros(x: mge.Tensor) -> Array:
    """x.grad as an array; zeros for None, which stands for 'no path'."""
    return np.zeros(tuple(x.shape)) if x.grad is None else array(x.grad)


def random_upstream(
    rng: np.random.Generator, outputs: Sequence[Any], dtype: str | None = None
) -> list[mge.Tensor]:
    """One random Tensor like each float result."""
    return [
        tensor(np.asarray(rng.standard_normal(tuple(y.shape))), dtype or dtype_name(y))
        for y in float_results(outputs)
    ]


def inner(tensors: Sequence[Any], weights: Sequence[mge.Tensor]) -> mge.Tensor:
    """sum of sum(t * w)."""
    terms = [F.sum(t * w) for t, w in zip(tensors, weights, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
