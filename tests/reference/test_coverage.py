"""Every public function, Tensor method and operator, and module class has a case, or a reason.

A case counts that names it: ``F.exp(...)``, ``F.nn.pad``, ``M.Conv2d``, ``x.reshape``, ``x << 1``.
Cases are those of cases/*.txt and the models of models/cases.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import megengine as mge
from tests.reference import record

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PACKAGES = {
    "megengine.data.transform": "V",
    "megengine.functional": "F",
    "megengine.functional.elemwise": "F",
    "megengine.functional.loss": "F",
    "megengine.functional.math": "F",
    "megengine.functional.metric": "F",
    "megengine.functional.nn": "F",
    "megengine.functional.tensor": "F",
    "megengine.functional.vision": "F",
    "megengine.module": "M",
    "megengine.module.init": "init",
    "megengine.optimizer": "optim",
}

# Names that the reference cannot answer for, and where they are tested instead.
ELSEWHERE: dict[str, str] = {
    "V.TorchTransformCompose": "tests/data/test_transform.py",  # the reference needs pillow for it
    "F.cross": "tests/ops/cases/linalg.py",
    "F.einsum": "tests/ops/cases/linalg.py",
    "F.resize": "tests/ops/test_sampling.py",
    "F.rot90": "tests/ops/cases/sampling.py",
    "F.rotate": "tests/ops/test_sampling.py",
    "Tensor.__array_namespace__": "tests/exchange/test_array_api.py",
    "Tensor.mT": "tests/exchange/test_array_api.py",
    "Tensor.to_device": "tests/exchange/test_array_api.py",
    "Tensor.__dlpack__": "tests/exchange/test_dlpack.py",
    "Tensor.__dlpack_device__": "tests/exchange/test_dlpack.py",
    "F.scaled_dot_product_attention": "tests/ops/cases/attention.py",
}

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
SUBSCRIPTS = {ast.Load: "__getitem__", ast.Store: "__setitem__", ast.Del: "__delitem__"}
PROTOCOLS = {
    "copy.copy": "__copy__",
    "copy.deepcopy": "__deepcopy__",
    "math.floor": "__floor__",
    "math.ceil": "__ceil__",
    "np.concatenate": "__array_function__",
    "np.exp": "__array_wrap__",
    "np.float32": "__array_priority__",
}
CALLS = {"len", "iter", "hash", "bool", "int", "float", "complex", "repr", "round", "abs", "index"}


def sources() -> Iterator[str]:
    """The text of every case, and of every model."""
    for path in sorted((HERE / "cases").glob("*.txt")):
        for source, _ in record.read_cases(path.read_text()):
            yield source
    for folder in (HERE / "models" / "cases", ROOT / "examples" / "models"):
        for path in sorted(folder.glob("*.py")):
            yield path.read_text()


def root_of(node: ast.expr) -> str | None:
    """The name that a chain of attributes starts from."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def used() -> dict[str, set[str]]:
    """Names used after ``F.``, ``M.``, ``optim.``, ..., and anywhere ("") in the cases."""
    found: dict[str, set[str]] = {prefix: set() for prefix in ("", *PACKAGES.values())}
    for source in sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute):
                found[""].add(node.attr)
                found[""].add(PROTOCOLS.get(ast.unparse(node), ""))
                root = root_of(node)
                if root in found:
                    found[root].add(node.attr)
                if isinstance(node.value, ast.Attribute) and node.value.attr == "init":
                    found["init"].add(node.attr)
            elif isinstance(node, ast.BinOp):
                name = OPERATORS[type(node.op)]
                found[""] |= {f"__{name}__", f"__r{name}__"}
            elif isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
                found[""].add(f"__{OPERATORS[type(node.op)]}__")
            elif isinstance(node, ast.Compare):
                found[""] |= {f"__{OPERATORS.get(type(op), 'contains')}__" for op in node.ops}
            elif isinstance(node, ast.AugAssign):
                found[""].add(f"__i{OPERATORS[type(node.op)]}__")
            elif isinstance(node, ast.Subscript):
                found[""].add(SUBSCRIPTS[type(node.ctx)])
            elif isinstance(node, ast.comprehension):
                found[""].add("__iter__")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
                found[""].add(f"__{ast.unparse(node.func)}__")
    return found


USED = used()


def public(package: str) -> list[str]:
    """The functions and classes that a package shows."""
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    family = package.split(".")[1]
    return sorted(
        name
        for name, value in vars(module).items()
        if str(getattr(value, "__module__", "")).startswith(f"megengine.{family}")
        and callable(value)
        and not name.startswith("_")
    )


def missing(package: str) -> list[str]:
    key = PACKAGES[package]
    names = public(package)
    if key == "M":
        module = importlib.import_module(package)
        names = [n for n in names if inspect.isclass(getattr(module, n))]
    return [n for n in names if n not in USED[key] and f"{key}.{n}" not in ELSEWHERE]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_case(package: str) -> None:
    assert not missing(package), f"no case for {missing(package)}, and no word why"


def tensor_members() -> list[str]:
    """Methods, properties and operators that Tensor itself defines."""
    plain = {
        "__new__",
        "__init__",
        "__module__",
        "__doc__",
        "__qualname__",
        "__dict__",
        "__slots__",
        "__firstlineno__",  # these two from Python 3.13 on
        "__static_attributes__",
        "__buffer__",  # from Python 3.12 on; what memoryview takes: tests/exchange/test_buffer.py
        "__release_buffer__",
    }
    plain |= {"__weakref__"} | set(dir(object)) - {
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
    }
    names: set[str] = set()
    for cls in mge.Tensor.__mro__[:-1]:
        names |= {n for n in vars(cls) if n.startswith("__") or not n.startswith("_")}
    return sorted(names - plain)


def test_every_tensor_member_has_a_case() -> None:
    found = [n for n in tensor_members() if n not in USED[""] and f"Tensor.{n}" not in ELSEWHERE]
    assert not found, f"no case for {found}, and no word why"


def test_reasons_are_of_use() -> None:
    """Each reason names something that exists, and a file that does."""
    shown = {f"{PACKAGES[p]}.{n}" for p in PACKAGES for n in public(p)}
    shown |= {f"Tensor.{n}" for n in tensor_members()}
    for name, file in ELSEWHERE.items():
        assert name in shown, f"{name} does not exist"
        assert (ROOT / file).is_file(), f"{file} does not exist"
