"""No public name goes missing, and no signature changes unseen.

``surface.txt`` holds our public names with their signatures, ``reference_names.txt`` those of
MegEngine 1.13 that this release covers; tools/surface.py writes both.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pathlib
from typing import Any

HERE = pathlib.Path(__file__).parent


def load_tool() -> Any:
    path = HERE.parents[1] / "tools" / "surface.py"
    spec = importlib.util.spec_from_file_location("surface_tool", path)
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def lines(name: str) -> list[str]:
    return (HERE / name).read_text().splitlines()


def test_nothing_is_lost_or_changed():
    now = set(load_tool().surface())
    lost = [line for line in lines("surface.txt") if line not in now]
    assert not lost, (
        "lost, or with another signature (if that is meant, run tools/surface.py):\n"
        + "\n".join(lost)
    )


def is_there(module: str, name: str) -> bool:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            if inspect.isclass(found):
                inspect.getattr_static(found, part)
            found = getattr(found, part)
    except (ModuleNotFoundError, AttributeError):
        return False
    return True


def test_the_names_of_the_reference_are_there():
    missing = [line for line in lines("reference_names.txt") if not is_there(*line.split("\t"))]
    assert not missing, "\n".join(missing)
