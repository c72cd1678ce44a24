"""Modules one after another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from .module import Module


class Sequential(Module):
    """Runs modules one after another, each on the outputs of the one before.

    Args:
        *args: the modules, which are named "0", "1", ...; or one ordered dict of named modules.

    ``len``, iteration, indexing and slicing work as on a list; an item can be replaced or deleted.

    >>> import megengine.module as M
    >>> net = M.Sequential(M.Linear(4, 8), M.ReLU(), M.Linear(8, 2))
    >>> net
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    >>> len(net), net[1]
    (3, ReLU())
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.layer_keys: list[str] = []
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = list(args[0].items())
        else:
            named = [(str(i), module) for i, module in enumerate(args)]
        for key, module in named:
            setattr(self, key, module)
            self.layer_keys.append(key)

    @property
    def layer_values(self) -> list[Any]:
        """The modules in the order in which they run."""
        return [getattr(self, key) for key in self.layer_keys]

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict((k, getattr(self, k)) for k in self.layer_keys[index]))
        return getattr(self, self.layer_keys[index])

    def __setitem__(self, index: int, module: Any) -> None:
        if isinstance(index, slice):
            raise TypeError("Sequential takes an int to set an item, got a slice")
        setattr(self, self.layer_keys[index], module)

    def __delitem__(self, index: int | slice) -> None:
        for key in self.layer_keys[index] if isinstance(index, slice) else [self.layer_keys[index]]:
            delattr(self, key)
            self.layer_keys.remove(key)

    def __len__(self) -> int:
        return len(self.layer_keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layer_values)

    def forward(self, inp: Any) -> Any:
        """Whatever the first module takes to whatever the last one gives."""
        attributes = self.__dict__
        for key in self.layer_keys:
            inp = attributes[key](inp)
        return inp
