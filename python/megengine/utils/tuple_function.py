"""Sizes given once or per axis: 3 and (3, 3) mean the same kernel."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any


def _as_int(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return operator.index(value)


def get_ndtuple(value: Any, *, n: int, allow_zero: bool = True) -> tuple[int, ...]:
    """Gives ``value`` as a tuple of ``n`` ints.

    Args:
        value: one int for all, or a sequence of ``n``.
        n: how many ints are wanted.
        allow_zero: whether 0 is allowed beside positive ints.

    Raises:
        AssertionError: the sequence has another length, or an int is negative (or 0 where that is
            not allowed).
        TypeError: something is not an int.

    >>> get_ndtuple(3, n=2)
    (3, 3)
    >>> get_ndtuple([1, 2], n=2)
    (1, 2)
    """
    if isinstance(value, Sequence) or getattr(value, "shape", ()) != ():
        assert len(value) == n, f"tuple len is not equal to n: {value}"
        values = tuple(_as_int(v) for v in value)
    else:
        values = (_as_int(value),) * n
    minimum = 0 if allow_zero else 1
    assert all(v >= minimum for v in values), f"invalid value: {values}"
    return values


_single = partial(get_ndtuple, n=1, allow_zero=True)
_pair = partial(get_ndtuple, n=2, allow_zero=True)
_pair_nonzero = partial(get_ndtuple, n=2, allow_zero=False)
_triple = partial(get_ndtuple, n=3, allow_zero=True)
_triple_nonzero = partial(get_ndtuple, n=3, allow_zero=False)
_quadruple = partial(get_ndtuple, n=4, allow_zero=True)
