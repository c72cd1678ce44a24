"""The functions of ops against the definitions that the standard has had, in each version."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("onnx")

import onnx
from onnx.defs import OpSchema

from megengine.onnx.importer import registry

SINGLE = OpSchema.FormalParameterOption.Single

# What has no function, and why.
ABSENT = {
    "Constant": "is read when the model is",
    "ImageDecoder": "needs a library of image formats",
    "CastMap": "maps are no inputs here",
    "CategoryMapper": "LabelEncoder has taken its place",
    "DictVectorizer": "maps are no inputs here",
    "SVMClassifier": "not written",
    "SVMRegressor": "not written",
}
# Defaults that are written in another way, or that are of no consequence.
DEFAULTS = {
    ("Clip", "min"), ("Clip", "max"), ("GRU", "direction"), ("GRU", "output_sequence"),
    ("GridSample", "mode"), ("LSTM", "output_sequence"), ("RNN", "output_sequence"),
    ("Scan", "directions"),
}  # fmt: skip


def schemas() -> list[Any]:
    found = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if not schema.deprecated
        and schema.since_version <= registry.KNOWN_VERSIONS.get(schema.domain, 0)
    ]
    return sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version))


@pytest.mark.parametrize("schema", schemas(), ids=lambda s: f"{s.domain}{s.name}-{s.since_version}")
def test_function(schema: Any) -> None:
    impl = registry.find(schema.domain, schema.name, schema.since_version)
    if impl is None:
        assert schema.has_function or schema.name in ABSENT
        return
    assert schema.name not in ABSENT
    signature = impl.signature
    assert set(schema.attributes) <= set(signature.attributes)
    required = sum(i.option == SINGLE for i in schema.inputs)
    assert signature.n_required <= required
    assert len(schema.inputs) <= len(signature.inputs) or signature.rest is not None
    if impl.host_signature is not None:
        assert set(impl.host_signature.attributes) == set(signature.attributes)
    for name, attribute in schema.attributes.items():
        _, default = signature.attributes[name]
        if (schema.name, name) in DEFAULTS or (schema.name, schema.since_version) == ("LpPool", 1):
            continue
        # Classic models state as optional what nothing works without.
        if default is inspect.Parameter.empty and schema.domain != "ai.onnx.ml":
            assert attribute.required or attribute.default_value.name
        wanted = attribute.default_value
        if default is not inspect.Parameter.empty and wanted.name:
            value = {1: wanted.f, 2: wanted.i, 3: wanted.s.decode()}.get(wanted.type)
            if value is not None:
                assert default == (pytest.approx(value) if wanted.type == 1 else value), name


def test_no_function_without_a_definition() -> None:
    assert len(registry.ops()) > 200
    named = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    assert set(registry.ops()) <= named
