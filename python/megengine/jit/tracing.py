"""trace: the first call of a function is recorded, later ones run from the record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from .._core import TracedCall, TracedFunction, TracePause, is_tracing
from ..tensor import Tensor
from .config import DTRConfig, GraphOptimizationConfig, SublinearMemoryConfig

__all__ = ["TraceError", "exclude_from_trace", "trace"]


class TraceError(RuntimeError):
    """A traced function cannot be recorded or run from its record."""


@contextmanager
def exclude_from_trace() -> Iterator[None]:
    """Inside a traced function, runs the ops of a ``with`` block as they are called, each time.

    Outside of one it does nothing.

    >>> import megengine as mge
    >>> from megengine.jit import exclude_from_trace, trace
    >>> @trace
    ... def f(x):
    ...     y = x * 2
    ...     with exclude_from_trace():
    ...         z = y + 1
    ...     return z * y
    >>> f(mge.tensor([3.0]))
    Tensor([42.], device=xpux:0)
    """
    pause = TracePause()
    pause.enter()
    try:
        yield
    finally:
        pause.exit()


def _signature(value: Any, where: str) -> Any:
    """The shapes and dtypes of the Tensors in an argument, in a form that can be a key."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"trace: {where}: expected a Tensor, got a numpy.ndarray, whose values would not be "
            "followed; pass megengine.tensor(...) of it"
        )
    if isinstance(value, list | tuple):
        return tuple(_signature(v, where) for v in value)
    if isinstance(value, dict):
        return tuple((k, _signature(v, where)) for k, v in value.items())
    return None


class trace:  # noqa: N801 - the name that programs use
    """Wraps a function so that its ops run from a record.

    The first call runs as ever and is recorded. In later calls with Tensors of the same shapes and
    dtypes, ops are only compared with the record; what they compute runs, without Python and
    without what nobody uses, when a value is looked at (``numpy()``, ``item()``, printing, a
    branch) and when the function returns. Results are those of the plain function, in every call:

    * The Python code of the function runs in each call, so that counters, prints, schedules of the
      learning rate and random numbers do what they do without ``trace``.
    * Other shapes or dtypes are recorded on their own. So is each way that the code takes through
      branches; of more than 16 the rest runs op by op.
    * Tensors that are not arguments (parameters, globals) are read anew in each call; parameters,
      running statistics and gradients are updated as without ``trace``.

    Args:
        function: what to wrap. Left out where the others are given to a decorator,
            ``@trace(symbolic=True)``.
        symbolic: accepted; one way of running serves both of its values.
        capture_as_const: accepted: Tensors from outside are read in each call.
        record_only: records each call and runs none from the record.
        sublinear_memory_config: accepted, see :class:`SublinearMemoryConfig`.
        dtr_config: accepted, see :class:`DTRConfig`.
        profiling: not supported: must be False.
        opt_level: accepted, 0 to 4.
        graph_opt_config: accepted, see :class:`GraphOptimizationConfig`.
        symbolic_shape: accepted: shapes are tuples of integers in traced functions too.
        without_host: accepted: the Python code of the function runs in each call nevertheless.

    Raises:
        TypeError: for a function that cannot be called, and for NumPy arrays among the arguments of
            a call: pass Tensors.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> from megengine.jit import trace
    >>> @trace(symbolic=True)
    ... def f(x):
    ...     return F.sum(x * x)
    >>> f(mge.tensor([1.0, 2.0])), f(mge.tensor([3.0, 4.0]))
    (Tensor(5.0, device=xpux:0), Tensor(25.0, device=xpux:0))
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Without a function, a decorator that takes one."""
        if not args and "function" not in kwargs:
            return functools.partial(cls, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        function: Callable[..., Any],
        symbolic: bool = False,
        capture_as_const: bool = False,
        record_only: bool = False,
        sublinear_memory_config: SublinearMemoryConfig | None = None,
        dtr_config: DTRConfig | None = None,
        profiling: bool = False,
        opt_level: int = 2,
        graph_opt_config: GraphOptimizationConfig | None = None,
        symbolic_shape: bool = True,
        without_host: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"trace: expected a function, got {type(function).__name__}")
        if profiling:
            raise NotImplementedError("trace: profiling is not supported yet; leave it False")
        self.__wrapped__ = function
        functools.update_wrapper(self, function, updated=())
        self._symbolic = symbolic
        self._capture_as_const = capture_as_const
        self._record_only = record_only
        self._without_host = without_host
        self._functions: dict[Any, TracedFunction] = {}

    @property
    def without_host(self) -> bool:
        """As it was given."""
        return self._without_host

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; inside another traced call it is a part of that one."""
        if is_tracing():
            return self.__wrapped__(*args, **kwargs)
        key = tuple(_signature(a, f"argument {i}") for i, a in enumerate(args)) + tuple(
            (k, _signature(v, f"argument '{k}'")) for k, v in kwargs.items()
        )
        function = None if self._record_only else self._functions.get(key)
        if function is None:
            function = self._functions[key] = TracedFunction()
        call = TracedCall(function)
        call.enter()
        try:
            result = self.__wrapped__(*args, **kwargs)
        except BaseException:
            call.exit(failed=True)
            raise
        call.exit(failed=False)
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A traced method is bound to its object; all objects share the records."""
        return self if instance is None else functools.partial(self, instance)

    def graphs(self) -> list[str]:
        """The recorded ops as text: one for each set of shapes and each way through branches."""
        return [text for function in self._functions.values() for text in function.graphs()]

    def dump(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported yet.

        Raises:
            NotImplementedError: always. ``megengine.save(module.state_dict(), path)`` keeps the
                weights.
        """
        raise NotImplementedError(
            "trace.dump is not supported yet: megengine.save(module.state_dict(), path) keeps the "
            "weights, to be loaded into the same module"
        )

    def get_profile(self) -> NoReturn:
        """Not supported yet.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("trace.get_profile is not supported yet")
