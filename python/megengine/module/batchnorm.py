"""Batch normalisation (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class _BatchNorm(Module):
    """What batch norms share; a subclass says which inputs it takes."""

    _flat_state = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        freeze: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.freeze = freeze
        if freeze:
            assert track_running_stats, (
                "track_running_stats must be initialized to True if freeze is True"
            )
        shape = (1, num_features, 1, 1)
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        if affine:
            self.weight = Parameter(np.ones(shape, dtype=np.float32))
            self.bias = Parameter(np.zeros(shape, dtype=np.float32))
        self.running_mean: Tensor | None = None
        self.running_var: Tensor | None = None
        if track_running_stats:
            self.running_mean = Tensor(np.zeros(shape, dtype=np.float32))
            self.running_var = Tensor(np.ones(shape, dtype=np.float32))

    def reset_running_stats(self) -> None:
        """Sets the running mean to 0 and the running variance to 1."""
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)

    def reset_parameters(self) -> None:
        """Resets the running statistics, the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    @abstractmethod
    def _check_input_ndim(self, inp: Tensor) -> None:
        """Raises ValueError where ``inp`` has a number of dimensions that is not taken."""

    def forward(self, inp: Tensor) -> Tensor:
        """Normalises each channel; updates the running statistics in training mode."""
        self._check_input_ndim(inp)
        ndim = inp.ndim
        if ndim != 4:
            shape = inp.shape
            inp = inp.reshape(*shape, *(1,) * (4 - ndim))
        weight, bias = self.weight, self.bias
        if self.freeze and weight is not None and bias is not None:
            weight, bias = weight.detach(), bias.detach()
        out = self._normalise(
            inp,
            self.running_mean,
            self.running_var,
            weight,
            bias,
            training=not self.freeze and (self.training or self.running_mean is None),
            momentum=self.momentum,
            eps=self.eps,
        )
        return out if ndim == 4 else out.reshape(*shape)

    def _normalise(self, *args: Any, **options: Any) -> Tensor:
        return F.batch_norm(*args, **options)

    def _module_info_string(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes of a group: see :class:`BatchNorm2d`.

    In training, mean and variance are those of the batches of all processes together; see
    :func:`.sync_batch_norm`. One process alone gets what :class:`BatchNorm2d` gives.

    Args:
        num_features: see :class:`BatchNorm2d`, like all that is not described here.
        eps: see there.
        momentum: see there.
        affine: see there.
        track_running_stats: see there.
        freeze: see there.
        group: the processes that take part, a :class:`.Group` or their ranks; all by default.

    Shape:
        - input: (N, C), (N, C, L) or (N, C, H, W)

    Raises:
        ValueError: the input has another number of dimensions.

    >>> import megengine.functional as F
    >>> SyncBatchNorm(3)(F.ones((4, 3, 2, 2))).shape
    (4, 3, 2, 2)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        freeze: bool = False,
        group: Any = None,
        **kwargs: Any,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, freeze, **kwargs)
        self.group = group

    def _check_input_ndim(self, inp: Tensor) -> None:
        if inp.ndim not in (2, 3, 4):
            raise ValueError(f"expected 2D, 3D or 4D input (got {inp.ndim}D input)")

    def _normalise(self, *args: Any, **options: Any) -> Tensor:
        options["group"] = self.group
        return F.sync_batch_norm(*args, **options)


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L): see :class:`BatchNorm2d`.

    >>> import megengine.functional as F
    >>> BatchNorm1d(3)(F.ones((4, 3))).shape
    (4, 3)
    """

    def _check_input_ndim(self, inp: Tensor) -> None:
        if inp.ndim not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {inp.ndim}D input)")


class BatchNorm2d(_BatchNorm):
    r"""Normalises each channel of (N, C, H, W) over the batch and the image.

    .. math::
        y = \frac{x - mean}{\sqrt{var + eps}} \cdot weight + bias

    In training, mean and variance are those of the batch (the variance divides by the count), and
    running means of them are kept: ``running = momentum * running + (1 - momentum) * batch``, where
    the variance that is kept divides by the count less one. Evaluation uses the running ones.

    Args:
        num_features: C.
        eps: added to the variance.
        momentum: the share of the running statistics that each batch leaves.
        affine: whether to have ``weight`` and ``bias``.
        track_running_stats: whether to keep running statistics. Without them the batch's own are
            used in evaluation too.
        freeze: whether to use the running statistics in training too, and to leave them, the weight
            and the bias as they are.

    Shape:
        - weight, bias, running_mean, running_var: (1, C, 1, 1); (C,) in state dicts

    Raises:
        ValueError: the input has not four dimensions.

    >>> import megengine.functional as F
    >>> norm = BatchNorm2d(3)
    >>> norm
    BatchNorm2d(3, eps=1e-05, momentum=0.9, affine=True, track_running_stats=True)
    >>> norm(F.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    def _check_input_ndim(self, inp: Tensor) -> None:
        if inp.ndim != 4:
            raise ValueError(f"expected 4D input (got {inp.ndim}D input)")
