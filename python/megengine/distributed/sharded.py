"""An optimizer whose state is split over the processes of a group."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..optimizer import LAMB, Optimizer
from ..optimizer.optimizer import ParamGroup, Params
from ..tensor import Parameter, Tensor
from . import collective
from .group import WORLD, Group, communicator_of

__all__ = ["ShardedOptimizer"]


class ShardedOptimizer(Optimizer):
    """Has each process keep the state of, and step, its part of every parameter; an extension.

    A step adds up the gradients so that each process gets those of its part, steps the part, and
    gathers the parts. So gradients must come as each process has them, without
    :func:`.make_allreduce_cb`; both together send as much as that callback, and a process holds
    1/n of the state.

    Its state dict is that of the optimizer that it splits: it loads in a job of any size, and in
    that optimizer without a job. :meth:`state_dict` is a call that all processes make together.

    Args:
        params: as of the optimizer, the same at all processes.
        optimizer: the class of an optimizer that treats elements apart: SGD, Adam, AdamW, Adagrad,
            Adadelta or one of one's own.
        group: the processes.
        reduce_method: ``"mean"`` or ``"sum"`` of the gradients.
        options: as of the optimizer.

    Raises:
        AssertionError: there is no job, or another method.
        TypeError: ``optimizer`` is no class of an optimizer.
        ValueError: an optimizer that needs parameters as a whole (LAMB).

    Reference: Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models*, 2020 (its first stage).

    >>> import megengine.distributed as dist, megengine.optimizer as optim
    >>> @dist.launcher(n_gpus=2)
    ... def program():
    ...     p = mge.Parameter([1.0, 2.0, 3.0])
    ...     opt = dist.ShardedOptimizer([p], optim.SGD, lr=0.5)
    ...     p.grad = mge.tensor([1.0, 1.0, 1.0]) * dist.get_rank()
    ...     opt.step().clear_grad()
    ...     return p.numpy().tolist()
    >>> program()
    [[0.75, 1.75, 2.75], [0.75, 1.75, 2.75]]
    """

    def __init__(
        self,
        params: Params,
        optimizer: type[Optimizer],
        group: Group | Sequence[int] = WORLD,
        reduce_method: str = "mean",
        **options: Any,
    ):
        reduce_method = reduce_method.lower()
        assert reduce_method in ("sum", "mean"), "reduce_method should be sum or mean"
        if not (isinstance(optimizer, type) and issubclass(optimizer, Optimizer)):
            raise TypeError(f"ShardedOptimizer: expected a class of optimizers, got {optimizer!r}")
        if issubclass(optimizer, LAMB):
            raise ValueError(
                f"ShardedOptimizer: {optimizer.__name__} needs the norms of whole parameters, "
                "which no process has; take make_allreduce_cb with it"
            )
        self._c = communicator_of(group)
        self._mean = reduce_method == "mean"
        self._shards: dict[Parameter, Parameter] = {}
        super().__init__(params, {})
        # The optimizer of this process's parts fills in what the groups leave out.
        self._inner = optimizer([self._inner_group(g) for g in self.param_groups], **options)
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            own.update((k, v) for k, v in inner.items() if k != "params")

    def _inner_group(self, group: ParamGroup) -> ParamGroup:
        return {**group, "params": [self._shards[p] for p in group["params"]]}

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Adds a group of parameters: see :meth:`.Optimizer.add_param_group`."""
        super().add_param_group(param_group)
        inner = self._inner_group(param_group)
        self._inner.add_param_group(inner)
        param_group.update((k, v) for k, v in inner.items() if k != "params")

    def _create_state(self, param_group: ParamGroup) -> None:
        for param in param_group["params"]:
            part = self._part(param.numpy())
            self._shards[param] = Parameter(part, dtype=param.dtype, device=param.device)

    def _updates(self, param_group: ParamGroup) -> None:
        raise NotImplementedError("ShardedOptimizer: step() steps all groups together")

    # ---- parts ---------------------------------------------------------------------------------

    def _length(self, size: int) -> int:
        """How many of ``size`` elements a process has; at the last ones zeros fill them up."""
        return -(-size // self._c.size)

    def _part(self, array: Any) -> Any:
        """This process's part of an array of all elements."""
        length = self._length(array.size)
        part = array.reshape(-1)[self._c.rank * length : (self._c.rank + 1) * length]
        return np.concatenate([part, np.zeros(length - part.size, part.dtype)])

    def _summed(self, params: Sequence[Parameter]) -> None:
        """Gives the parts the sums of their gradients, by one message for the dtype."""
        n = self._c.size
        lengths = [self._length(p.size) for p in params]
        packed, memory = collective.fresh((n, sum(lengths)), params[0].grad.dtype)
        memory[:] = 0
        begin = 0
        for param, length in zip(params, lengths, strict=True):
            gradient = param.grad.numpy().reshape(-1)
            for i in range(n):
                piece = gradient[i * length : (i + 1) * length]
                memory[i, begin : begin + piece.size] = piece
            begin += length
        total = collective.reduce_scatter_sum(self._c, packed, 0).reshape(-1)
        if self._mean:
            total = total / n
        begin = 0
        for param, length in zip(params, lengths, strict=True):
            self._shards[param].grad = total[begin : begin + length]
            begin += length

    def _gathered(self, parts: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        """Whole tensors of the parts that the processes have of them, by one message."""
        packed, memory = collective.fresh((1, sum(p.size for p in parts)), parts[0].dtype)
        begin = 0
        for part in parts:
            memory[0, begin : begin + part.size] = part.numpy()
            begin += part.size
        every = collective.all_gather(self._c, packed, 0)
        whole, begin = [], 0
        for part, shape in zip(parts, shapes, strict=True):
            size = int(np.prod(shape))
            columns = every[:, begin : begin + part.size]
            whole.append(columns.reshape(-1)[:size].reshape(tuple(shape)))
            begin += part.size
        return whole

    def step(self) -> ShardedOptimizer:
        """Takes a step, together with the other processes.

        Raises:
            ValueError: the processes have gradients of different parameters.
        """
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            inner.update((k, v) for k, v in own.items() if k != "params")
        stepped = [p for p in self._get_params() if p.grad is not None]
        kinds: dict[tuple[str, str], list[Parameter]] = {}
        for param in stepped:
            kinds.setdefault((param.dtype.name, param.grad.dtype.name), []).append(param)
        for params in kinds.values():
            self._summed(params)
            for param in params:  # which may have been set meanwhile
                self._shards[param]._reset(Tensor(self._part(param.numpy()), dtype=param.dtype))
        self._inner.step().clear_grad()
        for params in kinds.values():
            parts = [self._shards[p] for p in params]
            for param, value in zip(
                params, self._gathered(parts, [p.shape for p in params]), strict=True
            ):
                param._reset(value)
        return self

    # ---- state dicts ---------------------------------------------------------------------------

    def state_dict(self, keep_var: bool = False) -> dict[str, Any]:
        """Options and the whole state, to be saved by one process; all must call it.

        Args:
            keep_var: give Tensors instead of arrays.

        Returns:
            what the optimizer that this one splits would return.
        """
        saved = self._inner.state_dict(keep_var=True)
        for own, group in zip(self.param_groups, saved["param_groups"], strict=True):
            group.update(copy.deepcopy({k: v for k, v in own.items() if k != "params"}))
        for number, param in enumerate(self._get_params()):
            states = saved["state"].get(number, {})
            for name, value in states.items():
                if tuple(value.shape) == tuple(self._shards[param].shape):
                    value = self._gathered([value], [param.shape])[0]
                states[name] = value if keep_var else value.numpy()
        return saved

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what :meth:`state_dict` gave, in a job of any size.

        Raises:
            ValueError: it does not fit; see :meth:`.Optimizer.load_state_dict`.
        """
        shards = [self._shards[param] for param in self._get_params()]
        parts: dict[int, dict[str, Any]] = {}
        for number, values in state["state"].items():
            parts[number] = {}
            for name, value in values.items():
                array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
                held = self._inner._state.get(shards[number], {}).get(name)
                if held is not None and tuple(held.shape) == tuple(shards[number].shape):
                    array = self._part(array)
                parts[number][name] = array
        self._inner.load_state_dict({"param_groups": state["param_groups"], "state": parts})
        for own, inner in zip(self.param_groups, self._inner.param_groups, strict=True):
            own.update((k, v) for k, v in inner.items() if k != "params")
