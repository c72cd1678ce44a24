"""One version, wherever it can be read."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import megengine
import megengine.version

ROOT = Path(__file__).parents[2]


def test_version_is_in_one_place() -> None:
    assert megengine.__version__ == megengine.version.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", megengine.__version__)


def test_changelog_has_this_version() -> None:
    assert f"## {megengine.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_installed_version() -> None:
    installed = [d.version for d in importlib.metadata.distributions(name="openmge")]
    assert all(v == megengine.__version__ for v in installed)


def test_package_says_that_it_is_typed() -> None:
    assert (Path(megengine.__file__).parent / "py.typed").is_file()
