"""The same files through onnxruntime, with as many threads."""

from __future__ import annotations

import os

import onnxruntime

from benchmarks.workloads import Work, workload
from benchmarks.workloads.onnx_files import exported, inputs


def run(name: str) -> Work:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(
        exported(name), options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: inputs(name)}
    return Work(lambda: session.run(None, feed))


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
