"""The Python array API standard, version 2025.12, for Tensors, with its extensions linalg and fft.

Programs written for any array library ask ``x.__array_namespace__()`` for it. The functions follow
the standard: its names, positional and keyword arguments, promotion of dtypes and errors, which in
places differ from those of :mod:`megengine.functional`. Without a dtype numbers are float32, int32
and complex64.

>>> import megengine.array_api as xp
>>> x = xp.asarray([[1, 2], [3, 4]])
>>> xp.sum(x, axis=0)
Tensor([4 6], dtype=int32, device=xpux:0)
"""

from __future__ import annotations

import math as _math

from . import (
    creation,
    data_types,
    elementwise,
    fft,
    info,
    linalg,
    linear_algebra,
    manipulation,
    searching,
    statistical,
)
from .creation import *
from .data_types import *
from .elementwise import *
from .info import __array_namespace_info__
from .linear_algebra import *
from .manipulation import *
from .searching import *
from .statistical import *

__array_api_version__ = info.VERSIONS[-1]
e, inf, nan, pi, newaxis = _math.e, _math.inf, _math.nan, _math.pi, None

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "e",
    "fft",
    "inf",
    "linalg",
    "nan",
    "newaxis",
    "pi",
]
__all__ += creation.__all__ + data_types.__all__ + elementwise.__all__ + linear_algebra.__all__
__all__ += manipulation.__all__ + searching.__all__ + statistical.__all__
