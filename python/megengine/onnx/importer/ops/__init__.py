"""The functions that compute ops, a file for each family. Importing them registers them."""

from . import (
    control_flow,
    image,
    logic,
    math,
    nn,
    norm,
    recurrent,
    reduce,
    sequence,
    tensor,
    text,
    training,
)
