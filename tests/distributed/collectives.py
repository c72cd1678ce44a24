"""Checks that run on every rank of a job; test_collectives.py starts it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.distributed as dist
import megengine.distributed.functional as DF
from megengine.autodiff import Function, GradManager
from megengine.distributed import collective

Arrays = list[np.ndarray[Any, Any]]
CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


def run_all() -> dict[str, str]:
    """Runs the checks; what went wrong in each."""
    wrong = {}
    for name, function in CHECKS.items():
        try:
            function()
        except Exception:
            wrong[name] = traceback.format_exc()
            print(f"{name} on rank {dist.get_rank()}: {wrong[name]}", flush=True)
        dist.group_barrier()
    return wrong


def inputs(shape: Sequence[int], dtype: str = "float32", n: int | None = None) -> Arrays:
    """What each rank brings: every rank can make all of them."""
    n = dist.get_world_size() if n is None else n
    rngs = [np.random.default_rng(100 + i) for i in range(n)]
    if dtype == "bool":
        return [rng.integers(0, 2, shape).astype(bool) for rng in rngs]
    if "int" in dtype:
        return [rng.integers(0, 20, shape).astype(dtype) for rng in rngs]
    if dtype.startswith("complex"):
        return [
            (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype) for rng in rngs
        ]
    return [rng.normal(size=shape) for rng in rngs]


def tensor(array: Any, dtype: str) -> mge.Tensor:
    return mge.Tensor(array, dtype=dtype)


# ---- what each collective is, in NumPy: from what all bring to what each gets -------------------


def first_only(value: Any, n: int) -> list[Any]:
    return [value] + [None] * (n - 1)


def _all_to_all(xs: Arrays, split: int = 0, concat: int = 0) -> Arrays:
    n = len(xs)
    cut = [np.split(x, n, split) for x in xs]
    return [np.concatenate([cut[j][i] for j in range(n)], concat) for i in range(n)]


NUMPY: dict[str, Callable[..., list[Any]]] = {
    "all_reduce_sum": lambda xs: [sum(xs)] * len(xs),
    "all_reduce_max": lambda xs: [np.maximum.reduce(xs)] * len(xs),
    "all_reduce_min": lambda xs: [np.minimum.reduce(xs)] * len(xs),
    "broadcast": lambda xs: [xs[0]] * len(xs),
    "reduce_sum": lambda xs: first_only(sum(xs), len(xs)),
    "all_gather": lambda xs, axis=0: [np.concatenate(xs, axis)] * len(xs),
    "gather": lambda xs, axis=0: first_only(np.concatenate(xs, axis), len(xs)),
    "reduce_scatter_sum": lambda xs, axis=0: np.split(sum(xs), len(xs), axis),
    "scatter": lambda xs, axis=0: np.split(xs[0], len(xs), axis),
    "all_to_all": lambda xs, split_axis=0, concat_axis=0: _all_to_all(xs, split_axis, concat_axis),
}
CASES: list[tuple[str, dict[str, int]]] = [(name, {}) for name in NUMPY]
CASES += [(name, {"axis": a}) for name in NUMPY if "gather" in name for a in (1, -1)]
CASES += [(name, {"axis": 1}) for name in ("reduce_scatter_sum", "scatter")]
CASES += [("all_to_all", {"split_axis": s, "concat_axis": 1 - s}) for s in (0, 1)]
SHAPE = (4, 8, 3)


def agrees(got: Any, want: Any, dtype: str, what: str) -> None:
    if want is None:
        assert got is None, what
        return
    assert got is not None, what
    assert got.dtype.name == dtype, f"{what}: {got.dtype}"
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-14}.get(dtype, 1e-6)
    exact = "int" in dtype or dtype == "bool"
    np.testing.assert_allclose(
        got.numpy().astype("complex128"),
        np.asarray(want).astype("complex128"),
        rtol=0 if exact else tolerance,
        atol=0 if exact else tolerance,
        err_msg=what,
    )
    assert got.shape == np.shape(want), what


@check
def values_longer_than_a_piece() -> None:
    whole, piece = collective._WHOLE, collective._PIECE
    collective._WHOLE, collective._PIECE = 4096, 1024
    try:
        for dtype, size in {"float32": 1025, "float64": 5001, "int8": 9999, "int32": 1024}.items():
            everyone = [tensor(a, dtype).numpy() for a in inputs((size,), dtype)]
            x = tensor(everyone[dist.get_rank()], dtype)
            want = np.sum(everyone, axis=0, dtype="float64")
            np.testing.assert_allclose(DF.all_reduce_sum(x).numpy(), want, rtol=1e-6, atol=1e-6)
            largest = np.max(everyone, axis=0)
            np.testing.assert_array_equal(DF.all_reduce_max(x).numpy(), largest)
    finally:
        collective._WHOLE, collective._PIECE = whole, piece


@check
def values_in_every_dtype() -> None:
    rank = dist.get_rank()
    floats = ("float32", "float16", "bfloat16", "float64")
    others = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    others += ("bool", "complex64")
    for dtype in floats + others:
        for name, options in CASES:
            if (dtype == "bool" and "sum" in name) or (
                dtype == "complex64" and name.endswith(("max", "min"))
            ):
                with pytest.raises(TypeError, match=name):
                    getattr(DF, name)(tensor(inputs(SHAPE, dtype)[rank], dtype))
                continue
            # As the dtype holds them.
            mine = [tensor(x, dtype) for x in inputs(SHAPE, dtype)]
            exact = [x.numpy().astype(dtype if dtype in others else "float64") for x in mine]
            if dtype == "bool":
                want = NUMPY[name](exact, **options)
            else:
                wide = "int64" if "int" in dtype else "complex128"
                wide = "float64" if dtype in floats else wide
                want = NUMPY[name]([x.astype(wide) for x in exact], **options)
            got = getattr(DF, name)(mine[rank], **options)
            agrees(got, want[rank], dtype, f"{name} {options} {dtype}")


@check
def gradients_against_differences() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    shape = (4, 4)
    for name, options in CASES:
        xs = inputs(shape, n=n)
        weights = [np.random.default_rng(i).normal(size=(64,)) for i in range(n)]

        def loss(
            xs: Arrays, name: str = name, options: Any = options, weights: Any = weights
        ) -> float:
            ys = NUMPY[name](xs, **options)
            return sum(
                float((y.reshape(-1) * w[: y.size]).sum())
                for y, w in zip(ys, weights, strict=True)
                if y is not None
            )

        x = tensor(xs[rank], "float64")
        gm = GradManager().attach([x])
        with gm:
            y = getattr(DF, name)(x, **options)
            if y is None:
                gm.backward()
            else:
                w = tensor(weights[rank][: y.size], "float64").reshape(y.shape)
                gm.backward((y * w).sum())
        want = np.zeros(shape)
        step = 1e-6
        for at in np.ndindex(shape):
            there = [x.copy() for x in xs]
            there[rank][at] += step
            back = [x.copy() for x in xs]
            back[rank][at] -= step
            want[at] = (loss(there) - loss(back)) / (2 * step)
        assert x.grad is not None, name
        np.testing.assert_allclose(
            x.grad.numpy(), want, rtol=1e-6, atol=1e-8, err_msg=f"{name} {options}"
        )


@check
def all_take_part_in_backward_whoever_uses_the_result() -> None:
    """Only the last rank's loss depends on what the collective gave."""
    rank, n = dist.get_rank(), dist.get_world_size()
    x = mge.tensor([1.0 + rank])
    gm = GradManager().attach([x])
    for name in ("all_reduce_sum", "all_gather", "broadcast", "all_reduce_max"):
        x.grad = None
        with gm:
            y = getattr(DF, name)(x)
            loss = y.sum() if rank == n - 1 else (x * 0).sum()
            gm.backward(loss)
        want = {
            "all_reduce_sum": 1.0,
            "all_gather": 1.0,
            "broadcast": float(rank == 0),
            "all_reduce_max": float(rank == n - 1),
        }[name]
        assert x.grad.numpy() == want, (name, x.grad)


@check
def second_order() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    x = mge.tensor([1.0 + rank, 2.0])
    outer, inner = GradManager().attach([x]), GradManager().attach([x])
    with outer:
        with inner:
            y = DF.all_reduce_sum(x * x * x)
            inner.backward((y * y).sum())
        first = x.grad
        x.grad = None
        outer.backward(first.sum())
    # total = n * sum(s^2) with s = sum x^3: d/dx = 2 n s 3 x^2, and once more.
    xs = np.array([[1.0 + r, 2.0] for r in range(n)])
    s = (xs**3).sum(0)
    np.testing.assert_allclose(first.numpy(), 6 * n * s * xs[rank] ** 2, rtol=1e-6)
    # The second loss is the sum over ranks of 6 n s x_r^2.
    want = 6 * n * (3 * xs[rank] ** 2 * (xs**2).sum(0) + 2 * s * xs[rank])
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)


@check
def groups_in_another_order() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    order = list(reversed(range(n)))
    group = dist.new_group(order)
    assert group.size == n
    assert group.rank == n - 1 - rank
    assert group.key == ",".join(map(str, order))
    x = mge.tensor([float(rank)])
    np.testing.assert_array_equal(DF.all_gather(x, group).numpy(), order)
    np.testing.assert_array_equal(DF.broadcast(x, order).numpy(), [n - 1])
    assert (DF.reduce_sum(x, group) is None) == (rank != n - 1)
    part = DF.scatter(mge.tensor(np.arange(n) + 10.0 * rank), group)
    np.testing.assert_array_equal(part.numpy(), [10.0 * (n - 1) + group.rank])


@check
def smaller_groups() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = [r for r in range(n) if r % 2 == rank % 2]
    group = dist.new_group(mine)
    x = mge.tensor([1.0 + rank])
    assert DF.all_reduce_sum(x, group).item() == sum(1.0 + r for r in mine)
    dist.group_barrier(group)
    assert group.is_single_machine
    other = [r for r in range(n) if r not in mine]
    with pytest.raises(ValueError, match="not in the group"):
        DF.all_reduce_sum(x, other)
    with pytest.raises(ValueError, match="not in the group"):
        _ = dist.Group(other).rank
    for bad in ([], [0, 0], [n], [-1]):
        with pytest.raises(ValueError, match="Group: expected"):
            dist.new_group(bad)


@check
def what_differs_raises_on_all() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    last = rank == n - 1
    with pytest.raises(ValueError, match=r"all_reduce_sum.*float32 \(3,\).*float32 \(2,\)"):
        DF.all_reduce_sum(mge.tensor(np.ones(2 if last else 3)))
    with pytest.raises(ValueError, match=r"float32 .* from ranks .*float16"):
        DF.all_gather(tensor(np.ones(2), "float16" if last else "float32"))
    with pytest.raises(ValueError, match=r"all_reduce_max.*from ranks.*broadcast"):
        (DF.broadcast if last else DF.all_reduce_max)(mge.tensor([1.0]))
    with pytest.raises(ValueError, match=rf"that the group's {n} processes divide"):
        DF.scatter(mge.tensor(np.ones(n + 1)))
    with pytest.raises(ValueError, match=r"expected an axis in \[-1, 1\)"):
        DF.all_gather(mge.tensor([1.0]), axis=2)
    with pytest.raises(TypeError, match="expected a Tensor, got ndarray"):
        DF.all_reduce_sum(np.ones(3))
    with pytest.raises(OverflowError, match="uint8"):
        DF.all_reduce_sum(tensor(np.full(3, 200), "uint8"))
    assert DF.all_reduce_sum(mge.tensor([1.0])).item() == n  # all goes on


@check
def nan_wins() -> None:
    rank = dist.get_rank()
    x = mge.tensor([np.nan if rank == 0 else 1.0, 2.0, np.inf if rank else 0.0])
    for f in (DF.all_reduce_max, DF.all_reduce_min):
        got = f(x).numpy()
        assert np.isnan(got[0])
        assert not np.isnan(got[1:]).any()


@check
def ties_share_the_gradient() -> None:
    n = dist.get_world_size()
    x = mge.tensor([3.0])
    gm = GradManager().attach([x])
    with gm:
        gm.backward(DF.all_reduce_max(x))
    np.testing.assert_allclose(x.grad.numpy(), 1.0)  # n losses, n sources
    assert n > 1


@check
def sums_of_16_bits_round_once() -> None:
    """2048 + 1 - 2048 in float16 loses the 1 where partial sums are rounded."""
    rank, n = dist.get_rank(), dist.get_world_size()
    values = [2048.0, 1.0, -2048.0, 0.0] if n >= 3 else [2049.0 - 1, 1.0]
    want = sum(values[:n])
    got = DF.all_reduce_sum(tensor([values[rank]], "float16"))
    assert got.dtype == np.float16
    assert got.item() == np.float16(want)


@check
def strange_layouts_and_sizes() -> None:
    rank = dist.get_rank()
    whole = inputs((6, 8))
    views: list[Callable[[Any], Any]] = [
        lambda x: x[::2],
        lambda x: x[:, ::-1],
        lambda x: x.T if isinstance(x, np.ndarray) else x.transpose(1, 0),
        lambda x: x[1:1],
        lambda x: x[0, 0],
    ]
    for view in views:
        want = sum(view(x) for x in whole)
        got = DF.all_reduce_sum(view(tensor(whole[rank], "float64")))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
        assert got.shape == np.shape(want)
    scalar = DF.all_gather(mge.tensor(float(rank)))
    np.testing.assert_array_equal(scalar.numpy(), np.arange(dist.get_world_size()))
    empty = DF.all_gather(mge.tensor(np.ones((0, 3))))
    assert empty.shape == (0, 3)


@check
def the_input_stays_and_is_not_shared() -> None:
    x = mge.tensor(np.ones(1000))
    y = DF.broadcast(x)
    y[0] = 5
    assert x.numpy()[0] == 1
    z = DF.all_reduce_sum(x)
    z += 1
    assert (x.numpy() == 1).all()


@check
def send_and_receive_with_gradients() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    x = mge.tensor([1.0 + rank, 2.0])
    gm = GradManager().attach([x])
    with gm:
        # A pipeline: each doubles what the one before sent.
        y = x * 1
        if rank > 0:
            y = DF.remote_recv(rank - 1) * 2 + x
        if rank < n - 1:
            DF.remote_send(y, rank + 1)
            gm.backward()
        else:
            gm.backward((y * y).sum())
    xs = np.array([[1.0 + r, 2.0] for r in range(n)])
    y_last = sum(xs[r] * 2.0 ** (n - 1 - r) for r in range(n))
    np.testing.assert_allclose(x.grad.numpy(), 2 * y_last * 2.0 ** (n - 1 - rank))


@check
def all_send_then_all_receive() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    big = mge.tensor(np.full((300_000,), rank, "float32"))
    DF.remote_send(big, (rank + 1) % n)
    got = DF.remote_recv((rank - 1) % n)
    assert (got.numpy() == (rank - 1) % n).all()
    for dtype, shape in (("int8", ()), ("bfloat16", (2, 3)), ("float64", (0, 2))):
        DF.remote_send(tensor(np.ones(shape), dtype), (rank + 1) % n)
        got = DF.remote_recv((rank - 1) % n)
        assert (got.dtype.name, got.shape) == (dtype, shape)
    for bad in (rank, n, -1):
        with pytest.raises(ValueError, match="expected another rank"):
            DF.remote_send(big, bad)


@check
def received_outside_a_manager() -> None:
    rank = dist.get_rank()
    if rank == 0:
        x = mge.tensor([1.0])
        gm = GradManager().attach([x])
        with gm:
            DF.remote_send(x * 2, 1)
            gm.release()
    elif rank == 1:
        with pytest.raises(RuntimeError, match="no GradManager records here"):
            DF.remote_recv(0)


@check
def inside_functions_nothing_is_recorded() -> None:
    class Double(Function):
        def forward(self, x: Any) -> Any:
            return DF.all_reduce_sum(x)

        def backward(self, dy: Any) -> Any:
            return dy * 3

    x = mge.tensor([1.0])
    gm = GradManager().attach([x])
    with gm:
        gm.backward(Double()(x))
    assert x.grad.item() == 3


@check
def the_server_shares_values() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    client = dist.get_client()
    value = {"a": [1, 2.5, None, True, "text"], "b": b"bytes", "c": (1, 2)}
    client.user_set(f"key {rank}", value)
    got = client.user_get(f"key {(rank + 1) % n}")
    assert got == {**value, "c": [1, 2]}
    array = np.arange(6, dtype="int16").reshape(2, 3)
    client.user_set(f"array {rank}", mge.tensor(array, dtype="int16"))
    popped = client.user_pop(f"array {(rank + 1) % n}")
    np.testing.assert_array_equal(popped, array)
    assert popped.dtype == array.dtype
    client.group_barrier("some", n)
    assert client.bcast_val(7 if rank == 0 else None, "seven", n) == (None if rank == 0 else 7)
    client.set_is_grad(f"grad {rank}", True)
    assert client.check_is_grad(f"grad {rank}") is True
    for bad in ({1: 2}, object(), 1j):
        with pytest.raises(TypeError, match="expected"):
            client.user_set("bad", bad)
    assert dist.get_py_server_addr() == (client.master_ip, client.port)
    assert dist.get_mm_server_addr()[1] == client.get_mm_server_port()


@check
def what_the_job_says_of_itself() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    assert dist.is_distributed()
    assert dist.WORLD.size == n
    assert dist.WORLD.rank == rank
    assert dist.WORLD.proc_ranks == list(range(n))
    assert dist.get_backend() == "auto"
    with dist.override_backend("mpi"):
        assert dist.get_backend() == "mpi"
    with pytest.raises(ValueError, match="expected one of"), dist.override_backend("foo"):
        pass
    with pytest.raises(AssertionError, match="only once"):
        dist.init_process_group("127.0.0.1", 1, n, rank, rank)
    assert mge.device.get_num_threads() >= 1
    # A launcher in a rank runs the function as this rank.
    assert dist.launcher(n_gpus=2)(dist.get_rank)() == [rank]
