"""The examples in the docstrings run and print what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import megengine

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> list[str]:
    walk = pkgutil.walk_packages(megengine.__path__, "megengine.")
    return ["megengine", *sorted(m.name for m in walk if not m.name.endswith("._core"))]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    default = megengine.get_default_device()
    try:
        failed, _ = doctest.testmod(module, optionflags=FLAGS)
    finally:
        megengine.set_default_device(default)
    assert failed == 0, "see the captured output"
