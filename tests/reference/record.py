"""Asks a release of MegEngine what it does, case by case, and keeps what it answers.

Run by hand, with a Python that has the reference release (MegEngine 1.13.0 needs CPython 3.6-3.10
and NumPy < 2):

    python record.py                 # cases/*.txt -> answers/*.json, a file for each
    python record.py tensor modules  # cases/tensor.txt and cases/modules.txt only
    python record.py --again tensor  # asks also what is known already

Answers that are known are kept, and those of cases that are gone are dropped. An answer is one
line: two people who add cases to different places of a file do not get in each other's way.

The cases are blocks of statements, separated by blank lines, whose last line is an expression;
lines that start with ``#`` are remarks (test_reference.py says which mean something). Each runs in
a process of its own: bad input ends the reference's process or, worse, spoils what comes after it.
"""

import contextlib
import json
import os
import signal
import sys

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

def picture(height, width, channels=3, dtype="uint8"):
    "An image, of numbers from 0 to 255 that are the same on every NumPy."
    return ((rand(5, height, width, channels) + 2.0) * 63.99).astype(dtype)

def change(transform, *parts, **kw):
    "Items that a transform makes of copies of one, one after the other, from a known state."
    import random
    np.random.seed(kw.get("seed", 0))
    random.seed(0)
    out = []
    for _ in range(kw.get("times", 1)):
        item = tuple(np.array(p) if isinstance(p, np.ndarray) else p for p in parts)
        out.append(transform.apply(item if len(item) > 1 else item[0]))
    return out

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

def train(make, steps=10, before=None, after=None):
    "Three parameters after 1, 2, 3, 6 and all steps of the optimizer that `make` gives; its state."
    ps = [Parameter(rand(1, 2, 3)), Parameter(rand(2, 4)), Parameter(rand(3, 1))]
    opt = make(ps)
    seen = []
    for i in range(steps):
        for k, p in enumerate(ps):
            p.grad = T(rand(10 + 3 * i + k, *p.shape) * (1 + i % 3))
        if before is not None:
            before(opt, ps)
        opt.step()
        if after is not None:
            after(opt, ps, i)
        if i in (0, 1, 2, 5, steps - 1):
            seen.append([p.numpy() for p in ps])
    return seen, opt.state_dict()
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
        out = {
            "is": "parameter" if isinstance(value, Parameter) else "tensor",
            "dtype": name,
            "shape": list(array.shape),
            "values": numbers(array),
        }
        if array.size <= 12:
            out["repr"] = repr(value)
        return out
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
    if array.dtype.kind == "c":  # real and imaginary parts take turns
        import numpy as np

        array = np.stack([array.real, array.imag], -1)
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


def ask(source, seconds=120):
    """The answer to one case, from a process that is forked for it."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(seconds)
        import megengine

        megengine.config.async_level = 0
        megengine.set_default_device("xpux")
        with os.fdopen(writer, "w") as f:
            json.dump(answer(source), f)
            f.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return json.loads(text)
    return {"is": "dies", "text": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8}


def preload():
    """Imports what the reference imports but for itself, so that `ask` starts fast.

    Itself it cannot be: it does not run in a process that was forked after its import.
    """
    import importlib
    import subprocess

    listing = "import sys, megengine; print(*(n for n in sys.modules if 'megengine' not in n))"
    for name in subprocess.check_output([sys.executable, "-c", listing]).decode().split():
        with contextlib.suppress(ImportError):  # a module that another one made up
            importlib.import_module(name)


def read_answers(stem):
    """The known answers to cases/`stem`.txt by source."""
    path = os.path.join(HERE, "answers", stem + ".json")
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def record(stem, again=False):
    """Brings answers/`stem`.json up to date with cases/`stem`.txt."""
    with open(os.path.join(HERE, "cases", stem + ".txt")) as f:
        cases = read_cases(f.read())
    known = {} if again else read_answers(stem)
    answers = {source: known[source] if source in known else ask(source) for source, _ in cases}
    lines = [json.dumps(k) + ": " + json.dumps(v) for k, v in answers.items()]
    with open(os.path.join(HERE, "answers", stem + ".json"), "w") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")
    kinds = [a["is"] if a["is"] in ("raises", "dies") else "value" for a in answers.values()]
    new = sum(source not in known for source in answers)
    counts = ", ".join(f"{kinds.count(k)} {k}" for k in sorted(set(kinds)))
    print(f"{stem}: {len(cases)} cases, {new} asked: {counts}", flush=True)


def main():
    """Records the case files that are named, or all."""
    stems = [a for a in sys.argv[1:] if not a.startswith("--")]
    if not stems:
        stems = sorted(n[:-4] for n in os.listdir(os.path.join(HERE, "cases")) if n[-4:] == ".txt")
    preload()
    for stem in stems:
        record(stem, "--again" in sys.argv)


if __name__ == "__main__":
    main()
