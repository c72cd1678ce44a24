"""Reads ONNX models.

=============  ====================================================================================
file           what it does
=============  ====================================================================================
``reader``     from a path, bytes or a ``ModelProto`` to checked protos, and tensors to arrays
``builder``    from protos to a graph: which function computes each node
``graph``      the graph: steps in order; runs them, and computes once what is constant
``registry``   which function computes which op, from which version of the op on
``values``     what flows between steps: Tensors, arrays on the host, lists of these
``weights``    which initializers become parameters and buffers
``model``      the Module around a graph
``ops/``       the functions, a file for each family
=============  ====================================================================================

Shapes, indices and other numbers that steer a model are NumPy arrays, computed on the host: an op
runs its ``host`` function where none of its inputs is a Tensor. So reshaping takes plain ints and
no traced run has to read a Tensor back. Dtypes that Tensors do not have (uint32, uint64, strings,
float8, 4-bit integers) exist on the host only.
"""

from . import ops  # registers the functions
from .model import ONNXModule, load

__all__ = ["ONNXModule", "load"]
