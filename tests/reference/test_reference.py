"""What the reference release answers, and where we answer otherwise.

answers/NAME.json holds what the reference gave for each case of cases/NAME.txt (record.py made it).
A case without remarks must give the same here: class, dtype, shape, values, repr; and an exception,
of whatever class, where the reference raised. Remarks say where we know better:

    # differs: EXPRESSION   the right value, in NumPy or megengine
    # differs: raises       an exception with a message is right
    # differs: anything     any value, or an exception (behaviour that nobody can rely on)
    # repr differs          everything but the text of repr is the same
    # tolerance: 1e-4       relative, where the numbers themselves call for more than rounding
    # why: TEXT             the reason; docs/differences.md collects these
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
from tests.reference import record

HERE = Path(__file__).parent
STEMS = sorted(path.stem for path in (HERE / "cases").glob("*.txt"))
RTOL, ATOL = 2e-5, 2e-6
LOW_PRECISION = {"float16": 2e-3, "bfloat16": 1.6e-2}


def read(stem: str) -> list[tuple[str, list[str]]]:
    """The cases of a file with their remarks."""
    return record.read_cases((HERE / "cases" / f"{stem}.txt").read_text())


def all_cases() -> list[Any]:
    cases = []
    for stem in STEMS:
        answers = record.read_answers(stem)
        for number, (source, remarks) in enumerate(read(stem)):
            line = source.splitlines()[-1][:60]
            params = (source, remarks, answers.get(source))
            cases.append(pytest.param(*params, id=f"{stem}-{number}-{line}"))
    return cases


def remark(remarks: list[str], key: str) -> str | None:
    """The text after `key:` in the remarks of a case."""
    found = [r.removeprefix(key + ":").strip() for r in remarks if r.startswith(key + ":")]
    return found[0] if found else None


@pytest.fixture(autouse=True)
def _defaults() -> Any:
    """What cases set for the whole process goes back."""
    mge.set_default_device("xpux")
    yield
    mge.set_default_device("xpux")
    mge.set_log_level("INFO")
    for name in mge.config.__all__:
        setattr(mge.config, name, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("source", "remarks", "want"), all_cases())
def test_case(source: str, remarks: list[str], want: dict[str, Any] | None) -> None:
    namespace: dict[str, Any] = {}
    exec(record.PRELUDE, namespace)
    assert want is not None, "not recorded yet: run record.py"
    right = remark(remarks, "differs")
    if right is not None:
        assert remark(remarks, "why"), "a case that differs says why"
    if right == "raises" or (right is None and want["is"] == "raises"):
        expect_error(source, namespace)
        return
    if right == "anything":
        with contextlib.suppress(Exception):
            record.encode(record.run(source, namespace))
        return
    assert right is not None or want["is"] != "dies", "the reference died: say what is right"
    got = record.encode(record.run(source, namespace))
    if right is not None:
        want = record.encode(record.run(right, dict(namespace)))
    rtol = float(remark(remarks, "tolerance") or RTOL)
    compare(got, want, "result", "repr differs" not in remarks and right is None, rtol)


def expect_error(source: str, namespace: dict[str, Any]) -> None:
    """Running `source` raises, with a message."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        record.encode(record.run(source, namespace))
    assert str(caught.value), f"{caught.type.__name__} without a message"


def compare(got: Any, want: Any, where: str, texts: bool = True, rtol: float = RTOL) -> None:
    """Two encoded results are the same, floats to rounding."""
    assert got["is"] == want["is"], f"{where}: {got}, expected {want}"
    for key in ("dtype", "shape"):
        assert got.get(key) == want.get(key), f"{where}: {key} {got.get(key)}, not {want.get(key)}"
    if "of" in want:
        assert len(got["of"]) == len(want["of"]), f"{where}: {got}, expected {want}"
        pairs = zip(got["of"], want["of"], strict=True)
        for i, (g, w) in enumerate(pairs):
            if want["is"] == "dict":
                compare(g[0], w[0], f"{where} key {i}", texts, rtol)
                compare(g[1], w[1], f"{where}[{w[0].get('text')!r}]", texts, rtol)
            else:
                compare(g, w, f"{where}[{i}]", texts, rtol)
    if "values" in want:
        close(got["values"], want["values"], want.get("dtype", "float32"), where, rtol)
    if want.get("text") == "raises" and got["is"] == "str":
        return  # an entry of a table of dtypes: more combinations may work here
    if "text" in want:
        assert got["text"] == want["text"], f"{where}: {got['text']!r}, expected {want['text']!r}"
    same_values = "repr" in want and json.dumps(got["values"]) == json.dumps(want["values"])
    if texts and same_values:
        assert got["repr"] == want["repr"]


def close(got: list[Any], want: list[Any], dtype: str, where: str, rtol: float = RTOL) -> None:
    """Flat lists of numbers agree."""
    g, w = (np.array([float(x) for x in v]) for v in (got, want))
    if "float" not in dtype and "complex" not in dtype:
        np.testing.assert_array_equal(g, w, err_msg=where)
        return
    scale = np.max(np.abs(w), initial=0.0, where=np.isfinite(w))
    rtol = max(rtol, LOW_PRECISION.get(dtype, 0.0))
    np.testing.assert_allclose(g, w, rtol=rtol, atol=ATOL + 0.1 * rtol * scale, err_msg=where)


@pytest.mark.parametrize("stem", STEMS)
def test_every_case_is_recorded(stem: str) -> None:
    """answers/`stem`.json has an answer for each case of its file, and no others."""
    sources = [source for source, _ in read(stem)]
    twice = [source for source in set(sources) if sources.count(source) > 1]
    assert not twice, f"cases that are there twice: {twice}"
    assert set(sources) == set(record.read_answers(stem))
