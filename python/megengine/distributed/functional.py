"""Collectives with gradients.

All processes of a group call the same function, in the same order, with Tensors of the same shape
and dtype; where these differ, all of them raise. The loss that gradients belong to is the sum of
the losses of all processes. In a backward, all processes take part in the gradient of each
collective whose input needs one, whether or not their own loss depends on what it gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..autodiff import Function
from ..autodiff.grad_manager import _follows, _visit_in_backward, _watch
from ..core.tensor.dtype import is_differentible_dtype
from ..tensor import Tensor
from . import collective
from .group import WORLD, Communicator, Group, communicator_of

__all__ = [
    "all_gather",
    "all_reduce_max",
    "all_reduce_min",
    "all_reduce_sum",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce_scatter_sum",
    "reduce_sum",
    "remote_recv",
    "remote_send",
    "scatter",
]

Ranks = Group | Sequence[int]


def _tensor(call: str, inp: Any) -> Tensor:
    if not isinstance(inp, Tensor):
        raise TypeError(f"{call}: expected a Tensor, got {type(inp).__name__}")
    return inp


class _Collective(Function):
    """A collective: ``run`` forward, ``gradient`` of what comes back.

    Besides its result it has an output of one element, by which backward finds the way here on
    processes whose loss does not use the result.
    """

    def __init__(self, c: Communicator, **options: Any):
        self.c = c
        self.options = options

    def run(self, inp: Tensor) -> Tensor | None:
        """The result, None where this process has none."""
        raise NotImplementedError

    def gradient(self, dy: Tensor) -> Tensor:
        """The gradient of the input from that of the result."""
        raise NotImplementedError

    def forward(self, inp: Tensor) -> tuple[Tensor, Tensor]:
        """The result and the tag."""
        out = self.run(inp)
        self.has_result = out is not None
        tag = _zeros((1,), "float32")
        # What is no result has the shape of the input, so that its gradient has it too.
        result = inp if out is None else out
        self.shape, self.dtype = result.shape, result.dtype
        return result, tag

    def backward(self, dy: Tensor | None, dtag: Tensor | None) -> Tensor:
        """The gradient of the input; zeros count where the result was not used."""
        if dy is None:
            dy = _zeros(self.shape, self.dtype)
        return self.gradient(dy)

    def call(self, inp: Tensor) -> Tensor | None:
        """Runs it, recorded by the managers that follow the input."""
        if not _core.is_recording() or not is_differentible_dtype(inp.dtype):
            return self.run(inp)
        out, tag = self(inp)
        _visit_in_backward(inp, tag)
        return out if self.has_result else None


def _zeros(shape: Sequence[int], dtype: Any) -> Tensor:
    return Tensor(np.zeros(tuple(shape), dtype), dtype=dtype)


def _given(result: Tensor | None) -> Tensor:
    assert result is not None
    return result


class _AllReduceSum(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        return collective.all_reduce(self.c, "all_reduce_sum", inp, "sum")

    def gradient(self, dy: Tensor) -> Tensor:
        return _given(_AllReduceSum(self.c).call(dy))


class _AllReduceExtreme(_Collective):
    """The gradient goes to the processes that have the extreme, in equal shares."""

    def run(self, inp: Tensor) -> Tensor:
        how = self.options["how"]
        self.inp = inp
        self.out = collective.all_reduce(self.c, f"all_reduce_{how}", inp, how)
        return self.out

    def gradient(self, dy: Tensor) -> Tensor:
        hit = (self.inp == self.out).astype(dy.dtype)
        both = _given(_AllReduceSum(self.c).call(dy))
        count = collective.all_reduce(self.c, "all_reduce_sum", hit.detach(), "sum")
        # Nobody has a NaN: it is not equal to itself.
        return both * hit / (count + (count == 0).astype(dy.dtype))


class _Broadcast(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        return collective.broadcast(self.c, inp)

    def gradient(self, dy: Tensor) -> Tensor:
        total = _ReduceSum(self.c).call(dy)
        return _zeros(self.shape, dy.dtype) if total is None else total


class _ReduceSum(_Collective):
    def run(self, inp: Tensor) -> Tensor | None:
        return collective.reduce_sum(self.c, inp)

    def gradient(self, dy: Tensor) -> Tensor:
        return _given(_Broadcast(self.c).call(dy))


class _AllGather(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        self.inp_shape = inp.shape
        return collective.all_gather(self.c, inp, self.options["axis"])

    def gradient(self, dy: Tensor) -> Tensor:
        axis = self.options["axis"]
        return _given(_ReduceScatterSum(self.c, axis=axis).call(dy)).reshape(self.inp_shape)


class _ReduceScatterSum(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        return collective.reduce_scatter_sum(self.c, inp, self.options["axis"])

    def gradient(self, dy: Tensor) -> Tensor:
        return _given(_AllGather(self.c, axis=self.options["axis"]).call(dy))


class _Gather(_Collective):
    def run(self, inp: Tensor) -> Tensor | None:
        self.inp_shape = inp.shape
        return collective.gather(self.c, inp, self.options["axis"])

    def gradient(self, dy: Tensor) -> Tensor:
        axis = self.options["axis"]
        if not self.has_result:
            # Only the first process has something to scatter; the shape is the same at all.
            shape = list(self.inp_shape) or [1]
            shape[axis] *= self.c.size
            dy = _zeros(shape, self.dtype)
        return _given(_Scatter(self.c, axis=axis).call(dy)).reshape(self.inp_shape)


class _Scatter(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        self.inp_shape = inp.shape
        return collective.scatter(self.c, inp, self.options["axis"])

    def gradient(self, dy: Tensor) -> Tensor:
        whole = _Gather(self.c, axis=self.options["axis"]).call(dy)
        if whole is None:
            return _zeros(self.inp_shape, dy.dtype)
        return whole


class _AllToAll(_Collective):
    def run(self, inp: Tensor) -> Tensor:
        return collective.all_to_all(self.c, inp, self.options["split"], self.options["concat"])

    def gradient(self, dy: Tensor) -> Tensor:
        split, concat = self.options["concat"], self.options["split"]
        return _given(_AllToAll(self.c, split=split, concat=concat).call(dy))


class _Send(Function):
    """Sends; backward receives the gradient."""

    def __init__(self, dest_rank: int):
        self.dest_rank = dest_rank

    def forward(self, inp: Tensor) -> Tensor:
        """Sends, with the word that a gradient is to come back."""
        self.device = inp.device
        collective.send(communicator_of(WORLD), "remote_send", inp, self.dest_rank, [1])
        return _zeros((1,), "float32")

    def backward(self, dtag: Tensor) -> Tensor:
        """Receives the gradient."""
        return remote_recv(self.dest_rank, self.device)


class _Receive(Function):
    """Gives what was received; backward sends the gradient."""

    def __init__(self, src_rank: int, received: Tensor):
        self.src_rank = src_rank
        self.received = received

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What was received, and the tag."""
        out, self.received = self.received, _zeros((0,), "float32")
        self.shape, self.dtype = out.shape, out.dtype
        return out, _zeros((1,), "float32")

    def backward(self, dy: Tensor | None, dtag: Tensor) -> None:
        """Sends the gradient."""
        remote_send(_zeros(self.shape, self.dtype) if dy is None else dy, self.src_rank)


# ---- what programs call ------------------------------------------------------------------------


def all_reduce_sum(inp: Tensor, group: Ranks = WORLD, device: Any = None) -> Tensor:
    """The sum over the processes of a group, at all of them.

    16-bit floats are added in float32 and rounded once. The gradient is the sum of the gradients.

    Args:
        inp: of the same shape and dtype at all processes.
        group: the processes, or a list of their ranks.
        device: the device of the call; the CPU has one queue, so that nothing depends on it.

    Returns:
        a tensor of the shape and dtype of ``inp``, the same to the bit at all processes.

    Raises:
        ValueError: shapes or dtypes differ between processes, or this one is not in the group.
        TypeError: ``inp`` is no Tensor, or one of bools.
        OverflowError: a sum of 8- or 16-bit integers does not fit.
        RankError: a process failed.
        AssertionError: there is no job.

    >>> import megengine.distributed as dist
    >>> @dist.launcher(n_gpus=2)
    ... def program():
    ...     x = mge.tensor([1.0, 2.0]) + dist.get_rank()
    ...     return dist.functional.all_reduce_sum(x).numpy().tolist()
    >>> program()
    [[3.0, 5.0], [3.0, 5.0]]
    """
    inp = _tensor("all_reduce_sum", inp)
    return _given(_AllReduceSum(communicator_of(group)).call(inp))


def all_reduce_max(inp: Tensor, group: Ranks = WORLD, device: Any = None) -> Tensor:
    """The maximum over the processes of a group, at all of them.

    NaN wins. The summed gradient goes to where the maximum came from, in equal shares.

    Args:
        inp: see :func:`all_reduce_sum`, like all that is not described here.
        group: see there.
        device: see there.

    Raises:
        TypeError: ``inp`` is no Tensor, or one of complex numbers.
    """
    inp = _tensor("all_reduce_max", inp)
    return _given(_AllReduceExtreme(communicator_of(group), how="max").call(inp))


def all_reduce_min(inp: Tensor, group: Ranks = WORLD, device: Any = None) -> Tensor:
    """The minimum over the processes of a group: see :func:`all_reduce_max`."""
    inp = _tensor("all_reduce_min", inp)
    return _given(_AllReduceExtreme(communicator_of(group), how="min").call(inp))


def broadcast(inp: Tensor, group: Ranks = WORLD, device: Any = None) -> Tensor:
    """The values of the group's first process, at all of them.

    The gradient is the sum of the gradients, at the first process; zeros at the others.

    Args:
        inp: of the same shape and dtype at all processes; only the first one's values count.
        group: see :func:`all_reduce_sum`, like all that is not described here.
        device: see there.
    """
    inp = _tensor("broadcast", inp)
    return _given(_Broadcast(communicator_of(group)).call(inp))


def reduce_sum(inp: Tensor, group: Ranks = WORLD, device: Any = None) -> Tensor | None:
    """The sum over the processes of a group, at its first process; None at the others.

    The gradient, at all processes, is that of the first one.

    Args:
        inp: see :func:`all_reduce_sum`, like all that is not described here.
        group: see there.
        device: see there.
    """
    inp = _tensor("reduce_sum", inp)
    return _ReduceSum(communicator_of(group)).call(inp)


def all_gather(inp: Tensor, group: Ranks = WORLD, device: Any = None, axis: int = 0) -> Tensor:
    """The tensors of all processes of a group, side by side along an axis, at all of them.

    The gradient is the part of the summed gradients that belongs to this process.

    Args:
        inp: of the same shape and dtype at all processes, of any dtype.
        group: see :func:`all_reduce_sum`, like all that is not described here.
        device: see there.
        axis: along which they are put.

    Raises:
        ValueError: there is no such axis.
    """
    inp = _tensor("all_gather", inp)
    return _given(_AllGather(communicator_of(group), axis=axis).call(inp))


def reduce_scatter_sum(
    inp: Tensor, group: Ranks = WORLD, device: Any = None, axis: int = 0
) -> Tensor:
    """The sum over the processes of a group, cut along an axis: each process gets its part.

    The gradient is that of all parts, side by side.

    Args:
        inp: of a size along ``axis`` that the number of processes divides.
        group: see :func:`all_reduce_sum`, like all that is not described here.
        device: see there.
        axis: along which it is cut.

    Raises:
        ValueError: there is no such axis, or its size cannot be divided.
    """
    inp = _tensor("reduce_scatter_sum", inp)
    return _given(_ReduceScatterSum(communicator_of(group), axis=axis).call(inp))


def gather(inp: Tensor, group: Ranks = WORLD, device: Any = None, axis: int = 0) -> Tensor | None:
    """The tensors of all processes, side by side along an axis, at the group's first process.

    The others get None. The gradient is this process's part of that of the first one.

    Args:
        inp: see :func:`all_gather`, like all that is not described here.
        group: see there.
        device: see there.
        axis: see there.
    """
    inp = _tensor("gather", inp)
    return _Gather(communicator_of(group), axis=axis).call(inp)


def scatter(inp: Tensor, group: Ranks = WORLD, device: Any = None, axis: int = 0) -> Tensor:
    """The tensor of the group's first process, cut along an axis: each process gets its part.

    The gradient is that of all parts at the first process; zeros at the others.

    Args:
        inp: of the same shape and dtype at all processes; only the first one's values count.
        group: see :func:`all_reduce_sum`, like all that is not described here.
        device: see there.
        axis: along which it is cut; the number of processes divides its size.

    Raises:
        ValueError: there is no such axis, or its size cannot be divided.
    """
    inp = _tensor("scatter", inp)
    return _given(_Scatter(communicator_of(group), axis=axis).call(inp))


def all_to_all(
    inp: Tensor,
    group: Ranks = WORLD,
    device: Any = None,
    split_axis: int = 0,
    concat_axis: int = 0,
) -> Tensor:
    """Cuts the tensor of each process and sends part i to process i, which puts them side by side.

    The gradient takes the way back.

    Args:
        inp: of a size along ``split_axis`` that the number of processes divides.
        group: see :func:`all_reduce_sum`, like all that is not described here.
        device: see there.
        split_axis: along which it is cut.
        concat_axis: along which the parts are put side by side.

    Raises:
        ValueError: there is no such axis, or its size cannot be divided.
    """
    inp = _tensor("all_to_all", inp)
    c = communicator_of(group)
    return _given(_AllToAll(c, split=split_axis, concat=concat_axis).call(inp))


def remote_send(inp: Tensor, dest_rank: int) -> None:
    """Sends a tensor to another process, which calls :func:`remote_recv`.

    Does not wait for it. Where a gradient of ``inp`` is asked for, backward waits for the one that
    the backward of the other process sends.

    Args:
        inp: of any shape and dtype.
        dest_rank: the number of the other process in the job.

    Raises:
        ValueError: there is no other process of this number.
    """
    inp = _tensor("remote_send", inp)
    if _core.is_recording() and is_differentible_dtype(inp.dtype) and _follows(inp):
        _visit_in_backward(inp, _Send(dest_rank)(inp))
    else:
        collective.send(communicator_of(WORLD), "remote_send", inp, dest_rank, [0])


def remote_recv(src_rank: int, device: Any = None, inp: Any = None) -> Tensor:
    """Receives a tensor that another process sends by :func:`remote_send`.

    Backward sends the gradient to that process, if it asked for one.

    Args:
        src_rank: the number of the other process in the job.
        device: of the result.
        inp: is not needed, since shape and dtype come with the values.

    Raises:
        ValueError: there is no other process of this number.
        RuntimeError: the sender waits for a gradient, but nothing is recorded here.
    """
    c = communicator_of(WORLD)
    out, needs_gradient = collective.receive(c, "remote_recv", src_rank, device)
    if not needs_gradient:
        return out
    if not _core.is_recording():
        raise RuntimeError(
            f"remote_recv: rank {src_rank} sent what it needs a gradient of, but no GradManager "
            "records here; receive inside one, or send a detached tensor"
        )
    source = _zeros((1,), "float32")
    _watch(source)
    out, tag = _Receive(src_rank, out)(source)
    _visit_in_backward(source, tag)
    return out
