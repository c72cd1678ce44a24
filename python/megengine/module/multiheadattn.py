"""Attention of several heads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class MultiHeadAttention(Module):
    r"""Attention of several heads with learned projections.

    See :func:`megengine.functional.nn.multi_head_attention` for what is computed, and the masks.

    Args:
        embed_dim: E, the width of the queries, of all projections and of the output.
        num_heads: how many heads share it; divides ``embed_dim``.
        attn_dropout: the probability with which each weight of the attention is dropped.
        out_dropout: the probability with which each element of the output is dropped.
        bias: whether the projections have biases.
        add_bias_kv: learn one more key and value, which stand behind those that are projected.
        add_zero_attn: one more key and value of zeros.
        kdim: the width of the keys, ``embed_dim`` by default.
        vdim: the width of the values, ``embed_dim`` by default.

    Shape:
        - io_weight_bias: ``(1, n)``, the matrices of the projections of queries ``(E, E)``, keys
          ``(kdim, E)``, values ``(vdim, E)`` and of the output ``(E, E)``, each ``(in, out)``, then
          their biases.
        - bias_k, bias_v: ``(1, 1, E)``, with ``add_bias_kv``.

    Raises:
        ValueError: where the heads do not divide ``embed_dim``.

    >>> import megengine.functional as F
    >>> layer = MultiHeadAttention(8, 2)
    >>> layer
    MultiHeadAttention(embed_dim=8, num_heads=2, bias=True)
    >>> x = F.ones((3, 5, 8))
    >>> y, weights = layer(x, x, x)
    >>> y.shape, weights
    ((3, 5, 8), None)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        attn_dropout: float = 0.0,
        out_dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiHeadAttention: expected embed_dim to be a multiple of num_heads, "
                f"got {embed_dim} and {num_heads}"
            )
        for name, p in (("attn_dropout", attn_dropout), ("out_dropout", out_dropout)):
            if not 0 <= p < 1:
                raise ValueError(f"MultiHeadAttention: expected {name} in [0, 1), got {p}")
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self.add_bias_kv = add_bias_kv
        self.add_zero_attn = add_zero_attn
        self.num_heads = num_heads
        self.attn_dropout = attn_dropout
        self.out_dropout = out_dropout
        self.head_dim = embed_dim // num_heads
        self.bias = bias
        self.weight_bias_len = sum(rows * embed_dim for rows in self._fan_in())
        if bias:
            self.weight_bias_len += 4 * embed_dim
        self.io_weight_bias = Parameter(np.zeros((1, self.weight_bias_len), np.float32))
        self.bias_k: Parameter | None = None
        self.bias_v: Parameter | None = None
        if add_bias_kv:
            self.bias_k = Parameter(np.zeros((1, 1, embed_dim), np.float32))
            self.bias_v = Parameter(np.zeros((1, 1, embed_dim), np.float32))
        self.reset_parameters()

    def _fan_in(self) -> tuple[int, int, int, int]:
        """Rows of the matrices, in their order."""
        return self.embed_dim, self.kdim, self.vdim, self.embed_dim

    def reset_parameters(self) -> None:
        r"""Draws each matrix uniformly as Glorot and Bengio say, and sets the biases to 0.

        That is within :math:`\pm\sqrt{6 / (in + out)}`. ``bias_k`` and ``bias_v`` are drawn from
        :math:`N(0, 1 / E)`.
        """
        parts = []
        for rows in self._fan_in():
            matrix = Parameter(np.zeros((rows, self.embed_dim), np.float32))
            bound = math.sqrt(6 / (rows + self.embed_dim))
            init.uniform_(matrix, -bound, bound)
            parts.append(matrix.flatten())
        if self.bias:
            parts.append(F.zeros((4 * self.embed_dim,)))
        self.io_weight_bias._reset(F.concat(parts).reshape(1, -1))
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.normal_(bias, 0.0, 1 / math.sqrt(self.embed_dim))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = False,
        is_causal: bool = False,
        maybe_cudnn_style_mask: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output ``(N, L, E)``, and the weights or None."""
        return F.nn.multi_head_attention(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.attn_dropout,
            self.out_dropout,
            self.io_weight_bias,
            qproj_size=self.embed_dim,
            kproj_size=self.embed_dim,
            vproj_size=self.embed_dim,
            oproj_size=self.embed_dim,
            qbias=self.bias,
            kbias=self.bias,
            vbias=self.bias,
            obias=self.bias,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            maybe_cudnn_style_mask=maybe_cudnn_style_mask,
            training=self.training,
        )

    def _module_info_string(self) -> str:
        text = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, bias={self.bias}"
        for name in ("attn_dropout", "out_dropout", "add_bias_kv", "add_zero_attn"):
            if getattr(self, name):
                text += f", {name}={getattr(self, name)}"
        for name in ("kdim", "vdim"):
            if getattr(self, name) != self.embed_dim:
                text += f", {name}={getattr(self, name)}"
        return text
