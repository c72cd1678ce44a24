"""Archives: what is unpacked, and everything that is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pathlib
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from megengine.utils.archive import ArchiveError, extract

FILES = {"a.txt": b"alpha", "folder/b.bin": bytes(range(256)) * 40, "folder/deep/c": b""}


def tar_of(path: pathlib.Path, files: dict[str, bytes], mode: str = "w") -> pathlib.Path:
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def zip_of(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def tar_with(path: pathlib.Path, *members: Any) -> pathlib.Path:
    """A tar file of ready members: (name, type, link name) or whole TarInfo objects."""
    with tarfile.open(path, "w") as tar:
        for member in members:
            if not isinstance(member, tarfile.TarInfo):
                name, kind, link = member
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, link
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def tree(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(archive: pathlib.Path, match: str, **limits: Any) -> None:
    """The archive is refused, and nothing is written, inside the folder or beside it."""
    outside = sorted(archive.parent.iterdir())
    target = archive.parent / "out"
    with pytest.raises(ArchiveError, match=match) as caught:
        extract(archive, target, **limits)
    assert str(archive) in str(caught.value)
    assert not target.exists()
    assert sorted(archive.parent.iterdir()) == outside


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar(tmp_path: pathlib.Path, mode: str):
    extract(tar_of(tmp_path / "archive", FILES, mode), tmp_path / "out")
    assert tree(tmp_path / "out") == FILES


def test_zip(tmp_path: pathlib.Path):
    extract(str(zip_of(tmp_path / "archive", FILES)), str(tmp_path / "out"))
    assert tree(tmp_path / "out") == FILES
    zip_of(tmp_path / "empty", {})
    extract(tmp_path / "empty", tmp_path / "nothing")
    assert tree(tmp_path / "nothing") == {}


def test_folders_and_plain_names(tmp_path: pathlib.Path):
    archive = tar_with(
        tmp_path / "a.tar",
        ("./", tarfile.DIRTYPE, ""),
        ("./x/", tarfile.DIRTYPE, ""),
        ("x", tarfile.DIRTYPE, ""),
        ("x//y", tarfile.REGTYPE, ""),
        ("empty", tarfile.DIRTYPE, ""),
    )
    extract(archive, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").rglob("*")) == ["empty", "x", "y"]
    # What the file says about owners and rights is not taken over.
    assert not os.stat(tmp_path / "out/x/y").st_mode & stat.S_ISUID


def test_joins_what_is_there(tmp_path: pathlib.Path):
    target = tmp_path / "out"
    (target / "folder").mkdir(parents=True)
    (target / "folder/mine").write_text("kept")
    (target / "a.txt").write_text("old")
    extract(tar_of(tmp_path / "a.tar", FILES), target)
    assert tree(target) == {**FILES, "folder/mine": b"kept"}
    assert sorted(p.name for p in target.iterdir()) == ["a.txt", "folder"]


def test_links_that_are_there_are_not_followed(tmp_path: pathlib.Path):
    outside, target = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    target.mkdir()
    (target / "folder").symlink_to(outside)
    with pytest.raises(ArchiveError, match=r"'folder/b.bin': .*folder is there and of another"):
        extract(tar_of(tmp_path / "a.tar", FILES), target)
    assert list(outside.iterdir()) == []
    assert [p.name for p in target.iterdir()] == ["folder"]
    (target / "folder").unlink()
    (tmp_path / "victim").write_text("safe")
    (target / "a.txt").symlink_to(tmp_path / "victim")
    with pytest.raises(ArchiveError, match="another kind"):
        extract(tar_of(tmp_path / "a.tar", FILES), target)
    assert (tmp_path / "victim").read_text() == "safe"


OUTSIDE = ["../x", "a/../../x", "a/b/../../../x", "..", "a/.."]
ABSOLUTE = ["/etc/x", "//x", "C:/x", "c:x"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_names_that_lead_out(tmp_path: pathlib.Path, make: Callable[..., Any], name: str):
    refused(make(tmp_path / "a", {"first": b"1", name: b"2"}), "leads out of the folder")


@pytest.mark.parametrize("name", ABSOLUTE)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_absolute_names(tmp_path: pathlib.Path, make: Callable[..., Any], name: str):
    refused(make(tmp_path / "a", {"first": b"1", name: b"2"}), "absolute name")


@pytest.mark.parametrize("name", ["a\\..\\..\\x", "..\\x", "\\x"])
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_backslashes(tmp_path: pathlib.Path, make: Callable[..., Any], name: str):
    refused(make(tmp_path / "a", {name: b""}), "backslash")


def test_a_nul_in_a_name(tmp_path: pathlib.Path):
    archive = zip_of(tmp_path / "a", {"good.pngQ.py": b""})
    archive.write_bytes(archive.read_bytes().replace(b"good.pngQ", b"good.png\0"))
    refused(archive, "NUL")


@pytest.mark.parametrize("name", ["n" * 300, "d/" * 600 + "x"])
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_long_names(tmp_path: pathlib.Path, make: Callable[..., Any], name: str):
    refused(make(tmp_path / "a", {name: b""}), "too long")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "a"),
        ("a", "A"),
        ("a", "./a"),
        ("straße", "STRASSE"),
        ("\u00e9", "e\u0301"),  # one letter, with its accent apart
        ("a", "a/b"),
        ("a/b", "a"),
        ("A/b", "a/c"),
    ],
)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_two_members_of_one_name(
    tmp_path: pathlib.Path, make: Callable[..., Any], first: str, second: str
):
    path = tmp_path / "a"
    if make is tar_of or first != second:
        make(path, {first: b"1", second: b"2"})
    if first == second:
        if make is tar_of:
            tar_with(path, (first, tarfile.REGTYPE, ""), (second, tarfile.REGTYPE, ""))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(first, b"1")
                with pytest.warns(UserWarning, match="Duplicate"):
                    archive.writestr(second, b"2")
    refused(path, "would be one file")


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("link", tarfile.SYMTYPE, "../../outside"),
        ("link", tarfile.SYMTYPE, "first"),
        ("link", tarfile.LNKTYPE, "/etc/passwd"),
        ("link", tarfile.LNKTYPE, "../outside"),
        ("link", tarfile.LNKTYPE, "first"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("disk", tarfile.BLKTYPE, ""),
        ("terminal", tarfile.CHRTYPE, ""),
        ("odd", b"\x7f", ""),
    ],
)
def test_links_and_devices(tmp_path: pathlib.Path, name: str, kind: bytes, link: str):
    archive = tar_with(tmp_path / "a.tar", ("first", tarfile.REGTYPE, ""), (name, kind, link))
    refused(archive, f"member '{name}' is ")


def test_writing_through_a_link(tmp_path: pathlib.Path):
    members = (("x", tarfile.SYMTYPE, str(tmp_path)), ("x/owned", tarfile.REGTYPE, ""))
    refused(tar_with(tmp_path / "a.tar", *members), "member 'x' is ")


def test_sparse_files(tmp_path: pathlib.Path):
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(1 << 40),
        "GNU.sparse.map": "0,0",
    }
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
    refused(tmp_path / "a.tar", "no plain file|more than")


def zip_with_kind(path: pathlib.Path, kind: int) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("odd")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, "../../outside")
    return path


def test_links_and_devices_in_zip(tmp_path: pathlib.Path):
    refused(zip_with_kind(tmp_path / "link", stat.S_IFLNK), "is a link")
    refused(zip_with_kind(tmp_path / "fifo", stat.S_IFIFO), "no plain file")
    refused(zip_with_kind(tmp_path / "disk", stat.S_IFBLK), "no plain file")
    extract(tmp_path / "link", tmp_path / "text", links_as_text=True)
    assert not (tmp_path / "text/odd").is_symlink()
    assert (tmp_path / "text/odd").read_text() == "../../outside"


def test_encrypted(tmp_path: pathlib.Path):
    archive = zip_of(tmp_path / "a.zip", {"secret": b"x"})
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    refused(archive, "encrypted")


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_limits(tmp_path: pathlib.Path, make: Callable[..., Any]):
    archive = make(tmp_path / "a", {f"f{i}": bytes(100) for i in range(10)})
    refused(archive, "more than 9 files", max_files=9)
    refused(archive, "more than 999 bytes", max_bytes=999)
    extract(archive, tmp_path / "whole", max_files=10, max_bytes=1000)
    assert len(tree(tmp_path / "whole")) == 10


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_bombs(tmp_path: pathlib.Path, mode: str):
    archive = tar_of(tmp_path / "a", {"zeros": bytes(20_000_000)}, mode)
    assert archive.stat().st_size < 200_000
    refused(archive, "more than 1000000 bytes", max_bytes=1_000_000)


def test_zip_bombs(tmp_path: pathlib.Path):
    archive = zip_of(tmp_path / "a", {"zeros": bytes(20_000_000)})
    refused(archive, "more than 1000000 bytes", max_bytes=1_000_000)
    # One that says it is small: nothing beyond what it says is written.
    data = bytearray(archive.read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = data.index(mark) + at
        data[place : place + 4] = struct.pack("<I", 10)
    archive.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        extract(archive, tmp_path / "out", max_bytes=1_000_000)
    assert tree(tmp_path / "out") == {}


def test_members_before_the_beginning(tmp_path: pathlib.Path):
    archive = zip_of(tmp_path / "a", {"f": b"x"})
    data = bytearray(archive.read_bytes())
    place = data.rindex(b"PK\x05\x06") + 16  # where the list of members begins
    (start,) = struct.unpack_from("<I", data, place)
    struct.pack_into("<I", data, place, start + 100)
    archive.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        extract(archive, tmp_path / "out")


def test_headers_without_end(tmp_path: pathlib.Path):
    # A long name of 1 GB, which tarfile would read into memory; and zeros without end behind it.
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(1 << 20))
    refused(tmp_path / "a.tar.gz", "header of 1073741824 bytes")


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_cut_short(tmp_path: pathlib.Path, make: Callable[..., Any]):
    whole = make(tmp_path / "a", FILES).read_bytes()
    # Behind the first mark of the end a tar file holds only what fills it up.
    end = len(whole) if make is zip_of else whole.rindex(b"folder/deep/c") + 1024
    for size in [0, 1, 100, 511, 512, 513, 1024, 2000, end // 2, end - 512, end - 1]:
        if size < end:
            (tmp_path / "cut").write_bytes(whole[:size])
            refused(tmp_path / "cut", "the archive is damaged")


def test_altered_bytes_end_in_one_kind_of_error(tmp_path: pathlib.Path):
    draw = random.Random(7)
    sources = {
        "tar": tar_of(tmp_path / "1", FILES).read_bytes()[:13000],
        "gz": tar_of(tmp_path / "2", FILES, "w:gz").read_bytes(),
        "bz2": tar_of(tmp_path / "3", FILES, "w:bz2").read_bytes(),
        "xz": tar_of(tmp_path / "4", FILES, "w:xz").read_bytes(),
        "zip": zip_of(tmp_path / "5", FILES).read_bytes(),
    }
    errors = 0
    for name, whole in sources.items():
        for trial in range(60):
            data = bytearray(whole)
            for _ in range(draw.randint(1, 4)):
                data[draw.randrange(min(len(data), 2000))] = draw.randrange(256)
            archive = tmp_path / "altered"
            archive.write_bytes(data)
            target = tmp_path / f"out-{name}-{trial}"
            try:
                extract(archive, target, max_bytes=1 << 20)
            except ArchiveError:
                errors += 1
                assert tree(target) == {} if target.exists() else True
    assert errors > 150


def test_other_files(tmp_path: pathlib.Path):
    (tmp_path / "text").write_text("no archive at all" * 100)
    refused(tmp_path / "text", "damaged")
    for name, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(b"no archive" * 100))
        refused(tmp_path / name, "damaged")
    with pytest.raises(FileNotFoundError):
        extract(tmp_path / "missing", tmp_path / "out")


def test_a_full_disk_is_no_damaged_archive(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("megengine.utils.archive._write", full)
    with pytest.raises(OSError, match="No space left"):
        extract(tar_of(tmp_path / "a.tar", FILES), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
