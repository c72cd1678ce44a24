"""What the sections share: the standard's promotion, and functions that NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from ..tensor import Tensor
from ..utils import dlpack

Number = bool | int | float | complex

# The kinds of dtypes beside which a Python number may stand.
_BESIDE = {bool: "b", int: "iufcV", float: "fcV", complex: "c"}


def kind(dtype: Any) -> str:
    """NumPy's letter of a dtype's kind; bfloat16 counts as a float."""
    letter = np.dtype(dtype).kind
    return "f" if letter == "V" else letter


def expect(op: str, *tensors: Any, kinds: str = "biufc") -> None:
    """Raises TypeError for what is no Tensor of a dtype of these kinds."""
    names = {"b": "bool", "i": "signed", "u": "unsigned", "f": "float", "c": "complex"}
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"{op}: expected a Tensor, got {type(x).__name__}")
        if kind(x.dtype) not in kinds:
            wanted = ", ".join(names[k] for k in kinds)
            raise TypeError(f"{op}: expected a dtype of the kinds {wanted}; got {x.dtype}")


def promoted_dtype(op: str, *dtypes: Any) -> np.dtype[Any]:
    """The dtype that the standard promotes to; TypeError where it has no rule."""
    kinds = {kind(d) for d in dtypes}
    mixed = kinds == {"i", "u"} and any(d == np.uint64 for d in dtypes)
    if mixed or not (kinds <= {"i", "u"} or kinds <= {"f", "c"} or len(kinds) == 1):
        raise TypeError(
            f"{op}: the standard does not promote {', '.join(str(d) for d in dtypes)}; cast with "
            "astype()"
        )
    out = dtypes[0]
    for other in dtypes[1:]:
        out = np.result_type(out, other)
    return np.dtype(out)


def promoted(op: str, *operands: Any, kinds: str = "biufc") -> list[Tensor]:
    """Tensors and Python numbers as Tensors of the common dtype; numbers take that of the rest."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        raise TypeError(f"{op}: expected a Tensor among the operands")
    expect(op, *tensors, kinds=kinds)
    dtype = promoted_dtype(op, *(x.dtype for x in tensors))
    if kind(dtype) == "f" and "c" in kinds and any(type(x) is complex for x in operands):
        dtype = np.result_type(dtype, np.complex64)
    out = []
    for x in operands:
        if isinstance(x, Tensor):
            out.append(x if x.dtype == dtype else x.astype(dtype))
            continue
        if type(x) not in _BESIDE:
            raise TypeError(f"{op}: expected Tensors and numbers, got {type(x).__name__}")
        if kind(dtype) not in _BESIDE[type(x)]:
            raise TypeError(f"{op}: {x!r} has no place beside {dtype}; cast with astype()")
        out.append(Tensor(np.asarray(x).astype(dtype), dtype=dtype, device=tensors[0].device))
    return out


def from_array(array: Any, device: Any = None) -> Tensor:
    """A NumPy result as a Tensor of its dtype: in its memory, if nothing else is."""
    array = np.asarray(array)
    if array.flags.owndata and array.flags.writeable and array.size and array.dtype.kind != "V":
        return dlpack.from_dlpack(array, device=device)
    return Tensor(array, dtype=array.dtype, device=device)


def expect_no_gradient(op: str, *tensors: Tensor) -> None:
    """Raises where a gradient of what NumPy computes is asked for."""
    if _core.is_recording() and any(kind(x.dtype) in "fc" for x in tensors):
        raise NotImplementedError(
            f"array_api.{op}: it has no gradient for {tensors[0].dtype}; call it outside of the "
            "GradManager's record, or compose it of megengine.functional"
        )


def in_numpy(op: str, function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """What NumPy computes, since the core has no kernel for it, and so no gradient."""
    expect_no_gradient(op, *tensors)
    with np.errstate(all="ignore"):
        return from_array(function(*(x.numpy() for x in tensors)), tensors[0].device)


def axes_of(op: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """An axis, several, or None for all, as numbers from 0."""
    if axis is None:
        return tuple(range(ndim))
    out = []
    for a in axis if isinstance(axis, tuple) else (axis,):
        if not -ndim <= a < ndim:
            raise ValueError(f"{op}: axis {a} is out of range for {ndim} dimensions")
        out.append(a % ndim)
    return tuple(out)
