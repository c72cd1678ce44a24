"""The compiled core's functions: running ops, options, scopes.

Ops run when they are called. So options of the reference's queue and memory planner can be set and
read, and change nothing.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..._core import Tensor, apply

__all__ = [
    "FormatType",
    "Tensor",
    "TensorWeakRef",
    "apply",
    "config_async_level",
    "full_sync",
    "get_option",
    "pop_scope",
    "push_scope",
    "record_scope",
    "set_option",
    "set_py_tensor_type",
    "squeeze_cpp",
    "sync",
]

_options: dict[str, Any] = {
    "buffer_length": 0,
    "catch_worker_execption": 1,
    "disable_memory_forwarding": 0,
    "dtr_evictee_minimum_size": 1 << 20,
    "dtr_eviction_threshold": 0,
    "enable_dtr_auto_drop": 0,
    "enable_dtr_sqrt_sampling": 0,
    "enable_drop": 0,
    "enable_host_compute": 1,
    "max_recompute_time": 1,
    "record_computing_path": 0,
    "tensor_lowlevel_format": 0,
}


def _known(function: str, name: str) -> None:
    if name != "async_level" and name not in _options:
        known = ", ".join(["async_level", *_options])
        raise KeyError(f"{function}: no option {name!r}; there are {known}")


def squeeze_cpp(inp: Any, axis: int | Sequence[int] | None = None) -> Tensor:
    """``F.squeeze`` under the name of its compiled part.

    >>> from megengine import tensor
    >>> squeeze_cpp(tensor([[1.0, 2.0]]), 0)
    Tensor([1. 2.], device=xpux:0)
    """
    from ...functional import squeeze

    return squeeze(inp, axis)


def get_option(name: str) -> Any:
    """The value of an option of the runtime.

    >>> get_option("async_level")
    0

    Raises:
        KeyError: for an unknown name.
    """
    from .. import _config

    _known("get_option", name)
    return _config._values["async_level"] if name == "async_level" else _options[name]


def set_option(name: str, value: Any) -> None:
    """Sets an option of the runtime.

    Raises:
        KeyError: for an unknown name.
        ValueError: for an ``async_level`` other than 0, 1 and 2.
    """
    from .. import _config

    _known("set_option", name)
    if name == "async_level":
        _config._values[name] = _config._checked(name, value)
    else:
        _options[name] = value


def config_async_level(level: int) -> None:
    """Sets how late errors may show: ``megengine.config.async_level``."""
    set_option("async_level", level)


def full_sync() -> None:
    """Waits for running ops: there are none, since each runs when it is called."""


def sync() -> None:
    """Waits for running ops: there are none, since each runs when it is called."""


_scopes: list[str] = []


def push_scope(name: str) -> None:
    """Enters a named part of the program; :func:`pop_scope` leaves it."""
    _scopes.append(name)


def pop_scope(name: str) -> None:
    """Leaves a part of the program.

    Raises:
        RuntimeError: if it is not the one that was entered last.
    """
    if not _scopes or _scopes[-1] != name:
        last = f"{_scopes[-1]!r} was entered last" if _scopes else "none was entered"
        raise RuntimeError(f"pop_scope: cannot leave {name!r}: {last}")
    _scopes.pop()


@contextlib.contextmanager
def record_scope(name: str) -> Iterator[None]:
    """A block between :func:`push_scope` and :func:`pop_scope`."""
    push_scope(name)
    try:
        yield
    finally:
        pop_scope(name)


class TensorWeakRef:
    """A reference that does not keep a Tensor alive; calling it gives the Tensor, or None.

    >>> import megengine as mge
    >>> x = mge.tensor([1.0])
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Tensor) -> None:
        import weakref

        self._ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self._ref()


class FormatType:
    """Names of memory formats: ``FormatType.NHWC.name`` is ``"NHWC"``."""

    DEFAULT: FormatType
    NCHW: FormatType
    NHWC: FormatType

    def __init__(self, name: str) -> None:
        if name.upper() not in ("DEFAULT", "NCHW", "NHWC"):
            raise ValueError(f"FormatType: expected DEFAULT, NCHW or NHWC, got {name!r}")
        self._name = name.upper()

    @property
    def name(self) -> str:
        """The name of the format."""
        return self._name

    def __repr__(self) -> str:
        return f"FormatType.{self._name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatType) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)


FormatType.DEFAULT, FormatType.NCHW, FormatType.NHWC = map(FormatType, ("DEFAULT", "NCHW", "NHWC"))


def set_py_tensor_type(type: builtins.type[Tensor]) -> None:
    """Sets the class of results; :class:`megengine.Tensor` at first.

    Raises:
        TypeError: for what is no subclass of :class:`megengine.Tensor`.
    """
    from ... import _core
    from ...tensor import Tensor as Known

    if not (isinstance(type, builtins.type) and issubclass(type, Known)):
        raise TypeError("set_py_tensor_type: expected a subclass of megengine.Tensor")
    _core.set_tensor_class(type)
