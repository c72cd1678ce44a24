"""Every registered op has a kernel or a decomposition, a gradient or a reason for none, a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from megengine import _core
from tests.ops.record import all_records, covered_elsewhere

OPS = _core.op_types()
TESTED = {op for record in all_records() for op in record.ops}


@pytest.mark.parametrize("op", OPS, ids=lambda op: op["name"])
def test_op_is_complete(op: dict[str, object]) -> None:
    assert op["has_kernel"] or op["has_decompose"], "no kernel and no decomposition"
    differentiated = op["has_grad"] or op["has_decompose"]
    assert differentiated or not op["differentiable"], "no gradient, and not marked so"


@pytest.mark.parametrize("op", OPS, ids=lambda op: op["name"])
def test_op_has_a_test(op: dict[str, object]) -> None:
    name = str(op["name"])
    if name in TESTED:
        return
    elsewhere = covered_elsewhere()
    assert name in elsewhere, f"no record names {name} in `ops`, and no COVERED_ELSEWHERE does"
    path = Path(__file__).parents[1] / elsewhere[name]
    assert path.is_file(), f"{elsewhere[name]} does not exist"


def test_records_name_real_ops() -> None:
    unknown = (TESTED | set(covered_elsewhere())) - {str(op["name"]) for op in OPS}
    assert not unknown, f"records name ops that are not registered: {sorted(unknown)}"
