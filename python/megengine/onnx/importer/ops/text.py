"""Strings, which live on the host."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ..registry import host
from ..values import Array


def _texts(values: list[str], shape: tuple[int, ...]) -> Array:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)


@host("StringNormalizer")
def string_normalizer(
    x: Array,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: tuple[str, ...] = (),
) -> Array:
    changes: dict[str, Callable[[str], str]] = {
        "NONE": str,
        "LOWER": str.lower,
        "UPPER": str.upper,
    }
    change = changes.get(case_change_action)
    if change is None:
        raise ValueError(f"StringNormalizer: unknown case_change_action {case_change_action!r}")
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"StringNormalizer: expected shape (C,) or (1, C), got {x.shape}")

    def folded(text: str) -> str:
        return text if is_case_sensitive else text.lower()

    stop = {folded(word) for word in stopwords}
    # Of nothing at all, one empty string is left.
    kept = [change(text) for text in x.reshape(-1) if folded(text) not in stop] or [""]
    return _texts(kept, (len(kept),) if x.ndim == 1 else (1, len(kept)))


@host("StringConcat")
def string_concat(x: Array, y: Array) -> Array:
    return np.asarray(x.astype(object) + y.astype(object), dtype=object)


@host("StringSplit")
def string_split(
    x: Array, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Array, Array]:
    most = -1 if maxsplit is None else maxsplit
    parts = [text.split(delimiter or None, most) for text in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    filled = [part for row in parts for part in (*row, *[""] * (width - len(row)))]
    counts = np.array([len(row) for row in parts], dtype=np.int64).reshape(x.shape)
    return _texts(filled, (*x.shape, width)), counts


@host("RegexFullMatch", grows=True)
def regex_full_match(x: Array, *, pattern: str | None = None) -> Array:
    if pattern is None:
        raise ValueError("RegexFullMatch: expected a pattern")
    try:
        matches = re.compile(pattern).fullmatch
    except re.error as error:
        raise ValueError(f"RegexFullMatch: no pattern: {pattern!r}: {error}") from error
    found = [matches(text) is not None for text in x.reshape(-1)]
    return np.array(found, dtype=np.bool_).reshape(x.shape)
