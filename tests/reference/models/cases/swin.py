"""A small Swin, and its block with shifted windows alone."""

from examples.models.swin import Swin, SwinBlock
from tests.reference.models.harness import Case, floats


def cases():
    """Maps of two windows and more each way, so that shifts and masks count."""
    return {
        "swin": Case(Swin(), [floats("image", 2, 3, 32, 32)]),
        "swin-block": Case(SwinBlock(12, 8, 2, shift=2), [floats("map", 2, 12, 12, 8)]),
    }
