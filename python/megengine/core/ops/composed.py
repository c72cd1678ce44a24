"""Ops that are made of other ops, in Python.

They are used like the ops of the core, ``apply(builtin.MaskedFill(value=0.0), x, mask)``. Gradients
come from the ops that they are made of.
"""

from __future__ import annotations

import enum
import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ... import _core
from ..._core import apply

if TYPE_CHECKING:
    from ...tensor import Tensor

__all__ = [
    "AssertEqual",
    "AtlasRuntime",
    "Barrier",
    "Borrow",
    "CambriconRuntime",
    "CollectiveComm",
    "ElemwiseMultiType",
    "ExternOpr",
    "FastpathCopy",
    "GetVarShape",
    "InplaceAdd",
    "MagicMindRuntime",
    "MaskedFill",
    "MeshGrid",
    "NvOf",
    "ParamPackConcat",
    "ParamPackSplit",
    "PyOpBase",
    "RemoteRecv",
    "RemoteSend",
    "TensorRTRuntime",
]


def _functional() -> Any:
    # Imported late: the functions are built on the ops.
    from ... import functional

    return functional


def _op(name: str, **fields: Any) -> Any:
    from . import builtin

    return getattr(builtin, name)(**fields)


class PyOpBase(_core.PyOpBase):
    """Base of ops that are written in Python.

    A subclass lists its attributes with their defaults in ``_fields`` and defines
    ``_apply(*inputs)``, which returns a list or tuple of Tensors. What it computes by ops and
    functions is differentiated.

    >>> import megengine as mge
    >>> from megengine.core.ops import builtin
    >>> from megengine.core._imperative_rt.core2 import apply
    >>> class Scale(builtin.PyOpBase):
    ...     _fields = {"factor": 1.0}
    ...     def _apply(self, x):
    ...         return [x * self.factor]
    >>> apply(Scale(factor=3.0), mge.tensor([1.0, 2.0]))
    (Tensor([3. 6.], device=xpux:0),)
    """

    _fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        name = type(self).__name__
        if len(args) > len(self._fields):
            raise TypeError(f"{name}: takes at most {len(self._fields)} arguments, got {len(args)}")
        kwargs.pop("scope", None)  # a label that the reference's ops carry
        given = dict(zip(self._fields, args, strict=False))
        for field in kwargs:
            if field not in self._fields:
                raise TypeError(f"{name}: has no field {field!r}")
            if field in given:
                raise TypeError(f"{name}: field {field!r} is given twice")
        for field, value in {**self._fields, **given, **kwargs}.items():
            setattr(self, field, self._checked(field, value))

    def _checked(self, field: str, value: Any) -> Any:
        """The value of a field as it is kept; raises for one that makes no sense."""
        return value

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply()")

    def _values(self) -> list[Any]:
        return [getattr(self, field) for field in self._fields]

    def __repr__(self) -> str:
        fields = ", ".join(f"{f}={v!r}" for f, v in zip(self._fields, self._values(), strict=True))
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(repr(self))

    def _expect(self, inputs: Sequence[Any], *counts: int) -> None:
        """Raises unless there are as many inputs as one of the counts, all of them Tensors."""
        name = type(self).__name__
        if len(inputs) not in counts:
            wanted = " or ".join(str(n) for n in counts)
            raise TypeError(f"{name}: expected {wanted} inputs, got {len(inputs)}")
        self._expect_tensors(inputs)

    def _expect_tensors(self, inputs: Sequence[Any]) -> None:
        for x in inputs:
            if not isinstance(x, _core.Tensor):
                raise TypeError(
                    f"{type(self).__name__}: expected Tensors as inputs, got {type(x).__name__}"
                )


# ---- copies and shapes --------------------------------------------------------------------------


class Borrow(PyOpBase):
    """(x): the same elements under the name of another device; no copy on one machine."""

    _fields: ClassVar[dict[str, Any]] = {"comp_node": None}

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect(inputs, 1)
        if self.comp_node is None:
            return apply(_op("Identity"), inputs[0])
        return [inputs[0]._moved(self.comp_node)]


class FastpathCopy(PyOpBase):
    """(x): the same elements as a Tensor of its own."""

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect(inputs, 1)
        return apply(_op("Identity"), inputs[0])


class GetVarShape(PyOpBase):
    """(x, ...): the shape to which the inputs broadcast, an int32 vector.

    ``axis`` picks one of its sizes; 7, the default, means all.
    """

    _fields: ClassVar[dict[str, Any]] = {"axis": 7}

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        if not inputs:
            raise TypeError("GetVarShape: expected at least one input")
        self._expect_tensors(inputs)
        try:
            shape = np.broadcast_shapes(*(x.shape for x in inputs))
        except ValueError:
            shapes = ", ".join(str(x.shape) for x in inputs)
            raise ValueError(f"GetVarShape: the shapes {shapes} do not broadcast") from None
        if self.axis != 7:
            if not -len(shape) <= self.axis < len(shape):
                raise ValueError(
                    f"GetVarShape: expected an axis in [{-len(shape)}, {len(shape)}), got "
                    f"{self.axis}"
                )
            shape = (shape[self.axis],)
        from ...tensor import Tensor

        return [Tensor(np.array(shape, np.int32), device=inputs[0].device)]


# ---- made of a few ops --------------------------------------------------------------------------


class AssertEqual(PyOpBase):
    """(expect, get), or these and the error of each element: gives ``expect`` back.

    Raises RuntimeError where an error is above ``maxerr``, or NaN. Without a third input the error
    is the difference, divided by the smaller of the two magnitudes where that is above 1.
    ``verbose`` adds the values to the message.
    """

    _fields: ClassVar[dict[str, Any]] = {"maxerr": 1e-4, "verbose": False}

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect(inputs, 2, 3)
        expect, get = (np.asarray(x.numpy(), np.float64) for x in inputs[:2])
        if len(inputs) == 3:
            error = np.asarray(inputs[2].numpy(), np.float64)
        else:
            error = np.abs(expect - get) / np.maximum(np.minimum(np.abs(expect), np.abs(get)), 1)
        if error.size and not (error <= self.maxerr).all():
            detail = f"; expected {expect.tolist()}, got {get.tolist()}" if self.verbose else ""
            raise RuntimeError(
                f"AssertEqual: expected errors of at most {self.maxerr:g}, got {error.max():g}"
                f"{detail}"
            )
        return [inputs[0]]


class InplaceAdd(PyOpBase):
    """(dest, delta, alpha, beta): alpha * dest + beta * delta, in dest's dtype."""

    def operands(self, *inputs: Any) -> tuple[Any, ...]:
        """Dest and the other three operands of the fused op, in its order and one dtype."""
        self._expect(inputs, 4)
        dest, delta, alpha, beta = inputs
        if delta.shape not in ((), dest.shape):
            raise ValueError(
                f"InplaceAdd: expected delta of the shape {dest.shape} of dest or of no "
                f"dimensions, got {delta.shape}"
            )
        if alpha.size != 1 or beta.size != 1:
            raise ValueError("InplaceAdd: expected one number each as alpha and beta")
        if dest.dtype.kind == "b":
            raise TypeError("InplaceAdd: expected numbers, got bool")
        dtype = dest.dtype
        alpha, beta = (x.reshape(()).astype(dtype) for x in (alpha, beta))
        return dest, alpha, delta.astype(dtype), beta

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        return apply(_op("Elemwise", mode="FUSE_MUL_ADD4"), *self.operands(*inputs))


class MaskedFill(PyOpBase):
    """(x, mask): x with ``value`` where the bool mask is true; no gradient goes there.

    The mask covers x's first axes.
    """

    _fields: ClassVar[dict[str, Any]] = {"value": 0.0}

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect(inputs, 2)
        x, mask = inputs
        if mask.dtype.kind != "b":
            raise TypeError(f"MaskedFill: expected a bool mask, got {mask.dtype}")
        if mask.shape != x.shape[: mask.ndim]:
            raise ValueError(
                f"MaskedFill: expected a mask of the first sizes of {x.shape}, got {mask.shape}"
            )
        F = _functional()
        mask = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
        value = F.full((), self.value, dtype=x.dtype, device=x.device)
        return [F.where(mask, value, x)]


class MeshGrid(PyOpBase):
    """(x, y, ...): the coordinates of each point of a grid; see ``functional.meshgrid``."""

    _fields: ClassVar[dict[str, Any]] = {"indexing": "xy"}

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect_tensors(inputs)
        return list(_functional().meshgrid(*inputs, indexing=self.indexing))


class ParamPackConcat(PyOpBase):
    """(x, y, ...) or (x, y, ..., offsets): the elements of all in one vector.

    ``offsets`` holds the begin and the end of each part, one after the other; gaps between parts
    hold zeros. A last int32 input repeats it, as the reference wants it.
    """

    _fields: ClassVar[dict[str, Any]] = {"offsets": ()}

    def _checked(self, field: str, value: Any) -> Any:
        return [int(v) for v in value]

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect_tensors(inputs)
        spans = _spans("ParamPackConcat", self.offsets)
        if len(inputs) == len(spans) + 1 and inputs[-1].dtype.kind == "i":
            inputs = inputs[:-1]
        if len(inputs) != len(spans) or not inputs:
            raise ValueError(
                f"ParamPackConcat: expected an input for each of {len(spans)} parts, got "
                f"{len(inputs)}"
            )
        F = _functional()
        parts, end = [], 0
        for x, (begin, stop) in zip(inputs, spans, strict=True):
            if x.size != stop - begin or x.dtype != inputs[0].dtype:
                raise ValueError(
                    f"ParamPackConcat: expected {inputs[0].dtype} of {stop - begin} elements at "
                    f"{begin}, got {x.dtype} of {x.size}"
                )
            if begin > end:
                parts.append(F.zeros((begin - end,), dtype=x.dtype, device=x.device))
            parts.append(x.reshape(-1))
            end = stop
        return [F.concat(parts)]


class ParamPackSplit(PyOpBase):
    """(packed): the parts that :class:`ParamPackConcat` put together, in ``shapes``."""

    _fields: ClassVar[dict[str, Any]] = {"offsets": (), "shapes": ()}

    def _checked(self, field: str, value: Any) -> Any:
        if field == "offsets":
            return [int(v) for v in value]
        return [[int(n) for n in shape] for shape in value]

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect(inputs, 1)
        (packed,) = inputs
        spans = _spans("ParamPackSplit", self.offsets)
        if packed.ndim != 1 or len(spans) != len(self.shapes):
            raise ValueError(
                f"ParamPackSplit: expected a vector and a shape for each of {len(spans)} parts, "
                f"got shape {packed.shape} and {len(self.shapes)} shapes"
            )
        if spans and spans[-1][1] > packed.size:
            raise ValueError(f"ParamPackSplit: expected {spans[-1][1]} elements, got {packed.size}")
        return [
            packed[begin:end].reshape(*shape)
            for (begin, end), shape in zip(spans, self.shapes, strict=True)
        ]


def _spans(name: str, offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Begin and end of each part; raises where they overlap."""
    if len(offsets) % 2 or any(a > b for a, b in itertools.pairwise([0, *offsets])):
        raise ValueError(f"{name}: expected rising pairs of offsets, got {list(offsets)}")
    return list(zip(offsets[::2], offsets[1::2], strict=True))


# ---- operands of several dtypes -----------------------------------------------------------------

_QUANTIZED = (
    "RELU ABS ACOS ASIN CEIL COS EXP EXPM1 FLOOR LOG LOG1P NEGATE SIGMOID SIN TANH FAST_TANH ROUND "
    "ERF ERFINV ERFC ERFCINV H_SWISH FUSE_ADD_RELU ABS_GRAD ADD FLOOR_DIV MAX MIN MOD MUL POW "
    "SIGMOID_GRAD SUB SWITCH_GT0 TANH_GRAD TRUE_DIV LOG_SUM_EXP LT LEQ EQ FUSE_ADD_SIGMOID "
    "FUSE_ADD_TANH FAST_TANH_GRAD ATAN2 H_SWISH_GRAD FUSE_ADD_H_SWISH FUSE_MUL_ADD3 COND_LEQ_MOV "
    "COND_LT_MOV"
)
_MULTI_TYPE = (
    "FUSE_MUL_ADD3_INT16x32x32x32 FUSE_MUL_ADD3_IXxF32xF32xI8 ROUND_SHR_SATURATE_IXxI8xI8 "
    "FUSE_ADD_RMULH_ROUND_SHR_SATURATE_INT16x16x16x8 "
    "FUSE_ADD_RMULH_ROUND_SHR_SATURATE_INT32x32x32x8 ROUND_SHR_SATURATE_IXxI8xI16 "
    "FUSE_MUL_ADD3_INT16xF32xF32xF32 MUL_INT16xF32xF32 FUSE_MUL_ADD3_UINT8xF32xF32xF32 "
    "EQ NEQ LT LEQ ISNAN ISINF"
)


class ElemwiseMultiType(PyOpBase):
    """Elementwise functions whose operands and result have different dtypes.

    ``EQ``, ``LT``, ``ISNAN`` and the like give bool; ``FUSE_MUL_ADD3_*`` computes x * y + z,
    ``ROUND_SHR_SATURATE_*`` (x, k) x / 2^k rounded half away from zero and clipped to the dtype of
    the result, ``FUSE_ADD_RMULH_ROUND_SHR_SATURATE_*`` (x, y, m, k, low, high) the same of the high
    half of (x + y) * m, clipped to [low, high]. The modes that begin with ``Q`` are for quantised
    tensors, which this release has not: they raise NotImplementedError.
    """

    Mode = enum.Enum(  # type: ignore[misc]
        "Mode",
        [*_MULTI_TYPE.split(), *("Q" + name for name in _QUANTIZED.split())],
        qualname="ElemwiseMultiType.Mode",
        module="megengine.core.ops.builtin",
    )
    _fields: ClassVar[dict[str, Any]] = {"mode": "FUSE_MUL_ADD3_INT16x32x32x32", "dtype": None}

    def _checked(self, field: str, value: Any) -> Any:
        if field != "mode" or isinstance(value, self.Mode):
            return value
        try:
            return self.Mode[value]
        except KeyError:
            raise ValueError(f"ElemwiseMultiType: unknown mode {value!r}") from None

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        name = self.mode.name
        if name.startswith("Q"):
            raise NotImplementedError(
                f"ElemwiseMultiType: {name} needs quantised tensors, which are not supported yet; "
                "compute in float32 with functional.elemwise"
            )
        if name in ("EQ", "NEQ", "LT", "LEQ", "ISNAN", "ISINF"):
            self._expect(inputs, 1 if name.startswith("IS") else 2)
            out = apply(_op("Elemwise", mode=name), *inputs)[0]
        elif name.startswith("ROUND_SHR"):
            self._expect(inputs, 2)
            bits = 8 if name.endswith("xI8xI8") else 16
            out = _round_shift(inputs[0], inputs[1], -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            out = out.astype(f"int{bits}")
        elif name.startswith("FUSE_ADD_RMULH"):
            self._expect(inputs, 6)
            out = _requantize(*inputs)
        else:
            out = self._multiply_add(name, inputs)
        return [out if self.dtype is None else out.astype(self.dtype)]

    def _multiply_add(self, name: str, inputs: Sequence[Any]) -> Any:
        self._expect(inputs, 2 if name.startswith("MUL") else 3)
        wide = "int32" if name.endswith("32x32x32") and "F32" not in name else "float32"
        out = inputs[0].astype(wide) * inputs[1].astype(wide)
        if len(inputs) == 3:
            out = out + inputs[2].astype(wide)
        if not name.endswith("xI8"):
            return out
        F = _functional()
        return F.clip(_round_half_even(out), -128.0, 127.0).astype("int8")


def _round_half_even(x: Any) -> Any:
    F = _functional()
    near = F.floor(x + 0.5)
    tie = F.equal(near - x, 0.5)
    odd = F.not_equal(near * 0.5, F.floor(near * 0.5))
    return F.where(F.logical_and(tie, odd), near - 1, near)


def _round_shift(x: Any, shift: Any, low: Any, high: Any) -> Any:
    """Rounds x / 2^shift, half away from zero, in [low, high]: exact in float64."""
    F = _functional()
    if x.dtype.kind not in "iu" or shift.dtype.kind not in "iu":
        raise TypeError(
            f"ElemwiseMultiType: expected integers to shift, got {x.dtype} and {shift.dtype}"
        )
    base = F.full((), 2.0, dtype="float64", device=x.device)
    scaled = x.astype("float64") / F.pow(base, shift.astype("float64"))
    return F.minimum(F.maximum(F.round(scaled), low), high)


def _requantize(x: Any, y: Any, factor: Any, shift: Any, low: Any, high: Any) -> Any:
    (product,) = apply(_op("Elemwise", mode="RMULH"), x + y, factor)
    bounds = low.astype("float64"), high.astype("float64")
    return _round_shift(product, shift, *bounds).astype("int8")


# ---- several processes --------------------------------------------------------------------------


class Barrier(PyOpBase):
    """(x, ...): ``nr_outputs`` empty int32 Tensors, when all inputs are there: at once, here."""

    _fields: ClassVar[dict[str, Any]] = {"comp_node": None, "nr_outputs": 0}

    def _checked(self, field: str, value: Any) -> Any:
        if field == "nr_outputs" and not 0 <= operator.index(value) <= 65536:
            raise ValueError(f"Barrier: expected nr_outputs in [0, 65536], got {value}")
        return value

    def _apply(self, *inputs: Any) -> Sequence[Tensor]:
        self._expect_tensors(inputs)
        F = _functional()
        return [F.zeros((0,), dtype="int32", device=self.comp_node) for _ in range(self.nr_outputs)]


class _NotHere(PyOpBase):
    """An op that needs what this build has not: using it raises."""

    _needs: ClassVar[str] = ""

    def _apply(self, *inputs: Any) -> NoReturn:
        raise RuntimeError(f"{type(self).__name__}: {self._needs}")


class _OneProcess(_NotHere):
    _needs: ClassVar[str] = (
        "this build of OpenMGE runs in one process; ops between processes are not supported yet. "
        "Train in one process, which uses all cores"
    )


class RemoteSend(_OneProcess):
    """Would send a Tensor to another process; raises RuntimeError."""

    _fields: ClassVar[dict[str, Any]] = {
        "key": "",
        "addr": "",
        "port": 0,
        "rank_to": 0,
        "backend": "",
    }


class RemoteRecv(_OneProcess):
    """Would receive a Tensor from another process; raises RuntimeError."""

    _fields: ClassVar[dict[str, Any]] = {
        "key": "",
        "addr": "",
        "port": 0,
        "rank_from": 0,
        "cn": None,
        "shape": (),
        "dtype": None,
        "backend": "",
    }


class CollectiveComm(_OneProcess):
    """Would combine the Tensors of several processes; raises RuntimeError."""

    Mode = enum.Enum(
        "Mode",
        "REDUCE_SUM BROADCAST ALL_GATHER REDUCE_SCATTER_SUM ALL_REDUCE_SUM ALL_REDUCE_MAX "
        "ALL_REDUCE_MIN ALL_REDUCE_PROD GATHER SCATTER ALL_TO_ALL",
        qualname="CollectiveComm.Mode",
        module="megengine.core.ops.builtin",
    )
    _fields: ClassVar[dict[str, Any]] = {
        "mode": "REDUCE_SUM",
        "key": "",
        "nr_devices": 0,
        "rank": 0,
        "is_root": False,
        "local_grad": False,
        "addr": "",
        "port": 0,
        "dtype": None,
        "backend": "",
        "comp_node": "",
    }

    def _checked(self, field: str, value: Any) -> Any:
        if field != "mode" or isinstance(value, self.Mode):
            return value
        try:
            return self.Mode[value]
        except KeyError:
            raise ValueError(f"CollectiveComm: unknown mode {value!r}") from None


# ---- models of other runtimes -------------------------------------------------------------------


class _Runtime(_NotHere):
    _fields: ClassVar[dict[str, Any]] = {"buf": b"", "buf_size": 0}


class TensorRTRuntime(_Runtime):
    """Would run a TensorRT engine; raises RuntimeError."""

    _needs: ClassVar[str] = (
        "this build of OpenMGE has no TensorRT, which needs a CUDA device; run the model that the "
        "engine was made from"
    )


class AtlasRuntime(_Runtime):
    """Would run a model of an Atlas device; raises RuntimeError."""

    _needs: ClassVar[str] = (
        "there is no Atlas device; run the model that the offline model was made from"
    )


class CambriconRuntime(_Runtime):
    """Would run a model of a Cambricon device; raises RuntimeError."""

    _fields: ClassVar[dict[str, Any]] = {
        "buf": b"",
        "buf_size": 0,
        "symbol": "",
        "tensor_dim_mutable": False,
    }
    _needs: ClassVar[str] = (
        "there is no Cambricon device; run the model that the offline model was made from"
    )


class MagicMindRuntime(_Runtime):
    """Would run a MagicMind model; raises RuntimeError."""

    _needs: ClassVar[str] = (
        "there is no Cambricon device; run the model that the offline model was made from"
    )


class ExternOpr(_NotHere):
    """Would run code that a loader library brings; raises RuntimeError."""

    _fields: ClassVar[dict[str, Any]] = {
        "output_shapes": (),
        "name": "",
        "data": b"",
        "data_len": 0,
        "output_dtypes": (),
    }
    _needs: ClassVar[str] = (
        "libraries of foreign ops cannot be loaded; write the op in Python, as an "
        "autodiff.Function or a module"
    )


class NvOf(_NotHere):
    """Would compute optical flow on an NVIDIA device; raises RuntimeError."""

    _fields: ClassVar[dict[str, Any]] = {"precision": 1}
    _needs: ClassVar[str] = (
        "this build of OpenMGE has no CUDA device with an optical flow unit; compute the flow with "
        "functional.vision.correlation and a model, or with OpenCV"
    )
