"""Convolutions in bfloat16 beside float64, forward and backward."""

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine.autodiff import GradManager

# batch, channels, height, width, output channels, kernel, stride, padding, dilation
SHAPES = [
    (2, 16, 9, 11, 32, 3, 1, 1, 1),
    (4, 40, 8, 8, 72, 3, 2, 1, 1),
    (2, 33, 7, 6, 48, (3, 2), (1, 2), (0, 1), 1),
    (2, 17, 12, 12, 65, 3, 1, 2, 2),
    (6, 20, 5, 5, 33, 5, 1, 2, 1),
    (2, 64, 3, 3, 64, 3, 1, 1, 1),
    (2, 16, 2, 2, 32, 5, 1, 3, 1),  # taps that see nothing but padding
    (3, 32, 8, 8, 32, 3, 1, 1, 1),  # an odd batch
    (2, 3, 16, 16, 32, 7, 2, 3, 1),
    (2, 32, 8, 8, 64, 1, 1, 0, 1),
]


def gradients(arrays, dtype, stride, padding, dilation):
    tensors = [mge.tensor(a, dtype="float64").astype(dtype) for a in arrays[:2]]
    gm = GradManager().attach(tensors)
    with gm:
        y = F.conv2d(*tensors, stride=stride, padding=padding, dilation=dilation)
        gm.backward(y, mge.tensor(arrays[2], dtype="float64").astype(dtype))
    return [t.astype("float64").numpy() for t in (y, tensors[0].grad, tensors[1].grad)]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_convolution(shape, channels_last):
    n, c, h, w, o, kernel, stride, padding, dilation = shape
    kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
    rng = np.random.default_rng(0)

    def rounded(*shape):
        if channels_last and len(shape) == 4:
            shape = (shape[0], *shape[2:], shape[1])
        bits = rng.standard_normal(shape).astype(np.float32).view(np.uint32) & 0xFFFF0000
        values = bits.view(np.float32).astype(np.float64)
        return np.moveaxis(values, -1, 1) if channels_last and len(shape) == 4 else values

    x, weight = rounded(n, c, h, w), rounded(o, c, kh, kw)
    y = F.conv2d(
        mge.tensor(x, dtype="float64"),
        mge.tensor(weight, dtype="float64"),
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
    arrays = x, weight, rounded(*y.shape)
    want = gradients(arrays, "float64", stride, padding, dilation)
    got = gradients(arrays, "bfloat16", stride, padding, dilation)
    for g, e in zip(got, want, strict=True):
        # Summed in float32 and rounded once; cancellation loses digits of the largest.
        np.testing.assert_allclose(g, e, rtol=2.0**-8, atol=1e-5 * np.abs(e).max())
