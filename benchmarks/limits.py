"""What this machine can do at most: memory bandwidth and arithmetic.

    python -m benchmarks.limits [--threads 2] [--seconds 0.5]

Compiles limits.cpp with $CXX (g++ without it) into build/limits and prints the best of several
runs: the rate of copying (bytes read plus bytes written) and of reading memory, of float32
multiply-adds, and of bfloat16 ones on AMX tiles where the processor has them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
UNITS = {
    "copy": "GB/s",
    "read": "GB/s",
    "fma_float32": "GFLOP/s",
    "amx_bfloat16": "GFLOP/s",
}


def build(folder: Path = HERE.parent / "build" / "limits") -> Path:
    """Compiles the program where it is older than its source; its path."""
    source, program = HERE / "limits.cpp", folder / "limits"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        flags = ["-std=c++20", "-O3", "-march=native", "-ffp-contract=fast", "-fopenmp"]
        subprocess.run([*compiler, *flags, str(source), "-o", str(program)], check=True)
    return program


def measure(threads: int = 2, seconds: float = 0.5) -> dict[str, float]:
    """Name -> bytes or operations a second, on a number of threads."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    run = subprocess.run(
        [str(build()), str(seconds)], check=True, env=env, capture_output=True, text=True
    )
    lines = [line.split() for line in run.stdout.splitlines()]
    return {name: float(rate) for name, rate in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    args = parser.parse_args()
    for name, rate in measure(args.threads, args.seconds).items():
        print(f"{name:14s} {rate / 1e9:8.1f} {UNITS[name]}")


if __name__ == "__main__":
    main()
