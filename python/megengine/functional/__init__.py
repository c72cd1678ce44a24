"""Functions of Tensors. Each file holds one subject, and its names are here as well."""

from .conv import *
from .elemwise import *
from .elemwise import (
    erf,
    gelu,
    hsigmoid,
    hswish,
    leaky_relu,
    logsigmoid,
    prelu,
    relu,
    relu6,
    sigmoid,
    silu,
    softplus,
)
from .math import *
from .matrix import *
from .tensor import *
