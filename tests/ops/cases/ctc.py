"""CTC, against the sum over every path, and for long sequences against a loop over states."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import megengine.functional as F
from tests.ops.record import Array, Record

LOW = {"float16": "float32", "bfloat16": "float32"}
TOL = {"float16": (2e-6, 2e-6), "bfloat16": (2e-6, 2e-6)}


def spelled(path: tuple[int, ...], blank: int) -> list[int]:
    """The labels of a path: repeats become one, then blanks go."""
    return [k for k, _ in itertools.groupby(path) if k != blank]


def every_path(probs: Array, labels: list[int], blank: int) -> float:
    """The probability of the labels: the sum over all paths of all frames that spell them."""
    frames, classes = probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=frames):
        if spelled(path, blank) == labels:
            total += float(np.prod([probs[t, k] for t, k in enumerate(path)]))
    return total


def by_states(probs: Array, labels: list[int], blank: int) -> float:
    """The same by the recursion over states, scaled in each frame."""
    states = [blank]
    for k in labels:
        states += [k, blank]
    now, log_scale = np.zeros(len(states)), 0.0
    now[:2] = probs[0, states[:2]]
    for p in probs[1:]:
        ways = now.copy()
        ways[1:] += now[:-1]
        for s in range(3, len(states), 2):
            if states[s] != states[s - 2]:
                ways[s] += now[s - 2]
        now = ways * p[states]
        scale = now.sum()
        log_scale += np.log(scale)
        now = now / scale
    return float(np.exp(log_scale) * now[-2:].sum())


def samples(
    probability: Any, blank: int, probs: Array, frames: Array, labels: Array, sizes: Array
) -> Array:
    out, used = [], 0
    for n, size in enumerate(sizes):
        own = labels[used : used + size] if labels.ndim == 1 else labels[n, :size]
        used += size
        out.append(-np.log(probability(probs[: frames[n], n], [int(k) for k in own], blank)))
    return np.array(out)


def inputs(joined: bool, lengths: list[int], sizes: list[int], frames: int, classes: int) -> Any:
    def make(rng: np.random.Generator) -> list[Array]:
        probs = rng.random((frames, len(sizes), classes)) + 0.1
        labels = rng.integers(1, classes, (len(sizes), max(sizes)))
        if joined:
            labels = np.concatenate([row[:n] for row, n in zip(labels, sizes, strict=True)])
        return [probs, np.array(lengths), labels, np.array(sizes)]

    return make


def empties() -> list[list[Array]]:
    none = np.zeros(0, "int64")
    return [
        [np.zeros((4, 0, 3)), none, np.zeros((0, 2), "int64"), none],
        [np.zeros((4, 0, 3)), none, none, none],
        [np.zeros((0, 2, 3)), np.zeros(2, "int64"), none, np.zeros(2, "int64")],
    ]


def record(
    name: str, make: Any, blank: int = 0, probability: Any = every_path, **kw: Any
) -> Record:
    return Record(
        f"ctc_loss-{name}",
        fn=lambda *x: F.loss.ctc_loss(*x, blank=blank, reduction="none"),
        ref=lambda *x: samples(probability, blank, *x),
        inputs=make,
        ops=("CTCLoss", "CTCLossBackward"),
        out_dtype=LOW,
        tol=TOL,
        **kw,
    )


RECORDS = [
    record(
        "padded",
        inputs(False, [5, 4, 5, 3], [2, 1, 2, 0], 5, 3),
        empty=empties,
        large=inputs(False, [40, 30, 40, 20] * 8, [9, 12, 3, 0] * 8, 40, 6),
    ),
    record("joined", inputs(True, [5, 4, 3], [2, 3, 1], 5, 4), layouts=False, empty=False),
    record("joined-none", inputs(True, [3, 2], [0, 0], 3, 3), layouts=False, empty=False),
    record(
        "last-is-blank",
        lambda rng: [
            rng.random((4, 2, 4)) + 0.1,
            np.array([4, 4]),
            np.array([[0, 2], [1, 0]]),
            np.array([2, 2]),
        ],
        blank=3,
        empty=False,
    ),
    record(
        "repeated-labels",
        lambda rng: [
            rng.random((6, 1, 3)) + 0.1,
            np.array([6]),
            np.array([[1, 1, 1]]),
            np.array([3]),
        ],
        empty=False,
    ),
    record(
        "long",
        inputs(False, [60, 50, 40], [11, 4, 20], 60, 7),
        probability=by_states,
        empty=False,
        order=1,
    ),
    Record(
        "ctc_loss-mean",
        fn=lambda *x: F.loss.ctc_loss(*x),
        ref=lambda probs, frames, labels, sizes: np.mean(
            samples(every_path, 0, probs, frames, labels, sizes) / np.maximum(sizes, 1)
        ),
        inputs=inputs(False, [5, 4, 5, 3], [2, 1, 2, 0], 5, 3),
        ops=("CTCLoss", "CTCLossBackward"),
        out_dtype=LOW,
        tol=TOL,
        empty=False,
    ),
]
