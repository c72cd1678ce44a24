"""Collectives on memory: Tensors in and out, without gradients.

Each first compares what the processes bring, in a message of 128 bytes: a call whose shapes or
dtypes differ raises on all of them, and moves nothing. Then MPI reads and writes the memory of
Tensors itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..tensor import Tensor
from .group import Communicator
from .runtime import Job

Array = np.ndarray[Any, Any]

_CALLS = (
    "all_reduce_sum",
    "all_reduce_max",
    "all_reduce_min",
    "broadcast",
    "reduce_sum",
    "all_gather",
    "reduce_scatter_sum",
    "gather",
    "scatter",
    "all_to_all",
    "remote_send",
)
_HEADER = 16  # numbers: call, dtype, ndim, 8 sizes, 2 details
_TAG_HEADER, _TAG_DATA = 1, 2


# ---- memory ------------------------------------------------------------------------------------


def fresh(shape: Sequence[int], dtype: Any, device: Any = None) -> tuple[Tensor, Array]:
    """A Tensor without contents yet, and its memory to write them to before anybody sees it."""
    tensor, memory = _core.unwritten(tuple(shape), dtype, device)
    dtype = tensor.dtype
    array: Array = np.frombuffer(memory, np.uint8, count=tensor.size * dtype.itemsize)
    return tensor, array.view(dtype).reshape(tensor.shape)


def contents(x: Tensor) -> Array:
    """The values of a Tensor, row-major; its own memory where that is in this order."""
    array: Array = x.numpy()
    return array if array.flags.c_contiguous else array.copy(order="C")


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


# ---- agreement ---------------------------------------------------------------------------------


def _header(call: str, x: Tensor, details: Sequence[int]) -> Array:
    header: Array = np.zeros(_HEADER, np.int64)
    names = _core.dtype_names()
    header[:3] = _CALLS.index(call), names.index(x.dtype.name), x.ndim
    header[3 : 3 + x.ndim] = x.shape
    header[11 : 11 + len(details)] = details
    return header


def _described(header: Array) -> str:
    call, dtype, ndim = (int(n) for n in header[:3])
    shape = tuple(int(n) for n in header[3 : 3 + ndim])
    details = [int(n) for n in header[11:13]]
    axes = {"all_to_all": f", axes {details}"}.get(_CALLS[call], f", axis {details[0]}")
    has_axis = _CALLS[call] in (
        "all_gather",
        "reduce_scatter_sum",
        "gather",
        "scatter",
        "all_to_all",
    )
    return f"{_CALLS[call]} of {_core.dtype_names()[dtype]} {shape}{axes if has_axis else ''}"


def agree(c: Communicator, call: str, x: Tensor, details: Sequence[int] = ()) -> None:
    """Raises on all processes where they do not call the same with the same shapes and dtypes.

    Raises:
        ValueError: they do not; the message says who brought what.
        RankError: a process failed.
    """
    c.job.enter(call)
    own = _header(call, x, details)
    everyone: Array = np.empty((c.size, _HEADER), np.int64)
    c.job.wait(c.comm.Iallgather(own, everyone), call, c.ranks)
    if (everyone != own).any():
        c.job.leave_call()
        brought: dict[str, list[int]] = {}
        for rank, header in zip(c.ranks, everyone, strict=True):
            brought.setdefault(_described(header), []).append(rank)
        text = ", ".join(f"{what} from ranks {ranks}" for what, ranks in brought.items())
        raise ValueError(
            f"{call}: expected the same call, shape and dtype from all of ranks {list(c.ranks)}, "
            f"got {text}"
        )


def _finish(c: Communicator, request: Any, call: str, nbytes: int) -> None:
    c.job.wait(request, call, c.ranks, nbytes)
    c.job.leave_call()


# ---- reductions --------------------------------------------------------------------------------

# 16-bit floats are summed in float32 and rounded once; small integers in int32, so that a sum which
# does not fit is seen.
_WORKING = {"float16": "float32", "bfloat16": "float32"}
_WORKING_SUM = dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32")


def working_dtype(call: str, how: str, dtype: np.dtype[Any]) -> str:
    """The dtype in which values of another are reduced.

    Raises:
        TypeError: this kind of value has no such reduction.
    """
    name = dtype.name
    if name == "bool" and how == "sum":
        raise TypeError(f"{call}: expected numbers, got bool; convert it to an integer dtype first")
    if name.startswith("complex") and how != "sum":
        raise TypeError(f"{call}: complex numbers have no order, got {name}")
    if how == "sum":
        name = _WORKING_SUM.get(name, name)
    return _WORKING.get(name, name)


def _operation(job: Job, how: str, dtype: np.dtype[Any]) -> Any:
    """MPI's operation; for the extremes of floats one that lets NaN win, as NumPy does."""
    if how == "sum":
        return job.mpi.SUM
    if dtype.kind != "f":
        return job.mpi.MAX if how == "max" else job.mpi.MIN
    key = (how, dtype.name)
    if key not in job.operations:
        better = np.maximum if how == "max" else np.minimum

        def combine(a: Any, b: Any, _: Any) -> None:
            into = np.frombuffer(b, dtype)
            better(np.frombuffer(a, dtype), into, out=into)

        job.operations[key] = job.mpi.Op.Create(combine, commute=True)
    return job.operations[key]


def _rounded(call: str, total: Tensor, dtype: np.dtype[Any]) -> Tensor:
    if total.dtype == dtype:
        return total
    if dtype.kind in "iu":
        array = total.numpy()
        limits = np.iinfo(dtype)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise OverflowError(
                f"{call}: a sum of {dtype.name} is out of its range "
                f"[{limits.min}, {limits.max}]; convert to int32 first"
            )
    return total.astype(dtype)


# Values that leave the caches are added up piece by piece, two of them under way: what MPI passes
# on in between stays there.
_WHOLE, _PIECE = 32 << 20, 4 << 20

_MPI_NAMES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
    "bool": "UINT8_T",
}


def numbers(job: Job, array: Array) -> list[Any]:
    """Memory and the dtype by which MPI reduces it; it knows no bools, which are bytes."""
    name = array.dtype.name
    memory = array.view(np.uint8) if name == "bool" else array
    return [memory, getattr(job.mpi, _MPI_NAMES.get(name, f"{name.upper()}_T"))]


def all_reduce(c: Communicator, call: str, x: Tensor, how: str) -> Tensor:
    """The sum, maximum or minimum over the processes."""
    work = working_dtype(call, how, x.dtype)
    agree(c, call, x)
    inp = x.astype(work) if work != x.dtype.name else x
    out, memory = fresh(x.shape, work, x.device)
    operation = _operation(c.job, how, memory.dtype)
    source, target = contents(inp).reshape(-1), memory.reshape(-1)
    length = _PIECE if memory.nbytes > _WHOLE else memory.nbytes
    length = max(1, length // target.itemsize)
    under_way: deque[Any] = deque()
    for begin in range(0, x.size, length):
        part = slice(begin, begin + length)
        into = numbers(c.job, target[part])
        under_way.append(c.comm.Iallreduce(numbers(c.job, source[part]), into, operation))
        if len(under_way) == 2:
            c.job.wait(under_way.popleft(), call, c.ranks, _PIECE)
    for request in under_way:
        c.job.wait(request, call, c.ranks, memory.nbytes)
    c.job.leave_call()
    return _rounded(call, out, x.dtype)


def reduce_sum(c: Communicator, x: Tensor) -> Tensor | None:
    """The sum over the processes, at the first one of the group."""
    call = "reduce_sum"
    work = working_dtype(call, "sum", x.dtype)
    agree(c, call, x)
    inp = x.astype(work) if work != x.dtype.name else x
    out, memory = fresh(x.shape if c.rank == 0 else (0,), work, x.device)
    if x.size:
        into = numbers(c.job, memory) if c.rank == 0 else None
        request = c.comm.Ireduce(numbers(c.job, contents(inp)), into, c.job.mpi.SUM, 0)
        _finish(c, request, call, contents(inp).nbytes)
    else:
        c.job.leave_call()
    return _rounded(call, out, x.dtype) if c.rank == 0 else None


def reduce_scatter_sum(c: Communicator, x: Tensor, axis: int) -> Tensor:
    """The sum over the processes, of which each keeps its part along an axis."""
    call = "reduce_scatter_sum"
    work = working_dtype(call, "sum", x.dtype)
    axis = checked_axis(call, x, axis)
    agree(c, call, x, [axis])
    parts = in_parts(call, x.astype(work) if work != x.dtype.name else x, axis, c.size)
    out, memory = fresh(parts.shape[1:], work, x.device)
    if x.size:
        request = c.comm.Ireduce_scatter_block(
            numbers(c.job, parts), numbers(c.job, memory), c.job.mpi.SUM
        )
        _finish(c, request, call, parts.nbytes)
    else:
        c.job.leave_call()
    return _rounded(call, out, x.dtype)


# ---- moves -------------------------------------------------------------------------------------


def checked_axis(call: str, x: Tensor, axis: int) -> int:
    """An axis, counted from the first; raises ValueError where there is no such one."""
    ndim = max(x.ndim, 1)
    if not -ndim <= axis < ndim:
        raise ValueError(f"{call}: expected an axis in [{-ndim}, {ndim}), got {axis}")
    return axis % ndim


def in_parts(call: str, x: Tensor, axis: int, n: int) -> Array:
    """The values as n equal parts along an axis, one after the other."""
    if x.ndim == 0 or x.shape[axis] % n:
        raise ValueError(
            f"{call}: expected a size along axis {axis} that the group's {n} processes divide, got "
            f"shape {tuple(x.shape)}"
        )
    array = contents(x)
    shape = (*array.shape[:axis], n, array.shape[axis] // n, *array.shape[axis + 1 :])
    parts = np.moveaxis(array.reshape(shape), axis, 0)
    return parts if parts.flags.c_contiguous else parts.copy(order="C")


def joined(parts: Tensor, axis: int) -> Tensor:
    """Parts, one after the other along a first axis, side by side along an axis of theirs."""
    n, *shape = parts.shape
    if not shape:
        return parts
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    shape[axis] *= n
    return (parts if axis == 0 else parts.transpose(order)).reshape(shape)


def broadcast(c: Communicator, x: Tensor) -> Tensor:
    """The values of the first process of the group, at all."""
    call = "broadcast"
    agree(c, call, x)
    if c.rank == 0:
        out, memory = x.detach(), contents(x)
    else:
        out, memory = fresh(x.shape, x.dtype, x.device)
    _finish(c, c.comm.Ibcast([_bytes(memory), c.job.mpi.BYTE], 0), call, memory.nbytes)
    return out


def all_gather(c: Communicator, x: Tensor, axis: int) -> Tensor:
    """The values of all processes, side by side along an axis."""
    call = "all_gather"
    axis = checked_axis(call, x, axis)
    agree(c, call, x, [axis])
    out, memory = fresh((c.size, *x.shape), x.dtype, x.device)
    byte = c.job.mpi.BYTE
    request = c.comm.Iallgather([_bytes(contents(x)), byte], [_bytes(memory), byte])
    _finish(c, request, call, memory.nbytes)
    return joined(out, axis)


def gather(c: Communicator, x: Tensor, axis: int) -> Tensor | None:
    """The values of all processes, side by side along an axis, at the first one."""
    call = "gather"
    axis = checked_axis(call, x, axis)
    agree(c, call, x, [axis])
    out, memory = fresh((c.size, *x.shape) if c.rank == 0 else (0,), x.dtype, x.device)
    byte = c.job.mpi.BYTE
    into = [_bytes(memory), byte] if c.rank == 0 else None
    request = c.comm.Igather([_bytes(contents(x)), byte], into, 0)
    _finish(c, request, call, x.size * x.dtype.itemsize * c.size)
    return joined(out, axis) if c.rank == 0 else None


def scatter(c: Communicator, x: Tensor, axis: int) -> Tensor:
    """This process's part of the values of the first one, along an axis."""
    call = "scatter"
    axis = checked_axis(call, x, axis)
    agree(c, call, x, [axis])
    parts = in_parts(call, x, axis, c.size)
    out, memory = fresh(parts.shape[1:], x.dtype, x.device)
    byte = c.job.mpi.BYTE
    source = [_bytes(parts), byte] if c.rank == 0 else None
    request = c.comm.Iscatter(source, [_bytes(memory), byte], 0)
    _finish(c, request, call, parts.nbytes)
    return out


def all_to_all(c: Communicator, x: Tensor, split_axis: int, concat_axis: int) -> Tensor:
    """Part i of this process goes to process i; what comes is put side by side."""
    call = "all_to_all"
    split_axis = checked_axis(call, x, split_axis)
    concat_axis = checked_axis(call, x, concat_axis)
    agree(c, call, x, [split_axis, concat_axis])
    parts = in_parts(call, x, split_axis, c.size)
    out, memory = fresh(parts.shape, x.dtype, x.device)
    byte = c.job.mpi.BYTE
    request = c.comm.Ialltoall([_bytes(parts), byte], [_bytes(memory), byte])
    _finish(c, request, call, parts.nbytes)
    return joined(out, concat_axis)


# ---- from one to another -----------------------------------------------------------------------


def checked_peer(c: Communicator, call: str, rank: int) -> None:
    """Raises ValueError where a rank is not another one of the job."""
    if not 0 <= rank < c.size or rank == c.rank:
        raise ValueError(
            f"{call}: expected another rank in [0, {c.size}), got {rank} on rank {c.rank}"
        )


def send(c: Communicator, call: str, x: Tensor, to: int, details: Sequence[int] = ()) -> None:
    """Sends values. It does not wait for the receiver: two may send to each other and then receive.

    What is under way is kept until it has arrived, at the latest until the process ends.
    """
    checked_peer(c, call, to)
    c.job.enter(call)
    header, array = _header(call, x, details), contents(x)
    requests = [c.comm.Isend(header, to, _TAG_HEADER)]
    requests.append(c.comm.Isend([_bytes(array), c.job.mpi.BYTE], to, _TAG_DATA))
    c.job.under_way = [(r, kept) for r, kept in c.job.under_way if not r.Test()]
    c.job.under_way += [(requests[0], header), (requests[1], array)]
    c.job.leave_call()


def receive(c: Communicator, call: str, source: int, device: Any = None) -> tuple[Tensor, int]:
    """Receives values, and the detail that was sent with them.

    Raises:
        RankError: the sender failed, or has ended.
    """
    checked_peer(c, call, source)
    c.job.enter(call)
    header: Array = np.empty(_HEADER, np.int64)
    ranks = [c.ranks[source]]
    c.job.wait(c.comm.Irecv(header, source, _TAG_HEADER), call, ranks)
    ndim = int(header[2])
    dtype = _core.dtype_names()[int(header[1])]
    out, memory = fresh([int(n) for n in header[3 : 3 + ndim]], dtype, device)
    request = c.comm.Irecv([_bytes(memory), c.job.mpi.BYTE], source, _TAG_DATA)
    c.job.wait(request, call, ranks, memory.nbytes)
    c.job.leave_call()
    return out, int(header[11])
