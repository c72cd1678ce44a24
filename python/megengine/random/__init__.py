"""Random numbers.

The functions draw from a global generator; an :class:`RNG` is a generator of its own. Both are
counter-based: the same seed gives the same numbers, for any number of threads.

>>> import megengine as mge
>>> mge.random.seed(42)
>>> a = mge.random.uniform(size=(2, 3))
>>> mge.random.seed(42)
>>> b = mge.random.uniform(size=(2, 3))
>>> bool((a == b).numpy().all())
True
"""

from .rng import (
    RNG,
    beta,
    exponential,
    gamma,
    get_rng_state,
    multinomial,
    normal,
    permutation,
    poisson,
    seed,
    set_rng_state,
    shuffle,
    uniform,
)

__all__ = [
    "RNG",
    "beta",
    "exponential",
    "gamma",
    "get_rng_state",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "seed",
    "set_rng_state",
    "shuffle",
    "uniform",
]
