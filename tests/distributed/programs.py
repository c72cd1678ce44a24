"""Programs that tests start in several processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import megengine as mge
import megengine.distributed as dist
import megengine.distributed.functional as DF
import megengine.module as M
from megengine.autodiff import GradManager


@dist.launcher(n_gpus=2)
def decorated(x: int, *, y: int) -> tuple[int, ...]:
    return dist.get_rank(), dist.get_world_size(), x, y, DF.all_reduce_sum(mge.tensor(x)).item()


def fails(how: str) -> Any:
    """Rank 1 fails in some way while rank 0 waits for it or computes."""
    dist.group_barrier()
    if dist.get_rank() == 1:
        if how == "raise":
            raise ValueError("a boat sinks")
        if how == "exit":
            sys.exit(3)
        if how == "return":
            return None
        if how == "sleep":
            time.sleep(1000)
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)
    if how == "kill while others compute":
        while True:
            pass
    return DF.all_reduce_sum(mge.tensor([1.0])).item()


class UnpicklableError(Exception):
    def __init__(self, a: int, b: int):
        super().__init__(f"{a} and {b}")


def raises_what_cannot_be_pickled() -> None:
    raise UnpicklableError(1, 2)


def returns_what_cannot_be_pickled() -> Any:
    return (i for i in range(3))


class Net(M.Module):
    """Layers of several dtypes, of which one has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = M.Linear(3, 4)
        self.second = M.Linear(4, 2)
        self.unused = M.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.second(mge.functional.relu(self.first(x)))


def reduced_gradients(method: str, bucket_bytes: int, traced: bool) -> dict[str, Any]:
    """The gradients after a step, and those that this rank has alone."""
    mge.random.seed(dist.get_rank())
    net = Net()
    dist.bcast_list_(net.tensors())
    x = mge.tensor(np.random.default_rng(dist.get_rank()).normal(size=(5, 3)).astype("float32"))
    callback = dist.make_allreduce_cb(method)
    callback.bucket_bytes = bucket_bytes
    managers = GradManager(), GradManager()
    managers[0].attach(net.parameters())
    managers[1].attach(net.parameters(), callbacks=[callback])
    answers = []
    for manager in managers:

        def step(manager: GradManager = manager) -> Any:
            with manager:
                loss = (net(x) ** 2).mean()
                manager.backward(loss)
            return loss

        run = mge.jit.trace(step) if traced else step
        for _ in range(3):
            for p in net.parameters():
                p.grad = None
            run()
        answers.append(
            {n: None if p.grad is None else p.grad.numpy() for n, p in net.named_parameters()}
        )
    return {"alone": answers[0], "reduced": answers[1], "weight": net.first.weight.numpy()}


def gradients_that_differ() -> str:
    """The ranks use different parameters."""
    net = Net()
    gm = GradManager().attach(net.parameters(), callbacks=[dist.make_allreduce_cb("SUM")])
    x = mge.tensor(np.ones((1, 3), "float32"))
    try:
        with gm:
            gm.backward(net.first(x) if dist.get_rank() else net(x))
    except ValueError as e:
        return str(e)
    return ""
