"""Bandwidth of all_reduce beside mpi4py on raw memory, and how much of it backward hides.

    python -m benchmarks.distributed [--ranks 2] [--megabytes 1 4 16 64 256] [--rounds 7]

Both take turns in the same processes, call by call, so that a drift of the machine meets both. The
bus bandwidth is 2 (n - 1) / n of the bytes by the time: what each rank has to send. The last line
times the backward of a network alone, with `make_allreduce_cb`, and the reduction of the same
gradients after backward; hidden is the share of that reduction which does not come on top.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import megengine as mge
import megengine.distributed as dist
import megengine.functional as F
import megengine.module as M
from megengine.autodiff import GradManager


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call that all ranks begin together, as the slowest of them took it."""
    dist.group_barrier()
    begin = time.perf_counter()
    call()
    took = mge.tensor([time.perf_counter() - begin], dtype="float64")
    return float(dist.functional.all_reduce_max(took).item())


def repeated(call: Callable[[], None], times: int) -> Callable[[], None]:
    """Makes a call several times."""

    def several() -> None:
        for _ in range(times):
            call()

    return several


def bandwidth_of(size: int, rounds: int) -> tuple[int, float, float]:
    """Megabytes, seconds of all_reduce_sum, seconds of mpi4py's Allreduce; medians."""
    from mpi4py import MPI

    n = (size << 20) // 4
    x = mge.tensor(np.ones(n, "float32"))
    send, receive = np.ones(n, "float32"), np.empty(n, "float32")
    calls: tuple[Callable[[], Any], ...] = (
        lambda: dist.functional.all_reduce_sum(x),
        lambda: MPI.COMM_WORLD.Allreduce(send, receive),
    )
    times: tuple[list[float], list[float]] = ([], [])
    repeats = max(1, 16 // size)  # of short calls
    for round_ in range(rounds + 1):
        for call, taken in zip(calls, times, strict=True):
            seconds = timed(repeated(call, repeats)) / repeats
            if round_:  # the first one touches the memory
                taken.append(seconds)
    return size, statistics.median(times[0]), statistics.median(times[1])


class Network(M.Module):
    """Convolutions, then layers with most of the parameters."""

    def __init__(self, width: int = 64, hidden: int = 1024) -> None:
        super().__init__()
        self.convs = [M.Conv2d(3, width, 3, padding=1)]
        self.convs += [M.Conv2d(width, width, 3, padding=1) for _ in range(3)]
        self.layers = [M.Linear(width * 16, hidden)]
        self.layers += [M.Linear(hidden, hidden) for _ in range(4)]

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """Scores of images (N, 3, 32, 32)."""
        for conv in self.convs:
            x = F.relu(conv(x))
        x = F.adaptive_avg_pool2d(x, (4, 4)).flatten(1)
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


def overlap(rounds: int) -> tuple[float, float, float, int]:
    """Seconds of backward alone, with the callback, of the reduction after it; bytes reduced."""
    net = Network()
    dist.bcast_list_(net.tensors())
    x = mge.tensor(np.random.default_rng(0).normal(size=(16, 3, 32, 32)).astype("float32"))
    callback = dist.make_allreduce_cb("mean")
    plain = GradManager().attach(net.parameters())
    summed = GradManager().attach(net.parameters(), callbacks=[callback])

    def backward(gm: GradManager) -> float:
        for p in net.parameters():
            p.grad = None
        with gm:
            loss = (net(x) ** 2).mean()
            return timed(lambda: gm.backward(loss))

    def reduce() -> None:
        grads = [p.grad for p in net.parameters()]
        shapes = [g.shape for g in grads]
        dist.helper.pack_allreduce_split(grads, shapes, dist.WORLD, "mean")

    times: list[list[float]] = [[], [], []]
    for round_ in range(rounds + 1):
        taken = [backward(plain), timed(reduce), backward(summed)]
        if round_:
            for column, seconds in zip(times, taken, strict=True):
                column.append(seconds)
    alone, after, together = (statistics.median(column) for column in times)
    return alone, together, after, sum(p.size * 4 for p in net.parameters())


def program(args: argparse.Namespace) -> tuple[Any, Any, int]:
    """What each rank runs."""
    rows = [bandwidth_of(size, args.rounds) for size in args.megabytes]
    return rows, overlap(args.rounds), mge.device.get_num_threads()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[1, 4, 16, 64, 256])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    rows, (alone, together, after, nbytes), threads = dist.launcher(n_gpus=args.ranks)(program)(
        args
    )[0]
    share = 2 * (args.ranks - 1) / args.ranks
    print(f"{args.ranks} ranks of {threads} threads")
    print("| MB | all_reduce_sum | bus GB/s | mpi4py | bus GB/s | bandwidth by mpi4py's |")
    print("|---|---|---|---|---|---|")
    for size, ours, raw in rows:
        moved = share * (size << 20) / 1e9
        cells = [f"{ours * 1e3:.2f} ms", f"{moved / ours:.2f}", f"{raw * 1e3:.2f} ms"]
        print(f"| {size} | {' | '.join(cells)} | {moved / raw:.2f} | {raw / ours:.2f} |")
    hidden = 1 - (together - alone) / after
    print(
        f"\nbackward {alone * 1e3:.0f} ms; reducing its {nbytes / 1e6:.0f} MB afterwards "
        f"{after * 1e3:.0f} ms; backward with make_allreduce_cb {together * 1e3:.0f} ms: "
        f"{hidden:.0%} of the reduction hidden"
    )


if __name__ == "__main__":
    main()
