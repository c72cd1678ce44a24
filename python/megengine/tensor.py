"""Tensor and Parameter."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from . import _core
from ._core import CompNode, apply
from .core._imperative_rt.core2 import FormatType, set_py_tensor_type
from .core._trace_option import use_symbolic_shape
from .core.ops.builtin import Borrow, Copy, GetVarShape
from .core.tensor import array_method
from .core.tensor.array_method import ArrayMethodMixin
from .core.tensor.dtype import is_bfloat16
from .core.tensor.qparams import QParams, QuantMode
from .device import as_device, get_default_device
from .logger import get_logger

__all__ = [
    "ArrayMethodMixin",
    "Borrow",
    "CompNode",
    "Copy",
    "FormatType",
    "GetVarShape",
    "Parameter",
    "Tensor",
    "apply",
    "as_device",
    "get_default_device",
    "get_logger",
    "set_py_tensor_type",
    "tensor",
    "use_symbolic_shape",
]


class Tensor(_core.Tensor, ArrayMethodMixin):
    """A multi-dimensional array of one dtype on one device.

    Args:
        data: numbers, nested sequences of them, a NumPy array or a Tensor; it is copied. Gradients
            go through the copy of a Tensor.
        dtype: a NumPy dtype or its name. Without one, float64 data becomes float32 and 64-bit
            integers become int32 (with a warning where one does not fit).
        device: a name such as ``"cpu0"`` or ``"xpux"`` (any); the default device without one.
        name: a label.

    Raises:
        TypeError: for data that are not numbers or booleans.

    A Tensor is a slot that holds an immutable value: ``x[i] = v`` and ``x += y`` put a new value
    into the slot. So ``x[i][j] = v`` changes nothing: ``x[i]`` is a Tensor of its own.

    >>> import megengine as mge
    >>> mge.Tensor([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1. 2.]
     [3. 4.]], device=xpux:0)
    >>> mge.Tensor([1, 2, 3]).dtype
    dtype('int32')
    """

    @property
    def requires_grad(self) -> bool:
        """Reserved: gradients are asked for with :class:`~megengine.autodiff.GradManager`."""
        raise AttributeError("requires_grad is reserved for future use")

    @property
    def format(self) -> str:
        """The memory format that was asked for: ``"default"`` or ``"nhwc"``.

        It is a name that :func:`.amp.convert_tensor_format` and its kin leave; shapes are (N, C, H,
        W) in both, and strides say how the memory is laid out.
        """
        name: str = self.__dict__.get("_format", "default")
        return name

    @format.setter
    def format(self, name: str) -> None:
        if name not in ("default", "nchw", "nhwc"):
            raise ValueError(f"Tensor.format: expected 'default', 'nchw' or 'nhwc', got {name!r}")
        self.__dict__["_format"] = name

    @property
    def qparams(self) -> QParams:
        """How the tensor was quantised: empty until fake quantisation fills it in.

        >>> import megengine as mge
        >>> print(mge.tensor([1.0]).qparams.scale)
        None
        """
        found = self.__dict__.get("_qparams")
        if found is None:
            found = self.__dict__["_qparams"] = QParams(QuantMode.SYMMERTIC, None, None, None)
        return found

    def to(self, device: Any, *, _borrow: bool = False) -> Tensor:
        """The tensor on another device.

        >>> import megengine as mge
        >>> mge.tensor([1.0]).to("cpu0")
        Tensor([1.], device=cpu0:0)
        """
        return self._moved(device)

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """:meth:`to`, by the name that the array API standard gives it.

        Raises:
            ValueError: for a stream, which the CPU does not have.
        """
        if stream is not None:
            raise ValueError(
                f"to_device: expected stream=None, since the CPU has no streams; got {stream}"
            )
        return self.to(device)

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes swapped.

        Raises:
            ValueError: for fewer than two axes.

        >>> import megengine as mge
        >>> mge.tensor([[[1, 2]]]).mT.shape
        (1, 2, 1)
        """
        if self.ndim < 2:
            raise ValueError(f"mT: expected at least two axes, got shape {self.shape}")
        return functional.swapaxes(self, -1, -2)

    def set_value(self, value: Any) -> None:
        """Puts another value, of any shape, into this tensor."""
        self._reset(value)

    def reset_zero(self) -> None:
        """Sets every element to 0."""
        self *= 0

    def __repr__(self) -> str:
        with np.printoptions(precision=4, suppress=False):
            # NumPy prints bfloat16 less well than float32, which holds it exactly.
            array = self.numpy()
            text = str(array.astype(np.float32) if is_bfloat16(self.dtype) else array)
        dtype = "" if self.dtype == np.float32 else f", dtype={self.dtype}"
        return f"{type(self).__name__}({text}{dtype}, device={self.device})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if spec and self.size == 1:
            return format(self.item(), spec)
        return format(str(self), spec)

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        out = type(self)(self._copied())
        out.name = self.name
        out.__dict__.update(self.__dict__)
        if "_qparams" in out.__dict__:
            out.__dict__["_qparams"] = copy.copy(self.qparams)
        memo[id(self)] = out
        return out

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the Python array API standard: :mod:`megengine.array_api`.

        Operators between Tensors keep MegEngine's promotion; the functions follow the standard.

        Raises:
            ValueError: for another version of the standard than 2021.12 to 2025.12.
        """
        from . import array_api  # it needs this class

        known = array_api.info.VERSIONS
        if api_version is not None and api_version not in known:
            raise ValueError(
                f"__array_namespace__: expected one of {', '.join(known)}, got {api_version!r}"
            )
        return array_api

    def __dlpack__(
        self,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule: the same memory, marked as read-only, for DLPack 1.0 and later.

        Consumers of before that cannot be told, and get a copy.

        Raises:
            BufferError: for a device other than the CPU, and where ``copy=False`` cannot be.
            ValueError: for a stream.

        >>> import megengine as mge
        >>> import numpy as np
        >>> np.from_dlpack(mge.tensor([1.0, 2.0]))
        array([1., 2.], dtype=float32)
        """
        if stream is not None:
            raise ValueError(
                f"__dlpack__: expected stream=None, since the CPU has no streams; got {stream}"
            )
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(
                f"__dlpack__: expected dl_device=(1, 0), the CPU, got {tuple(dl_device)}"
            )
        versioned = max_version is not None and max_version[0] >= 1
        return _core.to_dlpack(self, versioned, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the device: (1, 0), the CPU."""
        return 1, 0

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # A call of the class, which the reference's unpickler understands too.
        array = np.asarray(self.numpy(), order="C")
        return type(self), (array, self.dtype, str(self.device))


tensor = Tensor


class Parameter(Tensor):
    """A Tensor that a module owns and an optimizer updates.

    >>> import megengine as mge
    >>> mge.Parameter([1.0, 2.0])
    Parameter([1. 2.], device=xpux:0)
    """


_core.set_tensor_class(Tensor)

# Last, because megengine.functional imports the classes above.
from . import functional  # noqa: E402

array_method.F, array_method._tensor_class = functional, Tensor
