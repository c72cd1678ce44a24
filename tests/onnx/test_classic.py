"""Classic machine learning: what files give is what scikit-learn gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("sklearn")

from onnx import TensorProto, helper
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import megengine as mge
import megengine.onnx


def load(op: str, outputs: list[str], attributes: dict[str, Any], *after: Any) -> Any:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes), *after],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_empty_tensor_value_info(n) for n in (after[-1].output if after else outputs)],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    return mge.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))


def tree_attributes(trees: list[Any], kind: str, weights: Any) -> dict[str, Any]:
    """The nodes of scikit-learn's trees; ``weights(values of a leaf)`` gives (class, weight)s."""
    columns: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                     "falsenodeids")
    }  # fmt: skip
    targets: dict[str, list[Any]] = {
        f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")
    }
    for t, tree in enumerate(trees):
        for i in range(tree.node_count):
            leaf = tree.children_left[i] < 0
            row = (t, i, max(int(tree.feature[i]), 0), float(tree.threshold[i]),
                   "LEAF" if leaf else "BRANCH_LEQ", max(int(tree.children_left[i]), 0),
                   max(int(tree.children_right[i]), 0))  # fmt: skip
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            for target, weight in weights(tree.value[i]) if leaf else ():
                for column, value in zip(targets.values(), (t, i, target, weight), strict=True):
                    column.append(value)
    return {**columns, **targets}


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(300, 4)).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) + (x[:, 3] > 1)


def test_forest(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    forest = RandomForestClassifier(7, max_depth=5, random_state=0).fit(x, y)

    def weights(value: np.ndarray) -> list[tuple[int, float]]:
        shares = value[0] / value[0].sum() / 7
        return [(c, float(share)) for c, share in enumerate(shares)]

    attributes = tree_attributes([e.tree_ for e in forest.estimators_], "class", weights)
    net = load(
        "TreeEnsembleClassifier", ["label", "p"], {**attributes, "classlabels_int64s": [0, 1, 2]}
    )
    label, p = net(x)
    np.testing.assert_array_equal(label.numpy(), forest.predict(x))
    np.testing.assert_allclose(p.numpy(), forest.predict_proba(x), atol=1e-6)


def test_boosting(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(x, y)
    trees = [e.tree_ for e in model.estimators_[:, 0]]
    attributes = tree_attributes(trees, "target", lambda v: [(0, float(v[0, 0]) * 0.1)])
    base = float(model.init_.constant_.item())
    net = load(
        "TreeEnsembleRegressor", ["y"], {**attributes, "n_targets": 1, "base_values": [base]}
    )
    np.testing.assert_allclose(net(x).numpy()[:, 0], model.predict(x), atol=1e-5)


def test_logistic_regression(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    model = LogisticRegression().fit(x, y)
    names = ["none", "one", "both"]
    labels: dict[str, Any] = {"classlabels_strings": names}
    zipped = helper.make_node("ZipMap", ["p"], ["map"], domain="ai.onnx.ml", **labels)
    attributes = {
        "coefficients": model.coef_.ravel().tolist(),
        "intercepts": model.intercept_.tolist(),
        "post_transform": "SOFTMAX",
        **labels,
    }
    wanted = model.predict_proba(x[:5])
    label, p = load("LinearClassifier", ["label", "p"], attributes)(x[:5])
    assert label.tolist() == [names[i] for i in model.predict(x[:5])]
    np.testing.assert_allclose(p.numpy(), wanted, atol=1e-6)
    maps = load("LinearClassifier", ["label", "p"], attributes, zipped)(x[:5])
    assert [list(row) for row in maps] == [names] * 5
    np.testing.assert_allclose([list(row.values()) for row in maps], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "wanted"), [(["b", "x"], [1, -1]), ([1, 0, 7], ["b", "a", "_Unused"])]
)
def test_label_encoder_of_version_1(given: list[Any], wanted: list[Any]) -> None:
    attributes: dict[str, Any] = {"classes_strings": ["a", "b"], "domain": "ai.onnx.ml"}
    node = helper.make_node("LabelEncoder", ["x"], ["y"], **attributes)
    kind = TensorProto.STRING if isinstance(given[0], str) else TensorProto.INT64
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n"])],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    net = mge.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    found = net(np.array(given, object if kind == TensorProto.STRING else np.int64))
    assert (found if isinstance(found, np.ndarray) else found.numpy()).tolist() == wanted
