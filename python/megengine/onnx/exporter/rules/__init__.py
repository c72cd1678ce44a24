"""The export rules, a file for each family of ops. Importing this fills the registry."""

from . import (
    attention,
    convolution,
    creation,
    detection,
    elementwise,
    indexing,
    matmul,
    normalization,
    order,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    shape,
    softmax,
)
