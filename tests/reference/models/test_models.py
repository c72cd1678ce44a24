"""Models of examples/models compute what the reference release computes from the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
from tests.reference.models import harness

OUTPUTS, GRADIENTS = 1e-4, 1e-3
HERE = Path(__file__).parent
# Central differences of a float64 model: the truncation error is of order STEP**2.
STEP, DIRECTIONS = 1e-5, 2


def answers(stem: str) -> dict[str, Any]:
    return json.loads((HERE / "answers" / f"{stem}.json").read_text())


def names() -> list[Any]:
    recorded = [p.stem for p in sorted((HERE / "answers").glob("*.json"))]
    return [pytest.param(s, n, id=f"{s}-{n}") for s in recorded for n in answers(s)]


def agree(
    name: str, got: np.ndarray, want: dict[str, Any], rtol: float, floor: float = 1e-7
) -> None:
    """An array agrees with a digest: each number to `rtol` of the largest, or of the norm.

    Differences below `floor` are rounding, whatever the numbers.
    """
    mine = harness.digest(name, got)
    assert mine["shape"] == want["shape"], f"{name}: shape {mine['shape']}, not {want['shape']}"
    for key in [k for k in ("values", "norm", "projections", "entries") if k in want]:
        g, w = np.asarray(mine[key]), np.asarray(want[key])
        scale = want["norm"] if key == "projections" else np.max(np.abs(w), initial=0.0)
        if key == "entries":
            scale = max(scale, want["norm"] / np.sqrt(np.prod(want["shape"])))
        atol = rtol * scale + floor
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol, err_msg=f"{name}: {key}")


def test_every_case_is_recorded() -> None:
    assert harness.stems() == sorted(p.stem for p in (HERE / "answers").glob("*.json"))
    for stem in harness.stems():
        assert set(harness.load(stem)) == set(answers(stem))


@pytest.mark.parametrize(("stem", "name"), names())
def test_model(stem: str, name: str) -> None:
    case, want = harness.load(stem)[name], answers(stem)[name]
    assert case.judge == want["judge"], "recorded under another judge: record it again"
    outputs, grads, buffers = harness.run(case)
    if case.judge != "float64":
        assert len(outputs) == len(want["outputs"])
        for i, y in enumerate(outputs):
            agree(f"output {i}", y, want["outputs"][i], OUTPUTS)
        assert set(buffers) == set(want["buffers"])
        for key, value in buffers.items():
            agree(key, value, want["buffers"][key], GRADIENTS)
    if case.judge == "reference":
        assert set(grads) == set(want["gradients"])
        # A bias before a batch norm has gradient 0: what is left of it there is rounding.
        sizes = [
            np.max(np.abs(d.get("values", d.get("entries")))) for d in want["gradients"].values()
        ]
        for key, value in grads.items():
            agree(key, value, want["gradients"][key], GRADIENTS, 1e-7 + 1e-6 * max(sizes))
    else:
        judge_by_differences(case, outputs, grads)


def judge_by_differences(case: Any, outputs: list[np.ndarray], grads: dict[str, Any]) -> None:
    """Outputs agree with the model in float64, gradients with its central differences."""
    inputs = harness.tensors(case, "float64")

    def fresh() -> list[Any]:
        # Running statistics would wander from one evaluation to the next.
        for name, b in case.net.named_buffers():
            if harness.is_float(b):
                value = harness.initial(name, b.shape, case.weight_scale).astype("float64")
                b._reset(mge.tensor(value, dtype="float64"))
        return harness.flatten(case.net(*inputs))

    def value() -> float:
        smooth = [y for y in fresh() if harness.is_float(y)]
        total = 0.0
        for i, y in enumerate(smooth):
            dy = harness.upstream(case, i, y.shape, "float64")
            total += float((y * dy).sum().item())
        return total

    harness.set_weights(case, "float64")
    for i, (got, exact) in enumerate(zip(outputs, fresh(), strict=True)):
        scale = np.max(np.abs(exact.numpy()), initial=0.0)
        np.testing.assert_allclose(
            got, exact.numpy(), rtol=OUTPUTS, atol=OUTPUTS * scale, err_msg=f"output {i}"
        )
    points = dict(case.net.named_parameters())
    points.update({f"input {i}": x for i, x in enumerate(inputs) if harness.is_float(x)})
    assert set(points) == set(grads)
    for name, p in points.items():
        start = p.numpy().astype("float64")
        for k in range(DIRECTIONS):
            direction = harness.signs(name, k, start.shape)
            sides = []
            for sign in (1.0, -1.0):
                p._reset(mge.tensor(start + sign * STEP * direction, dtype="float64"))
                sides.append(value())
            p._reset(mge.tensor(start, dtype="float64"))
            slope = (sides[0] - sides[1]) / (2 * STEP)
            got = float(np.sum(grads[name].astype("float64") * direction))
            norm = float(np.linalg.norm(grads[name].astype("float64")))
            assert abs(got - slope) <= GRADIENTS * (norm + abs(slope)) + 1e-6, (
                f"{name}: slope {slope} along direction {k}, gradient says {got}"
            )
