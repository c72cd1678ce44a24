"""The methods of Tensor that NumPy's arrays have too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...tensor import Tensor

# megengine.functional and the class Tensor, set by megengine.tensor when they exist: each needs
# the other.
F: Any = None
_tensor_class: Any = None


def _to_arrays(value: Any) -> Any:
    """Tensors in a nested structure as arrays."""
    if isinstance(value, ArrayMethodMixin):
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(_to_arrays(v) for v in value)
    if isinstance(value, dict):
        return {k: _to_arrays(v) for k, v in value.items()}
    return value


class ArrayMethodMixin:
    """Methods that :class:`~megengine.Tensor` shares with NumPy's arrays."""

    __slots__ = ()
    # Makes `array + tensor` call our operator instead of NumPy's loop over elements.
    __array_priority__ = 1001

    if TYPE_CHECKING:

        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
        @property
        def shape(self) -> tuple[int, ...]: ...  # noqa: D102
        @property
        def ndim(self) -> int: ...  # noqa: D102

        def numpy(self) -> np.ndarray[Any, Any]: ...  # noqa: D102
        def __getitem__(self, key: Any) -> Tensor: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a {array.dtype} Tensor is no {np.dtype(dtype)} array without a copy"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: np.ndarray[Any, Any], context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        return _tensor_class(array)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions take Tensors and give arrays."""
        return func(*_to_arrays(args), **_to_arrays(kwargs))

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a Tensor of no dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self.numpy() == np.asarray(value)))

    def __matmul__(self, other: Any) -> Tensor:
        return F.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return F.matmul(other, self)

    def __imatmul__(self, other: Any) -> Any:
        self._reset(F.matmul(self, other))  # type: ignore[attr-defined]
        return self

    def __round__(self, ndigits: int | None = None) -> Tensor:
        if ndigits:
            raise TypeError("round: a Tensor rounds to whole numbers only")
        return F.round(self)

    def __floor__(self) -> Tensor:
        return F.floor(self)

    def __ceil__(self) -> Tensor:
        return F.ceil(self)

    def __complex__(self) -> complex:
        return complex(self.item())  # type: ignore[attr-defined]

    @property
    def T(self) -> Tensor:
        """The tensor with its axes reversed."""
        return F.transpose(self, tuple(range(self.ndim))[::-1])

    def astype(self, dtype: Any) -> Tensor:
        """The values in another dtype; as NumPy's ``astype``, floats truncate toward 0.

        >>> import megengine as mge
        >>> mge.tensor([1.7, -1.7]).astype("int32")
        Tensor([ 1 -1], dtype=int32, device=xpux:0)
        """
        return self._astype(dtype)  # type: ignore[attr-defined]

    def reshape(self, *args: Any) -> Tensor:
        """The same elements in row-major order under a new shape; one size may be -1.

        >>> import megengine as mge
        >>> mge.tensor([1, 2, 3, 4]).reshape(2, -1).shape
        (2, 2)
        """
        return F.reshape(self, args[0] if len(args) == 1 else args)

    def transpose(self, *args: Any) -> Tensor:
        """The axes in another order; reversed without arguments.

        >>> import megengine as mge
        >>> mge.tensor([[1, 2, 3]]).transpose(1, 0).shape
        (3, 1)
        """
        if not args:
            return self.T
        return F.transpose(self, args[0] if len(args) == 1 else args)

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """Axes start_axis to end_axis, both included, as one; all of them without arguments."""
        return F.flatten(self, start_axis, end_axis)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The sum over axes, or over all; see :func:`megengine.functional.sum`."""
        return F.sum(self, axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The product over axes, or over all; see :func:`megengine.functional.prod`."""
        return F.prod(self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The lowest element along axes, or of all; see :func:`megengine.functional.min`."""
        return F.min(self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The highest element along axes, or of all; see :func:`megengine.functional.max`."""
        return F.max(self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The mean over axes, or over all; see :func:`megengine.functional.mean`."""
        return F.mean(self, axis, keepdims)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number without dimensions."""
        return self.numpy().tolist()
