"""State dicts that PyTorch 2.14 saved load without it; ``torch_contents.py`` wrote them."""

from __future__ import annotations

import io
import pathlib
import pickle
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
from megengine.serialization import load_torch
from megengine.serialization.torch_files import LEGACY_MAGIC

from . import torch_contents

DATA = pathlib.Path(torch_contents.HERE)
ZIP, LEGACY = DATA / "torch.zip.pth", DATA / "torch.legacy.pth"


@pytest.mark.parametrize("path", [ZIP, LEGACY])
def test_tensors_of_every_dtype_and_layout(path: pathlib.Path) -> None:
    wanted = torch_contents.arrays()
    if path == LEGACY:
        del wanted["uint16"]
    for got in (mge.load(path), mge.load(io.BytesIO(path.read_bytes())), load_torch(str(path))):
        assert got["tensors"].keys() == wanted.keys()
        for name, tensor in got["tensors"].items():
            assert type(tensor) is mge.Tensor
            assert str(tensor.device) == "xpux:0"
            assert str(tensor.dtype) == ("bfloat16" if name == "bfloat16" else wanted[name].dtype)
            np.testing.assert_array_equal(tensor.numpy().astype(wanted[name].dtype), wanted[name])
        assert type(got["parameter"]) is mge.Parameter
        assert got["parameter"].numpy().tolist() == [1.0, 2.0]
        assert got["more"] == [(2, 3), np.dtype("float16"), "cpu:0", {"epoch": 3}, "text"]
        assert got["optimizer"]["param_groups"][0]["lr"] == 0.25
        assert got["optimizer"]["state"][0]["step"].item() == 1.0


@pytest.mark.parametrize("path", [ZIP, LEGACY])
def test_a_state_dict_goes_into_a_module(path: pathlib.Path) -> None:
    net = M.Sequential(M.Conv2d(1, 2, 3), M.BatchNorm2d(2))
    state = mge.load(path)["net"]
    count = state.pop("1.num_batches_tracked")
    assert count.dtype == "int64"
    state["0.bias"] = state["0.bias"].reshape(1, 2, 1, 1)
    net.load_state_dict(state)
    np.testing.assert_array_equal(net[0].weight.numpy(), state["0.weight"].numpy())


def test_map_location() -> None:
    def device(place: Any) -> str:
        return str(mge.load(ZIP, map_location=place)["parameter"].device)

    assert device("cpu1") == "cpu1:0"
    assert device({"cpu": "cpu2"}) == "cpu2:0"
    assert device({"cuda:0": "cpu2"}) == "xpux:0"
    assert device(lambda name: {"cpu": "cpu3"}[name]) == "cpu3:0"


def test_a_whole_module_is_refused_by_name() -> None:
    with pytest.raises(
        pickle.UnpicklingError, match=r"names torch\.nn\.modules.*save a state dict"
    ):
        mge.load(DATA / "torch.module.pth")


# ---- zip files that are not what they say --------------------------------------------------------


def contents_of(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(entries: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, data in entries:
            file.writestr(name, data)
    return out.getvalue()


def loaded(data: bytes) -> Any:
    return mge.load(io.BytesIO(data))


def op(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def number(n: int) -> bytes:
    data = n.to_bytes(9, "little", signed=True)
    return b"\x8a\x09" + data


def sizes(*numbers: int) -> bytes:
    return b"(" + b"".join(map(number, numbers)) + b"t"


def storage(kind: str = "FloatStorage", key: str = "0", count: int = 4, **extra: bytes) -> bytes:
    body = op("storage") + b"ctorch\n" + kind.encode() + b"\n" + op(key) + op("cpu") + number(count)
    return b"(" + body + extra.get("view", b"") + b"tQ"


def tensor(
    of: bytes | None = None, first: int = 0, shape: bytes = sizes(4), strides: bytes = sizes(1)
) -> bytes:
    head = b"ctorch._utils\n_rebuild_tensor_v2\n("
    of = storage() if of is None else of
    return head + of + number(first) + shape + strides + b"\x89" + b"NtR"


FOUR = np.arange(4, dtype="float32").tobytes()


def archive(pickled: bytes, data: bytes = FOUR, **more: bytes) -> bytes:
    entries = [("a/data.pkl", b"\x80\x02" + pickled + b"."), ("a/data/0", data)]
    return zipped([*entries, *((f"a/{name}", value) for name, value in more.items())])


def test_the_makers_of_these_files() -> None:
    assert loaded(archive(tensor())).numpy().tolist() == [0, 1, 2, 3]
    assert loaded(archive(tensor(), byteorder=b"little")).shape == (4,)
    got = loaded(archive(tensor(first=1, shape=sizes(2, 2), strides=sizes(0, 2))))
    assert got.numpy().tolist() == [[1, 3], [1, 3]]
    assert loaded(archive(tensor(first=9, shape=sizes(0), strides=sizes(1)))).shape == (0,)
    assert loaded(archive(tensor(storage("DoubleStorage", count=2), 0, sizes(2)))).shape == (2,)
    view = b"(" + op("v") + number(1) + number(3) + b"t"
    got = loaded(archive(tensor(storage(view=view), 1, sizes(2))))
    assert got.numpy().tolist() == [2, 3]


HUGE = sizes(2**40, 2**20)
WRONG_PICKLES = {
    "beyond the end": (tensor(shape=sizes(5)), "beyond the end"),
    "first item beyond the end": (tensor(first=4, shape=sizes(1)), "beyond the end"),
    "strides beyond the end": (tensor(shape=sizes(2), strides=sizes(4)), "beyond the end"),
    "product that wraps around": (
        tensor(shape=sizes(2**32, 2**32), strides=sizes(2**32, 1)),
        "beyond the end",
    ),
    "negative stride": (tensor(first=3, strides=sizes(-1)), "unusual"),
    "negative first": (tensor(first=-1), "unusual"),
    "negative size": (tensor(shape=sizes(-1)), "unusual"),
    "size of 2**64": (tensor(shape=sizes(2**64)), "unusual"),
    "more strides than sizes": (tensor(strides=sizes(1, 1)), "has 2 strides"),
    "a thousand dimensions": (tensor(shape=sizes(*[1] * 1000)), "unusual"),
    "no strides": (tensor(strides=b"N"), "unusual"),
    "one item many times": (tensor(shape=HUGE, strides=sizes(0, 0)), "more memory than it has"),
    "more items than the entry": (tensor(storage(count=5)), "has 16 bytes"),
    "fewer items than the entry": (tensor(storage(count=3)), "has 16 bytes"),
    "missing storage": (tensor(storage(key="1")), "storage '1' is not there"),
    "path for a key": (tensor(storage(key="../../etc/passwd")), "is not there"),
    "absolute path for a key": (tensor(storage(key="/etc/passwd")), "is not there"),
    "two kinds of one storage": (
        b"(" + tensor() + tensor(storage("IntStorage")) + b"t",
        "described in two ways",
    ),
    "storage of another type": (tensor(storage("Tensor")), "names torch.Tensor"),
    "view beyond the end": (
        tensor(storage(view=b"(" + op("v") + number(2) + number(3) + b"t")),
        "beyond its end",
    ),
    "view that is none": (tensor(storage(view=op("v"))), "a view of a storage that is none"),
    "tensor of a tensor": (tensor(tensor()), "unusual"),
    "tensor of a number": (tensor(b"K\x01"), "unusual"),
    "persistent id of text": (op("x") + b"Q", "no storage"),
    "persistent id in text": (b"Px\n", "instruction of pickle"),
    "module of before PyTorch 0.4": (
        b"(" + op("module") + b"ctorch\nFloatStorage\n" + op("x") * 2 + b"NtQ",
        "no storage",
    ),
    "hooks": (
        tensor()[:-3] + b"]K\x01atR",
        "hooks or notes",
    ),
    "parameter of a number": (
        b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR",
        "parameter in an unusual way",
    ),
    "call of a dtype": (b"ctorch\nfloat32\n)R", "calls torch.float32"),
    "call of a storage type": (b"ctorch\nFloatStorage\nK\x09\x85R", "calls FloatStorage"),
    "attribute of an allowed name": (b"ctorch._utils\n_rebuild_tensor_v2.x\n.", "names torch"),
    "eval": (b"cbuiltins\neval\n" + op("1") + b"\x85R", "names builtins.eval"),
    "torch.load": (b"ctorch.serialization\nload\n" + op("1") + b"\x85R", "names torch.seri"),
    "type of a tensor": (b"ctorch._tensor\n_rebuild_from_type_v2\n.", "names torch._tensor"),
}


@pytest.mark.parametrize("case", WRONG_PICKLES)
def test_pickles_that_are_not_what_they_say(case: str) -> None:
    pickled, message = WRONG_PICKLES[case]
    with pytest.raises((pickle.UnpicklingError, EOFError), match=message):
        loaded(archive(pickled))


def test_flags_that_are_neither_true_nor_false() -> None:
    with pytest.raises(pickle.UnpicklingError, match="more than True and False"):
        loaded(archive(tensor(storage("BoolStorage", count=16), 0, sizes(16))))
    with pytest.raises(pickle.UnpicklingError, match="more than True and False"):
        loaded(archive(tensor(storage("BoolStorage", count=16), 0, sizes(2, 8), sizes(1, 2))))


def patched(data: bytes, old: bytes, new: bytes, count: int = -1) -> bytes:
    assert old in data
    return data.replace(old, new, count)


def test_archives_that_are_not_what_they_say() -> None:
    good = archive(tensor())
    pickled = b"\x80\x02" + tensor() + b"."
    bomb = zipped([("a/data.pkl", pickled), ("a/data/0", b"\0" * (64 << 20))], zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    directory = good.index(b"PK\x01\x02")
    place = good.index(b"PK\x01\x02", directory + 4) + 42  # where the second entry is
    overlap = good[:place] + struct.pack("<I", 0) + good[place + 4 :]
    size = good.index(b"PK\x01\x02", directory + 4) + 20
    long = good[:size] + struct.pack("<II", 2**31, 2**31) + good[size + 8 :]
    twice = zipped([("a/data.pkl", pickled), ("a/data/0", FOUR)])
    for data, message in [
        (bomb, "compressed or encrypted"),
        (overlap, "overlaps another"),
        (long, "beyond the end"),
        (patched(twice, b"a/data/0", b"a/data.p"), "0 entries data.pkl|not there"),
        (patched(good, b"a/data/0", b"b/data/0", 1), "under two names"),
        (patched(good, FOUR, FOUR[::-1]), "checksum of its entry 'a/data/0'"),
        (patched(good, pickled, pickled[:-2] + b"0."), "checksum of its entry 'a/data.pkl'"),
        (zipped([("data.pkl", pickled)]), "has 0 entries data.pkl"),
        (zipped([("a/data.pkl", pickled), ("b/data.pkl", pickled)]), "has 2 entries data.pkl"),
        (zipped([("a/b/data.pkl", pickled)]), "has 0 entries data.pkl"),
        (archive(tensor(), byteorder=b"big"), "byte order b'big'"),
        (archive(tensor(), **{"constants.pkl": b"x"}), "TorchScript"),
        (b"PK\x03\x04", "zip directory"),
        (good[:-10], "zip directory"),
        (good[:-22], "zip directory"),
        (b"PK\x03\x04" + b"\0" * 200 + b"PK\x05\x06" + b"\xff" * 18, "zip directory"),
    ]:
        with pytest.raises(pickle.UnpicklingError, match=message):
            loaded(data)
    with pytest.warns(UserWarning, match="Duplicate"):
        double = zipped([("a/data.pkl", pickled), ("a/data/0", FOUR), ("a/data/0", FOUR)])
    with pytest.raises(pickle.UnpicklingError, match="there twice"):
        loaded(double)


def test_legacy_files_that_are_not_what_they_say() -> None:
    data = LEGACY.read_bytes()
    with pytest.raises(pickle.UnpicklingError, match="byte order"):
        loaded(patched(data, b"little_endianq\x02\x88", b"little_endianq\x02\x89"))
    with pytest.raises(pickle.UnpicklingError, match="version"):
        loaded(patched(data, b"M\xe9\x03.", b"M\xe8\x03.", 1))
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        loaded(data[:-1])
    for end in range(0, len(data), 97):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            loaded(data[:end])


def legacy(keys: Any, count: int = 4) -> bytes:
    """A file of the older format, with one tensor and a list of its storages."""
    head = [1001, {"little_endian": True}]
    start = LEGACY_MAGIC + b"".join(pickle.dumps(value, 2) for value in head)
    pickled = b"\x80\x02" + tensor() + b"."
    return start + pickled + pickle.dumps(keys, 2) + struct.pack("<Q", count) + FOUR


def test_lists_of_storages_that_are_not_what_they_say() -> None:
    assert loaded(legacy(["0"])).numpy().tolist() == [0, 1, 2, 3]
    for keys, message in [
        ("0", "no list of storages"),
        ([0], "no list of storages"),
        (["0", int], "no list of storages"),
        (["1"], "storage '1' is there twice, or no tensor has it"),
        (["0", "0"], "there twice"),
        ([], "it lacks storages"),
    ]:
        with pytest.raises(pickle.UnpicklingError, match=message):
            loaded(legacy(keys))
    for count in (3, 5, 2**63, 2**64 - 1):
        with pytest.raises(pickle.UnpicklingError, match="not the 4 items"):
            loaded(legacy(["0"], count))
    with pytest.raises(pickle.UnpicklingError, match="not the 4 items"):
        loaded(legacy(["0"])[:-1])


def test_damaged_archives_end_in_exceptions() -> None:
    data = archive(b"(" + tensor() + tensor(first=1, shape=sizes(3)) + b"t")
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        try:
            loaded(bytes(changed))
        except (pickle.UnpicklingError, EOFError):
            refused += 1
    assert refused > 100


def test_a_large_file_is_mapped(tmp_path: pathlib.Path) -> None:
    """Zero bytes in a hole of the file, whose checksum can be told."""
    count = 1 << 20
    path = tmp_path / "large.pth"
    data = b"\0" * (4 * count)
    path.write_bytes(archive(tensor(storage(count=count), 0, sizes(count)), data))
    got = mge.load(path)
    path.unlink()
    assert not got.numpy().any()
    assert zlib.crc32(got.numpy()) == zlib.crc32(data)
    got[0] = 1.0
    assert got.numpy().sum() == 1.0
