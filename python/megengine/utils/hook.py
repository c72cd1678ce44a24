"""Handles of hooks."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class HookHandler:
    """Takes a hook off again.

    Returned by :meth:`.Module.register_forward_hook` and
    :meth:`.Module.register_forward_pre_hook`. Does not keep the module alive.
    """

    _ids = itertools.count()

    def __init__(self, source: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any]):
        self.id = next(self._ids)
        source[self.id] = hook
        self.source_ref = weakref.ref(source)

    def remove(self) -> None:
        """Takes the hook off; does nothing where it is off already."""
        source = self.source_ref()
        if source is not None:
            source.pop(self.id, None)
