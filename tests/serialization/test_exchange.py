"""The reference's files load here, and ours are written as the reference reads them.

``contents.py`` wrote the files under MegEngine 1.13, Python 3.9 and NumPy 1.23.
"""

from __future__ import annotations

import io
import pathlib
import pickletools
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
import megengine.optimizer as optim

from . import contents

DATA = pathlib.Path(contents.HERE)


def rewritten(value: Any, protocol: int) -> bytes:
    file = io.BytesIO()
    mge.save(value, file, pickle_protocol=protocol)
    return file.getvalue()


def globals_of(data: bytes) -> set[str]:
    """The names that a pickle refers to, where it spells them out (below protocol 4)."""
    return {str(arg) for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_of_the_reference(protocol: int) -> None:
    contents.same(mge.load(DATA / f"plain.{protocol}.pkl"), contents.plain())


@pytest.mark.parametrize("name", ["plain.py38.np118.pkl", "plain.py313.np23.pkl"])
def test_plain_values_of_other_pythons(name: str) -> None:
    """Written by pickle itself: Python 3.8 with NumPy 1.18, and 3.13 with 2.3 in protocol 5."""
    contents.same(mge.load(DATA / name), contents.plain())


@pytest.mark.parametrize("protocol", range(2, 6))
def test_tensors_and_states_of_the_reference(protocol: int) -> None:
    got, want = mge.load(DATA / f"tensors.{protocol}.pkl"), contents.tensors()
    states = got.pop("optimizers")
    assert got["values"]["twice"][0] is got["values"]["float32"]
    own = want.pop("optimizers")
    contents.same(got, want)
    for name, (state, schedule) in states.items():
        net = M.Sequential(M.Conv2d(1, 2, 3), M.BatchNorm2d(2))
        optimizer = getattr(optim, name)(net.parameters(), lr=0.5)
        optimizer.load_state_dict(state)
        loaded = optimizer.state_dict()["state"]
        assert loaded.keys() == state["state"].keys() == own[name][0]["state"].keys()
        for number, entries in state["state"].items():
            for key, value in entries.items():
                np.testing.assert_array_equal(loaded[number][key], value)
                np.testing.assert_allclose(value, own[name][0]["state"][number][key], rtol=1e-4)
        scheduler = optim.MultiStepLR(optimizer, [2, 4])
        scheduler.load_state_dict(schedule)
        assert scheduler.current_epoch == 1


def test_layers_of_the_reference() -> None:
    loaded = mge.load(DATA / "layers.4.pkl")
    assert len(loaded) > 40
    for name, layer, inputs, want in loaded:
        assert type(layer) is getattr(M, name)
        if want is not None:
            got = contents.outputs(layer, inputs)
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=name)
        repr(layer)


@pytest.mark.parametrize("protocol", range(6))
def test_round_trip_of_everything(protocol: int) -> None:
    for make in (contents.plain, contents.tensors):
        want = make()
        contents.same(mge.load(io.BytesIO(rewritten(want, protocol))), want)
    for name, layer, inputs, want in mge.load(io.BytesIO(rewritten(contents.layers(), protocol))):
        assert type(layer).__name__ == name
        if want is not None:
            np.testing.assert_array_equal(contents.outputs(layer, inputs), want)


def test_our_files_name_what_those_of_the_reference_name() -> None:
    """The reference read files of all protocols that contents.py wrote here.

    It goes on doing so while they name nothing else, and its layers find their attributes.
    """
    known = globals_of(rewritten(mge.load(DATA / "plain.2.pkl"), 2))
    assert known == globals_of((DATA / "plain.2.pkl").read_bytes())
    for protocol in (2, 3):
        theirs = globals_of((DATA / f"tensors.{protocol}.pkl").read_bytes())
        assert globals_of(rewritten(contents.tensors(), protocol)) <= theirs | {
            "megengine.core._imperative_rt pybfloat16"
        }
    for (_, theirs, *_), (_, ours, *_) in zip(
        mge.load(DATA / "layers.4.pkl"),
        mge.load(io.BytesIO(rewritten(contents.layers(), 4))),
        strict=True,
    ):
        assert vars(theirs).keys() <= vars(ours).keys(), type(ours)


def test_flags_of_types_as_numpy_1_reads_them() -> None:
    """NumPy 2 writes 144 where NumPy 1, which reads a byte with a sign, has -112."""
    data = rewritten(np.dtype([("a", "u1"), ("b", "f8")], align=True), 2)
    numbers = [arg for op, arg, _ in pickletools.genops(data) if "INT" in op.name]
    assert max(numbers) < 128
    assert min(numbers) < -100


def test_a_module_of_a_program_is_refused_by_name() -> None:
    class Net(M.Module):
        def forward(self, x: mge.Tensor) -> mge.Tensor:
            return x

    Net.__qualname__ = "Net"
    globals()["Net"] = Net
    with pytest.raises(Exception, match=r"names tests\.serialization\.test_exchange\.Net.*state d"):
        mge.load(io.BytesIO(rewritten(Net(), 4)))
