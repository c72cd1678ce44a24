"""What a program sees of a traced function is what it sees of the plain one."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import Function, GradManager
from megengine.functional.inplace import _inplace_add_
from megengine.jit import TraceError, exclude_from_trace, trace
from megengine.jit.recording import record

T = mge.tensor


def plain(value: Any) -> Any:
    """A result with arrays as lists, for comparison."""
    if isinstance(value, mge.Tensor):
        return str(value.dtype), value.numpy().tolist()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, list | tuple):
        return type(value), [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def agree(function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """Each call of the traced function returns, or raises, what the plain one does."""
    traced = trace(function, symbolic=True)

    def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        mge.random.seed(7)
        try:
            return plain(f(*args))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return type(error)

    for args in calls * 3:
        assert outcome(traced, args) == outcome(function, args), args


ONE, TWO, ROW = T([1.0]), T([2.0]), T([[1.0, 2.0, 3.0]])


# ---- arguments and results -----------------------------------------------------------------------


def test_numbers_arrays_and_nothing_as_arguments() -> None:
    agree(lambda x, k: x * k, (ONE, 1), (ONE, 2), (TWO, 2.5), (TWO, True), (ROW, 2))
    agree(lambda x, k: x * k, (ONE, np.array([2.0], "float32")), (ONE, np.array([3.0], "float32")))
    agree(lambda x, k: x * T(k), (ONE, np.ones((2, 1), "float32")), (ONE, np.ones(3, "float32")))
    agree(lambda x, y=None: x if y is None else x + y, (ONE,), (ONE, TWO), (ONE, None))
    agree(lambda k: T(k) + 1, (1.0,), (2.0,), ([1, 2],))


def test_nested_arguments() -> None:
    agree(lambda d: d["a"][0] + d["b"], ({"a": [ONE], "b": TWO},), ({"a": [TWO], "b": TWO},))
    agree(lambda d: sum(d.values()), ({"a": ONE},), ({"a": ONE, "b": TWO},), ({1: ONE, None: TWO},))
    agree(lambda *xs: sum(xs), (ONE, TWO), (ONE, TWO, ROW), (ONE,))
    agree(lambda xs: xs[0] + len(xs), ([ONE],), ([ONE, TWO],), ((ONE, TWO),))


def test_results_of_any_kind() -> None:
    agree(lambda x: {"a": x + 1, "b": [x, 3, None, "s"], "t": (x,)}, (ONE,), (TWO,))
    for result in (None, 3, "text", np.ones(2), [], (), {}):
        agree(lambda x, r=result: r, (ONE,), (TWO,))
    agree(lambda x, n: [x + 1] * n, (ONE, 1), (ONE, 3), (ONE, 0))
    f = trace(lambda x: x, symbolic=True)
    for x in (ONE, TWO, ONE):
        assert f(x) is x


def test_one_tensor_as_two_arguments() -> None:
    agree(lambda x, y: x * 2 + y, (ONE, TWO), (ONE, ONE), (TWO, TWO), (TWO, ONE))


def test_keyword_only_and_defaults() -> None:
    f = trace(lambda x, y=None, *, z=2: x * z if y is None else x * y * z)
    for _ in range(2):
        assert f(ONE).item() == 2.0
        assert f(ONE, y=TWO).item() == 4.0
        assert f(ONE, TWO, z=T([3.0])).item() == 6.0
        assert f(x=TWO, z=1).item() == 2.0
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        f(ONE, w=1)


def test_dtypes_and_shapes_change() -> None:
    half, whole = T([1.5], dtype="float16"), T([3], dtype="int32")
    agree(lambda x: (x + 1) / 2, (ONE,), (half,), (whole,), (ROW,), (T(1.0),), (F.zeros((0, 3)),))
    agree(lambda x: F.sum(x) / x.shape[0], (ONE,), (F.ones((4, 2)),), (F.ones((3,)),))


# ---- values that the code looks at --------------------------------------------------------------


def test_values_decide() -> None:
    agree(lambda x: x + 1 if x > 0 else x - 1, (T(1.0),), (T(-1.0),), (T(0.0),))
    agree(lambda x: x * x.item(), (ONE,), (TWO,), (ROW,))
    agree(lambda x: T(x.numpy() * 2) + x, (ONE,), (TWO,), (ROW,))
    agree(lambda x: [float(v) for v in x * 2], (ROW[0],), (ROW[0] + 1,))
    agree(lambda x: x.reshape(-1)[: int(F.sum(x * 0 + 1))], (ROW,), (F.ones((2, 2)),))

    def until_large(x: mge.Tensor) -> mge.Tensor:
        while F.max(x) < 50:
            x = x * 2
        return x

    agree(until_large, (ONE,), (T([30.0]),), (T([49.0]),), (ROW,))


def test_printing_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: mge.Tensor) -> mge.Tensor:
        y = x + 1
        print("y is", y)
        return y * 2

    traced = trace(f, symbolic=True)
    for x in (ONE, TWO, ONE):
        traced(x)
    assert capsys.readouterr().out.splitlines() == [
        "y is Tensor([2.], device=xpux:0)",
        "y is Tensor([3.], device=xpux:0)",
        "y is Tensor([2.], device=xpux:0)",
    ]


def test_shapes_that_depend_on_contents() -> None:
    def pick(x: mge.Tensor, threshold: mge.Tensor) -> tuple[mge.Tensor, ...]:
        scaled = x * 2
        kept, where = F.cond_take(scaled > threshold, scaled)
        return kept + 1, where, F.non_zero(scaled > threshold)[0] if scaled.ndim > 1 else kept

    x = T([[1.0, 2.0, 3.0], [4.0, 0.0, 5.0]])
    agree(pick, (x, T(2.0)), (x, T(20.0)), (x, T(0.0)), (x + 3, T(8.0)), (x[0], T(3.0)))


def test_outside_tensors_that_come_with_a_changing_shape() -> None:
    """The first op of the record that meets them is the one that leaves it."""
    masks, values = [], []

    def f(x: mge.Tensor) -> tuple[mge.Tensor, ...]:
        y = x * 2
        kept, _ = F.cond_take(masks[-1], values[-1])
        return F.sum(kept * y), values[-1] * y, y + 1

    traced = trace(f)
    for k in range(6):
        masks.append(T([True, k % 2 == 0, k % 3 == 0]))
        values.append(T([1.0 + k, 2.0, 3.0]))
        for _ in range(2):
            assert plain(traced(TWO)) == plain(f(TWO))


def test_boxes_that_survive() -> None:
    rng = np.random.default_rng(0)
    boxes = [T((rng.random((8, 4)) * 10 + [0, 0, 10, 10]).astype("float32")) for _ in range(4)]
    scores = [T(rng.random(8).astype("float32")) for _ in range(4)]

    def f(b: mge.Tensor, s: mge.Tensor) -> tuple[mge.Tensor, mge.Tensor]:
        keep = F.vision.nms(b * 1.0, s, 0.5)
        return b[keep] * 2, s[keep]

    agree(f, *zip(boxes, scores, strict=True))


# ---- random numbers ------------------------------------------------------------------------------


def test_seeds_inside() -> None:
    def f(k: int) -> list[mge.Tensor]:
        mge.random.seed(k)
        a = mge.random.uniform(size=(3,))
        mge.random.seed(k)
        b = mge.random.uniform(size=(3,)) + 0
        state = mge.random.get_rng_state()
        c = mge.random.normal(size=(2,))
        mge.random.set_rng_state(state)
        return [a, b, c, mge.random.normal(size=(2,))]

    agree(f, (1,), (2,), (1,))
    a, b, c, d = trace(f)(3)
    assert plain(a) == plain(b)
    assert plain(c) == plain(d)


def test_generators_of_their_own() -> None:
    def f(x: mge.Tensor, seed: int) -> mge.Tensor:
        own = mge.random.RNG(seed=seed)
        return x + own.uniform(size=(3,)) + mge.random.uniform(size=(3,)) + own.normal(size=(3,))

    agree(f, (ONE, 1), (ONE, 2), (TWO, 1))


def test_detached_values_stay_pending() -> None:
    """detach() in the middle does not end a stretch: the program is one."""
    f = trace(lambda x: F.exp(x * 2).detach() + 1, profiling=True)
    for x in (ONE, TWO):
        np.testing.assert_allclose(f(x).numpy(), np.exp(x.numpy() * 2) + 1, rtol=1e-6)

    def held(x: mge.Tensor) -> list[Any]:
        w = mge.Parameter([3.0])
        gm = GradManager().attach([w])
        with gm:
            y = w * x
            gm.backward(F.sum(y * y.detach()))
        return [y.detach(), w.grad]

    agree(held, (ONE,), (TWO,), (ROW,))


def test_draws_inside_and_outside_of_the_trace() -> None:
    def f(x: mge.Tensor) -> list[mge.Tensor]:
        a = F.dropout(x, 0.5)
        with exclude_from_trace():
            b = F.dropout(x, 0.5)
        return [a, b, F.dropout(x, 0.5)]

    agree(f, (F.ones((16,)),), (F.ones((16,)) * 3,))


# ---- changes in place ----------------------------------------------------------------------------


def test_assignment_into_an_argument() -> None:
    def f(x: mge.Tensor, v: float) -> mge.Tensor:
        x = x + 0
        x[0] = v
        x[..., 1:] *= 2
        return x

    agree(f, (ROW[0], 5.0), (ROW[0], 7.0), (F.ones((4, 2)), 3.0))


def test_inplace_add() -> None:
    def run(traced: bool) -> list[Any]:
        total = T([0.0, 0.0])

        def f(x: mge.Tensor) -> mge.Tensor:
            _inplace_add_(total, x, alpha=T(0.5), beta=T(2.0))
            return total * 2

        g = trace(f) if traced else f
        return [plain([g(T([float(k), 1.0])), total]) for k in range(5)]

    assert run(True) == run(False)


# ---- gradients -----------------------------------------------------------------------------------


class Halved(Function):
    """The identity with half of the gradient."""

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        self.scale = x * 0 + 0.5
        return x + 0

    def backward(self, dy: mge.Tensor) -> mge.Tensor:
        return dy * self.scale


def test_grad_managers_inside_outside_and_around() -> None:
    def run(traced: bool) -> list[Any]:
        w = mge.Parameter([2.0, 3.0])
        outside = GradManager().attach([w])

        def inside(x: mge.Tensor) -> mge.Tensor:
            gm = GradManager().attach([w])
            with gm:
                gm.backward(F.sum(w * w * x))
            return w.grad * 1

        def with_the_one_outside(x: mge.Tensor) -> mge.Tensor:
            with outside:
                outside.backward(F.sum(Halved()(w * x)))
            return w.grad * 1

        def forward(x: mge.Tensor) -> mge.Tensor:
            return F.sum(F.exp(w * x))

        wrap = trace if traced else lambda f: f
        out = []
        a, b, c = wrap(inside), wrap(with_the_one_outside), wrap(forward)
        for k in range(4):
            x = T([0.1 * k, 0.2])
            out.append(plain(a(x)))
            out.append(plain(b(x)))  # adds to the gradient
            w.grad = None
            with outside:
                outside.backward(c(x))
            out.append(plain(w.grad))
            w.grad = None
        return out

    assert run(True) == run(False)


def test_second_order_through_a_network() -> None:
    """A penalty on the norm of a gradient."""

    def run(traced: bool) -> list[Any]:
        mge.random.seed(1)
        net = M.Sequential(M.Linear(3, 4), M.Sigmoid(), M.Linear(4, 1))
        gm = GradManager().attach(net.parameters())
        opt = optim.SGD(net.parameters(), lr=0.05)

        def step(x: mge.Tensor) -> mge.Tensor:
            with gm:
                inner = GradManager().attach([x])
                with inner:
                    y = F.sum(net(x))
                    inner.backward(y)
                penalty = F.mean((F.norm(x.grad, axis=1) - 1) ** 2)
                x.grad = None
                gm.backward(penalty)
            opt.step().clear_grad()
            return penalty

        g = trace(step) if traced else step
        rng = np.random.default_rng(3)
        data = [T(rng.standard_normal((5, 3)).astype("float32")) for _ in range(6)]
        return [g(x).item() for x in data] + [plain(p) for p in net.parameters()]

    assert run(True) == run(False)


def test_hooks() -> None:
    def run(traced: bool) -> list[Any]:
        seen: list[Any] = []
        layer = M.Linear(2, 2)
        layer.weight[...] = T([[1.0, 2.0], [3.0, 4.0]])
        layer.register_forward_pre_hook(lambda m, xs: (xs[0] * 2,))
        layer.register_forward_hook(lambda m, xs, y: seen.append(y.numpy().tolist()) or y + 1)
        gm = GradManager()
        gm.attach(layer.parameters(), callbacks=[lambda p, g: g * 0.5])

        def step(x: mge.Tensor) -> mge.Tensor:
            with gm:
                y = layer(x)
                gm.backward(F.sum(y * y))
            grads = [p.grad for p in layer.parameters()]
            gm.attached_tensors()
            return F.sum(y) + F.sum(grads[1])

        g = trace(step) if traced else step
        out = []
        for k in range(4):
            out.append(g(T([[1.0, float(k)]])).item())
            out.append([plain(p.grad) for p in layer.parameters()])
            for p in layer.parameters():
                p.grad = None
        return [out, seen]

    assert run(True) == run(False)


# ---- calls within calls --------------------------------------------------------------------------


def test_recursion() -> None:
    f: Any = None

    def power(x: mge.Tensor, n: int) -> mge.Tensor:
        return x * 0 + 1 if n == 0 else f(x, n - 1) * x

    f = trace(power)
    for n in (3, 5, 3, 0):
        assert f(TWO, n).item() == 2.0**n


def test_generators() -> None:
    def numbers(x: mge.Tensor) -> Iterator[mge.Tensor]:
        yield x + 1
        yield x * 3

    def f(x: mge.Tensor) -> mge.Tensor:
        return sum(numbers(x))

    agree(f, (ONE,), (TWO,))
    lazy = trace(numbers)
    for _ in range(3):
        assert [t.item() for t in lazy(TWO)] == [3.0, 6.0]


def test_a_traced_function_where_the_trace_is_paused() -> None:
    inner = trace(lambda x: x * 3)

    def f(x: mge.Tensor) -> mge.Tensor:
        y = x + 1
        with exclude_from_trace():
            z = inner(y)
        return z + y

    agree(f, (ONE,), (TWO,))
    assert inner(TWO).item() == 6.0


def test_records_for_dumps_do_not_nest() -> None:
    f = trace(lambda x: record(lambda y: y + 1, x).result)
    with pytest.raises(TraceError, match="runs on this thread already; call this outside of it"):
        f(ONE)
    assert (ONE + 1).item() == 2.0


def test_modules_and_methods() -> None:
    class Net(M.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = M.Linear(2, 2)

        @trace(symbolic=True)
        def forward(self, x: mge.Tensor) -> mge.Tensor:
            return self.layer(x)

    net = Net()
    x = T([[1.0, 2.0]])
    for f in (net, trace(net.layer), trace(net.layer.forward)):
        for _ in range(3):
            np.testing.assert_array_equal(f(x).numpy(), net.layer(x).numpy())
    assert trace(net.layer.forward).__name__ == "forward"


def doubled(x: mge.Tensor) -> mge.Tensor:
    return x * 2


def test_copies_have_records_of_their_own() -> None:
    f = trace(doubled, symbolic=True, profiling=True)
    f(ONE)
    for g in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert g.graphs() == []
        assert [g(T([k])).item() for k in (1.0, 2.0)] == [2.0, 4.0]
        assert g.get_profile()["graph_exec"]["comp_seq"] == ["0"]
        assert g.__name__ == "doubled"
    assert len(f.graphs()) == 1


def test_copies_of_a_module_with_a_traced_forward() -> None:
    net = M.Linear(2, 1)
    net.forward = trace(net.forward)
    x = F.ones((1, 2))
    before = net(x).item()
    average = copy.deepcopy(net)
    average.weight[...] = 0
    average.bias[...] = 3
    assert [average(x).item(), net(x).item()] == [3.0, before]


# ---- errors --------------------------------------------------------------------------------------


def test_errors_say_where_the_op_was_called() -> None:
    @trace
    def f(x: mge.Tensor, i: mge.Tensor) -> mge.Tensor:
        y = x * 2
        z = y[i]  # this line
        return z + 1

    x = T([1.0, 2.0])
    f(x, T([0], dtype="int32"))
    line = f.__wrapped__.__code__.co_firstlineno + 3
    with pytest.raises(IndexError, match=rf"9.*\(called at .*test_semantics\.py:{line}\)"):
        f(x, T([9], dtype="int32"))


def test_the_error_of_an_op_comes_before_a_later_one() -> None:
    @trace
    def f(x: mge.Tensor, i: mge.Tensor, fails: bool) -> mge.Tensor:
        y = x[i]
        if fails:
            raise KeyError("later")
        return y

    x = T([1.0, 2.0])
    f(x, T([0], dtype="int32"), False)
    with pytest.raises(IndexError) as caught:
        f(x, T([5], dtype="int32"), True)
    assert isinstance(caught.value.__context__, KeyError)
    with pytest.raises(KeyError, match="later"):
        f(x, T([1], dtype="int32"), True)
    assert f(x, T([1], dtype="int32"), False).item() == 2.0


def test_shapes_that_do_not_fit_raise_at_once() -> None:
    def f(x: mge.Tensor, y: mge.Tensor) -> mge.Tensor:
        try:
            return x * 2 + y
        except ValueError:
            return x - 1

    agree(f, (ROW, ROW), (ROW, F.ones((2, 5))), (ROW, ROW))


# ---- threads -------------------------------------------------------------------------------------


def test_other_threads_go_on_while_kernels_run() -> None:
    a = mge.random.normal(size=(700, 700))

    @trace
    def f(x: mge.Tensor) -> mge.Tensor:
        for _ in range(30):
            x = F.matmul(x, a) * 0.01
        return F.sum(x)

    f(a)
    ticks = [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for read in (False, True):  # the kernels run at the end of the call, or where it reads
            g = trace(lambda x, r=read: f(x).item() if r else f(x))
            g(a)
            before = ticks[0]
            start = time.perf_counter()
            g(a)
            took = time.perf_counter() - start
            # With the lock held there would be none at all between the two.
            assert ticks[0] - before >= min(5, took / 0.02)
    finally:
        stop.set()
        thread.join()


def test_a_pending_value_on_another_thread() -> None:
    @trace
    def f(x: mge.Tensor) -> list[Any]:
        y = x * 2
        caught: list[Any] = []

        def read() -> None:
            try:
                caught.append(y.numpy().tolist())
            except TraceError as error:
                caught.append(str(error))

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        return [*caught, y]

    assert f(ONE)[0] == [2.0]  # the recorded call computes as it goes
    text, value = f(ONE)
    assert "runs on another thread; there, read it before it is handed on" in text
    assert value.item() == 2.0


def test_threads_share_parameters() -> None:
    layer = M.Linear(4, 4)
    f = trace(lambda x: F.sum(layer(F.relu(layer(x))) ** 2).item())
    want = {k: F.sum(layer(F.relu(layer(F.ones((2, 4)) * k))) ** 2).item() for k in range(4)}
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(100):
            got = f(F.ones((2, 4)) * k)
            if got != want[k]:
                wrong.append((k, got))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(f.graphs()) <= 16
