"""Asks a release of MegEngine what it does, case by case, and keeps the answers in answers.json.

Run by hand, with a Python that has the reference release (MegEngine 1.13.0 needs CPython 3.6-3.10
and NumPy < 2):

    python record.py            # cases/*.txt -> answers.json

The cases are blocks of statements, separated by blank lines, whose last line is an expression;
lines that start with ``#`` are remarks (test_reference.py says which mean something). Each runs in
a fresh namespace; after an error of the native part the next one gets a fresh process, and one that
ends its process is recorded as such: the reference does both.
"""

import json
import os
import signal
import subprocess
import sys

# Errors of its native part stay with the process that raised them; those of its Python part do not.
POISONING = ("RuntimeError", "AsyncError", "SystemError")
HERE = os.path.dirname(os.path.abspath(__file__))

PRELUDE = """
import numpy as np
import warnings
warnings.simplefilter("ignore")
import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine import Parameter, Tensor
from megengine.autodiff import Function, GradManager
T = mge.tensor

def rand(seed, *shape):
    "Numbers between -2 and 2 that are the same on every NumPy, and no two of which are equal."
    n = int(np.prod(shape))
    order = (np.arange(1, n + 1) * (2 * seed + 1) * 0.6180339887498949) % 1.0
    return (order * 4.0 - 2.0).reshape(shape).astype("float32")

def vjp(f, *xs, **kw):
    "(y, gradients of the float inputs) for an upstream gradient that is not ones."
    xs = [x if isinstance(x, Tensor) else T(x) for x in xs]
    follow = [x for x in xs if "float" in str(x.dtype)]
    gm = GradManager().attach(follow)
    with gm:
        y = f(*xs)
        ys = y if isinstance(y, (tuple, list)) else [y]
        ys = [v for v in ys if "float" in str(v.dtype)]
        dys = []
        for i, v in enumerate(ys):
            dy = rand(7 + i, *v.shape) if v.ndim else np.float32(1.5)
            dys.append(T(dy).astype(v.dtype))
        gm.backward(list(ys), dys)
    return (y,) + tuple(x.grad for x in follow)
"""


def read_cases(text):
    """The (source, remarks) of each block of a case file."""
    cases = []
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        source = "\n".join(line for line in lines if not line.startswith("#"))
        if source.strip():
            cases.append((source, [line[1:].strip() for line in lines if line.startswith("#")]))
    return cases


def run(source, namespace):
    """The value of the last line of `source`, after the lines before it."""
    import ast

    tree = ast.parse(source)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise SyntaxError("the last statement of a case is an expression: " + source)
    exec(compile(tree, "<case>", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "<case>", "eval"), namespace)


def encode(value):
    """A result as plain JSON."""
    import numpy as np

    from megengine import Parameter, Tensor

    if isinstance(value, Tensor):
        name = getattr(np.dtype(value.dtype), "name", str(value.dtype))
        array = value.numpy()
        kind = "parameter" if isinstance(value, Parameter) else "tensor"
        return {
            "is": kind,
            "dtype": name,
            "shape": list(array.shape),
            "values": numbers(array),
            "repr": repr(value),
        }
    if isinstance(value, np.ndarray):
        return {
            "is": "array",
            "dtype": value.dtype.name,
            "shape": list(value.shape),
            "values": numbers(value),
        }
    if isinstance(value, np.generic):
        return {"is": "number", "dtype": value.dtype.name, "values": numbers(np.asarray(value))}
    if isinstance(value, np.dtype):
        return {"is": "dtype", "text": value.name}
    if isinstance(value, (tuple, list)):
        return {"is": type(value).__name__, "of": [encode(v) for v in value]}
    if isinstance(value, dict):
        return {"is": "dict", "of": [[encode(k), encode(v)] for k, v in value.items()]}
    if value is None or isinstance(value, (bool, int, str)):
        return {"is": type(value).__name__, "text": value}
    if isinstance(value, float):
        return {"is": "float", "values": numbers(np.asarray(value))}
    if isinstance(value, type):
        return {"is": "type", "text": value.__name__}
    return {"is": "object", "text": type(value).__name__}


def numbers(array):
    """The values of an array as a flat list that JSON can hold."""
    out = []
    for x in array.reshape(-1).tolist():
        if isinstance(x, float):
            x = float(f"{x:.8g}")
            out.append(x if x == x and abs(x) != float("inf") else str(x))
        else:
            out.append(x)
    return out


def answer(source):
    """What running a case gives: an encoded value, or the class of what it raises."""
    namespace = {}
    exec(PRELUDE, namespace)
    try:
        return encode(run(source, namespace))
    except Exception as error:  # every kind of failure is an answer
        return {"is": "raises", "text": type(error).__name__}


def worker():
    """Answers one case per line of standard input until one raises."""
    import megengine

    megengine.config.async_level = 0
    for line in sys.stdin:
        signal.alarm(20)
        megengine.set_default_device("xpux")
        result = answer(json.loads(line))
        signal.alarm(0)
        sys.stdout.write("@@" + json.dumps(result) + "\n")
        sys.stdout.flush()
        if result["is"] == "raises" and result["text"] in POISONING:
            return


class Asker:
    """A worker process that is replaced when it has gone."""

    def __init__(self):
        self.process = None

    def ask(self, source):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                universal_newlines=True,
            )
        self.process.stdin.write(json.dumps(source) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("@@"):
                result = json.loads(line[2:])
                if result["is"] == "raises" and result["text"] in POISONING:
                    self.close()
                return result
        code = self.process.wait()
        self.process = None
        return {"is": "dies", "text": code}

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def main():
    """Records every case, keeping answers that are there already."""
    path = os.path.join(HERE, "answers.json")
    known = {}
    if os.path.exists(path) and "--all" not in sys.argv:
        with open(path) as f:
            known = json.load(f)
    answers = {}
    asker = Asker()
    folder = os.path.join(HERE, "cases")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".txt"):
            continue
        with open(os.path.join(folder, name)) as f:
            cases = read_cases(f.read())
        for source, _ in cases:
            answers[source] = known[source] if source in known else asker.ask(source)
        print(name, len(cases), flush=True)
    asker.close()
    with open(path, "w") as f:
        f.write(
            "{\n"
            + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in answers.items())
            + "\n}\n"
        )
    counts = {}
    for a in answers.values():
        kind = a["is"] if a["is"] in ("raises", "dies") else "value"
        counts[kind] = counts.get(kind, 0) + 1
    print(counts)


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main()
