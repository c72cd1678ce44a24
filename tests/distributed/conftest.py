"""Several processes: what their tests share."""

from __future__ import annotations

import importlib

import pytest

collect_ignore: list[str] = []


def missing() -> str:
    """Why no job can be started here; empty where one can."""
    for name in ("mpi4py.MPI", "cloudpickle"):
        try:
            if name == "mpi4py.MPI":
                mpi4py = importlib.import_module("mpi4py")
                mpi4py.rc.initialize = False
            importlib.import_module(name)
        except (ImportError, RuntimeError) as e:
            return f"{name} cannot be imported: {e}"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if "tests/distributed" in item.path.as_posix()]
    why = missing() if mine else ""
    for item in mine:
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGE_DIST_TIMEOUT", "60")
    monkeypatch.setenv("MGE_DIST_HEARTBEAT", "30")
