"""Mixed precision: :class:`autocast`, :class:`GradScaler` and memory formats.

``enabled``, ``low_prec_dtype`` and ``high_prec_dtype`` say how autocast is set in this thread.
Setting them takes effect at once, and within a :class:`autocast` block until the block ends.

>>> from megengine import amp
>>> amp.enabled, amp.low_prec_dtype, amp.high_prec_dtype
(False, 'bfloat16', 'float32')
>>> with amp.autocast(low_prec_dtype="float16"):
...     amp.enabled, amp.low_prec_dtype
(True, 'float16')
"""

import sys
from types import ModuleType

from .. import _core
from .autocast import _high_name, _low_name, autocast
from .convert_format import convert_module_format, convert_tensor_format
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "convert_module_format", "convert_tensor_format"]


class _Amp(ModuleType):
    """This module, with the settings of the running thread as attributes."""

    @property
    def enabled(self) -> bool:
        return _core.autocast_state()[0]

    @enabled.setter
    def enabled(self, value: bool) -> None:
        _, low, high = _core.autocast_state()
        _core.set_autocast(bool(value), low, high)

    @property
    def low_prec_dtype(self) -> str:
        return _core.autocast_state()[1]

    @low_prec_dtype.setter
    def low_prec_dtype(self, value: str) -> None:
        enabled, _, high = _core.autocast_state()
        _core.set_autocast(enabled, _low_name(value), high)

    @property
    def high_prec_dtype(self) -> str:
        return _core.autocast_state()[2]

    @high_prec_dtype.setter
    def high_prec_dtype(self, value: str) -> None:
        enabled, low, _ = _core.autocast_state()
        _core.set_autocast(enabled, low, _high_name(value))


sys.modules[__name__].__class__ = _Amp
