"""Batch norm folded into the layer before it, for inference.

>>> import megengine.module as M
>>> conv, norm = M.Conv2d(3, 4, 3), M.BatchNorm2d(4)
>>> conv.eval(), norm.eval()
(None, None)
>>> type(fuse_conv_bn_relu_module(conv, norm, M.ReLU())).__name__
'ConvRelu2d'
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

from .. import functional as F
from .. import module as M
from ..tensor import Parameter, Tensor

__all__ = ["fold_weight_bias", "fuse_conv_bn_relu_module", "fuse_linear_bn_relu_module"]

# By (layer, whether a batch norm follows that stays one, whether a ReLU follows): one module.
_FUSED: dict[tuple[type[M.Module], bool, bool], type[M.Module]] = {
    (M.Conv2d, False, False): M.Conv2d,
    (M.Conv2d, False, True): M.ConvRelu2d,
    (M.Conv2d, True, False): M.ConvBn2d,
    (M.Conv2d, True, True): M.ConvBnRelu2d,
    (M.ConvTranspose2d, False, False): M.ConvTranspose2d,
    (M.ConvTranspose2d, False, True): M.ConvTransposeRelu2d,
    (M.ConvTranspose2d, True, False): M.ConvTransposeBn2d,
    (M.ConvTranspose2d, True, True): M.ConvTransposeBnRelu2d,
    (M.Linear, False, False): M.Linear,
    (M.Linear, False, True): M.LinearRelu,
    (M.Linear, True, False): M.LinearBn1d,
    (M.Linear, True, True): M.LinearBnRelu1d,
}


def fold_weight_bias(
    weight: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    bn_mean: Tensor,
    bn_var: Tensor,
    eps: float = 1e-5,
    transpose: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Weight and bias of a layer that does what a layer and a batch norm behind it do.

    With :math:`s = \gamma / \sqrt{var + eps}` they are :math:`w s` and
    :math:`(b - mean) s + \beta`.

    Args:
        weight: of a convolution, (out, in, kh, kw) or (groups, out, in, kh, kw); with
            ``transpose`` in and out change places; or of a linear map, (out, in).
        bias: of the layer; none counts as 0.
        gamma: the scale of the batch norm; none counts as 1.
        beta: its shift; none counts as 0.
        bn_mean: its running mean.
        bn_var: its running variance.
        eps: is added to the variance.
        transpose: whether the weight is one of a transposed convolution.

    Returns:
        The weight, of its shape, and the bias, (1, out, 1, 1), or (out,) for a linear map.
    """
    channels = bn_mean.size
    linear = weight.ndim == 2
    scale = 1 / F.sqrt(bn_var.reshape(-1) + eps)
    if gamma is not None:
        scale = scale * gamma.reshape(-1)
    shift = -bn_mean.reshape(-1) if bias is None else bias.reshape(-1) - bn_mean.reshape(-1)
    shift = shift * scale
    if beta is not None:
        shift = shift + beta.reshape(-1)
    # The axis of output channels, in each group.
    groups = weight.shape[0] if weight.ndim == 5 else 1
    axis = 0 if linear else weight.ndim - (3 if transpose else 4)
    shape = [1] * weight.ndim
    shape[axis] = channels // groups
    if groups > 1 or weight.ndim == 5:
        shape[0] = groups
    return (
        weight * scale.reshape(shape),
        shift if linear else shift.reshape(1, channels, 1, 1),
    )


def fuse_conv_bn_relu_module(
    conv: M.Conv2d | M.ConvTranspose2d, bn: M.BatchNorm2d | None, relu: M.ReLU | None
) -> M.Module:
    """One module for a convolution, a batch norm and a ReLU, of which one of the last may be None.

    In evaluation mode the batch norm goes into the weights of a copy of the convolution. In
    training mode one module holds copies of both. The given modules stay as they are.

    Args:
        conv: the convolution, of two dimensions.
        bn: the batch norm behind it.
        relu: the ReLU behind that.

    Raises:
        TypeError: for modules of other kinds.
        ValueError: where one is in training mode and the other is not, where there is nothing to
            fuse, or where the batch norm has no running statistics to fold.
    """
    kind = M.ConvTranspose2d if isinstance(conv, M.ConvTranspose2d) else M.Conv2d
    return _fuse("fuse_conv_bn_relu_module", kind, conv, bn, relu)


def fuse_linear_bn_relu_module(
    linear: M.Linear, bn: M.BatchNorm1d | None, relu: M.ReLU | None
) -> M.Module:
    """The same for a linear map; see :func:`fuse_conv_bn_relu_module`."""
    return _fuse("fuse_linear_bn_relu_module", M.Linear, linear, bn, relu)


def _fuse(
    name: str,
    kind: type[M.Module],
    layer: M.Conv2d | M.ConvTranspose2d | M.Linear,
    bn: M.BatchNorm1d | M.BatchNorm2d | None,
    relu: M.ReLU | None,
) -> M.Module:
    norm = M.BatchNorm1d if kind is M.Linear else M.BatchNorm2d
    for module, wanted in ((layer, kind), (bn, norm), (relu, M.ReLU)):
        if module is None and module is not layer:
            continue
        if not isinstance(module, wanted):
            raise TypeError(f"{name}: expected {wanted.__name__}, got {type(module).__name__}")
    if bn is None and relu is None:
        raise ValueError(f"{name}: expected a batch norm or a ReLU behind the layer, got neither")
    if bn is not None and bn.training != layer.training:
        raise ValueError(
            f"{name}: expected both modules in training or in evaluation mode, got "
            f"{type(layer).__name__} with training={layer.training} and "
            f"{type(bn).__name__} with training={bn.training}"
        )
    if bn is not None and layer.training:
        return _together(kind, layer, bn, relu is not None)
    out = deepcopy(layer)
    if bn is not None:
        if bn.running_mean is None or bn.running_var is None:
            raise ValueError(f"{name}: the batch norm keeps no running statistics to fold")
        transpose = kind is M.ConvTranspose2d
        weight, bias = fold_weight_bias(
            layer.weight,
            layer.bias,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.eps,
            transpose,
        )
        out.weight, out.bias = Parameter(weight), Parameter(bias)
    # The class with a ReLU has the same members; it differs in what forward() does.
    out.__class__ = _FUSED[kind, False, relu is not None]  # type: ignore[assignment]
    return out


def _together(
    kind: type[M.Module],
    layer: M.Conv2d | M.ConvTranspose2d | M.Linear,
    bn: M.BatchNorm1d | M.BatchNorm2d,
    relu: bool,
) -> M.Module:
    """A module that holds copies of both."""
    made: Any = _FUSED[kind, True, relu]
    if isinstance(layer, M.Linear):
        out = made(layer.in_features, layer.out_features, bias=layer.bias is not None)
        place = "linear"
    else:
        out = made(layer.in_channels, layer.out_channels, layer.kernel_size, groups=layer.groups)
        place = "conv_transpose2d" if kind is M.ConvTranspose2d else "conv"
    setattr(out, place, deepcopy(layer))
    out.bn = deepcopy(bn)
    return cast(M.Module, out)
