"""Training in two processes ends where one process with all data ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine.distributed as dist
from tests.distributed import training


def start(program: Any, *args: Any, ranks: int = 2) -> list[Any]:
    return dist.launcher(n_gpus=ranks)(program)(*args)


@pytest.mark.parametrize("traced", [False, True])
def test_resnet18_with_synchronised_batch_norm(traced: bool) -> None:
    alone = training.resnet(traced=False)
    first, second = start(training.resnet, traced)
    for name, want in alone.items():
        np.testing.assert_allclose(first[name], want, rtol=1e-5, atol=1e-5, err_msg=name)
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_of_different_sizes(dtype: str) -> None:
    alone = training.batch_norm_of_uneven_batches(dtype)
    ranks = start(training.batch_norm_of_uneven_batches, dtype)
    for name, want in alone.items():
        if name in ("out", "dx", "eval"):
            got = np.concatenate([rank[name] for rank in ranks])
        elif name in ("dw", "db"):  # each rank has the gradient of its own rows
            got = sum(rank[name] for rank in ranks)
        else:
            got = ranks[0][name]
        # 100 +- 1 has 5 digits of the 1 in float32, which the layer's own tensors are.
        tolerance = 2e-4 if dtype == "float32" else 1e-9 if name in ("out", "dx") else 1e-6
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)


def test_samplers_share_the_data() -> None:
    (first, first_random), (second, second_random) = start(training.samples)
    assert first == [0, 2, 4]
    assert second == [1, 3, 0]
    assert sorted(first_random + second_random) == list(range(6))
