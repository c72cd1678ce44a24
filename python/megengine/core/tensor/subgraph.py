"""Ops that a program builds from other ops.

The reference compiles such a subgraph; here it runs as the ops that it is made of, which fuse where
the core has a fused form. Gradients of any order follow, unless the program gives its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar

from ... import _core
from ..._core import OpDef, apply
from ...autodiff.function import Function
from ...tensor import Tensor
from ..ops import builtin

__all__ = ["interpret_subgraph", "subgraph", "subgraph_fn"]

_SLICE_FROM = builtin.Subtensor(items=[(0, True, False, False, False)])
_SLICE_TO = builtin.Subtensor(items=[(0, False, True, False, False)])

# (name, number of operands) -> op.
_opr_map: dict[tuple[str, int], OpDef] = {
    ("[?:]", 2): _SLICE_FROM,
    ("[:?]", 2): _SLICE_TO,
    **{
        (name, arity): builtin.Elemwise(mode=mode)
        for name, arity, mode in [
            ("-", 1, "NEGATE"),
            ("abs", 1, "ABS"),
            ("exp", 1, "EXP"),
            ("log1p", 1, "LOG1P"),
            ("relu", 1, "RELU"),
            ("cond_leq_mov", 3, "COND_LEQ_MOV"),
            ("fma3", 3, "FUSE_MUL_ADD3"),
            ("fma4", 4, "FUSE_MUL_ADD4"),
            ("+", 2, "ADD"),
            ("-", 2, "SUB"),
            ("*", 2, "MUL"),
            ("/", 2, "TRUE_DIV"),
            ("//", 2, "FLOOR_DIV"),
            ("**", 2, "POW"),
            ("max", 2, "MAX"),
            ("min", 2, "MIN"),
            ("additive", 2, "ADD"),
            ("exp", 2, "EXP"),
            ("switch_gt0", 2, "SWITCH_GT0"),
            ("abs_grad", 2, "ABS_GRAD"),
        ]
    },
}

Body = Callable[..., Any]


def _resolve(op: Any, count: int) -> OpDef:
    """The op of a name; other names than those above are elementwise modes."""
    if isinstance(op, OpDef):
        return op
    if not isinstance(op, str):
        raise TypeError(f"subgraph: expected an op or its name, got {type(op).__name__}")
    known = _opr_map.get((op, count))
    if known is None:
        try:
            known = builtin.Elemwise(mode=op.upper())
        except ValueError:
            raise ValueError(f"subgraph: unknown operator {op!r} of {count} operands") from None
        _opr_map[op, count] = known
    return known


class _Builder:
    """What the body of a subgraph gets: ``f`` applies an op, ``c`` makes a constant."""

    def __init__(self, dtype: Any, device: Any) -> None:
        self.dtype, self.device = dtype, device

    def f(self, op: Any, *args: Any, nr_out: int | None = None) -> Any:
        outputs = apply(_resolve(op, len(args)), *args)
        if nr_out is not None and len(outputs) != nr_out:
            raise ValueError(f"subgraph: expected {nr_out} outputs of {op!r}, got {len(outputs)}")
        return outputs[0] if nr_out is None and len(outputs) == 1 else outputs

    def c(self, value: Any, dtype: Any = None, device: Any = None) -> Tensor:
        dtype = self.dtype if dtype is None else dtype
        device = self.device if device is None else device
        if isinstance(value, Tensor):
            value = value.astype(dtype)
            return value if device is None else value.to(device)
        return Tensor(value, dtype=dtype, device=device)


def _tensors(name: str, what: str, values: Any) -> list[Tensor]:
    if not isinstance(values, (tuple, list)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(f"{name}: expected {what} as a tuple of Tensors, got {values!r}")
    return list(values)


class _CustomGrad(Function):
    """One call of a subgraph whose body is a generator.

    It yields the outputs, is sent their gradients, and yields the gradients of the inputs.
    """

    def __init__(self, name: str, body: Body, builder: _Builder) -> None:
        self.name, self.body, self.builder = name, body, builder

    def _start(self) -> tuple[Generator[Any, Any, Any], list[Tensor]]:
        generator = self.body(self.inputs, self.builder.f, self.builder.c)
        if not inspect.isgenerator(generator):
            raise TypeError(
                f"{self.name}: with custom_grad=True the function yields its outputs and then the "
                "gradients of its inputs"
            )
        return generator, _tensors(self.name, "outputs", next(generator))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        self.inputs = inputs
        self.generator: Generator[Any, Any, Any] | None
        self.generator, outputs = self._start()
        self.like = [(y.shape, y.dtype, y.device) for y in outputs]
        return tuple(outputs)

    def backward(self, *output_grads: Any) -> Any:
        generator, self.generator = self.generator, None
        if generator is None or _core.is_recording():
            # Of the first run nothing was recorded: a gradient of this gradient needs that.
            generator, _ = self._start()
        grads = [
            Tensor(0, dtype=dtype, device=device) if dy is None else dy
            for dy, (_, dtype, device) in zip(output_grads, self.like, strict=True)
        ]
        from ...functional import broadcast_to

        sent = [
            broadcast_to(g, shape) if g.shape != shape else g
            for g, (shape, _, _) in zip(grads, self.like, strict=True)
        ]
        return tuple(generator.send(sent))


class _Subgraph(builtin.PyOpBase):  # type: ignore[misc, unused-ignore]
    """The op that :func:`subgraph` makes; callable as well."""

    _fields: ClassVar[dict[str, Any]] = {
        "name": "",
        "body": None,
        "builder": None,
        "nr_inputs": 0,
        "custom_grad": False,
    }
    name: str
    body: Body
    builder: _Builder
    nr_inputs: int
    custom_grad: bool

    def _apply(self, *inputs: Any) -> list[Tensor]:
        if len(inputs) != self.nr_inputs:
            raise ValueError(f"{self.name}: expected {self.nr_inputs} inputs, got {len(inputs)}")
        _tensors(self.name, "inputs", inputs)
        if self.custom_grad:
            return list(_CustomGrad(self.name, self.body, self.builder)(*inputs))
        result = self.body(inputs, self.builder.f, self.builder.c)
        if inspect.isgenerator(result):
            raise TypeError(f"{self.name}: a function that yields needs custom_grad=True")
        outputs, has_grad = _outputs(self.name, result)
        return [y if keeps else y.detach() for y, keeps in zip(outputs, has_grad, strict=True)]

    def __call__(self, *inputs: Any) -> list[Tensor]:
        return self._apply(*inputs)

    def __repr__(self) -> str:
        return f"CompiledOp[{self.name}]"


def _outputs(name: str, result: Any) -> tuple[list[Tensor], Sequence[bool]]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            f"{name}: expected the function to return its outputs and which of them carry a "
            f"gradient, got {result!r}"
        )
    outputs = _tensors(name, "outputs", result[0])
    if not isinstance(result[1], (tuple, list)) or len(result[1]) != len(outputs):
        raise TypeError(f"{name}: expected a bool for each of {len(outputs)} outputs")
    return outputs, result[1]


def subgraph(
    name: str,
    dtype: Any,
    device: Any,
    nr_inputs: int,
    gopt_level: int | None = None,
    jit_fusion: bool = False,
    custom_grad: bool = False,
) -> Callable[[Body], Callable[[], _Subgraph]]:
    """Decorates a function that says what an op computes; calling the result makes the op.

    The function gets ``(inputs, f, c)``: a tuple of Tensors, ``f(op, *args)``, which applies an op
    (by one of the names below, the name of an elementwise mode, or an op object) and
    ``c(value, dtype=None)``, a constant. It returns a tuple of outputs and a tuple that says which
    of them carry a gradient. With ``custom_grad`` it is a generator instead: it yields its outputs,
    gets their gradients (zeros for those that were not used) as the value of the ``yield``, and
    yields the gradients of its inputs, None for those that have none.

    Names: ``+ - * / // ** max min abs exp log1p relu fma3 fma4 cond_leq_mov switch_gt0 [?:] [:?]``.

    Args:
        name: of the op, for messages.
        dtype: of constants.
        device: of constants.
        nr_inputs: how many inputs the op has.
        gopt_level: how far to optimise the op; without effect, since it runs as its parts do.
        jit_fusion: whether to compile it; likewise.
        custom_grad: whether the function says what the gradients are.

    >>> import megengine as mge
    >>> from megengine.core._imperative_rt.core2 import apply
    >>> @subgraph("HardSigmoid", "float32", None, 1, gopt_level=2)
    ... def hard_sigmoid(inputs, f, c):
    ...     (x,) = inputs
    ...     y = f("max", f("min", f("+", x, c(3)), c(6)), c(0))
    ...     return (f("/", y, c(6)),), (True,)
    >>> apply(hard_sigmoid(), mge.tensor([-4.0, 0.0, 3.0]))
    (Tensor([0.  0.5 1. ], device=xpux:0),)
    """

    def decorate(body: Body) -> Callable[[], _Subgraph]:
        builder = _Builder(dtype, device)
        return lambda: _Subgraph(name, body, builder, nr_inputs, custom_grad)

    return decorate


def subgraph_fn(
    name: str,
    dtype: Any,
    device: Any,
    nr_inputs: int,
    gopt_level: int | None = None,
    jit_fusion: bool = False,
    custom_grad: bool = False,
    *,
    interpret: bool = False,
) -> Callable[[Body], Callable[..., Any]]:
    """As :func:`subgraph`, but gives a function of Tensors, which returns a tuple of outputs.

    Args:
        name: see :func:`subgraph`, as for all that is not described here.
        dtype: see there.
        device: see there.
        nr_inputs: see there.
        gopt_level: see there.
        jit_fusion: see there.
        custom_grad: see there.
        interpret: run the function as it is, for tests of it.

    >>> import megengine as mge
    >>> @subgraph_fn("Double", "float32", None, 1, custom_grad=True)
    ... def double(inputs, f, c):
    ...     (x,) = inputs
    ...     (dy,) = yield (f("*", x, c(2)),)
    ...     yield (f("*", dy, c(2)),)
    >>> double(mge.tensor([1.0, 2.0]))
    (Tensor([2. 4.], device=xpux:0),)
    """

    def decorate(body: Body) -> Callable[..., Any]:
        if interpret:
            return interpret_subgraph(body, dtype, device)
        op = subgraph(name, dtype, device, nr_inputs, gopt_level, jit_fusion, custom_grad)(body)()

        return lambda *args: tuple(op(*args))

    return decorate


def interpret_subgraph(func: Body, dtype: Any, device: Any) -> Callable[..., list[Tensor]]:
    """The body of a subgraph as a function of Tensors; see :func:`subgraph`.

    >>> import megengine as mge
    >>> add = interpret_subgraph(lambda x, f, c: ((f("+", *x),), (True,)), "float32", None)
    >>> add(mge.tensor([1.0]), mge.tensor([2.0]))
    [Tensor([3.], device=xpux:0)]
    """
    builder = _Builder(dtype, device)

    def call(*args: Any) -> list[Tensor]:
        return _outputs("subgraph", func(args, builder.f, builder.c))[0]

    return call
