"""Every pass over a graph is checked while these tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from megengine._core import verify_passes


@pytest.fixture(autouse=True, scope="session")
def _verified_passes() -> Iterator[None]:
    verify_passes(True)
    yield
    verify_passes(False)
