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
    weight = np.array(coefficients, np.float32).reshape(targets, -1)
    out = x.astype(np.float32) @ weight.T
    out = out + np.array(intercepts, np.float32) if intercepts else out
    return post_transformed(out, post_transform)


@host("LabelEncoder", domain=_ML)
def label_encoder_1(
    x: Array,
    *,
    classes_strings: tuple[str, ...] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Array:
    numbers = tuple(range(len(classes_strings)))
    if x.dtype.kind in "iu":
        return label_encoder(
            x, keys_int64s=numbers, values_strings=classes_strings, default_string=default_string
        )
    return label_encoder(
        x, keys_strings=classes_strings, values_int64s=numbers, default_int64=default_int64
    )


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


# ---- classes ------------------------------------------------------------------------------------


def class_labels(ints: tuple[int, ...] | None, strings: tuple[str, ...] | None) -> Array:
    """The labels of classes, from whichever attribute holds them."""
    if strings:
        out = np.empty(len(strings), object)
        out[:] = strings
        return out
    if not ints:
        raise ValueError("expected labels of classes")
    return np.array(ints, np.int64)


def post_transformed(scores: Array, name: str) -> Array:
    """Scores as what a model gives: itself, or probabilities."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if name == "SOFTMAX":
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
    if name == "SOFTMAX_ZERO":
        # A score of 0 stays what it is.
        e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * (scores != 0)
        return e / e.sum(axis=-1, keepdims=True)
    raise NotImplementedError(f"ai.onnx.ml::*: post_transform {name!r} is not supported")


@host("LinearClassifier", domain=_ML)
def linear_classifier(
    x: Array,
    *,
    classlabels_ints: tuple[int, ...] | None = None,
    classlabels_strings: tuple[str, ...] | None = None,
    coefficients: tuple[float, ...],
    intercepts: tuple[float, ...] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    labels = class_labels(classlabels_ints, classlabels_strings)
    weight = np.array(coefficients, np.float32).reshape(-1, x.shape[1])
    scores = x.astype(np.float32) @ weight.T
    scores = scores + np.array(intercepts, np.float32) if intercepts else scores
    if len(labels) == 2 and scores.shape[1] == 1:
        scores = np.concatenate([-scores, scores], axis=1)
    found = labels[scores.argmax(axis=1)]
    return found, post_transformed(scores, post_transform)


@host("ZipMap", domain=_ML)
def zip_map(
    x: Array,
    *,
    classlabels_int64s: tuple[int, ...] | None = None,
    classlabels_strings: tuple[str, ...] | None = None,
) -> list[dict[Any, float]]:
    labels = class_labels(classlabels_int64s, classlabels_strings).tolist()
    return [dict(zip(labels, row, strict=True)) for row in np.atleast_2d(x).tolist()]


@host("OneHotEncoder", domain=_ML)
def one_hot_encoder(
    x: Array,
    *,
    cats_int64s: tuple[int, ...] | None = None,
    cats_strings: tuple[str, ...] | None = None,
    zeros: int = 1,
) -> Array:
    categories = class_labels(cats_int64s, cats_strings)
    hit = x[..., None] == categories
    if not zeros and not hit.any(axis=-1).all():
        raise ValueError("OneHotEncoder: a value is none of the categories")
    return hit.astype(np.float32)


@host("FeatureVectorizer", domain=_ML)
def feature_vectorizer(*xs: Array, inputdimensions: tuple[int, ...] = ()) -> Array:
    rows = [np.atleast_2d(x).astype(np.float32) for x in xs]
    sizes = inputdimensions or tuple(row.shape[1] for row in rows)
    return np.concatenate([row[:, :n] for row, n in zip(rows, sizes, strict=True)], axis=1)
