"""Exchange of tensors with other libraries without a copy, by the DLPack protocol.

>>> import numpy as np
>>> array = np.arange(3, dtype="float32")
>>> from_dlpack(array)
Tensor([0. 1. 2.], device=xpux:0)
"""

from __future__ import annotations

from typing import Any

from .. import _core
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

_CPU, _PINNED = 1, 3  # device types of DLPack whose memory the CPU reads


def _expect_no_stream(op: str, stream: Any) -> None:
    if stream is not None:
        raise ValueError(f"{op}: expected stream=None, since the CPU has no streams; got {stream}")


def to_dlpack(tensor: Tensor, stream: None = None) -> Any:
    """A DLPack capsule with a copy of a tensor, for consumers of any age.

    Capsules of this kind, of before DLPack 1.0, cannot say that memory is read-only; so the
    consumer gets memory of its own. To share memory pass the tensor itself to the ``from_dlpack``
    of the other library, which asks for a newer capsule.

    Args:
        tensor: of any dtype and shape.
        stream: None.

    Raises:
        TypeError: for what is no Tensor.
        ValueError: for a stream.

    >>> import megengine as mge
    >>> from_dlpack(to_dlpack(mge.tensor([1.0, 2.0])))
    Tensor([1. 2.], device=xpux:0)
    """
    _expect_no_stream("to_dlpack", stream)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_dlpack: expected a Tensor, got {type(tensor).__name__}")
    return _core.to_dlpack(tensor, False)


def from_dlpack(
    ext_tensor: Any, stream: None = None, *, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A Tensor of another library's array, in the same memory where that is possible.

    The Tensor never writes into the memory, and keeps it alive. Whoever writes into it later
    changes the Tensor too, even one that a gradient still needs: pass ``copy=True`` where that may
    happen.

    Args:
        ext_tensor: what has ``__dlpack__`` and ``__dlpack_device__``, or a capsule, which can be
            consumed once.
        stream: None.
        device: of the Tensor; the default device without one.
        copy: True copies, False raises where a copy is needed; without it, memory that is not
            aligned to its elements is copied.

    Raises:
        TypeError: for what does not speak DLPack.
        ValueError: for a capsule that was consumed, and for a stream.
        BufferError: for memory that the CPU cannot read, a dtype that Tensors do not have, and
            where ``copy=False`` cannot be.

    >>> import numpy as np
    >>> array = np.zeros((2, 2), "int16")
    >>> x = from_dlpack(array)
    >>> np.shares_memory(x.numpy(), array)
    True
    """
    _expect_no_stream("from_dlpack", stream)
    if type(ext_tensor).__name__ == "PyCapsule":
        return _core.from_dlpack(ext_tensor, device, copy)
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(
            "from_dlpack: expected an array with __dlpack__ and __dlpack_device__, or a capsule, "
            f"got {type(ext_tensor).__name__}"
        )
    kind = int(ext_tensor.__dlpack_device__()[0])
    if kind not in (_CPU, _PINNED):
        raise BufferError(
            f"from_dlpack: expected memory of the CPU, got device type {kind}; move it to the CPU "
            "first"
        )
    try:
        capsule = ext_tensor.__dlpack__(max_version=(1, 0), copy=False if copy is False else None)
    except TypeError:
        capsule = ext_tensor.__dlpack__()  # a producer from before DLPack 1.0
    return _core.from_dlpack(capsule, device, copy)
