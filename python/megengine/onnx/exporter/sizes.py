"""Integers that depend on the dynamic sizes of a model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import lcm, prod
from typing import Any, NoReturn


class DependsOnSizeError(Exception):
    """An ONNX attribute, or a decision of an export rule, would depend on a dynamic size."""


@dataclass(frozen=True, eq=False)
class Size:
    """An integer of which only its value in each recording is known.

    A model with dynamic axes is recorded at several sizes. An integer that differs between the
    recordings is kept as all its values; arithmetic on it is arithmetic on each of them. What it is
    as a function of the sizes is found out where it is needed (:meth:`Formula.of`).
    """

    samples: tuple[int, ...]

    def _with(self, other: Any, function: Callable[[int, int], int]) -> AnySize:
        if isinstance(other, Size):
            return sized(function(a, b) for a, b in zip(self.samples, other.samples, strict=True))
        if isinstance(other, int):
            return sized(function(a, other) for a in self.samples)
        return NotImplemented

    def __add__(self, other: Any) -> AnySize:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> AnySize:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> AnySize:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> AnySize:
        return self._with(other, operator.mul)

    def __floordiv__(self, other: Any) -> AnySize:
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> AnySize:
        return self._with(other, lambda a, b: b // a)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.samples == other.samples

    def __hash__(self) -> int:
        return hash(self.samples)

    def _always(self, other: Any, compare: Callable[[int, int], bool]) -> bool:
        others = other.samples if isinstance(other, Size) else (other,) * len(self.samples)
        answers = {compare(a, b) for a, b in zip(self.samples, others, strict=True)}
        if len(answers) > 1:
            raise DependsOnSizeError
        return answers.pop()

    def __lt__(self, other: Any) -> bool:
        return self._always(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._always(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._always(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._always(other, operator.ge)

    def _refuse(self) -> NoReturn:
        raise DependsOnSizeError

    # What would make a constant of it.
    def __index__(self) -> int:
        self._refuse()

    def __float__(self) -> float:
        self._refuse()


@dataclass(frozen=True)
class Number:
    """A number that is no integer in some recording; only its value in each is known.

    What it is as a function of the sizes is found out where it is written. Rules that want a
    constant cannot have one.
    """

    samples: tuple[float, ...]

    def _refuse(self, *_: Any) -> NoReturn:
        raise DependsOnSizeError

    __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = __abs__ = __round__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __index__ = __float__ = __bool__ = _refuse


AnySize = int | Size
Shape = tuple[AnySize, ...]


def sized(samples: Any) -> AnySize:
    """An int where all samples are equal, else a Size."""
    values = tuple(int(v) for v in samples)
    return values[0] if len(set(values)) == 1 else Size(values)


def is_static(shape: Sequence[AnySize]) -> bool:
    """Whether no size of a shape is dynamic."""
    return not any(isinstance(n, Size) for n in shape)


def static(shape: Sequence[AnySize]) -> tuple[int, ...]:
    """A shape without dynamic sizes; raises DependsOnSizeError where there is one."""
    return tuple(operator.index(n) for n in shape)


def per_sample(function: Callable[..., int], *values: AnySize) -> AnySize:
    """A function of plain numbers, of sizes."""
    count = max((len(v.samples) for v in values if isinstance(v, Size)), default=1)
    columns = [v.samples if isinstance(v, Size) else (v,) * count for v in values]
    return sized(function(*row) for row in zip(*columns, strict=True))


def number_of_elements(shape: Sequence[AnySize]) -> AnySize:
    """The product of the sizes."""
    return prod(shape, start=1)


@dataclass(frozen=True)
class Formula:
    """A product of some of the dynamic sizes, or a sum of them, times and plus constants.

    ``terms`` are (coefficient, which sizes are multiplied); the sum of them and of ``offset`` is
    divided by ``divisor`` and rounded down.
    """

    terms: tuple[tuple[int, tuple[int, ...]], ...]
    offset: int
    divisor: int

    def value(self, products: Mapping[tuple[int, ...], int]) -> int:
        """The number for these products of sizes."""
        total = sum(c * products[group] for c, group in self.terms) + self.offset
        return total // self.divisor

    @staticmethod
    def of(size: Size, symbols: Sequence[Sequence[int]], odd: int = 0) -> Formula | None:
        """The formula that gives a size in all recordings, from the sizes' own samples.

        The last ``odd`` recordings are those of odd sizes, where quotients are rounded.
        """
        singles: list[tuple[int, ...]] = [(i,) for i in range(len(symbols))]
        products = [
            group
            for length in range(2, len(symbols) + 1)
            for group in combinations(range(len(symbols)), length)
        ]
        # Simplest first: one term, then all sizes.
        bases: list[list[tuple[int, ...]]] = [[single] for single in singles]
        bases += [[group] for group in products]
        if len(singles) > 1:
            bases.append(singles)
        for basis in bases:
            columns = [
                [prod(symbols[i][k] for i in group) for group in basis]
                for k in range(len(size.samples))
            ]
            formula = _exact(basis, columns, size.samples)
            if formula is None and odd:
                formula = _rounded(basis, columns, size.samples, odd)
            if formula is not None:
                return formula
        return None


def _exact(
    basis: list[tuple[int, ...]], columns: list[list[int]], values: Sequence[int]
) -> Formula | None:
    found = _solve(columns, values)
    if found is None:
        return None
    *coefficients, offset = found
    divisor = lcm(*(c.denominator for c in found))
    terms = tuple(
        (int(c * divisor), group) for c, group in zip(coefficients, basis, strict=True) if c
    )
    return Formula(terms, int(offset * divisor), divisor)


def _rounded(
    basis: list[tuple[int, ...]], columns: list[list[int]], values: Sequence[int], odd: int
) -> Formula | None:
    """A quotient that is whole in all recordings but the last ones, those of odd sizes."""
    formula = _exact(basis, columns[:-odd], values[:-odd])
    if formula is None:
        return None
    rest = [dict(zip(basis, row, strict=True)) for row in columns[-odd:]]
    shifted = (replace(formula, offset=formula.offset + shift) for shift in range(formula.divisor))
    fitting = [f for f in shifted if tuple(map(f.value, rest)) == tuple(values[-odd:])]
    return fitting[0] if len(fitting) == 1 else None  # several: nothing tells which it is


def _solve(rows: list[list[int]], values: Sequence[int]) -> list[Fraction] | None:
    """Coefficients and offset with rows @ coefficients + offset == values, exactly."""
    matrix = [
        [Fraction(v) for v in row] + [Fraction(1), Fraction(value)]
        for row, value in zip(rows, values, strict=True)
    ]
    unknowns = len(rows[0]) + 1
    if len(matrix) <= unknowns:
        return None  # any function would fit
    for column in range(unknowns):
        pivot = next((r for r in range(column, len(matrix)) if matrix[r][column] != 0), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        head = matrix[column]
        matrix[column] = [v / head[column] for v in head]
        for r, row in enumerate(matrix):
            if r != column and row[column] != 0:
                matrix[r] = [v - row[column] * h for v, h in zip(row, matrix[column], strict=True)]
    if any(row[-1] != 0 for row in matrix[unknowns:]):
        return None
    return [matrix[i][-1] for i in range(unknowns)]
