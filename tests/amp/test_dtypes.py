"""In which dtype each operator runs under autocast, beside what the reference answers."""

import json
import pathlib

import pytest

from megengine.amp import autocast
from tests.amp.cases import CASES, run

ANSWERS = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text())

# Where we differ, and why: (name, dtype of the inputs) -> what is right here.
OURS = {
    # The sum of magnitudes has no power and no root in it.
    ("norm-1", "float16"): "float16",
}


def with_low(answer, low):
    """What the reference answers in float16, for another low precision dtype."""
    if isinstance(answer, list):
        return [with_low(a, low) for a in answer]
    return low if answer == "float16" else answer


def test_every_case_has_an_answer():
    assert set(ANSWERS) == set(CASES)


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_dtype(name, low):
    with autocast(low_prec_dtype=low):
        got = {"float32": run(name, "float32"), "float16": run(name, low)}
    want = {d: with_low(OURS.get((name, d), a), low) for d, a in ANSWERS[name].items()}
    assert got == want
