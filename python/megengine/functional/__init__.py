"""Functions of Tensors. Each file holds one subject, and its names are here as well.

Losses are found as ``F.nn.cross_entropy`` and ``F.loss.cross_entropy``.
"""

from typing import TYPE_CHECKING

from . import (
    debug_param,
    elemwise,
    external,
    inplace,
    loss,
    math,
    metric,
    nn,
    quantized,
    tensor,
    utils,
    vision,
)
from .attention import *
from .complex_numbers import *
from .conv import *
from .einsum import *
from .elemwise import *
from .elemwise import erf
from .linalg import *
from .local_conv import *
from .math import *
from .matrix import *
from .metric import *
from .nn import *
from .tensor import *
from .vision import remap, warp_affine, warp_perspective
from .windows import *

from .metric import *  # isort: skip
from .nn import *  # isort: skip

if TYPE_CHECKING:
    # Imported by megengine/__init__.py, since collectives are made of functions.
    from . import distributed as distributed
