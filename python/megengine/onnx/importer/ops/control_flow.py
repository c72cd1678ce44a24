"""Branches and loops, which run in Python."""

from __future__ import annotations

from ..graph import Body
from ..registry import op
from ..values import Array, Value


@op("If")
def if_(condition: Array, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    if condition.size != 1:
        raise ValueError(f"If: expected one condition, got {condition.size}")
    return tuple((then_branch if condition.item() else else_branch)())
