"""UNet, as in the paper, and with padding and bilinear resizing."""

from examples.models.unet import UNet
from tests.reference.models.harness import Case, floats


def cases():
    """Two images each."""
    return {
        "unet": Case(UNet(), [floats("image", 2, 1, 48, 52)]),
        "unet-bilinear": Case(
            UNet(in_channels=3, num_classes=4, depth=3, padding=1, bilinear=True),
            [floats("colours", 2, 3, 32, 40)],
        ),
    }
