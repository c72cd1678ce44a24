"""The package and the examples pass the type checker, where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def run(root: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "mypy", *arguments]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]


def test_package(request: pytest.FixtureRequest) -> None:
    run(request.config.rootpath)


def test_examples(request: pytest.FixtureRequest) -> None:
    run(request.config.rootpath, *map(str, (request.config.rootpath / "examples").glob("*.py")))
