"""An ONNX model as a module."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto

from ...module import Module
from ...tensor import Tensor
from .builder import Builder, imports_of
from .graph import Graph
from .reader import Reader, read_model
from .registry import Context
from .values import (
    TENSOR_DTYPES,
    Value,
    dtype_from_onnx,
    dtype_name,
    is_float,
    shape_of,
    to_array,
    to_tensor,
)
from .weights import take_weights

__all__ = ["ONNXModule", "load"]


class ONNXModule(Module):
    """A model from an ONNX file. :func:`load` makes it.

    The float initializers that hold what a model learnt (weights of convolutions and matrix
    products, what is added to them, scales, embeddings, ...) are parameters, under the names of the
    file: ``conv1.weight`` is ``module.conv1.weight``. The running statistics of batch norm are
    buffers. After ``train()``, batch norm and dropout do what they do in training.

    Attributes:
        input_names: the names of the inputs, in order.
        output_names: the names of the outputs, in order.
    """

    def __init__(self, graph: Graph, inputs: Sequence[ValueInfoProto]) -> None:
        super().__init__()
        self.input_names = tuple(graph.inputs)
        self.output_names = tuple(graph.outputs)
        self._inputs = {info.name: _Input(info) for info in inputs}
        take_weights(graph, self)
        graph.fold()
        graph.finish()
        self._graph = graph
        self.eval()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Computes the outputs of the model.

        Args:
            inputs: Tensors or NumPy arrays, in the order of :attr:`input_names`; lists of them
                for sequences, None for optionals without a value. Integers of another width than
                the model wants, and floats, are converted.
            named: inputs by name.

        Returns:
            a Tensor, or a tuple of them where the model has several outputs. What is of a dtype
            that Tensors do not have (strings, uint32, uint64, ...) is a NumPy array.

        Raises:
            TypeError: for inputs that are missing, unknown or of another kind of dtype.
            ValueError: for inputs of another number of dimensions.
        """
        names = self.input_names
        if len(inputs) > len(names):
            raise TypeError(
                f"ONNXModule: expected at most {len(names)} inputs {list(names)}, got {len(inputs)}"
            )
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                what = "two values" if name in given else "a value"
                raise TypeError(
                    f"ONNXModule: got {what} for the input {name!r}; the inputs are {list(names)}"
                )
            given[name] = value
        missing = [n for n in names if n not in given and not self._inputs[n].is_optional]
        if missing:
            raise TypeError(f"ONNXModule: got no value for the inputs {missing}")
        values = [self._inputs[name].take(given.get(name)) for name in names]
        found = [_output(v) for v in self._graph.run(Context(self.training), values)]
        return found[0] if len(found) == 1 else tuple(found)

    def _module_info_string(self) -> str:
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"


class _Input:
    """What the model declares of an input."""

    def __init__(self, info: ValueInfoProto) -> None:
        self.name = info.name
        kind = info.type
        self.is_optional = kind.HasField("optional_type")
        if self.is_optional:
            kind = kind.optional_type.elem_type
        self.depth = 0  # of sequences in sequences
        while kind.HasField("sequence_type"):
            kind = kind.sequence_type.elem_type
            self.depth += 1
        self.dtype, self.ndim = self._declared(kind)

    def _declared(self, kind: TypeProto) -> tuple[np.dtype[Any] | None, int | None]:
        if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
            return None, None
        tensor = kind.tensor_type
        ndim = len(tensor.shape.dim) if tensor.HasField("shape") and not self.depth else None
        try:
            return dtype_from_onnx(tensor.elem_type), ndim
        except ValueError as error:
            raise ValueError(f"onnx.load: input {self.name!r}: {error}") from None

    def take(self, value: Any) -> Value:
        """The value that the graph gets for one that a user passes."""
        if value is None and self.is_optional:
            return None
        return self._take(value, self.depth)

    def _take(self, value: Any, depth: int) -> Value:
        if depth:
            if not isinstance(value, (list, tuple)):
                raise TypeError(
                    f"ONNXModule: expected the input {self.name!r} as a list of tensors, got "
                    f"{type(value).__name__}"
                )
            return [self._take(item, depth - 1) for item in value]
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(
                f"ONNXModule: expected the input {self.name!r} as a Tensor or an array, got "
                f"{type(value).__name__}"
            )
        if self.ndim is not None and len(shape_of(value)) != self.ndim:
            raise ValueError(
                f"ONNXModule: expected the input {self.name!r} with {self.ndim} dimensions, got "
                f"shape {shape_of(value)}"
            )
        return self._cast(value)

    def _cast(self, value: Any) -> Value:
        have, want = np.dtype(value.dtype), self.dtype
        if want is None or have == want or (dtype_name(have) == dtype_name(want)):
            array = value
        elif (have.kind in "iu" and want.kind in "iu") or (is_float(have) and is_float(want)):
            if want not in TENSOR_DTYPES:
                value = to_array(value)
            array = value.astype(want)
        else:
            raise TypeError(
                f"ONNXModule: expected the input {self.name!r} in {dtype_name(want)}, got "
                f"{dtype_name(have)}"
            )
        if isinstance(array, Tensor) or np.dtype(array.dtype) not in TENSOR_DTYPES:
            return array
        return to_tensor(array)


def _output(value: Value) -> Any:
    if isinstance(value, list):
        return [_output(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype in TENSOR_DTYPES:
        return to_tensor(value)
    return value


def load(model: str | os.PathLike[str] | bytes | ModelProto) -> ONNXModule:
    """A module that computes what an ONNX model computes.

    It starts in evaluation mode, can be traced, and trains: its parameters are those of the file.

    Args:
        model: the path of a file, the bytes of one, or a ``ModelProto``. Data that lie in other
            files are read where those are in the folder of the model.

    Raises:
        ValueError: where the file is no valid ONNX model.
        NotImplementedError: where it uses ops that are not supported; the message lists all.
        OSError: where the file cannot be read.

    >>> import megengine as mge, numpy as np, onnx
    >>> import megengine.onnx
    >>> from onnx import helper
    >>> x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])
    >>> y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1])
    >>> weight = onnx.numpy_helper.from_array(np.float32([[1.0], [2.0]]), "fc.weight")
    >>> node = helper.make_node("MatMul", ["x", "fc.weight"], ["y"])
    >>> graph = helper.make_graph([node], "sums", [x], [y], [weight])
    >>> net = mge.onnx.load(helper.make_model(graph))
    >>> net(mge.tensor([[3.0, 4.0]]))
    Tensor([[11.]], device=xpux:0)
    >>> [name for name, _ in net.named_parameters()]
    ['fc.weight']
    """
    proto, folder = read_model(model)
    builder = Builder(proto, Reader(folder))
    # Files of the first versions of the format do not say.
    versions = imports_of(proto.opset_import) or {"": 1}
    graph = builder.graph(proto.graph, versions)
    if builder.unsupported:
        listed = ", ".join(f"{name} x{n}" for name, n in sorted(builder.unsupported.items()))
        raise NotImplementedError(
            f"onnx.load: the model uses ops that are not supported: {listed}. Export it with "
            "another operator set, or replace these ops before it is exported"
        )
    declared = {info.name for info in proto.graph.input}
    if not declared.issuperset(graph.inputs):
        raise ValueError("onnx.load: the model has inputs without a name")
    return ONNXModule(graph, proto.graph.input)
