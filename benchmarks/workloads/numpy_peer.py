"""What the workloads through NumPy share: a peer that is always installed."""

from __future__ import annotations

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    """Standard normal numbers, float32."""
    return rng.standard_normal(shape, dtype=np.float32)
