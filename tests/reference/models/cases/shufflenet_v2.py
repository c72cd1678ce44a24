"""ShuffleNetV2, in training and in use."""

from examples.models.shufflenet_v2 import ShuffleNetV2
from tests.reference.models.harness import Case, floats


def cases():
    """Two images."""
    return {
        "shufflenet_v2": Case(ShuffleNetV2(), [floats("image", 2, 3, 64, 64)]),
        "shufflenet_v2-eval": Case(ShuffleNetV2(), [floats("image", 2, 3, 64, 64)], train=False),
    }
