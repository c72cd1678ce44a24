"""Names of ops and values: by the scopes that a program has opened, and without duplicates."""

from __future__ import annotations

from types import FrameType
from typing import Any, ClassVar

from .profiler import pop_scope, push_scope

__all__ = ["AutoNaming", "pop_scope", "push_scope", "record_scope"]


def record_scope(frame: FrameType, scope: str) -> None:
    """Would note the scope that a frame opens; scopes are those of :class:`AutoNaming` here.

    Args:
        frame: the frame of a function that runs.
        scope: its name.

    Raises:
        TypeError: these are something else.
    """
    if not isinstance(frame, FrameType) or not isinstance(scope, str):
        raise TypeError(f"record_scope: expected a frame and a name, got {frame!r} and {scope!r}")


class AutoNaming:
    """Scopes that a program opens and closes, and names that come of them.

    Everything is kept in the class, for the program as a whole.

    >>> AutoNaming.push_scope("net")
    >>> AutoNaming.push_scope("conv1")
    >>> AutoNaming.get_scope()
    'net.conv1'
    >>> AutoNaming.clear()
    """

    scopes: ClassVar[list[str]] = []
    c_ops: ClassVar[list[Any]] = []
    name2ops: ClassVar[dict[str, list[Any]]] = {}
    handle2names: ClassVar[dict[Any, str]] = {}

    @classmethod
    def clear(cls) -> None:
        """Forgets everything."""
        cls.scopes.clear()
        cls.c_ops.clear()
        cls.name2ops.clear()
        cls.handle2names.clear()

    @classmethod
    def push_scope(cls, scope: str | None) -> None:
        """Opens a scope; ``None`` opens one without a name.

        It shows in the timeline of a :class:`megengine.utils.profiler.Profiler`, too.
        """
        push_scope(scope or "")
        cls.scopes.append(scope or "")

    @classmethod
    def pop_scope(cls) -> None:
        """Closes the scope that was opened last.

        Raises:
            IndexError: none is open.
        """
        pop_scope(cls.scopes.pop())

    @classmethod
    def get_scope(cls) -> str:
        """The names of the open scopes, with dots between them."""
        return ".".join(scope for scope in cls.scopes if scope)

    @classmethod
    def gen_name(cls, x: Any) -> str:
        """The name of an op or value in the open scopes.

        Args:
            x: has the name as ``c_name``, or as ``_name`` where that is empty.

        >>> from types import SimpleNamespace
        >>> AutoNaming.push_scope("net")
        >>> AutoNaming.gen_name(SimpleNamespace(c_name="conv"))
        'net.conv'
        >>> AutoNaming.clear()
        """
        scope = cls.get_scope()
        name = x.c_name or x._name
        return f"{scope}.{name}" if scope else name

    @classmethod
    def record_var_name(cls, handle: Any, name: str) -> None:
        """Notes the name of a value.

        Args:
            handle: what the value is known by.
            name: its name.
        """
        cls.handle2names[handle] = name

    @classmethod
    def get_var_name(cls, handle: Any) -> str | None:
        """The name that :func:`record_var_name` noted; None if there is none."""
        return cls.handle2names.get(handle)

    @classmethod
    def record_opnode(cls, op: Any) -> None:
        """Notes an op, for :func:`remove_duplicate_names`.

        Args:
            op: has ``name`` and ``outputs``.
        """
        cls.name2ops.setdefault(op.name, []).append(op)

    @classmethod
    def remove_duplicate_names(cls) -> None:
        """Numbers the ops that were noted under one name: ``conv[0]``, ``conv[1]``, ...

        Several outputs of such an op, whose names start with its own, go with it.

        >>> from types import SimpleNamespace
        >>> ops = [SimpleNamespace(name="conv", outputs=[]) for _ in range(2)]
        >>> for op in ops:
        ...     AutoNaming.record_opnode(op)
        >>> AutoNaming.remove_duplicate_names()
        >>> [op.name for op in ops]
        ['conv[0]', 'conv[1]']
        >>> AutoNaming.clear()
        """
        for name, ops in cls.name2ops.items():
            for number, op in enumerate(ops) if len(ops) > 1 else ():
                op.name = f"{name}[{number}]"
                for output in op.outputs if len(op.outputs) > 1 else ():
                    if output.name.startswith(name):
                        output.name = op.name + output.name.removeprefix(name)
        cls.name2ops.clear()
