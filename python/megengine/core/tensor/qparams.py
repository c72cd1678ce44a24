"""What a Tensor remembers of how it was quantised."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .dtype import QuantDtypeMeta

if TYPE_CHECKING:
    from ...tensor import Tensor

__all__ = ["QParams", "QuantMode"]


class QuantMode(enum.Enum):
    """Whether zero is quantised to 0 (the names are the reference's)."""

    SYMMERTIC = 1
    ASYMMERTIC = 2


class QParams:
    """The mode, the dtype, the scale and the zero point of a quantisation.

    >>> QParams(QuantMode.SYMMERTIC, None, None, None)
    QParams(mode=QuantMode.SYMMERTIC, dtype_meta=None, scale=None, zero_point=None)
    """

    __slots__ = ("dtype_meta", "mode", "scale", "zero_point")

    def __init__(
        self,
        mode: QuantMode,
        dtype_meta: QuantDtypeMeta | None,
        scale: Tensor | None,
        zero_point: Tensor | None,
    ) -> None:
        self.mode = mode
        self.dtype_meta = dtype_meta
        self.scale = scale
        self.zero_point = zero_point

    def update(self, qparams: QParams) -> None:
        """Takes over what another one holds."""
        for name in self.__slots__:
            setattr(self, name, getattr(qparams, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QParams):
            return NotImplemented
        return (self.mode, self.dtype_meta) == (other.mode, other.dtype_meta) and all(
            _same(getattr(self, name), getattr(other, name)) for name in ("scale", "zero_point")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ("mode", "dtype_meta", "scale", "zero_point")
        return f"QParams({', '.join(f'{name}={getattr(self, name)}' for name in fields)})"


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool((a.numpy() == b.numpy()).all())
