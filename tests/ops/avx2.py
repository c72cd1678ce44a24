"""Tests once more under AVX2, in a process of its own: the instruction set is chosen at import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

outer_run = pytest.mark.skipif("MGE_CPU_ISA" in os.environ, reason="already the inner run")


def run_under_avx2(file: str, *options: str) -> None:
    """Runs a file of tests with pytest's options; fails where one of them fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, file]
    env = {**os.environ, "MGE_CPU_ISA": "avx2"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
