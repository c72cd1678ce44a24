"""The op classes; the same as :mod:`megengine.core.ops.builtin`."""

from ..ops.builtin import *  # noqa: F403
from ..ops.builtin import __all__ as __all__
