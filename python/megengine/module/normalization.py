"""Normalisation of each sample by itself: layer, group, instance and general norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class _AffineNorm(Module):
    """A norm that may scale and shift by learned tensors of one shape."""

    _flat_state = True
    weight: Parameter | None
    bias: Parameter | None

    def _make_parameters(self, shape: tuple[int, ...] | None) -> None:
        self.weight = self.bias = None
        if shape is not None:
            self.weight = Parameter(np.ones(shape, dtype=np.float32))
            self.bias = Parameter(np.zeros(shape, dtype=np.float32))

    def reset_parameters(self) -> None:
        """Sets the weight to 1 and the bias to 0."""
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)


class LayerNorm(_AffineNorm):
    r"""Normalises over the last axes (Ba et al., 2016).

    .. math::
        y = \frac{x - E[x]}{\sqrt{Var[x] + eps}} \cdot weight + bias

    Args:
        normalized_shape: the sizes of the last axes, an int for one.
        eps: added to the variance.
        affine: whether to have ``weight`` and ``bias``, of ``normalized_shape``.

    >>> import megengine.functional as F
    >>> norm = LayerNorm((4, 5))
    >>> norm
    LayerNorm(normalized_shape=(4, 5), eps=1e-05, affine=True)
    >>> norm(F.ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-05,
        affine: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if isinstance(normalized_shape, int):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.affine = affine
        self._make_parameters(self.normalized_shape if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """(..., *normalized_shape) to the same."""
        return F.nn.layer_norm(
            x, self.normalized_shape, self.affine, self.weight, self.bias, self.eps
        )

    def _module_info_string(self) -> str:
        return f"normalized_shape={self.normalized_shape}, eps={self.eps}, affine={self.affine}"


class GroupNorm(_AffineNorm):
    """Normalises groups of channels of each sample (Wu and He, 2018).

    Args:
        num_groups: number of groups, which divides the channels.
        num_channels: C of the input (N, C, H, W).
        eps: added to the variance.
        affine: whether to have ``weight`` and ``bias``, of shape (C,).

    Raises:
        AssertionError: ``num_channels`` is no multiple of ``num_groups``.

    >>> import megengine.functional as F
    >>> GroupNorm(2, 4)(F.ones((1, 4, 3, 3))).shape
    (1, 4, 3, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        assert num_groups > 0, f"num_groups must be positive, got {num_groups}"
        assert num_channels % num_groups == 0, (
            f"num_channels must be a multiple of num_groups, got {num_channels} and {num_groups}"
        )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_parameters((num_channels,) if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to the same."""
        return F.nn.group_norm(x, self.num_groups, self.affine, self.weight, self.bias, self.eps)

    def _module_info_string(self) -> str:
        return (
            f"groups={self.num_groups}, channels={self.num_channels}, "
            f"eps={self.eps}, affine={self.affine}"
        )


class InstanceNorm(_AffineNorm):
    """Normalises each channel of each sample (Ulyanov et al., 2016).

    Args:
        num_channels: C of the input (N, C, H, W).
        eps: added to the variance.
        affine: whether to have ``weight`` and ``bias``, of shape (C,).

    >>> import megengine.functional as F
    >>> InstanceNorm(4)(F.ones((1, 4, 3, 3))).shape
    (1, 4, 3, 3)
    """

    def __init__(self, num_channels: int, eps: float = 1e-05, affine: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_parameters((num_channels,) if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to the same."""
        return F.nn.instance_norm(x, self.affine, self.weight, self.bias, self.eps)

    def _module_info_string(self) -> str:
        return f"channels={self.num_channels}, eps={self.eps}, affine={self.affine}"


class GeneralNorm(_AffineNorm):
    """Normalises over any axes.

    Args:
        normalized_shape: the sizes of these axes; needed where ``affine`` is True.
        normalized_axis: the axes, in increasing order.
        eps: added to the variance.
        affine: whether to have ``weight`` and ``bias``, of ``normalized_shape``.

    Raises:
        AssertionError: shape and axes do not match, or axes are out of order.

    >>> import megengine.functional as F
    >>> GeneralNorm((2, 5), (0, 2))(F.ones((2, 4, 5))).shape
    (2, 4, 5)
    """

    _flat_state = False

    def __init__(
        self,
        normalized_shape: int | Sequence[int] | None = None,
        normalized_axis: int | Sequence[int] = 0,
        eps: float = 1e-5,
        affine: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.eps = eps
        self.affine = affine
        if isinstance(normalized_shape, int):
            normalized_shape = (normalized_shape,)
        if affine:
            assert normalized_shape is not None, (
                "normalized_shape must be specified when affine is true"
            )
            if isinstance(normalized_axis, int):
                normalized_axis = [normalized_axis]
            assert len(normalized_axis) == len(normalized_shape), (
                "The size of normalized_axis and normalized_shape are different"
            )
        axes = [normalized_axis] if isinstance(normalized_axis, int) else list(normalized_axis)
        assert len(set(axes)) == len(axes), f"an axis appears twice in normalized_axis: {axes}"
        self.normalized_shape = normalized_shape
        self.normalized_axis = normalized_axis
        self._make_parameters(tuple(normalized_shape) if affine and normalized_shape else None)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape to the same."""
        return F.nn.general_norm(
            x, self.normalized_axis, self.affine, self.weight, self.bias, self.eps
        )

    def _module_info_string(self) -> str:
        return (
            f"normalized_shape={self.normalized_shape}, normalized_axis={self.normalized_axis}, "
            f"eps={self.eps}, affine={self.affine}"
        )
