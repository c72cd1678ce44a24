"""GradScaler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _core
from ..autodiff import GradManager
from ..tensor import Tensor

__all__ = ["GradScaler"]

_STATE = ("scale_factor", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")


class GradScaler:
    """Scales losses, so that small gradients do not vanish in float16, and gradients back.

    The scale adapts: a step in which a gradient is infinite or NaN is skipped and lowers it,
    ``growth_interval`` good steps in a row raise it. bfloat16 has the range of float32 and needs no
    scaling; it does no harm there.

    Args:
        init_scale: the scale to start with, above 0.
        growth_factor: what the scale is multiplied by after ``growth_interval`` good steps; 0 keeps
            the scale as it is, whatever the gradients are.
        backoff_factor: what it is multiplied by after a gradient that is not finite.
        growth_interval: good steps between two rises.

    Raises:
        ValueError: for a scale that is not above 0 and finite, a negative factor or an interval
            below 1.

    Examples:
        >>> import megengine as mge
        >>> from megengine.amp import GradScaler, autocast
        >>> from megengine.autodiff import GradManager
        >>> import megengine.optimizer as optim
        >>> w = mge.Parameter([1.0, 2.0])
        >>> gm, opt, scaler = GradManager().attach([w]), optim.SGD([w], lr=0.5), GradScaler()
        >>> @autocast(low_prec_dtype="float16")
        ... def train_step(x):
        ...     with gm:
        ...         loss = (w * x).sum()
        ...         scaler.backward(gm, loss)
        ...     opt.step().clear_grad()
        >>> train_step(mge.tensor([1.0, 1.0]))
        >>> w.numpy()
        array([0.5, 1.5], dtype=float32)

        To add up the gradients of several batches, scale back once, at the end:

        >>> for x in ([1.0, 0.0], [0.0, 1.0]):
        ...     with gm:
        ...         scaler.backward(gm, (w * mge.tensor(x)).sum(), unscale_grad=False)
        >>> scaler.unscale(gm.attached_tensors()).update()
        >>> w.grad
        Tensor([1. 1.], device=xpux:0)
    """

    def __init__(
        self,
        init_scale: float = 2.0**4,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        self.scale_factor = _scale("init_scale", init_scale)
        self.growth_factor = _factor("growth_factor", growth_factor)
        self.backoff_factor = _factor("backoff_factor", backoff_factor)
        self.growth_interval = _interval(growth_interval)
        self._growth_tracker = 0
        self._found_non_finite = False

    def backward(
        self,
        gm: GradManager,
        y: Tensor | list[Tensor] | None = None,
        dy: Tensor | list[Tensor] | None = None,
        *,
        unscale_grad: bool = True,
        update_scale: bool | str = "if_unscale_grad",
    ) -> None:
        """``gm.backward`` with gradients that are scaled on the way.

        Args:
            gm: the manager that records.
            y: as in :meth:`.GradManager.backward`.
            dy: as there; multiplied by the scale.
            unscale_grad: whether to scale the gradients back at once, and adapt the scale. False
                where gradients of several batches are added up.
            update_scale: whether to adapt the scale; ``"if_unscale_grad"`` where ``unscale_grad``.
                Nothing is adapted without ``unscale_grad``.

        Raises:
            ValueError: for another ``update_scale``.
        """
        if not isinstance(update_scale, bool) and update_scale != "if_unscale_grad":
            raise ValueError(
                "GradScaler.backward: expected True, False or 'if_unscale_grad' as update_scale, "
                f"got {update_scale!r}"
            )
        outputs = [] if y is None else [y] if isinstance(y, Tensor) else list(y)
        if dy is None:
            # In float32 whatever the outputs are: they take it in their own dtype.
            upstream = [self._scale_tensor() for _ in outputs]
        else:
            given = [dy] if isinstance(dy, Tensor) else list(dy)
            upstream = [g * self.scale_factor for g in given]
        gm.backward(outputs, upstream)
        if unscale_grad:
            self.unscale(gm.attached_tensors())
            if update_scale:
                self.update()

    def _scale_tensor(self) -> Tensor:
        return Tensor(np.float32(self.scale_factor))

    def unscale(self, grad_tensors: Iterable[Tensor]) -> GradScaler:
        """Divides the gradients of tensors by the scale.

        Where one of them is infinite or NaN then, all become None: the optimizer's step finds
        nothing to do. Tensors without a gradient are left out.

        Args:
            grad_tensors: the tensors whose gradients came from one backward; all of them, so that
                all are skipped where one overflows.

        Returns:
            the scaler itself.
        """
        tensors = [grad_tensors] if isinstance(grad_tensors, Tensor) else list(grad_tensors)
        if _core.scale_gradients(tensors, 1.0 / self.scale_factor):
            self._found_non_finite = True
            for tensor in tensors:
                tensor.grad = None
        return self

    def update(self, new_scale: float | None = None) -> None:
        """Adapts the scale to whether a gradient since the last update was not finite.

        Args:
            new_scale: the scale to take instead.

        Raises:
            ValueError: for a ``new_scale`` that is not above 0 and finite.
        """
        if new_scale is not None:
            self.scale_factor = _scale("new_scale", new_scale)
        elif self.growth_factor != 0:
            self._adapt()
        self._found_non_finite = False

    def _adapt(self) -> None:
        if self._found_non_finite:
            # A scale of 0 would be of no use, and one that is not normal loses digits.
            smallest = float(np.finfo(np.float32).tiny)
            self.scale_factor = max(self.scale_factor * self.backoff_factor, smallest)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker >= self.growth_interval:
            grown = self.scale_factor * self.growth_factor
            # Beyond float32's range every gradient would overflow.
            if grown <= float(np.finfo(np.float32).max):
                self.scale_factor = grown
            self._growth_tracker = 0

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes."""
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state.

        Args:
            state: what :meth:`state_dict` gave. Other keys are left out.

        Raises:
            KeyError: where one is missing.
            ValueError: for a value that the constructor would not take either. The scaler is left
                as it was then.
        """
        missing = [name for name in _STATE if name not in state]
        if missing:
            raise KeyError(f"GradScaler.load_state_dict: no {', '.join(missing)} in the state")
        new = GradScaler(*(state[name] for name in _STATE[:4]))
        new._growth_tracker = int(state["_growth_tracker"])
        for name in _STATE:
            setattr(self, name, getattr(new, name))


def _scale(name: str, value: float) -> float:
    scale = float(value)
    if not 0 < scale < float("inf"):
        raise ValueError(f"GradScaler: expected a {name} above 0 and finite, got {value}")
    return scale


def _factor(name: str, value: float) -> float:
    factor = float(value)
    if not 0 <= factor < float("inf"):
        raise ValueError(f"GradScaler: expected a {name} of at least 0 and finite, got {value}")
    return factor


def _interval(value: int) -> int:
    interval = int(value)
    if interval < 1:
        raise ValueError(f"GradScaler: expected a growth_interval of at least 1, got {value}")
    return interval
