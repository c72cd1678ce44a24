"""Measures one workload of one framework, in a process of its own, and prints a line of JSON.

python -m benchmarks.worker FRAMEWORK WORKLOAD SECONDS
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time

from benchmarks.workloads import Work, load


def peak_memory() -> int:
    """The most memory that this process has had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def time_steps(work: Work, seconds: float) -> list[float]:
    """Seconds of each step: at least three, after one or two to warm up."""
    started = time.perf_counter()
    for _ in range(2):
        work.step()
        if time.perf_counter() - started > seconds:
            break
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - started < seconds:
        t = time.perf_counter()
        work.step()
        times.append(time.perf_counter() - t)
    return times


def main() -> None:
    framework, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    maker = load(framework, name)
    if maker is None:
        print(json.dumps({"missing": True}))
        return
    imported = peak_memory()
    work = maker()
    times = time_steps(work, seconds)
    print(
        json.dumps(
            {
                "median": statistics.median(times) / work.calls,
                "best": min(times) / work.calls,
                "steps": len(times),
                "bytes": work.bytes,
                "flops": work.flops,
                # What importing the framework takes is left out.
                "memory": peak_memory() - imported,
            }
        )
    )


if __name__ == "__main__":
    main()
