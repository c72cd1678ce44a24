"""GradManager."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._core import Tape
from ..core.tensor.dtype import is_differentible_dtype
from ..tensor import Tensor

__all__ = ["GradManager", "get_backwarding_grad_manager"]

Callback = Callable[[Tensor, Tensor], Any]

_backwarding: GradManager | None = None
_recording: list[GradManager] = []


def get_backwarding_grad_manager() -> GradManager | None:
    """The manager whose backward is running, for callbacks; None outside one."""
    return _backwarding


def _follows(inp: Tensor) -> bool:
    """Whether a manager that is recording asks for gradients that depend on a tensor."""
    return any(m._tape is not None and m._tape.follows(inp) for m in _recording)


def _watch(source: Tensor) -> None:
    """Has all managers that are recording follow a tensor, for this recording."""
    for manager in _recording:
        manager._watch(_Attached(source), source)


def _visit_in_backward(inp: Tensor, tag: Tensor) -> None:
    """Has backward pass the node of ``tag`` even where no output depends on it.

    A collective's gradient is a collective too: all processes must take part in it, also those
    whose loss does not use what the forward one gave them.

    Args:
        inp: what the node was computed from; managers that do not follow it do nothing.
        tag: an output of the node, to which zeros come back.
    """
    for manager in _recording:
        if manager._tape is not None and manager._tape.follows(inp):
            manager._tags.append(tag)


class Future(ABC):
    """What a callback may return in place of a gradient that is still on its way."""

    @abstractmethod
    def get(self) -> Tensor:
        """The gradient; asked for at the end of backward."""


class _Attached:
    """A tensor whose gradient is wanted. The manager does not keep it alive."""

    __slots__ = ("callbacks", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.callbacks: list[Callback] = []


class GradManager:
    """Records what is computed from attached tensors and computes their gradients.

    Gradients are added to ``tensor.grad``. The recording ends with :meth:`backward`, or with the
    ``with`` block. Several managers can record at once; the backward of an inner one is recorded
    by the outer ones, which gives gradients of higher order.

    >>> import megengine as mge
    >>> from megengine.autodiff import GradManager
    >>> w = mge.Parameter([3.0])
    >>> gm = GradManager().attach([w])
    >>> with gm:
    ...     loss = w * w
    ...     gm.backward(loss)
    >>> w.grad
    Tensor([6.], device=xpux:0)
    """

    def __init__(self) -> None:
        self._attach_specs: dict[int, _Attached] = {}
        self._tape: Tape | None = None
        self._watched: list[_Attached] = []
        self._tags: list[Tensor] = []
        self._after_backward_callback: list[Callable[[], None]] = []

    @property
    def _recording(self) -> bool:
        return self._tape is not None

    def attached_tensors(self) -> list[Tensor]:
        """The attached tensors that are still alive."""
        return [t for t in (spec.tensor() for spec in self._attach_specs.values()) if t is not None]

    def attach(
        self,
        tensors: Tensor | Iterable[Tensor],
        callbacks: Callback | Iterable[Callback] | None = None,
    ) -> GradManager:
        """Asks for the gradients of tensors.

        Args:
            tensors: a Tensor or several, of a float dtype. One that was computed while recording
                gets its gradient too.
            callbacks: functions ``(tensor, grad) -> grad`` that are called, in order, as soon as
                the gradient is whole, while backward still computes others. What the last one
                returns is added to ``tensor.grad`` at the end of backward.

        Returns:
            the manager itself.

        Raises:
            TypeError: for what is no Tensor, or not of a float dtype.
        """
        tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        new_callbacks = [callbacks] if callable(callbacks) else list(callbacks or ())
        for t in tensors:
            if not isinstance(t, Tensor):
                raise TypeError(f"attach: expected Tensors, got {type(t).__name__}")
            if not is_differentible_dtype(t.dtype):
                raise TypeError(
                    "attach: only Tensors of a float dtype have gradients, "
                    f"got {t.dtype} of shape {t.shape}"
                )
        for t in tensors:
            spec = self._attach_specs.get(id(t))
            # Another tensor may have had the same id and be gone.
            if spec is None or spec.tensor() is not t:
                spec = self._attach_specs[id(t)] = _Attached(t)
                if self._tape is not None:
                    self._watch(spec, t)
            spec.callbacks.extend(new_callbacks)
        return self

    def _watch(self, spec: _Attached, tensor: Tensor) -> None:
        assert self._tape is not None
        self._tape.watch(tensor)
        self._watched.append(spec)

    def record(self) -> None:
        """Starts recording; ``with gm:`` does it for a block.

        Raises:
            RuntimeError: if the manager is recording already.
        """
        if self._recording:
            raise RuntimeError("already recording")
        self._tape = Tape()
        self._tape.enter()
        self._watched = []
        self._tags = []
        _recording.append(self)
        gone = []
        for key, spec in self._attach_specs.items():
            tensor = spec.tensor()
            if tensor is None:
                gone.append(key)
            else:
                self._watch(spec, tensor)
        for key in gone:
            del self._attach_specs[key]

    def release(self) -> None:
        """Stops recording and frees what was recorded."""
        if self._tape is not None:
            self._tape.clear()
            self._tape = None
            _recording.remove(self)
        self._watched = []
        self._tags = []

    def backward(
        self,
        y: Tensor | Iterable[Tensor] | None = None,
        dy: Tensor | Iterable[Tensor] | None = None,
    ) -> None:
        """Computes gradients and adds them to ``grad`` of the attached tensors; ends the recording.

        Args:
            y: the outputs to differentiate, a Tensor or several.
            dy: the gradient for each output, of its shape or one that broadcasts to it; ones
                without it.

        Raises:
            RuntimeError: if the manager is not recording.
            ValueError: if there are not as many gradients as outputs, or a shape does not fit.
        """
        global _backwarding
        if self._tape is None:
            raise RuntimeError(
                "no computation history. did you forget record() or "
                "call a method that clears the history?"
            )
        outputs = _as_list("y", y)
        upstream: list[Tensor | None] = [None] * len(outputs)
        if dy is not None:
            upstream = [*_as_list("dy", dy)]
        if len(outputs) != len(upstream):
            raise ValueError(
                f"backward: expected a gradient for each of {len(outputs)} outputs, "
                f"got {len(upstream)}"
            )
        outputs += self._tags
        upstream += [Tensor(np.zeros(tag.shape, "float32")) for tag in self._tags]
        watched = self._watched
        called: dict[int, Any] = {}

        def call(place: int, grad: Any) -> None:
            tensor = watched[place].tensor()
            if tensor is not None:
                for callback in watched[place].callbacks:
                    grad = callback(tensor, grad)
                called[place] = grad

        ready = call if any(spec.callbacks for spec in watched) else None
        outer, _backwarding = _backwarding, self
        try:
            gradients = self._tape.backward(outputs, upstream, ready)
            for after in self._after_backward_callback:
                after()
            for place, spec in enumerate(watched):
                tensor = spec.tensor()
                grad = called.get(place, gradients[place])
                if tensor is None or grad is None:
                    continue
                if isinstance(grad, Future):
                    grad = grad.get()
                tensor.grad = grad if tensor.grad is None else tensor.grad + grad
        finally:
            _backwarding = outer
            self.release()

    def _register_after_backward_callback(self, callback: Callable[[], None]) -> GradManager:
        self._after_backward_callback.append(callback)
        return self

    def __enter__(self) -> GradManager:
        self.record()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def _as_list(what: str, values: Any) -> list[Tensor]:
    if values is None:
        return []
    values = [values] if isinstance(values, Tensor) else list(values)
    for v in values:
        if not isinstance(v, Tensor):
            raise TypeError(f"backward: expected Tensors as {what}, got {type(v).__name__}")
    return values
