"""The functions that compute ops, a file for each family. Importing them registers them."""

from . import (
    attention,
    control_flow,
    detection,
    image,
    indexing,
    logic,
    loss,
    math,
    ml,
    nn,
    norm,
    quantize,
    random,
    recurrent,
    reduce,
    sequence,
    signal,
    tensor,
    text,
    training,
)
