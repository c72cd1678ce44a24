"""How the ops of a graph follow other shapes of its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..jit.graph_file import numbers_of
from ..tensor import Tensor
from .network_node import OpNode

__all__ = ["grow", "rebatched", "resized"]


def resized(op: OpNode, found: Mapping[int, Tensor]) -> dict[str, Any]:
    """The parameters of an op where values have other shapes.

    Args:
        op: the op.
        found: values of the new shapes, by the ``id()`` of those that they stand for.

    Raises:
        ValueError: where a number has no value for these sizes.
    """
    params = dict(op.params)
    for follow in op.follows:
        try:
            new = follow.number(found)
        except ValueError as error:
            raise ValueError(f"Network: {op.name} does not take these sizes: {error}") from error
        numbers = numbers_of(params[follow.name])
        if isinstance(numbers[follow.position], int) and not float(new).is_integer():
            raise ValueError(f"Network: {op.name} cannot have {new} as its {follow.name}")
        numbers[follow.position] = type(numbers[follow.position])(new)
        whole = isinstance(params[follow.name], tuple)
        params[follow.name] = tuple(numbers) if whole else numbers[0]
    return params


def rebatched(op: OpNode, inputs: Sequence[Tensor], old: int, new: int) -> dict[str, Any]:
    """The parameters of an op for another batch size.

    Args:
        op: the op.
        inputs: what it takes, of the new size.
        old: the batch size before.
        new: the batch size now.

    Raises:
        ValueError: where several sizes of a shape could be the ones to change.
    """
    if op.follows:
        return op.params  # resized() says it
    if op.slopes is not None:
        grown = {
            name: grow(op.params[name], numbers, new - old) for name, numbers in op.slopes.items()
        }
        return {**op.params, **grown}
    shape = op.params.get("shape")
    if op.type == "Broadcast" and shape and shape[0] == old:
        return {**op.params, "shape": (new, *shape[1:])}
    if op.type != "Reshape" or not isinstance(shape, tuple) or -1 in shape:
        return op.params
    total = inputs[0].size
    candidates = []
    for i, n in enumerate(shape):
        if n % old == 0 and math.prod(shape) // old * new == total:
            candidates.append((*shape[:i], n // old * new, *shape[i + 1 :]))
        if candidates and i == 0 and n == old:
            break  # plainly the batch
    if len(candidates) != 1:
        raise ValueError(
            f"Network: {op.name} gives shape {shape}, in which {len(candidates)} sizes could be "
            f"the one that grows with the batch of {old}; write that size as -1 in the function"
        )
    return {**op.params, "shape": candidates[0]}


def grow(value: Any, slopes: Sequence[int], more: int) -> Any:
    """A number or numbers, grown with the batch size.

    >>> grow((2, 6), [1, 3], 2), grow(4, [2], 1)
    ((4, 12), 6)
    """
    if isinstance(value, tuple):
        return tuple(n + slope * more for n, slope in zip(value, slopes, strict=True))
    return value + slopes[0] * more
