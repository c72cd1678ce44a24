"""Training programs that tests run in one process and in several."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import megengine as mge
import megengine.distributed as dist
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.data import RandomSampler, SequentialSampler

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))
from resnet import ResNet

Arrays = dict[str, np.ndarray[Any, Any]]


def synchronised(module: M.Module) -> None:
    """Puts a SyncBatchNorm in the place of each BatchNorm2d."""
    for owner in list(module.modules()):
        for name, child in list(vars(owner).items()):
            if type(child) is M.BatchNorm2d:
                layer = M.SyncBatchNorm(child.num_features)
                layer.load_state_dict(child.state_dict())
                setattr(owner, name, layer)


def data(n: int = 8) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    images = rng.normal(size=(n, 3, 16, 16)).astype("float32")
    return images, rng.integers(0, 10, n).astype("int32")


def resnet(traced: bool, steps: int = 3) -> Arrays:
    """Trains a small ResNet-18 on this rank's part of each batch; the state that it ends in."""
    mge.random.seed(3 + dist.get_rank())
    net = ResNet(18, width=4)
    if dist.get_world_size() > 1:
        synchronised(net)
    weights = np.random.default_rng(0)
    for p in net.parameters():
        scale = (1 / np.prod(p.shape[1:])) ** 0.5 if p.ndim > 1 else 1.0
        if dist.get_rank() == 0 and p.ndim > 1:
            p.set_value((weights.normal(size=p.shape) * scale).astype("float32"))
    callbacks = []
    if dist.is_distributed():
        dist.bcast_list_(net.tensors())
        callbacks = [dist.make_allreduce_cb("mean")]
    gm = GradManager().attach(net.parameters(), callbacks=callbacks)
    opt = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    images, labels = data()
    part = slice(dist.get_rank(), None, dist.get_world_size())
    x, y = mge.tensor(images[part]), mge.tensor(labels[part])

    def step() -> Any:
        with gm:
            loss = F.nn.cross_entropy(net(x), y)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss

    run = mge.jit.trace(step) if traced else step
    for _ in range(steps):
        run()
    return {name: np.array(value) for name, value in net.state_dict().items()}


def batch_norm_of_uneven_batches(dtype: str) -> Arrays:
    """Forward and backward of this rank's rows: 2, 3, ... of them."""
    rank, n = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(1)
    x, dy = (100 + rng.normal(size=(14, 3, 2, 2)), rng.normal(size=(14, 3, 2, 2)))
    ends = np.cumsum([0] + [2 + r for r in range(n)])
    rows = slice(ends[rank], ends[rank + 1]) if n > 1 else slice(0, 5)
    layer = M.SyncBatchNorm(3) if n > 1 else M.BatchNorm2d(3)
    inp = mge.Tensor(x[rows], dtype=dtype)
    gm = GradManager().attach([inp, *layer.parameters()])
    with gm:
        out = layer(inp)
        gm.backward(out, mge.Tensor(dy[rows], dtype=dtype))
    answers = {"out": out, "dx": inp.grad, "dw": layer.weight.grad, "db": layer.bias.grad}
    answers |= {"mean": layer.running_mean, "var": layer.running_var}
    layer.eval()
    answers["eval"] = layer(inp)
    return {k: v.numpy().astype("float64") for k, v in answers.items()}


def samples() -> list[list[int]]:
    """What the samplers give this rank by themselves."""
    samplers = SequentialSampler(range(5), batch_size=2), RandomSampler(range(6), batch_size=2)
    return [[index for batch in sampler for index in batch] for sampler in samplers]


def resumes(directory: str, steps: int, fails_at: int, how: str) -> list[int]:
    """Counts steps, each a sum over the ranks, from the last checkpoint on; fails once."""
    checkpoint = Path(directory) / "checkpoint"
    rank, first = dist.get_rank(), int(os.environ["MGE_DIST_RESTARTS"]) == 0
    weight = mge.Parameter(np.zeros(3, "float32"))
    begin = 0
    if checkpoint.exists():
        saved = mge.load(str(checkpoint))
        begin = saved["step"]
        weight.set_value(saved["weight"])
    for step in range(begin, steps):
        weight += dist.functional.all_reduce_sum(mge.tensor([1.0, step, rank]))
        if rank == 0:
            mge.save({"step": step + 1, "weight": weight.numpy()}, str(checkpoint))
            print(f"step {step + 1}", flush=True)
        if first and step == fails_at and rank == dist.get_world_size() - 1 and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "cut":
            time.sleep(0.02)
    return [begin, *(int(v) for v in weight.numpy())]
