"""The examples in the docstrings run and print what they show.

They may use mge, F, M, optim and np without importing them.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import megengine
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim

NAMES = {"mge": megengine, "F": F, "M": M, "optim": optim, "np": np}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> list[str]:
    walk = pkgutil.walk_packages(megengine.__path__, "megengine.")
    return ["megengine", *sorted(m.name for m in walk if not m.name.endswith("._core"))]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    default = megengine.get_default_device()
    try:
        failed, _ = doctest.testmod(module, optionflags=FLAGS, extraglobs=NAMES)
    finally:
        megengine.set_default_device(default)
    assert failed == 0, "see the captured output"
