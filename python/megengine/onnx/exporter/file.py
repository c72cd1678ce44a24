"""Writes a model: aside first, checked, then in place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ...serialization import sync_directory
from .model import Model


def data_file_of(path: Path) -> str:
    """The name of the file beside a model that holds its large constants."""
    return f"{path.name}.data"


def write(model: Model, path: Path, compare: Callable[[Path], None] | None) -> None:
    """Writes beside the target, checks, and only then puts it there."""
    directory = path.parent if str(path.parent) else Path(".")
    with tempfile.TemporaryDirectory(prefix=".export-", dir=directory) as scratch:
        aside = Path(scratch) / path.name
        data = Path(scratch) / data_file_of(path)
        if model.outside:
            _write_data(data, model.outside)
        aside.write_bytes(model.proto.SerializeToString())
        try:
            onnx.checker.check_model(str(aside), full_check=True)
        except onnx.shape_inference.InferenceError as error:
            if "unsupported type" not in str(error):
                raise
            opset = model.proto.opset_import[0].version
            raise NotImplementedError(
                f"export: an operator does not take one of its dtypes in opset {opset}; a newer "
                f"one may: {error}"
            ) from error
        if compare is not None:
            compare(aside)
        for file in (data, aside):
            if file.exists():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                file.replace(directory / file.name)
    sync_directory(directory)


def _write_data(path: Path, outside: Sequence[tuple[int, np.ndarray[Any, Any]]]) -> None:
    with path.open("wb") as stream:
        for begin, array in outside:
            stream.seek(begin)
            # As bytes: not every dtype of ours is one that a buffer can have.
            stream.write(np.ascontiguousarray(array).reshape(-1).view("uint8").data)
