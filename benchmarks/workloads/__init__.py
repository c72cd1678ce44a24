"""The workloads, written once for each framework, under the same names.

A workload is a function that makes its state and returns a `Work`. Each framework's file is
imported only in the process that measures it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What is timed: `step` does the work `calls` times over."""

    step: Callable[[], object]
    calls: int = 1


Maker = Callable[[], Work]

# Framework -> the module that holds its workloads.
FRAMEWORKS = {
    "openmge": "benchmarks.workloads.openmge",
    "numpy": "benchmarks.workloads.numpy_peer",
    "torch": "benchmarks.workloads.torch_peer",
    "torch channels-last": "benchmarks.workloads.torch_peer",
}

# The names by group, in the order of the report.
GROUPS = {
    "overhead": ["add_10", "chain_32", "reshape", "getitem", "backward_10"],
    "ops": [
        "add_16m", "exp_16m", "sum_16m", "sum_columns", "softmax_rows", "layer_norm_rows",
        "sort_rows", "topk_rows", "transpose_copy", "embedding", "matmul_64", "matmul_1024",
        "conv3x3", "max_pool", "batch_norm",
    ],
    "train": ["mlp_small", "mlp", "lenet", "resnet18", "adam_25m"],
}  # fmt: skip

# Where the memory format matters, PyTorch runs in both of its formats, and the better one counts.
CHANNELS_LAST = {"conv3x3", "max_pool", "batch_norm", "resnet18"}


def load(framework: str) -> dict[str, Maker]:
    """The workloads of a framework, by name."""
    module = importlib.import_module(FRAMEWORKS[framework])
    if framework == "torch channels-last":
        module.use_channels_last()
    makers: dict[str, Maker] = module.WORKLOADS
    return makers
