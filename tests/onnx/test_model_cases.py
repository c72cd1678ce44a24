"""The models that the onnx package ships: converted ones, and networks of well-known shape."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper

import megengine as mge
import megengine.onnx

from .cases import check, load_cases, run

CASES = {
    name: case
    for kind in ("simple", "pytorch-converted", "pytorch-operator")
    for name, case in load_cases(kind).items()
}
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("name", sorted(CASES))
def test_converted(name: str) -> None:
    case = CASES[name]
    for found, wanted in run(case):
        check(found, wanted, case.rtol, case.atol)


def test_all_are_there() -> None:
    assert len(CASES) == 140


@pytest.mark.parametrize(
    "name",
    [
        "bvlc_alexnet",
        "densenet121",
        "inception_v1",
        "inception_v2",
        "resnet50",
        "shufflenet",
        "squeezenet",
        "vgg19",
        "zfnet512",
    ],
)
def test_network(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    net = mge.onnx.load(path)
    graph = onnx.load(path).graph
    (info,) = [i for i in graph.input if i.name in net.input_names]
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    image = np.sin(np.arange(np.prod(shape))).reshape(shape).astype("float32")
    output = LIGHT / f"light_{name}_output_0.pb"
    wanted = numpy_helper.to_array(onnx.TensorProto.FromString(output.read_bytes()))
    np.testing.assert_allclose(net(image).numpy(), wanted, rtol=1e-3, atol=1e-7)
