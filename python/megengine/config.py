"""Switches of the runtime that programs set.

>>> import megengine as mge
>>> mge.config.async_level = 2
>>> mge.config.async_level
2
>>> mge.config.async_level = 0
"""

import sys as _sys

from .core import _config
from .core._config import __all__ as __all__
from .core._config import _get_actual_op_param as _get_actual_op_param
from .core._config import _override as _override

_config._install(_sys.modules[__name__])
