"""Pictures and tables of graphs."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine._core import Graph
from megengine.core.ops import builtin
from megengine.jit import trace
from megengine.jit.recording import record
from megengine.tools.diagram import Box, Diagram, parts_of
from megengine.tools.graph import describe, draw, main
from megengine.tools.layout import layered
from megengine.tools.stats import op_rows
from megengine.tools.svg import to_svg
from megengine.utils.module_stats import module_stats
from megengine.utils.network import Network

SVG = "{http://www.w3.org/2000/svg}"


class Branches(M.Module):
    """Four ways that come together, and a skip over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.one = M.Conv2d(8, 2, 1)
        self.three = M.Conv2d(2, 2, 3, padding=1)
        self.pool = M.MaxPool2d(3, 1, 1)
        self.norm = M.BatchNorm2d(8)

    def forward(self, x: mge.Tensor) -> tuple[mge.Tensor, mge.Tensor]:
        y = self.one(x)
        joined = F.concat([y, self.three(y), F.relu(y), self.one(self.pool(x))], axis=1)
        return self.norm(joined) + x, F.split(joined, 2, axis=1)[1] * 0.5


def image() -> mge.Tensor:
    return mge.tensor(np.random.default_rng(0).normal(size=(2, 8, 5, 5)).astype("float32"))


def boxes_of(svg: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(svg)
    rects = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "box"]
    return [
        (x, y, x + float(r.get("width", "")), y + float(r.get("height", "")))
        for r in rects
        for x, y in [(float(r.get("x", "")), float(r.get("y", "")))]
    ]


def test_boxes() -> None:
    """A box for each op, input and output; none overlaps another; all are inside the picture."""
    net = Branches()
    net.eval()
    recording = record(net, image())
    picture = draw(net, image())
    boxes = boxes_of(picture.svg)
    assert len(boxes) == len(recording.graph.nodes) + 1 + 2
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    root = ElementTree.fromstring(picture.svg)
    assert all(x0 >= 0 and x1 <= float(root.get("width", "")) for x0, _, x1, _ in boxes)
    assert picture._repr_svg_() == picture.svg


def test_text_stays_in_its_box() -> None:
    """Texts are centred in boxes that are as wide as a wide font needs."""
    svg = draw(Branches(), image()).svg
    for node in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if node.get("class") != "node":
            continue
        box = next(r for r in node.iter(f"{SVG}rect"))
        for text in node.iter(f"{SVG}text"):
            assert len(text.text or "") * 5.5 < float(box.get("width", ""))


def test_every_edge_is_drawn_and_misses_the_boxes() -> None:
    boxes = [Box(str(i), "shape", outputs=["2×3"]) for i in range(40)]
    rng = random.Random(3)
    for i, box in enumerate(boxes[1:], 1):
        box.inputs = [(rng.randrange(max(0, i - 6), i), 0) for _ in range(rng.choice([1, 1, 2]))]
    svg = to_svg(Diagram(boxes))
    paths = [p for p in ElementTree.fromstring(svg).iter(f"{SVG}path") if p.get("class") == "edge"]
    assert len(paths) == sum(len(box.inputs) for box in boxes)
    rects = boxes_of(svg)
    for path in paths:
        # Vertical pieces: a line from (x, y0) to (x, y1) may touch a box only at an end.
        x = y = 0.0
        for command, numbers in re.findall(r"([MVC])([-\d. ]+)", path.get("d", "")):
            values = [float(n) for n in numbers.split()]
            if command == "V":
                low, high = sorted((y, values[0]))
                for x0, y0, x1, y1 in rects:
                    assert not (x0 < x < x1 and max(low, y0) + 0.2 < min(high, y1))
                y = values[0]
            else:
                x, y = values[-2:]


def test_layout() -> None:
    """No two boxes of a row overlap, sources stand above targets, a chain is a straight line."""
    rng = random.Random(0)
    for count in (1, 2, 30, 200):
        sizes = [(rng.uniform(20, 200), rng.uniform(20, 60)) for _ in range(count)]
        edges = [(rng.randrange(max(0, i - 9), i), 0, i) for i in range(1, count)]
        edges += [(rng.randrange(i), 1, i) for i in range(1, count, 5)]
        layout = layered(sizes, edges)
        centers = layout.centers
        for i, (x, y) in enumerate(centers):
            assert sizes[i][0] / 2 - 1e-6 <= x <= layout.width - sizes[i][0] / 2 + 1e-6
            for j in range(i):
                apart_x = abs(x - centers[j][0]) - (sizes[i][0] + sizes[j][0]) / 2
                apart_y = abs(y - centers[j][1]) - (sizes[i][1] + sizes[j][1]) / 2
                assert apart_x > -1e-6 or apart_y > -1e-6
        assert all(centers[a][1] < centers[b][1] for a, _, b in edges)
    chain = layered(
        [(50.0 + 20 * (i % 3), 20.0) for i in range(9)], [(i, 0, i + 1) for i in range(8)]
    )
    assert len({x for x, _ in chain.centers}) == 1
    with pytest.raises(ValueError, match="got 1 to 0"):
        layered([(1, 1), (1, 1)], [(1, 0, 0)])
    assert layered([], []).width == 0


def test_a_skip_is_straight() -> None:
    """A chain and a line past it: both are columns."""
    skip = layered([(30, 10)] * 5, [(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4), (0, 0, 4)])
    (route,) = [r for r in skip.routes if r.source == 0 and r.target == 4]
    assert len(route.passes) == 3
    assert len({round(x, 6) for x, _, _ in route.passes}) == 1
    column = {round(x, 6) for x, _ in skip.centers[1:4]}
    assert len(column) == 1
    assert column != {round(route.passes[0][0], 6)}


def test_names_are_escaped() -> None:
    svg = to_svg(Diagram([Box("<b>&\"'", "input", note="]]> <script>")], title="a<b", summary="&"))
    texts = "".join(ElementTree.fromstring(svg).itertext())
    for text in ("<b>&\"'", "]]> <script>", "a<b"):
        assert text in texts
    for markup in ("<script>", "<b>"):
        assert markup not in svg


def test_details() -> None:
    """Names and shapes of weights, settings that are not as usual, numbers, shapes on lines."""
    net = Branches()
    net.eval()
    texts = list(ElementTree.fromstring(draw(net, image()).svg).itertext())
    assert {"three", "weight 2×2×3×3", "pad 1×1", "stride 1×1", "4 weights 1×8×1×1"} <= set(texts)
    assert {"0.5", "2×8×5×5", "output 0", "output 1"} <= set(texts)
    summary = next(t for t in texts if "multiply-adds" in t)
    assert summary.startswith(f"{len(record(net, image()).graph.nodes)} ops, ")


def test_fused_ops_show_their_parts() -> None:
    svg = to_svg(Diagram([Box("FusedElementwise", "arithmetic", parts=["mul", "tanh"])]))
    titles = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert titles[-2:] == ["mul", "tanh"]
    assert len(boxes_of(svg)) == 1


def test_graphs_without_names() -> None:
    graph = Graph()
    x = graph.add_value("int32", (2, 3), external=True)
    weight = graph.add_value("int32", (3,), external=True)
    y = graph.add_value("int32", (2, 3), external=False)
    graph.set_constant(weight, mge.tensor([1, 2, 3]))
    graph.add_node(builtin.Elemwise(mode="ADD"), [x, weight], [y])
    graph.outputs = [y, weight, x]
    texts = list(ElementTree.fromstring(draw(graph, title="by hand").svg).itertext())
    assert {"by hand", "input"} <= set(texts)
    assert texts.count("int32 3") == 2
    assert [t for t in texts if t.startswith("output ") and ":" not in t] == [
        "output 0",
        "output 1",
        "output 2",
    ]


def test_wrong_sources() -> None:
    with pytest.raises(TypeError, match="got int"):
        draw(3)  # type: ignore[arg-type]
    for source in (Graph(), "net.onnx", "net.mge"):
        with pytest.raises(TypeError, match=f"expected no arguments for a {type(source).__name__}"):
            draw(source, mge.tensor(1.0))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (M.Conv2d(4, 6, 3, padding=1, groups=2, bias=False), (1, 4, 8, 8)),
        (M.ConvTranspose2d(4, 6, 3, bias=False), (2, 4, 8, 8)),
        (M.LocalConv2d(4, 6, 8, 8, 3), (2, 4, 8, 8)),
        (M.Linear(4, 6, bias=False), (2, 4)),
        (M.BatchNorm2d(4), (2, 4, 8, 8)),
        (M.LayerNorm(8), (2, 4, 8, 8)),
        (M.MaxPool2d(3, 2), (2, 4, 8, 8)),
    ],
)
def test_operations_are_counted_as_those_of_modules(module: M.Module, shape: tuple[int]) -> None:
    module.eval()
    x = mge.tensor(np.ones(shape, "float32"))
    recording = record(module, x)
    for i, tensor in recording.captured.items():
        recording.graph.set_constant(i, tensor)
    rows = op_rows(recording.graph)
    total, _ = module_stats(module, inputs=x, logging_to_stdout=False)
    assert max(r.operations for r in rows) == total.flops
    if not isinstance(module, M.BatchNorm2d):  # whose running statistics are no parameters
        assert sum(r.parameters for r in rows) == total.param_dims


def test_attention_and_recurrent_layers() -> None:
    q, k = (
        mge.tensor(np.ones((2, 3, 5, 8), "float32")),
        mge.tensor(np.ones((2, 3, 7, 8), "float32")),
    )
    graph = record(lambda q, k: F.nn.scaled_dot_product_attention(q, k, k), q, k).graph
    (row,) = op_rows(graph)
    assert row.operations == 2 * (2 * 3 * 5 * 7 * 8)
    rnn = M.LSTM(4, 6, bias=False)
    rows = op_rows(record(rnn, mge.tensor(np.ones((5, 2, 4), "float32"))).graph)
    assert max(r.operations for r in rows) == 5 * 2 * (4 * 6) * (4 + 6)


def test_what_runs_of_a_network() -> None:
    """Ops that were fused with a convolution are its parts, and its work is still counted."""
    net = Branches()
    net.eval()
    svg = draw(net, image(), optimized=True).svg
    titles = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    recording = record(lambda x: F.relu(net.three(F.relu(net.one(x)))), image())
    for i, tensor in recording.captured.items():
        recording.graph.set_constant(i, tensor)
    plain = op_rows(recording.graph)
    graph = recording.compile().optimized()
    assert "Convolution" in titles
    assert sum(r.operations for r in op_rows(graph)) == sum(r.operations for r in plain)
    fused = [node for node in graph.nodes if node.kind == "FusedConvolution"]
    assert [parts_of(node) for node in fused] == [["Convolution", "relu"]] * len(fused)
    assert fused


def test_describe() -> None:
    text = describe(M.Linear(3, 4), mge.tensor(np.ones((2, 3), "float32")))
    assert re.search(r"^%1 = constant : float32 \(4, 3\)  # weight$", text, re.M)
    assert "Linear()(%0, %1, %2)" in text
    assert re.search(r"^Linear +1 +16 +24 +32 B$", text, re.M)


def test_dumped_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints and draws them; names are those of the file."""
    net = Branches()
    net.eval()
    function = trace(net, capture_as_const=True)
    function(image())
    source, picture = tmp_path / "branches.mge", tmp_path / "branches.svg"
    function.dump(source, arg_names=["photo"], output_names=["sum", "half"], keep_param_name=True)
    assert main([str(source)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^%0 = input : float32 \(2, 8, 5, 5\)  # photo$", text, re.M)
    assert re.search(r"^Convolution +3 ", text, re.M)
    assert main([str(source), "--svg", str(picture)]) == 0
    texts = set(ElementTree.fromstring(picture.read_text("utf-8")).itertext())
    assert {"branches", "photo", "sum", "half", "weight 2×2×3×3"} <= texts

    loaded = Network.load(source)
    assert {"photo", "sum", "half"} <= set(ElementTree.fromstring(draw(loaded).svg).itertext())
    picture.write_bytes(source.read_bytes()[:-100])
    with pytest.raises(SystemExit) as stopped:
        main([str(picture)])
    assert stopped.value.code == 1
    assert str(picture) in capsys.readouterr().err


def test_numbers_that_follow_sizes(tmp_path: Path) -> None:
    function = trace(
        lambda x: F.full((x.shape[0] + 1, 2), 1 / x.shape[1]) + F.sum(x), capture_as_const=True
    )
    function(mge.tensor(np.ones((2, 4), "float32")))
    function.dump(tmp_path / "file.mge", arg_names=["x"])
    text = describe(tmp_path / "file.mge")
    assert "(3, 2)  # value = 1 / x.shape[1], shape[0] = x.shape[0] + 1\n" in text


def test_what_runs() -> None:
    """Fused ops as one box with their parts."""
    x = mge.tensor(np.ones((4, 500), "float32"))
    chain = lambda t: F.tanh(t * 2 + 1) * t  # noqa: E731
    svg = draw(chain, x, optimized=True).svg
    titles = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert len(boxes_of(svg)) == 3
    assert {"tanh", "mul"} <= set(titles)
    assert len(boxes_of(draw(chain, x).svg)) == 6


def test_onnx_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    shape = ["N", 3, 8, 8]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "c.weight"], ["y"], pads=[1, 1, 1, 1]),
            helper.make_node("Mul", ["y", "two"], ["z"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, shape)],
        [array(np.ones((3, 3, 3, 3), "float32"), "c.weight"), array(np.float32(2), "two")],
    )
    source, picture = tmp_path / "net.onnx", tmp_path / "net.svg"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), source)
    assert main([str(source), "--svg", str(picture)]) == 0
    svg = picture.read_text(encoding="utf-8")
    texts = list(ElementTree.fromstring(svg).itertext())
    assert len(boxes_of(svg)) == 4
    assert {"Conv", "weight 3×3×3×3", "pads 1, 1, 1, 1", "two = 2", "N×3×8×8", "net"} <= set(texts)
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none.onnx"), "--svg", str(picture)])
    assert "there is no file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(source)])
    assert "ONNX files are only drawn" in capsys.readouterr().err
