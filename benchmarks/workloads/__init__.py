"""The workloads, written once for each framework, under the same names.

A workload is a function that makes its state and returns a `Work`. Those of a group stand in
`<group>_openmge.py`, `<group>_torch.py` and so on (`FRAMEWORKS`); a peer may lack any. A framework
is imported only in the process that measures it, and so are the files of its workloads.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Work:
    """What is timed: `step` does the work `calls` times over.

    `bytes` and `flops` are what a call has to move and to compute at the least: the inputs read and
    the outputs written once, a multiply-add as two. With the limits of the machine they bound the
    time from below. 0: not stated.
    """

    step: Callable[[], object]
    calls: int = 1
    bytes: float = 0
    flops: float = 0


Maker = Callable[[], Work]

# Framework -> the ending of the files that hold its workloads.
FRAMEWORKS = {
    "openmge": "openmge",
    "numpy": "numpy",
    "torch": "torch",
    "torch channels-last": "torch",
    "onnxruntime": "onnxruntime",
    "opencv": "opencv",
    "pillow": "pillow",
}

# The workloads of this process's framework, by name, and which of them have two memory formats.
WORKLOADS: dict[str, Maker] = {}
BOTH_FORMATS: set[str] = set()


def workload(maker: Maker, both_formats: bool = False) -> Maker:
    """Registers a workload under the name of its function."""
    WORKLOADS[maker.__name__] = maker
    if both_formats:
        BOTH_FORMATS.add(maker.__name__)
    return maker


def repeat(f: Callable[[], object], calls: int) -> Work:
    """`calls` calls of f in one step, for what takes microseconds."""

    def step() -> None:
        for _ in range(calls):
            f()

    return Work(step, calls)


def groups(framework: str = "openmge") -> dict[str, list[str]]:
    """The names of a framework's workloads by group, in the order of the files. Imports none."""
    ending = FRAMEWORKS[framework]
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob(f"*_{ending}.py")):
        functions = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        found[path.stem.removesuffix(f"_{ending}")] = [
            f.name for f in functions if f.decorator_list
        ]
    return found


def load(framework: str, name: str) -> Maker | None:
    """A framework's workload; None where it has none of this name. Imports its group alone."""
    group = next((g for g, names in groups(framework).items() if name in names), None)
    if group is None:
        return None
    if framework == "torch channels-last":
        importlib.import_module("benchmarks.workloads.torch_peer").use_channels_last()
    importlib.import_module(f"benchmarks.workloads.{group}_{FRAMEWORKS[framework]}")
    if framework == "torch channels-last" and name not in BOTH_FORMATS:
        return None
    return WORKLOADS[name]
