"""Random ops: none is exported, since no runtime would draw the same numbers."""

from __future__ import annotations

from ..builder import Builder, Call
from ..registry import RefusedError, exports


@exports("Dropout", "DropoutMask", "AttentionDropoutMask", "RandomCounters")
def dropout(g: Builder, call: Call) -> str:
    """Only of training."""
    raise RefusedError("dropout is of training: call eval() on the Module, or pass training=False")


@exports(
    "UniformRNG",
    "GaussianRNG",
    "PermutationRNG",
    "ShuffleRNG",
    "PoissonRNG",
    "GammaRNG",
    "BetaRNG",
    "MultinomialRNG",
)
def random(g: Builder, call: Call) -> str:
    """Would differ in each runtime."""
    raise RefusedError("runtimes draw other random numbers: pass them as an input")
