"""Models of other people's repositories, and their weights.

>>> import megengine.hub
>>> model = megengine.hub.load(  # doctest: +SKIP
...     "megengine/models", "resnet18", pretrained=True, trust_repo=True)
"""

from __future__ import annotations

from .hub import help, import_module, list, load, load_serialized_obj_from_url, pretrained

__all__ = [
    "help",
    "import_module",
    "list",
    "load",
    "load_serialized_obj_from_url",
    "pretrained",
]
