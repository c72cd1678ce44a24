"""MobileNetV2, in training and in use."""

from examples.models.mobilenet_v2 import STAGES, MobileNetV2
from tests.reference.models.harness import Case, floats


def cases():
    """The first stages, and all of the paper's."""
    return {
        "mobilenet_v2": Case(MobileNetV2(), [floats("image", 2, 3, 64, 64)]),
        "mobilenet_v2-eval": Case(
            MobileNetV2(stages=STAGES), [floats("image", 2, 3, 64, 64)], train=False
        ),
    }
