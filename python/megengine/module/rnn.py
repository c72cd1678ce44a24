"""Recurrent networks: Elman's RNN, LSTM, and single steps of each."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import functional as F
from ..core._imperative_rt.core2 import apply
from ..core.ops import builtin
from ..tensor import Parameter, Tensor
from . import init
from .module import Module

__all__ = ["LSTM", "RNN", "LSTMCell", "RNNCell"]

MOST_LAYERS = 4096
NONLINEARITIES = ("tanh", "relu", "identity")


def _check_size(name: str, what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected {what} as an int, got {value!r}")
    if value < 0:
        raise ValueError(f"{name}: expected {what} of at least 0, got {value}")


def _check_nonlinearity(name: str, nonlinearity: str) -> str:
    if str(nonlinearity).lower() not in NONLINEARITIES:
        raise ValueError(
            f"{name}: expected a nonlinearity of {', '.join(NONLINEARITIES)}, got {nonlinearity!r}"
        )
    return nonlinearity


def _check_tensor(name: str, what: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected {what} as a Tensor, got {type(value).__name__}")


def _zeros(like: Tensor, *shape: int) -> Tensor:
    return F.zeros(shape, dtype=like.dtype, device=like.device)


class RNNCellBase(Module):
    """Weights of one step: ``num_chunks`` gates of ``hidden_size`` units each."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int) -> None:
        super().__init__()
        name = type(self).__name__
        _check_size(name, "input_size", input_size)
        _check_size(name, "hidden_size", hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.gate_hidden_size = num_chunks * hidden_size
        rows = self.gate_hidden_size
        self.weight_ih = Parameter(np.zeros((rows, input_size), dtype=np.float32))
        self.weight_hh = Parameter(np.zeros((rows, hidden_size), dtype=np.float32))
        kind = Parameter if bias else Tensor
        self.bias_ih = kind(np.zeros((rows,), dtype=np.float32))
        self.bias_hh = kind(np.zeros((rows,), dtype=np.float32))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(max(self.hidden_size, 1))
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _check_input(self, input: Tensor) -> None:
        name = type(self).__name__
        _check_tensor(name, "the input", input)
        if input.ndim != 2 or input.shape[1] != self.input_size:
            raise ValueError(
                f"{name}: expected an input of shape (batch, {self.input_size}), "
                f"got {tuple(input.shape)}"
            )


class RNNCell(RNNCellBase):
    r"""One step of Elman's recurrent network (1990).

    .. math:: h' = f(W_{ih} x + b_{ih} + W_{hh} h + b_{hh})

    Args:
        input_size: size of x.
        hidden_size: size of h.
        bias: whether the biases are learned; they are 0 otherwise.
        nonlinearity: f, ``"tanh"``, ``"relu"`` or ``"identity"``.

    Shape:
        - input: (batch, input_size)
        - hx: (batch, hidden_size), zeros where it is not given
        - result: (batch, hidden_size)
        - weight_ih: (hidden_size, input_size); weight_hh: (hidden_size, hidden_size)
        - bias_ih, bias_hh: (hidden_size,)

    Raises:
        ValueError: for shapes that do not fit and an unknown nonlinearity.

    >>> import megengine.functional as F
    >>> cell = RNNCell(10, 20)
    >>> h = F.zeros((3, 20))
    >>> for _ in range(6):
    ...     h = cell(F.ones((3, 10)), h)
    >>> h.shape
    (3, 20)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh"
    ) -> None:
        self.nonlinearity = _check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, num_chunks=1)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The hidden state after the step."""
        self._check_input(input)
        if hx is None:
            hx = _zeros(input, input.shape[0], self.hidden_size)
        _check_tensor("RNNCell", "the hidden state", hx)
        op = builtin.RNNCell(nonlineMode=self.nonlinearity)
        return apply(op, input, self.weight_ih, self.bias_ih, hx, self.weight_hh, self.bias_hh)[0]


class LSTMCell(RNNCellBase):
    r"""One step of long short-term memory (Hochreiter and Schmidhuber, 1997; with a forget gate).

    .. math::
        i &= \sigma(W_{ii} x + b_{ii} + W_{hi} h + b_{hi}) \\
        f &= \sigma(W_{if} x + b_{if} + W_{hf} h + b_{hf}) \\
        g &= \tanh(W_{ig} x + b_{ig} + W_{hg} h + b_{hg}) \\
        o &= \sigma(W_{io} x + b_{io} + W_{ho} h + b_{ho}) \\
        c' &= f c + i g \qquad h' = o \tanh(c')

    Args:
        input_size: size of x.
        hidden_size: size of h and c.
        bias: whether the biases are learned; they are 0 otherwise.

    Shape:
        - input: (batch, input_size)
        - hx: a tuple (h, c) of (batch, hidden_size) each, zeros where it is not given
        - result: a tuple (h', c')
        - weight_ih: (4 * hidden_size, input_size), the rows of i, f, g and o in this order;
          weight_hh: (4 * hidden_size, hidden_size)
        - bias_ih, bias_hh: (4 * hidden_size,)

    Raises:
        ValueError: for shapes that do not fit.

    >>> import megengine.functional as F
    >>> cell = LSTMCell(10, 20)
    >>> h, c = cell(F.ones((3, 10)))
    >>> h.shape, c.shape
    ((3, 20), (3, 20))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The hidden state and the cell state after the step."""
        self._check_input(input)
        h, c = _pair("LSTMCell", hx) if hx is not None else (None, None)
        if h is None or c is None:
            h = c = _zeros(input, input.shape[0], self.hidden_size)
        out = apply(
            builtin.LSTMCell(),
            input, self.weight_ih, self.bias_ih, h, self.weight_hh, self.bias_hh, c,
        )  # fmt: skip
        return out[0], out[1]


def _pair(name: str, hx: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise TypeError(f"{name}: expected hx as a tuple (h, c), got {type(hx).__name__}")
    for what, value in zip(("h", "c"), hx, strict=True):
        _check_tensor(name, what, value)
    return hx[0], hx[1]


class RNNBase(Module):
    """What :class:`RNN` and :class:`LSTM` have in common.

    The parameters that are used are those in ``_flatten_weights``, of shape (rows of a gate
    matrix, ...): the weights of each cell, w_ih, w_hh, b_ih and b_hh, one after the other in
    row-major order, by layer and then by direction. ``cells[layer][direction]`` are cells of their
    own with the same shapes, as in the reference: their parameters appear in the state dict, and
    changing them does not change what the network computes.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        _check_size(name, "input_size", input_size)
        _check_size(name, "hidden_size", hidden_size)
        _check_size(name, "num_layers", num_layers)
        if not 1 <= num_layers <= MOST_LAYERS:
            raise ValueError(
                f"{name}: expected num_layers between 1 and {MOST_LAYERS}, got {num_layers}"
            )
        if not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "Dropout should be a float in [0, 1], which indicates the probability of an "
                f"element to be zero: {name} got {dropout!r}"
            )
        if proj_size:
            warnings.warn(
                f"{name}: proj_size has no effect; multiply the outputs by a matrix instead",
                stacklevel=3,
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.num_directions = 2 if bidirectional else 1
        self.proj_size = proj_size
        self.cells = [
            [self.create_cell(layer) for _ in range(self.num_directions)]
            for layer in range(num_layers)
        ]
        self._flatten_parameters(self.cells)

    def _cell_input_size(self, layer: int) -> int:
        return self.input_size if layer == 0 else self.num_directions * self.hidden_size

    def _flatten_parameters(self, cells: list[list[RNNCellBase]]) -> None:
        """Makes ``_flatten_weights`` anew for cells like these, with random values."""
        rows = cells[0][0].gate_hidden_size
        columns = sum(
            cell.input_size + cell.hidden_size + (2 if self.bias else 0)
            for layer in cells
            for cell in layer
        )
        self._flatten_weights = Parameter(np.zeros((rows, columns), dtype=np.float32))
        self._reset_flatten_weights()

    def _reset_flatten_weights(self) -> None:
        bound = 1 / math.sqrt(max(self.hidden_size, 1))
        init.uniform_(self._flatten_weights, -bound, bound)

    def reset_parameters(self) -> None:
        """Draws all parameters from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        for layer in self.cells:
            for cell in layer:
                cell.reset_parameters()
        self._reset_flatten_weights()

    @abstractmethod
    def create_cell(self, layer: int) -> RNNCellBase:
        """A new cell with the sizes of this layer."""

    @abstractmethod
    def init_hidden(self, batch_size: int) -> Any:
        """The state that :meth:`forward` starts from where none is given: zeros."""

    @abstractmethod
    def get_output_from_hidden(self, hx: Any) -> Any:
        """The part of a state that is an output."""

    @abstractmethod
    def apply_op(self, input: Tensor, hx: Any) -> tuple[Tensor, Any]:
        """Runs all layers over an input of shape (steps, batch, input_size)."""

    def _apply_fn_to_hx(self, hx: Any, fn: Callable[[Tensor], Tensor]) -> Any:
        """``fn`` of the hidden state, or of both states."""
        return tuple(fn(x) for x in hx) if isinstance(hx, tuple) else fn(hx)

    def _stack_h_n(self, h_n: Any) -> Any:
        """The states of all cells as one."""
        if isinstance(h_n[0], tuple):
            return tuple(F.stack(list(states), axis=0) for states in zip(*h_n, strict=True))
        return F.stack(list(h_n), axis=0)

    def _check_input(self, input: Tensor) -> None:
        name = type(self).__name__
        _check_tensor(name, "the input", input)
        if input.ndim != 3 or input.shape[2] != self.input_size:
            order = "batch, steps" if self.batch_first else "steps, batch"
            raise ValueError(
                f"{name}: expected an input of shape ({order}, {self.input_size}), "
                f"got {tuple(input.shape)}"
            )

    def _options(self) -> dict[str, Any]:
        """Fields of the op."""
        return {
            "num_layers": self.num_layers,
            "bidirectional": self.bidirectional,
            "bias": bool(self.bias),
            "hidden_size": self.hidden_size,
            "dropout": self.dropout,
            "fwd_mode": "training" if self.training else "inference",
        }

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The outputs of the last layer in all steps, and the state after the last step.

        ``hx`` is the state to start from, zeros where it is not given.
        """
        self._check_input(input)
        if self.batch_first:
            input = F.transpose(input, (1, 0, 2))
        if hx is None:
            hx = self._apply_fn_to_hx(
                self.init_hidden(input.shape[1]), lambda x: x.astype(input.dtype)
            )
        output, h_n = self.apply_op(input, hx)
        if self.batch_first:
            output = F.transpose(output, (1, 0, 2))
        return output, h_n

    def _zero_state(self, batch_size: int) -> Tensor:
        shape = (self.num_layers * self.num_directions, batch_size, self.hidden_size)
        return _zeros(self._flatten_weights, *shape)


class RNN(RNNBase):
    r"""A recurrent network (Elman, 1990) of several layers.

    .. math:: h_t = f(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh})

    Args:
        input_size: size of x.
        hidden_size: size of h.
        num_layers: each takes the outputs of the layer before as its inputs.
        nonlinearity: f, ``"tanh"``, ``"relu"`` or ``"identity"``; by keyword.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (batch, steps, ...) instead of
            (steps, batch, ...). States are always (..., batch, hidden_size).
        dropout: in training, the share of the outputs of every layer but the last that is dropped,
            in [0, 1).
        bidirectional: whether a second network runs from the last step to the first; its outputs
            follow those of the first in the last axis.

    Shape:
        - input: (steps, batch, input_size)
        - hx: (num_layers * directions, batch, hidden_size)
        - result: outputs (steps, batch, directions * hidden_size) and the last state, as hx

    Raises:
        ValueError: for shapes and options that do not fit.

    >>> import megengine.functional as F
    >>> net = RNN(10, 20, num_layers=2, nonlinearity="relu")
    >>> output, h_n = net(F.ones((5, 3, 10)))
    >>> output.shape, h_n.shape
    ((5, 3, 20), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.nonlinearity = _check_nonlinearity("RNN", kwargs.pop("nonlinearity", "tanh"))
        super().__init__(*args, **kwargs)

    def create_cell(self, layer: int) -> RNNCell:
        """A new cell with the sizes of this layer."""
        size = self._cell_input_size(layer)
        return RNNCell(size, self.hidden_size, self.bias, self.nonlinearity)

    def init_hidden(self, batch_size: int) -> Tensor:
        """Zeros of shape (num_layers * directions, batch_size, hidden_size)."""
        return self._zero_state(batch_size)

    def get_output_from_hidden(self, hx: Tensor) -> Tensor:
        """The hidden state itself."""
        return hx

    def apply_op(self, input: Tensor, hx: Tensor) -> tuple[Tensor, Tensor]:
        """Runs all layers over an input of shape (steps, batch, input_size)."""
        _check_tensor("RNN", "the hidden state", hx)
        op = builtin.RNN(nonlineMode=self.nonlinearity, **self._options())
        output, h, *_ = apply(op, input, hx, self._flatten_weights)
        return output, h


class LSTM(RNNBase):
    r"""Long short-term memory (Hochreiter and Schmidhuber, 1997) of several layers.

    Each step is that of :class:`LSTMCell`.

    Args:
        input_size: size of x.
        hidden_size: size of h and c.
        num_layers: each takes the outputs of the layer before as its inputs.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (batch, steps, ...) instead of
            (steps, batch, ...). States are always (..., batch, hidden_size).
        dropout: in training, the share of the outputs of every layer but the last that is dropped,
            in [0, 1).
        bidirectional: whether a second network runs from the last step to the first; its outputs
            follow those of the first in the last axis.

    Shape:
        - input: (steps, batch, input_size)
        - hx: a tuple (h, c) of (num_layers * directions, batch, hidden_size) each
        - result: outputs (steps, batch, directions * hidden_size) and the last state, as hx

    Raises:
        ValueError: for shapes and options that do not fit.

    >>> import megengine.functional as F
    >>> net = LSTM(10, 20, num_layers=2, bidirectional=True)
    >>> output, (h_n, c_n) = net(F.ones((5, 3, 10)))
    >>> output.shape, h_n.shape, c_n.shape
    ((5, 3, 40), (4, 3, 20), (4, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def create_cell(self, layer: int) -> LSTMCell:
        """A new cell with the sizes of this layer."""
        return LSTMCell(self._cell_input_size(layer), self.hidden_size, self.bias)

    def init_hidden(self, batch_size: int) -> tuple[Tensor, Tensor]:
        """Zeros, (h, c) of shape (num_layers * directions, batch_size, hidden_size) each."""
        return self._zero_state(batch_size), self._zero_state(batch_size)

    def get_output_from_hidden(self, hx: tuple[Tensor, Tensor]) -> Tensor:
        """The hidden state, of (h, c)."""
        return hx[0]

    def apply_op(
        self, input: Tensor, hx: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs all layers over an input of shape (steps, batch, input_size)."""
        h, c = _pair("LSTM", hx)
        op = builtin.LSTM(**self._options())
        output, h_n, c_n, *_ = apply(op, input, h, c, self._flatten_weights)
        return output, (h_n, c_n)
