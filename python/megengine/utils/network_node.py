"""The nodes of a graph that is edited: values (:class:`VarNode`) and ops (:class:`OpNode`).

There is a class for each kind of op, with the reference's name where it has one
(``ConvolutionForward``), else with the name that the op has here (``Softmax``).

A :class:`VarNode` is a Tensor without contents. Any function of Tensors takes it and gives
:class:`VarNode` objects, which :class:`~megengine.utils.network.Network` puts into its graph:

>>> import megengine.functional as F
>>> from megengine.utils.network import Network
>>> net = Network()
>>> x = net.make_input_node((2, 3), "float32", name="x")
>>> y = F.relu(x * 2)
>>> y, y.shape, y.owner.type, y.owner.inputs[0].owner.params
(VarNode:RELU, (2, 3), 'Elemwise', {'mode': 'MUL'})
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast
from weakref import WeakValueDictionary

import numpy as np

from .. import _core
from .._core import Executable, Graph, OpDef, op_types
from ..core._imperative_rt.core2 import apply
from ..core.ops import builtin
from ..jit.graph_file import numbers_of
from ..jit.sizes import Expression
from ..tensor import Tensor

if TYPE_CHECKING:
    # Classes are made from a table below, where a type checker cannot see them.
    def __getattr__(name: str) -> type[OpNode]: ...


_ids = itertools.count()
# The objects of symbols that live, by key: one for each.
_vars: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()


class NetworkNode:
    """What :class:`VarNode` and :class:`OpNode` have in common: they are nodes of a graph."""


class ComputingGraph:
    """Stands for the graph that nodes belong to.

    Its options are settings of the reference which change nothing here.
    """

    class Options:
        """Named settings; any name can be set."""

        weight_preprocess = False

    def __init__(self) -> None:
        self._options = ComputingGraph.Options()

    @property
    def options(self) -> Options:
        """The settings."""
        return self._options

    def enable_weight_preprocess(self) -> None:
        """Weights that are brought into a layout of their own always stay so between calls."""
        self.options.weight_preprocess = True

    def compile(self, outputs: Sequence[VarNode]) -> Executable:
        """A program that takes the inputs that the outputs need and gives these.

        The inputs are in the order in which they were made.

        >>> import megengine as mge
        >>> from megengine.utils.network import Network
        >>> net = Network()
        >>> x = net.make_input_node((2,), "float32", name="x")
        >>> net.graph.compile([x + 1])(mge.tensor([1.0, 2.0]))
        [Tensor([2. 3.], device=xpux:0)]
        """
        built = build_graph(outputs)
        return Executable(built.graph, [built.ids[id(v)] for v in built.inputs])


class VarNode(NetworkNode, Tensor):
    """A value of a graph: it has a dtype and a shape, and no contents.

    Args:
        var: another one, or a result of ops on them, which this one stands for.
        owner_opr: the op that makes it.
        name: what it is called; without one, it is called after its op.

    Raises:
        TypeError: for a Tensor with contents.
    """

    _owner: OpNode | None = None
    _custom_name: str | None = None
    _graph: ComputingGraph | None = None

    def __init__(
        self, var: Tensor, owner_opr: OpNode | None = None, name: str | None = None
    ) -> None:
        super().__init__(0.0)
        key = _core.symbol_key(var)
        self._reset(var)
        _vars[key] = self
        self._owner = owner_opr if owner_opr is not None else getattr(var, "_owner", None)
        self._custom_name = name if name is not None else getattr(var, "_custom_name", None)

    @classmethod
    def load(cls, sym_var: Tensor, owner_opr: OpNode | None) -> VarNode:
        """The node of a result of ops on nodes, made by a given op."""
        var = as_symbol(sym_var)
        var._owner = owner_opr
        return var

    @property
    def owner(self) -> OpNode | None:
        """The op that makes it."""
        if self._owner is None:
            adopt(self)
        return self._owner

    def set_owner_opr(self, owner_opr: OpNode) -> None:
        """Says which op makes it."""
        self._owner = owner_opr

    @property
    def name(self) -> str:
        """What it is called."""
        if self._custom_name is not None:
            return self._custom_name
        owner = self.owner
        if owner is None:
            return ""
        place = next((i for i, v in enumerate(owner.outputs) if v is self), 0)
        return owner.name if place == 0 else f"{owner.name}:o{place}"

    @name.setter
    def name(self, name: str) -> None:
        self._custom_name = name

    @property
    def id(self) -> int:
        """A number that no other node has."""
        if "_id" not in self.__dict__:
            self._id = next(_ids)
        return self._id

    @property
    def users(self) -> list[OpNode]:
        """The ops of its network that take it."""
        return self.__dict__.setdefault("_users", [])

    @property
    def var(self) -> VarNode:
        """Itself: what functions of :mod:`megengine.utils.comp_graph_tools` take."""
        return self

    @property
    def graph(self) -> ComputingGraph | None:
        """The graph of its network; None outside of one."""
        return self._graph

    @property
    def partial_shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape

    def shapeof(self, axis: int) -> VarNode:
        """The size of an axis as a constant of the graph, of dtype int32 and shape (1,)."""
        return constant(np.array([self.shape[axis]], "int32"), f"shape_of({self.name})")

    @property
    def value(self) -> np.ndarray[Any, Any] | None:
        """The contents of a value that depends on constants only; None of all others."""
        return self.numpy() if is_constant(self) else None

    def numpy(self) -> np.ndarray:
        """The contents, of a value that depends on constants only.

        Raises:
            RuntimeError: for one that depends on an input of the graph.
        """
        if not is_constant(self):
            raise RuntimeError(
                f"Network: {self.name} depends on inputs of the graph and has no contents; dump "
                "the graph and run it"
            )
        return _contents(self).numpy()

    def _renew(self, like: Tensor) -> None:
        """Takes the dtype and the shape of another value."""
        symbol = new_var(like.dtype, like.shape)
        key = _core.symbol_key(symbol)
        self._reset(symbol)
        _vars[key] = self

    def __repr__(self) -> str:
        return f"VarNode:{self.name}"

    __str__ = __repr__


def set_py_varnode_type(cls: type[VarNode]) -> None:
    """Makes a subclass of :class:`VarNode` the type of new ones."""
    _core.set_symbol_class(cls, _vars)


set_py_varnode_type(VarNode)


def new_var(dtype: Any, shape: Sequence[int]) -> VarNode:
    """A new value that no op makes so far."""
    return cast(VarNode, _core.make_symbol(dtype, shape))


@dataclass
class FollowedNumber:
    """A number among the parameters of an op that is arithmetic on sizes of values.

    Args:
        name: the parameter.
        position: which of its numbers.
        expression: the arithmetic.
        values: by the ids in it, the values.
    """

    name: str
    position: int
    expression: Expression
    values: dict[int, VarNode]

    def number(self, found: Mapping[int, Tensor] = MappingProxyType({})) -> int | float:
        """The number; some values, by ``id()``, are to have other shapes than they have.

        Raises:
            ValueError: where there is none.
        """

        def size(value: int, axis: int) -> int:
            node = self.values[value]
            shape: tuple[int, ...] = found.get(id(node), node).shape
            if axis >= len(shape):
                raise ValueError(f"there is no axis {axis} in shape {shape}")
            return shape[axis]

        return self.expression.value(size)

    def is_followed(self, op: OpNode) -> bool:
        """Whether the parameter is still that number: somebody may have set another one."""
        numbers = numbers_of(op.params.get(self.name))
        return self.position < len(numbers) and numbers[self.position] == self.number()

    def replaced(self, instead: Mapping[int, VarNode]) -> FollowedNumber:
        """The same of other values, by ``id()`` of those before."""
        return replace(self, values={i: instead.get(id(v), v) for i, v in self.values.items()})


def forget_what_was_set(ops: Iterable[OpNode]) -> None:
    """Parameters that somebody has set to other numbers follow sizes no more."""
    for op in ops:
        op.follows = [follow for follow in op.follows if follow.is_followed(op)]


class OpNode(NetworkNode):
    """An op of a graph.

    Attributes:
        inputs: the values that it takes.
        outputs: the values that it makes.
        params: its attributes; a change counts from the next :meth:`compile` on.
        name: what it is called.
        type: its kind, as the reference calls it.
        opdef: the class of its kind in :mod:`megengine.core.ops.builtin`.
    """

    type: ClassVar[str | None] = None
    opdef: ClassVar[Any] = None

    def __init__(self) -> None:
        self.inputs: list[VarNode] = []
        self.outputs: list[VarNode] = []
        self.params: dict[str, Any] = {}
        self.name = type(self).type or ""
        self._op: OpDef | None = None
        self._id = next(_ids)
        self._priority = 0
        # How parameters grow with the batch size, where that is known.
        self.slopes: dict[str, list[int]] | None = None
        # Numbers among them that are arithmetic on sizes.
        self.follows: list[FollowedNumber] = []

    @classmethod
    def load(cls, opr: OpDef) -> OpNode:
        """A node of an op, without inputs and outputs so far."""
        node = cls()
        node._op = opr
        node.params = _core.op_fields(opr)
        if "mode" in node.params and cls.type == "Elemwise":
            node.name = node.params["mode"]
        return node

    @property
    def id(self) -> int:
        """A number that no other node has."""
        return self._id

    @property
    def priority(self) -> tuple[int, int]:
        """In which order ops that could run in any order are listed: low ones first."""
        return self._priority, self._id

    def add_inp_var(self, x: VarNode) -> None:
        """Adds an input after the others."""
        self.inputs.append(x)

    def add_out_var(self, x: VarNode) -> None:
        """Adds an output after the others."""
        x._owner = self
        self.outputs.append(x)

    def op(self) -> OpDef:
        """The op with the parameters that the node has now.

        Raises:
            TypeError: for a node that holds none.
        """
        if self._op is None:
            raise TypeError(f"{type(self).__name__}: this node is not of an op")
        if self.params != _core.op_fields(self._op):
            self._op = op_like(self._op, self.params)
        return self._op

    def compile(self) -> None:
        """Finds dtypes and shapes of the outputs anew, from the inputs and ``params``.

        Raises:
            ValueError, TypeError: where the op does not take such inputs.
        """
        for old, new in zip(self.outputs, applied(self, self.inputs), strict=True):
            old._renew(new)

    def __repr__(self) -> str:
        kind = self.type or type(self).__name__
        if kind == "Elemwise":
            kind = f"{kind}:{self.params['mode']}"
        return f"{self.name}{{{kind}}}"


class ReadOnlyOpNode(OpNode):
    """An op that takes no other inputs than it has; no op here is one."""

    def compile(self) -> None:
        """Does nothing: the outputs are what they were."""


class Host2DeviceCopy(OpNode):
    """Gives what each call is given: an input of the graph.

    Args:
        shape: its shape.
        dtype: its dtype.
        name: what it is called.
        device: not used: graphs run where their weights are.
    """

    type = "Host2DeviceCopy"

    def __init__(
        self, shape: Any = None, dtype: Any = None, name: str | None = None, device: Any = None
    ) -> None:
        super().__init__()
        self.shape = None if shape is None else tuple(int(n) for n in shape)
        self.dtype = dtype
        self.device = device
        self.name = name or self.name

    @classmethod
    def load(cls, opr: Any) -> Host2DeviceCopy:
        """A node like a given value: an input of its dtype and shape."""
        return cls(opr.shape, opr.dtype, getattr(opr, "name", None))

    def compile(self, graph: ComputingGraph | None = None) -> None:
        """Gives the output the node's dtype and shape; makes it where there is none."""
        if self.shape is None:
            raise RuntimeError(f"Host2DeviceCopy: {self.name} has no shape yet")
        symbol = new_var(self.dtype, self.shape)
        if self.outputs:
            self.outputs[0]._renew(symbol)
        else:
            self.add_out_var(symbol)
        self.outputs[0]._graph = graph


class ConstOpBase(OpNode):
    """Gives the same value in each call: a weight, a number.

    Args:
        data: the value: a Tensor, an array, a number.
        name: what it is called.
        device: where the value lives; the default device without one.
        graph: the graph that it belongs to.
    """

    type = "ConstOpBase"

    def __init__(
        self,
        data: Any = None,
        name: str | None = None,
        device: Any = None,
        graph: ComputingGraph | None = None,
    ) -> None:
        super().__init__()
        self.name = name or self.name
        self.graph = graph
        self._data: Tensor | None = None
        if data is not None:
            self.set_value(data, device)

    @classmethod
    def load(cls, opr: Any) -> ConstOpBase:
        """A node that gives a Tensor."""
        return cls(opr)

    @classmethod
    def rt_fun(cls, data: Any, name: str | None = None) -> VarNode:
        """The value of a new node."""
        return cls(data, name).outputs[0]

    @property
    def data(self) -> Tensor:
        """The value."""
        if self._data is None:
            raise RuntimeError(f"{type(self).__name__}: {self.name} has no value yet")
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.data.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the value."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """Where the value lives."""
        return self.data.device

    def numpy(self) -> np.ndarray:
        """The value as an array."""
        return self.data.numpy()

    def set_value(self, data: Any, device: Any = None) -> None:
        """Puts another value, of any shape, into the node.

        What follows in a graph learns of another shape from
        :meth:`~megengine.utils.network.Network.replace_vars` or when the graph is dumped.
        """
        # A Tensor of its own: later changes of the given one are not changes of the graph.
        self._data = Tensor(data, device=device)
        self.compile(self.graph)

    def compile(self, graph: ComputingGraph | None = None) -> None:
        """Gives the output the value's dtype and shape; makes it where there is none."""
        if self.outputs:
            self.outputs[0]._renew(self.data)
        else:
            self.add_out_var(new_var(self.data.dtype, self.data.shape))
        self.outputs[0]._graph = graph


class ImmutableTensor(ConstOpBase):
    """A constant of a graph."""

    type = "ImmutableTensor"


class SharedDeviceTensor(ConstOpBase):
    """A constant of a graph; graphs that are loaded hold :class:`ImmutableTensor` ones."""

    type = "SharedDeviceTensor"


class IndexingBase(OpNode):
    """What index expressions are made of."""


class RNGOpr(OpNode):
    """Gives random numbers."""


# Class, kind as the reference calls it, and our kinds that it stands for. Where they are left out,
# all three are the same.
_TABLE: list[tuple[str, str, tuple[str, ...]]] = [
    ("AdaptivePoolingForward", "AdaptivePooling", ("AdaptivePooling",)),
    ("Argmax", "Argmax", ("Argmax",)),
    ("Argmin", "Argmin", ("Argmin",)),
    ("ArgsortForward", "Argsort", ("Argsort",)),
    ("AssertEqual", "AssertEqual", ()),
    ("AxisAddRemove", "AxisAddRemove", ("AddAxis", "RemoveAxis")),
    ("BatchConvBiasForward", "BatchConvBias", ("BatchConvBias",)),
    ("BatchNormForward", "BatchNorm", ("BatchNorm",)),
    ("BatchedMatrixMul", "BatchedMatmul", ("BatchedMatrixMul",)),
    ("Broadcast", "Broadcast", ("Broadcast",)),
    ("Concat", "Concat", ("Concat",)),
    ("CondTake", "CondTake", ("CondTake",)),
    ("ConvBiasForward", "ConvBias", ("ConvBias",)),
    ("ConvolutionBackwardData", "ConvTranspose", ("ConvolutionBackwardData",)),
    ("ConvolutionForward", "Convolution", ("Convolution",)),
    ("Copy", "Copy", ("Copy",)),
    ("CvtColorForward", "CvtColor", ("CvtColor",)),
    ("DeformableConvForward", "DeformableConv", ("DeformableConv",)),
    ("DeformablePSROIPoolingForward", "DeformablePSROIPooling", ("DeformablePSROIPooling",)),
    ("Dimshuffle", "Dimshuffle", ("Dimshuffle",)),
    ("Dot", "Dot", ("Dot",)),
    ("Elemwise", "Elemwise", ("Elemwise",)),
    ("ElemwiseMultiType", "ElemwiseMultiType", ()),
    ("Eye", "Eye", ("Eye",)),
    ("GetVarShape", "GetVarShape", ()),
    ("GroupLocalForward", "GroupLocal", ("GroupLocal",)),
    ("Identity", "Identity", ("Identity",)),
    ("IndexingOneHot", "IndexingOneHot", ("IndexingOneHot",)),
    ("IndexingSetOneHot", "IndexingSetOneHot", ("IndexingSetOneHot",)),
    ("Linspace", "Linspace", ("Linspace",)),
    ("MatrixInverse", "MatrixInverse", ("MatrixInverse",)),
    ("MatrixMul", "MatrixMul", ("MatrixMul",)),
    ("NMSKeep", "NMSKeep", ("NMSKeep",)),
    ("NvOf", "NvOf", ()),
    ("PoolingForward", "Pooling", ("Pooling",)),
    ("ROIAlignForward", "ROIAlign", ("ROIAlign",)),
    ("ROIPoolingForward", "ROIPooling", ("ROIPooling",)),
    ("Reduce", "Reduce", ("Reduce",)),
    ("RemapForward", "Remap", ("Remap",)),
    ("Reshape", "Reshape", ("Reshape",)),
    ("ResizeForward", "Resize", ("Resize",)),
    ("SVD", "SVD", ("SVD",)),
    ("TopK", "TopK", ("TopK",)),
    ("TypeCvt", "TypeCvt", ("TypeCvt",)),
    ("WarpAffineForward", "WarpAffine", ("WarpAffine",)),
    ("WarpPerspectiveForward", "WarpPerspective", ("WarpPerspective",)),
]
_INDEXING = [
    *("Subtensor", "SetSubtensor", "IncrSubtensor"),
    *("IndexingMultiAxisVec", "IndexingSetMultiAxisVec", "IndexingIncrMultiAxisVec"),
    *("MeshIndexing", "SetMeshIndexing", "IncrMeshIndexing"),
    *("BatchedMeshIndexing", "BatchedSetMeshIndexing", "BatchedIncrMeshIndexing"),
]

_BY_KIND: dict[str, type[OpNode]] = {}
_BY_TYPE: dict[str, type[OpNode]] = {
    c.__name__: c for c in (Host2DeviceCopy, ConstOpBase, ImmutableTensor, SharedDeviceTensor)
}
_FIELDS = {info["name"]: [name for name, _, _ in info["fields"]] for info in op_types()}


def _make_classes() -> list[str]:
    """Puts the classes into this module; returns their names."""
    rows = [(*row, OpNode) for row in _TABLE]
    rows += [(name, name, (name,), IndexingBase) for name in _INDEXING]
    covered = {kind for _, _, kinds, _ in rows for kind in kinds}
    for name in _FIELDS:
        if name not in covered:
            base = RNGOpr if name.endswith("RNG") or name == "Dropout" else OpNode
            rows.append((name, name, (name,), base))
    for name, kind, ours, base in rows:
        opdef = getattr(builtin, ours[0] if ours else name, None)
        doc = f"A node of :class:`~megengine.core.ops.builtin.{ours[0] if ours else name}`."
        made = type(
            name,
            (base,),
            {"type": kind, "opdef": opdef, "__doc__": doc, "__module__": __name__},
        )
        globals()[name] = made
        _BY_TYPE[kind] = made
        for k in ours:
            _BY_KIND[k] = made
    return [name for name, *_ in rows]


_made = _make_classes()

__all__ = [
    "ComputingGraph",
    "ConstOpBase",
    "Host2DeviceCopy",
    "ImmutableTensor",
    "IndexingBase",
    "NetworkNode",
    "OpNode",
    "RNGOpr",
    "ReadOnlyOpNode",
    "SharedDeviceTensor",
    "VarNode",
    "flops_batchmatmul",
    "flops_conv",
    "flops_elemwise",
    "flops_matmul",
    "receptive_field",
    "set_py_varnode_type",
    "str_to_mge_class",
    *_made,
]


def str_to_mge_class(classname: str) -> type[OpNode]:
    """The class of a name; :class:`ReadOnlyOpNode` for any name that is none.

    >>> str_to_mge_class("ConvolutionForward").type, str_to_mge_class("Nothing").__name__
    ('Convolution', 'ReadOnlyOpNode')
    """
    found = globals().get(classname)
    return found if isinstance(found, type) and issubclass(found, OpNode) else ReadOnlyOpNode


def op_like(op: OpDef, params: Mapping[str, Any]) -> OpDef:
    """An op of the same kind with other attributes."""
    return cast(OpDef, getattr(builtin, _core.op_kind(op))(**params))


# Ops whose shapes depend on the contents of inputs: sizes, positions.
_BY_CONTENTS = {info["name"] for info in op_types() if info["by_contents"]}


def is_constant(value: VarNode) -> bool:
    """Whether a value depends on constants only."""
    stack, seen = [value], set()
    while stack:
        v = stack.pop()
        if id(v) in seen:
            continue
        seen.add(id(v))
        owner = v.owner
        if owner is None or isinstance(owner, Host2DeviceCopy):
            return False
        stack += owner.inputs
    return True


def _contents(value: Tensor) -> Tensor:
    """What a value holds, where it depends on constants only; any other value as it is."""
    if not isinstance(value, VarNode) or not is_constant(value):
        return value
    return Executable(build_graph([value]).graph, [])()[0]


def applied(
    op: OpNode, inputs: Sequence[Tensor], params: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """The op with other parameters on other inputs; errors name the node."""
    made = op.op() if params is None or params == op.params else op_like(op.op(), params)
    if _core.op_kind(made) in _BY_CONTENTS:
        inputs = [_contents(v) for v in inputs]
    try:
        return apply(made, *inputs)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"Network: {op.name} does not take these inputs: {error}") from error


def node_of(op: OpDef) -> OpNode:
    """A node of the class that is meant for an op, without inputs and outputs so far."""
    return _BY_KIND[_core.op_kind(op)].load(op)


def constant(data: Any, name: str | None = None, device: Any = None) -> VarNode:
    """The value of a new :class:`ImmutableTensor`."""
    return ImmutableTensor(data, name or "const", device).outputs[0]


def as_symbol(x: Tensor) -> VarNode:
    """The node of a Tensor: what ops on nodes gave, or a constant for one with contents."""
    if not _core.is_symbol(x):
        return constant(x)
    found = _vars.get(_core.symbol_key(x))
    return found if found is not None else VarNode(x)


def adopt(var: VarNode) -> None:
    """Makes the ops that a result of ops on nodes came from, up to those that are there already."""
    stack = [var]
    while stack:
        v = stack[-1]
        call = None if v._owner is not None else _core.symbol_call(v)
        if call is None:  # it has its op, or was made by itself
            stack.pop()
            continue
        op, inputs, outputs = call
        waiting = [t for t in map(as_waiting, inputs) if t is not None]
        if waiting:
            stack += waiting
            continue
        node = node_of(op)
        for t in inputs:
            node.add_inp_var(as_symbol(t))
        for t in outputs:
            node.add_out_var(as_symbol(t))
        stack.pop()


def as_waiting(t: Tensor) -> VarNode | None:
    """The node of a result of ops on nodes that has no op of its own yet; else None."""
    if not _core.is_symbol(t):
        return None
    var = as_symbol(t)
    return var if var._owner is None and _core.symbol_call(var) is not None else None


def topological(outputs: Iterable[VarNode]) -> list[OpNode]:
    """All ops that the outputs need, each after those that it needs, inputs in their order.

    An op that follows the size of a value needs that value too.

    Raises:
        ValueError: where a value depends on itself, or is made by no op.
    """
    done: dict[int, OpNode] = {}
    open_ops: set[int] = set()
    stack: list[tuple[OpNode, bool]] = [(as_node(v), False) for v in reversed(list(outputs))]
    while stack:
        op, ready = stack.pop()
        if id(op) in done:
            continue
        if ready:
            open_ops.discard(id(op))
            done[id(op)] = op
            continue
        if id(op) in open_ops:
            raise ValueError(f"Network: {op.name} would depend on itself")
        open_ops.add(id(op))
        stack.append((op, True))
        stack += [(as_node(v), False) for v in reversed(needs(op))]
    return list(done.values())


def needs(op: OpNode) -> list[VarNode]:
    """The inputs of an op, and the values whose sizes its parameters follow."""
    return [*op.inputs, *(v for follow in op.follows for v in follow.values.values())]


def as_node(v: VarNode) -> OpNode:
    """The op that makes a value; raises where there is none."""
    if not isinstance(v, VarNode):
        raise TypeError(f"Network: expected a VarNode, got {type(v).__name__}")
    owner = v.owner
    if owner is None:
        raise ValueError("Network: expected a value of a network, got one that no op makes")
    return owner


class BuiltGraph:
    """A graph of the core, made of nodes.

    Args:
        graph: the graph.
        inputs: its inputs, in the order in which they were made.
        ops: its nodes; those without inputs (constants, and what calls are given) are none of the
            graph's.
        ids: by ``id()`` of a value, its number in the graph.
    """

    def __init__(
        self, graph: Graph, inputs: list[VarNode], ops: list[OpNode], ids: dict[int, int]
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.ops = ops
        self.ids = ids


def build_graph(outputs: Sequence[VarNode]) -> BuiltGraph:
    """The graph of the core that computes values."""
    graph = Graph()
    inputs: list[VarNode] = []
    ids: dict[int, int] = {}
    ops = topological(outputs)
    for op in ops:
        outside = isinstance(op, ConstOpBase | Host2DeviceCopy)
        for v in op.outputs:
            ids[id(v)] = graph.add_value(v.dtype, v.shape, external=outside)
        if isinstance(op, ConstOpBase):
            graph.set_constant(ids[id(op.outputs[0])], op.data)
        elif isinstance(op, Host2DeviceCopy):
            inputs.append(op.outputs[0])
        else:
            graph.add_node(
                op.op(), [ids[id(v)] for v in op.inputs], [ids[id(v)] for v in op.outputs]
            )
    graph.outputs = tuple(ids[id(v)] for v in outputs)
    inputs.sort(key=lambda v: as_node(v).id)
    return BuiltGraph(graph, inputs, ops, ids)


# ---- what ops cost -------------------------------------------------------------------------------


def _size(value: Any) -> int:
    return math.prod(value.shape)


def flops_conv(opnode: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Multiply-adds of a convolution of an image and a weight: (N, C, H, W), (..., kh, kw).

    >>> import megengine.functional as F
    >>> flops_conv(None, [F.ones((2, 3, 8, 8)), F.ones((4, 3, 3, 3))], [F.ones((2, 4, 8, 8))])
    13824.0
    """
    return float(_size(outputs[0]) * math.prod(inputs[1].shape[-3:]))


def flops_matmul(opnode: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Multiply-adds of a product of matrices; ``params`` of the node say which is transposed."""
    transposed = opnode is not None and opnode.params.get("transposeA", False)
    return _size(outputs[0]) * inputs[0].shape[-2 if transposed else -1]


def flops_batchmatmul(opnode: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Multiply-adds of products of matrices, summed over the batch."""
    return flops_matmul(opnode, inputs, outputs)


def flops_elemwise(opnode: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """One operation for each number of the result."""
    return _size(outputs[0])


def receptive_field(
    opnode: Any, inputs: Sequence[Any], outputs: Sequence[Any]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Window and stride of a convolution: how far an output number looks.

    >>> from megengine.utils.network import Network
    >>> import megengine.functional as F
    >>> net = Network()
    >>> x = net.make_input_node((1, 2, 9, 9), "float32", name="x")
    >>> op = F.conv2d(x, F.ones((4, 2, 3, 3)), stride=2).owner
    >>> receptive_field(op, op.inputs, op.outputs)
    ((3, 3), (2, 2))
    """
    params = opnode.params
    height, width = inputs[1].shape[-2:]
    rows = (height - 1) * params.get("dilate_h", 1) + 1
    columns = (width - 1) * params.get("dilate_w", 1) + 1
    return (rows, columns), (params["stride_h"], params["stride_w"])
