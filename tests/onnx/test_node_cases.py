"""The onnx package's cases of single operators, each to the tolerance that the case states.

``unsupported_cases.txt`` lists those that do not pass, and why. A case that passes and stands there
fails here, as does one that does not pass and is not listed.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from .cases import check, check_kind, load_cases, run

CASES = load_cases("node")


def _read_list() -> dict[str, str]:
    found = {}
    for line in (Path(__file__).parent / "unsupported_cases.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(": ", 1)
            assert name not in found, f"{name} is listed twice"
            found[name] = reason
    return found


LISTED = _read_list()
PRECISION = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 2e-2}


def close(found: Any, wanted: Any) -> None:
    """Raises unless a value is the one that is wanted, to the precision of its dtype."""
    one, other = check_kind(found, wanted)
    rtol = PRECISION[one.dtype.name]
    np.testing.assert_allclose(one.astype("float32"), other.astype("float32"), rtol, rtol)


def passes(found: Any, wanted: Any, rtol: float, atol: float) -> bool:
    try:
        check(found, wanted, rtol, atol)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str) -> None:
    case = CASES[name]
    reason = LISTED.get(name)
    if reason is None:
        for found, wanted in run(case):
            check(found, wanted, case.rtol, case.atol)
    elif reason.startswith("random:"):
        for found, wanted in run(case):
            check_kind(found, wanted)
    elif reason.startswith("rounding:"):
        results = list(run(case))
        for found, wanted in results:
            close(found, wanted)
        assert not all(passes(*pair, case.rtol, case.atol) for pair in results)
    elif reason.startswith("differs:"):
        results = list(run(case))
        for found, wanted in results:
            check_kind(found, wanted)
        assert not all(passes(*pair, case.rtol, case.atol) for pair in results)
    else:
        with pytest.raises(NotImplementedError, match=r"onnx\.load: .*::|dtype"):
            list(run(case))


def test_list_names_cases() -> None:
    assert set(LISTED) <= set(CASES)


def test_share() -> None:
    assert len(LISTED) <= 0.1 * len(CASES)
