"""Steps of optimizers whose state is split, beside the same optimizer as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

import megengine as mge
import megengine.distributed as dist
import megengine.optimizer as optim

SHAPES = ((3, 5), (7,), (), (1,), (2, 2, 2))
OPTIMIZERS: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    "SGD": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (optim.Adam, {"lr": 0.1}),
    "AdamW": (optim.AdamW, {"lr": 0.1, "weight_decay": 0.1}),
    "Adagrad": (optim.Adagrad, {"lr": 0.1}),
    "Adadelta": (optim.Adadelta, {"lr": 0.1}),
}


def parameters() -> list[mge.Parameter]:
    rng = np.random.default_rng(0)
    return [mge.Parameter(rng.normal(size=shape).astype("float32")) for shape in SHAPES]


def gradients(rank: int, step: int) -> list[Any]:
    """One of them is missing."""
    rng = np.random.default_rng([rank, step])
    return [None if i == 3 else rng.normal(size=shape) for i, shape in enumerate(SHAPES)]


def groups(params: list[mge.Parameter]) -> list[dict[str, Any]]:
    return [{"params": params[:2]}, {"params": params[2:], "lr": 0.05}]


def whole(name: str, ranks: int, steps: int, saved: Any = None) -> tuple[Any, Any]:
    """Parameters and state after steps with the mean of all gradients."""
    kind, options = OPTIMIZERS[name]
    params = parameters()
    opt = kind(groups(params), **options)
    if saved is not None:
        restore(params, opt, saved)
    for step in range(steps):
        every = [gradients(rank, step) for rank in range(ranks)]
        for i, p in enumerate(params):
            if every[0][i] is not None:
                p.grad = mge.tensor(sum(g[i] for g in every) / ranks)
        opt.step().clear_grad()
    return [p.numpy() for p in params], opt.state_dict()


def split(name: str, steps: int, saved: Any = None) -> tuple[Any, Any, int]:
    """The same by ShardedOptimizer; and how many elements of state this rank has."""
    kind, options = OPTIMIZERS[name]
    params = parameters()
    opt = dist.ShardedOptimizer(groups(params), kind, **options)
    if saved is not None:
        restore(params, opt, saved)
    for step in range(steps):
        for p, g in zip(params, gradients(dist.get_rank(), step), strict=True):
            p.grad = None if g is None else mge.tensor(g)
        opt.step().clear_grad()
    held = sum(t.size for state in opt._inner._state.values() for t in state.values() if t.ndim)
    return [p.numpy() for p in params], opt.state_dict(), held


def restore(params: list[mge.Parameter], opt: optim.Optimizer, saved: Any) -> None:
    for p, value in zip(params, saved[0], strict=True):
        p.set_value(value)
    opt.load_state_dict(saved[1])


def split_all(steps: int, saved: Any = None) -> dict[str, Any]:
    return {n: split(n, steps, None if saved is None else saved[n]) for n in OPTIMIZERS}


def refused() -> list[str]:
    answers = []
    p = mge.Parameter([1.0, 2.0])
    for call in (
        lambda: dist.ShardedOptimizer([p], optim.LAMB, lr=0.1),
        lambda: dist.ShardedOptimizer([p], mge.Tensor, lr=0.1),
        lambda: dist.ShardedOptimizer([p], optim.SGD, lr=0.1, reduce_method="max"),
        lambda: dist.ShardedOptimizer([p], optim.SGD, lr=0.1).load_state_dict(
            {"param_groups": [], "state": {}}
        ),
    ):
        try:
            call()
        except (ValueError, TypeError, AssertionError) as e:
            answers.append(f"{type(e).__name__}: {e}")
    return answers
