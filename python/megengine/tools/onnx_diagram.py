"""Diagrams of ONNX files. Needs the ``onnx`` package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .diagram import Box, Diagram, kind_of, shape_text, short_text, split_names, weight_lines

__all__ = ["onnx_diagram"]


class _Value:
    """Shape and dtype of a value of an ONNX graph, and its number where it is a single constant."""

    def __init__(self, shape: tuple[int | str, ...], dtype: np.dtype[Any], number: Any = None):
        self.shape = shape
        self.dtype = dtype
        self.number = number


def onnx_diagram(path: str | os.PathLike[str], title: str = "") -> Diagram:
    """The boxes of an ONNX file.

    Args:
        path: the file.
        title: stands above the drawing.

    Raises:
        ImportError: without the ``onnx`` package.
        onnx.onnx_cpp2py_export.checker.ValidationError or google.protobuf errors: for a file that
            is none.
    """
    import onnx

    graph = onnx.shape_inference.infer_shapes(onnx.load(os.fspath(path))).graph
    known = dict(_values(onnx, graph))
    made: dict[str, tuple[int, int]] = {}
    boxes: list[Box] = []

    def label(name: str) -> str:
        return shape_text(known[name]) if name in known else ""

    weights = {t.name for t in graph.initializer}
    for info in graph.input:
        if info.name not in weights:
            made[info.name] = (len(boxes), 0)
            boxes.append(Box(info.name, "input", outputs=[label(info.name)]))
    for node in graph.node:
        if node.op_type == "Constant":
            continue
        held = [name for name in node.input if name and name not in made]
        scope, own = split_names(held)
        box = Box(node.op_type, kind_of(node.op_type), note=node.name or node.op_type)
        box.details = [scope] * bool(scope) + [
            f"{a.name} {short_text(_attribute(onnx, a))}" for a in node.attribute
        ]
        box.details += weight_lines(own, [known.get(name) for name in held])
        box.inputs = [made[name] for name in node.input if name in made]
        for i, name in enumerate(node.output):
            made[name] = (len(boxes), i)
            box.outputs.append(label(name))
        boxes.append(box)
    for info in graph.output:
        inputs = [made[info.name]] if info.name in made else []
        boxes.append(Box(info.name, "output", inputs=inputs))
    return Diagram(boxes, title, f"{len(graph.node)} ops")


def _values(onnx: Any, graph: Any) -> Iterator[tuple[str, _Value]]:
    for info in [*graph.input, *graph.value_info, *graph.output]:
        tensor = info.type.tensor_type
        if tensor.HasField("shape"):
            shape = tuple(d.dim_param or d.dim_value for d in tensor.shape.dim)
            yield info.name, _Value(shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    constants = [(t.name, t) for t in graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants.append((node.output[0], node.attribute[0].t))
    for name, tensor in constants:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        number = None
        if np.prod(tensor.dims) == 1:
            number = onnx.numpy_helper.to_array(tensor).reshape(()).item()
        yield name, _Value(tuple(tensor.dims), dtype, number)


def _attribute(onnx: Any, attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return tuple(value) if isinstance(value, list) else value
