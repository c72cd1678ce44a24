"""Every op record once more under autocast: close to float64 within what bfloat16 holds."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
from megengine.amp import autocast
from tests.ops.compare import (
    array,
    close_arrays,
    dtype_name,
    gradients,
    is_float,
    listed,
    random_upstream,
    reference_inputs,
    tensor_inputs,
)
from tests.ops.record import Array, Record, all_records

RECORDS = [r for r in all_records() if "float32" in r.dtypes]
# Of the largest element: inputs are rounded to 2^-9 of themselves, and so is what comes out.
TOLERANCE = 2.0**-6


def check(got: object, want: object, what: str) -> None:
    """Shape, and values within the tolerance of the largest; integers and bools exactly."""
    exact = np.asarray(want)
    if not isinstance(got, mge.Tensor):
        assert np.array_equal(np.asarray(got), exact), what
        return
    a = array(got)
    if not is_float(dtype_name(got)):
        np.testing.assert_array_equal(a, exact, err_msg=what)
        return
    close_arrays(a, exact.astype(np.float64), tolerance(exact), what)


def tolerance(exact: Array) -> float:
    finite = np.abs(exact[np.isfinite(exact)])
    return TOLERANCE * max(float(finite.max(initial=0)), 2.0**-10)


@pytest.mark.parametrize(
    ("record", "dtype"),
    [
        pytest.param(record, dtype, id=f"{record.name}-{dtype}")
        for record in RECORDS
        for dtype in ("float32", "bfloat16")
        if dtype in record.dtypes
    ],
)
def test_values(record: Record, dtype: str) -> None:
    arrays = record.arrays()
    with np.errstate(all="ignore"):
        want = listed(record.ref(*reference_inputs(record, arrays, dtype)))
    with autocast():
        got = listed(record.fn(*tensor_inputs(record, arrays, dtype)))
    assert len(got) == len(want)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        check(g, w, f"{record.name} result {k}")


@pytest.mark.parametrize(
    "record",
    [pytest.param(r, id=r.name) for r in RECORDS if r.order and r.differentiable(r.arrays())],
)
def test_gradients(record: Record) -> None:
    """Beside the gradients in float64, which are held against differences elsewhere."""
    arrays = record.arrays()
    wrt = record.differentiable(arrays)
    wide = tensor_inputs(record, arrays, "float64")
    inputs = tensor_inputs(record, arrays, "float32")
    upstream = random_upstream(record.generator(1), listed(record.fn(*wide)))
    _, want = gradients(record, wide, wrt, upstream)
    with autocast():
        _, got = gradients(record, inputs, wrt, upstream)
    for i, g, w in zip(wrt, got, want, strict=True):
        assert dtype_name(inputs[i].grad) == "float32" if inputs[i].grad is not None else True
        # Attention has exponentials of rounded scores.
        factor = 16 if "attention" in record.name else 4
        close_arrays(g, w, factor * tolerance(w), f"{record.name}, gradient of input {i}")
