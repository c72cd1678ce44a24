"""Which function computes which op.

An op is a function of its inputs with its attributes as keyword-only parameters::

    @op("LeakyRelu")
    def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor: ...

    @op("Reshape", since=5)
    def reshape(data: Tensor, shape: Array, *, allowzero: int = 0) -> Tensor: ...

Annotations say what a function wants, and it gets that: a ``Tensor``, an ``Array`` on the host,
``AnyTensor`` for either of them as it is, or a ``Value``, which may be a sequence or an optional
without value too. An input with a default may be absent; ``*xs`` takes any number. A keyword
without a default is an attribute that a node must have; a ``Body`` is a graph that the node holds.
A function whose first parameter is called ``ctx`` gets the :class:`Context` of the run.

``since`` is the version of the operator set from which on a function computes the op; a later
registration of the same op takes over from its own version on. ``host`` registers the twin of a
function for arrays: it runs where no input is a Tensor, or where there is nothing else.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...tensor import Tensor
from .values import TENSOR_DTYPES, AnyTensor, Constant, to_any, to_array, to_tensor

__all__ = [
    "KNOWN_VERSIONS",
    "REQUIRED",
    "Context",
    "Impl",
    "Signature",
    "find",
    "fits",
    "host",
    "members",
    "op",
    "ops",
]

# The newest version of each operator set that the functions were written for. An op that changes in
# a later one is refused, since what it computes then is not known here.
KNOWN_VERSIONS = {
    "": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
}

REQUIRED = inspect.Parameter.empty  # as the default of an attribute

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass
class Context:
    """What a run knows: whether the module trains, and how many outputs the node has."""

    training: bool = False
    n_outputs: int = 1


class Signature:
    """What a function takes, read from its annotations once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.takes_context = False
        self.inputs: list[str] = []  # "tensor", "array", "any" or "value" for each
        self.optional: list[bool] = []
        self.rest: str | None = None  # what *xs takes
        self.attributes: dict[str, tuple[Any, Any]] = {}  # name: (type, default)
        hints = typing.get_type_hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            hint = hints[name]
            if name == "ctx":
                self.takes_context = True
            elif parameter.kind is parameter.KEYWORD_ONLY:
                self.attributes[name] = (hint, parameter.default)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = _input_kind(hint)
            else:
                self.inputs.append(_input_kind(hint))
                self.optional.append(parameter.default is not parameter.empty)
        # How many inputs there must be.
        self.n_required = len(self.optional)
        if True in self.optional:
            self.n_required = self.optional.index(True)

    def kind(self, i: int) -> str:
        """What input i is converted to."""
        if i < len(self.inputs):
            return self.inputs[i]
        assert self.rest is not None
        return self.rest


_TENSOR, _ARRAY, _ANY, _VALUE = "tensor", "array", "any", "value"
_CONVERT: dict[str, Callable[[Any], Any]] = {
    _TENSOR: to_tensor,
    _ARRAY: to_array,
    _ANY: to_any,
}


def _input_kind(hint: Any) -> str:
    parts = [h for h in members(hint) if h is not type(None)]
    if parts == [Tensor]:
        return _TENSOR
    if parts == [np.ndarray] or (len(parts) == 1 and typing.get_origin(parts[0]) is np.ndarray):
        return _ARRAY
    if set(parts) == set(members(AnyTensor)):
        return _ANY
    return _VALUE


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the type itself."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Whether the value of an attribute is of the type that a function asks for."""
    for kind in members(hint):
        origin = typing.get_origin(kind) or kind
        if origin is tuple:
            of = typing.get_args(kind)[0]
            of = typing.get_origin(of) or of
            if isinstance(value, tuple) and all(isinstance(v, of) for v in value):
                return True
        elif origin is Any or (origin is not types.NoneType and isinstance(value, origin)):
            return True
    return False


@dataclass
class Impl:
    """The functions of one op from one version on."""

    domain: str
    name: str
    since: int
    function: Callable[..., Any] | None = None
    host: Callable[..., Any] | None = None
    grows: bool = False  # takes time or space out of proportion to its inputs
    signature: Signature = field(init=False)
    host_signature: Signature | None = None

    @property
    def folds(self) -> bool:
        """Whether it may be computed when a model is loaded, from constants."""
        return self.host is not None and not self.grows

    def __reduce__(self) -> tuple[Any, ...]:
        return _registered, (self.domain, self.name, self.since)

    def run(self, ctx: Context, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """Computes the outputs: one value, or a tuple of them."""
        on_host = self.function is None or (self.host is not None and _belongs_to_host(inputs))
        function, signature = self.function, self.signature
        if self.host is not None and self.host_signature is not None and on_host:
            function, signature = self.host, self.host_signature
        assert function is not None
        args = []
        for i, value in enumerate(inputs):
            kind = signature.kind(i)
            if value is None and kind != _VALUE and i < signature.n_required:
                raise ValueError(f"{self.name}: input {i} has no value")
            args.append(_convert(kind, value))
        if signature.takes_context:
            return function(ctx, *args, **attributes)
        return function(*args, **attributes)


def _belongs_to_host(inputs: Sequence[Any]) -> bool:
    """Whether no input is a Tensor, or one is of a dtype that Tensors do not have."""
    without_tensors = bool(inputs)
    for value in inputs:
        if isinstance(value, Tensor):
            without_tensors = False
        elif isinstance(value, np.ndarray):
            if value.dtype not in TENSOR_DTYPES:
                return True
        elif isinstance(value, list) and not (value and _belongs_to_host(value)):
            without_tensors = False
    return without_tensors


def _convert(kind: str, value: Any) -> Any:
    if isinstance(value, Constant):
        return value.tensor if kind == _TENSOR else value.array
    if value is None or kind == _VALUE:
        return value
    return _CONVERT[kind](value)


_registry: dict[tuple[str, str], list[Impl]] = {}


def _registered(domain: str, name: str, since: int) -> Impl:
    for impl in _registry.get((domain, name), []):
        if impl.since == since:
            return impl
    raise ValueError(f"no function for {domain or 'ai.onnx'}::{name} from version {since} on")


def _entry(domain: str, name: str, since: int) -> Impl:
    versions = _registry.setdefault((domain, name), [])
    for impl in versions:
        if impl.since == since:
            return impl
    impl = Impl(domain, name, since)
    versions.append(impl)
    versions.sort(key=lambda impl: impl.since)
    return impl


def op(name: str, since: int = 1, *, domain: str = "", grows: bool = False) -> Callable[[_F], _F]:
    """Registers the function of an op."""

    def register(function: _F) -> _F:
        impl = _entry(domain, name, since)
        assert impl.function is None, f"{name} is registered twice"
        impl.function, impl.grows = function, impl.grows or grows
        impl.signature = Signature(function)
        return function

    return register


def host(name: str, since: int = 1, *, domain: str = "", grows: bool = False) -> Callable[[_F], _F]:
    """Registers the twin of an op's function that computes arrays from arrays."""

    def register(function: _F) -> _F:
        impl = _entry(domain, name, since)
        assert impl.host is None, f"{name} is registered twice"
        impl.host, impl.host_signature = function, Signature(function)
        impl.grows = impl.grows or grows
        if impl.function is None:
            impl.signature = impl.host_signature
        return function

    return register


def find(domain: str, name: str, version: int) -> Impl | None:
    """The functions of an op as it is from ``version`` of its schema on, or None."""
    best = None
    for impl in _registry.get((domain, name), []):
        if impl.since <= version:
            best = impl
    return best


def ops() -> dict[tuple[str, str], list[int]]:
    """(domain, name) of all ops that have functions, with the versions from which on."""
    return {key: [impl.since for impl in impls] for key, impls in _registry.items()}
