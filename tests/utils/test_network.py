"""Graphs that are loaded, looked at, edited and dumped again."""

from __future__ import annotations

import gc
import io
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.utils.comp_graph_tools as tools
import megengine.utils.network_node as nodes
from megengine import _core, jit
from megengine._core import Executable, op_types
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.core.tensor import megbrain_graph
from megengine.jit import graph_file
from megengine.jit.recording import record
from megengine.utils.network import (
    Network,
    NodeFilter,
    NodeFilterName,
    SerializationMetadata,
    as_oprnode,
    as_varnode,
    str_to_mge_class,
)
from megengine.utils.network_batch import grow

Elemwise = str_to_mge_class("Elemwise")
Conv = str_to_mge_class("ConvolutionForward")


class Net(M.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = M.Conv2d(3, 4, 3, padding=1)
        self.norm = M.BatchNorm2d(4)
        self.fc = M.Linear(4 * 4 * 4, 5)
        self.eval()

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        y = F.relu(self.norm(self.conv(x)))
        return F.softmax(self.fc(F.flatten(F.avg_pool2d(y, 2), 1)), axis=1)


def images(count: int = 2, seed: int = 0) -> mge.Tensor:
    rng = np.random.default_rng(seed)
    return mge.tensor(rng.normal(size=(count, 3, 8, 8)).astype("float32"))


def saved(function: Callable[..., Any], *args: mge.Tensor, names: list[str]) -> io.BytesIO:
    """A file of one call, as trace.dump writes it."""
    recording = record(function, *args)
    for i, tensor in recording.captured.items():
        recording.graph.set_constant(i, tensor)
    outputs = [f"out{i}" for i, _ in enumerate(recording.graph.outputs)]
    dumped = graph_file.DumpedGraph(
        recording.graph, recording.inputs, names, outputs, recording.names
    )
    file = io.BytesIO()
    graph_file.save(dumped, file)
    file.seek(0)
    return file


def loaded(module: Net) -> Network:
    return Network.load(saved(module, images(), names=["data"]))


def run(net: Network, *inputs: mge.Tensor) -> list[np.ndarray]:
    """What the network gives after it went through a file."""
    file = io.BytesIO()
    net.dump(file)
    file.seek(0)
    dumped = graph_file.load(file)
    return [t.numpy() for t in Executable(dumped.graph, dumped.inputs)(*inputs)]


def close(got: np.ndarray, want: mge.Tensor) -> None:
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


# ---- looking at a graph --------------------------------------------------------------------------


def test_ops_and_values() -> None:
    """Classes, types, names, parameters, shapes, who takes what."""
    net = loaded(Net())
    ops = net.all_oprs
    assert [type(op).__name__ for op in ops if op.inputs] == [
        "ConvolutionForward",
        "BatchNormForward",
        "Elemwise",
        "PoolingForward",
        "Reshape",
        "Linear",
        "Softmax",
    ]
    assert repr(ops[0]) == "data{Host2DeviceCopy}"
    conv = net.get_opr_by_type(Conv)
    assert conv.type == "Convolution"
    assert conv.opdef is builtin.Convolution
    assert conv.params["pad_h"] == 1
    assert [v.name for v in conv.inputs] == ["data", "conv.weight", "conv.bias"]
    relu = net.get_opr_by_type(Elemwise)
    assert repr(relu).endswith("{Elemwise:RELU}")
    data, out = net.get_var_by_name("data"), net.output_vars[0]
    assert net.dest_vars == [out]
    assert net.input_vars == [data]
    assert repr(out) == str(out) == "VarNode:out0"
    assert (out.shape, out.dtype, out.partial_shape) == ((2, 5), np.float32, (2, 5))
    assert data.users == [conv] == net.get_var_receive_oprs(data)
    assert isinstance(data, mge.Tensor)
    assert data.owner is ops[0]
    assert data.owner.outputs[0] is data
    assert data.graph is net.graph
    assert data.shapeof(1).numpy().tolist() == [3]
    assert net.get_dep_oprs(conv.outputs[0]) == net.get_dep_oprs([conv.outputs[0]]) == ops[:4]
    assert net.all_vars[0] is out
    assert len({v.id for v in net.all_vars} | {op.id for op in ops}) == len(net.all_vars) + len(ops)
    assert list(net.all_oprs_dict)[:2] == ["data", "conv.weight"]
    assert net.all_vars_dict["data"] is data


def test_getting_one_of_several() -> None:
    net = loaded(Net())
    assert net.get_opr_by_name("conv.weight").numpy().shape == (4, 3, 3, 3)
    assert len(net.get_opr_by_name("conv.*", unique=False)) == 2
    with pytest.raises(ValueError, match=r"expected one op of name conv\.\*, found 2"):
        net.get_opr_by_name("conv.*")
    with pytest.raises(ValueError, match="expected one value of name nothing, found 0"):
        net.get_var_by_name("nothing")
    with pytest.raises(ValueError, match="found 0"):
        net.get_opr_by_type(str_to_mge_class("Argmax"))


def test_filters() -> None:
    net = loaded(Net())
    ops, data = net.opr_filter, net.get_var_by_name("data")
    assert [op.name for op in net.data_providers_filter] == ["data"]
    assert list(net.params_filter.as_dict()) == [
        *("conv.weight", "conv.bias", "norm.weight", "norm.bias"),
        *("norm.running_mean", "norm.running_var", "fc.weight", "fc.bias"),
    ]
    assert ops.type(Conv).as_unique().type == "Convolution"
    assert ops.not_type(nodes.ImmutableTensor).as_count() == 8
    assert ops.name("CONV*").as_count() == 3
    assert ops.name("CONV*", ignorecase=False).as_count() == 0
    assert ops.name("conv").as_count() == 0
    assert ops.has_input(data).as_list() == [ops.type(Conv).as_unique()]
    assert ops.check_type(nodes.OpNode).as_list() == ops.as_list()
    assert NodeFilter.make_all_deps(data).as_list() == [data.owner]
    assert net.var_filter.name("conv.?eight").as_unique().shape == (4, 3, 3, 3)
    with pytest.raises(ValueError, match="expected one node, found 8"):
        net.params_filter.as_unique()
    with pytest.raises(TypeError, match="expected nodes of class ConvolutionForward, got data"):
        ops.check_type(Conv)
    with pytest.raises(TypeError, match="expected ops, which have inputs"):
        net.var_filter.has_input(data)
    with pytest.raises(TypeError, match="expected a pattern, got int"):
        NodeFilterName.make_re(3)  # type: ignore[arg-type]


def test_conversions() -> None:
    net = loaded(Net())
    conv = net.get_opr_by_type(Conv)
    assert as_varnode(conv) is conv.outputs[0] is as_varnode(conv.outputs[0])
    assert as_oprnode(conv) is conv is as_oprnode(conv.outputs[0])
    with pytest.raises(TypeError, match="got int"):
        as_varnode(3)
    with pytest.raises(TypeError, match="got Tensor"):
        as_oprnode(mge.tensor(1.0))
    with pytest.raises(TypeError, match="expected an op with an output"):
        as_varnode(nodes.OpNode())


def test_every_op_has_a_class() -> None:
    """And can be made anew from its attributes."""
    for info in op_types():
        op = getattr(builtin, info["name"])()
        op = op if isinstance(op, _core.OpDef) else None
        if op is None:
            continue
        node = nodes.node_of(op)
        assert isinstance(node, nodes.OpNode)
        assert node.type is not None
        assert nodes.op_like(op, node.params) == op
    assert issubclass(str_to_mge_class("UniformRNG"), nodes.RNGOpr)
    assert issubclass(str_to_mge_class("Subtensor"), nodes.IndexingBase)
    assert str_to_mge_class("VarNode") is nodes.ReadOnlyOpNode


# ---- ops on nodes --------------------------------------------------------------------------------


def test_functions_take_nodes() -> None:
    """Modules, operators, indices and functions give nodes with the shapes of a real run."""
    net = Network()
    x = net.make_input_node((2, 3, 8, 8), "float32", name="x")
    real = images()
    conv, lstm, attention = M.Conv2d(3, 4, 3), M.LSTM(8, 4), M.MultiHeadAttention(8, 2)
    attention.eval()
    for function in [
        lambda t: t + 1,
        lambda t: 2 / t,
        lambda t: F.ones(8) * t,
        lambda t: t[0, :, 1:3, None],
        lambda t: t.reshape(2, -1),
        lambda t: t.transpose(0, 2, 3, 1),
        lambda t: F.flatten(t, 1),
        lambda t: F.concat([t, t], axis=1),
        lambda t: F.split(t, 2, axis=0)[1],
        lambda t: F.topk(F.flatten(t, 1), 3)[1],
        lambda t: F.mean(t, axis=(2, 3)),
        lambda t: F.vision.interpolate(t, size=(4, 4)),
        lambda t: F.pad(t, ((0, 0), (0, 0), (1, 1), (1, 2))),
        lambda t: t.astype("int32"),
        lambda t: F.where(t > 0, t, 0),
        lambda t: F.gather(t, 1, F.zeros((2, 3, 8, 8), "int32")),
        lambda t: F.sort(t[0, 0])[0],
        lambda t: conv(t),
        lambda t: lstm(t.reshape(6, 8, 8))[0],
        lambda t: attention(*[t.reshape(6, 8, 8)] * 3)[0],
    ]:
        node, value = function(x), function(real)
        assert isinstance(node, nodes.VarNode)
        assert (node.shape, node.dtype) == (value.shape, value.dtype)
        net.add_output(node)
        close(run(net, real)[0], value)
        net.remove_output(node)


def test_what_a_node_cannot_do() -> None:
    """It has no contents, and an op whose shapes depend on contents cannot take it."""
    x = Network().make_input_node((4,), "float32", name="x")
    with pytest.raises(RuntimeError, match="x depends on inputs of the graph and has no contents"):
        x.numpy()
    assert x.value is None
    for read in (lambda: x[0].item(), lambda: float(x[0]), lambda: np.asarray(x.detach())):
        with pytest.raises(RuntimeError, match="has no contents"):
            read()
    with pytest.raises(TypeError, match="CondTake: expected inputs with contents"):
        x[x > 0]
    with pytest.raises(ValueError, match="MatrixMul"):
        F.matmul(F.zeros((3, 3)), F.broadcast_to(x, (5, 4)))
    with pytest.raises(TypeError, match="got a Tensor with contents"):
        nodes.VarNode(mge.tensor(1.0))


def test_constants_are_computed() -> None:
    net = Network()
    two = net.make_const(np.float32([1, 2]), name="two")
    assert (two * 3 + 1).numpy().tolist() == [4, 7]
    assert (two * 3 + 1).value.tolist() == [4, 7]
    assert two.owner.numpy().tolist() == [1, 2]
    assert (two.owner.shape, two.owner.dtype) == ((2,), np.float32)
    assert net.make_const(3).dtype == np.int32
    source = mge.tensor([1.0])
    held = net.make_const(source)
    source += 1
    assert held.numpy().tolist() == [1]


def test_one_object_for_a_node() -> None:
    """What is said about a node holds when it comes back as the input of another one."""
    x = Network().make_input_node((4,), "float32", name="x")
    y = x * 2
    y.name = "twice"
    z = F.exp(y)
    assert z.owner.inputs[0] is y
    assert y.owner.inputs[0] is x
    assert z.owner.outputs == [z]
    low, _ = F.split(x, 2)
    assert low.owner.outputs[0] is low
    assert [v.name for v in low.owner.outputs] == ["Split", "Split:o1"]
    assert [v.shape for v in low.owner.outputs] == [(2,), (2,)]


def test_nodes_are_let_go() -> None:
    """With whatever needs them, and not before."""
    net = Network()
    x = net.make_input_node((4,), "float32", name="x")
    y = F.exp(x * net.make_const(np.float32(2), name="two"))
    seen = weakref.ref(x), weakref.ref(y)
    del x
    gc.collect()
    assert [op.name for op in y.owner.inputs[0].owner.inputs[1].owner.outputs] == ["two"]
    assert seen[0]() is not None
    del y
    gc.collect()
    assert [s() for s in seen] == [None, None]


def test_expressions_may_be_long() -> None:
    net = Network()
    y = net.make_input_node((1,), "float32", name="x")
    for _ in range(3000):
        y = y + 1
    net.add_output(y)
    assert len(net.all_oprs) == 1 + 2 * 3000
    assert run(net, mge.tensor([0.0]))[0].tolist() == [3000]


# ---- editing -------------------------------------------------------------------------------------


def test_outputs() -> None:
    module = Net()
    net = loaded(module)
    conv = net.get_opr_by_type(Conv).outputs[0]
    more = F.relu(conv) * 2
    net.add_output(more, conv)
    net.add_output(conv)
    assert len(net.output_vars) == 3
    assert more.graph is net.graph
    assert more.owner in net.all_oprs
    first, second, third = run(net, images(seed=1))
    close(first, module(images(seed=1)))
    close(second, F.relu(module.conv(images(seed=1))) * 2)
    close(third, module.conv(images(seed=1)))
    net.remove_output(net.output_vars[0], more)
    assert net.output_vars[0] is conv
    assert net.params_filter.as_count() == 2
    with pytest.raises(ValueError, match="expected an output, got VarNode:data"):
        net.remove_output(conv, net.get_var_by_name("data"))
    assert net.output_vars == [conv]
    with pytest.raises(TypeError, match="got int"):
        net.add_output(3)  # type: ignore[arg-type]


def test_replace_values() -> None:
    """Weights, inputs, the output; a new value may be made of the old one."""
    module = Net()
    net = loaded(module)
    weight = net.get_var_by_name("conv.weight")
    other = np.random.default_rng(1).normal(size=weight.shape).astype("float32")
    net.replace_vars({weight: net.make_const(other, name="other")})
    assert weight.users == []
    assert net.get_opr_by_type(Conv).inputs[1].name == "other"
    module.conv.weight[...] = mge.tensor(other)
    close(run(net, images())[0], module(images()))

    data, out = net.get_var_by_name("data"), net.output_vars[0]
    net.replace_vars({data: F.relu(data) + 1, out: out * 10})
    close(run(net, images())[0], module(F.relu(images()) + 1) * 10)

    pixels = net.make_input_node((2, 8, 8, 3), "uint8", name="pixels")
    planes = pixels.transpose(0, 3, 1, 2).astype("float32") / 255
    net.replace_vars({net.get_var_by_name("data"): planes})
    assert [op.name for op in net.data_providers_filter] == ["pixels"]
    given = mge.tensor(np.arange(2 * 8 * 8 * 3).reshape(2, 8, 8, 3) % 255, dtype="uint8")
    want = given.transpose(0, 3, 1, 2).astype("float32") / 255
    close(run(net, given)[0], module(F.relu(want) + 1) * 10)


def test_replacing_follows_shapes_and_can_fail() -> None:
    net = loaded(Net())
    conv = net.get_opr_by_type(Conv)
    before = [list(op.inputs) for op in net.all_oprs]
    weight = net.get_var_by_name("fc.weight")
    with pytest.raises(ValueError, match=r"Linear\[\d+\] does not take these inputs"):
        net.replace_vars({weight: net.make_const(np.zeros((5, 3), "float32"))})
    data = net.get_var_by_name("data")
    with pytest.raises(ValueError, match="would depend on itself"):
        net.replace_vars({conv.outputs[0]: net.output_vars[0].owner.inputs[0].reshape(10, 1, 1, 1)})
    with pytest.raises(TypeError, match="got int"):
        net.replace_vars({data: 3})  # type: ignore[dict-item]
    after = [list(op.inputs) for op in net.all_oprs]
    assert all(
        a is b for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True)
    )
    assert weight.users == [net.get_opr_by_type(str_to_mge_class("Linear"))]

    larger = net.make_input_node((7, 3, 8, 8), "float32", name="data")
    with pytest.raises(ValueError, match=r"Reshape\[\d+\] does not take"):
        net.replace_vars({data: larger})
    taller = net.make_const(np.zeros((4, 3, 5, 5), "float32"))
    net.remove_output(*net.output_vars)
    net.add_output(conv.outputs[0])
    net.replace_vars({net.get_var_by_name("conv.weight"): taller})
    assert conv.outputs[0].shape == (2, 4, 6, 6)


def test_two_networks() -> None:
    one, other = loaded(Net()), loaded(Net())
    with pytest.raises(ValueError, match="belongs to another network"):
        one.add_output(other.output_vars[0])
    assert len(one.output_vars) == 1


def test_replace_ops() -> None:
    module = Net()
    net = loaded(module)
    relu = net.get_opr_by_type(Elemwise)
    net.replace_oprs({relu: F.tanh(relu.inputs[0]).owner})
    assert net.get_opr_by_type(Elemwise).params == {"mode": "TANH"}
    y = F.tanh(module.norm(module.conv(images())))
    close(run(net, images())[0], F.softmax(module.fc(F.flatten(F.avg_pool2d(y, 2), 1)), axis=1))
    pool = net.get_opr_by_type(str_to_mge_class("PoolingForward"))
    two = F.split(pool.inputs[0], 2, axis=1)[0].owner
    with pytest.raises(ValueError, match="expected as many outputs"):
        net.replace_oprs({net.get_opr_by_type(Elemwise): two})
    with pytest.raises(TypeError, match="expected an OpNode, got VarNode"):
        net.replace_oprs({pool: pool.outputs[0]})  # type: ignore[dict-item]


def test_parameters_of_ops() -> None:
    net = loaded(Net())
    conv = net.get_opr_by_type(Conv)
    net.remove_output(*net.output_vars)
    net.add_output(conv.outputs[0])
    conv.params["stride_h"] = 2
    conv.compile()
    assert conv.outputs[0].shape == (2, 4, 4, 8)
    assert run(net, images())[0].shape == (2, 4, 4, 8)
    conv.inputs[1].owner.set_value(np.ones((4, 3, 1, 1), "float32"))
    conv.compile()
    assert conv.outputs[0].shape == (2, 4, 5, 10)


def test_names() -> None:
    net = loaded(Net())
    net.modify_opr_names("left")
    assert net.all_oprs[0].name == "left.data"
    assert net.get_var_by_name("data").owner.name == "left.data"
    net.modify_opr_names(str.upper)
    assert net.all_oprs[1].name == "LEFT.CONV.WEIGHT"
    with pytest.raises(TypeError, match="expected a prefix or a function, got int"):
        net.modify_opr_names(3)  # type: ignore[arg-type]


# ---- batch sizes ---------------------------------------------------------------------------------


def test_batch_size() -> None:
    module = Net()
    net = loaded(module)
    net.reset_batch_size(5)
    assert net.output_vars[0].shape == (5, 5)
    assert net.data_providers_filter.as_unique().shape == (5, 3, 8, 8)
    close(run(net, images(5))[0], module(images(5)))
    net.reset_batch_size(1)
    close(run(net, images(1))[0], module(images(1)))


def test_batch_size_of_some_inputs() -> None:
    net = Network.load(
        saved(lambda x, w: F.matmul(x, w), F.ones((2, 3)), F.ones((3, 4)), names=["x", "w"])
    )
    with pytest.raises(ValueError, match=r"expected one batch size, found \[2, 3\]"):
        net.reset_batch_size(6)
    net.reset_batch_size(6, blacklist=["w"])
    assert net.output_vars[0].shape == (6, 4)
    with pytest.raises(ValueError, match="no inputs have the names v"):
        net.reset_batch_size(6, blacklist=["v", "w"])
    with pytest.raises(ValueError, match="expected an input whose first axis is the batch"):
        net.reset_batch_size(6, blacklist=["x", "w"])
    scalar = Network.load(saved(lambda x: x * 2, mge.tensor(1.0), names=["x"]))
    with pytest.raises(ValueError, match="x has no axes"):
        scalar.reset_batch_size(2)


@pytest.mark.parametrize(
    ("function", "shape", "want"),
    [
        (lambda x: x.reshape(6, 4), (2, 12), None),  # 6 or 4 grows
        (lambda x: x.reshape(6, 5), (2, 15), (15, 5)),  # only 6 can
        (lambda x: x.reshape(2, 15, 1), (2, 15), (5, 15, 1)),
        (lambda x: F.broadcast_to(x, (2, 7)), (2, 1), (5, 7)),
        (lambda x: x + F.ones((2, 1)), (2, 3), None),  # a constant of the old batch size
        (lambda x: x.reshape(-1), (2, 3), (15,)),
    ],
)
def test_ops_that_hold_shapes(
    function: Callable[..., Any], shape: tuple[int, ...], want: tuple[int, ...] | None
) -> None:
    net = Network.load(saved(function, F.ones(shape), names=["x"]))
    if want is not None:
        net.reset_batch_size(5)
        assert net.output_vars[0].shape == want
        return
    with pytest.raises(ValueError, match=r"Reshape\[\d+\]|ADD\[\d+\]|out0"):
        net.reset_batch_size(5)
    assert net.get_var_by_name("x").shape == shape  # as it was


def test_sizes_that_are_inputs_of_ops() -> None:
    """An op may take a size as an input: it is known where that is a constant."""
    resize = builtin.Resize(format="NCHW")
    net = Network.load(
        saved(lambda x: apply(resize, x, mge.tensor([4, 6]))[0], images(), names=["x"])
    )
    x = net.get_var_by_name("x")
    net.reset_batch_size(5)
    assert net.output_vars[0].shape == (5, 3, 4, 6)
    net.replace_vars({net.get_var_by_name("const*"): net.make_const(np.int32([2, 3]))})
    net.replace_vars({x: x + 1})
    (want,) = apply(resize, images(5) + 1, mge.tensor([2, 3]))
    close(run(net, images(5))[0], want)
    size = net.make_input_node((2,), "int32", name="size")
    with pytest.raises(TypeError, match="Resize: expected inputs with contents"):
        apply(resize, x, size)


def test_edits_beside_an_op_of_unknown_shape() -> None:
    """Values after a mask have the shapes of the example; edits that do not reach it are fine."""
    net = Network.load(saved(lambda x: F.exp(x)[x > 0], images(), names=["x"]))
    shape = net.output_vars[0].shape
    out = net.output_vars[0]
    net.replace_vars({out: out * 2})
    assert net.output_vars[0].shape == shape
    close(run(net, images())[0], F.exp(images())[images() > 0] * 2)
    with pytest.raises(ValueError, match="CondTake"):
        net.reset_batch_size(5)


def test_growth_that_a_file_knows() -> None:
    """A file may say how attributes grow with the batch, or that they cannot."""
    file = saved(lambda x: x.reshape(6, 4), F.ones((2, 12)), names=["x"])
    dumped = graph_file.load(file)
    dumped.batch = graph_file.Batch(2, [0], {(0, "shape"): [3, 0]})
    known = io.BytesIO()
    graph_file.save(dumped, known)
    net = Network.load(io.BytesIO(known.getvalue()))
    net.reset_batch_size(5)
    assert net.output_vars[0].shape == (15, 4)
    again = io.BytesIO()
    net.dump(again)
    batch = graph_file.load(io.BytesIO(again.getvalue())).batch
    assert batch is not None
    assert (batch.size, batch.inputs, batch.slopes) == (5, [0], {(0, "shape"): [3, 0]})
    dumped.batch = graph_file.Batch(2, [0], refusal="its author says so")
    refused = io.BytesIO()
    graph_file.save(dumped, refused)
    with pytest.raises(ValueError, match="one batch size alone: its author says so"):
        Network.load(io.BytesIO(refused.getvalue())).reset_batch_size(5)
    assert grow((1, 2), [1, 0], 4) == (5, 2)


def test_a_file_says_how_an_edited_graph_grows() -> None:
    net = loaded(Net())
    net.replace_vars({net.get_var_by_name("data"): net.get_var_by_name("data") * 2})
    file = io.BytesIO()
    net.dump(file)
    batch = graph_file.load(io.BytesIO(file.getvalue())).batch
    assert batch is not None
    assert (batch.size, batch.inputs, batch.refusal) == (2, [0], "")
    assert list(batch.slopes.values()) == [[1, 0]]
    fixed = Network.load(saved(lambda x: x + F.ones((2, 1)), F.ones((2, 3)), names=["x"]))
    fixed.dump(file := io.BytesIO())
    batch = graph_file.load(io.BytesIO(file.getvalue())).batch
    assert batch is not None
    assert "does not take these inputs" in batch.refusal


# ---- files ---------------------------------------------------------------------------------------


def test_dump(tmp_path: Path) -> None:
    net = loaded(Net())
    path = tmp_path / "net.mge"
    result = net.dump(str(path), keep_param_name=True, user_info={"classes": ["a", "b"]})
    assert (result.nr_opr, result.inputs, result.outputs) == (16, ["data"], ["out0"])
    assert sorted(result.params)[:2] == ["conv.bias", "conv.weight"]
    assert result.tot_bytes == path.stat().st_size > result.tensor_value_bytes > 0
    again = Network.load(path)
    assert again.metadata == {
        "user_info": {"classes": ["a", "b"]},
        "graph_modified": True,
        "optimized_for_inference": True,
    }
    assert [repr(op) for op in again.all_oprs if not op.inputs] == [
        repr(op) for op in net.all_oprs if not op.inputs
    ]
    np.testing.assert_array_equal(run(again, images())[0], run(net, images())[0])
    net.dump(path, optimize_for_inference=False, enable_metadata=False)
    assert Network.load(path).metadata is None
    assert Network().metadata is None
    assert SerializationMetadata().is_valid is False


def test_names_in_files() -> None:
    net = loaded(Net())
    conv = net.get_opr_by_type(Conv)
    conv.outputs[0].name = "planes"
    conv.name = "first"

    def names(**options: Any) -> set[str]:
        file = io.BytesIO()
        net.dump(file, **options)
        again = Network.load(io.BytesIO(file.getvalue()))
        return {v.name for v in again.all_vars}

    assert {"data", "out0"} <= names()
    assert not {"conv.weight", "planes"} & names()
    assert "conv.weight" in names(keep_param_name=True)
    assert {"conv.weight", "planes"} <= names(keep_var_name=2)
    assert "first" in names(keep_opr_name=True)
    assert "out0" not in names(keep_var_name=0)


def test_load_a_part() -> None:
    module = Net()
    file = saved(module, images(), names=["data"])
    net = Network.load(file, outspec=["conv.weight"])
    assert [op.name for op in net.all_oprs] == ["conv.weight"]
    file.seek(0)
    with pytest.raises(ValueError, match="no values have the names nothing"):
        Network.load(file, outspec=["nothing"])


def test_options_of_files() -> None:
    net = loaded(Net())
    with pytest.raises(ValueError, match="unknown option 'enable_magic'"):
        net.dump(io.BytesIO(), enable_magic=True)
    with pytest.raises(NotImplementedError, match="enable_ioc16"):
        net.dump(io.BytesIO(), enable_ioc16=True)
    with pytest.raises(ValueError, match="expected an output"):
        Network().dump(io.BytesIO())
    net.dump(io.BytesIO(), enable_nchw88=True, enable_ioc16=False)


def test_what_a_graph_needs(tmp_path: Path) -> None:
    path = tmp_path / "info.json"
    loaded(Net()).dump(io.BytesIO(), strip_info_file=path)
    info = json.loads(path.read_text())
    assert info["elemwise_modes"] == ["RELU"]
    assert "Convolution" in info["opr_types"]


def test_files_run(tmp_path: Path) -> None:
    """A traced function is dumped, edited, and runs with any batch size."""
    module = Net()
    function = jit.trace(module, capture_as_const=True)
    function(images())
    first, second = tmp_path / "first.mge", tmp_path / "second.mge"
    function.dump(first, arg_names=["data"], output_names=["prob"])
    net = Network.load(first)
    assert net.metadata == {
        "user_info": None,
        "graph_modified": False,
        "optimized_for_inference": True,
    }
    data = net.get_var_by_name("data")
    net.replace_vars({data: data * 0.5})
    net.dump(second)
    inference = tools.GraphInference(str(second))
    for count in (2, 1, 5):
        got = inference.run(images(count).numpy())["prob"]
        close(got, module(images(count) * 0.5))


def test_a_network_by_hand() -> None:
    net = Network()
    x = net.make_input_node((2, 3), np.float32, name="x")
    y = net.make_input_node((2, 3), np.float32, name="y")
    net.add_output(F.exp(y) + x * net.make_const(np.float32(2), name="two"))
    want = [[5] * 3] * 2  # inputs come in the order in which they were made
    assert run(net, F.full((2, 3), 2.0), F.zeros((2, 3)))[0].tolist() == want
    program = net.graph.compile(net.output_vars)
    assert program(F.full((2, 3), 2.0), F.zeros((2, 3)))[0].numpy().tolist() == want
    net.graph.enable_weight_preprocess()
    assert net.graph.options.weight_preprocess is True


def test_optimize_for_inference() -> None:
    """The graph that runs: fused ops among its nodes, the same results."""
    net = Network()
    x = net.make_input_node((2, 300), "float32", name="x")
    net.add_output(F.tanh(x * 2 + 1) * x)
    plain = run(net, F.ones((2, 300)))[0]
    (best,) = net.optimize_for_inference(net.output_vars)
    assert len(tools.get_oprs_seq([best])) < len(tools.get_oprs_seq(net.output_vars))
    other = Network()
    other.graph = net.graph
    other.add_output(best)
    np.testing.assert_allclose(run(other, F.ones((2, 300)))[0], plain, rtol=1e-6)
    with pytest.raises(ValueError, match="unknown option 'foo'"):
        net.optimize_for_inference(net.output_vars, foo=True)


# ---- comp_graph_tools ----------------------------------------------------------------------------


def test_dependencies() -> None:
    net = loaded(Net())
    out = net.output_vars[0]
    assert [v.name for v in tools.get_dep_vars(out, "Host2DeviceCopy")] == ["data"]
    assert len(tools.get_dep_vars([out], ["Host2DeviceCopy", "ImmutableTensor"])) == 9
    assert tools.get_dep_vars(out, "Nothing") == []
    assert tools.get_dep_vars(out)[0] is out
    assert tools.get_owner_opr_type(out) == "Softmax"
    assert tools.get_owner_opr_inputs(out)[0] is out.owner.inputs[0]
    assert tools.get_opr_type(net.get_opr_by_type(Conv)) == "Convolution"
    with pytest.raises(TypeError, match="expected an OpNode, got int"):
        tools.get_opr_type(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got int"):
        tools.get_dep_vars([3])  # type: ignore[list-item]


def test_order_and_traversal() -> None:
    net = loaded(Net())
    ops = tools.get_oprs_seq(net.output_vars)
    assert [op.type for op in ops] == [
        *("Host2DeviceCopy", "Convolution", "BatchNorm", "Elemwise", "Pooling", "Reshape"),
        *("Linear", "Softmax"),
    ]
    everything = tools.get_oprs_seq(net.output_vars, prune_immtensor=False)
    assert everything == net.all_oprs
    oprs, vars, var2oprs, receivers, by_degree, degrees = tools.graph_traversal(net.output_vars)
    assert list(oprs.values()) == net.all_oprs
    assert {id(v) for v in vars.values()} == {id(v) for v in net.all_vars}
    conv, data = net.get_opr_by_type(Conv), net.get_var_by_name("data")
    assert var2oprs[data.id] == [(conv.id, 0)]
    assert receivers[data.owner.id] == [conv.id]
    assert degrees[conv.id] == 3
    assert conv.id in by_degree[3]
    tools.set_priority_to_id(net.output_vars)
    assert conv.priority == (conv.id, conv.id)


def test_replace_makes_copies() -> None:
    """comp_graph_tools leaves what it was given as it was."""
    module = Net()
    net = loaded(module)
    out, data = net.output_vars[0], net.get_var_by_name("data")
    other = net.make_input_node((2, 3, 8, 8), "float32", name="other")
    (new,) = tools.replace_vars([out], {data: other * 2})
    assert [v.name for v in tools.get_dep_vars(new, "Host2DeviceCopy")] == ["other"]
    assert [v.name for v in tools.get_dep_vars(out, "Host2DeviceCopy")] == ["data"]
    assert new.name == out.name
    net.remove_output(out)
    net.add_output(new)
    close(run(net, images())[0], module(images() * 2))
    softmax = out.owner
    (plain,) = tools.replace_oprs([out], {softmax: F.exp(softmax.inputs[0]).owner})
    assert plain.owner.params == {"mode": "EXP"}
    assert tools.replace_vars([out], {})[0] is out
    with pytest.raises(ValueError, match="replace_oprs: expected 1 outputs"):
        tools.replace_oprs([out], {softmax: F.split(softmax.inputs[0], 5, axis=1)[0].owner})


def test_costs() -> None:
    net = loaded(Net())
    conv = net.get_opr_by_type(Conv)
    assert nodes.flops_conv(conv, conv.inputs, conv.outputs) == 2 * 4 * 8 * 8 * 27
    assert nodes.receptive_field(conv, conv.inputs, conv.outputs) == ((3, 3), (1, 1))
    relu = net.get_opr_by_type(Elemwise)
    assert nodes.flops_elemwise(relu, relu.inputs, relu.outputs) == 2 * 4 * 8 * 8
    a, b = net.make_input_node((5, 2, 3), "float32"), net.make_input_node((5, 3, 4), "float32")
    product = F.matmul(a, b).owner
    assert nodes.flops_batchmatmul(product, product.inputs, product.outputs) == 5 * 2 * 3 * 4
    turned = F.matmul(a.transpose(0, 2, 1), b, transpose_a=True).owner
    assert nodes.flops_matmul(turned, turned.inputs, turned.outputs) == 5 * 2 * 3 * 4


# ---- the reference's older names -----------------------------------------------------------------


def test_graphs_as_bytes() -> None:
    module = Net()
    net = loaded(module)
    out, data = net.output_vars[0], net.get_var_by_name("data")
    content, result = megbrain_graph.dump_graph({"prob": out, "twice": data * 2})
    assert (result.inputs, result.outputs) == (["data"], ["prob", "twice"])
    assert data.users == [net.get_opr_by_type(Conv)]  # the network is as it was
    read = megbrain_graph.load_graph(io.BytesIO(content))
    assert list(read.output_vars_dict) == ["prob", "twice"]
    assert read.metadata.graph_modified is True
    assert megbrain_graph.VarNode is nodes.VarNode
    outputs = megbrain_graph.optimize_for_inference(read.output_vars_list)
    megbrain_graph.set_priority_to_id(outputs)
    first, second = read.graph.compile(outputs)(images())
    close(first.numpy(), module(images()))
    close(second.numpy(), images() * 2)
    assert megbrain_graph.dump_graph([out])[1].outputs == ["prob"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        megbrain_graph.nothing  # noqa: B018


# ---- random graphs -------------------------------------------------------------------------------

UNARY = [F.exp, F.tanh, F.relu, lambda t: t * 0.5, lambda t: 1 - t, lambda t: t[:, ::-1]]
BINARY = [F.add, F.mul, F.maximum, lambda a, b: F.concat([a, b], axis=1)[:, :4]]


@pytest.mark.parametrize("seed", range(30))
def test_edits_of_random_graphs(seed: int) -> None:
    """A value somewhere is replaced; the graph gives what the function gives with that change."""
    rng = np.random.default_rng(seed)
    steps = []
    for made in range(1, 13):
        if rng.random() < 0.5:
            steps.append((UNARY[rng.integers(len(UNARY))], [rng.integers(made)]))
        else:
            steps.append((BINARY[rng.integers(len(BINARY))], rng.integers(made, size=2).tolist()))

    def function(x: mge.Tensor, changed: int | None = None) -> mge.Tensor:
        values = []

        def keep(value: mge.Tensor) -> None:
            values.append(F.tanh(value) * 2 if len(values) == changed else value)

        keep(x)
        for step, operands in steps:
            keep(F.minimum(step(*(values[i] for i in operands)), 10))
        return values[-1]

    x = mge.tensor(rng.normal(size=(3, 4)).astype("float32"))
    net = Network()
    node = net.make_input_node((3, 4), "float32", name="x")
    values = [node]
    for step, operands in steps:
        values.append(F.minimum(step(*(values[i] for i in operands)), 10))
    net.add_output(values[-1])
    close(run(net, x)[0], function(x))
    changed = int(rng.integers(len(values)))
    net.replace_vars({values[changed]: F.tanh(values[changed]) * 2})
    close(run(net, x)[0], function(x, changed))
    if net.data_providers_filter.as_count():
        net.reset_batch_size(5)
        longer = F.concat([x, x[:2]])
        close(run(net, longer)[0], function(longer, changed))
