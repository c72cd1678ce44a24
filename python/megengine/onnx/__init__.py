"""ONNX files: :func:`load` reads them as Modules, :func:`export` writes functions as such.

>>> import megengine.onnx
>>> callable(megengine.onnx.load), callable(megengine.onnx.export)
(True, True)

It needs the ``onnx`` package: ``pip install openmge[onnx]``.
"""

try:
    import onnx as _onnx
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    raise ImportError("megengine.onnx needs the onnx package: pip install openmge[onnx]") from error

from .exporter import export
from .importer import ONNXModule, load

__all__ = ["ONNXModule", "export", "load"]
