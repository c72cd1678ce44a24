"""megengine.onnx.export: functions and Modules as ONNX files.

``api.py`` is the order of the steps: the function is recorded (``arguments.py``, ``plan.py``) at as
many sizes as its dynamic axes need (``sizes.py``), each op is written by its rule (``registry.py``,
``rules/``) through ``builder.py``, and the file is compared with the function (``check.py``).
"""

from .api import export

__all__ = ["export"]
