"""How to call each function of the array API standard on random input, and what must come of it.

A case draws positional and keyword arguments for one function. Arrays are drawn as NumPy arrays and
dtypes as :class:`Named`; :func:`call` turns them into those of a namespace. :func:`compare` checks
a result of ``megengine.array_api`` against that of array-api-strict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REAL = INTS + FLOATS
INEXACT = FLOATS + COMPLEX
NUMERIC = REAL + COMPLEX
ALL = BOOL + NUMERIC
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, math.inf, -math.inf, math.nan]

# What names without a dtype give, which is up to a library: array-api-strict has the wide ones.
NARROW = {"int64": "int32", "float64": "float32", "complex128": "complex64"}


@dataclass(frozen=True)
class Named:
    """An attribute of the namespace, such as a dtype, by name."""

    name: str


# ---- drawing ------------------------------------------------------------------------------------


def floats(dtype: str, small: bool) -> st.SearchStrategy[float]:
    """Numbers of a float dtype. Small ones are whole: their sums and products are exact."""
    info = np.finfo(dtype)
    if small:
        return st.integers(-8, 8).map(float)
    extreme = [info.max, info.min, info.smallest_normal, info.eps, 1 + info.eps]
    return st.one_of(
        st.sampled_from([*SPECIAL, *map(float, extreme)]),
        st.floats(-64, 64, width=info.bits, allow_subnormal=False),
        st.floats(width=info.bits, allow_subnormal=False),
    )


def elements(dtype: str, small: bool = False) -> st.SearchStrategy[Any]:
    """The numbers of a dtype, extreme ones among them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        if small:
            return st.integers(max(low, -8), 8)
        return st.one_of(
            st.sampled_from([low, high, 0, 1, max(low, -1), low + 1, high - 1]),
            st.integers(max(low, -9), 9),
            st.integers(low, high),
        )
    if kind == "f":
        return floats(dtype, small)
    part = floats("float32" if dtype == "complex64" else "float64", small)
    return st.builds(complex, part, part)


class Draw:
    """Draws what calls need."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def shape(self, low: int = 0, high: int = 3, side: int = 3, least: int = 0) -> tuple[int, ...]:
        strategy = npst.array_shapes(min_dims=low, max_dims=high, min_side=least, max_side=side)
        return self.draw(strategy)

    def array(
        self,
        dtypes: str | Sequence[str],
        shape: tuple[int, ...] | None = None,
        small: bool = False,
        of: st.SearchStrategy[Any] | None = None,
    ) -> np.ndarray[Any, Any]:
        dtype = dtypes if isinstance(dtypes, str) else self.pick(dtypes)
        shape = self.shape() if shape is None else shape
        of = elements(dtype, small) if of is None else of
        return self.draw(npst.arrays(dtype, shape, elements=of, fill=st.nothing()))

    def number(self, dtype: str, small: bool = False) -> Any:
        """A Python number that may stand beside an array of this dtype."""
        return self.draw(elements(dtype, small))

    def shapes(self, count: int) -> list[tuple[int, ...]]:
        """Shapes that broadcast."""
        strategy = npst.mutually_broadcastable_shapes(
            num_shapes=count, min_side=0, max_side=3, max_dims=3
        )
        return list(self.draw(strategy).input_shapes)

    def promoting(self, dtypes: Sequence[str]) -> tuple[str, str]:
        """Two dtypes, often different ones, that the standard promotes."""
        first = self.pick(dtypes)
        others = [d for d in dtypes if promotes(first, d)]
        return first, self.pick(others)

    def operands(self, dtypes: Sequence[str], small: bool = False) -> list[Any]:
        """Two arrays that promote and broadcast, or one and a number."""
        first, second = self.promoting(dtypes)
        shapes = self.shapes(2)
        out: list[Any] = [
            self.array(d, s, small) for d, s in zip((first, second), shapes, strict=True)
        ]
        number = self.integer(0, 5)
        if number < 2:
            out[number] = self.number(first, small)
            out[1 - number] = self.array(first, shapes[0], small)
        return out

    def axis(self, ndim: int) -> int:
        return self.integer(-ndim, ndim - 1)

    def axes(self, ndim: int) -> Any:
        """One axis, several or None."""
        if ndim == 0 or self.integer(0, 3) == 0:
            return self.pick([None, ()])
        if self.integer(0, 1):
            return self.axis(ndim)
        return tuple(self.draw(st.lists(st.integers(0, ndim - 1), unique=True, min_size=1)))

    def options(self, **strategies: Sequence[Any]) -> dict[str, Any]:
        """Some of these keywords."""
        return {k: self.pick(v) for k, v in strategies.items() if self.integer(0, 1)}


def promotes(a: str, b: str) -> bool:
    """Whether the standard has a dtype for both."""
    kinds = {np.dtype(a).kind, np.dtype(b).kind}
    if kinds == {"i", "u"} and "uint64" in (a, b):
        return False
    return len(kinds) == 1 or kinds <= {"i", "u"} or kinds <= {"f", "c"}


# ---- calling ------------------------------------------------------------------------------------


def into(xp: Any, x: Any) -> Any:
    """Arguments as those of a namespace."""
    if isinstance(x, np.ndarray):
        return xp.asarray(x, dtype=getattr(xp, x.dtype.name))
    if isinstance(x, Named):
        return getattr(xp, x.name)
    if type(x) in (tuple, list):
        return type(x)(into(xp, i) for i in x)
    return x


def call(xp: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a function of the namespace, or of an extension: ``linalg.det``."""
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    keywords = {k: into(xp, v) for k, v in kwargs.items()}
    return function(*(into(xp, a) for a in args), **keywords)


# ---- comparing ----------------------------------------------------------------------------------


def as_numpy(x: Any) -> np.ndarray[Any, Any]:
    return x.numpy() if hasattr(x, "numpy") else np.asarray(getattr(x, "_array", x))


def parts(a: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    if a.dtype.kind == "c":
        yield a.real
        yield a.imag
    else:
        yield a


def same_numbers(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], ulps: float, signs: bool
) -> None:
    """Equal to some units in the last place; NaN, infinities and signs of zeros as they are."""
    if got.dtype.kind not in "fc" or ulps == 0:
        np.testing.assert_array_equal(got, want)
    info = np.finfo(got.dtype) if got.dtype.kind in "fc" else None
    if info is None:
        return
    # The parts of a complex number are as near as its magnitude says.
    with np.errstate(all="ignore"):
        size = np.abs(want)
    for g, w in zip(parts(got), parts(want), strict=True):
        np.testing.assert_array_equal(np.isnan(g), np.isnan(w), err_msg=f"NaN: {got} {want}")
        magnitude = np.where(np.isfinite(size), size, np.abs(w)).astype("float64")
        with np.errstate(all="ignore"):
            near = np.abs(g.astype("float64") - w.astype("float64")) <= (
                ulps * (float(info.eps) * magnitude + float(info.smallest_normal) * info.eps)
            )
            limit = float(info.max) * (1 - 2 * ulps * float(info.eps))
            overflowed = (np.abs(g) >= limit) & (np.abs(w) >= limit) & (np.sign(g) == np.sign(w))
        alike = near | overflowed | (g == w) | np.isnan(w)
        assert alike.all(), f"got {got!r}, expected {want!r}"
        if signs:
            zero = (g == 0) & (w == 0)
            np.testing.assert_array_equal(
                np.signbit(g[zero]), np.signbit(w[zero]), err_msg=f"signs: {got} {want}"
            )


def compare(case: Case, got: Any, want: Any, dtype: str | None = None) -> None:
    """Checks a result: array, number, dtype, tuple or named tuple of such."""
    if isinstance(want, (tuple, list)):
        assert isinstance(got, type(want)) or hasattr(want, "_fields")
        assert len(got) == len(want)
        assert getattr(got, "_fields", None) == getattr(want, "_fields", None)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(case, g, w, case.dtype if case.dtype != "unique" or i else None)
        return
    if not hasattr(want, "_array") and not isinstance(want, np.ndarray):
        if hasattr(want, "_np_dtype"):
            assert got == want._np_dtype
        else:
            assert type(got) is type(want)
            assert got == want
        return
    expected = as_numpy(want)
    if dtype is not None:
        name = dtype if dtype in ALL else NARROW.get(expected.dtype.name, expected.dtype.name)
        expected = expected.astype(name)
    array = as_numpy(got)
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    same_numbers(array, expected, case.ulps, case.signs)


# ---- the cases ----------------------------------------------------------------------------------

Arguments = tuple[list[Any], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """How to test a function.

    Attributes:
        draw: gives arguments.
        ulps: how far floats may be from the expected ones.
        signs: whether the signs of zeros count.
        dtype: "narrow" or "unique" where the results (for unique, but the first) have the default
            dtypes of the library, "sum" where the accumulator does.
        want: gives the expected result, as NumPy arrays, in place of array-api-strict.
        check: checks the result instead: (arguments as NumPy arrays, keywords, result).
    """

    draw: Callable[[Draw], Arguments]
    ulps: float = 8
    signs: bool = True
    dtype: str | None = None
    want: Callable[..., Any] | None = None
    check: Callable[..., None] | None = None


CASES: dict[str, Case] = {}


def case(*names: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(draw: Callable[[Draw], Arguments]) -> Callable[[Draw], Arguments]:
        for name in names:
            CASES[name] = Case(draw, **options)
        return draw

    return register


def one_operand(dtypes: Sequence[str]) -> Callable[[Draw], Arguments]:
    return lambda d: ([d.array(dtypes)], {})


def two_operands(dtypes: Sequence[str]) -> Callable[[Draw], Arguments]:
    return lambda d: (d.operands(dtypes), {})
