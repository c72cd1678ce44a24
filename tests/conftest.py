"""Shared pytest set-up: one seed for the session, printed, and given to everything that draws
numbers.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tests.ops import record


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=int(os.environ.get("MGE_TEST_SEED", "0")),
        help="seed of all random inputs",
    )


def pytest_configure(config: pytest.Config) -> None:
    record.SEED = config.getoption("--seed")


def pytest_report_header(config: pytest.Config) -> str:
    isa = os.environ.get("MGE_CPU_ISA", "the best of this machine")
    return f"seed: {config.getoption('--seed')} (--seed), instruction set: {isa}"


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """Every test starts from the session's seed, so a test fails alone as it fails among others."""
    seed = request.config.getoption("--seed")
    random.seed(seed)
    np.random.seed(seed)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of the session's seed."""
    return np.random.default_rng(request.config.getoption("--seed"))
