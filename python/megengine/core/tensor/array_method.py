"""The methods of Tensor that NumPy's arrays have too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ..ops import builtin

if TYPE_CHECKING:
    from ...tensor import Tensor

_ElwMod = builtin.Elemwise.Mode

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


def _elwise(*args: Any, mode: Any) -> Tensor:
    """An elementwise function by its mode: an ``Elemwise.Mode`` or its name.

    >>> import megengine as mge
    >>> _elwise(mge.tensor([1.0, 2.0]), 3, mode="add")
    Tensor([4. 5.], device=xpux:0)
    """
    name = mode.upper() if isinstance(mode, str) else mode
    operands = [a if isinstance(a, (_tensor_class, int, float)) else _tensor_class(a) for a in args]
    if operands and not any(isinstance(a, _tensor_class) for a in operands):
        operands[0] = _tensor_class(operands[0])
    return _core.call(builtin.Elemwise(mode=name), *operands)


def _elwise_apply(args: Sequence[Any], mode: Any) -> Tensor:
    """:func:`_elwise` with the operands in a sequence."""
    return _elwise(*args, mode=mode)


def _elemwise_multi_type(*args: Any, mode: str, **kwargs: Any) -> Tensor:
    """An elementwise function of operands of several dtypes; see ``builtin.ElemwiseMultiType``."""
    return _core.call(builtin.ElemwiseMultiType(mode=mode.upper(), **kwargs), *args)


def _matmul(
    inp1: Any,
    inp2: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    compute_mode: str = "default",
) -> Tensor:
    """:func:`megengine.functional.matmul`."""
    return F.matmul(inp1, inp2, transpose_a, transpose_b, compute_mode)


def _expand_args(args: Any) -> Any:
    """The arguments of a method that takes a shape or axes one by one, or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (list, tuple, _tensor_class)):
        return args[0]
    return args


class ArrayMethodMixin:
    """Methods that :class:`~megengine.Tensor` shares with NumPy's arrays."""

    __slots__ = ()
    # Makes `array + tensor` call our operator instead of NumPy's loop over elements.
    __array_priority__ = 1001

    # What a class that mixes this in has of its own; Tensor's are those of the core.

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        raise NotImplementedError(f"{type(self).__name__} does not define dtype")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        raise NotImplementedError(f"{type(self).__name__} does not define shape")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as an array."""
        raise NotImplementedError(f"{type(self).__name__} does not define numpy()")

    def item(self, *args: Any) -> Any:
        """One element as a Python number: the only one, or that at an index.

        >>> import megengine as mge
        >>> mge.tensor([[1, 2], [3, 4]]).item(1, 0)
        3

        Raises:
            ValueError: without an index, unless there is one element.
            IndexError: where there is no such element.
        """
        return self.numpy().item(*args)

    if TYPE_CHECKING:

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
        return complex(self.item())

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
