"""Tables of learned vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import functional as F
from ..tensor import Parameter, Tensor
from . import init
from .module import Module


class Embedding(Module):
    """Looks up learned vectors by number.

    Args:
        num_embeddings: how many vectors there are.
        embedding_dim: how long each is.
        padding_idx: not supported; must be None.
        max_norm: not supported; must be None.
        norm_type: not supported; must be None.
        initial_weight: the vectors to start from, (num_embeddings, embedding_dim); drawn from the
            normal distribution where it is None.
        freeze: whether to keep the vectors as they are.

    Raises:
        ValueError: ``initial_weight`` has another shape, or what is not supported is asked for.

    >>> Embedding(10, 4)(Tensor([[1, 2, 9]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float | None = None,
        initial_weight: Tensor | None = None,
        freeze: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if padding_idx is not None:
            raise ValueError("Not support padding index now.")
        if max_norm is not None or norm_type is not None:
            raise ValueError("Not support weight normalize now.")
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.freeze = freeze
        shape = (num_embeddings, embedding_dim)
        if initial_weight is None:
            self.weight = Parameter(np.zeros(shape, dtype=np.float32))
            self.reset_parameters()
        else:
            array = np.asarray(initial_weight)
            if array.shape != shape:
                raise ValueError(
                    "The weight shape should match num_embeddings and embedding_dim: "
                    f"expected {shape}, got {array.shape}"
                )
            self.weight = Parameter(array)

    def reset_parameters(self) -> None:
        """Draws the vectors from the normal distribution."""
        init.normal_(self.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Numbers (...) to vectors (..., embedding_dim)."""
        weight = self.weight.detach() if self.freeze else self.weight
        return F.nn.embedding(inputs, weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool | None = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float | None = None,
    ) -> Embedding:
        """An embedding of these vectors, (number, length), frozen unless told otherwise.

        Raises:
            ValueError: ``embeddings`` has not two dimensions.

        >>> table = Embedding.from_pretrained(Tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> table(Tensor([1]))
        Tensor([[3. 4.]], device=xpux:0)
        """
        shape = tuple(embeddings.shape)
        if len(shape) != 2:
            raise ValueError("Embeddings parameter is expected to be 2-dimensional")
        return cls(
            num_embeddings=shape[0],
            embedding_dim=shape[1],
            initial_weight=embeddings,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            freeze=bool(freeze),
        )
