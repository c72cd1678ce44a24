"""megengine.onnx.export: functions and Modules as ONNX files.

In the order of the steps: ``api.py`` calls them; ``arguments.py`` knows how the function is called;
``recordings.py`` records it at as many sizes as its dynamic axes need, and ``plan.py`` makes one
list of nodes of them, whose numbers may be functions of the sizes (``sizes.py``); ``model.py``
writes each node by its rule (``registry.py``, ``rules/``) through ``builder.py``; ``file.py`` puts
the model in place after ``check.py`` has compared it with the function.
"""

from .api import export

__all__ = ["export"]
