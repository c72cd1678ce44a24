"""Which arithmetic on sizes a number is that several records of a function have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from .sizes import Dim, Expression, Symbol

__all__ = ["Explainer", "Numbers", "Shapes"]

Numbers = tuple[int | float, ...]
Shapes = Mapping[int, tuple[int, ...]]
_There = Callable[[int], bool]


def _size_in(shapes: Shapes) -> Callable[[int, int], int]:
    return lambda value, axis: shapes[value][axis]


class Explainer:
    """Finds the arithmetic on sizes that gives a number in all records of a function.

    Args:
        records: of each, the shapes of its values, by their ids.
        seen: what Python computed from sizes in the first one.
        inputs: the ids of the inputs.
        roots: the sizes that differ between the records.

    >>> image, height = 0, Dim(0, 2)
    >>> records = [{image: (1, 3, n, 8)} for n in (32, 64, 33)]
    >>> seen = [(height,), (height, 31, "+", 32, "//", 32, "*")]
    >>> explainer = Explainer(records, seen, [image], [height])
    >>> explainer.find((32, 64, 64)).text()
    '%0[2] 31 + 32 // 32 *'
    >>> explainer.find((95, 191, 98)).text()
    '%0[2] 3 * -1 +'
    >>> explainer.find((2, 3, 4)) is None
    True
    """

    def __init__(
        self,
        records: Sequence[Shapes],
        seen: Iterable[tuple[Symbol, ...]],
        inputs: Iterable[int],
        roots: Iterable[Dim],
    ):
        self.records = records
        self.sizes = [_size_in(shapes) for shapes in records]
        self.roots = [Expression((root,)) for root in roots]
        self.inputs = set(inputs)
        self.known: dict[Numbers, list[Expression]] = {}
        self.whole: set[Expression] = set()  # those that give integers
        self.known_as: dict[np.dtype[Any], dict[Numbers, list[Expression]]] = {}
        for expression in (*self.roots, *map(Expression, seen)):
            numbers = self.numbers(expression)
            if numbers is not None:
                self.known.setdefault(numbers, []).append(expression)
                if all(isinstance(n, int) for n in numbers):
                    self.whole.add(expression)

    def numbers(self, expression: Expression) -> Numbers | None:
        """What arithmetic gives in each record; None where it gives nothing in one."""
        try:
            return tuple(map(expression.value, self.sizes))
        except (ValueError, LookupError):
            return None

    def holding(self, decided: Mapping[tuple[Symbol, ...], bool]) -> list[Expression]:
        """The comparisons that came out the same in all records, of sizes that did not.

        Args:
            decided: comparisons, and how they came out in the first record.
        """
        out = []
        for symbols, result in decided.items():
            true = Expression(symbols if result else (*symbols, "not"))
            sizes = [self.numbers(Expression((d,))) for d in true.axes()]
            differ = any(len(set(numbers or ())) > 1 for numbers in sizes)
            if differ and all(self.numbers(true) or (False,)):
                out.append(true)
        return out

    def find(
        self,
        numbers: Numbers,
        there: Callable[[int], bool] = lambda value: True,
        operands: Iterable[int] = (),
        dtype: Any = None,
    ) -> Expression | None:
        """The arithmetic that gives a number.

        Args:
            numbers: the number in each record.
            there: whether a value is made before the number is needed.
            operands: of the op that has the number: it may be a product of their sizes.
            dtype: numbers are rounded to this one, where it is given.
        """
        candidates = self._known_as(dtype).get(numbers, [])
        whole = all(isinstance(n, int) for n in numbers)
        found = self._best([e for e in candidates if e in self.whole or not whole], there)
        if found is not None:
            return found
        if not whole:
            return self._curve(numbers, there, dtype)
        for expression in self._further([v for v in operands if there(v)]):
            if self.numbers(expression) == numbers:
                return expression
        return self._line(numbers, there)

    def _known_as(self, dtype: Any) -> dict[Numbers, list[Expression]]:
        if dtype is None:
            return self.known
        out = self.known_as.get(dtype)
        if out is None:
            out = self.known_as[dtype] = {}
            for numbers, expressions in self.known.items():
                out.setdefault(_rounded(numbers, dtype), []).extend(expressions)
        return out

    def _best(self, candidates: Sequence[Expression], there: _There) -> Expression | None:
        """Of several, the shortest; one of the inputs' sizes alone where there are more."""

        def length(e: Expression) -> tuple[int, bool]:
            return len(e.symbols), any(d.value not in self.inputs for d in e.axes())

        able = [e for e in candidates if all(there(d.value) for d in e.axes())]
        return min(able, key=length, default=None)

    # What the library computes itself, or Python with functions that forget where numbers are from.

    def _further(self, operands: Iterable[int]) -> Iterator[Expression]:
        """Products of sizes, and the smaller and the larger of two."""
        for value in operands:
            for begin, end in combinations(range(len(self.records[0][value]) + 1), 2):
                yield _product([Expression((Dim(value, i),)) for i in range(begin, end)])
        for count in (2, 3, 4):
            for factors in combinations(self.roots, count):
                yield _product(factors)
        for a, b in combinations(self.roots, 2):
            for choice in ("min", "max"):
                yield Expression((*a.symbols, *b.symbols, choice))

    def _line(self, numbers: Numbers, there: _There) -> Expression | None:
        """A whole number that is a multiple of something, plus something, perhaps divided.

        Three points have to lie on the line.
        """
        for known, expressions in self.known.items():
            if len(set(known)) < 3 or not all(isinstance(n, int) for n in known):
                continue
            low, high = min(known), max(known)
            at_low, at_high = numbers[known.index(low)], numbers[known.index(high)]
            slope = Fraction(int(at_high - at_low), int(high - low))
            offset = Fraction(int(at_low)) - slope * int(low)
            if any(slope * x + offset != y for x, y in zip(known, numbers, strict=True)):
                continue
            found = self._best(expressions, there)
            divisor = math.lcm(slope.denominator, offset.denominator)
            if found is not None and divisor <= 2**16:
                factor, add = int(slope * divisor), int(offset * divisor)
                line = (*found.symbols, factor, "*", add, "+")
                return Expression((*line, divisor, "/") if divisor > 1 else line)
        return None

    def _curve(self, numbers: Numbers, there: _There, dtype: Any) -> Expression | None:
        """A fraction: a multiple of something, its root or its inverse, plus something.

        Python forgets where a number is from in ``0.5 * size`` (not in ``size * 0.5``), and in
        ``math.sqrt``. Three points have to lie on the curve.
        """
        digits = 12 if dtype is None or np.dtype(dtype) == np.float64 else 6
        for known, expressions in self.known.items():
            found = self._best(expressions, there)
            if found is None or len(set(known)) < 3 or min(known) <= 0:
                continue
            for name, bend in _BENDS.items():
                xs = [bend(x) for x in known]
                low, high = xs.index(min(xs)), xs.index(max(xs))
                slope = (numbers[high] - numbers[low]) / (xs[high] - xs[low])
                offset = _digits(numbers[low] - slope * xs[low], digits, max(map(abs, numbers)))
                slope = _digits(slope, digits)
                symbols: tuple[Symbol, ...] = (*found.symbols, *name.split(), slope, "*")
                if name.startswith("1"):
                    symbols = (slope, *found.symbols, *name.split()[1:], "/")
                expression = Expression((*symbols, offset, "+") if offset else symbols)
                given = self.numbers(expression)
                if given is None:
                    continue
                rounded = _rounded(given, dtype)
                if all(
                    math.isclose(a, b, rel_tol=1e-14) for a, b in zip(rounded, numbers, strict=True)
                ):
                    return expression
        return None


# What numbers may be a multiple of: symbols behind a size, and what they do to it.
_BENDS: dict[str, Callable[[float], float]] = {
    "": float,
    "1": lambda x: 1 / x,
    "sqrt": math.sqrt,
    "log": math.log,
    "1 sqrt": lambda x: 1 / math.sqrt(x),
}


def _digits(number: float, digits: int, beside: float = 0.0) -> float:
    """A number of so many digits, as people write them; of a sum, what counts `beside` another."""
    scale = max(abs(number), beside)
    return round(number, digits - 1 - math.floor(math.log10(scale))) if scale else 0.0


def _product(factors: Sequence[Expression]) -> Expression:
    symbols = list(factors[0].symbols)
    for factor in factors[1:]:
        symbols += [*factor.symbols, "*"]
    return Expression(tuple(symbols))


def _rounded(numbers: Numbers, dtype: Any) -> Numbers:
    if dtype is None:
        return numbers
    if np.dtype(dtype).kind in "iu":
        return tuple(int(n) if n == int(n) else math.nan for n in numbers)
    with np.errstate(over="ignore"):
        return tuple(np.asarray(numbers, "float64").astype(dtype).astype("float64").tolist())
