"""What the recorder and the test of whole models share. Runs on the reference's Python 3.9 too."""

import importlib
import os
import zlib

import numpy as np

import megengine as mge
from megengine.autodiff import GradManager

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE = 48  # arrays of so many numbers or fewer are kept whole
PROJECTIONS = 8
ENTRIES = 8


class Case:
    """A model with its inputs, and how it is judged (see this package's docstring)."""

    def __init__(
        self, net, inputs, train=True, loss=False, judge="reference", why=None, weight_scale=1.0
    ):
        assert judge in ("reference", "differences", "float64"), judge
        assert (judge == "reference") == (why is None), "say why the reference does not judge"
        self.net, self.inputs, self.train, self.loss = net, inputs, train, loss
        self.judge, self.why, self.weight_scale = judge, why, weight_scale


def load(stem):
    """The cases of cases/`stem`.py by name."""
    module = importlib.import_module("tests.reference.models.cases." + stem)
    return module.cases() if hasattr(module, "cases") else {stem: module.case()}


def stems():
    """The names of all files of cases."""
    names = sorted(os.listdir(os.path.join(HERE, "cases")))
    return [n[:-3] for n in names if n.endswith(".py") and not n.startswith("_")]


# ---- numbers ------------------------------------------------------------------------------------


def generator(name):
    """A NumPy generator for a name: its stream is the same in every release of NumPy."""
    return np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)


def floats(name, *shape):
    """An input of standard normal numbers."""
    return generator("input " + name).standard_normal(shape).astype("float32")


def integers(name, high, *shape):
    """An input of int32 numbers in [0, high)."""
    return generator("input " + name).randint(0, high, shape).astype("int32")


def initial(name, shape, scale=1.0):
    """The value that a parameter or buffer gets: variance 1 / fan in, norms around 1."""
    z = generator("weight " + name).standard_normal(shape)
    last = name.rsplit(".", 1)[-1]
    wide = [n for n in shape if n != 1]
    if last == "running_var":
        z = 1.0 + 0.1 * np.abs(z)
    elif last == "weight" and len(wide) <= 1 and len(shape) != 2:
        z = 1.0 + 0.1 * z
    elif last in ("running_mean", "bias") or len(shape) <= 1:
        z = 0.1 * z
    else:
        z = z * scale / np.sqrt(max(1, int(np.prod(shape[1:]))))
    return z.astype("float32")


def set_weights(case, dtype="float32"):
    """Gives every float parameter and buffer its initial value, in `dtype`."""
    for name, p in sorted(case.net.named_tensors()):
        if "float" in str(p.dtype):
            value = initial(name, tuple(p.numpy().shape), case.weight_scale).astype(dtype)
            p._reset(mge.tensor(value, dtype=dtype))


# ---- running ------------------------------------------------------------------------------------


def flatten(output):
    """The Tensors in nested tuples, lists and dicts, in order."""
    if isinstance(output, dict):
        return [t for key in sorted(output) for t in flatten(output[key])]
    if isinstance(output, (tuple, list)):
        return [t for item in output for t in flatten(item)]
    return [] if output is None else [output]


def is_float(t):
    """Whether gradients go through it."""
    return "float" in str(t.dtype)


def upstream(case, index, shape, dtype):
    """The gradient that comes into output `index`."""
    if case.loss:
        return mge.tensor(np.ones(shape), dtype=dtype)
    return mge.tensor(generator(f"upstream {index}").standard_normal(shape), dtype=dtype)


def tensors(case, dtype="float32"):
    """The inputs as Tensors, floats in `dtype`."""
    return [mge.tensor(x, dtype=dtype if x.dtype.kind == "f" else "int32") for x in case.inputs]


def run(case):
    """Outputs, gradients by name, and buffers after the run, as arrays."""
    set_weights(case)
    case.net.train() if case.train else case.net.eval()
    inputs = tensors(case)
    params = dict(case.net.named_parameters())
    follow = list(params.values()) + [x for x in inputs if is_float(x)]
    gm = GradManager().attach(follow)
    with gm:
        outputs = flatten(case.net(*inputs))
        smooth = [y for y in outputs if is_float(y)]
        dys = [upstream(case, i, y.numpy().shape, "float32") for i, y in enumerate(smooth)]
        gm.backward(smooth, dys)
    grads = {name: gradient(p) for name, p in params.items()}
    grads.update({f"input {i}": gradient(x) for i, x in enumerate(inputs) if is_float(x)})
    buffers = {n: b.numpy() for n, b in case.net.named_buffers() if is_float(b)}
    return [y.numpy() for y in outputs], grads, buffers


def gradient(x):
    """The gradient of an attached tensor; zeros where none arrived."""
    return np.zeros(x.numpy().shape, "float32") if x.grad is None else x.grad.numpy()


# ---- digests ------------------------------------------------------------------------------------


def signs(name, k, shape):
    """Projection `k` of an array called `name`: random signs."""
    return generator(f"signs {k} {name}").randint(0, 2, shape) * 2.0 - 1.0


def places(name, size):
    """The entries that a digest keeps."""
    return generator("places " + name).randint(0, size, ENTRIES)


def rounded(values):
    """A flat list of numbers for JSON, with seven digits."""
    return [float(f"{v:.7g}") for v in np.asarray(values, "float64").reshape(-1)]


def digest(name, array):
    """An array as compact JSON: whole, or a norm, projections on random signs, and some entries.

    An error e of any kind moves a projection by |e| or so: eight of them do not all miss it.
    """
    a = np.asarray(array, "float64")
    out = {"shape": list(a.shape)}
    if a.size <= WHOLE:
        out["values"] = rounded(a)
        return out
    out["norm"] = rounded(np.sqrt(np.sum(a * a)))[0]
    out["projections"] = rounded([np.sum(signs(name, k, a.shape) * a) for k in range(PROJECTIONS)])
    out["entries"] = rounded(a.reshape(-1)[places(name, a.size)])
    return out
