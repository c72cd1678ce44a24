"""Recordings of the function at the sizes that its dynamic axes need."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...jit.recording import Recording, record, record_with_sizes
from ...tensor import Tensor
from .arguments import Arguments, named_tensors
from .plan import (
    MismatchError,
    Plan,
    expanded,
    folded,
    plan_of,
    unified,
)
from .registry import has_rule

# Ops whose results have as many elements as what they are given says.
BY_CONTENTS = {"CondTake", "NonZero"}


def sizes_to_try(
    arguments: Arguments, given: Mapping[str, Sequence[int]], small: bool = True
) -> list[dict[str, int]]:
    """The sizes of each recording.

    The first has the first of all; then each differs alone; in the last all do. So a formula of all
    of them is determined, and checked once. Those of axis 0 are small ones where that will do.
    """
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
    choices: dict[str, Sequence[int]] = {}
    for leaf in arguments.leaves:
        for axis, symbol in arguments.axes[leaf.name].items():
            size = leaf.array.shape[axis]
            # Sizes of batches are any; heights and widths are often multiples of something.
            count = len(choices)
            few = primes[3 * (count % 3) : 3 * (count % 3) + 3]
            any_will_do = size <= 1 or (axis == 0 and small)
            choices.setdefault(symbol, few if any_will_do else (size, 2 * size, 3 * size))
    for symbol, sizes in given.items():
        if symbol not in choices:
            raise ValueError(f"export: sample_sizes names '{symbol}', which is no dynamic axis")
        if len(set(sizes)) < 3 or min(sizes) < 1:
            raise ValueError(
                f"export: expected three different positive sample_sizes for '{symbol}', got "
                f"{list(sizes)}"
            )
        choices[symbol] = list(dict.fromkeys(sizes))
    first = {symbol: sizes[0] for symbol, sizes in choices.items()}
    if not first:
        return [first]
    return [
        first,
        *({**first, symbol: sizes[1]} for symbol, sizes in choices.items()),
        {symbol: sizes[2] for symbol, sizes in choices.items()},
    ]


def record_all(
    arguments: Arguments, given: Mapping[str, Sequence[int]]
) -> tuple[list[Plan], list[dict[str, int]], list[str]]:
    """A plan for each choice of sizes, these sizes, and labels of the results.

    Where shapes depend on what the inputs hold, further recordings are of other contents, and
    there are several without dynamic axes too. They are not of the smallest sizes: of three boxes
    all may be kept by accident, which a multiple of the example's will not.
    """
    samples = sizes_to_try(arguments, given)
    rng = np.random.default_rng(1)
    plans: list[Plan] = []
    labels: list[str] = []
    by_contents = False
    while len(plans) < len(samples):
        sizes = samples[len(plans)]
        choices = [arguments.example(sizes)]
        if by_contents and plans:
            # Contents of two kinds, for there may be as many as the sizes say of one of them.
            others = [arguments.resampled(sizes, rng), arguments.random(sizes, rng)]
            choices = [*(others if len(plans) % 2 else others[::-1]), *choices]
        recording = _record(arguments, sizes, choices, with_sizes=not plans)
        labels = _labels("output", recording.result)
        if not labels:
            raise TypeError(
                "export: expected a Tensor, or Tensors in lists, tuples and dicts, as the result; "
                f"got {type(recording.result).__name__}"
            )
        if not plans and not by_contents:
            _warn_of_reads(recording)
        plans.append(expanded(plan_of(recording), has_rule))
        if not by_contents and BY_CONTENTS.intersection(n.kind for n in plans[0].nodes):
            by_contents = True
            plans.clear()
            samples = sizes_to_try(arguments, given, small=False)
            if len(samples) == 1:
                samples *= 3
    return plans, samples, labels


def _record(
    arguments: Arguments,
    sizes: Mapping[str, int],
    choices: Sequence[Sequence[np.ndarray[Any, Any]]],
    with_sizes: bool = False,
) -> Recording:
    """A recording of the first of these inputs that the function takes."""
    named = named_tensors(arguments.function)

    def recorded(arrays: Sequence[np.ndarray[Any, Any]]) -> Recording:
        tensors = arguments.tensors(arrays)
        if with_sizes:
            return record_with_sizes(arguments.call, tuple(tensors), {}, named)
        return record(arguments.call, *tensors, named=named)

    *others, last = choices
    for arrays in others:
        try:
            return recorded(arrays)
        except Exception:  # whatever a function raises for inputs that it does not take
            continue
    try:
        return recorded(last)
    except Exception as error:
        if sizes:
            error.add_note(
                f"export: the function was called with the dynamic sizes {sizes}; sample_sizes "
                "chooses others"
            )
        raise


def plan_for(arguments: Arguments, tensors: Sequence[Tensor]) -> Plan:
    """What the function does with these inputs."""
    return expanded(plan_of(record(arguments.call, *tensors)), has_rule)


def _warn_of_reads(recording: Recording) -> None:
    read = recording.read_by_python()
    if read:
        warnings.warn(
            "export: during the call Python reads numbers that depend on the inputs, with numpy(), "
            "item() or a branch, and what it does with them is fixed in the file; they are results "
            f"of {', '.join(read)}",
            stacklevel=4,
        )


def record_odd(
    arguments: Arguments, samples: Sequence[dict[str, int]]
) -> list[tuple[Plan, dict[str, int]]]:
    """Recordings at sizes that are no multiples of anything, where the function takes them.

    They tell a size that was doubled from that of another value, and how quotients are rounded.
    """
    out = []
    for step in (1, -1) if samples[0] else ():
        sizes = {symbol: n + step for symbol, n in samples[-1].items()}
        try:
            recording = _record(arguments, sizes, [arguments.example(sizes)])
        except Exception:  # whatever a function raises for sizes that it does not take
            continue
        out.append((expanded(plan_of(recording), has_rule), sizes))
    return out


def _labels(name: str, result: Any) -> list[str]:
    if isinstance(result, Tensor):
        return [name]
    if isinstance(result, list | tuple):
        return [n for i, v in enumerate(result) for n in _labels(f"{name}.{i}", v)]
    if isinstance(result, dict):
        prefix = "" if name == "output" else f"{name}."
        return [n for k, v in result.items() for n in _labels(f"{prefix}{k}", v)]
    return []


def one_plan(plans: Sequence[Plan], samples: Sequence[dict[str, int]]) -> Plan:
    """All recordings as one plan; raises NotImplementedError where they differ in kind."""
    try:
        return folded(unified(plans))
    except MismatchError as error:
        shown = "; ".join(", ".join(f"{k}={v}" for k, v in s.items()) for s in samples)
        what = f"the dynamic sizes ({shown})" if samples[0] else "the contents of the inputs"
        raise NotImplementedError(
            f"export: the ops of the function depend on {what}: {error}. Leave such an axis "
            "static, or compute what depends on it from shapes of Tensors, by sums and products"
        ) from error
