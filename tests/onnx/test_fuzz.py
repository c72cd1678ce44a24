"""Damaged files end in an exception or in a module: never in a crash, never in a hang."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

CHILD = r"""
import random, resource, sys, time, warnings

limit = 6 << 30  # bytes of address space
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
warnings.simplefilter("ignore")

import onnx
import megengine.onnx
from tests.onnx.cases import load_cases

seed, count = int(sys.argv[1]), int(sys.argv[2])
draw = random.Random(seed)
cases = load_cases("node")
names = ["test_loop13_seq", "test_if", "test_scan9_sum", "test_lstm_with_peepholes",
         "test_einsum_sum", "test_conv_with_autopad_same", "test_attention_4d_expanded",
         "test_string_concat", "test_hannwindow", "test_resize_upsample_scales_nearest",
         "test_sequence_insert_at_back",
         "test_softmax_large_number_expanded", "test_quantizelinear_blocked_symmetric"]
files = [cases[name].model.SerializeToString() for name in names if name in cases]
assert len(files) > 10, [name for name in names if name not in cases]


def with_weights():
    h, n = onnx.helper, onnx.numpy_helper
    import numpy as np
    weight = n.from_array(np.arange(54, dtype=np.float32).reshape(2, 3, 3, 3), "a.weight")
    bias = h.make_tensor("a.bias", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    half = h.make_tensor("half", onnx.TensorProto.INT4, [3], [1, 2, 3])
    nodes = [h.make_node("Conv", ["x", "a.weight", "a.bias"], ["y"], pads=[1, 1, 1, 1]),
             h.make_node("Cast", ["half"], ["z"], to=1),
             h.make_node("Twice", ["y"], ["w"], domain="mine", factor=2.0)]
    twice = h.make_function(
        "mine", "Twice", ["p"], ["q"],
        [h.make_node("Constant", [], ["f"]), h.make_node("Mul", ["p", "f"], ["q"])],
        [h.make_opsetid("", 21)], ["factor"])
    reference = twice.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "factor", 1
    value = h.make_tensor_value_info
    graph = h.make_graph(nodes, "g", [value("x", 1, [1, 3, 4, 4])],
                         [value("w", 1, None), value("z", 1, [3])], [weight, bias, half])
    opsets = [h.make_opsetid("", 21), h.make_opsetid("mine", 1)]
    return h.make_model(graph, functions=[twice], opset_imports=opsets).SerializeToString()


files.append(with_weights())
for file in files:
    megengine.onnx.load(file)  # undamaged, all load


def damaged(data):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 5, 20])):
        kind, at = draw.randrange(6), draw.randrange(max(len(data), 1))
        if not data:
            break
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del data[at : at + draw.choice([1, 2, 8])]
        elif kind == 3:
            data[at:at] = bytes(draw.randrange(256) for _ in range(draw.choice([1, 2, 9])))
        elif kind == 4:
            end = draw.randrange(at, len(data)) + 1
            data[at:end] = data[at:end][::-1]
        else:
            del data[at:]
    return bytes(data)


def shuffled(data):
    '''Damage that still parses: numbers, names and lists of the messages are changed.'''
    model = onnx.ModelProto.FromString(data)
    places = []

    def walk(message):
        for field, value in message.ListFields():
            repeated = hasattr(value, "append") or hasattr(value, "add")
            places.append((message, field.name, repeated, value))
            if field.message_type is not None:
                for one in value if repeated else [value]:
                    walk(one)

    walk(model)
    for _ in range(draw.choice([1, 1, 2, 4])):
        message, name, repeated, value = draw.choice(places)
        try:
            if repeated and len(value) and draw.random() < 0.5:
                del value[draw.randrange(len(value))]
            elif repeated and len(value) and isinstance(value[0], (int, float)):
                value[draw.randrange(len(value))] = draw.choice(
                    [0, 1, -1, 2, 7, 63, 1 << 20, (1 << 31) - 1, 1 << 40, (1 << 63) - 1])
            elif repeated and len(value) and isinstance(value[0], str):
                value[draw.randrange(len(value))] = draw.choice(["", "x", "y", "cond", "a" * 99])
            elif isinstance(value, int):
                setattr(message, name, draw.choice([0, 1, 2, 3, 7, 11, -1, 16, 27, 1 << 30]))
            elif isinstance(value, float):
                setattr(message, name, draw.choice([0.0, -1.0, 1e30, float("nan")]))
            elif isinstance(value, str):
                texts = ["", "x", "y", "Loop", "If", "Add", "../x", "a" * 99]
                setattr(message, name, draw.choice(texts))
            elif isinstance(value, bytes):
                setattr(message, name, draw.choice([b"", value[:-1], value + b"\0", b"\xff\xfe"]))
            else:
                message.ClearField(name)
        except (ValueError, TypeError, IndexError):
            continue
    return model.SerializeToString()


found, slowest = {}, 0.0
for i in range(count):
    data = draw.choice(files)
    data = damaged(data) if i % 2 else shuffled(data)
    started = time.perf_counter()
    try:
        outcome = type(megengine.onnx.load(data)).__name__
    except Exception as error:
        outcome = type(error).__name__
        if not isinstance(error, (ValueError, NotImplementedError, MemoryError)):
            print("unexpected", outcome, error, seed, i, flush=True)
            raise
    found[outcome] = found.get(outcome, 0) + 1
    slowest = max(slowest, time.perf_counter() - started)
print("done", sum(found.values()), found, f"slowest {slowest:.2f} s")
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_damaged_files(seed: int) -> None:
    count = 1500
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, sys.path)]
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(seed), str(count)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        cwd=root,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert f"done {count}" in run.stdout
