"""Loading Python files of a repository, and nothing else of the machine's path."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType

__all__ = ["cd", "check_module_exists", "forget_modules", "load_module", "modules_of"]

# The modules that came out of each folder. Two repositories may both have a module "models".
_modules: dict[str, dict[str, ModuleType]] = {}


def check_module_exists(module: str) -> bool:
    """Whether a module or package is installed.

    >>> check_module_exists("json"), check_module_exists("no_such_module")
    (True, False)
    """
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


@contextlib.contextmanager
def cd(target: str) -> Iterator[None]:
    """A block with another current folder.

    Args:
        target: the folder.
    """
    before = os.getcwd()
    os.chdir(target)
    try:
        yield
    finally:
        os.chdir(before)


def load_module(name: str, path: str) -> ModuleType:
    """Runs a Python file and gives its module.

    Args:
        name: the name that the module gets.
        path: the file.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def modules_of(folder: str) -> Iterator[None]:
    """A block in which a folder's modules can be imported, and those of other folders cannot.

    Args:
        folder: the folder, as an absolute path.
    """
    for other in _modules:
        if other != folder:
            _take_out(other)
    sys.modules.update(_modules.get(folder, {}))
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
        _modules[folder] = {n: m for n, m in sys.modules.items() if _comes_from(m, folder)}


def forget_modules(folder: str) -> None:
    """Has a folder's modules loaded anew when they are imported next."""
    _take_out(folder)
    _modules.pop(folder, None)
    importlib.invalidate_caches()


def _take_out(folder: str) -> None:
    for name, module in _modules.get(folder, {}).items():
        if sys.modules.get(name) is module:
            del sys.modules[name]


def _comes_from(module: ModuleType, folder: str) -> bool:
    places = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())]
    return any(isinstance(p, str) and p.startswith(folder + os.sep) for p in places)
