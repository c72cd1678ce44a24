"""Bends every valid call, one argument at a time, and runs it: the child of test_sweep.py.

Writes the number of each call to a file before the call, so that whoever watches knows which one
ended the process. A call ends in a value or an exception that names the op; all others are written
to a second file.

    python -m tests.robustness.sweep PROGRESS FAULTS FIRST
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine import _core
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.robustness import samples
from tests.robustness.samples import Sample, data, ints

T = mge.tensor
MEMORY = 3 << 30
SECONDS = 40

WHOLE = [-1, -2, -100, 0, 1, 7, 100, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, -(2**63), 2**100]
WHOLE += [1.5, np.nan, np.inf, "a", None, True, [], (1, 2, 3), (0, 0), (-1, -1)]
REAL = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 2.0, 1e300, 1e-300, 3, "a", None, [], (1.0, 2.0)]
SHAPES = [(), (0,), (-1,), (-1, -1), (0, -1), (2**31,), (2**40,), (2**62, 4), (2**63,), (1,) * 20]
SHAPES += [
    (1.5,),
    ("a",),
    (None,),
    5,
    "ab",
    None,
    (0, 0),
    (1, 1),
    (5, 5),
    (1, 2, 3),
    [(1, 2)],
    (True,),
]
TEXTS = ["foo", "", "float64", "int64", 3, None, b"a", ["a"]]


def tensors_like(x: mge.Tensor) -> list[Any]:
    """Wrong, odd and special things to put in the place of a Tensor."""
    shape = tuple(x.shape)
    more: list[Any] = [
        F.zeros((0,)),
        F.zeros((0, *shape)),
        F.zeros((*shape[:-1], 0)),
        T(1.5),
        data(1),
        data(2, 1),
        data(*shape, 1),
        data(1, *shape),
        data(*(s + 1 for s in shape)),
        data(*(1,) * 7),
        data(3, 2),
        F.full(shape, float("nan")),
        F.full(shape, float("inf")),
        F.full(shape, 3e38),
        T(np.zeros(shape, "int32")),
        T(np.ones(shape, "uint8")),
        T(np.ones(shape, "bool")),
        T(np.full(shape, 99, "int32")),
        T(np.full(shape, -99, "int32")),
        T(np.full(shape, 2**31 - 1, "int32")),
        T(np.full(shape, -(2**31), "int32")),
        T(np.full(shape, -128, "int8")),
        T(np.ones(shape, "float16")),
        T(np.ones(shape), dtype="float64"),
        T(np.ones(shape, "int64"), dtype="int64"),
        T(np.ones(shape, "float32")).astype("bfloat16"),
        T(np.ones(shape, "int16")),
        T(np.ones(shape, "uint16")),
        None,
        "a",
        3,
        2.5,
        [],
        [1.0, 2.0],
        [x, x],
        np.ones(shape),
        np.array(["a"]),
        object(),
        {},
        [[1], [1, 2]],
    ]
    if shape and 0 not in shape:
        view = data(*(2 * s for s in shape))[tuple(slice(None, None, -2) for _ in shape)]
        more += [view, F.broadcast_to(T(1.0), shape)]
    return more


def bent(value: Any) -> list[Any]:
    """Hostile values to put in the place of a valid one."""
    if isinstance(value, mge.Tensor):
        return tensors_like(value)
    if isinstance(value, bool):
        return [2, None, "a", []]
    if isinstance(value, int):
        return [*WHOLE, T(1), T([1, 2]), T(1.5)]
    if isinstance(value, float):
        return [*REAL, T(1.0), T([1.0, 2.0])]
    if isinstance(value, str):
        return list(TEXTS)
    if isinstance(value, (tuple, list)):
        inside: list[Any] = []
        if value and isinstance(value[0], mge.Tensor):
            inside = [[v, *value[1:]] for v in tensors_like(value[0])] + [list(value[:1]), [value]]
        elif value and isinstance(value[0], int):
            inside = [[v, *value[1:]] for v in WHOLE] + [[*value[:-1], v] for v in WHOLE]
        return [*SHAPES, T([1, 2]), T(np.array([2**31 - 1], "int32")), *inside]
    return [0, "a", data(2), (1, 2)]


def bent_calls(sample: Sample) -> Iterator[tuple[str, Any]]:
    """(description, call without arguments) for each way to bend `sample`."""
    for i in range(len(sample.args())):
        for k in range(len(bent(sample.args()[i]))):

            def call(i: int = i, k: int = k) -> Any:
                args = sample.args()
                args[i] = bent(args[i])[k]
                return sample.call(*args, **sample.kwargs)

            yield f"{sample.name}, argument {i}, way {k}", call
    yield f"{sample.name} without its last argument", lambda: sample.call(*sample.args()[:-1])
    yield f"{sample.name} with one more", lambda: sample.call(*sample.args(), 3)


def op_calls() -> Iterator[tuple[str, Any]]:
    """Each registered op, with hostile fields and inputs."""
    rng = random.Random(0)
    inputs = [
        lambda: data(2, 3),
        lambda: data(2, 4, 6, 6),
        lambda: data(4, 4, 3, 3),
        lambda: data(3),
        lambda: T(1.5),
        lambda: F.zeros((0, 3)),
        lambda: ints(0, 1),
        lambda: ints(9, -9),
        lambda: T([True, False]),
        lambda: data(1, 4, 1, 1),
        lambda: data(2, 3).astype("float16"),
        lambda: T(np.ones((2, 3)), dtype="float64"),
        lambda: data(1, 1, 1, 1, 1, 1, 1, 2),
        lambda: data(6, 2)[::-2],
        lambda: F.broadcast_to(T(1.0), (2, 3)),
        lambda: F.complex(data(2, 3), data(2, 3)),
    ]
    for info in _core.op_types():
        kind = getattr(builtin, info["name"])
        for turn in range(70):
            fields: dict[str, Any] = {}
            for name, default, choices in info["fields"]:
                if rng.random() < 0.6:
                    continue
                if choices:
                    fields[name] = rng.choice([*choices, "foo", 99, None])
                else:
                    fields[name] = rng.choice(
                        bent(default) if default is not None else WHOLE + SHAPES
                    )
            chosen = [rng.choice(inputs) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]))]

            def call(kind: Any = kind, fields: Any = fields, chosen: Any = chosen) -> Any:
                return apply(kind(**fields), *[make() for make in chosen])

            yield f"op {info['name']}, turn {turn}", call


def all_calls() -> Iterator[tuple[str, str, Any]]:
    """(name of the op, description, call) of the whole sweep, in a fixed order."""
    kinds = [samples.functional, samples.tensors, samples.modules, samples.below]
    for sample in [s for kind in kinds for s in kind()]:
        for text, call in bent_calls(sample):
            yield sample.name, text, call
    for number, sample in enumerate(samples.indexing()):
        yield sample.name, f"{sample.name} {number}", lambda s=sample: s.call(*s.args())
    for text, call in op_calls():
        yield text.split()[1].rstrip(","), text, call


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# Registered ops, and the modes that the elementwise one speaks as.
OPS = {plain(str(info["name"])) for info in _core.op_types()}
OPS |= {plain(mode) for i in _core.op_types() for _, _, modes in i["fields"] for mode in modes}


SPEAKER = re.compile(r"[A-Za-z_][\w.]*(\(\))?( [\w.]+)?: ")


def names_an_op(message: str, name: str) -> bool:
    """True where an error says who speaks: the function, a registered op, Tensor, an argument."""
    if name[0].isupper():
        return bool(message)  # constructors of modules and optimizers name the argument
    head = plain(message.split(":")[0])
    spoken = (name, "tensor", "parameter", "random", "device", "dtype")
    known = head in OPS or any(w in head for w in spoken)
    return bool(SPEAKER.match(message)) or plain(name) in plain(message) or known


def settle(result: Any) -> None:
    """Reads what a call gave, so that nothing is left to happen later."""
    for value in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(value, mge.Tensor) and value.size < 1 << 20:
            value.numpy()
            repr(value)


def main() -> None:
    progress, faults, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # it reserves terabytes for its shadow
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(progress, "w") as at, open(faults, "a") as log:
        for number, (name, text, call) in enumerate(all_calls()):
            if number < first:
                continue
            at.seek(0)
            at.write(f"{number} {text}          \n")
            at.flush()
            signal.alarm(SECONDS)
            try:
                settle(call())
            except MemoryError:
                pass
            except Exception as error:
                if not names_an_op(str(error), name):
                    log.write(f"{text}: {type(error).__name__}: {str(error)[:150]!r}\n")
            finally:
                signal.alarm(0)
        at.seek(0)
        at.write(f"done {number + 1}          \n")


if __name__ == "__main__":
    main()
