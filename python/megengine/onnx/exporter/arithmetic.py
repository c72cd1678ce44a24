"""Arithmetic on sizes (:mod:`megengine.jit.sizes`) as nodes of an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...jit.sizes import UNARY, Dim, Expression

if TYPE_CHECKING:
    from .builder import Builder

_ROUNDING = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}
_UNARY = {"neg": "Neg", "abs": "Abs"}
_BINARY = {"+": "Add", "-": "Sub", "*": "Mul", "min": "Min", "max": "Max"}


class Number(NamedTuple):
    """A vector of one element: its name, and whether it is a float64; an int64 otherwise."""

    name: str
    is_fraction: bool


def arithmetic(g: Builder, expression: Expression) -> Number:
    """What an expression gives, by the rules of Python."""
    stack: list[Number] = []
    for s in expression.symbols:
        if isinstance(s, Dim):
            stack.append(Number(g.dimension(*s), False))
        elif isinstance(s, int):
            stack.append(Number(g.ints([s]), False))
        elif isinstance(s, float):
            stack.append(Number(g.constant([s], "float64"), True))
        elif s in UNARY:
            stack.append(_unary(g, s, stack.pop()))
        else:
            last = stack.pop()
            stack.append(_binary(g, s, stack.pop(), last))
    return stack[0]


def _fraction(g: Builder, x: Number) -> str:
    return g.cast(x.name, "float64", given="float64" if x.is_fraction else "int64")


def _unary(g: Builder, symbol: str, x: Number) -> Number:
    if symbol in _UNARY:
        return Number(g.emit(_UNARY[symbol], x.name), x.is_fraction)
    if symbol in ("sqrt", "log", "float"):
        name = _fraction(g, x)
        return Number(name if symbol == "float" else g.emit(symbol.title(), name), True)
    if not x.is_fraction:
        return x  # an integer is rounded already
    # A cast cuts fractions off.
    name = x.name if symbol == "trunc" else g.emit(_ROUNDING[symbol], x.name)
    return Number(g.cast(name, "int64", given="float64"), False)


def _binary(g: Builder, symbol: str, a: Number, b: Number) -> Number:
    if symbol == "/":
        return Number(g.emit("Div", _fraction(g, a), _fraction(g, b)), True)
    is_fraction = a.is_fraction or b.is_fraction
    if symbol == "**":
        power = g.emit("Pow", _fraction(g, a), _fraction(g, b))
        # Of integers, the sign of the exponent says whether it is one.
        exponent = g.constants.get(b.name)
        if is_fraction or exponent is None or (exponent < 0).any():
            return Number(power, True)
        return Number(g.cast(power, "int64", given="float64"), False)
    left, right = (_fraction(g, a), _fraction(g, b)) if is_fraction else (a.name, b.name)
    if symbol in _BINARY:
        return Number(g.emit(_BINARY[symbol], left, right), is_fraction)
    if is_fraction:
        quotient = g.emit("Floor", g.emit("Div", left, right))
        if symbol == "//":
            return Number(quotient, True)
        return Number(g.emit("Sub", left, g.emit("Mul", quotient, right)), True)
    rest = g.emit("Mod", left, right)  # of the sign of the divisor, as in Python
    if symbol == "%":
        return Number(rest, False)
    return Number(g.emit("Div", g.emit("Sub", left, rest), right), False)
