"""What the files of these tests hold; runs under the reference's Python 3.8 as well.

    REFERENCE/python tests/serialization/contents.py write   # the files in tests/serialization/data
    REFERENCE/python tests/serialization/contents.py read A_FOLDER   # what `python -m
        tests.serialization.contents save A_FOLDER` wrote here

where REFERENCE is a place with MegEngine 1.13.
"""

import collections
import os
import sys

import numpy as np

import megengine as mge
import megengine.module as M
import megengine.optimizer as optim

try:
    from megengine.core._imperative_rt import bfloat16
except ImportError:
    from megengine.core.tensor.dtype import bfloat16

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def plain():
    """Values of every kind that a checkpoint may hold."""
    fields = [("a", "<f4"), ("b", ">i2", (2,)), ("c", [("x", "u1"), ("y", "<c8")])]
    records = np.zeros(3, dtype=fields)
    records["a"], records["b"][:, 1], records["c"]["y"] = [1.5, 2, 3], [-1, 300, 5], 2 - 1j
    counts = collections.defaultdict(list)
    counts["x"].append(1)
    rng = np.random.RandomState(3)
    rng.rand(5)
    return collections.OrderedDict(
        numbers=[0, -1, 2**40, 2**100, -(2**2000), 0.5, float("inf"), 1 + 2j, True, None],
        text=["", "αβγ", "a\nb\\u0041", b"", b"\x00\xff\n", bytearray(b"xy")],
        containers=({"k": (1, (2, ()))}, [[]], {3, 4}, frozenset([1, (2, "x")]), {}),
        defaultdict=counts,
        nested=collections.OrderedDict([("b", 1), ("a", collections.OrderedDict())]),
        arrays=[
            np.arange(6.0).reshape(2, 3),
            np.asfortranarray(np.arange(6, dtype="int16").reshape(2, 3)),
            np.arange(3, dtype=">i4"),
            np.zeros((0, 3), "float32"),
            np.array(2.5, "float16"),
            np.array([True, False]),
            np.array(["a", "bcd"]),
            np.array([b"a", b"bcd"]),
            np.arange(4, dtype="complex64"),
            np.arange(10)[::-3],
            np.array(["2020-02-29T12:00", "1970-01-01T00:00"], dtype="M8[s]"),
            np.array([5, -7], dtype="m8[25us]"),
        ],
        records=records,
        aligned=np.zeros(2, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True)),
        record=records[1],
        scalars=[np.float32(2.5), np.int8(-3), np.bool_(True), np.float64(1e300), np.str_("ab")],
        dtypes=[np.dtype("float32"), np.dtype(">u2"), np.dtype(fields), np.dtype("S7")],
        types=[np.float32, np.int64, float, int],
        generator=rng.get_state(),
    )


def tensors():
    """Tensors, parameters, state dicts of a module and of its optimizer."""
    net = M.Sequential(M.Conv2d(1, 2, 3), M.BatchNorm2d(2), M.ReLU())
    for i, parameter in enumerate(net.parameters()):
        parameter[...] = np.linspace(-1, i + 1, parameter.size).reshape(parameter.shape)
    weights = net.state_dict()
    states = {}
    for name, make in [
        ("SGD", lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9)),
        ("Adam", lambda ps: optim.Adam(ps, lr=0.1)),
        ("AdamW", lambda ps: optim.AdamW(ps, lr=0.1)),
        ("Adagrad", lambda ps: optim.Adagrad(ps, lr=0.1)),
        ("Adadelta", lambda ps: optim.Adadelta(ps, lr=0.1)),
    ]:
        optimizer = make(net.parameters())
        schedule = optim.MultiStepLR(optimizer, [2, 4])
        for parameter in net.parameters():
            parameter.grad = mge.Tensor(np.full(parameter.shape, 0.25, "float32"))
        optimizer.step()
        schedule.step()
        states[name] = [optimizer.state_dict(), schedule.state_dict()]
    values = {
        dtype: mge.Tensor(np.array([[0, 1], [1, 0]], dtype=dtype))
        for dtype in ["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "bool"]
    }
    values["bfloat16"] = mge.Tensor([1.5, -2.0]).astype(bfloat16)
    values["scalar"] = mge.Tensor(3.0)
    values["empty"] = mge.Tensor(np.zeros((0, 2), "float32"))
    values["parameter"] = mge.Parameter([1.0, 2.0])
    values["twice"] = [values["float32"], values["float32"]]
    return {"net": weights, "optimizers": states, "values": values}


def layers():
    """Whole layers, with an input of each and what it gives."""
    image, rows = (1, 4, 6, 6), (3, 4)
    made = [
        (M.Conv1d(4, 2, 3), [(1, 4, 6)]),
        (M.Conv2d(4, 2, 3, padding=1, groups=2), [image]),
        (M.Conv3d(4, 2, 3), [(1, 4, 3, 4, 5)]),
        (M.ConvTranspose2d(4, 2, 3, stride=2), [image]),
        (M.ConvTranspose3d(4, 2, 3), [(1, 4, 3, 4, 5)]),
        (M.LocalConv2d(4, 2, 6, 6, 3), [image]),
        (M.ConvRelu2d(4, 2, 3), [image]),
        (M.ConvBn2d(4, 2, 3), [image]),
        (M.ConvBnRelu2d(4, 2, 3), [image]),
        (M.ConvTransposeBn2d(4, 2, 3), [image]),
        (M.BatchNorm1d(4), [rows]),
        (M.BatchNorm2d(4), [image]),
        (M.SyncBatchNorm(4), [image]),
        (M.GroupNorm(2, 4), [image]),
        (M.InstanceNorm(4), [image]),
        (M.LayerNorm(4), [rows]),
        (M.LocalResponseNorm(), [image]),
        (M.Linear(4, 3), [rows]),
        (M.LinearRelu(4, 3), [rows]),
        (M.LinearBn1d(4, 3), [rows]),
        (M.Embedding(5, 3), None),
        (M.LSTM(4, 3, bidirectional=True), [(2, 3, 4)]),
        (M.RNN(4, 3), [(2, 3, 4)]),
        (M.LSTMCell(4, 3), [rows]),
        (M.RNNCell(4, 3), [rows]),
        (M.MultiHeadAttention(4, 2), [(2, 3, 4)] * 3),
        (M.AvgPool2d(2), [image]),
        (M.MaxPool2d(2), [image]),
        (M.AdaptiveAvgPool2d(2), [image]),
        (M.AdaptiveMaxPool2d((2, 3)), [image]),
        (M.SlidingWindow(3), [image]),
        (M.PixelShuffle(2), [image]),
        (M.Pad(((0, 0), (0, 0), (1, 2), (3, 4))), [image]),
        (M.Dropout(0.5), [rows]),
        (M.Elemwise("add"), [rows, rows]),
        (M.Concat(), None),
        (M.Identity(), [rows]),
        (M.ReLU(), [rows]),
        (M.PReLU(), [rows]),
        (M.LeakyReLU(0.2), [rows]),
        (M.GELU(), [rows]),
        (M.SiLU(), [rows]),
        (M.Sigmoid(), [rows]),
        (M.Softmax(1), [rows]),
        (
            M.Sequential(
                collections.OrderedDict(a=M.Conv2d(4, 4, 3), b=M.Sequential(M.BatchNorm2d(4)))
            ),
            [image],
        ),
    ]
    rng = np.random.RandomState(0)
    out = []
    for layer, shapes in made:
        for tensor in layer.tensors():
            tensor[...] = rng.uniform(0.1, 1, tensor.shape).astype("float32")
        layer.eval()
        inputs = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes or []]
        out.append([type(layer).__name__, layer, inputs, outputs(layer, inputs)])
    return out


def outputs(layer, inputs):
    """The first output of a layer for these inputs; None where it takes others."""
    if not inputs:
        return None
    got = layer(*[mge.Tensor(i) for i in inputs])
    while isinstance(got, tuple):
        got = got[0]
    return got.numpy()


def same(got, want):
    """Raises where two trees of values differ, in type as well."""
    if isinstance(want, (mge.Tensor, np.ndarray, np.generic)):
        assert type(got) is type(want), (got, want)
        got, want = [x.numpy() if isinstance(x, mge.Tensor) else x for x in (got, want)]
        assert got.shape == want.shape, (got, want)
        if np.__version__.startswith("1."):  # which reads arrays in its own byte order
            got, want = [x.astype(x.dtype.newbyteorder("=")) for x in (got, want)]
        assert got.dtype == want.dtype, (got, want)
        assert np.array_equal(got, want), (got, want)
    elif isinstance(want, dict):
        assert type(got) is type(want), (got, want)
        assert list(got) == list(want), (got, want)
        for key in want:
            same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want), (got, want)
        assert len(got) == len(want), (got, want)
        for one, other in zip(got, want):  # noqa: B905 - Python 3.9
            same(one, other)
    else:
        assert type(got) is type(want), (got, want)
        assert got == want, (got, want)


def write():
    """Under the reference: writes the files of the tests."""
    for name, value in [("plain", plain()), ("tensors", tensors())]:
        for protocol in range(2 if name == "tensors" else 0, 6):  # below 2 it fails for Tensors
            with open(os.path.join(HERE, f"{name}.{protocol}.pkl"), "wb") as file:
                mge.save(value, file, pickle_protocol=protocol)
    with open(os.path.join(HERE, "layers.4.pkl"), "wb") as file:
        mge.save(layers(), file)


def save(folder):
    """Here: writes the files that the reference is to read."""
    mge.random.seed(0)
    for protocol in range(6):
        for name, value in [("plain", plain()), ("tensors", tensors()), ("layers", layers())]:
            mge.save(value, os.path.join(folder, f"{name}.{protocol}"), None, protocol)


def read(folder):
    """Under the reference: reads them and compares."""
    for name, make in [("plain", plain), ("tensors", tensors)]:
        for protocol in range(6):
            got = mge.load(os.path.join(folder, f"{name}.{protocol}"))
            want = make()
            if name == "tensors":
                del got["optimizers"], want["optimizers"]  # rounded in other places
            same(got, want)
            print(name, protocol, "read")
    for protocol in range(6):
        for name, layer, inputs, want in mge.load(os.path.join(folder, f"layers.{protocol}")):
            assert type(layer).__name__ == name
            if want is not None:
                np.testing.assert_allclose(outputs(layer, inputs), want, rtol=2e-5, atol=2e-5)
        print("layers", protocol, "read")


if __name__ == "__main__":
    {"write": write, "save": save, "read": read}[sys.argv[1]](*sys.argv[2:])
