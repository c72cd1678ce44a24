"""Writes down the public surface: each public name with its signature, for the test that keeps it.

    python tools/surface.py                  # tests/project/surface.txt, from the installed package
    python tools/surface.py reference.tsv    # tests/project/reference_names.txt, from a list of the
                                             # reference's names: module, name, ... by tabs

Run the first after adding to the surface; the difference shows in review. What is lost or changed
fails tests/project/test_surface.py.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

DATA = pathlib.Path(__file__).parents[1] / "tests" / "project"

MODULES = [
    "megengine",
    "megengine.array_api",
    "megengine.array_api.fft",
    "megengine.array_api.linalg",
    "megengine.autodiff",
    "megengine.config",
    "megengine.core.ops.builtin",
    "megengine.core.tensor.dtype",
    "megengine.core.tensor.utils",
    "megengine.data",
    "megengine.data.dataset",
    "megengine.data.sampler",
    "megengine.data.transform",
    "megengine.device",
    "megengine.distributed",
    "megengine.distributed.functional",
    "megengine.distributed.group",
    "megengine.distributed.helper",
    "megengine.distributions",
    "megengine.functional",
    "megengine.functional.debug_param",
    "megengine.functional.elemwise",
    "megengine.functional.external",
    "megengine.functional.inplace",
    "megengine.functional.loss",
    "megengine.functional.math",
    "megengine.functional.metric",
    "megengine.functional.nn",
    "megengine.functional.quantized",
    "megengine.functional.tensor",
    "megengine.functional.utils",
    "megengine.functional.vision",
    "megengine.hub",
    "megengine.jit",
    "megengine.logger",
    "megengine.module",
    "megengine.module.init",
    "megengine.optimizer",
    "megengine.optimizer.lr_scheduler",
    "megengine.random",
    "megengine.serialization",
    "megengine.tensor",
    "megengine.utils.archive",
    "megengine.utils.checkpoint",
    "megengine.utils.dlpack",
    "megengine.utils.http_download",
    "megengine.utils.max_recursion_limit",
    "megengine.utils.module_stats",
    "megengine.utils.naming",
    "megengine.utils.profiler",
    "megengine.utils.tuple_function",
]
# Of the reference's names, those under these are kept; the others come with later work.
LATER = ("megengine.jit",)
REFERENCE = [m for m in MODULES if not m.startswith(LATER)]


def signature(value: Any) -> str:
    """The parameters with their defaults, without types; "" where there are none to see."""
    if inspect.isclass(value) and issubclass(value, (BaseException, enum.Enum)):
        return ""  # Python's own, which differs among its versions
    called = value.__init__ if inspect.isclass(value) else value
    if type(called).__name__ in ("nb_func", "nb_method"):
        return ""  # compiled, for which some versions of Python make up a signature
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    for i, p in enumerate(plain):
        if p.default is not p.empty and not isinstance(
            p.default, (bool, int, float, str, tuple, type(None))
        ):
            plain[i] = p.replace(default=...)
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(name: str, cls: type) -> Iterator[str]:
    """The public methods and properties that a class of ours adds."""
    for attribute in sorted({a for c in cls.__mro__ if _ours(c) for a in vars(c)}):
        if attribute.startswith("_"):
            continue
        value = inspect.getattr_static(cls, attribute)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        yield f"{name}.{attribute}{signature(value) if callable(value) else ''}"


def _ours(cls: type) -> bool:
    return cls.__module__.startswith("megengine")


def public_names(module: Any) -> list[str]:
    """What a module offers: its ``__all__``, or what has no underscore and is ours."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(set(listed))
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and (getattr(value, "__module__", None) or "megengine").startswith("megengine")
        and name != "annotations"
    )


def surface() -> Iterator[str]:
    """A line for each public name: module, name with signature; members of a class once."""
    seen: set[type] = set()
    for path in MODULES:
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError:
            continue
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value):
                yield f"{path}\t{name}"
                continue
            yield f"{path}\t{name}{signature(value) if callable(value) else ''}"
            if inspect.isclass(value) and _ours(value) and value not in seen:
                seen.add(value)
                for member in members(name, value):
                    yield f"{path}\t{member}"


def reference_names(table: pathlib.Path) -> Iterator[str]:
    """The names of a table that this release covers."""
    for line in table.read_text().splitlines():
        if line.startswith("#"):
            continue
        module, name = line.split("\t")[:2]
        if module in REFERENCE:
            yield f"{module}\t{name}"


def main() -> None:
    if len(sys.argv) > 1:
        lines, target = reference_names(pathlib.Path(sys.argv[1])), DATA / "reference_names.txt"
    else:
        lines, target = surface(), DATA / "surface.txt"
    text = sorted(set(lines))
    target.write_text("\n".join(text) + "\n")
    print(f"{len(text)} names in {target}")


if __name__ == "__main__":
    main()
