"""ONNX files, loaded and compiled by OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.onnx
from benchmarks.workloads import Work, workload
from benchmarks.workloads.onnx_files import exported, inputs
from megengine.jit.recording import record


def run(name: str) -> Work:
    x = mge.tensor(inputs(name))
    program = record(megengine.onnx.load(exported(name)), x).compile()
    return Work(lambda: program(x))


@workload
def onnx_resnet50() -> Work:
    return run("resnet50")


@workload
def onnx_mobilenet_v2() -> Work:
    return run("mobilenet_v2")


@workload
def onnx_vit() -> Work:
    return run("vit")


@workload
def onnx_minilm() -> Work:
    return run("minilm")
