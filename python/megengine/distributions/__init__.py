"""Probability distributions with parameters that are Tensors.

>>> import megengine as mge
>>> from megengine.distributions import Exponential
>>> waiting = Exponential(mge.tensor([0.5, 2.0]))
>>> waiting.mean
Tensor([2.  0.5], device=xpux:0)
>>> waiting.sample((3,)).shape
(3, 2)
"""

from .distribution import Distribution
from .exponential import Exponential

__all__ = ["Distribution", "Exponential"]
