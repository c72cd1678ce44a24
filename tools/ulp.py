"""Measures the error of the float32 elementwise functions, in units in the last place.

    python tools/ulp.py                     every 4999th of the 2^32 inputs of every function
    python tools/ulp.py --step 1 exp log    all inputs of two functions (minutes each)
    python tools/ulp.py --isa avx2          the AVX2 build of the loops

Builds tools/ulp/ulp.cpp together with the kernels, with $CXX (g++ without it), into build/ulp.
Exits with status 1 where a function is off by more than its limit.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "core" / "kernels" / "cpu"

# The largest error allowed, in ulp.
LIMITS = {
    "exp": 1.1,
    "expm1": 1.6,
    "log": 1.0,
    "log1p": 1.5,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "sin": 0.51,
    "cos": 0.51,
    "tan": 0.51,
    "asin": 0.51,
    "acos": 0.51,
    "atan": 0.51,
    "sinh": 0.51,
    "cosh": 0.51,
    "tanh": 1.5,
    "asinh": 0.51,
    "acosh": 0.51,
    "atanh": 0.51,
    "erf": 2.0,
    "erfc": 0.51,
    "erfinv": 0.7,
    "erfcinv": 0.9,
    "sigmoid": 2.0,
    "logsigmoid": 2.0,
    "softplus": 2.0,
    "silu": 1.9,
    "gelu": 1.9,
    "round": 0.0,
    "floor": 0.0,
    "ceil": 0.0,
    "pow": 0.51,
    "atan2": 0.51,
    "mod": 0.5,
}
# Of two arguments: sampled at random instead of swept.
BINARY = ("pow", "atan2", "mod")


def _builds() -> dict[str, list[str]]:
    """The flags of each build of *.simd.cpp, as CMakeLists.txt has them."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return {
            "avx2": ["-march=x86-64-v3"],
            "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
        }
    return {"generic": []}


def build(folder: Path) -> Path:
    """Compiles the checker and the kernels that it needs; returns the program."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    flags = ["-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", f"-I{ROOT}"]
    plain = [
        KERNELS / "copy.cpp",
        KERNELS / "elementwise.cpp",
        KERNELS / "parallel.cpp",
        KERNELS / "simd.cpp",
        ROOT / "core" / "tensor" / "shape.cpp",
        ROOT / "core" / "runtime" / "allocator.cpp",
        ROOT / "core" / "runtime" / "file_memory.cpp",
        ROOT / "tools" / "ulp" / "ulp.cpp",
    ]
    simd = [KERNELS / "convert.simd.cpp", *sorted(KERNELS.glob("elementwise_*.simd.cpp"))]
    jobs = [(source, []) for source in plain]
    for name, isa in _builds().items():
        jobs += [(source, [*isa, f"-DMGE_SIMD_NS={name}"]) for source in simd]
    objects = []
    for i, (source, extra) in enumerate(jobs):
        objects.append(folder / f"{i}-{source.stem}.o")
        command = [*compiler, *flags, *extra, "-c", str(source), "-o", str(objects[-1])]
        subprocess.run(command, check=True)
    program = folder / "ulp"
    link = [*compiler, "-fopenmp", *map(str, objects), "-o", str(program)]
    subprocess.run(link, check=True)
    return program


def measure(program: Path, name: str, step: int, isa: str | None) -> tuple[float, str]:
    """The largest error of a function and where it is."""
    env = dict(os.environ) if isa is None else {**os.environ, "MGE_CPU_ISA": isa}
    count = str(max(2**32 // step // 64, 4096)) if name in BINARY else str(step)
    done = subprocess.run(
        [str(program), name, count], check=True, env=env, capture_output=True, text=True
    )
    line = done.stdout.strip()
    return float(line.split()[1]), line


def main(arguments: list[str] | None = None) -> int:
    """Builds, measures and prints; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("functions", nargs="*", choices=[[], *LIMITS], help="all without it")
    parser.add_argument("--step", type=int, default=4999, help="check every n-th input")
    parser.add_argument(
        "--isa", choices=list(_builds()), help="the best of this machine without it"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "ulp")
    options = parser.parse_args(arguments)
    program = build(options.build)
    failed = 0
    for name in options.functions or LIMITS:
        error, line = measure(program, name, options.step, options.isa)
        good = error <= LIMITS[name]
        failed += not good
        print(f"{'' if good else 'TOO LARGE '}{line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
