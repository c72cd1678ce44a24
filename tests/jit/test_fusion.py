"""What optimized graphs fuse: the same results as eager, from fewer ops."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.jit import trace
from megengine.jit.recording import record
from megengine.tensor import Tensor

T = mge.tensor
Array = np.ndarray


def kinds(text: str) -> list[str]:
    """The names of the ops of a graph's text, in order."""
    return re.findall(r"^%[%\d, ]* = (\w+)\(", text, re.MULTILINE)


def optimized(fn: Callable[..., object], *args: Tensor) -> str:
    return record(fn, *args).compile().optimized().text()


def as_list(result: object) -> list[Tensor]:
    return list(result) if isinstance(result, list | tuple) else [result]  # type: ignore[list-item]


def assert_same_bits(got: Sequence[Tensor], want: Sequence[Tensor]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        a, b = g.numpy(), w.numpy()
        if a.dtype.kind == "f":  # a NaN is one whatever its bits
            assert (np.isnan(a) == np.isnan(b)).all()
            a, b = np.where(np.isnan(a), 0, a), np.where(np.isnan(b), 0, b)
        assert a.tobytes() == b.tobytes()


def check_bits(fn: Callable[..., object], *args: Tensor) -> str:
    """Runs the program twice beside the function; returns what it runs."""
    program = record(fn, *args).compile()
    want = as_list(fn(*args))
    for _ in range(2):
        assert_same_bits(program(*args), want)
    return program.optimized().text()


# ---- chains of elementwise ops -------------------------------------------------------------------


def test_a_chain_is_one_op() -> None:
    x = T(np.random.default_rng(0).normal(size=(4, 5)).astype("float32"))
    text = check_bits(lambda x: F.tanh(x * 2 + 1) * x - F.abs(x), x)
    assert text == (
        "%0 = input : float32 (4, 5)\n"
        "%1 = constant 2 : float32 ()\n"
        "%3 = constant 1 : float32 ()\n"
        "%8 = FusedElementwise(program='float32 x0, float32 x1, float32 x2: t0 = MUL(x0, x1); "
        "t1 = ADD(t0, x2); t2 = TANH(t1); t3 = MUL(t2, x0); t4 = ABS(x0); t5 = SUB(t3, t4) "
        "-> t5')(%0, %1, %3) : float32 (4, 5)\n"
        "return %8\n"
    )


def test_several_results_masks_and_conversions() -> None:
    x = T(np.random.default_rng(0).normal(size=(3, 70)).astype("float32"))

    def fn(x: Tensor) -> tuple[Tensor, ...]:
        y = F.relu(x)
        positive = y > 0.5
        return y, F.where(positive, x * x, -x), positive, (y * 3).astype("int32") + 1

    text = check_bits(fn, x)
    assert kinds(text) == ["FusedElementwise"]
    assert "LT(" in text
    assert "WHERE(" in text
    assert "= int32(" in text


@pytest.mark.parametrize("n", [0, 1, 2, 63, 1000, 100_003])
def test_sizes(n: int) -> None:
    x = T(np.random.default_rng(n).normal(size=n).astype("float32"))
    assert kinds(check_bits(lambda x: F.exp(x) * 0.5 + x, x)) == ["FusedElementwise"]


def test_scalars_and_powers() -> None:
    for x in (T(np.float32(1.7)), T(np.linspace(0.1, 3, 50, dtype="float32"))):
        for exponent in (2, 3, 0.5, -1, 2.7):
            assert len(kinds(check_bits(lambda x, e=exponent: (x + 1) ** e * 2, x))) == 1
    # The exponent of one element is not known before the op runs: it takes a way of its own.
    text = check_bits(lambda x: (x * 2 - 1) ** (x + 1), T(np.float32(1.7)))
    assert "POW" not in "".join(re.findall("program='.*?'", text))


# ---- reductions of chains ------------------------------------------------------------------------


def reduced(fn: Callable[..., Tensor], *args: Tensor) -> list[str]:
    """Runs the program beside the function; the names of the ops that it runs."""
    program = record(fn, *args).compile()
    want = fn(*args)
    for _ in range(2):
        (got,) = program(*args)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    return kinds(program.optimized().text())


def test_a_reduction_takes_the_chain_before_it() -> None:
    rng = np.random.default_rng(0)
    x, y = (T(rng.normal(size=(1030, 1024)).astype("float32")) for _ in range(2))
    row = y[:1]
    assert reduced(lambda x, y: F.mean((x - y) ** 2), x, y) == ["FusedReduce"]
    assert reduced(lambda x: F.sum(F.exp(x)), x) == ["FusedReduce"]
    assert reduced(lambda x, r: F.sum(x * r, axis=0), x, row) == ["FusedReduce"]
    assert reduced(lambda x, r: F.max(F.abs(x - r), axis=1, keepdims=True), x, row) == [
        "FusedReduce"
    ]
    assert reduced(lambda x: F.sum((x > 0.3).astype("int32")), x) == ["FusedReduce"]
    assert reduced(lambda x: F.mean(F.transpose(x, (1, 0)) * 2, axis=0), x)[-1] == "FusedReduce"


def test_a_reduction_stays_apart_where_that_is_quicker_or_must_be() -> None:
    rng = np.random.default_rng(0)
    x = T(rng.normal(size=(1030, 1024)).astype("float32"))
    small = T(rng.normal(size=(100, 100)).astype("float32"))
    assert reduced(lambda x: F.sum(F.exp(x)), small) == ["Elemwise", "Reduce"]
    assert reduced(lambda x: F.sum(F.exp(x * 2)), small) == ["FusedElementwise", "Reduce"]
    few = x.reshape(10, -1)
    assert reduced(lambda x: F.sum(F.exp(x * 2), axis=0), few) == ["FusedElementwise", "Reduce"]

    def used_twice(x: Tensor) -> list[Tensor]:
        y = F.exp(x * 2)
        return [y, F.sum(y)]

    assert kinds(optimized(used_twice, x)) == ["FusedElementwise", "Reduce"]
    wide = x.astype("float16")
    assert "FusedReduce" not in reduced(lambda x: F.sum(x * 2, axis=1), wide)


def test_sums_of_a_chain_do_not_depend_on_threads() -> None:
    x = T(np.random.default_rng(0).normal(size=(1030, 1024)).astype("float32"))
    program = record(lambda x: (F.sum(F.exp(x)), F.sum(x * x, axis=0)), x).compile()
    assert kinds(program.optimized().text()) == ["FusedReduce", "FusedReduce"]
    before = device.get_num_threads()
    try:
        device.set_num_threads(1)
        want = program(x)
        device.set_num_threads(3)
        assert_same_bits(program(x), want)
    finally:
        device.set_num_threads(before)


BIG = 1 << 23  # a result of 32 MiB is written past the caches


def test_large_results() -> None:
    x = T(np.random.default_rng(0).random(BIG, dtype="float32"))
    check_bits(lambda x: (x * 2 + 1, x - 3), x)


def layouts(rng: np.random.Generator, dtype: str) -> dict[str, list[Tensor]]:
    """Operands that broadcast to (2, 6, 20, 30), in many formats."""

    def make(*shape: int) -> Tensor:
        values = rng.normal(size=shape) * 3
        return T(values, dtype=dtype)

    shape = (2, 6, 20, 30)
    return {
        "plain": [make(*shape), make(*shape)],
        "channels_last": [make(2, 20, 30, 6).transpose(0, 3, 1, 2), make(1, 6, 1, 1)],
        "mixed": [make(*shape), make(2, 20, 30, 6).transpose(0, 3, 1, 2)],
        "transposed": [make(30, 20, 6, 2).transpose(3, 2, 1, 0), make(*shape)],
        "sliced": [make(2, 6, 40, 60)[:, :, ::2, ::2], make(2, 6, 20, 60)[:, :, :, 10:40]],
        "reversed": [make(*shape)[:, :, ::-1, ::-1], make(*shape)],
        "rows": [make(*shape), make(30)],
        "columns": [make(*shape), make(20, 1)],
        "outer": [make(2, 6, 20, 1), make(1, 1, 30)],
        "channels": [make(*shape), make(6, 1, 1)],
        "scalar": [make(*shape), make()],
        "ones": [make(*shape), make(1, 1, 1, 1)],
        "broadcast": [F.broadcast_to(make(1, 6, 1, 30), shape), make(*shape)],
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("layout", list(layouts(np.random.default_rng(0), "int32")))
def test_layouts(layout: str, dtype: str) -> None:
    x, y = layouts(np.random.default_rng(1), dtype)[layout]
    one = T(1, dtype=dtype)

    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = F.maximum(x + y, one) * y
        b = F.where(a < a * y - x, a, y)
        return a, b, a - b

    assert kinds(check_bits(fn, x, y)) == ["FusedElementwise"]


def test_large_strided_operands() -> None:
    """Large enough to be cut among threads, and for transposes to go first."""
    rng = np.random.default_rng(0)
    x = T(rng.normal(size=(8, 64, 40, 42)).astype("float32"))
    last = T(rng.normal(size=(8, 40, 42, 64)).astype("float32")).transpose(0, 3, 1, 2)
    bias = T(rng.normal(size=(1, 64, 1, 1)).astype("float32"))
    for a, b in ((x, last), (last, x)):
        text = check_bits(lambda a, b: F.relu(a * bias + b) * (a - b), a, b)
        assert kinds(text) == ["FusedElementwise"]


UNARY = ["RELU", "ABS", "NEGATE", "EXP", "TANH", "SIGMOID", "SQUARE", "FLOOR", "GELU", "SQRT"]
BINARY = ["ADD", "SUB", "MUL", "MAX", "MIN", "TRUE_DIV", "SWITCH_GT0", "FUSE_ADD_RELU"]
SHAPES: list[tuple[int, ...]] = [(4, 6, 400), (1, 6, 1), (400,), (), (4, 1, 400), (6, 400)]


def random_dag(seed: int) -> tuple[Callable[..., list[Tensor]], list[Tensor]]:
    """Some twenty ops on values of several shapes, a third of which are results."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["float32", "float64", "int32"]))
    shapes = [SHAPES[0], *(SHAPES[i] for i in rng.integers(0, len(SHAPES), 3))]
    inputs = [T(rng.normal(size=s) * 2, dtype=dtype) for s in shapes]
    if rng.random() < 0.3:
        inputs[0] = T(rng.normal(size=(400, 6, 4)) * 2, dtype=dtype).transpose(2, 1, 0)
    integers = dtype == "int32"
    unary = [m for m in UNARY if not integers or m in ("RELU", "ABS", "NEGATE", "SQUARE", "FLOOR")]
    binary = [m for m in BINARY if not integers or m != "TRUE_DIV"]
    steps = []
    for n in range(4, 24):
        which = rng.random()
        i, j, k = (int(i) for i in rng.integers(max(0, n - 8), n, 3))
        if which < 0.35:
            steps.append((str(rng.choice(unary)), (i,)))
        elif which < 0.8:
            steps.append((str(rng.choice(binary)), (i, j)))
        else:
            steps.append(("where", (i, j, k)))
    wanted = [n for n in range(4, 24) if rng.random() < 0.3] + [23]

    def fn(*inputs: Tensor) -> list[Tensor]:
        values = list(inputs)
        for mode, operands in steps:
            x = [values[i] for i in operands]
            if mode == "where":
                values.append(F.where(x[0] < x[1], x[1], x[2] + x[0]))
            else:
                values.append(apply(builtin.Elemwise(mode=mode), *x)[0])
        return [values[n] for n in wanted]

    return fn, inputs


@pytest.mark.parametrize("seed", range(60))
def test_random_dags(seed: int) -> None:
    fn, inputs = random_dag(seed)
    text = check_bits(fn, *inputs)
    assert "FusedElementwise" in kinds(text)


def test_buffers_are_reused_only_after_their_last_use() -> None:
    """A result may take an input's buffer; the input is read again after the result is made."""

    def fn(x: Tensor) -> tuple[Tensor, ...]:
        h = F.matmul(x, x)  # a value of the program's own, which nobody else holds
        a = h * 2
        return a, a + h, a * (h - 1)

    x = T(np.random.default_rng(0).normal(size=(300, 300)).astype("float32"))
    text = check_bits(fn, x)
    assert kinds(text) == ["MatrixMul", "FusedElementwise"]


# ---- what does not fuse --------------------------------------------------------------------------

EYE = T(np.eye(8, dtype="float32"))


def test_no_group_around_another_op() -> None:
    """x + 1 is needed by the product, which the last sum needs: they cannot be one op."""

    def fn(x: Tensor) -> Tensor:
        y = x + 1
        return F.matmul(y, EYE) + y

    x = T(np.ones((8, 8), "float32"))
    assert kinds(check_bits(fn, x)) == ["Elemwise", "MatrixMul", "Elemwise"]

    def longer(x: Tensor) -> Tensor:
        y = F.relu(x + 1)
        z = F.abs(y * 2 - 3)
        return F.tanh((F.matmul(y, EYE) + z) * 3)

    want = ["FusedElementwise", "MatrixMul", "FusedElementwise"]
    assert kinds(check_bits(longer, x)) == want


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_floats_are_chosen_and_converted_but_not_computed_in(dtype: str) -> None:
    x = T(np.linspace(-2, 2, 50), dtype=dtype)
    assert kinds(check_bits(lambda x: F.relu(x * 2 + 1), x)) == ["Elemwise"] * 3
    y = T(np.linspace(-3, 2, 50), dtype="float32")

    def mixed(x: Tensor, y: Tensor) -> Tensor:
        low = (y * 2).astype(dtype)
        return F.where(y > 1, low, x).astype("float32") - y

    assert kinds(check_bits(mixed, x, y)) == ["FusedElementwise"]


def test_complex_numbers_are_apart() -> None:
    x = T(np.array([1 + 2j, 3 - 1j], "complex64"))
    assert "FusedElementwise" not in kinds(check_bits(lambda x: x * x + x, x))


def test_ops_of_different_shapes_are_apart() -> None:
    x, row = T(np.ones((8, 8), "float32")), T(np.ones(8, "float32"))
    assert kinds(check_bits(lambda x, row: x * (row + 1), x, row)) == ["Elemwise", "Elemwise"]


def test_what_does_not_pay_is_left() -> None:
    """A call of two small ops costs less than one of both; large ones save a pass over memory."""
    for n, want in ((100, ["Elemwise", "Elemwise"]), (10_000, ["FusedElementwise"])):
        x = T(np.linspace(-1, 1, n, dtype="float32"))
        assert kinds(check_bits(lambda x: F.relu(x + 1), x)) == want


def test_no_more_operands_than_the_kernel_takes() -> None:
    terms = [T(np.full(4, i, "float32")) for i in range(40)]

    def fn(*terms: Tensor) -> Tensor:
        total = terms[0]
        for t in terms[1:]:
            total = total + t
        return total

    text = check_bits(fn, *terms)
    assert kinds(text) == ["FusedElementwise"] * 3


def test_long_chains_are_cut() -> None:
    def fn(x: Tensor) -> Tensor:
        for i in range(100):
            x = x * (1 + i / 100) - x / 3
        return x

    text = check_bits(fn, T(np.ones(4, "float32")))
    assert set(kinds(text)) == {"FusedElementwise"}
    assert len(kinds(text)) <= 40


def test_draws_keep_their_order() -> None:
    def fn(x: Tensor) -> Tensor:
        a = F.dropout(x + 1, 0.5)
        b = F.relu(x * 2)
        return F.dropout(b, 0.5) + a * b

    x = T(np.ones((40, 50), "float32"))
    traced = trace(fn)
    for _ in range(3):
        mge.random.seed(7)
        want = fn(x).numpy()
        mge.random.seed(7)
        np.testing.assert_array_equal(traced(x).numpy(), want)


def test_wrong_programs_raise() -> None:
    x = T(np.ones(3, "float32"))

    def run(program: str, *inputs: Tensor) -> None:
        apply(builtin.FusedElementwise(program=program), *inputs)

    for program in (
        "",
        "float32 x0",
        "float32 x0: t0 = EXP(x0)",
        "float32 x0: t0 = EXP(x1) -> t0",
        "float32 x0: t0 = EXP(t0) -> t0",
        "float32 x0: t1 = EXP(x0) -> t1",
        "float32 x0: t0 = EXP(x0) -> x0",
        "float32 x0: t0 = EXP(x0) -> t0, t0",
        "float32 x0: t0 = EXP(x0) -> t0 and more",
        "float32 x0: t0 = EXP(x99999999999999999999) -> t0",
        "complex64 x0: t0 = EXP(x0) -> t0",
        "float16 x0: t0 = EXP(x0) -> t0",
    ):
        with pytest.raises((ValueError, TypeError)):
            run(program, x)
    with pytest.raises(TypeError, match="expected 2 operands, got 1"):
        run("float32 x0: t0 = ADD(x0) -> t0", x)
    with pytest.raises(TypeError, match="expected 1 operands, got 2"):
        run("float32 x0: t0 = EXP(x0) -> t0", x, x)
    with pytest.raises(TypeError, match="expected operand 0 of float64, got float32"):
        run("float64 x0: t0 = EXP(x0) -> t0", x)
    many = "; ".join(f"t{i} = EXP({'t' + str(i - 1) if i else 'x0'})" for i in range(33))
    with pytest.raises(ValueError, match="too many steps"):
        run(f"float32 x0: {many} -> t32", x)


# ---- attention -----------------------------------------------------------------------------------

Attend = Callable[..., Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return T(np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32"))


def scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.matmul(F.softmax(F.matmul(q, k, transpose_b=True) * 0.125, axis=-1), v)


def divided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.matmul(F.softmax(F.matmul(q, k, transpose_b=True) / 8.0, axis=-1), v)


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.matmul(F.softmax(F.matmul(q * 0.125, k, transpose_b=True), axis=-1), v)


def keys_turned(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    axes = (*range(k.ndim - 2), k.ndim - 1, k.ndim - 2)
    return F.matmul(F.softmax(F.matmul(q, F.transpose(k, axes)) * 0.125, axis=-1), v)


MASK = T(np.triu(np.full((40, 40), -np.inf, "float32"), 1))


def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = F.matmul(q, k, transpose_b=True) * 0.125 + MASK
    return F.matmul(F.softmax(scores, axis=-1), v)


@pytest.mark.parametrize("lead", [(2, 3), (3,)], ids=["4d", "3d"])
@pytest.mark.parametrize("fn", [scaled, divided, unscaled, keys_turned, masked])
def test_attention(fn: Attend, lead: tuple[int, ...]) -> None:
    q, k, v = normal(*lead, 40, 64), normal(*lead, 40, 64, seed=1), normal(*lead, 40, 48, seed=2)
    program = record(fn, q, k, v).compile()
    names = kinds(program.optimized().text())
    assert names.count("ScaledDotProductAttention") == 1
    assert not {"Softmax", "MatrixMul"} & set(names)
    np.testing.assert_allclose(program(q, k, v)[0].numpy(), fn(q, k, v).numpy(), rtol=0, atol=5e-6)


@pytest.mark.parametrize("lead", [(2, 3), (3,)], ids=["4d", "3d"])
@pytest.mark.parametrize("fn", [scaled, divided, unscaled, keys_turned, masked])
def test_attention_gradients(fn: Attend, lead: tuple[int, ...]) -> None:
    q, k, v = normal(*lead, 40, 64), normal(*lead, 40, 64, seed=1), normal(*lead, 40, 48, seed=2)
    up = normal(*lead, 40, 48, seed=3)

    def step(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        gm = GradManager().attach([q, k, v])
        with gm:
            y = fn(q, k, v)
            gm.backward((y * up).sum())
        return [y, q.grad, k.grad, v.grad]

    want = step(q, k, v)
    for t in (q, k, v):
        t.grad = None
    program = record(step, q, k, v).compile()
    names = kinds(program.optimized().text())
    assert names.count("ScaledDotProductAttention") == 1
    assert names.count("ScaledDotProductAttentionBackward") == 1
    assert not {"Softmax", "SoftmaxBackward", "MatrixMul"} & set(names)
    for got, w in zip(program(q, k, v), want, strict=True):
        np.testing.assert_allclose(got.numpy(), w.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("lead", [(2, 3), (3,)], ids=["4d", "3d"])
@pytest.mark.parametrize("divide", [False, True])
def test_attention_whose_scale_is_an_input(divide: bool, lead: tuple[int, ...]) -> None:
    """A number that the graph does not know goes to the queries, and to their gradient."""
    q, k, v = normal(*lead, 40, 64), normal(*lead, 40, 64, seed=1), normal(*lead, 40, 48, seed=2)
    up = normal(*lead, 40, 48, seed=3)

    def step(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> list[Tensor]:
        for t in (q, k, v):
            t.grad = None
        gm = GradManager().attach([q, k, v])
        with gm:
            scores = F.matmul(q, k, transpose_b=True)
            scores = scores / scale if divide else scores * scale
            y = F.matmul(F.softmax(scores, axis=-1), v)
            gm.backward((y * up).sum())
        return [y, q.grad, k.grad, v.grad]

    scale = T(np.float32(8 if divide else 0.125))
    program = record(step, q, k, v, scale).compile()
    names = kinds(program.optimized().text())
    assert names.count("ScaledDotProductAttention") == 1
    assert names.count("ScaledDotProductAttentionBackward") == 1
    assert not {"Softmax", "SoftmaxBackward", "MatrixMul"} & set(names)
    other = T(np.float32(16 if divide else 0.3))
    for got, w in zip(program(q, k, v, other), step(q, k, v, other), strict=True):
        np.testing.assert_allclose(got.numpy(), w.numpy(), rtol=0, atol=1e-5)


def test_attention_with_some_gradients() -> None:
    q, k, v = normal(2, 3, 40, 64), normal(2, 3, 40, 64, seed=1), normal(2, 3, 40, 64, seed=2)
    for wanted in ([0], [1], [0, 1], [0, 2]):

        def step(*args: Tensor, wanted: list[int] = wanted) -> list[Tensor]:
            for t in args:
                t.grad = None
            attached = [args[i] for i in wanted]
            gm = GradManager().attach(attached)
            with gm:
                y = scaled(*args)
                gm.backward((y * 3).sum())
            return [y, *(t.grad for t in attached)]

        want = step(q, k, v)
        program = record(step, q, k, v).compile()
        assert "ScaledDotProductAttentionBackward" in kinds(program.optimized().text())
        for got, w in zip(program(q, k, v), want, strict=True):
            np.testing.assert_allclose(got.numpy(), w.numpy(), rtol=0, atol=1e-5)


def test_what_is_not_that_attention() -> None:
    q, k, v = normal(2, 3, 40, 64), normal(2, 3, 40, 64, seed=1), normal(2, 3, 40, 48, seed=2)

    def weights_too(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        w = F.softmax(F.matmul(q, k, transpose_b=True), axis=-1)
        return F.matmul(w, v), w

    def scores_too(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        s = F.matmul(q, k, transpose_b=True) * 0.5
        return F.matmul(F.softmax(s, axis=-1), v), s

    def other_axis(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.matmul(F.softmax(F.matmul(q, k, transpose_b=True), axis=-2), v)

    def as_right_operand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.matmul(v, F.softmax(F.matmul(q, k, transpose_b=True), axis=-1), transpose_a=True)

    for fn in (weights_too, scores_too, other_axis, as_right_operand):
        assert "ScaledDotProductAttention" not in optimized(fn, q, k, v)
    one = T(q.numpy()[:, :, :1])
    assert "ScaledDotProductAttention" not in optimized(unscaled, one, k, v)
    shared = T(k.numpy()[:1])
    assert "ScaledDotProductAttention" not in optimized(unscaled, q, shared, v)


def test_a_mask_that_wants_its_gradient() -> None:
    q, k, v = normal(2, 3, 40, 64), normal(2, 3, 40, 64, seed=1), normal(2, 3, 40, 64, seed=2)
    bias = normal(40, 40, seed=3)

    def step(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> list[Tensor]:
        for t in (q, bias):
            t.grad = None
        gm = GradManager().attach([q, bias])
        with gm:
            w = F.softmax(F.matmul(q, k, transpose_b=True) + bias, axis=-1)
            gm.backward(F.matmul(w, v).sum())
        return [q.grad, bias.grad]

    want = step(q, k, v, bias)
    program = record(step, q, k, v, bias).compile()
    assert "ScaledDotProductAttention" not in program.optimized().text()
    for got, w in zip(program(q, k, v, bias), want, strict=True):
        np.testing.assert_allclose(got.numpy(), w.numpy(), rtol=0, atol=1e-5)


def test_a_scale_that_stays_the_same_becomes_a_part_of_attention() -> None:
    q, k, v = normal(2, 3, 40, 64), normal(2, 3, 40, 64, seed=1), normal(2, 3, 40, 64, seed=2)
    scale = 0.125

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = F.matmul(q, k.transpose(0, 1, 3, 2)) * scale
        return F.matmul(F.softmax(scores, axis=-1), v)

    step = trace(attend, symbolic=True, profiling=True)

    def ops() -> set[str]:
        np.testing.assert_allclose(
            step(q, k, v).numpy(), attend(q, k, v).numpy(), rtol=0, atol=1e-5
        )
        return {op["type"] for op in step.get_profile()["graph_exec"]["operator"].values()}

    ops()
    assert "Elemwise" not in ops()  # the second call
    scale = 0.25
    assert "Elemwise" in ops()
    for _ in range(6):
        last = ops()
    assert "Elemwise" not in last


# ---- GELU of layers ------------------------------------------------------------------------------


def test_gelu_of_a_layer_is_the_fast_one() -> None:
    x, w = normal(64, 48), normal(100, 48, seed=1)
    b, up = normal(100, seed=2), normal(64, 100, seed=3)

    def step(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
        for t in (x, w, b):
            t.grad = None
        gm = GradManager().attach([x, w, b])
        with gm:
            y = F.gelu(F.linear(x, w, b).reshape(32, 200)).reshape(64, 100)
            gm.backward((y * up).sum())
        return [y, x.grad, w.grad, b.grad]

    want = step(x, w, b)
    program = record(step, x, w, b).compile()
    text = program.optimized().text()
    assert "FAST_GELU" in text
    assert "FAST_GELU_GRAD" in text
    assert not re.search(r"\bGELU", text)
    for got, exact in zip(program(x, w, b), want, strict=True):
        np.testing.assert_allclose(got.numpy(), exact.numpy(), rtol=1e-5, atol=2e-5)
    for fn in (F.gelu, lambda x: F.gelu(x + 1), lambda x: F.gelu(F.relu(F.matmul(x, x.T)))):
        assert "FAST_GELU" not in optimized(fn, normal(8, 8))
    assert "FAST_GELU" in optimized(lambda x, b: F.gelu(F.matmul(x, x.T) + b), normal(8, 8), b[:8])
    wide = T(normal(8, 8).numpy(), dtype="float64")
    assert "FAST_GELU" not in optimized(lambda x: F.gelu(F.matmul(x, x)), wide)


# ---- parts of a tensor ---------------------------------------------------------------------------


def gradient_of(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        x.grad = None
        gm = GradManager().attach([x])
        with gm:
            gm.backward(fn(x))
        return x.grad

    return step


def test_gradients_of_parts_are_written_into_one() -> None:
    x = normal(3, 4, 5)
    step = gradient_of(lambda x: (x[0] * x[1]).sum() + (x[2] * 2).sum())
    text = check_bits(step, x)
    assert "mode='ADD'" not in text
    assert not {"Fill", "SetSubtensor"} & set(kinds(text))
    assert kinds(text).count("Concat") == 1

    two_of_three = gradient_of(lambda x: (x[0] * x[2]).sum())
    text = check_bits(two_of_three, x)
    assert kinds(text).count("Fill") == 1
    assert kinds(text).count("SetSubtensor") == 2
    assert "mode='ADD'" not in text

    turned = T(x.numpy().transpose(1, 2, 0)).transpose(2, 0, 1)

    def of_transposed(x: Tensor) -> Tensor:
        t = x.transpose(2, 0, 1)
        return (t[:2] * 2).sum() + F.exp(t[2:]).sum()

    for fn in (
        lambda x: (x[:, :2] * x[:, 2:]).sum(),
        lambda x: (x[:, :, 0] * x[:, :, -1]).sum() + (x[..., 1:4] * 3).sum(),
        of_transposed,
    ):
        for t in (x, turned):
            names = kinds(check_bits(gradient_of(fn), t))
            assert names.count("Concat") == 1
            assert "Fill" not in names


def test_writes_over_all_of_what_is_not_zeros() -> None:
    def assigned(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        t = x.transpose(1, 0)
        t[:2] = a
        t[2:] = b
        return t * 2

    check_bits(assigned, normal(3, 5), normal(2, 3), normal(3, 3))


@pytest.mark.parametrize("split", ["index", "slice"])
def test_attention_writes_the_gradients_of_its_parts_into_one(split: str) -> None:
    """Queries, keys and values that are parts of one projection: no copy of their gradients."""
    x, up = normal(2, 20, 192), normal(2, 20, 64, seed=1)

    def step(x: Tensor) -> list[Tensor]:
        x.grad = None
        gm = GradManager().attach([x])
        with gm:
            if split == "index":
                parts = x.reshape(2, 20, 3, 2, 32).transpose(2, 0, 3, 1, 4)
                q, k, v = parts[0], parts[1], parts[2]
            else:
                heads = (x[:, :, i * 64 : (i + 1) * 64].reshape(2, 20, 2, 32) for i in range(3))
                q, k, v = (t.transpose(0, 2, 1, 3) for t in heads)
            y = scaled(q, k, v).transpose(0, 2, 1, 3).reshape(2, 20, 64)
            gm.backward((y * up).sum())
        return [y, x.grad]

    want = step(x)
    program = record(step, x).compile()
    names = kinds(program.optimized().text())
    assert names.count("Concat") == 1
    assert not {"Fill", "SetSubtensor", "Copy"} & set(names)
    for _ in range(3):
        for got, w in zip(program(x), want, strict=True):
            np.testing.assert_allclose(got.numpy(), w.numpy(), rtol=0, atol=1e-5)


def test_parts_that_overlap_are_added() -> None:
    x = normal(4, 6)
    step = gradient_of(lambda x: (x[:3] * 2).sum() + (x[1:] * x[1:]).sum())
    assert kinds(check_bits(step, x)).count("Fill") == 2
    across = gradient_of(lambda x: (x[0] * 2).sum() + (x[:, 1] * 3).sum())
    assert kinds(check_bits(across, x)).count("Fill") == 2


def test_more_programs_than_are_kept() -> None:
    """What was forgotten is parsed again."""
    x = mge.tensor(np.float32([0.5, 2.0]))

    def run(number: int) -> np.ndarray:
        steps, value = [], "x0"
        for bit in range(11):
            steps.append(f"t{bit} = {'MUL' if number >> bit & 1 else 'ADD'}({value}, x0)")
            value = f"t{bit}"
        program = f"float32 x0: {'; '.join(steps)} -> t10"
        return apply(builtin.FusedElementwise(program=program), x)[0].numpy()

    first = run(0)
    np.testing.assert_array_equal(first, np.float32([6.0, 24.0]))
    for number in range(1, 1100):
        run(number)
    np.testing.assert_array_equal(run(0), first)
