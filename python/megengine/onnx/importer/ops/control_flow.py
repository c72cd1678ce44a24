"""Branches and loops, which run in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Body
from ..registry import op
from ..values import AnyTensor, Array, Value, shape_of, to_array
from .sequence import joined


@op("If")
def if_(condition: Array, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    if condition.size != 1:
        raise ValueError(f"If: expected one condition, got {condition.size}")
    return tuple((then_branch if condition.item() else else_branch)())


@op("Loop")
def loop(
    trip_count: Array | None = None,
    condition: Array | None = None,
    *carried: Value,
    body: Body,
) -> tuple[Value, ...]:
    state = list(carried)
    limit = None if trip_count is None else int(trip_count.item())
    going = condition is None or bool(condition.item())
    rows: list[list[Value]] = []
    i = 0
    while going and (limit is None or i < limit):
        keep, *found = body(np.array(i, dtype=np.int64), np.array(going), *state)
        going = bool(to_array(keep).item())
        state, row = found[: len(state)], found[len(state) :]
        rows.append(row)
        i += 1
    n_state = len(state)
    n_rows = body.n_outputs - 1 - n_state
    if not rows:
        return (*state, *(body.empty_output(1 + n_state + k) for k in range(n_rows)))
    return (*state, *(_stacked([row[k] for row in rows], 0) for k in range(n_rows)))


def _stacked(values: list[Value], axis: int) -> AnyTensor:
    return joined(values, axis, new_axis=True)


@op("Scan")
def scan_of_batches(
    sequence_lens: Array | None = None,
    *values: AnyTensor,
    body: Body,
    directions: tuple[int, ...] | None = None,
    num_scan_inputs: int,
) -> tuple[Value, ...]:
    # Version 8: axis 0 is that of batches, each of which is a scan of its own.
    if sequence_lens is not None:
        raise NotImplementedError("Scan: expected no sequence_lens in version 8")
    results = []
    for b in range(shape_of(values[0])[0]):
        one = [value[b] for value in values]
        results.append(
            scan(
                *one,
                body=body,
                num_scan_inputs=num_scan_inputs,
                scan_input_directions=directions,
            )
        )
    return tuple(_stacked(list(parts), 0) for parts in zip(*results, strict=True))


@op("Scan", since=9)
def scan(
    *values: AnyTensor,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> tuple[Value, ...]:
    n_state = len(values) - num_scan_inputs
    state: list[Value] = list(values[:n_state])
    inputs = values[n_state:]
    n_out = body.n_outputs - n_state
    axes = scan_input_axes or (0,) * num_scan_inputs
    backward = scan_input_directions or (0,) * num_scan_inputs
    lengths = {shape_of(x)[a] for x, a in zip(inputs, axes, strict=True)}
    if len(lengths) != 1:
        raise ValueError(f"Scan: the inputs have different lengths {sorted(lengths)}")
    (length,) = lengths
    rows: list[list[Value]] = []
    for t in range(length):
        parts = []
        for x, a, back in zip(inputs, axes, backward, strict=True):
            index: list[Any] = [slice(None)] * len(shape_of(x))
            index[a] = length - 1 - t if back else t
            parts.append(x[tuple(index)])
        found = body(*state, *parts)
        state, row = found[:n_state], found[n_state:]
        rows.append(row)
    out_axes = scan_output_axes or (0,) * n_out
    out_back = scan_output_directions or (0,) * n_out
    outputs: list[AnyTensor] = []
    for k in range(n_out):
        if not rows:
            outputs.append(body.empty_output(n_state + k))
            continue
        column = [row[k] for row in rows]
        outputs.append(_stacked(column[::-1] if out_back[k] else column, out_axes[k]))
    return (*state, *outputs)


@op("SequenceMap", since=17)
def sequence_map(values: Value, *others: Value, body: Body) -> tuple[list[Any], ...]:
    if not isinstance(values, list):
        raise TypeError("SequenceMap: expected a sequence, got a tensor")
    columns: list[list[Any]] = [[] for _ in range(body.n_outputs)]
    for i, value in enumerate(values):
        rest = [other[i] if isinstance(other, list) else other for other in others]
        for column, found in zip(columns, body(value, *rest), strict=True):
            column.append(found)
    return tuple(columns)
