"""Every function of the array API standard against array-api-strict, on random input.

Each function is called with as many examples as ``ARRAY_API_EXAMPLES`` says, the same ones each
time. The cases are in ``standard_cases.py``.
"""

from __future__ import annotations

import inspect
import operator
import os
import warnings
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import megengine.array_api as xp

from . import standard_cases  # registers them
from .standard import ALL, CASES, Draw, Named, call, compare, into

EXAMPLES = int(os.environ.get("ARRAY_API_EXAMPLES", "10"))
strict.set_array_api_strict_flags(api_version=xp.__array_api_version__)


def functions_of(module: Any) -> dict[str, Any]:
    """The functions that belong to a namespace of array-api-strict, by name."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or not inspect.isfunction(value) or name.endswith("_flags"):
            continue
        inner = value.__module__.rsplit(".", 1)[-1]
        shared = module is strict.linalg and name in ("matmul", "matrix_transpose", "tensordot",
                                                      "vecdot")  # fmt: skip
        extension = {strict.linalg: "_linalg", strict.fft: "_fft"}.get(module)
        if extension is None or shared or inner == extension:
            found[name] = value
    return found


FUNCTIONS = {
    **functions_of(strict),
    **{f"linalg.{n}": f for n, f in functions_of(strict.linalg).items()},
    **{f"fft.{n}": f for n, f in functions_of(strict.fft).items()},
}


def ours(name: str) -> Any:
    value: Any = xp
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_each_function_has_a_case():
    assert set(CASES) == set(FUNCTIONS)
    assert len(FUNCTIONS) > 170


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_signature(name):
    def parameters(function: Any) -> list[tuple[str, Any, bool]]:
        given = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default is not p.empty) for p in given]

    assert parameters(ours(name)) == parameters(FUNCTIONS[name])
    defaults = {p.name: p.default for p in inspect.signature(FUNCTIONS[name]).parameters.values()}
    for p in inspect.signature(ours(name)).parameters.values():
        wanted = defaults[p.name]
        if p.default is not p.empty and type(wanted).__name__ != "Undef":  # as good as None
            assert p.default == wanted


def outcome(namespace: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a call gives, or the error that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(namespace, name, args, kwargs)
        except (TypeError, ValueError, IndexError) as error:
            return error


@pytest.mark.parametrize("name", sorted(CASES))
def test_values(name):
    case = CASES[name]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.composite(lambda draw: case.draw(Draw(draw)))())
    def run(drawn: Any) -> None:
        args, kwargs = drawn
        got = outcome(xp, name, args, kwargs)
        if case.check is not None:
            assert not isinstance(got, Exception), got
            case.check(args, kwargs, got)
            return
        if case.want is not None:
            want = case.want(*args, **kwargs)
        else:
            want = outcome(strict, name, args, kwargs)
        if isinstance(want, Exception):
            assert isinstance(got, Exception), f"{want!r} is not raised, but {got!r} comes"
            return
        assert not isinstance(got, Exception), got
        dtype = None
        if case.dtype == "narrow" and not any(isinstance(v, Named) for v in kwargs.values()):
            dtype = "narrow"
        if case.dtype == "sum" and "dtype" not in kwargs:
            own = args[0].dtype
            wide = {"i": "int32", "u": "uint32"}.get(own.kind)
            dtype = wide if wide and own.itemsize < 4 else own.name
        compare(case, got, want, dtype)

    run()


ELEMENTWISE = {**standard_cases.ONE, **standard_cases.TWO}


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_dtypes_that_the_standard_does_not_take(name):
    count = 1 if name in standard_cases.ONE else 2
    for dtype in ALL:
        args = [np.ones(2, dtype)] * count
        want = outcome(strict, name, args, {})
        got = outcome(xp, name, args, {})
        assert isinstance(got, TypeError) == isinstance(want, TypeError), dtype
    if count == 2:
        for other in ("float32", "complex64", "bool", "int8", "uint64"):
            args = [np.ones(2, "int32"), np.ones(2, other)]
            refused = isinstance(outcome(strict, name, args, {}), TypeError)
            assert isinstance(outcome(xp, name, args, {}), TypeError) == refused, other
        for number in (True, 1, 1.5, 1j):
            for dtype in ("bool", "uint8", "float32", "complex64"):
                args = [np.ones(2, dtype), number]
                refused = isinstance(outcome(strict, name, args, {}), TypeError)
                # array-api-strict compares a complex number with floats.
                refused |= number == 1j and "complex64" not in ELEMENTWISE[name]
                got = outcome(xp, name, args, {})
                assert isinstance(got, TypeError) == refused, (dtype, number)


def test_constants_and_dtypes():
    for name in ("e", "inf", "pi"):
        assert getattr(xp, name) == getattr(strict, name)
    assert np.isnan(xp.nan)
    assert xp.newaxis is None
    for name in ALL:
        assert getattr(xp, name) == name
    assert xp.__array_api_version__ == strict.__array_api_version__
    for name in [*dir(xp.linalg), *dir(xp.fft), *dir(xp)]:
        assert not name.endswith("_flags")


def test_namespace_info():
    info, wanted = xp.__array_namespace_info__(), strict.__array_namespace_info__()
    for name in ("capabilities", "default_device", "default_dtypes", "devices", "dtypes"):
        own, theirs = (
            [(p.name, p.kind) for p in inspect.signature(getattr(i, name)).parameters.values()]
            for i in (info, wanted)
        )
        assert own == theirs
    assert set(info.capabilities()) == set(wanted.capabilities())
    assert set(info.default_dtypes()) == set(wanted.default_dtypes())
    device = info.default_device()
    assert device in info.devices()
    kinds = [None, *standard_cases.KINDS, ("bool", "complex floating")]
    for kind in kinds:
        names = info.dtypes(device=device, kind=kind)
        assert set(names) == set(wanted.dtypes(kind=kind))
        assert all(names[n] == getattr(xp, n) for n in names)
    with pytest.raises(ValueError, match="expected one of"):
        info.dtypes(kind="numbers")


def documented_difference(name: str, a: str, b: str) -> str | None:
    """What an operator between Tensors gives where docs/array_api.md says that it differs."""
    kinds = {np.dtype(a).kind, np.dtype(b).kind}
    narrow = [d for d in (a, b) if d in ("uint8", "uint16")]
    if kinds == {"i", "u"} and narrow:
        return "TypeError"
    if name in ("and_", "or_", "xor") and "b" not in kinds:
        return "TypeError"
    if name == "pow":
        return {"c": "TypeError", "f": None}.get("c" if "c" in kinds else min(kinds), "float32")
    if name == "matmul" and kinds <= {"i", "u"}:
        small = all(np.dtype(d).itemsize < 4 for d in (a, b))
        return "int32" if small else None
    return None


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_",
             "xor", "lshift", "rshift", "lt", "le", "eq", "ne", "gt", "ge"]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_differ_where_the_documentation_says_so(name):
    function = getattr(operator, name)

    def result(namespace: Any, a: str, b: str) -> str:
        x, y = (into(namespace, np.ones(2, d)) for d in (a, b))
        try:
            return str(function(x, y).dtype).removeprefix("array_api_strict.")
        except TypeError:
            return "TypeError"

    for a in ALL:
        for b in ALL:
            want = result(strict, a, b)
            if want != "TypeError":  # where the standard has no rule Tensors may have one
                assert result(xp, a, b) == (documented_difference(name, a, b) or want), (a, b)


def test_the_array_object_has_all_of_the_standard():
    array, tensor = strict.asarray([1.0]), xp.asarray([1.0])
    own = {
        "__annotations__",
        "__array__",
        "__buffer__",
        "__init__",
        "__new__",
    }  # of array-api-strict
    for name in dir(type(array)):
        if not name.startswith("_") or (name.startswith("__") and name not in own):
            assert hasattr(type(tensor), name), name
