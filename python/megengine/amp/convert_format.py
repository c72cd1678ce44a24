"""Memory formats."""

from __future__ import annotations

import copy

from ..module import Module
from ..tensor import Tensor

__all__ = ["convert_module_format", "convert_tensor_format"]

_CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_CHANNELS_SECOND = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def convert_tensor_format(x: Tensor, inplace: bool = True) -> Tensor:
    """Lays an image batch out channels-last in memory.

    Values and shape stay as they are, (N, C, H, W) or (N, C, D, H, W): only the strides change,
    which say where in memory an element is. Convolutions take their inputs so, and would make the
    copy themselves. Tensors with another number of axes are left as they are.

    Args:
        x: a Tensor.
        inplace: whether ``x`` itself changes, or a new Tensor is made.

    Returns:
        the Tensor; its ``format`` is ``"nhwc"`` if it has four or five axes.

    Raises:
        TypeError: for what is no Tensor.

    Examples:
        >>> import numpy as np
        >>> import megengine as mge
        >>> from megengine.amp import convert_tensor_format
        >>> x = mge.tensor(np.zeros((2, 3, 4, 5), np.float32))
        >>> y = convert_tensor_format(x, inplace=False)
        >>> y.shape, y.format, x.format
        ((2, 3, 4, 5), 'nhwc', 'default')
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"convert_tensor_format: expected a Tensor, got {type(x).__name__}")
    if x.ndim not in _CHANNELS_LAST:
        return x
    moved = x.transpose(*_CHANNELS_LAST[x.ndim])
    y = moved.flatten().reshape(moved.shape).transpose(*_CHANNELS_SECOND[x.ndim])
    if inplace:
        x._reset(y)
        y = x
    y.format = "nhwc"
    return y


def convert_module_format(module: Module, inplace: bool = True) -> Module:
    """Has a module work channels-last.

    Networks of convolutions do so here by themselves, whatever the format of their input, and
    weights are packed for the kernels that use them. So nothing moves in memory: the ``format`` of
    parameters and buffers with four or five axes becomes ``"nhwc"``, and results are the same.

    Args:
        module: a Module.
        inplace: whether ``module`` itself changes, or a copy.

    Returns:
        the module.

    Raises:
        TypeError: for what is no Module.

    Examples:
        >>> import megengine.module as M
        >>> from megengine.amp import convert_module_format
        >>> conv = convert_module_format(M.Conv2d(3, 4, 3))
        >>> conv.weight.shape, conv.weight.format
        ((4, 3, 3, 3), 'nhwc')
    """
    if not isinstance(module, Module):
        raise TypeError(f"convert_module_format: expected a Module, got {type(module).__name__}")
    if not inplace:
        module = copy.deepcopy(module)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.ndim in _CHANNELS_LAST:
            tensor.format = "nhwc"
    return module
