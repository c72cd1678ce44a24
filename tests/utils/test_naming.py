"""Names by scopes, and without duplicates. What is expected is what MegEngine 1.13 gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from megengine.utils.naming import AutoNaming, record_scope


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    AutoNaming.clear()
    yield
    AutoNaming.clear()


def test_scopes():
    assert AutoNaming.get_scope() == ""
    AutoNaming.push_scope("a")
    AutoNaming.push_scope(None)
    AutoNaming.push_scope("b")
    assert AutoNaming.get_scope() == "a.b"
    assert AutoNaming.gen_name(SimpleNamespace(c_name="conv", name="other")) == "a.b.conv"
    for _ in range(3):
        AutoNaming.pop_scope()
    assert AutoNaming.gen_name(SimpleNamespace(c_name="conv")) == "conv"
    assert AutoNaming.gen_name(SimpleNamespace(c_name="", _name="own")) == "own"
    with pytest.raises(IndexError):
        AutoNaming.pop_scope()


def test_names_of_values():
    AutoNaming.record_var_name(7, "loss")
    assert (AutoNaming.get_var_name(7), AutoNaming.get_var_name(8)) == ("loss", None)
    AutoNaming.clear()
    assert AutoNaming.get_var_name(7) is None


def op(name: str, *outputs: str) -> Any:
    return SimpleNamespace(name=name, outputs=[SimpleNamespace(name=n) for n in outputs])


def test_duplicates():
    ops = [
        op("conv", "conv"),
        op("conv", "conv"),
        op("split", "split_0", "split_1"),
        op("split", "split_0", "other"),
        op("one", "one"),
    ]
    for each in ops:
        AutoNaming.record_opnode(each)
    AutoNaming.remove_duplicate_names()
    assert [(o.name, [v.name for v in o.outputs]) for o in ops] == [
        ("conv[0]", ["conv"]),
        ("conv[1]", ["conv"]),
        ("split[0]", ["split[0]_0", "split[0]_1"]),
        ("split[1]", ["split[1]_0", "other"]),
        ("one", ["one"]),
    ]


def test_record_scope():
    record_scope(sys._getframe(), "a")
    with pytest.raises(TypeError, match="expected a frame and a name"):
        record_scope("x", "a")  # type: ignore[arg-type]
