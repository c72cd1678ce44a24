"""Residual networks: plain and bottleneck blocks, in training and in use."""

from examples.models.resnet import ResNet
from tests.reference.models.harness import Case, floats


def cases():
    """Small images, and a stem with pooling."""
    return {
        "resnet18": Case(ResNet(18, width=8), [floats("image", 2, 3, 32, 32)]),
        "resnet18-eval": Case(ResNet(18, width=8), [floats("image", 2, 3, 32, 32)], train=False),
        "resnet50": Case(
            ResNet(50, width=8, small_images=False), [floats("image", 2, 3, 64, 64)], train=False
        ),
    }
