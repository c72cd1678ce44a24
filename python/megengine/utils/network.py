"""Graphs that are loaded, looked at, edited and dumped again.

>>> import megengine.functional as F
>>> net = Network()
>>> x = net.make_input_node((2, 3), "float32", name="x")
>>> net.add_output(F.softmax(x * 2, axis=1))
>>> net.all_oprs
[x{Host2DeviceCopy}, const{ImmutableTensor}, MUL{Elemwise:MUL}, Softmax{Softmax}]
>>> net.opr_filter.type(str_to_mge_class("Elemwise")).as_unique().inputs
[VarNode:x, VarNode:const]
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple, Self

from .._core import Executable
from ..core._trace_option import set_symbolic_shape
from ..jit import graph_file
from ..jit.dump import CompGraphDumpResult, check_options, write_strip_info
from ..tensor import Tensor
from .network_batch import rebatched, resized
from .network_file import (
    MODIFIED,
    OPTIMIZED,
    FreeAxis,
    SerializationMetadata,
    distinct,
    follow_again,
    follows_of,
    free_axes,
    kept_names,
    nodes_of_file,
    nodes_of_graph,
)
from .network_node import (
    ComputingGraph,
    ConstOpBase,
    FollowedNumber,
    Host2DeviceCopy,
    ImmutableTensor,
    NetworkNode,
    OpNode,
    VarNode,
    applied,
    as_symbol,
    build_graph,
    forget_what_was_set,
    needs,
    new_var,
    str_to_mge_class,
    topological,
)
from .node_filter import (
    NodeFilter,
    NodeFilterCheckType,
    NodeFilterHasInput,
    NodeFilterName,
    NodeFilterNotType,
    NodeFilterType,
)

__all__ = [
    "ComputingGraph",
    "ConstOpBase",
    "Host2DeviceCopy",
    "ImmutableTensor",
    "Network",
    "NetworkNode",
    "NodeFilter",
    "NodeFilterCheckType",
    "NodeFilterHasInput",
    "NodeFilterName",
    "NodeFilterNotType",
    "NodeFilterType",
    "OpNode",
    "SerializationMetadata",
    "VarNode",
    "as_oprnode",
    "as_varnode",
    "set_symbolic_shape",
    "str_to_mge_class",
]


class _Changes(NamedTuple):
    """What follows from an edit: by ``id()`` of a value, one like it now; ops and parameters."""

    values: dict[int, Tensor]
    params: list[tuple[OpNode, dict[str, Any]]]


class Network:
    """A graph of ops as Python objects.

    Attributes:
        output_vars: the values that it gives.
        input_vars: the values that it took when it was loaded.
        graph: what its nodes belong to.
    """

    def __init__(self) -> None:
        self.input_vars: list[VarNode] = []
        self.output_vars: list[VarNode] = []
        self.graph = ComputingGraph()
        self._metadata = SerializationMetadata()
        self._members: list[OpNode] = []  # the ops whose values know their users
        self._refusal = ""  # why it takes one batch size alone; a file may say so
        # What a file says of sizes: other axes of inputs that are free, and what must be true.
        self._free: list[FreeAxis] = []
        self._decided: list[FollowedNumber] = []

    # ---- looking at it ---------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What the file said about itself; None where it said nothing, or there is no file."""
        if not self._metadata.is_valid:
            return None
        return {
            "user_info": self._metadata.user_info,
            "graph_modified": self._metadata.graph_modified,
            "optimized_for_inference": self._metadata.optimized_for_inference,
        }

    @property
    def dest_vars(self) -> list[VarNode]:
        """The values that it gives."""
        return self.output_vars

    @property
    def all_oprs(self) -> list[OpNode]:
        """All ops, each after those that it needs."""
        return topological(self.output_vars)

    @property
    def all_vars(self) -> list[VarNode]:
        """All values that something takes, and the outputs; the outputs first."""
        return dependencies(self.output_vars)

    @property
    def all_oprs_dict(self) -> OrderedDict[str, OpNode]:
        """All ops by name; of those of one name, the last one."""
        return self.opr_filter.as_dict()

    @property
    def all_vars_dict(self) -> OrderedDict[str, VarNode]:
        """All values by name; of those of one name, the last one."""
        return self.var_filter.as_dict()

    @property
    def opr_filter(self) -> NodeFilter[OpNode]:
        """All ops, to be narrowed down."""
        return NodeFilter(self.all_oprs)

    @property
    def var_filter(self) -> NodeFilter[VarNode]:
        """All values, to be narrowed down."""
        return NodeFilter(self.all_vars)

    @property
    def data_providers_filter(self) -> NodeFilter[OpNode]:
        """The inputs."""
        return self.opr_filter.data_provider()

    @property
    def params_filter(self) -> NodeFilter[OpNode]:
        """The constants."""
        return self.opr_filter.param_provider()

    def get_opr_by_type(self, oprcls: type[OpNode], unique: bool = True) -> Any:
        """The op of a class; with ``unique=False`` the list of all of them.

        Raises:
            ValueError: where there is not exactly one.
        """
        return _found(self.opr_filter.type(oprcls), unique, f"op of {oprcls}")

    def get_opr_by_name(self, name: str, unique: bool = True) -> Any:
        """The op of a name, which may have wildcards; with ``unique=False`` all of them.

        Raises:
            ValueError: where there is not exactly one.
        """
        return _found(self.opr_filter.name(name), unique, f"op of name {name}")

    def get_var_by_name(self, name: str, unique: bool = True) -> Any:
        """The value of a name, which may have wildcards; with ``unique=False`` all of them.

        Raises:
            ValueError: where there is not exactly one.
        """
        return _found(self.var_filter.name(name), unique, f"value of name {name}")

    def get_var_receive_oprs(self, var: VarNode) -> list[OpNode]:
        """The ops that take a value."""
        return self.opr_filter.has_input(var).as_list()

    def get_dep_oprs(self, var: VarNode | Iterable[VarNode]) -> list[OpNode]:
        """The ops that one or several values need."""
        return topological(listed(var))

    # ---- editing ---------------------------------------------------------------------------------

    def make_input_node(
        self, shape: Sequence[int], dtype: Any, name: str | None = None, device: Any = None
    ) -> VarNode:
        """A new input: it belongs to the graph once something that does takes it."""
        node = Host2DeviceCopy(shape, dtype, name or "input", device)
        node.compile(self.graph)
        return node.outputs[0]

    def make_const(self, data: Any, name: str | None = None, device: Any = None) -> VarNode:
        """A new constant: it belongs to the graph once something that does takes it."""
        node = ImmutableTensor(data, name or "const", device, self.graph)
        return node.outputs[0]

    def add_output(self, *vars: VarNode) -> None:
        """Makes values outputs, after those that are there; one that is one already stays.

        Raises:
            TypeError: for what is no value.
            ValueError: for a value of another network.
        """
        added = [as_varnode(v) for v in vars]
        outputs = list(self.output_vars)
        for v in added:
            if all(v is not o for o in outputs):
                outputs.append(v)
        self._set(outputs)

    def remove_output(self, *vars: VarNode) -> None:
        """Makes values outputs no more.

        Raises:
            ValueError: for one that is none.
        """
        kept = list(self.output_vars)
        for v in vars:
            places = [i for i, o in enumerate(kept) if o is v]
            if not places:
                raise ValueError(f"Network: expected an output, got {v!r}")
            del kept[places[0]]
        self._set(kept)

    def add_dep_oprs(self, *vars: VarNode) -> list[VarNode]:
        """Looks the ops up that values need, which happens by itself; returns the values."""
        found = list(vars) or self.output_vars
        topological(found)
        return found

    def replace_vars(self, repl_dict: Mapping[VarNode, VarNode]) -> None:
        """Puts other values in the place of values: their users take the new ones.

        What a new value itself is computed from stays as it is, so that ``{x: f(x)}`` puts ``f``
        behind ``x``. A value that is an output is replaced there as well. Shapes of what follows
        are found anew.

        Args:
            repl_dict: by value, the one to put in its place.

        Raises:
            TypeError: for what is no value.
            ValueError: where a new value depends on what it would replace, or an op does not take
                its shape. The network stays as it was then.
        """
        pairs = [(as_varnode(old), as_varnode(new)) for old, new in repl_dict.items()]
        instead = {id(old): new for old, new in pairs if old is not new}
        before = self.all_oprs
        forget_what_was_set(before)
        saved = [(op, op.inputs, op.follows) for op in before]
        outputs = self.output_vars
        edited = [op for op in before if any(id(v) in instead for v in needs(op))]
        for op in edited:
            op.inputs = [instead.get(id(v), v) for v in op.inputs]
            op.follows = [follow.replaced(instead) for follow in op.follows]
        try:
            self._set([instead.get(id(v), v) for v in outputs])
            self._change(self._infer({}, edited=edited))
            self._decided = [decided.replaced(instead) for decided in self._decided]
        except Exception:
            for op, inputs, follows in saved:
                op.inputs, op.follows = inputs, follows
            self._set(outputs)
            raise

    def replace_oprs(self, repl_dict: Mapping[OpNode, OpNode]) -> None:
        """Puts other ops in the place of ops: users of their outputs take those of the new ones.

        Raises:
            TypeError: for what is no op.
            ValueError: where the two have other numbers of outputs; see also :meth:`replace_vars`.
        """
        instead: dict[VarNode, VarNode] = {}
        for old, new in repl_dict.items():
            for op in (old, new):
                if not isinstance(op, OpNode):
                    raise TypeError(f"Network: expected an OpNode, got {type(op).__name__}")
            if len(old.outputs) != len(new.outputs):
                raise ValueError(
                    f"Network: expected as many outputs as {old!r} has ({len(old.outputs)}), got "
                    f"{len(new.outputs)} of {new!r}"
                )
            instead.update(zip(old.outputs, new.outputs, strict=True))
        self.replace_vars(instead)

    def modify_opr_names(self, modifier: str | Callable[[str], str]) -> None:
        """Renames all ops: with a prefix and a dot, or with what a function gives for a name.

        Raises:
            TypeError: for any other modifier.
        """
        rename = (lambda name: f"{modifier}.{name}") if isinstance(modifier, str) else modifier
        if not callable(rename):
            raise TypeError(
                f"Network: expected a prefix or a function, got {type(modifier).__name__}"
            )
        for op in self.all_oprs:
            for v in op.outputs:
                v.name = v.name  # names of values are not those of ops
            op.name = rename(op.name)

    def reset_batch_size(self, batchsize: int, blacklist: Iterable[str] = ()) -> None:
        """Gives the first axis of all inputs another size; shapes of all else follow.

        An op that holds shapes itself (``Reshape``, ``Broadcast``) is changed where its first size
        is that of the batch, or where exactly one of its sizes can take up the change.

        Args:
            batchsize: the new size.
            blacklist: names of inputs whose first axis is not the batch.

        Raises:
            ValueError: where no input is left, a name is no input's, the inputs have several batch
                sizes, or an op cannot take the new size: it is named. The network stays as it was
                then.
        """
        forget_what_was_set(self.all_oprs)
        names = set(blacklist)
        inputs = []
        for op in self.data_providers_filter:
            if op.name in names:
                names.discard(op.name)
            else:
                inputs.append(op)
        if self._refusal:
            raise ValueError(f"Network: this graph takes one batch size alone: {self._refusal}")
        if names:
            raise ValueError(f"Network: no inputs have the names {', '.join(sorted(names))}")
        if not inputs:
            raise ValueError("Network: expected an input whose first axis is the batch, found none")
        given = {}
        sizes = set()
        for op in inputs:
            (v,) = op.outputs
            if not v.shape:
                raise ValueError(f"Network: {op.name} has no axes; name it in the blacklist")
            sizes.add(v.shape[0])
            given[id(v)] = new_var(v.dtype, (batchsize, *v.shape[1:]))
        if len(sizes) > 1:
            raise ValueError(
                f"Network: expected one batch size, found {sorted(sizes)}; name the inputs that "
                "have none in the blacklist"
            )
        self._change(self._infer(given, batch=(sizes.pop(), int(batchsize))))

    def _infer(
        self,
        given: Mapping[int, Tensor],
        batch: tuple[int, int] | None = None,
        edited: Iterable[OpNode] = (),
    ) -> _Changes:
        """Finds the shapes and dtypes anew that follow from a change; changes nothing.

        Args:
            given: by ``id()``, values that have others now.
            batch: the batch size before and after, where it changes.
            edited: ops that take other inputs now.
        """
        found = dict(given)
        params: list[tuple[OpNode, dict[str, Any]]] = []
        again = {id(op) for op in edited}
        for op in self.all_oprs:
            if isinstance(op, ConstOpBase | Host2DeviceCopy):
                continue
            grows = batch is not None and bool(op.slopes)
            reached = any(id(v) in found for v in needs(op))
            if not (grows or reached or id(op) in again):
                continue
            inputs = [found.get(id(v), v) for v in op.inputs]
            changed = rebatched(op, inputs, *batch) if batch is not None else op.params
            if op.follows:
                changed = resized(op, found)
            if changed != op.params:
                params.append((op, changed))
            for old, new in zip(op.outputs, applied(op, inputs, changed), strict=True):
                if old.shape != new.shape or old.dtype != new.dtype:
                    found[id(old)] = new
        return _Changes(found, params)

    def _change(self, changes: _Changes) -> None:
        for op, params in changes.params:
            op.params = params
        for op in self.all_oprs:
            for v in op.outputs:
                if id(v) in changes.values:
                    v._renew(changes.values[id(v)])
            if isinstance(op, Host2DeviceCopy):
                op.shape = op.outputs[0].shape

    def _set(self, outputs: list[VarNode]) -> None:
        """Makes these the outputs, and finds who uses what."""
        ops = topological(outputs)
        for op in ops:
            for v in op.outputs:
                if v._graph not in (None, self.graph):
                    raise ValueError(f"Network: {v!r} belongs to another network")
        for op in self._members:
            for v in op.outputs:
                v.users.clear()
        self._members = ops
        for op in ops:
            for v in op.outputs:
                v._graph = self.graph
                v.users.clear()
        for op in ops:
            for v in op.inputs:
                if all(op is not u for u in v.users):
                    v.users.append(op)
        self.output_vars = outputs

    # ---- files -----------------------------------------------------------------------------------

    @classmethod
    def load(
        cls, model_path: str | os.PathLike[str] | IO[bytes], outspec: Sequence[str] | None = None
    ) -> Self:
        """Reads a graph that ``trace.dump`` or :meth:`dump` wrote.

        Args:
            model_path: the file.
            outspec: names of values to make the outputs; the outputs of the file without it.

        Raises:
            ValueError: for a file that is none, or a name that no value has.
        """
        dumped = graph_file.load(model_path)
        net = cls()
        by_id = nodes_of_file(dumped, net.graph)
        net._refusal = dumped.batch.refusal if dumped.batch is not None else ""
        net.input_vars = [by_id[i] for i in dumped.inputs]
        net._free = free_axes(dumped, net.input_vars)
        net._decided = [
            FollowedNumber("", 0, e, {d.value: by_id[d.value] for d in e.axes()})
            for e in dumped.decided
        ]
        outputs = [by_id[i] for i in dumped.graph.outputs]
        if outspec is not None:
            named = {v.name: v for v in by_id.values()}
            lost = [name for name in outspec if name not in named]
            if lost:
                raise ValueError(f"Network: no values have the names {', '.join(lost)}")
            outputs = [named[name] for name in outspec]
        net._set(outputs)
        net._metadata = SerializationMetadata.of(dumped)
        return net

    def dump(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        keep_var_name: int = 1,
        keep_opr_name: bool = False,
        keep_param_name: bool = False,
        keep_opr_priority: bool = False,
        strip_info_file: str | os.PathLike[str] | None = None,
        append_json: bool = False,
        optimize_for_inference: bool = True,
        append: bool = False,
        user_info: Any = None,
        enable_metadata: bool = True,
        **kwargs: Any,
    ) -> CompGraphDumpResult:
        """Writes the graph into a file, which ``GraphInference`` runs.

        Args:
            file: its name, or a file open for writing bytes.
            keep_var_name: 0: no names but those of the inputs; 1: those of the outputs, too; 2:
                those of all values.
            keep_opr_name: whether to keep the names of ops. A file holds one name for an op and
                its first output: that of the op then.
            keep_param_name: whether to keep the names of constants.
            keep_opr_priority: nothing more to keep: ops are always written in their order.
            strip_info_file: the name of a file for a list of the kinds of ops and dtypes.
            append_json: whether to add to that file.
            optimize_for_inference: noted in the file; a graph is always optimised when it is run.
            append: whether to put the graph after what the named file holds.
            user_info: what to keep with it: numbers, texts, arrays, containers of them.
            enable_metadata: whether to write ``user_info`` and what :attr:`metadata` tells.
            kwargs: see :meth:`optimize_for_inference`.

        Returns:
            Sizes, a checksum and names; see :class:`~megengine.jit.dump.CompGraphDumpResult`.

        Raises:
            ValueError: where there are no outputs, or for an option that the reference has not.
            NotImplementedError: for ``enable_io16xc32`` and ``enable_ioc16``, which change numbers.
        """
        check_options("Network.dump", kwargs)
        if not self.output_vars:
            raise ValueError("Network.dump: expected an output, the network has none; add_output()")
        forget_what_was_set(self.all_oprs)
        built = build_graph(self.output_vars)
        names = kept_names(built, keep_var_name > 1, keep_opr_name, keep_param_name)
        inputs = built.inputs
        dumped = graph_file.DumpedGraph(
            built.graph,
            [built.ids[id(v)] for v in inputs],
            distinct([v.name for v in inputs]),
            distinct([v.name if keep_var_name else "" for v in self.output_vars]),
            names,
            self._batch(inputs),
            self._axes(inputs),
            follows_of(built),
            [
                decided.expression.renamed({i: built.ids[id(v)] for i, v in decided.values.items()})
                for decided in self._decided
                if all(id(v) in built.ids for v in decided.values.values())
            ],
        )
        if enable_metadata:
            dumped.user_info = user_info
            dumped.metadata = {MODIFIED: "True", OPTIMIZED: str(optimize_for_inference)}
        sizes = graph_file.save(dumped, file, append=append, metadata=enable_metadata)
        if strip_info_file is not None:
            write_strip_info(dumped.graph, strip_info_file, append_json, sizes.checksum)
        constants = {
            built.ids[id(op.outputs[0])] for op in built.ops if isinstance(op, ConstOpBase)
        }
        return CompGraphDumpResult(
            len(built.ops),
            sizes.total,
            sizes.weights,
            sizes.checksum,
            dumped.input_names,
            dumped.output_names,
            [name for i, name in names.items() if i in constants],
        )

    def _batch(self, inputs: list[VarNode]) -> graph_file.Batch | None:
        """How the graph changes with the batch size of its inputs, found by trying one more."""
        size = next((v.shape[0] for v in inputs if v.shape), 0)
        if not size:
            return None
        grown = [i for i, v in enumerate(inputs) if v.shape and v.shape[0] == size]
        batch = graph_file.Batch(size, grown, refusal=self._refusal)
        if batch.refusal:
            return batch
        larger = {
            id(v): new_var(v.dtype, (size + 1, *v.shape[1:])) for v in (inputs[i] for i in grown)
        }
        try:
            changes = self._infer(larger, (size, size + 1))
        except ValueError as error:
            batch.refusal = str(error)
            return batch
        nodes = [op for op in self.all_oprs if not isinstance(op, ConstOpBase | Host2DeviceCopy)]
        places = {id(op): i for i, op in enumerate(nodes)}
        for op, params in changes.params:
            for name, new in params.items():
                old = op.params[name]
                if old != new and any(follow.name == name for follow in op.follows):
                    batch.followed = True
                elif old != new:
                    numbers = zip(
                        graph_file.numbers_of(old), graph_file.numbers_of(new), strict=True
                    )
                    batch.slopes[places[id(op)], name] = [b - a for a, b in numbers]
        return batch

    def _axes(self, inputs: list[VarNode]) -> list[graph_file.Axis]:
        """The other axes that were free in the file; edits may have fixed them."""
        places = {id(v): i for i, v in enumerate(inputs)}
        free = [f for f in self._free if all(id(v) in places for v in f.inputs)]
        out = []
        for first in free:
            shapes = {id(v): list(v.shape) for v in inputs}
            for f in free:
                if f is first or (f.tied and f.tied == first.tied):
                    for v in f.inputs:
                        shapes[id(v)][f.axis] *= 2
            changed = {
                id(v): new_var(v.dtype, shapes[id(v)])
                for v in inputs
                if v.shape != tuple(shapes[id(v)])
            }
            refusal = ""
            try:
                self._infer(changed)
            except ValueError as error:
                refusal = str(error)
            size = first.inputs[0].shape[first.axis]
            out.append(
                graph_file.Axis(
                    first.axis,
                    size,
                    [places[id(v)] for v in first.inputs],
                    size or 1,
                    refusal=refusal,
                    tied=first.tied,
                    followed=first.followed,
                    every=first.every,
                )
            )
        return out

    def optimize_for_inference(self, dest_vars: Sequence[VarNode], **kwargs: Any) -> list[VarNode]:
        """The same values, computed by the ops that run in the end: constants folded, ops fused.

        Args:
            dest_vars: the values.
            kwargs: the reference's options. Those that pick a memory format have no effect, since
                it is always picked by itself.

        Raises:
            ValueError: for an option that the reference has not.
            NotImplementedError: for ``enable_io16xc32`` and ``enable_ioc16``, which change numbers.
        """
        check_options("Network.optimize_for_inference", kwargs)
        forget_what_was_set(self.all_oprs)
        built = build_graph([as_varnode(v) for v in dest_vars])
        inputs = [built.ids[id(v)] for v in built.inputs]
        graph = Executable(built.graph, inputs).optimized()
        names = {built.ids[id(v)]: v.name for op in built.ops for v in op.outputs}
        names = {i: name for i, name in names.items() if i < len(graph.values)}
        by_id = dict(zip(inputs, built.inputs, strict=True))
        by_id = nodes_of_graph(graph, by_id, names, self.graph)
        if follow_again(follows_of(built), built.graph, graph, by_id):
            self._refusal = "optimising made constants of numbers that follow sizes"
        return [by_id[i] for i in graph.outputs]


# ---- conversions ---------------------------------------------------------------------------------


def as_varnode(obj: Any) -> VarNode:
    """A value as it is, and the first output of an op.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(obj, OpNode):
        if not obj.outputs:
            raise TypeError(f"as_varnode: expected an op with an output, got {obj!r}")
        return obj.outputs[0]
    if isinstance(obj, VarNode):
        return as_symbol(obj)
    raise TypeError(f"as_varnode: expected a VarNode or an OpNode, got {type(obj).__name__}")


def as_oprnode(obj: Any) -> OpNode:
    """An op as it is, and the op that makes a value.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(obj, VarNode) and obj.owner is not None:
        return obj.owner
    if isinstance(obj, OpNode):
        return obj
    raise TypeError(f"as_oprnode: expected an OpNode or its output, got {type(obj).__name__}")


def listed(vars: VarNode | Iterable[VarNode]) -> list[VarNode]:
    """One value as a list, and several."""
    return [vars] if isinstance(vars, VarNode) else [as_varnode(v) for v in vars]


def dependencies(vars: VarNode | Iterable[VarNode]) -> list[VarNode]:
    """All values that values depend on, themselves first, then those that are ever further away."""
    found = {id(v): v for v in listed(vars)}
    queue = list(found.values())
    for v in queue:  # which grows
        for u in as_oprnode(v).inputs:
            if id(u) not in found:
                found[id(u)] = u
                queue.append(u)
    return queue


def _found(nodes: NodeFilter[Any], unique: bool, what: str) -> Any:
    out = nodes.as_list()
    if not unique:
        return out
    if len(out) != 1:
        raise ValueError(f"Network: expected one {what}, found {len(out)}")
    return out[0]
