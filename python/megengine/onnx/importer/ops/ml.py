"""Operators of classic machine learning, of the domain ``ai.onnx.ml``. They run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..registry import host, op
from ..values import Array, to_tensor

_ML = "ai.onnx.ml"


@host("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(x: Array, indices: Array) -> Array:
    return np.atleast_2d(np.take(x, indices.reshape(-1), axis=-1))


@host("Binarizer", domain=_ML)
def binarizer(x: Array, *, threshold: float = 0.0) -> Array:
    return (x > threshold).astype(x.dtype)


@host("Scaler", domain=_ML)
def scaler(x: Array, *, offset: tuple[float, ...] = (), scale: tuple[float, ...] = ()) -> Array:
    shifted = x.astype(np.float32) - np.array(offset or (0.0,), np.float32)
    return shifted * np.array(scale or (1.0,), np.float32)


@host("Normalizer", domain=_ML)
def normalizer(x: Array, *, norm: str = "MAX") -> Array:
    wide = np.abs(x.astype(np.float32))
    lengths = {
        "MAX": lambda: wide.max(axis=-1, keepdims=True),
        "L1": lambda: wide.sum(axis=-1, keepdims=True),
        "L2": lambda: np.sqrt((wide * wide).sum(axis=-1, keepdims=True)),
    }
    if norm not in lengths:
        raise ValueError(f"Normalizer: expected norm MAX, L1 or L2, got {norm!r}")
    length = lengths[norm]()
    return x.astype(np.float32) / np.where(length == 0, 1, length)


@host("Imputer", domain=_ML)
def imputer(
    x: Array,
    *,
    imputed_value_floats: tuple[float, ...] = (),
    imputed_value_int64s: tuple[int, ...] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:
    if x.dtype.kind == "f":
        new, old = np.array(imputed_value_floats), replaced_value_float
        gone = np.isnan(x) if np.isnan(old) else x == old
    else:
        new, gone = np.array(imputed_value_int64s), x == replaced_value_int64
    return np.where(gone, new, x).astype(x.dtype)


@host("LinearRegressor", domain=_ML)
def linear_regressor(
    x: Array,
    *,
    coefficients: tuple[float, ...] = (),
    intercepts: tuple[float, ...] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Array:
    if post_transform != "NONE":
        raise NotImplementedError(
            f"LinearRegressor: post_transform {post_transform} (ai.onnx.ml::)"
        )
    weight = np.array(coefficients, np.float32).reshape(targets, -1)
    out = x.astype(np.float32) @ weight.T
    return out + np.array(intercepts, np.float32) if intercepts else out


@host("LabelEncoder", since=2, domain=_ML)
def label_encoder(
    x: Array,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: tuple[float, ...] | None = None,
    keys_int64s: tuple[int, ...] | None = None,
    keys_strings: tuple[str, ...] | None = None,
    keys_tensor: Array | None = None,
    values_floats: tuple[float, ...] | None = None,
    values_int64s: tuple[int, ...] | None = None,
    values_strings: tuple[str, ...] | None = None,
    values_tensor: Array | None = None,
) -> Array:
    keys: Any = next(
        (k for k in (keys_floats, keys_int64s, keys_strings, keys_tensor) if k is not None), None
    )
    default: Any
    values: Any
    if values_tensor is not None:
        values, dtype = values_tensor.reshape(-1).tolist(), values_tensor.dtype
        default = None if default_tensor is None else default_tensor.reshape(-1).tolist()[0]
        if default is None:
            default = {"f": default_float, "i": default_int64}.get(dtype.kind, default_string)
    elif values_floats is not None:
        values, default, dtype = values_floats, default_float, np.dtype(np.float32)
    elif values_int64s is not None:
        values, default, dtype = values_int64s, default_int64, np.dtype(np.int64)
    elif values_strings is not None:
        values, default, dtype = values_strings, default_string, np.dtype(object)
    else:
        raise ValueError("LabelEncoder: expected values")
    if keys is None:
        raise ValueError("LabelEncoder: expected keys")
    if isinstance(keys, np.ndarray):
        keys = keys.reshape(-1).tolist()
    table = dict(zip(keys, values, strict=True))
    nan = next((v for k, v in table.items() if k != k), default)
    found = [nan if k != k else table.get(k, default) for k in x.reshape(-1).tolist()]
    out = np.empty(len(found), dtype=dtype)
    out[:] = found
    return out.reshape(x.shape)


_MODES = ("<=", "<", ">=", ">", "==", "!=", "in")


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
    nodes_missing_value_tracks_true: tuple[int, ...] | None = None,
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: tuple[int, ...],
    nodes_truenodeids: tuple[int, ...],
    post_transform: int = 0,
    tree_roots: tuple[int, ...],
) -> Array:
    if post_transform:
        raise NotImplementedError("ai.onnx.ml::TreeEnsemble: expected no post_transform")
    sets = _members(nodes_modes, membership_values)
    n = n_targets or max(leaf_targetids) + 1
    out = np.zeros((len(x), n), x.dtype)
    for row, features in enumerate(x):
        found: list[list[Any]] = [[] for _ in range(n)]
        for root in tree_roots:
            node, leaf = root, False
            seen = 0
            # A tree that is a leaf only has a node whose two branches are that leaf.
            while not leaf:
                seen += 1
                if seen > len(nodes_splits):
                    raise ValueError("TreeEnsemble: a tree has a loop")
                value = features[nodes_featureids[node]]
                if _goes_true(
                    value, int(nodes_modes[node]), nodes_splits[node], sets.get(node)
                ) or (
                    nodes_missing_value_tracks_true is not None
                    and np.isnan(value)
                    and nodes_missing_value_tracks_true[node]
                ):
                    leaf, node = bool(nodes_trueleafs[node]), nodes_truenodeids[node]
                else:
                    leaf, node = bool(nodes_falseleafs[node]), nodes_falsenodeids[node]
            found[leaf_targetids[node]].append(leaf_weights[node])
        for target, weights in enumerate(found):
            if weights:
                out[row, target] = _aggregated(weights, aggregate_function, len(tree_roots))
    return out


def _members(modes: Array, values: Array | None) -> dict[int, set[float]]:
    """The sets that nodes of mode "in" look into, which NaN ends each of."""
    found: dict[int, set[float]] = {}
    if values is None:
        return found
    nodes = [i for i, mode in enumerate(modes) if mode == 6]
    current: set[float] = set()
    for value in values.tolist():
        if value != value:
            found[nodes[len(found)]] = current
            current = set()
        else:
            current.add(value)
    return found


def _goes_true(value: Any, mode: int, split: Any, members: set[float] | None) -> bool:
    if mode == 6:
        return float(value) in (members or set())
    tests = (value <= split, value < split, value >= split, value > split, value == split)
    return bool(value != split if mode == 5 else tests[mode])


def _aggregated(weights: list[Any], how: int, n_trees: int) -> Any:
    if how == 0:
        return sum(weights) / n_trees
    return (sum, min, max)[how - 1](weights)


@op("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] | None = None,
    pool_strings: tuple[str, ...] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Any:
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"TfIdfVectorizer: expected mode TF, IDF or TFIDF, got {mode!r}")
    pool: Any = pool_strings if pool_strings is not None else (pool_int64s or ())
    places: dict[tuple[Any, ...], int] = {}
    ends = (*ngram_counts[1:], len(pool))
    for n, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        for at in range(start, end, n):
            places[tuple(pool[at : at + n])] = len(places)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    factors = weights or (1.0,) * len(ngram_indexes)
    for row, line in enumerate(rows.tolist()):
        for n in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, (max_skip_count + 1 if n > 1 else 1) + 1):
                for start in range(len(line) - (n - 1) * skip):
                    gram = tuple(line[start : start + (n - 1) * skip + 1 : skip])
                    if gram in places:
                        counts[row, ngram_indexes[places[gram]]] += 1
    weight = np.ones(counts.shape[1], np.float32)
    for place, index in enumerate(ngram_indexes):
        weight[index] = factors[place]
    if mode == "IDF":
        counts = (counts > 0) * weight
    elif mode == "TFIDF":
        counts = counts * weight
    counts = counts.astype(np.float32)
    return to_tensor(counts[0] if x.ndim < 2 else counts)
