"""Deformable RoI pooling (Dai et al., 2017)."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class DeformablePSROIPooling(Module):
    """Pools boxes whose bins are moved by learned offsets.

    See :func:`~megengine.functional.nn.deformable_psroi_pooling`.

    Args:
        no_trans: leave the bins where they are.
        part_size: rows and columns of ``trans``, unless it has one for each bin.
        pooled_h: rows of bins.
        pooled_w: columns of bins.
        sample_per_part: points of a bin along each axis.
        spatial_scale: what coordinates are multiplied by.
        trans_std: what ``trans`` is multiplied by.

    >>> import megengine as mge, megengine.functional as F
    >>> pool = DeformablePSROIPooling(True, 1, 3, 3, 2, spatial_scale=0.5)
    >>> rois = mge.Tensor([[0, 0, 0, 12.0, 12.0]])
    >>> pool(F.ones((1, 4, 8, 8)), rois, F.zeros((1, 2, 3, 3))).shape
    (1, 4, 3, 3)
    """

    def __init__(
        self,
        no_trans: bool,
        part_size: int,
        pooled_h: int,
        pooled_w: int,
        sample_per_part: int,
        spatial_scale: float,
        trans_std: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.no_trans = no_trans
        self.part_size = part_size
        self.pooled_h = pooled_h
        self.pooled_w = pooled_w
        self.sample_per_part = sample_per_part
        self.spatial_scale = spatial_scale
        self.trans_std = trans_std

    def forward(self, inp: Tensor, rois: Tensor, trans: Tensor) -> Tensor:
        """(N, C, H, W), (K, 5), (K, 2, h, w) to (K, C, pooled_h, pooled_w)."""
        return F.deformable_psroi_pooling(
            inp,
            rois,
            trans,
            self.no_trans,
            self.part_size,
            self.pooled_h,
            self.pooled_w,
            self.sample_per_part,
            self.spatial_scale,
            self.trans_std,
        )
