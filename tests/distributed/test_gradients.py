"""Gradients that are summed while backward runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine.distributed as dist
from tests.distributed import programs


def start(program: Any, *args: Any) -> list[Any]:
    return dist.launcher(n_gpus=2)(program)(*args)


@pytest.mark.parametrize(
    ("method", "bucket_bytes", "traced"),
    [("mean", 1, False), ("sum", 60, False), ("mean", 1 << 20, True)],
)
def test_gradients_are_summed(method: str, bucket_bytes: int, traced: bool) -> None:
    ranks = start(programs.reduced_gradients, method, bucket_bytes, traced)
    np.testing.assert_array_equal(ranks[0]["weight"], ranks[1]["weight"])
    for name, got in ranks[0]["reduced"].items():
        alone = [rank["alone"][name] for rank in ranks]
        if "unused" in name:
            assert got is None
            continue
        want = sum(alone) / (2 if method == "mean" else 1)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7, err_msg=name)
        np.testing.assert_array_equal(got, ranks[1]["reduced"][name])
        assert not np.allclose(alone[0], alone[1])


def test_ranks_that_use_different_parameters_are_told() -> None:
    for message in start(programs.gradients_that_differ):
        assert "rank 0 has 4 of 26 elements" in message
        assert "rank 1 has 2 of 16 elements" in message
