"""Sizes that remember where they come from, and the arithmetic that was done on them.

While a function is recorded for a file, the sizes in ``x.shape`` are integers like any other that
also know which axis of which value they are. What Python computes from them knows it too, so that a
number in the record is found again as arithmetic on sizes.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["Dim", "Expression", "FollowedFloat", "FollowedInt", "Sizes"]

# Of more symbols than these, what a number was computed from is forgotten.
MOST_SYMBOLS = 64
# So many numbers that a call computes from sizes are remembered.
MOST_NUMBERS = 20_000


class Dim(NamedTuple):
    """The size of an axis of a value of a graph.

    Args:
        value: the id of the value.
        axis: which of its axes, 0 or more.
    """

    value: int
    axis: int


Symbol = int | float | str | Dim


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b > 64:
        raise OverflowError("the power is too large")
    return a**b


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
    "min": min,
    "max": max,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "sqrt": math.sqrt,
    "log": math.log,
    "float": float,
    "not": operator.not_,
}

_AXIS = re.compile(r"%(\d{1,10})\[(\d{1,3})\]")
_WHOLE = re.compile(r"-?\d{1,19}")
_FRACTION = re.compile(r"-?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?")


@dataclass(frozen=True)
class Expression:
    """Arithmetic on sizes, written for a stack machine: first the operands, then the operator.

    >>> e = Expression((Dim(0, 2), 31, "+", 32, "//", 32, "*"))
    >>> e.text()
    '%0[2] 31 + 32 // 32 *'
    >>> Expression.parse(e.text()) == e
    True
    >>> e.value(lambda value, axis: (1, 3, 40)[axis])
    64
    """

    symbols: tuple[Symbol, ...]

    def axes(self) -> list[Dim]:
        """The sizes in it."""
        return [s for s in self.symbols if isinstance(s, Dim)]

    def text(self) -> str:
        """The symbols with spaces between them; axis 2 of value 0 is ``%0[2]``."""
        return " ".join(
            f"%{s.value}[{s.axis}]" if isinstance(s, Dim) else s if isinstance(s, str) else repr(s)
            for s in self.symbols
        )

    @staticmethod
    def parse(text: str) -> Expression:
        """What :meth:`text` wrote.

        Raises:
            ValueError: for any other text.
        """
        words = text.split(" ", MOST_SYMBOLS)
        if len(words) > MOST_SYMBOLS:
            raise ValueError(f"expected at most {MOST_SYMBOLS} symbols in arithmetic on sizes")
        symbols = tuple(_symbol(word) for word in words)
        depth = 0
        for s in symbols:
            takes = (2 if s in BINARY else 1) if isinstance(s, str) else 0
            if depth < takes:
                raise ValueError(f"expected operands before {s!r} in {text!r}")
            depth += 1 - takes
        if depth != 1:
            raise ValueError(f"expected one result of {text!r}, got {depth}")
        return Expression(symbols)

    def shown(self, names: Mapping[int, str]) -> str:
        """As Python would write it, with names for values: for messages.

        >>> Expression((Dim(0, 1), 8, "%", 0, "==", "not")).shown({0: "x"})
        'not ((x.shape[1] % 8) == 0)'
        """
        stack: list[str] = []
        for s in self.symbols:
            if isinstance(s, Dim):
                stack.append(f"{names.get(s.value, f'%{s.value}')}.shape[{s.axis}]")
            elif isinstance(s, str) and s in BINARY:
                last, first = stack.pop(), stack.pop()
                called = s in ("min", "max")
                stack.append(f"{s}({first}, {last})" if called else f"({first} {s} {last})")
            elif isinstance(s, str):
                stack.append(f"{s} {stack.pop()}" if s == "not" else f"{s}({stack.pop()})")
            else:
                stack.append(repr(s))
        whole = stack[0]
        return whole[1:-1] if whole.startswith("(") and self.symbols[-1] in BINARY else whole

    def value(self, size: Callable[[int, int], int]) -> int | float:
        """The number for these sizes, which the function gives for a value and an axis.

        Raises:
            ValueError: where there is none: for a division by 0, and for integers of more than 64
                bits.
        """
        stack: list[Any] = []
        try:
            for s in self.symbols:
                if isinstance(s, Dim):
                    stack.append(size(s.value, s.axis))
                elif isinstance(s, str) and s in BINARY:
                    last = stack.pop()
                    stack.append(BINARY[s](stack.pop(), last))
                elif isinstance(s, str):
                    stack.append(UNARY[s](stack.pop()))
                else:
                    stack.append(s)
                top = stack[-1]
                if not _fits(top):
                    raise OverflowError(f"{top} does not fit 64 bits")
        except (ArithmeticError, ValueError) as error:
            raise ValueError(f"{self.text()} has no value for these sizes: {error}") from error
        result: int | float = stack[0]
        return result

    def renamed(self, ids: Mapping[int, int]) -> Expression:
        """The same of values with other ids.

        Raises:
            KeyError: where a value has none.
        """
        return Expression(
            tuple(s._replace(value=ids[s.value]) if isinstance(s, Dim) else s for s in self.symbols)
        )


def _symbol(word: str) -> Symbol:
    if word in BINARY or word in UNARY:
        return word
    if found := _AXIS.fullmatch(word):
        return Dim(int(found[1]), int(found[2]))
    if _WHOLE.fullmatch(word):
        return int(word)
    number = float(word) if _FRACTION.fullmatch(word) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a number, a size or an operator, got {word[:40]!r}")
    return number


# ---- numbers that remember -----------------------------------------------------------------------


class Sizes:
    """The sizes that Python sees in a recorded call, and the numbers that it computes from them.

    Args:
        inputs: ids of the inputs; other values from outside have the same sizes in each call.
    """

    def __init__(self, inputs: Iterable[int] = ()) -> None:
        self.inputs = set(inputs)
        # In the order in which they were first computed.
        self.seen: dict[tuple[Symbol, ...], None] = {}
        # What the caller's code has compared, and how it came out.
        self.decided: dict[tuple[Symbol, ...], bool] = {}
        self.open = True

    def shape(self, value: int, shape: tuple[int, ...], external: bool) -> tuple[int, ...]:
        """The shape of a value as Python gets to see it."""
        if not self.open or (external and value not in self.inputs):
            return shape
        return tuple(self.number(n, (Dim(value, axis),)) for axis, n in enumerate(shape))

    def number(self, number: Any, symbols: tuple[Symbol, ...]) -> Any:
        """A number that knows how it was computed; as it is where that is too much to know."""
        if not self.open or len(symbols) > MOST_SYMBOLS or len(self.seen) > MOST_NUMBERS:
            return number
        self.seen[symbols] = None
        kind = FollowedInt if isinstance(number, int) else FollowedFloat
        return kind(number, self, symbols)

    def decide(self, result: bool, symbols: tuple[Symbol, ...]) -> None:
        """Notes what the caller's code goes by."""
        if self.open and len(symbols) < MOST_SYMBOLS and len(self.decided) < MOST_NUMBERS:
            self.decided[symbols] = result

    def close(self) -> None:
        """The call is over: numbers that outlive it are plain numbers from now on."""
        self.open = False


def _plain(number: Any) -> Any:
    """The number, without what it knows."""
    if isinstance(number, FollowedInt):
        return int.__int__(number)
    return float.__float__(number) if isinstance(number, FollowedFloat) else number


def _symbols_of(number: Any) -> tuple[Symbol, ...]:
    if isinstance(number, FollowedInt | FollowedFloat):
        return number.symbols
    return (int(number) if isinstance(number, bool) else number,)


def _fits(number: Any) -> bool:
    """Whether a number can stand in an expression."""
    return isinstance(number, int | float) and -(2**63) <= number < 2**63


def _result(number: Any, operands: tuple[Any, ...], symbol: str) -> Any:
    """The result of an operator, which knows what it is where its operands are of one open call."""
    known = {n.sizes for n in operands if isinstance(n, FollowedInt | FollowedFloat)}
    if len(known) != 1 or not all(map(_fits, (number, *operands))):
        return number
    (sizes,) = known
    return sizes.number(number, (*(s for n in operands for s in _symbols_of(n)), symbol))


def _binary(symbol: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        # Python's own operator: its errors are those of plain numbers.
        plain = operator.pow if symbol == "**" else BINARY[symbol]
        return _result(plain(_plain(a), _plain(b)), (a, b), symbol)

    return method


def _divmod(swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        quotient, rest = divmod(_plain(a), _plain(b))
        return _result(quotient, (a, b), "//"), _result(rest, (a, b), "%")

    return method


def _unary(symbol: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return _result(UNARY[symbol](_plain(self)), (self,), symbol)

    return method


def _compared(symbol: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        result = BINARY[symbol](_plain(a), _plain(b))
        sizes = self.sizes
        if sizes.open and _fits(other) and not _is_ours(sys._getframe(1)):
            sizes.decide(result, (*_symbols_of(a), *_symbols_of(b), symbol))
        return result

    return method


def _is_true(self: Any) -> bool:
    result = bool(_plain(self))
    if self.sizes.open and not _is_ours(sys._getframe(1)):
        self.sizes.decide(result, (*self.symbols, 0, "!="))
    return result


def _is_ours(frame: FrameType) -> bool:
    """Whether code is this library's own: what it compares is right for all sizes or raises."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "megengine"


def _round(self: Any, digits: Any = None) -> Any:
    number = _plain(self)
    return round(number, digits) if digits is not None else _result(round(number), (self,), "round")


def _power_of(self: Any, other: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        return pow(_plain(self), _plain(other), _plain(modulus))
    return _binary("**")(self, other)


def _power_to(self: Any, other: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        return pow(_plain(other), _plain(self), _plain(modulus))
    return _binary("**", swapped=True)(self, other)


class _Followed:
    """What numbers do that know which arithmetic on sizes they are."""

    sizes: Sizes
    symbols: tuple[Symbol, ...]

    __add__: Any = _binary("+")
    __radd__: Any = _binary("+", swapped=True)
    __sub__: Any = _binary("-")
    __rsub__: Any = _binary("-", swapped=True)
    __mul__: Any = _binary("*")
    __rmul__: Any = _binary("*", swapped=True)
    __truediv__: Any = _binary("/")
    __rtruediv__: Any = _binary("/", swapped=True)
    __floordiv__: Any = _binary("//")
    __rfloordiv__: Any = _binary("//", swapped=True)
    __mod__: Any = _binary("%")
    __rmod__: Any = _binary("%", swapped=True)
    __pow__: Any = _power_of
    __rpow__: Any = _power_to
    __divmod__: Any = _divmod()
    __rdivmod__: Any = _divmod(swapped=True)
    __neg__: Any = _unary("neg")
    __abs__: Any = _unary("abs")
    __floor__: Any = _unary("floor")
    __ceil__: Any = _unary("ceil")
    __trunc__: Any = _unary("trunc")
    __round__: Any = _round

    __lt__: Any = _compared("<")
    __le__: Any = _compared("<=")
    __gt__: Any = _compared("<", swapped=True)
    __ge__: Any = _compared("<=", swapped=True)
    __eq__: Any = _compared("==")
    __ne__: Any = _compared("!=")
    __bool__: Any = _is_true

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are plain numbers."""
        plain = _plain(self)
        return type(plain), (plain,)


class FollowedInt(_Followed, int):
    """An int that knows which arithmetic on sizes it is."""

    __hash__ = int.__hash__

    def __new__(cls, number: int, sizes: Sizes, symbols: tuple[Symbol, ...]) -> FollowedInt:
        """The number with what it knows."""
        made = super().__new__(cls, number)
        made.sizes, made.symbols = sizes, symbols
        return made


class FollowedFloat(_Followed, float):
    """A float that knows which arithmetic on sizes it is."""

    __hash__ = float.__hash__

    def __new__(cls, number: float, sizes: Sizes, symbols: tuple[Symbol, ...]) -> FollowedFloat:
        """The number with what it knows."""
        made = super().__new__(cls, number)
        made.sizes, made.symbols = sizes, symbols
        return made

    def __int__(self) -> int:
        """A plain int: Python wants no other here. What it is can still be found again."""
        number = math.trunc(_plain(self))
        self.sizes.number(number, (*self.symbols, "trunc"))
        return number
