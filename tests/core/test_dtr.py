"""The settings of dynamic tensor rematerialization are kept, checked, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import megengine as mge
from megengine import dtr


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = dtr.eviction_threshold, dtr.evictee_minimum_size
    yield
    dtr.eviction_threshold, dtr.evictee_minimum_size = before
    dtr.enable_sqrt_sampling = False


@pytest.mark.parametrize(
    ("given", "count"),
    [(7, 7), ("7", 7), ("12B", 12), ("2kb", 2048), ("1.5 MB", 1572864), ("5GB", 5 * 2**30)],
)
def test_bytes(given: Any, count: int) -> None:
    mge.dtr.eviction_threshold = given
    assert mge.dtr.eviction_threshold == count
    mge.dtr.evictee_minimum_size = given
    assert mge.dtr.evictee_minimum_size == count


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("5XB", ValueError, "one of the units B, KB, MB and GB, got '5XB'"),
        ("", ValueError, "eviction_threshold: expected a number"),
        (-1, ValueError, "at least 0 bytes, got -1"),
        (1.5, TypeError, "expected an int or a str, got float"),
        (True, TypeError, "got bool"),
    ],
)
def test_what_is_no_number_of_bytes(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mge.dtr.eviction_threshold = given
    assert mge.dtr.eviction_threshold == 0


def test_enabling_says_once_that_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dtr, "_told", False)
    dtr.enable()
    dtr.enable()
    dtr.disable()
    dtr.enable_sqrt_sampling = True
    assert dtr.enable_sqrt_sampling is True
    told = capfd.readouterr().err
    assert told.count("dtr.enable: no values are dropped and computed again here") == 1
