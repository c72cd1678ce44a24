"""Times every op through its test record, forward and backward, on the record's own inputs.

    python -m benchmarks.records [part of a name ...] [--seconds 0.05] [--dtype float32]

Records with `large` inputs are timed on those; the others show what a call costs. For a change to a
kernel, run it before and after.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import megengine as mge
from megengine.autodiff import GradManager
from tests.ops.record import Record, all_records


def best_time(f: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call within a budget."""
    f()
    best = float("inf")
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        t = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - t)
    return best


def tensors(record: Record, dtype: str) -> list[mge.Tensor]:
    """The record's large inputs, or its small ones where it has no others."""
    arrays = record.large(record.generator()) if record.large else record.arrays()
    return [
        mge.tensor(a, dtype=dtype)
        if record.is_data(a)
        else mge.tensor(a, dtype="bool" if a.dtype == bool else "int32")
        for a in arrays
    ]


def forward_and_backward(record: Record, inputs: list[mge.Tensor]) -> Callable[[], object]:
    """A call that also takes gradients of the floating outputs, summed."""
    wrt = [inputs[i] for i in record.differentiable([t.numpy() for t in inputs])]
    gm = GradManager().attach(wrt)

    def f() -> None:
        with gm:
            out = record.fn(*inputs)
            outs = out if isinstance(out, tuple | list) else (out,)
            floats = [o for o in outs if o.dtype.kind not in "biu"]
            gm.backward(floats, [mge.functional.ones_like(o) for o in floats])
        for t in wrt:
            t.grad = None

    return f


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    print(f"{'record':32s} {'elements':>10s} {'forward':>12s} {'with gradient':>14s}   us")
    for record in all_records():
        if args.parts and not any(p in record.name for p in args.parts):
            continue
        if args.dtype not in record.dtypes:
            continue
        inputs = tensors(record, args.dtype)
        forward = best_time(lambda r=record, i=inputs: r.fn(*i), args.seconds)
        line = f"{record.name:32s} {sum(t.size for t in inputs):10d} {forward * 1e6:12.2f}"
        if record.order and record.differentiable([t.numpy() for t in inputs]):
            both = best_time(forward_and_backward(record, inputs), args.seconds)
            line += f" {both * 1e6:14.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
