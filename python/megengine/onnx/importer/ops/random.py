"""Random numbers, from megengine's generator; a node with a seed draws from one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import functional as F
from .... import random as R
from ....tensor import Tensor
from ..registry import op
from ..values import AnyTensor, dtype_from_onnx, dtype_of, shape_of


def _drawn(
    kind: str, a: float, b: float, shape: Any, dtype: np.dtype[Any], seed: float | None
) -> Tensor:
    """From [a, b), or of mean a and deviation b."""
    source: Any = R if seed is None else R.RNG(seed=_as_seed(seed))
    size = tuple(int(n) for n in shape)
    draw = source.uniform if kind == "uniform" else source.normal
    return draw(a, b, size=size or (1,)).reshape(size).astype(dtype)


def _as_seed(seed: float) -> int:
    """The bits of the float, which files give seeds as."""
    return int(np.float32(seed).view(np.uint32))


@op("RandomUniform")
def random_uniform(
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    return _drawn("uniform", low, high, shape, dtype_from_onnx(dtype), seed)


@op("RandomNormal")
def random_normal(
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    return _drawn("normal", mean, scale, shape, dtype_from_onnx(dtype), seed)


@op("RandomUniformLike")
def random_uniform_like(
    x: AnyTensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    kind = dtype_of(x) if dtype is None else dtype_from_onnx(dtype)
    return _drawn("uniform", low, high, shape_of(x), kind, seed)


@op("RandomNormalLike")
def random_normal_like(
    x: AnyTensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    kind = dtype_of(x) if dtype is None else dtype_from_onnx(dtype)
    return _drawn("normal", mean, scale, shape_of(x), kind, seed)


@op("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    kind = dtype_of(x) if dtype is None else dtype_from_onnx(dtype)
    numbers = _drawn("uniform", 0.0, 1.0, x._tuple_shape, dtype_of(x), seed)
    return F.less(numbers, x).astype(kind)


@op("Multinomial", since=7)
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    batch, classes = x._tuple_shape
    ends = F.cumsum(F.softmax(x, 1), 1)
    numbers = _drawn("uniform", 0.0, 1.0, (batch, sample_size, 1), dtype_of(x), seed)
    above = (F.expand_dims(ends[:, : classes - 1], 1) <= numbers).astype("int32")
    return F.sum(above, 2).astype(dtype_from_onnx(dtype))
