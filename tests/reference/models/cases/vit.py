"""A small ViT, whole and in parts."""

from examples.models.vit import EncoderBlock, ViT
from tests.reference.models.harness import Case, floats


def cases():
    """Weights large enough for the attention to choose."""
    image, tokens = floats("image", 2, 3, 32, 32), floats("tokens", 3, 9, 16)
    return {
        "vit": Case(ViT(), [image], weight_scale=4.0),
        "vit-block": Case(EncoderBlock(16, 2, 32), [tokens], weight_scale=8.0),
    }
