"""Models of other runtimes inside a model. This build has none of those runtimes, so all raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import apply
from ..core.ops import builtin
from ..tensor import Tensor

__all__ = [
    "apply",
    "atlas_runtime_opr",
    "cambricon_runtime_opr",
    "extern_opr_subgraph",
    "magicmind_runtime_opr",
    "tensorrt_runtime_opr",
]


def extern_opr_subgraph(
    inputs: Sequence[Tensor],
    output_shapes: Sequence[Sequence[int]],
    dump_name: str,
    dump_data: bytes,
    output_dtypes: Sequence[Any],
) -> tuple[Tensor, ...]:
    """Would run an op of a library that is loaded apart.

    Raises:
        RuntimeError: always. Write the op in Python, as an ``autodiff.Function`` or a module.
    """
    op = builtin.ExternOpr(output_shapes, dump_name, dump_data, len(dump_data), output_dtypes)
    return apply(op, *inputs)


def tensorrt_runtime_opr(inputs: Sequence[Tensor], data: bytes | None = None) -> tuple[Tensor, ...]:
    """Would run a TensorRT engine.

    Raises:
        RuntimeError: always. Run the model that the engine was made from.
    """
    return apply(builtin.TensorRTRuntime(data or b"", len(data or b"")), *inputs)


def cambricon_runtime_opr(
    inputs: Sequence[Tensor], data: bytes, symbol: str, tensor_dim_mutable: bool
) -> tuple[Tensor, ...]:
    """Would run an offline model of a Cambricon device.

    Raises:
        RuntimeError: always. Run the model that the offline model was made from.
    """
    op = builtin.CambriconRuntime(data, len(data), symbol, tensor_dim_mutable)
    return apply(op, *inputs)


def atlas_runtime_opr(inputs: Sequence[Tensor], data: bytes) -> tuple[Tensor, ...]:
    """Would run an offline model of an Atlas device.

    Raises:
        RuntimeError: always. Run the model that the offline model was made from.
    """
    return apply(builtin.AtlasRuntime(data, len(data)), *inputs)


def magicmind_runtime_opr(inputs: Sequence[Tensor], data: bytes) -> tuple[Tensor, ...]:
    """Would run a MagicMind model.

    Raises:
        RuntimeError: always. Run the model that it was made from.
    """
    return apply(builtin.MagicMindRuntime(data, len(data)), *inputs)
