"""The hand-written stub names what the compiled module has, and nothing else."""

import ast
import pathlib

import megengine
from megengine import _core

STUB = pathlib.Path(megengine.__file__).with_name("_core.pyi")


def _declared() -> dict[str, set[str]]:
    out: dict[str, set[str]] = {"": set()}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            out[""].add(node.name)
        elif isinstance(node, ast.ClassDef):
            out[""].add(node.name)
            out[node.name] = {
                n.target.id if isinstance(n, ast.AnnAssign) else n.name  # type: ignore[union-attr]
                for n in node.body
                if isinstance(n, (ast.FunctionDef, ast.AnnAssign, ast.ClassDef))
            }
    return out


def test_module_names():
    real = {n for n in dir(_core) if not n.startswith("__")}
    assert _declared()[""] == real


def test_class_members():
    for cls, names in _declared().items():
        if cls:
            missing = {n for n in names if not hasattr(getattr(_core, cls), n)} - {"_type_name"}
            assert not missing, (cls, missing)
            public = {n for n in vars(getattr(_core, cls)) if not n.startswith("__")}
            assert public <= names, (cls, public - names)
