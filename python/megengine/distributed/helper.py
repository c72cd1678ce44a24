"""What training in several processes needs besides collectives."""

from __future__ import annotations

import functools
import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._core import apply
from ..autodiff.grad_manager import Future, GradManager, get_backwarding_grad_manager
from ..core.ops.builtin import ParamPackConcat, ParamPackSplit
from ..device import get_device_count
from ..tensor import Tensor
from . import collective
from .functional import all_reduce_sum, broadcast
from .group import (
    WORLD,
    Communicator,
    Group,
    as_group,
    communicator_of,
    group_barrier,
    is_distributed,
    override_backend,
)

__all__ = [
    "AllreduceCallback",
    "ParamPackConcat",
    "ParamPackSplit",
    "TensorFuture",
    "apply",
    "bcast_list_",
    "get_device_count_by_fork",
    "get_offsets",
    "make_allreduce_cb",
    "pack_allreduce_split",
    "param_pack_concat",
    "param_pack_split",
    "synchronized",
]


def get_device_count_by_fork(device_type: str) -> int:
    """:func:`megengine.get_device_count`, which programs call by this name before they fork.

    >>> get_device_count_by_fork("gpu")
    0
    """
    return get_device_count(device_type)


class TensorFuture(Future):
    """A tensor that is still on its way.

    Args:
        ack: is kept for programs that pass it.

    >>> future = TensorFuture()
    >>> future.set(mge.tensor([1.0]))
    >>> future.get()
    Tensor([1.], device=xpux:0)
    """

    def __init__(self, ack: bool = True):
        self._ack = ack
        self._tensor: Tensor | None = None

    def set(self, value: Tensor) -> None:
        """Gives it its tensor."""
        self._tensor = value

    def get(self) -> Tensor:
        """The tensor.

        Raises:
            RuntimeError: it has not come yet.
        """
        if self._tensor is None:
            raise RuntimeError("TensorFuture: the tensor has not come yet")
        return self._tensor

    def device(self) -> Any:
        """The tensor's device."""
        return self.get().device

    def numpy(self) -> Any:
        """The tensor as an array."""
        return self.get().numpy()

    def shape(self) -> Any:
        """The tensor's shape."""
        return self.get().shape

    def dtype(self) -> Any:
        """The tensor's dtype."""
        return self.get().dtype


def synchronized(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns once it has run in all processes, such as one that downloads a file.

    >>> synchronized(lambda x: x + 1)(2)
    3
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if is_distributed():
            group_barrier()
        return result

    return wrapper


def bcast_list_(inps: Iterable[Tensor], group: Group | Sequence[int] = WORLD) -> None:
    """Gives tensors the values that they have at the group's first process.

    Call it with the parameters and buffers of a network before training, so that all processes
    start from the same.

    Args:
        inps: of the same shapes and dtypes, in the same order, at all processes.
        group: the processes.

    Raises:
        ValueError: shapes or dtypes differ between processes.
    """
    communicator_of(group)
    for inp in inps:
        inp._reset(broadcast(inp.detach(), group))


def get_offsets(shapes: Iterable[Sequence[int]]) -> list[int]:
    """Begin and end of each of some tensors in one vector of all their elements.

    >>> get_offsets([(2, 3), (4,), ()])
    [0, 6, 6, 10, 10, 11]
    """
    offsets, end = [], 0
    for shape in shapes:
        begin, end = end, end + math.prod(int(n) for n in shape)
        offsets += [begin, end]
    return offsets


def param_pack_split(
    inp: Tensor, offsets: Sequence[int], shapes: Sequence[Sequence[int]]
) -> tuple[Tensor, ...]:
    """Cuts a vector into tensors.

    Args:
        inp: the vector.
        offsets: begin and end of each, as of :func:`get_offsets`.
        shapes: the shape of each.

    Raises:
        ValueError: the vector is too short, or the numbers of offsets and shapes differ.

    >>> import megengine.functional as F
    >>> param_pack_split(F.arange(3), [0, 1, 1, 3], [(1,), (2, 1)])
    (Tensor([0.], device=xpux:0), Tensor([[1.]
     [2.]], device=xpux:0))
    """
    return tuple(apply(ParamPackSplit(offsets=offsets, shapes=shapes), inp))


def param_pack_concat(
    inps: Sequence[Tensor], offsets: Tensor, offsets_val: Sequence[int]
) -> Tensor:
    """All elements of tensors of one dtype, in one vector.

    Args:
        inps: the tensors.
        offsets: as ``offsets_val``, in an int32 Tensor.
        offsets_val: begin and end of each, as of :func:`get_offsets`.

    Raises:
        ValueError: an offset does not fit, or the dtypes differ.

    >>> import megengine.functional as F
    >>> offsets = [0, 1, 1, 3]
    >>> param_pack_concat([F.ones(1), F.zeros((2, 1))], mge.tensor(offsets, "int32"), offsets)
    Tensor([1. 0. 0.], device=xpux:0)
    """
    return apply(ParamPackConcat(offsets=offsets_val), *inps, offsets)[0]


def _method(reduce_method: str) -> str:
    method = reduce_method.lower()
    assert method in ("sum", "mean"), "reduce_method should be sum or mean"
    return method


def pack_allreduce_split(
    pack_list: Sequence[Tensor],
    shapes: Sequence[Sequence[int]],
    group: Group | Sequence[int],
    reduce_method: str,
) -> tuple[Tensor, ...]:
    """The sum or mean over processes of several tensors, by one call.

    Args:
        pack_list: tensors of one dtype.
        shapes: their shapes.
        group: the processes.
        reduce_method: ``"sum"`` or ``"mean"``, in upper or lower case.

    Raises:
        AssertionError: another method.
    """
    method = _method(reduce_method)
    group = as_group(group)
    offsets = get_offsets(shapes)
    packed = param_pack_concat(pack_list, Tensor(offsets, dtype="int32"), offsets)
    packed = all_reduce_sum(packed, group)
    if method == "mean":
        packed = packed / group.size
    return param_pack_split(packed, offsets, shapes)


# ---- gradients ---------------------------------------------------------------------------------

_ALIGNMENT = 64  # bytes; each gradient starts at the begin of a cache line


class _Bucket:
    """Gradients of one dtype that are summed by one call."""

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.gradients: list[Tensor] = []
        self.futures: list[TensorFuture] = []
        self.nbytes = 0
        self.request: Any = None

    def add(self, gradient: Tensor, future: TensorFuture) -> None:
        """Takes a gradient in."""
        self.gradients.append(gradient)
        self.futures.append(future)
        self.nbytes += gradient.size * gradient.dtype.itemsize

    def start(self, c: Communicator, comm: Any) -> None:
        """Copies the gradients side by side, and has MPI add them up."""
        work = collective.working_dtype("make_allreduce_cb", "sum", self.gradients[0].dtype)
        step = _ALIGNMENT // np.dtype(work).itemsize
        self.begins, end = [], 0
        for gradient in self.gradients:
            self.begins.append(end)
            end += -(-gradient.size // step) * step
        self.packed, self.memory = collective.fresh((end,), work, self.gradients[0].device)
        for begin, gradient in zip(self.begins, self.gradients, strict=True):
            array = gradient.numpy()
            stop = begin + gradient.size
            np.copyto(self.memory[begin:stop].reshape(array.shape), array, casting="same_kind")
            self.memory[stop : -(-stop // step) * step] = 0
        buffer = collective.numbers(c.job, self.memory)
        self.request = comm.Iallreduce(c.job.mpi.IN_PLACE, buffer, c.job.mpi.SUM)

    def finish(self, c: Communicator, name: str, mean: bool) -> None:
        """Waits for the sums and gives them to the futures."""
        c.job.wait(self.request, name, c.ranks, self.memory.nbytes)
        if mean:
            np.divide(self.memory, c.size, out=self.memory)
        for begin, gradient, future in zip(self.begins, self.gradients, self.futures, strict=True):
            part = self.packed[begin : begin + gradient.size].reshape(gradient.shape)
            future.set(part if part.dtype == gradient.dtype else part.astype(gradient.dtype))


class AllreduceCallback:
    """Sums the gradients of all processes while backward computes others.

    Give it to :meth:`.GradManager.attach`. Gradients are put side by side in buckets as they are
    ready; a full bucket is on its way while backward goes on, and all have come when it ends.
    16-bit floats are added in float32 and rounded once.

    All processes must get gradients of the same parameters, in the same order. Where they do not,
    all raise at the end of backward, and the job is over.

    Args:
        reduce_method: ``"sum"``, or ``"mean"`` for the sum divided by the number of processes; in
            upper or lower case.
        group: the processes.
        backend: see :func:`.override_backend`.

    Raises:
        AssertionError: another method, or there is no job.

    >>> import megengine.distributed as dist, megengine.module as M
    >>> from megengine.autodiff import GradManager
    >>> @dist.launcher(n_gpus=2)
    ... def program():
    ...     net = M.Linear(1, 1, bias=False)
    ...     dist.bcast_list_(net.parameters())
    ...     gm = GradManager().attach(net.parameters(), callbacks=[dist.make_allreduce_cb("mean")])
    ...     with gm:
    ...         gm.backward(net(mge.tensor([[1.0 + dist.get_rank()]])))
    ...     return net.weight.grad.item()
    >>> program()
    [1.5, 1.5]
    """

    bucket_bytes = 4 << 20
    """A bucket that holds as much is sent."""

    def __init__(
        self,
        reduce_method: str,
        group: Group | Sequence[int] = WORLD,
        backend: str | None = None,
    ):
        method = _method(reduce_method)
        self._mean = method == "mean"
        self._name = f'make_allreduce_cb("{method}")'
        if backend is not None:
            with override_backend(backend):
                pass  # raises where there is no such one
        self._c = communicator_of(group)
        self._comm = self._c.comm.Dup()  # buckets do not mix with calls that are made meanwhile
        self._managers: weakref.WeakSet[GradManager] = weakref.WeakSet()
        self._open: dict[str, _Bucket] = {}
        self._sent: list[_Bucket] = []
        self._plan = hashlib.sha256()
        self._counts = [0, 0]  # gradients, elements

    def __call__(self, param: Tensor, grad: Tensor) -> TensorFuture:
        """Takes a gradient; the sum comes at the end of backward."""
        manager = get_backwarding_grad_manager()
        if manager is None:
            raise RuntimeError(f"{self._name}: expected to be called by a backward of GradManager")
        if manager not in self._managers:
            self._managers.add(manager)
            manager._register_after_backward_callback(self._finish)
        dtype = grad.dtype.name
        future = TensorFuture()
        bucket = self._open.setdefault(dtype, _Bucket(dtype))
        bucket.add(grad, future)
        self._plan.update(f"{dtype} {tuple(grad.shape)};".encode())
        self._counts[0] += 1
        self._counts[1] += grad.size
        if bucket.nbytes >= self.bucket_bytes:
            self._send(self._open.pop(dtype))
        else:
            for sent in self._sent:
                sent.request.Test()  # what is under way gets on in calls of MPI only
        return future

    def _send(self, bucket: _Bucket) -> None:
        self._c.job.check(self._name)
        bucket.start(self._c, self._comm)
        self._sent.append(bucket)

    def _finish(self) -> None:
        for bucket in self._open.values():
            self._send(bucket)
        sent, plan, counts = self._sent, self._plan.digest(), self._counts
        self._open, self._sent, self._plan, self._counts = {}, [], hashlib.sha256(), [0, 0]
        self._c.job.enter(self._name)
        self._agree(plan, counts)
        for bucket in sent:
            bucket.finish(self._c, self._name, self._mean)
        self._c.job.leave_call()

    def _agree(self, plan: bytes, counts: Sequence[int]) -> None:
        """Raises on all where they sent different gradients."""
        c = self._c
        own = np.array([*np.frombuffer(plan, np.int64), *counts])
        everyone = np.empty((c.size, own.size), np.int64)
        c.job.wait(c.comm.Iallgather(own, everyone), self._name, c.ranks)
        if (everyone != own).any():
            text = ", ".join(
                f"rank {rank} has {n} of {elements} elements"
                for rank, (*_, n, elements) in zip(c.ranks, everyone.tolist(), strict=True)
            )
            raise ValueError(
                f"{self._name}: expected gradients of the same shapes in the same order on all "
                f"ranks; {text}. Parameters that only some ranks use can be added times 0 to the "
                "loss of the others"
            )


make_allreduce_cb = AllreduceCallback
