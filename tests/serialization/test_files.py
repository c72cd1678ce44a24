"""What is saved is loaded, here and from the reference; a save that is killed loses nothing."""

from __future__ import annotations

import collections
import errno
import io
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

import megengine as mge
from megengine.serialization import load, save

REFERENCE = pathlib.Path(__file__).with_name("reference.pkl")


def round_trip(obj, **kwargs):
    file = io.BytesIO()
    save(obj, file, **kwargs)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_round_trip(protocol: int) -> None:
    data = {
        "epoch": 3,
        "big": 2**100,
        "loss": 0.5,
        "text": "αβγ",
        "bytes": b"\x00\xff",
        "none": None,
        "flags": (True, False),
        "list": [1, [2, {"x": {3, 4}}]],
        "frozen": frozenset([1]),
        "complex": 1 + 2j,
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "big endian": np.arange(3, dtype=">i4"),
        "scalar": np.float32(2.5),
        "bool": np.bool_(True),
        "names": np.array(["a", "bc"]),
        "empty": np.zeros((0, 3), "float32"),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    }
    got = round_trip(data, pickle_protocol=protocol)
    assert list(got) == list(data)
    for key, want in data.items():
        assert type(got[key]) is type(want), key
        if isinstance(want, np.ndarray):
            assert got[key].dtype == want.dtype
            assert got[key].flags.writeable
            np.testing.assert_array_equal(got[key], want)
        else:
            assert got[key] == want


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float16",
        "bfloat16",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "bool",
    ],
)
def test_tensors(dtype: str) -> None:
    for shape in [(), (2, 3), (0, 2)]:
        tensor = mge.Tensor(np.ones(shape), dtype=dtype)
        got = round_trip({"t": tensor, "p": mge.Parameter(tensor)})
        assert type(got["t"]) is mge.Tensor
        assert type(got["p"]) is mge.Parameter
        for value in got.values():
            assert value.dtype == tensor.dtype
            assert value.shape == shape
            np.testing.assert_array_equal(value.numpy(), tensor.numpy())
        assert pickle.loads(pickle.dumps(tensor)).shape == shape


def test_shared_objects_stay_shared() -> None:
    tensor, array = mge.Tensor([1.0]), np.ones(3)
    got = round_trip([tensor, tensor, array, array])
    assert got[0] is got[1]
    assert got[2] is got[3]


def test_a_checkpoint_of_the_reference() -> None:
    """Recorded with MegEngine 1.13 and NumPy 1.23 (module path numpy.core)."""
    got = load(REFERENCE)
    assert got["epoch"] == 3
    assert got["note"] == "trained by the reference"
    assert got["net"]["conv.weight"].shape == (2, 1, 3, 3)
    np.testing.assert_array_equal(
        got["net"]["bn.weight"], np.array([-1.35, -0.35], dtype="float32")
    )
    assert got["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999)
    assert got["optimizer"]["state"][0]["step"] == 1.0
    assert type(got["param"]) is mge.Parameter
    np.testing.assert_array_equal(got["tensor"].numpy(), [[1.0, 2.0]])
    for name, dtype in [("half", "float16"), ("int", "int8"), ("flag", "bool")]:
        assert got[name].dtype == dtype
    assert str(got["bf16"].dtype) == "bfloat16"
    assert got["bf16"].item() == 1.5
    np.testing.assert_array_equal(got["fortran"], np.arange(6).reshape(2, 3))
    assert got["scalar"] == np.float32(2.5)


def test_what_the_reference_reads() -> None:
    """Names in our files are those of NumPy 1 and of the reference."""
    file = io.BytesIO()
    save({"a": np.ones(2), "t": mge.Tensor([1.0], dtype="bfloat16"), "s": np.float64(1)}, file)
    assert b"numpy._core" not in file.getvalue()
    assert b"ml_dtypes" not in file.getvalue()
    assert b"numpy.core.multiarray\n_reconstruct" in file.getvalue()


def test_map_location() -> None:
    file = io.BytesIO()
    save(mge.Tensor([1.0], device="xpux"), file)

    def device(**kwargs) -> str:
        file.seek(0)
        return str(load(file, **kwargs).device)

    assert device() == "xpux:0"
    assert device(map_location="cpu0") == "cpu0:0"
    assert device(map_location={"xpux": "cpu0"}) == "cpu0:0"
    assert device(map_location={"xpux:0": "cpu0"}) == "cpu0:0"
    assert device(map_location={"gpu0": "cpu0"}) == "xpux:0"
    assert device(map_location=lambda name: "cpux") == "cpux:0"
    assert device(map_location="cpu0", pickle_module=pickle) == "cpu0:0"
    with pytest.raises(TypeError, match="map_location"):
        device(map_location=3)


def test_paths_and_files(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "a.pkl", str(tmp_path / "b.pkl")):
        assert save({"x": 1}, path) is None
        assert load(path) == {"x": 1}
    with open(tmp_path / "c.pkl", "wb") as file:
        save(1, file)
        save(2, file)
    with open(tmp_path / "c.pkl", "rb") as file:
        assert [load(file), load(file)] == [1, 2]
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.pkl")
    with pytest.raises(FileNotFoundError):
        save({}, tmp_path / "missing" / "a.pkl")
    with pytest.raises(TypeError, match="write"):
        save({}, 3)
    with pytest.raises(TypeError, match="load"):
        load(3)
    assert sorted(os.listdir(tmp_path)) == ["a.pkl", "b.pkl", "c.pkl"]


def test_links_and_modes_are_kept(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "real.pkl", tmp_path / "link.pkl"
    save(1, target)
    target.chmod(0o600)
    link.symlink_to(target)
    save(2, link)
    assert link.is_symlink()
    assert load(target) == 2
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_save_that_fails_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    class Unpicklable:
        def __reduce__(self):
            raise ValueError("no")

    path = tmp_path / "a.pkl"
    save("old", path)
    with pytest.raises(ValueError, match="no"):
        save([np.zeros(100_000), Unpicklable()], path)
    assert load(path) == "old"
    assert os.listdir(tmp_path) == ["a.pkl"]


def test_leftovers_of_dead_processes_are_removed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pkl"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    old = tmp_path / f".a.pkl.{dead.pid}.tmp"
    new = tmp_path / f".a.pkl.{dead.pid + 10**7}.tmp"
    for leftover in (old, new):
        leftover.write_bytes(b"part")
    os.utime(old, (time.time() - 3600,) * 2)
    save(1, path)
    assert not old.exists()
    assert new.exists()  # too young to tell


def test_saves_that_are_killed_leave_whole_files() -> None:
    """A short run of tools/kill_saves.py."""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "tools/kill_saves.py", "--kills", "15"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "15 kills: every file was whole, and as new as was said" in done.stdout


FULL_DISK = """
import resource, sys
import numpy as np
from megengine.serialization import load, save
path = sys.argv[1]
save("old", path)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(np.zeros(1_000_000), path)
except OSError as error:
    print(error.errno, load(path))
"""


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "checkpoint.pkl"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(errno.EFBIG), "old"]
    assert os.listdir(tmp_path) == ["checkpoint.pkl"]


# ---- what else can go wrong ----------------------------------------------------------------------


def test_owner_and_permissions_are_those_of_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pkl"
    save(1, path)
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    save(2, path)
    after = path.stat()
    assert load(path) == 2
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_file_is_never_open_to_more_than_the_old_one_was(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pkl"
    seen: list[int] = []

    class Watch:
        def __reduce__(self):
            seen.extend(p.stat().st_mode & 0o077 for p in tmp_path.iterdir())
            return str, ()

    save(1, path)
    path.chmod(0o600)
    save(Watch(), path)
    assert seen == [0, 0]


def test_a_file_that_is_new_follows_the_umask(tmp_path: pathlib.Path) -> None:
    old = os.umask(0o027)
    try:
        save(1, tmp_path / "a.pkl")
    finally:
        os.umask(old)
    assert (tmp_path / "a.pkl").stat().st_mode & 0o777 == 0o640


def test_threads_that_save_to_one_name(tmp_path: pathlib.Path) -> None:
    path, errors = tmp_path / "a.pkl", []

    def work(n: int) -> None:
        try:
            for _ in range(10):
                save({"n": n, "array": np.full(20_000, n)}, path)
                got = load(path)
                np.testing.assert_array_equal(got["array"], got["n"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["a.pkl"]


def test_the_longest_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / ("x" * 255)
    save(1, path)
    save(2, path)
    assert load(path) == 2


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a.pkl"
    save("old", path)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output error"):
        save("new", path)
    assert load(path) == "old"
    assert os.listdir(tmp_path) == ["a.pkl"]


def test_a_device_that_is_full() -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        save(np.zeros(100_000), "/dev/full")
    assert raised.value.errno == errno.ENOSPC


READ_ONLY = """
import os, sys
from megengine.serialization import load, save
path = sys.argv[1]
save("old", path)
os.chmod(os.path.dirname(path), 0o555)
if os.getuid() == 0:
    os.chown(path, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
try:
    save("new", path)
except PermissionError:
    print("refused", load(path))
"""


def test_a_directory_that_may_only_be_read(tmp_path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # which every user may enter
        os.chmod(name, 0o755)
        folder = pathlib.Path(name) / "x"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / "a.pkl")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["refused", "old"]
        assert os.listdir(folder) == ["a.pkl"]
        folder.chmod(0o755)
