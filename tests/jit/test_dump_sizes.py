"""Numbers that programs compute from sizes follow the sizes of the inputs of a dumped graph."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.jit import graph_file, trace
from megengine.jit.recording import record_with_sizes
from megengine.jit.sizes import MOST_SYMBOLS, Dim, Expression, FollowedInt, Sizes
from megengine.utils.comp_graph_tools import GraphInference
from megengine.utils.network import Network, str_to_mge_class

T = mge.tensor
Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def dumped(function: Function, *args: Array) -> bytes:
    traced = trace(function, symbolic=True, capture_as_const=True)
    traced(*map(T, args))
    file = io.BytesIO()
    traced.dump(file, arg_names=[f"x{i}" for i in range(len(args))])
    return file.getvalue()


def check(inference: GraphInference, function: Function, *args: Array) -> None:
    got = list(inference.run(*args).values())
    want = function(*map(T, args))
    for g, w in zip(got, [want] if isinstance(want, mge.Tensor) else want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


def padded(x: Any) -> Any:
    """What detectors do to images: up to multiples of 32, with a value around."""
    n, c, h, w = x.shape
    out = F.full((n, c, (h + 31) // 32 * 32, (w + 31) // 32 * 32), 7.0)
    out[:, :, :h, :w] = x
    return out


def grid(x: Any) -> Any:
    """The centres of the cells of a feature map, and the map itself."""
    _, _, h, w = x.shape
    ys = (F.arange(h) + 0.5) * (8 / h)
    xs = F.linspace(0.5 * 8 / w, 8 - 0.5 * 8 / w, w)
    ys, xs = F.broadcast_to(ys.reshape(-1, 1), (h, w)), F.broadcast_to(xs, (h, w))
    return F.stack([xs, ys], axis=-1).reshape(h * w, 2), x


TABLE = T(normal(1, 16, 4))
ROW = T(normal(1, 4))
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73]

FOLLOWING: dict[str, tuple[Function, tuple[int, ...], list[tuple[int, ...]]]] = {
    "reshape": (
        lambda x: F.reshape(x, (x.shape[0], -1)), (2, 3, 4), [(5, 3, 4), (3, 6, 7)]
    ),
    "reshape of products": (
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1), (2, 3, 4), [(5, 7, 4), (3, 6, 7)]
    ),
    "reshape by int()": (
        lambda x: x.reshape(int(x.shape[0]), -1), (2, 3, 4), [(5, 7, 4), (3, 6, 7)]
    ),
    "flatten": (lambda x: F.flatten(x, 1), (2, 3, 4), [(5, 7, 4), (3, 6, 7)]),
    "size": (lambda x: x.reshape(x.size // x.shape[2], -1), (2, 3, 4), [(5, 7, 4), (3, 6, 7)]),
    "zeros": (lambda x: F.zeros((x.shape[0], 4)) + F.sum(x), (2, 3), [(5, 3), (1, 6)]),
    "ones": (lambda x: F.ones((x.shape[1],)) + F.sum(x), (2, 3), [(5, 3), (1, 6)]),
    "full": (lambda x: F.full(x.shape, 2.5) * x, (2, 3), [(5, 3), (1, 6)]),
    "eye": (lambda x: F.eye(x.shape[1]) + F.sum(x), (2, 3), [(5, 3), (1, 6)]),
    "arange": (lambda x: x + F.arange(x.shape[1]), (2, 3), [(5, 4), (1, 6)]),
    "arange in steps": (lambda x: F.arange(1, x.shape[1], 3) + F.sum(x), (2, 4), [(5, 7), (1, 9)]),
    "linspace": (
        lambda x: x * F.linspace(0, x.shape[1] - 1, x.shape[1]), (2, 3), [(5, 4), (1, 6)]
    ),
    "broadcast_to": (
        lambda x: F.broadcast_to(ROW, (*x.shape[:1], 4)) + F.mean(x), (2, 3), [(5, 4), (1, 6)]
    ),
    "tile": (lambda x: F.tile(x, (x.shape[1], 2)), (2, 3), [(5, 4), (1, 6)]),
    "repeat": (lambda x: F.repeat(ROW, x.shape[0], axis=0) + F.sum(x), (2, 3), [(5, 4), (1, 6)]),
    "interpolate": (
        lambda x: F.vision.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 3)),
        (1, 2, 4, 5),
        [(2, 2, 7, 3), (1, 2, 5, 9)],
    ),
    "interpolate by a factor": (
        lambda x: F.vision.interpolate(x, scale_factor=1.5),
        (1, 2, 4, 6),
        [(2, 2, 7, 3), (1, 2, 5, 9)],
    ),
    "slices": (lambda x: x[:, 1 : x.shape[1] - 1] * 2, (2, 5), [(1, 6), (3, 9)]),
    "halves": (lambda x: x[:, : x.shape[1] // 2], (2, 4), [(1, 7), (3, 9)]),
    "an index": (lambda x: x[x.shape[0] - 1, x.shape[1] // 2], (2, 4), [(1, 7), (3, 9)]),
    "a table of positions": (
        lambda x: x + TABLE[:, : x.shape[1]], (2, 4, 4), [(1, 7, 4), (3, 2, 4)]
    ),
    "a roll": (lambda x: F.roll(x, x.shape[1] // 2, 1), (2, 6), [(1, 8), (3, 9)]),
    "the end": (lambda x: x[:, -(x.shape[1] // 2) :], (2, 6), [(1, 8), (3, 9)]),
    "groups of channels": (
        lambda x: x.reshape(x.shape[0], 2, x.shape[1] // 2, *x.shape[2:])
        .transpose(0, 2, 1, 3)
        .reshape(x.shape),
        (1, 4, 8),
        [(2, 6, 9), (3, 4, 1)],
    ),
    "a pyramid": (
        lambda x: (lambda y: F.vision.interpolate(y, size=x.shape[2:]) + x)(
            F.avg_pool2d(x, 2, 2, 1)
        ),
        (1, 2, 8, 8),
        [(2, 2, 7, 12), (1, 2, 9, 5)],
    ),
    "splits": (lambda x: F.split(x, 2, axis=1)[1], (2, 4), [(1, 7), (3, 8)]),
    "topk": (lambda x: F.topk(x, x.shape[1] // 2)[0], (2, 4), [(1, 7), (3, 9)]),
    "padding to a number": (
        lambda x: F.nn.pad(x, ((0, 0), (0, 16 - x.shape[1]))), (2, 4), [(1, 7), (3, 9)]
    ),
    "padding to multiples": (padded, (1, 3, 40, 40), [(2, 3, 33, 70), (1, 3, 64, 10)]),
    "padding of what needs none": (padded, (1, 3, 32, 32), [(2, 3, 33, 70), (1, 3, 64, 10)]),
    "a grid": (grid, (1, 2, 4, 6), [(2, 2, 7, 3), (1, 2, 5, 9)]),
    "a mean": (lambda x: F.sum(x) / x.shape[0], (2, 3), [(5, 3), (1, 6)]),
    "a power": (lambda x: x * (x.shape[0] * x.shape[1]) ** -0.5, (2, 3), [(5, 3), (1, 6)]),
    "a float before a size": (
        lambda x: F.sum(x) * (0.25 * x.shape[1] + 1.5) + F.linspace(0, 0.5 * x.shape[1], 4),
        (2, 3),
        [(5, 3), (1, 6)],
    ),
    "a root": (lambda x: x / math.sqrt(x.shape[1]), (2, 3), [(5, 3), (1, 6)]),
    "a logarithm": (lambda x: x * math.log(x.shape[1]), (2, 3), [(5, 4), (1, 6)]),
    "a Tensor as a shape": (
        lambda x: x.reshape(F.concat([T(x.shape[0]), T([-1])])), (2, 3, 4), [(5, 3, 4), (3, 6, 7)]
    ),
    "arithmetic on Tensors of sizes": (
        lambda x: F.zeros(T(x.shape) * 2 - 1) + F.arange(T(x.shape[1]) * 2 - 1),
        (2, 3),
        [(5, 3), (1, 6)],
    ),
    "a root by NumPy": (lambda x: x * float(1 / np.sqrt(x.shape[1])), (2, 3), [(5, 3), (1, 6)]),
    "a Tensor of a shape": (
        lambda x: T(x.shape).astype("float32") / F.concat([T([2.0]), T(x.shape[1:])]) + F.sum(x),
        (2, 3),
        [(5, 3), (1, 6)],
    ),
    "a whole Tensor of sizes": (
        lambda x: F.sum(x) + T([[x.shape[0], 1], [x.shape[1], x.shape[0] + 2]]),
        (2, 3),
        [(5, 3), (1, 6)],
    ),
    "the larger": (
        lambda x: F.zeros(max(x.shape[1:])) + F.sum(x), (1, 4, 6), [(2, 3, 2), (1, 7, 7)]
    ),
    "rounding": (
        lambda x: F.zeros((round(x.shape[0] / 3), math.ceil(x.shape[1] / 3), int(x.shape[1] * 0.7)))
        + F.sum(x),
        (4, 5),
        [(2, 3), (7, 11)],
    ),
    "divmod": (
        lambda x: F.zeros((divmod(x.shape[0], 3)[0] + 1, divmod(x.shape[1], 3)[1], -x.shape[0] % 5))
        + F.sum(x),
        (4, 5),
        [(2, 3), (7, 11)],
    ),
    "NumPy's product": (
        lambda x: F.zeros(int(np.prod(x.shape[1:]))) + F.sum(x), (2, 3, 4), [(5, 2, 4), (1, 6, 7)]
    ),
    "sizes of what was computed": (
        lambda x: (lambda y: y.reshape(y.shape[0], y.shape[2] * y.shape[3]))(
            F.avg_pool2d(x, 3, 2, 1)
        ),
        (2, 1, 8, 8),
        [(1, 1, 9, 7), (3, 1, 5, 12)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_number_follows(name: str) -> None:
    """What is dumped at one size runs at others, also after Network has read and written it."""
    function, base, others = FOLLOWING[name]
    data = dumped(function, normal(*base))
    inference = GraphInference(io.BytesIO(data))
    for shape in [base, *others, base]:
        check(inference, function, normal(*shape, seed=1))
    edited = io.BytesIO()
    Network.load(io.BytesIO(data)).dump(edited)
    inference = GraphInference(io.BytesIO(edited.getvalue()))
    for shape in [*others, base]:
        check(inference, function, normal(*shape, seed=1))
    more = (base[0] + 2, *base[1:])
    resized = Network.load(io.BytesIO(data))
    resized.reset_batch_size(more[0])
    edited = io.BytesIO()
    resized.dump(edited)
    check(GraphInference(io.BytesIO(edited.getvalue())), function, normal(*more))


# ---- models --------------------------------------------------------------------------------------


class Encoder(M.Module):
    """A language model of one layer: positions and the mask are made for the length that comes."""

    def __init__(self, width: int = 8, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.words, self.positions = M.Embedding(20, width), M.Embedding(64, width)
        self.norm = M.LayerNorm(width)
        self.query, self.key, self.value = (M.Linear(width, width) for _ in range(3))
        self.pooler = M.Linear(width, width)

    def split(self, x: Any) -> Any:
        n, length, width = x.shape
        return x.reshape(n, length, self.heads, width // self.heads).transpose(0, 2, 1, 3)

    def forward(self, ids: Any, mask: Any) -> Any:
        n, length = ids.shape
        positions = F.broadcast_to(F.arange(length, dtype="int32").reshape(1, -1), (n, length))
        x = self.norm(self.words(ids) + self.positions(positions))
        bias = (1 - F.broadcast_to(mask.reshape(n, 1, 1, length), (n, 1, length, length))) * -1e4
        place = F.arange(length)
        causal = (place.reshape(-1, 1) < place).astype("float32") * -1e4
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = F.matmul(q, k.transpose(0, 1, 3, 2)) / math.sqrt(q.shape[-1]) + bias + causal
        x = F.matmul(F.softmax(scores, axis=-1), v).transpose(0, 2, 1, 3).reshape(n, length, -1)
        return x, F.tanh(self.pooler(x[:, 0])), F.sum(x * F.expand_dims(mask, -1), 1) / length


def test_a_language_model() -> None:
    model = Encoder()
    model.eval()

    def batch(n: int, length: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(n)
        mask = (np.arange(length) < rng.integers(1, length + 1, (n, 1))).astype("float32")
        return rng.integers(0, 20, (n, length)).astype("int32"), mask

    inference = GraphInference(io.BytesIO(dumped(model, *batch(2, 12))))
    for shape in [(1, 5), (4, 17), (2, 12), (3, 1)]:
        check(inference, model, *batch(*shape))


def test_two_lengths() -> None:
    """Sizes of the same axis of two inputs are told apart by what they were."""
    scores = lambda x, y: (  # noqa: E731
        F.matmul(x, y.transpose(0, 2, 1)).reshape(x.shape[0], x.shape[1] * y.shape[1]) / y.shape[1]
    )
    inference = GraphInference(io.BytesIO(dumped(scores, normal(2, 3, 4), normal(2, 5, 4))))
    for n, a, b in [(3, 3, 5), (2, 4, 7), (5, 6, 2)]:
        check(inference, scores, normal(n, a, 4), normal(n, b, 4))


def test_sizes_that_are_one() -> None:
    """Both axes of a mask are the length."""
    function = lambda x, m: F.matmul(m, x).reshape(x.shape[0] * x.shape[1], -1)  # noqa: E731
    inference = GraphInference(io.BytesIO(dumped(function, normal(2, 3, 4), normal(2, 3, 3))))
    for n, length in [(3, 3), (1, 5), (4, 2)]:
        check(inference, function, normal(n, length, 4), normal(n, length, length))
    with pytest.raises(ValueError, match="expected axis 2 to be as large as axis 1, 5, got 4"):
        inference.run(normal(2, 5, 4), normal(2, 5, 4))
    with pytest.raises(ValueError, match=r"one size in axis 1 of all inputs, got \[4, 5\]"):
        inference.run(normal(2, 5, 4), normal(2, 4, 5))


@pytest.mark.parametrize(("size", "step"), [(32, 8), (24, 8), (40, 8), (8, 8)])
def test_a_function_that_goes_another_way_in_between(size: int, step: int) -> None:
    """Padding where it is needed: the file is for sizes that need none."""

    def function(x: Any) -> Any:
        more = -x.shape[1] % 8
        x = F.nn.pad(x, ((0, 0), (0, more)), constant_value=1.0) if more else x
        return x.reshape(x.shape[0], 8, -1) * x.shape[1]

    inference = GraphInference(io.BytesIO(dumped(function, normal(2, size))))
    for n in (size, size + step, 2 * size, 3 * size, size + 2 * step):
        check(inference, function, normal(3, n))
    message = rf"axis 1 to differ from {size}, .* by a multiple of {step}, got {size + 4}: in betw"
    with pytest.raises(ValueError, match=message):
        inference.run(normal(2, size + 4))


class Detector(M.Module):
    """Boxes of anchors on one level, of which the best are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.features = M.Conv2d(3, 4, 3, stride=4, padding=1)
        self.head = M.Conv2d(4, 5, 1)

    def forward(self, image: Any) -> Any:
        height, width = image.shape[2:]
        out = self.head(F.relu(self.features(padded(image))))
        _, _, h, w = out.shape
        y = F.broadcast_to((F.arange(h) * 4).reshape(-1, 1), (h, w)).reshape(-1)
        x = F.broadcast_to(F.arange(w) * 4, (h, w)).reshape(-1)
        out = out[0].transpose(1, 2, 0).reshape(h * w, 5)
        size = F.exp(F.clip(out[:, 2:4], -1, 1)) * 8
        centre = F.stack([x, y], axis=1) + out[:, :2]
        low, high = F.maximum(centre - size / 2, 0), centre + size / 2
        high = F.minimum(high, F.concat([T([width]), T([height])]).astype("float32"))
        scores, best = F.topk(out[:, 4], min(h * w, 60), descending=True)
        boxes = F.concat([low, high], axis=1)[best]
        keep = F.vision.nms(boxes, scores, 0.2)
        boxes = boxes[keep]
        rank = F.arange(boxes.shape[0]).reshape(-1, 1)
        return F.concat([F.full((boxes.shape[0], 1), 2.0), rank, boxes], 1), scores[keep]


def test_a_detector() -> None:
    """How many boxes are left is not a matter of sizes alone."""
    model = Detector()
    model.eval()
    inference = GraphInference(io.BytesIO(dumped(model, normal(1, 3, 64, 64))))
    counts = set()
    for seed, (h, w) in enumerate([(64, 64), (64, 64), (50, 90), (33, 64), (96, 70)]):
        image = normal(1, 3, h, w, seed=seed)
        check(inference, model, image)
        counts.add(len(next(iter(inference.run(image).values()))))
    assert len(counts) > 1
    # What comes before is a program, optimised as ever.
    kinds = [n.kind for n in inference._programs[(1, 3, 64, 64),].optimized().nodes]
    assert {"FusedConvolution", "NMSKeep"} <= set(kinds)


def test_sizes_by_contents() -> None:
    """The same shapes of inputs, and other numbers of elements that a mask takes."""

    def function(x: Any) -> Any:
        y = x[x > 0]
        return F.zeros((y.shape[0], 2)) + y.reshape(-1, 1), F.sum(y) / y.shape[0]

    inference = GraphInference(io.BytesIO(dumped(function, normal(4, 5))))
    for seed, shape in enumerate([(4, 5), (4, 5), (3, 5), (4, 7)]):
        check(inference, function, normal(*shape, seed=seed))


# ---- what Python decides by sizes ----------------------------------------------------------------


def test_comparisons_hold() -> None:
    """The file is for sizes for which the code goes the same way as in the records."""

    def function(x: Any) -> Any:
        n, length = x.shape[:2]
        x = x + TABLE[:, : min(length, 16)]
        if n > 6:
            x = x - 1
        if not length % 11:
            x = x * 2
        return x if x.shape[2] == 4 and n != 9 else F.exp(x)

    data = dumped(function, normal(2, 5, 4))
    shown = {e.shown({0: "x"}) for e in graph_file.load(io.BytesIO(data)).decided}
    assert shown == {
        "not (16 < x.shape[1])",
        "not (6 < x.shape[0])",
        "(x.shape[1] % 11) != 0",
        "x.shape[0] != 9",
    }
    inference = GraphInference(io.BytesIO(data))
    for shape in [(2, 5, 4), (6, 16, 4), (1, 12, 4)]:
        check(inference, function, normal(*shape))
    for n, length, message in [
        (7, 5, r"sizes for which not \(6 < x0\.shape\[0\]\), as in all records"),
        (2, 17, r"not \(16 < x0\.shape\[1\]\)"),
        (2, 11, r"\(x0\.shape\[1\] % 11\) != 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            inference.run(normal(n, length, 4))


def test_comparisons_of_what_was_computed() -> None:
    function = lambda x: (lambda y: y * 2 if y.shape[2] < 9 else y)(F.avg_pool2d(x, 2))  # noqa: E731
    inference = GraphInference(io.BytesIO(dumped(function, normal(1, 1, 8, 8))))
    check(inference, function, normal(2, 1, 16, 9))
    with pytest.raises(ValueError, match=r"for which %\d+\.shape\[2\] < 9"):
        inference.run(normal(2, 1, 18, 8))


def test_comparisons_that_nobody_sees() -> None:
    """Another way at some batch, by a number that has lost where it is from, is found at times."""
    data = dumped(lambda x: F.exp(x) if int(x.shape[0]) > 3 else x * 2, normal(2, 5))
    inference = GraphInference(io.BytesIO(data))
    with pytest.raises(ValueError, match=r"shape \(2, any number\).* its op 0 is Elemwise.*EXP"):
        inference.run(normal(3, 5))


def test_comparisons_that_change_nothing() -> None:
    """One that came out either way, with the same ops, is none to keep to."""

    def function(x: Any) -> Any:
        by = 2.0
        if x.shape[0] < 3:
            by = 1.0 + by - 1.0
        return x * by

    data = dumped(function, normal(2, 4))
    assert graph_file.load(io.BytesIO(data)).decided == []
    inference = GraphInference(io.BytesIO(data))
    assert inference.run(normal(7, 4))["MUL"].shape == (7, 4)


def test_comparisons_of_sizes_by_contents_are_told_of() -> None:
    def function(x: Any) -> Any:
        y = x[x > 0]
        return F.sum(y) if y.shape[0] > 0 else F.zeros(())

    with pytest.warns(UserWarning, match=r"trace.dump: Python goes by 0 < %\d+\.shape\[0\], where"):
        dumped(function, normal(3, 4))


# ---- what does not follow ------------------------------------------------------------------------


def test_what_nothing_explains() -> None:
    """Other sizes are refused, and the reason is told."""
    for function, message in [
        (lambda x: x + T(np.arange(x.shape[1], dtype="float32")), "computed from the size outside"),
        (
            lambda x: F.zeros(PRIMES[int(str(x.shape[1]))]) + F.sum(x),
            r"no arithmetic .* 'shape' of",
        ),
        (lambda x: x * math.gamma(x.shape[1]), "computed from the size outside"),
        (lambda x: sum(x[:, i] for i in range(x.shape[1])), "it has 12 ops"),
    ]:
        inference = GraphInference(io.BytesIO(dumped(function, normal(2, 3))))
        check(inference, function, normal(2, 3))
        check(inference, function, normal(4, 3))
        with pytest.raises(ValueError, match=message):
            inference.run(normal(2, 5))


def test_numbers_by_contents_that_stay() -> None:
    """They are told of."""
    with pytest.warns(UserWarning, match="no arithmetic on sizes explains .* number of this call"):
        dumped(lambda x: F.zeros(PRIMES[x[x > 0].shape[0]]) + F.sum(x), normal(4, 5))


def test_sizes_without_a_value() -> None:
    """A division by nothing is an error of the run, and no crash."""
    data = dumped(lambda x: F.zeros(12 // x.shape[1]) + F.sum(x), normal(2, 3))
    inference = GraphInference(io.BytesIO(data))
    with pytest.raises(ValueError, match=r"op 0, Fill.* has no value for these sizes"):
        inference.run(normal(2, 0))


# ---- files ---------------------------------------------------------------------------------------


def test_files_of_version_1() -> None:
    """They say how fields grow; graphs that several sizes change at once are refused as before."""
    file = Path(__file__).parent / "data" / "version1.mge"
    inference = GraphInference(file)

    def function(x: Any) -> Any:
        n, length, _ = x.shape
        y = F.matmul(x, T(np.arange(12, dtype="float32").reshape(4, 3))).reshape(n, length * 3)
        row = F.broadcast_to(F.arange(length).reshape(1, -1), (n, length))
        return F.concat([y, F.zeros((n, 2)), row], axis=1)

    for shape in [(2, 3, 4), (5, 3, 4), (5, 7, 4), (1, 1, 4)]:
        check(inference, function, normal(*shape))
    with pytest.raises(ValueError, match=r"got \(2, 3, 8\)"):
        inference.run(normal(2, 3, 8))
    net = Network.load(file)
    net.reset_batch_size(4)
    assert net.output_vars[0].shape == (4, 14)


def test_the_file_has_the_arithmetic() -> None:
    data = dumped(padded, normal(1, 3, 40, 48))
    model = graph_file.load(io.BytesIO(data))
    texts = {e.text() for e in model.follows.values()}
    assert "%0[2] 31 + 32 // 32 *" in texts
    assert b"%0[3] 31 + 32 // 32 *" in data
    again = io.BytesIO()
    graph_file.save(model, again)
    assert graph_file.load(io.BytesIO(again.getvalue())).follows == model.follows


def test_edited_graphs_follow() -> None:
    """An op follows the value that takes the place of the one whose size it followed."""
    data = dumped(lambda x: F.full((x.shape[0], 2), 1 / x.shape[0]) + F.sum(x), normal(4, 3))
    net = Network.load(io.BytesIO(data))
    x = net.get_var_by_name("x0")
    net.replace_vars({x: x[:2]})
    assert net.output_vars[0].shape == (2, 2)
    file = io.BytesIO()
    net.dump(file)
    inference = GraphInference(io.BytesIO(file.getvalue()))
    value = normal(4, 3)
    want = np.full((2, 2), 0.5) + value[:2].sum()
    np.testing.assert_allclose(next(iter(inference.run(value).values())), want, rtol=1e-5)


def test_edits_that_fix_a_size() -> None:
    """A file of an edited graph refuses what the edit does not take."""
    data = dumped(lambda x: x * min(x.shape[1], 8) if x.shape[2] < 9 else x, normal(2, 3, 4))
    net = Network.load(io.BytesIO(data))
    x, out = net.get_var_by_name("x0"), net.output_vars[0]
    net.replace_vars({x: x + F.ones((3, 1)), out: out.reshape(-1, 12)})
    file = io.BytesIO()
    net.dump(file)
    inference = GraphInference(io.BytesIO(file.getvalue()))
    got = inference.run(normal(4, 3, 8))
    assert next(iter(got.values())).shape == (8, 12)
    for shape, message in [
        ((2, 6, 4), r"expected input 'x0' of shape \(any number, 3, any number\)"),
        ((2, 3, 12), r"for which %\d+\.shape\[2\] < 9"),
    ]:
        with pytest.raises(ValueError, match=message):
            inference.run(normal(*shape))


def test_a_parameter_that_somebody_set() -> None:
    """It stays what it was set to."""
    data = dumped(lambda x: F.full((x.shape[0], 2), 3.0) + F.sum(x), normal(4, 3))
    net = Network.load(io.BytesIO(data))
    fill = net.opr_filter.type(str_to_mge_class("Fill")).as_unique()
    fill.params = {**fill.params, "shape": (1, 2)}
    fill.compile()
    net.reset_batch_size(6)
    assert fill.outputs[0].shape == (1, 2)


# ---- arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number, a size or an operator"),
        ("1 2", "expected one result"),
        ("+", "expected operands"),
        ("1 +", "expected operands"),
        ("neg", "expected operands"),
        ("%0[x]", "expected a number"),
        ("nan", "expected a number"),
        ("1e999", "expected a number"),
        ("9" * 400, "expected a number"),
        ("__import__", "expected a number"),
        (" ".join(["1"] + ["neg"] * MOST_SYMBOLS), "at most"),
    ],
)
def test_arithmetic_that_is_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Expression.parse(text)


@pytest.mark.parametrize(
    "text",
    ["1 0 //", "1 0 /", "1 0 %", "10 1000000000 **", "9223372036854775807 1 +", "-1 sqrt",
     "-2 0.5 **", "9.0 400 **", "0 -1 **", "1e300 1e300 *", "9223372036854775808"],
)  # fmt: skip
def test_arithmetic_without_a_value(text: str) -> None:
    with pytest.raises(ValueError, match="has no value for these sizes"):
        Expression.parse(text).value(lambda value, axis: 0)


def test_followed_numbers_are_numbers() -> None:
    sizes = Sizes([0])
    n, m = sizes.shape(0, (7, 3), True)
    assert (n, m, n + m, m - n, n * m, n // m, n % m, -n, abs(m - n)) == (
        7,
        3,
        10,
        -4,
        21,
        2,
        1,
        -7,
        4,
    )
    assert (10 - n, 10 * m, 10 // m, 10 % m, 2**m, n**2, pow(n, 2, 5), pow(2, m, 5)) == (
        3, 30, 3, 1, 8, 49, 4, 3,
    )  # fmt: skip
    assert (n / m, 10 / m, round(n / m), round(n / m, 1), math.ceil(n / m), int(n / m)) == (
        7 / 3, 10 / 3, 2, 2.3, 3, 2,
    )  # fmt: skip
    assert (divmod(n, m), divmod(10, m), divmod(n / 2, m)) == ((2, 1), (3, 1), (1.0, 0.5))
    assert n == 7
    assert {7: "x"}[n] == "x"
    assert list(range(m)) == [0, 1, 2]
    assert [repr(n), f"{n:03d}", str(n / 2)] == ["7", "007", "3.5"]
    for number in (n, n / 2):
        for other in (copy.copy(number), copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
            assert other == number
            assert type(other) in (int, float)
    assert type(n + 1) is FollowedInt
    with pytest.raises(TypeError, match="unsupported operand"):
        n + "a"
    with pytest.raises(ZeroDivisionError):
        n / 0
    known = n
    for _ in range(MOST_SYMBOLS):
        known = known * 1 + 1
    assert (known, type(known)) == (7 + MOST_SYMBOLS, int)
    sizes.close()
    assert type(n + 1) is int


def test_numbers_of_two_calls_are_plain() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.append(x.shape[0])
        return F.zeros(kept[0] + x.shape[0])

    first = record_with_sizes(function, (T([1.0]),), {})
    second = record_with_sizes(function, (T([1.0, 2.0]),), {})
    assert (Dim(0, 0),) in first.sizes.seen
    assert len(second.sizes.seen) == 1
    assert type(T([1.0]).shape[0]) is int
