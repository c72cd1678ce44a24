"""What is kept of a traced function is bounded, and memory is flat over thousands of calls."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.jit import trace

T = mge.tensor


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def training_step(widths: tuple[int, ...] = (6, 8, 3)) -> Callable[..., Any]:
    net = M.Sequential(*[M.Linear(i, o) for i, o in itertools.pairwise(widths)])
    gm = GradManager().attach(net.parameters())
    opt = optim.Adam(net.parameters(), lr=1e-3)

    def step(x: mge.Tensor, repeat: int = 1) -> float:
        with gm:
            y = net(x)
            for _ in range(repeat):
                y = F.tanh(y)
            loss = F.mean(y * y)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss.item()

    return step


CALLS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "one way": lambda i: (F.ones((4, 6)),),
    "few ways": lambda i: (F.ones((4, 6)), i % 3),
    "more ways than are kept": lambda i: (F.ones((4, 6)), i % 40),
    "shapes that never repeat": lambda i: (F.ones((1 + i, 6)),),
}


@pytest.mark.parametrize("kind", CALLS)
def test_memory_is_flat(kind: str) -> None:
    step, arguments = trace(training_step()), CALLS[kind]
    warm = 500
    for i in range(3000):
        step(*arguments(i))
        if i == warm:
            gc.collect()
            live, before = mge.device.get_allocated_memory(), resident()
    gc.collect()
    slack = 3000 * 6 * 4 * 8 if kind == "shapes that never repeat" else 1 << 14  # of the last batch
    assert mge.device.get_allocated_memory() - live <= slack
    assert resident() - before <= 3 << 20
    assert len(step.graphs()) <= {"one way": 1, "few ways": 3, "more ways than are kept": 16}.get(
        kind, 64
    )


def test_memory_is_flat_where_other_values_are_kept_each_time() -> None:
    """Each call needs other values of the record: programs are bounded too."""

    @trace
    def f(x: mge.Tensor, choice: int) -> list[mge.Tensor]:
        values = []
        for _ in range(12):
            x = x + 1
            values.append(x)
        return [v for i, v in enumerate(values) if choice >> i & 1]

    x = T([0.0])
    for i in range(3000):
        assert [int(v) for v in f(x, i)] == [k + 1 for k in range(12) if i >> k & 1]
        if i == 500:
            gc.collect()
            before = resident()
    gc.collect()
    assert resident() - before <= 2 << 20
    assert len(f.graphs()) == 1


def test_a_value_looked_at_after_every_op() -> None:
    """No program is compiled twice, and together they are as large as the function."""

    @trace
    def f(x: mge.Tensor) -> float:
        total = 0.0
        for k in range(200):
            x = x * 0.5 + k
            total += x.item()
        return total

    want = f(T([1.0]))
    f(T([1.0]))
    before = f._tracer.programs()
    start = resident()
    for _ in range(20):
        assert f(T([1.0])) == want
    assert len(f._tracer.programs()) == len(before) == 200
    assert max(len(graph.values) for graph in f._tracer.programs()) < 10
    assert resident() - start <= 2 << 20


def test_the_shapes_that_were_used_last_are_kept() -> None:
    f = trace(lambda x: x + 1)
    for n in range(100):
        f(F.ones((1 + n,)))
        f(F.ones((1,)))
    sizes = [graph.split("(")[-1].split(",")[0] for graph in f.graphs()]
    assert sorted(int(s) for s in sizes) == [1, *range(38, 101)]


def test_the_ways_that_were_taken_last_are_kept() -> None:
    @trace
    def f(x: mge.Tensor, n: int) -> mge.Tensor:
        for _ in range(n):
            x = x * 2
        return F.exp(x)

    for n in range(40):
        f(T([1.0]), n)
        f(T([1.0]), 3)
    lengths = [graph.count("MUL") for graph in f.graphs()]
    assert sorted(lengths) == [3, *range(25, 40)]
    x = np.float32(1)
    assert f(T([1.0]), 2).item() == pytest.approx(np.exp(x * 4))


def test_nothing_is_left_of_exceptions() -> None:
    @trace
    def f(x: mge.Tensor, fails: bool) -> mge.Tensor:
        y = F.exp(x)
        if fails:
            raise KeyError("on purpose")
        return y * 2

    x = F.ones((1 << 12,))
    f(x, False)
    gc.collect()
    live, before = mge.device.get_allocated_memory(), 0
    for i in range(3000):
        with pytest.raises(KeyError, match="on purpose"):
            f(x, True)
        if i == 500:
            before = resident()
    gc.collect()
    assert mge.device.get_allocated_memory() - live <= 1 << 12
    assert resident() - before <= 2 << 20


def test_functions_come_and_go() -> None:
    def once() -> None:
        f = trace(training_step())
        for _ in range(3):
            f(F.ones((4, 6)))

    for i in range(400):
        once()
        if i == 100:
            gc.collect()
            live, before = mge.device.get_allocated_memory(), resident()
    gc.collect()
    assert mge.device.get_allocated_memory() - live <= 1 << 14
    assert resident() - before <= 3 << 20
