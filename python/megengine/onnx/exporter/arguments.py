"""The arguments of the exported function: their Tensors by name, and new ones of other sizes."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...jit import trace
from ...module import Module
from ...tensor import Tensor

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]


@dataclass(frozen=True)
class Leaf:
    """A Tensor among the arguments: its name, and the example's contents."""

    name: str
    array: np.ndarray[Any, Any]
    dtype: np.dtype[Any]


class Arguments:
    """How the function is called.

    Args:
        function: that is exported.
        inputs: a Tensor, the positional arguments as a tuple or list, or keyword arguments as a
            dict; nested as the function takes them.
        names: for the Tensors, in order; without it those of the function's parameters.
        dynamic_axes: by the name of a Tensor, names of the sizes of its dynamic axes.

    ``leaves`` are the Tensors among them, ``axes`` the dynamic axes of each, counted from 0.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Any,
        names: Sequence[str] | None = None,
        dynamic_axes: DynamicAxes | None = None,
    ) -> None:
        self.function = function
        if isinstance(inputs, Tensor | np.ndarray):
            inputs = (inputs,)
        self._inputs = inputs
        if isinstance(inputs, dict):
            labelled = list(inputs.items())
        elif isinstance(inputs, tuple | list):
            labelled = list(zip(_parameter_names(function, len(inputs)), inputs, strict=True))
        else:
            raise TypeError(
                "export: expected inputs to be a Tensor, a tuple of arguments or a dict of keyword "
                f"arguments, got {type(inputs).__name__}"
            )
        self.leaves = [leaf for name, value in labelled for leaf in _leaves(name, value)]
        if names is not None:
            if len(names) != len(self.leaves) or len(set(names)) != len(names):
                raise ValueError(
                    f"export: expected {len(self.leaves)} different input_names, got {list(names)}"
                )
            self.leaves = [
                Leaf(name, leaf.array, leaf.dtype)
                for name, leaf in zip(names, self.leaves, strict=True)
            ]
        self.axes = _checked_axes(self.leaves, dynamic_axes or {})

    @property
    def names(self) -> list[str]:
        """Of the Tensors."""
        return [leaf.name for leaf in self.leaves]

    def call(self, *tensors: Tensor) -> Any:
        """The function's result for these Tensors in place of the example's."""
        filled = _filled(self._inputs, iter(tensors))
        if isinstance(filled, dict):
            return self.function(**filled)
        return self.function(*filled)

    def tensors(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Tensor]:
        """Arrays as Tensors of the dtypes of the example."""
        return [Tensor(a, dtype=leaf.dtype) for a, leaf in zip(arrays, self.leaves, strict=True)]

    def example(self, sizes: Mapping[str, int]) -> list[np.ndarray[Any, Any]]:
        """The example's arrays, cut or repeated to other sizes along the dynamic axes."""
        out = []
        for leaf in self.leaves:
            array = leaf.array
            for axis, symbol in self.axes[leaf.name].items():
                positions = np.arange(sizes[symbol]) % max(array.shape[axis], 1)
                array = np.take(array, positions, axis)
            out.append(array)
        return out

    def resampled(
        self, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> list[np.ndarray[Any, Any]]:
        """Arrays of rows of the example, in another order and some of them twice.

        What is a box or a label stays one.
        """
        return [
            a[rng.integers(0, len(a), len(a))] if a.size and a.ndim else a
            for a in self.example(sizes)
        ]

    def random(
        self, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> list[np.ndarray[Any, Any]]:
        """Arrays in the range of the example's.

        Floats have its mean and spread, integers lie between its least and its largest.
        """
        return [_random_like(a, rng) for a in self.example(sizes)]


def _checked_axes(all_leaves: Sequence[Leaf], given: DynamicAxes) -> dict[str, dict[int, str]]:
    leaves = {leaf.name: leaf for leaf in all_leaves}
    out: dict[str, dict[int, str]] = {name: {} for name in leaves}
    sizes: dict[str, int] = {}
    for name, wanted in given.items():
        if name not in leaves:
            raise ValueError(
                f"export: dynamic_axes names '{name}', but the inputs are {', '.join(leaves)}"
            )
        shape = leaves[name].array.shape
        pairs = (
            wanted.items()
            if isinstance(wanted, Mapping)
            else [(axis, f"{name}_{axis}") for axis in wanted]
        )
        for axis, symbol in pairs:
            if not -len(shape) <= axis < len(shape):
                raise ValueError(f"export: '{name}' of shape {shape} has no axis {axis}")
            axis %= len(shape)
            if sizes.setdefault(symbol, shape[axis]) != shape[axis]:
                raise ValueError(
                    f"export: dynamic size '{symbol}' is {sizes[symbol]} and {shape[axis]} in the "
                    "inputs; give the axes names of their own"
                )
            out[name][axis] = symbol
    return out


def _random_like(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if array.size == 0:
        return array
    if array.dtype.kind == "b":
        return rng.random(array.shape) < 0.5
    if array.dtype.kind in "iu":
        return rng.integers(array.min(), array.max(), array.shape, array.dtype, endpoint=True)
    plain = array.astype("float64")
    plain = plain[np.isfinite(plain)]
    mean, spread = (plain.mean(), plain.std()) if plain.size else (0.0, 0.0)
    return (mean + (spread or 1.0) * rng.standard_normal(array.shape)).astype(array.dtype)


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    if isinstance(value, Tensor):
        yield Leaf(name, value.numpy(), value.dtype)
    elif isinstance(value, np.ndarray):
        tensor = Tensor(value)
        yield Leaf(name, tensor.numpy(), tensor.dtype)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _leaves(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{name}.{key}", item)


def _filled(value: Any, rest: Iterator[Tensor]) -> Any:
    if isinstance(value, Tensor | np.ndarray):
        return next(rest)
    if isinstance(value, list | tuple):
        items = [_filled(item, rest) for item in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
            return type(value)(*items)
        return type(value)(items)
    if isinstance(value, dict):
        return {key: _filled(item, rest) for key, item in value.items()}
    return value


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Names for positional arguments: those of the parameters where they can be seen."""
    target = function.forward if isinstance(function, Module) else function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a function in C has no signature
        parameters = ()  # type: ignore[assignment]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "input")
    more = max(count - len(names), 0)
    extra = [star] if more == 1 and star not in names else [f"{star}.{i}" for i in range(more)]
    return names[:count] + extra


# ---- what the function is made of --------------------------------------------------------------


def held_by(function: Any, _seen: set[int] | None = None) -> Iterator[tuple[str, Module | Tensor]]:
    """The Modules and Tensors that a function reads, by name: itself, its object, its closure."""
    seen = set() if _seen is None else _seen
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, trace):
        yield from held_by(function.__wrapped__, seen)
    elif isinstance(function, functools.partial):
        yield from held_by(function.func, seen)
    elif isinstance(function, Module):
        yield "", function
    elif inspect.ismethod(function):
        if isinstance(function.__self__, Module):
            yield "", function.__self__
    elif inspect.isfunction(function) and not function.__module__.startswith("megengine."):
        found = inspect.getclosurevars(function)
        for name, value in {**found.globals, **found.nonlocals}.items():
            if isinstance(value, Module | Tensor):
                yield name, value
            else:
                yield from held_by(value, seen)


@contextmanager
def evaluation_mode(function: Callable[..., Any]) -> Iterator[None]:
    """Puts the Modules of a function into evaluation mode, and back afterwards."""
    modules = [
        m for _, held in held_by(function) if isinstance(held, Module) for m in held.modules()
    ]
    before = [(m, m.training) for m in modules]
    if any(training for _, training in before):
        warnings.warn(
            "export: the function holds Modules in training mode; what is exported is what they "
            "compute in evaluation mode (call eval() to say so)",
            stacklevel=4,
        )
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


def named_tensors(function: Any) -> dict[str, Tensor]:
    """Parameters and buffers by the names that the file gives them."""
    out: dict[str, Tensor] = {}
    for name, held in held_by(function):
        if isinstance(held, Tensor):
            out.setdefault(name, held)
        else:
            for key, tensor in held.named_tensors(prefix=name or None):
                out.setdefault(key, tensor)
    return out
