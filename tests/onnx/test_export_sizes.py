"""Exported files compute from sizes what the function computes from them in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

import megengine as mge
import megengine.functional as F
import megengine.onnx
from tests.jit.test_dump_sizes import FOLLOWING, normal

# Those that say most; of each, the axes that are left open.
EXPORTED: dict[str, dict[int, str]] = {
    "reshape of products": {0: "n", 1: "h", 2: "w"},
    "arange in steps": {1: "n"},
    "interpolate": {2: "h", 3: "w"},
    "halves": {1: "n"},
    "a table of positions": {1: "n"},
    "padding to multiples": {0: "n", 2: "h", 3: "w"},
    "padding of what needs none": {2: "h", 3: "w"},
    "a grid": {2: "h", 3: "w"},
    "a power": {0: "n", 1: "c"},
    "a float before a size": {1: "n"},
    "a root": {1: "n"},
    "a whole Tensor of sizes": {0: "n", 1: "c"},
    "the larger": {1: "h", 2: "w"},
    "rounding": {0: "n", 1: "c"},
    "divmod": {0: "n", 1: "c"},
}


@pytest.mark.parametrize("name", EXPORTED)
def test_a_number_follows(name: str, tmp_path: Path) -> None:
    function, base, others = FOLLOWING[name]
    axes = EXPORTED[name]
    path = tmp_path / "file.onnx"
    megengine.onnx.export(
        function, mge.tensor(normal(*base)), path, input_names=["x"], dynamic_axes={"x": axes}
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for shape in others:
        size = tuple(n if i in axes else base[i] for i, n in enumerate(shape))
        x = normal(*size, seed=1)
        want = function(mge.tensor(x))
        got = session.run(None, {"x": x})
        for g, w in zip(got, [want] if isinstance(want, mge.Tensor) else want, strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=1e-4, atol=1e-5)


def test_comparisons_are_told_of(tmp_path: Path) -> None:
    """What is true in all recordings may not be for other sizes."""

    def function(x: mge.Tensor) -> mge.Tensor:
        return F.exp(x) if x.shape[0] > 100 else x * min(x.shape[1], 200)

    with pytest.warns(UserWarning, match=r"not \(100 < x.shape\[0\]\) and not \(200 < x.shape"):
        megengine.onnx.export(
            function,
            mge.tensor(normal(2, 3)),
            tmp_path / "file.onnx",
            input_names=["x"],
            dynamic_axes={"x": {0: "n", 1: "c"}},
        )
