"""ONNX files as modules.

>>> import megengine.onnx
>>> callable(megengine.onnx.load)
True

It needs the ``onnx`` package: ``pip install openmge[onnx]``.
"""

try:
    import onnx as _onnx
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    raise ImportError("megengine.onnx needs the onnx package: pip install openmge[onnx]") from error

from .importer import ONNXModule, load

__all__ = ["ONNXModule", "load"]
