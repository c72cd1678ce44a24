"""Every collective against NumPy, with gradients and in every dtype, on two and four ranks."""

from __future__ import annotations

from functools import lru_cache

import pytest

import megengine.distributed as dist
from tests.distributed import collectives


@lru_cache
def outcomes(ranks: int) -> list[dict[str, str]]:
    """What went wrong on each rank: all checks run in one job."""
    return dist.launcher(n_gpus=ranks)(collectives.run_all)()


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", collectives.CHECKS)
def test_collectives(name: str, ranks: int) -> None:
    for rank, wrong in enumerate(outcomes(ranks)):
        assert name not in wrong, f"rank {rank}: {wrong[name]}"
