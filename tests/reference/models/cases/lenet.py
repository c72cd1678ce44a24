"""LeNet-5, judged by the reference, and once by differences: both judges must agree."""

from examples.models.lenet import LeNet
from tests.reference.models.harness import Case, floats


def cases():
    """Two images."""
    image = floats("image", 2, 1, 32, 32)
    why = "no need: this tests the judge itself"
    return {
        "lenet": Case(LeNet(), [image]),
        "lenet-differences": Case(LeNet(), [image], judge="differences", why=why),
    }
