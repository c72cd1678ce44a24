"""Ensembles of trees, of the domain ``ai.onnx.ml``. They run on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..registry import host
from ..values import Array
from .ml import class_labels, post_transformed

_ML = "ai.onnx.ml"

_LEAF, _MEMBER = -1, 6
_MODES = {
    "BRANCH_LEQ": 0,
    "BRANCH_LT": 1,
    "BRANCH_GTE": 2,
    "BRANCH_GT": 3,
    "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
    "LEAF": _LEAF,
}
_COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@dataclass
class _Forest:
    """All nodes of some trees, leaves among them, by position."""

    roots: Array
    mode: Array
    feature: Array
    split: Array
    if_true: Array
    if_false: Array
    missing_is_true: Array
    members: dict[int, Array] = field(default_factory=dict)  # what nodes of mode 6 look for

    def leaves(self, x: Array) -> Array:
        """The leaf that each row of x reaches in each tree, (rows, trees)."""
        found = np.empty((len(x), len(self.roots)), np.int64)
        for tree, root in enumerate(self.roots):
            at = np.full(len(x), root)
            for _ in range(len(self.mode) + 1):
                inner = self.mode[at] != _LEAF
                if not inner.any():
                    break
                child = np.where(self._goes_true(x, at), self.if_true[at], self.if_false[at])
                at = np.where(inner, child, at)
            else:
                raise ValueError("TreeEnsemble: a tree has a loop")
            found[:, tree] = at
        return found

    def _goes_true(self, x: Array, at: Array) -> Array:
        value = x[np.arange(len(x)), self.feature[at]]
        mode, split = self.mode[at], self.split[at]
        true = np.zeros(len(x), np.bool_)
        for number, compare in enumerate(_COMPARISONS):
            true |= (mode == number) & compare(value, split)
        for node in np.unique(at[mode == _MEMBER]):
            true |= (at == node) & np.isin(value, self.members[int(node)])
        return true | (np.isnan(value) & (self.missing_is_true[at] != 0))


def _aggregated(
    forest: _Forest, x: Array, entries: tuple[Any, Any, Any], n_targets: int, how: str
) -> Array:
    """What the leaves give for each target. Entries are positions of leaves, targets, weights."""
    nodes, targets, weights = entries
    dtype = np.asarray(weights).dtype
    table = np.zeros((len(forest.mode), n_targets), dtype)
    given = np.zeros(table.shape, np.bool_)
    np.add.at(table, (nodes, targets), weights)
    given[nodes, targets] = True
    leaves = forest.leaves(x)
    each, counts = table[leaves], given[leaves]  # (rows, trees, targets)
    if how in ("SUM", "AVERAGE"):
        total = each.sum(axis=1)
        return total / len(forest.roots) if how == "AVERAGE" else total
    if how not in ("MIN", "MAX"):
        raise ValueError(f"TreeEnsemble: expected SUM, AVERAGE, MIN or MAX, got {how!r}")
    worst, pick = (np.inf, np.min) if how == "MIN" else (-np.inf, np.max)
    best = pick(np.where(counts, each, worst), axis=1)
    return np.where(counts.any(axis=1), best, 0).astype(dtype)


# ---- version 5 ----------------------------------------------------------------------------------


@host("TreeEnsemble", since=5, domain=_ML)
def tree_ensemble(
    x: Array,
    *,
    aggregate_function: int = 1,
    leaf_targetids: tuple[int, ...],
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int | None = None,
    nodes_falseleafs: tuple[int, ...],
    nodes_falsenodeids: tuple[int, ...],
    nodes_featureids: tuple[int, ...],
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: tuple[int, ...],
    nodes_truenodeids: tuple[int, ...],
    post_transform: int = 0,
    tree_roots: tuple[int, ...],
) -> Array:
    n, n_leaves = len(nodes_splits), len(leaf_weights)

    # Leaves have positions of their own there; here they come behind the nodes.
    def children(ids: Sequence[int], are_leaves: Sequence[int]) -> Array:
        return np.concatenate([np.array(ids) + n * np.array(are_leaves), np.zeros(n_leaves, int)])

    def with_leaves(values: Any, of_leaves: int = 0) -> Array:
        return np.concatenate([np.asarray(values), np.full(n_leaves, of_leaves)])

    mode = with_leaves(nodes_modes.astype(np.int64), _LEAF)
    forest = _Forest(
        np.array(tree_roots),
        mode,
        with_leaves(nodes_featureids),
        with_leaves(nodes_splits),
        children(nodes_truenodeids, nodes_trueleafs),
        children(nodes_falsenodeids, nodes_falseleafs),
        with_leaves(nodes_missing_value_tracks_true or np.zeros(n, int)),
        _member_sets(mode, membership_values),
    )
    entries = (n + np.arange(n_leaves), np.array(leaf_targetids), leaf_weights)
    how = ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function]
    scores = _aggregated(forest, x, entries, n_targets or max(leaf_targetids) + 1, how)
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return post_transformed(scores, names[post_transform]).astype(x.dtype)


def _member_sets(mode: Array, values: Array | None) -> dict[int, Array]:
    """What the nodes of mode 6 look for, in order; each set ends with a NaN."""
    if values is None:
        return {}
    nodes = np.flatnonzero(mode == _MEMBER)
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    return {int(node): found[:-1] for node, found in zip(nodes, sets, strict=False)}


# ---- earlier versions ---------------------------------------------------------------------------


def _classic(
    treeids: Sequence[int],
    nodeids: Sequence[int],
    features: Sequence[int],
    modes: Sequence[str],
    splits: Any,
    true_ids: Sequence[int],
    false_ids: Sequence[int],
    missing: Sequence[int],
) -> tuple[_Forest, dict[tuple[int, int], int]]:
    """The forest, and the position of each (tree, node)."""
    unknown = sorted(set(modes) - set(_MODES))
    if unknown:
        raise ValueError(f"TreeEnsemble: unknown modes {unknown}")
    place = {key: i for i, key in enumerate(zip(treeids, nodeids, strict=True))}
    mode = np.array([_MODES[name] for name in modes])

    def children(ids: Sequence[int]) -> Array:
        found = [
            0 if mode[i] == _LEAF else place[tree, child]
            for i, (tree, child) in enumerate(zip(treeids, ids, strict=True))
        ]
        return np.array(found)

    if_true, if_false = children(true_ids), children(false_ids)
    inner = mode != _LEAF
    below = {*if_true[inner].tolist(), *if_false[inner].tolist()}
    roots = [i for i in range(len(mode)) if i not in below]
    flags = np.array(missing) if missing else np.zeros(len(mode), int)
    forest = _Forest(
        np.array(roots), mode, np.array(features), np.asarray(splits), if_true, if_false, flags
    )
    return forest, place


def _values(floats: tuple[float, ...] | None, tensor: Array | None) -> Array:
    """Numbers from whichever attribute holds them."""
    return np.array(floats or (), np.float32) if tensor is None else tensor


@host("TreeEnsembleRegressor", domain=_ML)
def tree_ensemble_regressor(
    x: Array,
    *,
    aggregate_function: str = "SUM",
    base_values: tuple[float, ...] | None = None,
    base_values_as_tensor: Array | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: tuple[int, ...],
    nodes_featureids: tuple[int, ...],
    nodes_hitrates: tuple[float, ...] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: tuple[str, ...],
    nodes_nodeids: tuple[int, ...],
    nodes_treeids: tuple[int, ...],
    nodes_truenodeids: tuple[int, ...],
    nodes_values: tuple[float, ...] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: tuple[int, ...],
    target_nodeids: tuple[int, ...],
    target_treeids: tuple[int, ...],
    target_weights: tuple[float, ...] | None = None,
    target_weights_as_tensor: Array | None = None,
) -> Array:
    forest, place = _classic(
        nodes_treeids, nodes_nodeids, nodes_featureids, nodes_modes,
        _values(nodes_values, nodes_values_as_tensor), nodes_truenodeids, nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )  # fmt: skip
    nodes = [place[key] for key in zip(target_treeids, target_nodeids, strict=True)]
    weights = _values(target_weights, target_weights_as_tensor)
    entries = (nodes, np.array(target_ids), weights)
    scores = _aggregated(forest, x, entries, n_targets, aggregate_function)
    base = _values(base_values, base_values_as_tensor)
    scores = scores + base if base.size else scores
    return post_transformed(scores, post_transform).astype(np.float32)


@host("TreeEnsembleClassifier", domain=_ML)
def tree_ensemble_classifier(
    x: Array,
    *,
    base_values: tuple[float, ...] | None = None,
    base_values_as_tensor: Array | None = None,
    class_ids: tuple[int, ...],
    class_nodeids: tuple[int, ...],
    class_treeids: tuple[int, ...],
    class_weights: tuple[float, ...] | None = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: tuple[int, ...] | None = None,
    classlabels_strings: tuple[str, ...] | None = None,
    nodes_falsenodeids: tuple[int, ...],
    nodes_featureids: tuple[int, ...],
    nodes_hitrates: tuple[float, ...] | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: tuple[int, ...] = (),
    nodes_modes: tuple[str, ...],
    nodes_nodeids: tuple[int, ...],
    nodes_treeids: tuple[int, ...],
    nodes_truenodeids: tuple[int, ...],
    nodes_values: tuple[float, ...] | None = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    forest, place = _classic(
        nodes_treeids, nodes_nodeids, nodes_featureids, nodes_modes,
        _values(nodes_values, nodes_values_as_tensor), nodes_truenodeids, nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )  # fmt: skip
    labels = class_labels(classlabels_int64s, classlabels_strings)
    nodes = [place[key] for key in zip(class_treeids, class_nodeids, strict=True)]
    weights = _values(class_weights, class_weights_as_tensor)
    scores = _aggregated(forest, x, (nodes, np.array(class_ids), weights), len(labels), "SUM")
    base = _values(base_values, base_values_as_tensor)
    if len(labels) == 2 and len(set(class_ids)) == 1:
        return _of_two(scores[:, class_ids[0]], base, labels, weights, post_transform)
    scores = scores + base if base.size else scores
    found = labels[scores.argmax(axis=1)]
    return found, post_transformed(scores, post_transform).astype(np.float32)


def _of_two(
    score: Array, base: Array, labels: Array, weights: Array, post_transform: str
) -> tuple[Array, Array]:
    """Two classes of which the trees score one: it is chosen by a probability, or by a sign."""
    if base.size:
        score = score + base[-1]
    probability = bool((weights >= 0).all())
    chosen = score > (0.5 if probability else 0.0)
    if post_transform == "LOGISTIC":
        p = post_transformed(score[:, None], "LOGISTIC")[:, 0]
        both = np.stack([1 - p, p], axis=1)
    elif probability:
        both = np.stack([1 - score, score], axis=1)
    else:
        both = post_transformed(np.stack([-score, score], axis=1), post_transform)
    return labels[chosen.astype(np.int64)], both.astype(np.float32)
