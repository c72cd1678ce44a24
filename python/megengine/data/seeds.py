"""Where the loader's random numbers come from: all from :func:`megengine.random.seed`.

A worker starts each batch from a seed of the epoch and the number of the batch. So a batch depends
neither on the worker that makes it, nor on how many there are, nor on what was made before it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .. import _core
from ..random import get_rng_state, set_rng_state

__all__ = ["draw_seed", "get_random_state", "seed_everything", "set_random_state"]

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = 2**64 - 1


def draw_seed() -> int:
    """A seed of 64 bits from the global generator."""
    handle = _core.new_generator(None)
    seed, _ = _core.generator_state(handle)
    _core.delete_generator(handle)
    return seed


def mix(seed: int, number: int) -> int:
    """The seed of a part of something: 64 well mixed bits (the steps of splitmix64)."""
    x = (seed + (number + 1) * _GOLDEN) & _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)


def seed_everything(seed: int) -> None:
    """Seeds the global generators of this process: Python's, NumPy's and MegEngine's."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    set_rng_state((seed, 0))


def get_random_state() -> dict[str, Any]:
    """The states of the global generators, as numbers, text and arrays."""
    version, words, gauss = random.getstate()
    kind, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, np.array(words, np.uint32), gauss],
        "numpy": [kind, key, position, has_gauss, cached],
        "megengine": list(get_rng_state()),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Goes back to what :func:`get_random_state` gave."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(np.asarray(words).tolist()), gauss))
    np.random.set_state(tuple(state["numpy"]))
    seed, offset = state["megengine"]
    set_rng_state((seed, offset))
