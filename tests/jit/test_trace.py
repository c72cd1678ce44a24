"""A traced function gives in every call what the plain function gives."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops.builtin import Resize
from megengine.jit import (
    DTRConfig,
    GraphOptimizationConfig,
    SublinearMemoryConfig,
    exclude_from_trace,
    trace,
)
from tests.ops.compare import grad_or_zeros, is_float, listed, tensor_inputs
from tests.ops.record import Record, all_records

T = mge.tensor


def same_bits(got: Any, want: Any) -> None:
    got, want = listed(got), listed(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


# ---- every op ----------------------------------------------------------------------------------


def value_and_gradients(record: Record, wrt: tuple[int, ...]) -> Callable[..., list[Any]]:
    """The results of a record's function, and the gradients of their weighted sum."""

    def run(*inputs: mge.Tensor) -> list[Any]:
        attached = [inputs[i] for i in wrt]
        if not attached:
            return listed(record.fn(*inputs))
        gm = GradManager().attach(attached)
        with gm:
            results = [r for r in listed(record.fn(*inputs)) if isinstance(r, mge.Tensor)]
            floats = [r for r in results if is_float(r)]
            gm.backward(floats, [F.cos(r.detach()) for r in floats])
        gradients = [grad_or_zeros(t) for t in attached]
        for t in attached:
            t.grad = None
        return results + gradients

    return run


@pytest.mark.parametrize("record", [pytest.param(r, id=r.name) for r in all_records()])
def test_every_record(record: Record) -> None:
    """The recorded call and those from the record, each with inputs of its own."""
    dtype = "float32" if "float32" in record.dtypes else record.dtypes[0]
    wrt = record.differentiable(record.arrays()) if dtype == "float32" else ()
    plain = value_and_gradients(record, wrt)
    traced = trace(plain, symbolic=True)
    for salt in (0, 1, 2):
        arrays = record.arrays(salt)
        want = plain(*tensor_inputs(record, arrays, dtype))
        same_bits(traced(*tensor_inputs(record, arrays, dtype)), want)


# ---- training ----------------------------------------------------------------------------------


class Network(M.Module):
    """Convolution, batch norm, dropout and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = M.Conv2d(2, 6, 3, padding=1)
        self.norm = M.BatchNorm2d(6)
        self.drop = M.Dropout(0.3)
        self.fc = M.Linear(6, 3)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        x = self.drop(F.relu(self.norm(self.conv(x))))
        return self.fc(F.mean(x, (2, 3)))


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: optim.Adam(p, lr=1e-2),
    "adamw": lambda p: optim.AdamW(p, lr=1e-2),
}


def train(optimizer: str, traced: bool) -> list[np.ndarray[Any, Any]]:
    """Losses of 8 steps, then all parameters and running statistics."""
    mge.random.seed(5)
    net = Network()
    opt = OPTIMIZERS[optimizer](net.parameters())
    gm = GradManager().attach(net.parameters())

    def step(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
        with gm:
            loss = F.loss.cross_entropy(net(x), y)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss

    run = trace(step, symbolic=True) if traced else step
    rng = np.random.default_rng(1)
    out = []
    for i in range(8):
        if i == 5:
            for group in opt.param_groups:
                group["lr"] *= 0.1
        size = 4 if i == 6 else 8  # a last batch that is smaller
        x = T(rng.standard_normal((size, 2, 5, 5)).astype("float32"))
        out.append(run(x, T(rng.integers(0, 3, size).astype("int32"))).numpy())
    return out + [v for _, v in sorted(net.state_dict().items())]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training(optimizer: str) -> None:
    """Weights, statistics, dropout masks, a schedule and an odd batch, bit for bit."""
    for got, want in zip(train(optimizer, True), train(optimizer, False), strict=True):
        np.testing.assert_array_equal(got, want)


def test_gradients_outlive_the_call() -> None:
    w = mge.Parameter([2.0, 3.0])
    gm = GradManager().attach([w])

    @trace
    def f(x: mge.Tensor) -> None:
        with gm:
            gm.backward(F.sum(w * x))

    for k in range(1, 4):
        f(T([float(k), 1.0]))
    np.testing.assert_array_equal(w.grad.numpy(), [6.0, 3.0])  # 1 + 2 + 3


def test_second_order() -> None:
    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        outer = GradManager().attach([x])
        with outer:
            inner = GradManager().attach([x])
            with inner:
                inner.backward(x**3)
            first = x.grad
            x.grad = None
            outer.backward(first)
        return x.grad

    for value in (3.0, 4.0, -1.0):
        np.testing.assert_allclose(f(T([value])).numpy(), [6 * value])


# ---- Python beside the ops -----------------------------------------------------------------------


def test_python_runs_in_each_call() -> None:
    seen: list[float] = []
    factor = [1.0]

    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * factor[0]
        seen.append(F.sum(y).item())
        return y + 1

    for k in range(4):
        factor[0] = float(k)
        assert f(T([1.0, 2.0])).numpy().tolist() == [k + 1.0, 2 * k + 1.0]
    assert seen == [0.0, 3.0, 6.0, 9.0]
    assert len(f.graphs()) == 1


def test_host_reads_in_the_middle() -> None:
    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 2
        z = y + float(y.numpy().max())
        assert repr(z).startswith("Tensor([")
        return z * y

    for v in ([1.0, 2.0], [3.0, -4.0], [0.5, 0.25]):
        y = np.array(v, "float32") * 2
        np.testing.assert_array_equal(f(T(v)).numpy(), (y + y.max()) * y)


def test_branches_are_recorded_on_their_own() -> None:
    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 2
        return y + 1 if F.sum(x).item() > 0 else F.exp(y) - 1

    values = [[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-3.0, 0.0], [2.0, 2.0]]
    for v in values:
        x = np.array(v, "float32")
        want = x * 2 + 1 if x.sum() > 0 else np.exp(x * 2) - 1
        np.testing.assert_allclose(f(T(v)).numpy(), want, rtol=1e-6)
    assert len(f.graphs()) == 2


def test_more_ways_than_are_kept() -> None:
    @trace
    def f(x: mge.Tensor, n: int) -> mge.Tensor:
        for _ in range(n):
            x = x + 1
        return x * 2

    for n in [*range(25), *range(25)]:
        assert f(T([0.0]), n).item() == 2 * n
    assert len(f.graphs()) == 16


def test_other_shapes_and_dtypes() -> None:
    f = trace(lambda x: F.sum(x) / x.shape[0], symbolic=True)
    assert f(T([1.0, 3.0])).item() == 2.0
    assert f(T([2.0, 4.0, 6.0, 8.0])).item() == 5.0
    assert f(T([1.0, 5.0])).item() == 3.0
    assert f(T([1, 5], dtype="int32")).item() == 3.0
    assert len(f.graphs()) == 3


def test_strided_and_other_external_tensors() -> None:
    weight = [T([1.0, 2.0])]
    f = trace(lambda x: x * weight[0])
    base = T(np.arange(8, dtype="float32"))
    for x in (base[:2], base[::4], base[3:1:-1], base[:2]):
        np.testing.assert_array_equal(f(x).numpy(), x.numpy() * weight[0].numpy())
        weight[0] = weight[0] + 1


def test_shapes_that_depend_on_contents() -> None:
    @trace
    def f(x: mge.Tensor) -> tuple[mge.Tensor, mge.Tensor]:
        y = x * 2
        kept = y[y > 2]
        return kept + 1, F.cond_take(x > 1, x)[0]

    for v in ([1.0, 2.0, 3.0], [4.0, 0.0, 5.0], [0.0, 0.0, 0.0], [9.0, 9.0, 9.0], [1.0, 1.5, 3.0]):
        x = np.array(v, "float32")
        kept, taken = f(T(v))
        np.testing.assert_array_equal(kept.numpy(), (x * 2)[x * 2 > 2] + 1)
        np.testing.assert_array_equal(taken.numpy(), x[x > 1])


def test_sizes_that_are_inputs() -> None:
    resize = Resize(imode="linear", format="NCHW")
    f = trace(lambda x, size: apply(resize, x, size)[0] * 2)
    x = F.ones((1, 1, 4, 4))
    for size in ((2, 3), (2, 3), (5, 1), (2, 3)):
        assert f(x, T(size, dtype="int32")).shape == (1, 1, *size)


def test_random_numbers_advance() -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        unused = mge.random.normal(size=(3,))
        del unused
        return F.dropout(x, 0.5) + mge.random.uniform(size=(4,))

    x = F.ones((4,))
    runs = []
    for g in (f, trace(f, symbolic=True)):
        mge.random.seed(3)
        runs.append(np.stack([g(x).numpy() for _ in range(5)]))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert len({r.tobytes() for r in runs[1]}) == 5


def test_in_place_updates() -> None:
    counter, buffer = T([0.0]), T(np.zeros(4, "float32"))

    @trace
    def f(x: mge.Tensor, i: int) -> mge.Tensor:
        counter._reset(counter + 1)
        buffer[i % 4] = F.sum(x)
        x += counter
        return x

    for i in range(6):
        x = T([float(i)])
        assert f(x, i).item() == 2.0 * i + 1
        assert x.item() == 2.0 * i + 1
    assert counter.item() == 6.0
    assert buffer.numpy().tolist() == [4.0, 5.0, 2.0, 3.0]


def test_values_kept_across_calls() -> None:
    kept: list[mge.Tensor] = []

    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 3
        kept.append(y)
        before = kept[-2] if len(kept) > 1 else x
        return y + before

    assert [f(T([float(k)])).item() for k in range(1, 5)] == [4.0, 9.0, 15.0, 21.0]
    assert [t.item() for t in kept] == [3.0, 6.0, 9.0, 12.0]


def test_structures_and_keywords() -> None:
    @trace(symbolic=True)
    def f(
        pair: tuple[mge.Tensor, mge.Tensor], *, scale: mge.Tensor, names: dict[str, Any]
    ) -> dict[str, Any]:
        return {"sum": pair[0] + pair[1] * scale, "rest": [names["a"], 7]}

    for k in (1.0, 2.0, 3.0):
        out = f((T([k]), T([1.0])), scale=T([k]), names={"a": T([5.0 * k])})
        assert out["sum"].item() == 2 * k
        assert out["rest"][0].item() == 5 * k
        assert out["rest"][1] == 7


def test_methods() -> None:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = T([k])

        @trace
        def run(self, x: mge.Tensor) -> mge.Tensor:
            """Doc."""
            return x * self.k

    a, b = Scale(2.0), Scale(5.0)
    for _ in range(3):
        assert a.run(T([3.0])).item() == 6.0
        assert b.run(T([3.0])).item() == 15.0
    assert Scale.run.__doc__ == "Doc."


def test_a_traced_function_inside_another() -> None:
    inner = trace(lambda x: x * 2)
    outer = trace(lambda x: inner(x) + 1)
    assert [outer(T([k])).item() for k in (1.0, 2.0, 3.0)] == [3.0, 5.0, 7.0]
    assert inner(T([4.0])).item() == 8.0


def test_exclude_from_trace() -> None:
    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 2
        with exclude_from_trace():
            z = y + 1 if y.item() > 2 else y - 1
        return z * y

    assert [f(T([k])).item() for k in (1.0, 2.0, 3.0)] == [2.0, 20.0, 42.0]
    assert len(f.graphs()) == 1
    with exclude_from_trace():  # nothing to take out
        assert (T([1.0]) + 1).item() == 2.0


# ---- what fails ----------------------------------------------------------------------------------


def test_an_exception_leaves_the_trace_usable() -> None:
    fail = [False]

    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x * 2
        if fail[0]:
            raise KeyError("from the function")
        return y + 1

    for failing in (True, False, True, False, True):
        fail[0] = failing
        if failing:
            with pytest.raises(KeyError, match="from the function"):
                f(T([1.0]))
        else:
            assert f(T([1.0])).item() == 3.0
    assert (T([1.0]) + 1).item() == 2.0


def test_errors_of_ops_surface() -> None:
    @trace
    def f(x: mge.Tensor, i: mge.Tensor) -> mge.Tensor:
        return x[i] * 2

    x = T([1.0, 2.0, 3.0])
    for good in ([0, 2], [1, 1]):
        np.testing.assert_array_equal(f(x, T(good, dtype="int32")).numpy(), x.numpy()[good] * 2)
    with pytest.raises(IndexError, match="7"):
        f(x, T([0, 7], dtype="int32"))
    assert f(x, T([2, 0], dtype="int32")).numpy().tolist() == [6.0, 2.0]


def test_a_value_that_was_lost_says_so() -> None:
    lost: list[mge.Tensor] = []

    @trace
    def f(x: mge.Tensor, i: mge.Tensor) -> mge.Tensor:
        y = x[i]
        lost.append(y)
        return y + 1

    x = T([1.0, 2.0])
    f(x, T([0], dtype="int32"))
    with pytest.raises(IndexError):
        f(x, T([5], dtype="int32"))
    with pytest.raises(RuntimeError, match="trace: expected a value that was computed"):
        lost[-1].numpy()


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="trace: expected a function, got int"):
        trace(3)
    with pytest.raises(TypeError):
        trace(lambda x: x, bogus=1)
    with pytest.raises(ValueError, match="opt_level of 0 to 4, got 7"):
        trace(lambda x: x, opt_level=7)
    with pytest.raises(TypeError, match=r"Dropout: expected a Tensor, got numpy\.ndarray"):
        trace(lambda x: F.dropout(x, 0.5))(np.ones(2, "float32"))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        trace(lambda x: x)(loop)


def test_settings_are_taken() -> None:
    f = trace(
        lambda x: x + 1,
        symbolic=True,
        capture_as_const=True,
        sublinear_memory_config=SublinearMemoryConfig(lb_memory_mb=1),
        dtr_config=DTRConfig(eviction_threshold="1GB"),
        opt_level=3,
        graph_opt_config=GraphOptimizationConfig(),
        symbolic_shape=False,
        without_host=True,
    )
    assert [f(T([k])).item() for k in (1.0, 2.0)] == [2.0, 3.0]
    assert f.without_host
    assert f.__wrapped__(T([5.0])).item() == 6.0
    record_only = trace(lambda x: x + 1, record_only=True)
    assert [record_only(T([k])).item() for k in (1.0, 2.0)] == [2.0, 3.0]
    assert len(record_only.graphs()) == 1


# ---- memory and threads --------------------------------------------------------------------------


def test_nothing_is_kept_between_calls() -> None:
    f = trace(lambda x: F.sum(F.exp(x * 2) + F.exp(x * 3)))
    x = mge.random.normal(size=(1 << 18,))
    f(x), f(x)
    gc.collect()
    before = mge.device.get_allocated_memory()
    for _ in range(20):
        f(x)
    gc.collect()
    assert mge.device.get_allocated_memory() <= before + (1 << 12)


def test_dead_code_and_common_subexpressions_do_not_run() -> None:
    """Both would need more memory than there is."""
    x = F.ones((1 << 10, 1))

    @trace
    def f(x: mge.Tensor, big: bool) -> mge.Tensor:
        y = F.exp(x)
        unused = F.broadcast_to(y, (1 << 10, 1 << 10)) * 2
        del unused
        return F.exp(x) + y

    f(x, False)
    mge.device.reset_max_memory_stats("xpux")
    before = mge.device.get_max_allocated_memory()
    f(x, False)
    assert mge.device.get_max_allocated_memory() - before < 1 << 20


def test_threads_trace_on_their_own() -> None:
    f = trace(lambda x: F.sum(x * 2) + 1)
    failures: list[BaseException] = []

    def work(k: float) -> None:
        try:
            for _ in range(50):
                assert f(T([k, k])).item() == 4 * k + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
