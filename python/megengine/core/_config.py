"""Switches of the runtime, which :mod:`megengine.config` shows.

``import megengine; megengine.config.async_level = 0`` sets one; a value that makes no sense raises.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

# Properties of the class below, which __getattr__ gives.
__all__ = [  # noqa: F822
    "async_level",
    "benchmark_kernel",
    "benchmark_with_subprocess",
    "deterministic_kernel",
    "disable_memory_forwarding",
]

_values: dict[str, Any] = {
    "async_level": 0,
    "benchmark_kernel": False,
    "benchmark_with_subprocess": False,
    "deterministic_kernel": False,
    "disable_memory_forwarding": False,
    "_compute_mode": "default",
    "_auto_format_convert": True,
}

_COMPUTE_MODES = ("default", "float32")


def _checked(name: str, value: Any) -> Any:
    if name == "async_level":
        if isinstance(value, bool) or value not in (0, 1, 2):
            raise ValueError(f"config: async_level should be 0, 1 or 2, got {value!r}")
        return int(value)
    if name == "_compute_mode":
        if value not in _COMPUTE_MODES:
            raise ValueError(f"config: expected a compute mode of {_COMPUTE_MODES}, got {value!r}")
        return value
    return bool(value)


def _switch(name: str, doc: str) -> property:
    def read(self: Any) -> Any:
        return _values[name]

    def write(self: Any, value: Any) -> None:
        _values[name] = _checked(name, value)

    return property(read, write, doc=doc)


class _Module(types.ModuleType):
    """A module whose switches are properties."""

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})

    async_level = _switch(
        "async_level",
        "How late errors may show, 0, 1 or 2. Ops run when they are called, which is level 0 of "
        "the reference's asynchronous mode; other levels change nothing.",
    )
    benchmark_kernel = _switch(
        "benchmark_kernel",
        "Whether to time kernels and take the fastest. Kernels are chosen by shape here, so it "
        "changes nothing.",
    )
    benchmark_with_subprocess = _switch(
        "benchmark_with_subprocess", "Whether to time them in a process apart; changes nothing."
    )
    deterministic_kernel = _switch(
        "deterministic_kernel",
        "Whether to take only kernels that repeat their results. All of ours do; it changes "
        "nothing.",
    )
    disable_memory_forwarding = _switch(
        "disable_memory_forwarding",
        "Whether views get memory of their own. Values never change, so it changes nothing.",
    )
    _compute_mode = _switch(
        "_compute_mode",
        "What float16 accumulates in, 'default' or 'float32'. It is float32 in either.",
    )
    _auto_format_convert = _switch(
        "_auto_format_convert",
        "Whether shapes of channels-last tensors read as NCHW. They always do here.",
    )


@contextlib.contextmanager
def _override(
    benchmark_kernel: bool | None = None,
    deterministic_kernel: bool | None = None,
    async_level: int | None = None,
    compute_mode: str | None = None,
) -> Iterator[None]:
    """Sets switches for a block; those that are None stay as they are.

    >>> import megengine as mge
    >>> with mge.config._override(async_level=2):
    ...     mge.config.async_level
    2
    """
    wanted = {
        "benchmark_kernel": benchmark_kernel,
        "deterministic_kernel": deterministic_kernel,
        "async_level": async_level,
        "_compute_mode": compute_mode,
    }
    new = {name: _checked(name, value) for name, value in wanted.items() if value is not None}
    before = dict(_values)
    _values.update(new)
    try:
        yield
    finally:
        _values.update(before)


def _get_actual_op_param(function_param: str, config_param: str) -> str:
    """The mode of one op: its own, or the configured one where that is "default"."""
    return config_param if function_param == "default" else function_param


def _reset_execution_config(
    benchmark_kernel: bool = False, deterministic_kernel: bool = False, *args: Any, **kwargs: Any
) -> None:
    """Sets which kernels are taken, as :func:`_override` does for a block."""
    _values["benchmark_kernel"] = bool(benchmark_kernel)
    _values["deterministic_kernel"] = bool(deterministic_kernel)


def _install(module: types.ModuleType) -> None:
    """Makes the switches attributes of a module."""
    module.__class__ = _Module


def __getattr__(name: str) -> Any:
    # The switches as the reference's module has them: the properties themselves.
    if name in _values:
        return getattr(_Module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
