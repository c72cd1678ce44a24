"""Speed and peak memory of OpenMGE, beside the peers that are installed, in the same run.

    python -m benchmarks                       everything
    python -m benchmarks overhead resnet18     groups (overhead, ops, train, ...) or workloads
    python -m benchmarks --plot out/speed.png --json out/speed.json

Each measurement is a process of its own, and the frameworks take turns, round by round, so that a
drift of the machine meets all of them. PyTorch is optional: it is found in this Python, or in the
one that --torch or the environment variable TORCH_PYTHON names. `ratio` is OpenMGE's time by that
of the fastest peer (of PyTorch's two memory formats, the better one): below 1, OpenMGE is faster.
Where a workload states what it must move and compute, and a compiler is there to measure what the
machine can do (benchmarks/limits.py), the share of that limit is given too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import limits as machine
from benchmarks.workloads import groups

ROOT = Path(__file__).parent.parent


@dataclass
class Result:
    """What was measured of one framework on one workload."""

    seconds: list[float] = field(default_factory=list)  # the median of each round
    memory: int = 0  # the highest peak of any round, in bytes, over what the import took
    error: str = ""
    bytes: float = 0
    flops: float = 0

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return statistics.median(self.seconds)


def interpreters(torch: str | None) -> dict[str, str]:
    """The frameworks to measure, each with the interpreter that has it."""
    found = {"openmge": sys.executable, "numpy": sys.executable}
    if importlib.util.find_spec("onnxruntime"):
        found["onnxruntime"] = sys.executable
    if importlib.util.find_spec("cv2"):
        found["opencv"] = sys.executable
    if torch is None and importlib.util.find_spec("torch"):
        torch = sys.executable
    if torch:
        found |= {"torch": torch, "torch channels-last": torch, "pillow": torch}
    return found


def measure(python: str, framework: str, name: str, seconds: float, threads: int) -> dict[str, Any]:
    """Runs a worker; its line of JSON, or an `error`."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [python, "-m", "benchmarks.worker", framework, name, str(seconds)]
    try:
        run = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": "no answer in 600 s"}
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]}
    answer: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return answer


def compare(name: str, pythons: dict[str, str], args: argparse.Namespace) -> dict[str, Result]:
    """All frameworks on one workload, taking turns."""
    results: dict[str, Result] = {}
    for _ in range(args.rounds):
        for framework, python in pythons.items():
            answer = measure(python, framework, name, args.seconds, args.threads)
            if answer.get("missing"):
                continue
            result = results.setdefault(framework, Result())
            if "error" in answer:
                result.error = answer["error"]
            else:
                result.seconds.append(answer["median"])
                result.memory = max(result.memory, answer["memory"])
                result.bytes, result.flops = answer["bytes"], answer["flops"]
    return results


def ratios(results: dict[str, Result]) -> tuple[float | None, float | None]:
    """Time and memory of OpenMGE by those of the fastest and the smallest PyTorch or NumPy."""
    mine = results["openmge"]
    peers = [r for f, r in results.items() if f != "openmge" and r.seconds]
    if not mine.seconds or not peers:
        return None, None
    memory = min(r.memory for r in peers)
    return (
        mine.median / min(r.median for r in peers),
        mine.memory / memory if memory > 1 << 24 else None,  # below, it is noise
    )


def share_of_limit(result: Result, limits: dict[str, float]) -> float | None:
    """The least time that the machine allows by the time taken; None where it is not known.

    Above 1 the operands came out of a cache.
    """
    if not limits or not (result.bytes or result.flops):
        return None
    bandwidth = max(limits["copy"], limits["read"])
    return max(result.bytes / bandwidth, result.flops / limits["fma_float32"]) / result.median


def scaled(seconds: float) -> str:
    """1.23 us, 45.6 ms, ..."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def report(name: str, results: dict[str, Result], limits: dict[str, float]) -> float | None:
    """Prints the row of a workload; its ratio."""
    cells = [f"{f} {scaled(r.median)} {r.memory >> 20} MB" for f, r in results.items() if r.seconds]
    ratio, memory = ratios(results)
    if ratio is not None:
        cells.append(f"ratio {ratio:.2f}" + (f", memory {memory:.2f}" if memory else ""))
    if results["openmge"].seconds and (share := share_of_limit(results["openmge"], limits)):
        cells.append(f"{share:.0%} of the limit")
    cells += [f"{f}: {r.error}" for f, r in results.items() if r.error]
    print(f"{name:16s} " + " | ".join(cells), flush=True)
    return ratio


def table(everything: dict[str, dict[str, Result]]) -> str:
    """The results as a table in Markdown."""
    lines = [
        "| workload | OpenMGE | PyTorch | PyTorch, channels-last | ratio | memory |",
        "|---|---|---|---|---|---|",
    ]
    for name, results in everything.items():
        ratio, memory = ratios(results)
        times = [
            scaled(results[f].median) if f in results and results[f].seconds else ""
            for f in ("openmge", "torch", "torch channels-last")
        ]
        ends = ["" if r is None else f"{r:.2f}" for r in (ratio, memory)]
        lines.append(f"| {name} | {' | '.join([*times, *ends])} |")
    return "\n".join(lines) + "\n"


def plot(rows: dict[str, float], path: Path) -> None:
    """Bars of the ratios on a logarithmic axis; left of 1, OpenMGE is faster."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(rows)[::-1]
    figure, axes = plt.subplots(figsize=(7, 1 + 0.28 * len(names)), layout="constrained")
    values = [rows[n] for n in names]
    colors = ["tab:blue" if v <= 1 else "tab:orange" for v in values]
    bars = axes.barh(names, [math.log2(v) for v in values], color=colors)
    axes.bar_label(bars, [f"{v:.2f}" for v in values], padding=3, fontsize=8)
    axes.axvline(0, color="black", linewidth=0.8)
    low, high = (math.floor(min(map(math.log2, values))), math.ceil(max(map(math.log2, values))))
    ticks = range(min(low, -1), max(high, 1) + 1)
    axes.set_xticks(list(ticks), [f"{2.0**t:g}" for t in ticks])
    axes.set_xlabel("time of OpenMGE / time of the fastest peer")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line; `names` are single workloads afterwards."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    by_group = groups()
    known = [n for names in by_group.values() for n in names]
    parser.add_argument("names", nargs="*", metavar="NAME", help="groups or workloads")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing in each (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="for every framework (default 2)")
    parser.add_argument("--torch", default=os.environ.get("TORCH_PYTHON"), metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the results as a table")
    args = parser.parse_args(argv)
    if unknown := [n for n in args.names if n not in by_group and n not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join([*by_group, *known])}")
    args.names = [w for n in args.names or by_group for w in by_group.get(n, [n])]
    return args


def main() -> None:
    args = parse()
    pythons = interpreters(args.torch)
    print(
        f"{args.threads} threads, {args.rounds} rounds of {args.seconds:g} s; " + ", ".join(pythons)
    )
    limits: dict[str, float] = {}
    if shutil.which(shlex.split(os.environ.get("CXX", "g++"))[0]):
        limits = machine.measure(args.threads)
        print(", ".join(f"{n} {r / 1e9:.1f} {machine.UNITS[n]}" for n, r in limits.items()))
    rows: dict[str, float] = {}
    everything: dict[str, dict[str, Result]] = {}
    for name in args.names:
        everything[name] = compare(name, pythons, args)
        ratio = report(name, everything[name], limits)
        if ratio is not None:
            rows[name] = ratio
    if rows:
        mean = math.exp(statistics.fmean(map(math.log, rows.values())))
        worst = max(rows, key=lambda n: rows[n])
        print(f"geometric mean of {len(rows)} ratios {mean:.2f}; worst {rows[worst]:.2f} ({worst})")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        data = {n: {f: vars(r) for f, r in results.items()} for n, results in everything.items()}
        args.json.write_text(json.dumps(data, indent=1))
    if args.markdown:
        args.markdown.parent.mkdir(parents=True, exist_ok=True)
        args.markdown.write_text(table(everything))
    if args.plot and rows:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
