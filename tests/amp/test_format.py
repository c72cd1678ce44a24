"""Memory formats."""

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.amp import convert_module_format, convert_tensor_format
from megengine.amp.convert_format import convert_tensor_format as same
from megengine.autodiff import GradManager


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 2, 4, 5)])
@pytest.mark.parametrize("inplace", [True, False])
def test_values_and_shapes_stay(shape, inplace):
    """As in the reference: the user sees (N, C, H, W) in both formats."""
    array = numbers(*shape)
    x = mge.tensor(array)
    y = convert_tensor_format(x, inplace)
    assert (y is x) is inplace
    assert y.shape == shape
    assert y.format == "nhwc"
    assert x.format == ("nhwc" if inplace else "default")
    np.testing.assert_array_equal(y.numpy(), array)
    assert y._strides[1] == 1
    assert min(y._strides[2:]) == shape[1]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_what_is_no_image_is_left_alone(shape):
    x = mge.tensor(np.zeros(shape, np.float32))
    assert convert_tensor_format(x, inplace=False) is x
    assert x.format == "default"


def test_parameters_stay_parameters():
    w = mge.Parameter(numbers(2, 3, 4, 5))
    assert type(convert_tensor_format(w)) is mge.Parameter
    assert same is convert_tensor_format


def test_the_format_can_be_set():
    x = mge.tensor(numbers(1, 2, 3, 3))
    x.format = "nhwc"
    assert x.format == "nhwc"
    with pytest.raises(ValueError, match=r"Tensor.format: expected .* got 'nchw4'"):
        x.format = "nchw4"


def test_modules():
    net = M.Sequential(
        M.Conv2d(3, 4, 3, padding=1), M.BatchNorm2d(4), M.ReLU(), M.Conv2d(4, 2, 1, bias=False)
    )
    net.eval()
    x = mge.tensor(numbers(1, 3, 4, 4) / 10)
    want, shapes = net(x).numpy(), {k: v.shape for k, v in net.state_dict().items()}
    other = convert_module_format(net, inplace=False)
    assert other is not net
    assert net[0].weight.format == "default"
    assert other[0].weight.format == other[1].weight.format == "nhwc"
    assert convert_module_format(net) is net
    assert net[0].bias.format == "nhwc"
    for y in (net(x), other(x), other(convert_tensor_format(x, inplace=False))):
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)
    assert {k: v.shape for k, v in other.state_dict().items()} == shapes


def test_gradients_pass():
    x = mge.tensor(numbers(1, 2, 3, 3))
    gm = GradManager().attach([x])
    with gm:
        gm.backward((convert_tensor_format(x, inplace=False) * F.arange(9).reshape(3, 3)).sum())
    want = np.broadcast_to(np.arange(9).reshape(3, 3), (1, 2, 3, 3))
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="convert_tensor_format: expected a Tensor, got ndarray"):
        convert_tensor_format(np.zeros((1, 2, 3, 3)))
    with pytest.raises(TypeError, match="convert_module_format: expected a Module, got Tensor"):
        convert_module_format(mge.tensor([1.0]))
