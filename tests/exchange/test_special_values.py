"""The special values of element-wise functions, row by row as the standard lists them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine.array_api as xp

SAMPLES = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5,
           2.0, -2.0, 3.0, -3.0, 6.5, -6.5, 1e30, -1e30]  # fmt: skip

CONDITIONS = {
    "any": lambda v: True,
    "nan": math.isnan,
    "finite": math.isfinite,
    "inf": math.isinf,
    "+inf": lambda v: v == math.inf,
    "-inf": lambda v: v == -math.inf,
    "0": lambda v: v == 0,
    "+0": lambda v: v == 0 and math.copysign(1, v) > 0,
    "-0": lambda v: v == 0 and math.copysign(1, v) < 0,
    "1": lambda v: v == 1,
    "-1": lambda v: v == -1,
    ">0": lambda v: v > 0,
    "<0": lambda v: v < 0,
    "!=0": lambda v: v != 0,
    "!=1": lambda v: v != 1,
    ">1": lambda v: v > 1,
    "<1": lambda v: v < 1,
    "<-1": lambda v: v < -1,
    "|>1|": lambda v: abs(v) > 1,
    "|<1|": lambda v: abs(v) < 1,
    "|1|": lambda v: abs(v) == 1,
    "whole": lambda v: math.isfinite(v) and v == math.floor(v),
    "odd": lambda v: math.isfinite(v) and v % 2 == 1,
    "signbit": lambda v: math.copysign(1, v) < 0,
}
NUMBERS = {
    "nan": math.nan, "+nan": math.nan, "-nan": -math.nan, "+inf": math.inf, "-inf": -math.inf,
    "+0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "pi": math.pi, "-pi": -math.pi,
    "pi/2": math.pi / 2, "-pi/2": -math.pi / 2, "pi/4": math.pi / 4, "-pi/4": -math.pi / 4,
    "3pi/4": 3 * math.pi / 4, "-3pi/4": -3 * math.pi / 4, "inf": math.inf, "0": 0.0,
    "True": True, "False": False,
}  # fmt: skip


def read() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(function, kind) -> (conditions, result) of each row."""
    out: dict[tuple[str, str], list[tuple[str, str]]] = {}
    text = (Path(__file__).parent / "special_values.txt").read_text()
    for line in text.splitlines():
        if line.startswith("["):
            name, kind = line.strip("[]").split()
            rows = out.setdefault((name, kind), [])
        elif "->" in line and not line.startswith("#"):
            conditions, result = line.split("->")
            rows.append((conditions.strip(), result.strip()))
    return out


TABLE = read()


def meets(condition: str, value: float) -> bool:
    def one(word: str) -> bool:
        if "|" in word and word not in CONDITIONS:
            return any(one(w) for w in word.split("|"))
        if word.startswith("!") and word not in CONDITIONS:
            return not one(word[1:])
        return CONDITIONS[word](value)

    return all(one(word) for word in condition.split())


def expected(result: str, x: float, y: float) -> Any:
    """A number, or the two parts of one; a part that is a tuple has either of the values."""
    named = {"x": x, "y": y, "|x|": abs(x), "-|x|": -abs(x), "|y|": abs(y)}
    if "cis" in result:
        factor, _, less = result.partition(" cis")
        scale = NUMBERS[factor]
        real = scale * math.cos(y)
        return real + float(less) if less else real, scale * math.sin(y)

    def number(word: str) -> Any:
        if word.startswith("?"):
            value = NUMBERS[word[1:]]
            return value, -value
        return named[word] if word in named else NUMBERS[word]

    words = result.split()
    return number(words[0]) if len(words) == 1 else tuple(number(w) for w in words)


def agrees(got: float, want: Any, sign_of_nan: bool) -> bool:
    if isinstance(want, tuple):
        return any(agrees(got, w, sign_of_nan) for w in want)
    if isinstance(want, bool):
        return bool(got) == want
    if math.isnan(want):
        return math.isnan(got) and (not sign_of_nan or np.signbit(got) == np.signbit(want))
    if want == 0 or math.isinf(want):
        return got == want and np.signbit(got) == np.signbit(want)
    return math.isclose(got, want, rel_tol=1e-6)


def evaluated(name: str, *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(xp, name)(*(xp.asarray(np.asarray(o)) for o in operands)).numpy()[()]


def test_the_table_is_read():
    assert sum(len(rows) for rows in TABLE.values()) > 450
    assert len(TABLE) > 50


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n, kind in TABLE if kind == "real"])
def test_floats(name, dtype):
    for conditions, result in TABLE[name, "real"]:
        first, _, second = (c.strip() for c in conditions.partition(";"))
        met = False
        for x in SAMPLES:
            for y in SAMPLES if second else [0.0]:
                if not (meets(first, x) and (not second or meets(second, y))):
                    continue
                met = True
                operands = [np.array([v], dtype) for v in ((x, y) if second else (x,))]
                got = evaluated(name, *operands)[0]
                want = expected(result, x, y)
                signed = name == "copysign"
                assert agrees(got, want, signed), f"{conditions}: {name}({x}, {y}) is {got}"
        assert met, conditions


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", [n for n, kind in TABLE if kind == "complex"])
def test_complex_numbers(name, dtype):
    for conditions, result in TABLE[name, "complex"]:
        first, second = (c.strip() for c in conditions.split(";"))
        met = False
        samples = [float(np.asarray(v, "f4" if dtype == "complex64" else "f8")) for v in SAMPLES]
        for a in samples:
            for b in samples:
                if not (meets(first, a) and meets(second, b)):
                    continue
                met = True
                z = np.array([complex(a, b)], dtype)
                got = evaluated(name, z)[0]
                want = expected(result, a, b)
                message = f"{conditions}: {name}({z[0]}) is {got}, not {want}"
                if not np.iscomplexobj(got):
                    assert agrees(got, want, False), message
                    continue
                assert agrees(got.real, want[0], False), message
                assert agrees(got.imag, want[1], False), message
                # Functions of the conjugate are conjugates.
                mirrored = evaluated(name, z.conj())[0]
                same = [mirrored.real == got.real, mirrored.imag == -got.imag]
                for part, alike in zip((got.real, got.imag), same, strict=True):
                    assert alike or math.isnan(part) or "?" in result, message
        assert met, conditions
