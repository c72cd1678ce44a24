"""ShardedOptimizer steps as the optimizer that it splits, and saves what that saves."""

from __future__ import annotations

from typing import Any

import numpy as np

import megengine.distributed as dist
from tests.distributed import sharding


def start(program: Any, *args: Any, ranks: int) -> list[Any]:
    return dist.launcher(n_gpus=ranks)(program)(*args)


def agrees(got: Any, want: Any) -> None:
    for a, b in zip(got[0], want[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert got[1]["param_groups"] == want[1]["param_groups"]
    assert got[1]["state"].keys() == want[1]["state"].keys()
    for number, states in want[1]["state"].items():
        for name, value in states.items():
            np.testing.assert_allclose(
                got[1]["state"][number][name], value, rtol=1e-5, atol=1e-6, err_msg=name
            )
            assert got[1]["state"][number][name].shape == value.shape


def test_steps_and_states_of_another_number_of_ranks() -> None:
    ranks = start(sharding.split_all, 3, ranks=3)
    saved = {}
    for name in sharding.OPTIMIZERS:
        want = sharding.whole(name, ranks=3, steps=3)
        for rank in ranks:
            agrees(rank[name], want)
        saved[name] = ranks[0][name][:2]
        # Each rank holds a third, rounded up for each of the parameters.
        elements = sum(int(np.prod(s)) for s in sharding.SHAPES)
        states = sum(v.size for v in want[1]["state"][0].values() if v.ndim)
        count = states // want[1]["state"][0][next(iter(want[1]["state"][0]))].size
        assert ranks[0][name][2] <= count * (elements / 3 + len(sharding.SHAPES))
    # What three saved goes on in two, and in one without a job.
    for rank in start(sharding.split_all, 2, saved, ranks=2):
        for name in sharding.OPTIMIZERS:
            agrees(rank[name], sharding.whole(name, ranks=2, steps=2, saved=saved[name]))


def test_what_is_refused() -> None:
    for answers in start(sharding.refused, ranks=2):
        assert [a.split(":")[0] for a in answers] == [
            "ValueError",
            "TypeError",
            "AssertionError",
            "ValueError",
        ]
        assert "norms of whole parameters" in answers[0]
