"""Writes a model: aside first, checked, then in place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx

LARGEST_FILE = 2**31 - 2**20  # protobuf's limit, with some room for the nodes


def write(
    model: onnx.ModelProto, path: Path, external_data: bool, compare: Callable[[Path], None] | None
) -> None:
    """Writes beside the target, checks, and only then puts it there."""
    size = sum(len(t.raw_data) for t in model.graph.initializer)
    if size > LARGEST_FILE and not external_data:
        raise ValueError(
            f"export: the constants are {size / 2**30:.1f} GiB, and an ONNX file holds at most 2; "
            "external_data=True puts them into a file of their own"
        )
    directory = path.parent if str(path.parent) else Path(".")
    with tempfile.TemporaryDirectory(prefix=".export-", dir=directory) as scratch:
        aside = Path(scratch) / path.name
        data = f"{path.name}.data"
        if external_data:
            onnx.save_model(
                model, str(aside), save_as_external_data=True, location=data, size_threshold=0
            )
        else:
            aside.write_bytes(model.SerializeToString())
        try:
            onnx.checker.check_model(str(aside), full_check=True)
        except onnx.shape_inference.InferenceError as error:
            if "unsupported type" not in str(error):
                raise
            opset = model.opset_import[0].version
            raise NotImplementedError(
                f"export: an operator does not take one of its dtypes in opset {opset}; a newer "
                f"one may: {error}"
            ) from error
        if compare is not None:
            compare(aside)
        files = [Path(scratch) / data, aside] if external_data else [aside]
        for file in files:
            if file.exists():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                file.replace(directory / file.name)
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
