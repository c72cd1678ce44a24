"""The generic checks, each over every record. record.py describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager
from tests.ops.avx2 import outer_run, run_under_avx2
from tests.ops.compare import (
    array,
    check_close,
    close_arrays,
    dtype_name,
    float_results,
    grad_or_zeros,
    gradients,
    inner,
    is_float,
    listed,
    random_upstream,
    reference_inputs,
    tensor,
    tensor_inputs,
)
from tests.ops.record import INTS, Array, Record, all_records

RECORDS = all_records()


def over(records: Sequence[Record]) -> Any:
    """Parametrises a test over records."""
    return pytest.mark.parametrize("record", [pytest.param(r, id=r.name) for r in records])


# ---- values ------------------------------------------------------------------------------------


def check_values(record: Record, arrays: Sequence[Array], dtype: str) -> None:
    """Values, shapes and dtypes of `fn` on `arrays` against `ref`."""
    with np.errstate(all="ignore"):
        want = listed(record.ref(*reference_inputs(record, arrays, dtype)))
    got = listed(record.fn(*tensor_inputs(record, arrays, dtype)))
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(g, mge.Tensor):
            assert np.array_equal(np.asarray(g), np.asarray(w)), f"result {k}"
            continue
        expected = expected_dtype(record, dtype, np.asarray(w), k)
        assert dtype_name(g) == expected, f"result {k}: dtype {dtype_name(g)}, expected {expected}"
        check_close(record, g, w, dtype, f"{record.name}[{dtype}] result {k}")


def expected_dtype(record: Record, dtype: str, want: Array, k: int) -> str:
    """The dtype of result `k`."""
    if k == 0 and record.out_dtype and dtype in record.out_dtype:
        return record.out_dtype[dtype]
    if want.dtype.kind == "b":
        return "bool"
    if want.dtype.kind in "iu":
        return dtype if dtype in INTS and k == 0 else "int32"
    return dtype


@pytest.mark.parametrize(
    ("record", "dtype"), [pytest.param(r, d, id=f"{r.name}-{d}") for r in RECORDS for d in r.dtypes]
)
def test_values(record: Record, dtype: str) -> None:
    check_values(record, record.arrays(), dtype)


@over([r for r in RECORDS if r.scalar])
def test_scalars(record: Record) -> None:
    arrays = [np.asarray(a.reshape(-1)[0]) for a in record.arrays()]
    check_values(record, arrays, record.dtypes[0])


def empty_variants(record: Record) -> list[list[Array]]:
    """Lists of inputs with no elements."""
    if callable(record.empty):
        return [list(v) for v in record.empty()]
    arrays = record.arrays()
    sizes = {a.shape[0] for a in arrays if a.ndim}
    if not record.empty or len(sizes) != 1 or sizes == {1}:
        return []
    return [[a[:0] if a.ndim else a for a in arrays]]


@over([r for r in RECORDS if r.empty])
def test_empty(record: Record) -> None:
    for arrays in empty_variants(record):
        dtype = record.dtypes[0]
        try:
            with np.errstate(all="ignore"):
                record.ref(*reference_inputs(record, arrays, dtype))
        except (ValueError, IndexError, ZeroDivisionError):
            with pytest.raises((ValueError, IndexError)):
                array(listed(record.fn(*tensor_inputs(record, arrays, dtype)))[0])
            continue
        check_values(record, arrays, dtype)
        check_empty_gradient(record, arrays)


def check_empty_gradient(record: Record, arrays: Sequence[Array]) -> None:
    """Backward through a size-0 call gives gradients of the inputs' shapes, finite where they have
    elements.
    """
    wrt = record.differentiable(arrays)
    if not wrt:
        return
    inputs = tensor_inputs(record, arrays, "float32")
    outputs = listed(record.fn(*inputs))
    _, grads = gradients(record, inputs, wrt, random_upstream(np.random.default_rng(0), outputs))
    for i, g in zip(wrt, grads, strict=True):
        assert g.shape == arrays[i].shape


# ---- gradients ---------------------------------------------------------------------------------

STEP = 1e-5


def difference(f: Any, point: Sequence[Array], direction: Sequence[Array | None]) -> Any:
    """The central difference of f (arrays -> list of arrays) along `direction`."""
    ahead = f([x if d is None else x + STEP * d for x, d in zip(point, direction, strict=True)])
    behind = f([x if d is None else x - STEP * d for x, d in zip(point, direction, strict=True)])
    return [(a - b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]


def directions(
    rng: np.random.Generator, arrays: Sequence[Array], wrt: Sequence[int]
) -> list[Array | None]:
    """A random direction for each differentiated input."""
    return [
        np.asarray(rng.standard_normal(a.shape)) if i in wrt else None for i, a in enumerate(arrays)
    ]


def differentiable_records(order: int) -> list[Record]:
    """Records with a gradient up to `order`."""
    return [r for r in RECORDS if r.order >= order and r.differentiable(r.arrays())]


@over(differentiable_records(1))
def test_gradient(record: Record) -> None:
    arrays, rng = record.arrays(), record.generator(1)
    wrt = record.differentiable(arrays)
    inputs = tensor_inputs(record, arrays, "float64")
    point = reference_inputs(record, arrays, "float64")
    upstream = random_upstream(rng, listed(record.fn(*inputs)))
    _, grads = gradients(record, inputs, wrt, upstream)

    def weighted(xs: Sequence[Array]) -> list[Any]:
        results = [np.asarray(y) for y in listed(record.ref(*xs))]
        floats = [y for y in results if y.dtype.kind == "f"]
        return [sum(float(np.sum(y * array(u))) for y, u in zip(floats, upstream, strict=True))]

    for _ in range(2):
        direction = directions(rng, point, wrt)
        (want,) = difference(weighted, point, direction)
        got = sum(float(np.sum(g * direction[i])) for g, i in zip(grads, wrt, strict=True))
        check_slope(record, got, want, "gradient")
    for g, i in zip(grads, wrt, strict=True):
        assert g.shape == arrays[i].shape, (
            f"gradient of input {i}: shape {g.shape}, expected {arrays[i].shape}"
        )


def check_slope(record: Record, got: float, want: float, what: str) -> None:
    """Two directional derivatives agree."""
    rtol, atol = record.grad_tol
    scale = max(1.0, abs(want))
    assert np.isfinite(got), f"{what} of {record.name}: {got}"
    assert abs(got - want) <= rtol * scale + atol, (
        f"{what} of {record.name}: {got!r}, difference {want!r}"
    )


def second_order(
    record: Record,
    inputs: Sequence[mge.Tensor],
    wrt: Sequence[int],
    upstream: Sequence[mge.Tensor],
    u: Sequence[mge.Tensor],
) -> tuple[list[Array], list[Array]]:
    """Gradients of sum(u * gradient) with respect to the inputs and to the upstream gradients."""
    followed = [inputs[i] for i in wrt] + list(upstream)
    for x in followed:
        x.grad = None
    outer = GradManager().attach(followed)
    with outer:
        inner_manager = GradManager().attach([inputs[i] for i in wrt])
        with inner_manager:
            inner_manager.backward(float_results(listed(record.fn(*inputs))), list(upstream))
        pairs = [
            (inputs[i].grad, w) for i, w in zip(wrt, u, strict=True) if inputs[i].grad is not None
        ]
        for x in followed:
            x.grad = None
        if pairs:
            outer.backward(inner([g for g, _ in pairs], [w for _, w in pairs]))
    return [grad_or_zeros(inputs[i]) for i in wrt], [grad_or_zeros(dy) for dy in upstream]


@over(differentiable_records(2))
def test_second_order(record: Record) -> None:
    arrays, rng = record.arrays(), record.generator(2)
    wrt = record.differentiable(arrays)
    inputs = tensor_inputs(record, arrays, "float64")
    point = reference_inputs(record, arrays, "float64")
    upstream = random_upstream(rng, listed(record.fn(*inputs)))
    u = [tensor(np.asarray(rng.standard_normal(arrays[i].shape)), "float64") for i in wrt]
    by_input, by_upstream = second_order(record, inputs, wrt, upstream, u)

    def slope(xs: Sequence[Array], dys: Sequence[Array]) -> float:
        ts = [
            tensor(x, "float64") if i in wrt else t
            for i, (x, t) in enumerate(zip(xs, inputs, strict=True))
        ]
        _, grads = gradients(record, ts, wrt, [tensor(d, "float64") for d in dys])
        return sum(float(np.sum(g * array(w))) for g, w in zip(grads, u, strict=True))

    dys = [array(d) for d in upstream]
    direction = directions(rng, point, wrt)
    (want,) = difference(lambda xs: [slope(xs, dys)], point, direction)
    got = sum(float(np.sum(g * direction[i])) for g, i in zip(by_input, wrt, strict=True))
    check_slope(record, got, want, "second derivative")

    # The gradient is linear in the upstream gradient: its derivative along e is the slope at e.
    e = [np.asarray(rng.standard_normal(d.shape)) for d in dys]
    got = sum(float(np.sum(g * k)) for g, k in zip(by_upstream, e, strict=True))
    check_slope(record, got, slope(point, e), "derivative of the gradient by the upstream gradient")


# ---- layouts -----------------------------------------------------------------------------------


def transposed(a: Array, dtype: str) -> tuple[mge.Tensor, Array] | None:
    if a.ndim < 2:
        return None
    axes = tuple(range(a.ndim))[::-1]
    return F.transpose(tensor(np.ascontiguousarray(a.transpose(axes)), dtype), axes), a


def sliced(a: Array, dtype: str) -> tuple[mge.Tensor, Array] | None:
    if a.ndim < 1:
        return None
    big = np.repeat(np.concatenate([a[..., :1], a], axis=-1), 2, axis=-1)
    return tensor(big, dtype)[..., 2::2], a


def reversed_(a: Array, dtype: str) -> tuple[mge.Tensor, Array] | None:
    if a.ndim < 1:
        return None
    flip = (slice(None, None, -1),) * a.ndim
    return tensor(np.ascontiguousarray(a[flip]), dtype)[flip], a


def broadcast(a: Array, dtype: str) -> tuple[mge.Tensor, Array] | None:
    if a.ndim < 1 or a.shape[0] == 0:
        return None
    copy = np.ascontiguousarray(np.broadcast_to(a[:1], a.shape))
    return F.broadcast_to(tensor(a[:1], dtype), a.shape), copy


def physical_channels_last(a: Array, dtype: str) -> tuple[mge.Tensor, Array] | None:
    if a.ndim != 4:
        return None
    return F.transpose(
        tensor(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), dtype), (0, 3, 1, 2)
    ), a


LAYOUTS = {
    "transposed": transposed,
    "sliced": sliced,
    "reversed": reversed_,
    "broadcast": broadcast,
    "channels_last": physical_channels_last,
}


def layout_cases() -> Iterator[Any]:
    for r in RECORDS:
        arrays = r.arrays()
        names = list(LAYOUTS)[:-1] if r.layouts else []
        if r.channels_last and any(a.ndim == 4 for a in arrays):
            names.append("channels_last")
        if any(a.ndim for a in arrays):
            yield from (pytest.param(r, n, id=f"{r.name}-{n}") for n in names)


def input_dtype(record: Record, a: Array) -> str:
    """The dtype of an input in the layout checks."""
    data = "float32" if "float32" in record.dtypes else record.dtypes[0]
    return data if record.is_data(a) else ("bool" if a.dtype.kind == "b" else "int32")


@pytest.mark.parametrize(("record", "layout"), list(layout_cases()))
def test_layouts(record: Record, layout: str) -> None:
    """All inputs in this layout, then each alone: as contiguous copies, values and gradients."""
    arrays = [
        np.rint(a) if a.dtype.kind == "f" and not is_float(input_dtype(record, a)) else a
        for a in record.arrays()
    ]
    able = [
        i for i, a in enumerate(arrays) if a.ndim and LAYOUTS[layout](a, input_dtype(record, a))
    ]
    for chosen in [able] + ([[i] for i in able] if len(able) > 1 else []):
        strided, plain = [], []
        for i, a in enumerate(arrays):
            dtype = input_dtype(record, a)
            made = LAYOUTS[layout](a, dtype) if i in chosen else None
            t, copy = made or (tensor(a, dtype), a)
            strided.append(t)
            plain.append(tensor(copy, dtype))
        compare_layouts(record, strided, plain, f"{record.name}, {layout} inputs {chosen}")


def compare_layouts(
    record: Record, strided: list[mge.Tensor], plain: list[mge.Tensor], what: str
) -> None:
    """Values and gradients on `strided` are those on `plain`."""
    for s, p in zip(strided, plain, strict=True):
        np.testing.assert_array_equal(array(s), array(p), err_msg=f"{what}: the view itself")
    want = listed(record.fn(*plain))
    got = listed(record.fn(*strided))
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if isinstance(w, mge.Tensor):
            assert dtype_name(g) == dtype_name(w)
            check_close(record, g, array(w), dtype_name(w), f"{what}, result {k}")
    arrays = [array(p) for p in plain]
    wrt = [i for i in record.differentiable(arrays) if is_float(dtype_name(plain[i]))]
    if not wrt or not float_results(want):
        return
    upstream = random_upstream(record.generator(3), want)
    _, expected = gradients(record, plain, wrt, upstream)
    _, found = gradients(record, strided, wrt, upstream)
    for i, f, e in zip(wrt, found, expected, strict=True):
        size = np.max(np.abs(e), initial=0.0, where=np.isfinite(e))
        close_arrays(f, e, 1e-5 * size + 1e-6, f"{what}, gradient of input {i}")


# ---- one kernel against another ----------------------------------------------------------------


def results_and_gradients(record: Record, arrays: Sequence[Array], dtype: str) -> list[Array]:
    """Results, then gradients with a fixed upstream gradient."""
    inputs = tensor_inputs(record, arrays, dtype)
    outputs = listed(record.fn(*inputs))
    found = [array(y) for y in outputs]
    wrt = record.differentiable(arrays) if is_float(dtype) else ()
    if wrt and float_results(outputs):
        found += gradients(record, inputs, wrt, random_upstream(record.generator(3), outputs))[1]
    return found


@over(RECORDS)
def test_threads(record: Record) -> None:
    """Results and gradients are bit for bit the same on one thread and on three."""
    arrays = (
        [np.asarray(a) for a in record.large(record.generator())]
        if record.large
        else record.arrays()
    )
    dtype = record.dtypes[0]
    before = device.get_num_threads()
    try:
        device.set_num_threads(1)
        one = results_and_gradients(record, arrays, dtype)
        device.set_num_threads(3)
        three = results_and_gradients(record, arrays, dtype)
    finally:
        device.set_num_threads(before)
    for k, (a, b) in enumerate(zip(one, three, strict=True)):
        if not record.exact_threads:
            size = np.max(np.abs(a), initial=0.0)
            close_arrays(a, b, 1e-5 * size, f"{record.name}: result {k} on other threads")
            continue
        np.testing.assert_array_equal(
            a, b, err_msg=f"{record.name}: result {k} depends on the number of threads"
        )


@over(RECORDS)
def test_decomposed(record: Record) -> None:
    """Fused kernels give what the compositions that define them give."""
    from megengine import _core

    arrays = record.arrays()
    dtype = "float64" if "float64" in record.dtypes else record.dtypes[0]
    fused = results_and_gradients(record, arrays, dtype)
    _core.prefer_decompositions(True)
    try:
        plain = results_and_gradients(record, arrays, dtype)
    finally:
        _core.prefer_decompositions(False)
    for k, (a, b) in enumerate(zip(fused, plain, strict=True)):
        size = np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) if b.dtype.kind == "f" else 0.0
        close_arrays(
            a, b, 1e-9 * size + 1e-9 if is_float(dtype) else 0.0, f"{record.name}: result {k}"
        )


@outer_run
def test_avx2(request: pytest.FixtureRequest) -> None:
    """The values once more."""
    seed = f"--seed={request.config.getoption('--seed')}"
    run_under_avx2(__file__, "-x", "-k", "test_values or test_gradient", seed)
