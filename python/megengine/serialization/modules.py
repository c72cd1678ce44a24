"""Pickled modules: the layers of ``megengine.module``, which hold data and nothing else."""

from __future__ import annotations

import functools
from typing import Any

from ..module import MultiHeadAttention
from ..module.batchnorm import _BatchNorm
from .refusal import damaged, refuse

__all__ = [
    "REFERENCE_NAMES",
    "Group",
    "check_built",
    "module_classes",
    "reference_attributes",
    "set_module_state",
]

# Classes that the reference keeps in other files: (our file, class) -> its file.
REFERENCE_NAMES = {
    ("megengine.module.local_conv", "LocalConv2d"): "megengine.module.conv",
    ("megengine.module.local_conv", "RegionRestrictedConv"): "megengine.module.conv",
    ("megengine.module.conv_bn", "ConvTransposeBn2d"): "megengine.module.conv_transpose_bn",
    ("megengine.module.conv_bn", "ConvTransposeBnRelu2d"): "megengine.module.conv_transpose_bn",
}


@functools.cache
def module_classes() -> dict[tuple[str, str], type]:
    """The layers that a file may hold, by the names under which they are pickled."""
    from .. import module

    out: dict[tuple[str, str], type] = {}
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, module.Module):
            out[value.__module__, value.__qualname__] = value
    del out["megengine.module.module", "Module"]
    for (own, name), other in REFERENCE_NAMES.items():
        out[other, name] = out[own, name]
    return out


def reference_attributes(module: Any) -> dict[str, Any]:
    """What the reference's class has besides, so that a layer of ours works there."""
    if isinstance(module, _BatchNorm):
        return {"_track_running_stats_saved": module.track_running_stats}
    if isinstance(module, MultiHeadAttention):
        return {"unsupport_reason": ""}
    return {}


class Group:
    """Stands for the group of processes of a SyncBatchNorm, which is gone: None takes its place."""


def set_module_state(module: Any, state: Any) -> None:
    """Fills in a layer from a file: attributes that hold data, and none that hide its methods."""
    kind = type(module)
    if not isinstance(state, dict):
        damaged(f"a {kind.__name__} has a state of type {type(state).__name__}")
    for name in state:
        if not isinstance(name, str) or name.startswith("__"):
            refuse(f"sets the attribute {str(name)[:40]!r} of a {kind.__name__}")
        known = getattr(kind, name, None)
        if callable(known) or isinstance(known, property):
            refuse(f"sets {kind.__name__}.{name}")
    for hooks in ("_forward_pre_hooks", "_forward_hooks"):
        if state.get(hooks):
            refuse(f"has hooks on a {kind.__name__}")
    if not isinstance(state.get("_modules", []), list):
        damaged(f"a {kind.__name__} has no list of modules")
    module.__setstate__(state)


def check_built(module: Any) -> None:
    """Raises where a file names a layer and does not say what is in it."""
    if not vars(module).keys() >= {"training", "_modules", "_forward_hooks", "_forward_pre_hooks"}:
        damaged(f"a {type(module).__name__} has no state")
