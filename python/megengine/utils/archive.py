"""Unpacking archives that may have been made to do harm.

Only files and folders are unpacked. Everything that an archive could use to reach outside its
folder, or to fill the disk, is refused by name before anything is written.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

__all__ = ["MAX_BYTES", "MAX_FILES", "ArchiveError", "extract"]

MAX_BYTES = 16 << 30
MAX_FILES = 1 << 20

_MAX_NAME = 255  # bytes in a part of a path, as file systems have it
_MAX_PATH = 1024
_CHUNK = 1 << 18
_MAX_HEADER = 1 << 20  # bytes of the long names and attributes that go before a member of a tar


class ArchiveError(ValueError):
    """An archive that is damaged, or that holds what must not be unpacked."""


@dataclass(frozen=True)
class _Member:
    """A file or folder of an archive, whichever kind the archive is."""

    name: str
    is_dir: bool
    size: int
    open: Callable[[], IO[bytes]]


def extract(
    archive: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
    links_as_text: bool = False,
) -> None:
    """Unpacks a tar file (plain, or compressed by gzip, bzip2 or xz) or a zip file.

    All names and sizes are checked first. The contents are written into a folder aside and take
    their places when all of them are there, so an archive that is refused, or breaks off, leaves
    ``directory`` as it was. Files that are there already are replaced.

    Args:
        archive: the file. What kind it is is read from its first bytes.
        directory: where to unpack; it is made if it is not there.
        max_bytes: the most bytes that may come out.
        max_files: the most files and folders that may come out.
        links_as_text: makes of a symbolic link in a zip file a file that holds the name to which it
            leads, as Git does on systems without links. Links are refused otherwise.

    Raises:
        ArchiveError: the archive is damaged or of another kind; a member has an absolute name or
            one with ``..``, is a link or a device, has the name of another member (also by upper
            and lower case), or has a name that is too long; more comes out than allowed.

    >>> import io, tarfile, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with tarfile.open(f"{folder.name}/a.tar", "w") as tar:
    ...     tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    >>> extract(f"{folder.name}/a.tar", f"{folder.name}/b")
    Traceback (most recent call last):
    ...
    megengine.utils.archive.ArchiveError: extract: ...a.tar: member '../outside' leads out of the \
folder
    >>> folder.cleanup()
    """
    path = os.fspath(archive)
    try:
        with _open(path, max_bytes, links_as_text) as members:
            checked = list(_checked(members, max_bytes, max_files))
            _unpack(checked, os.fspath(directory))
    except ArchiveError as error:
        raise ArchiveError(f"extract: {path}: {error}") from error.__cause__
    except _DAMAGED as error:
        raise ArchiveError(f"extract: {path}: the archive is damaged: {error}") from error
    except OSError as error:
        # bz2 gives no number, a position before the file's start this one. Others are of the disk.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise ArchiveError(f"extract: {path}: the archive is damaged: {error}") from error


# ---- reading ------------------------------------------------------------------------------------


# What the standard library's readers raise for bytes that make no sense to them.
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)

_COMPRESSIONS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


@contextlib.contextmanager
def _open(path: str, max_bytes: int, links_as_text: bool) -> Iterator[Iterator[_Member]]:
    """The members of an archive, which can be read inside the block."""
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(open(path, "rb"))
        start = file.read(6)
        file.seek(0)
        if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            yield _zip_members(stack.enter_context(zipfile.ZipFile(file)), links_as_text)
            return
        for magic, reader in _COMPRESSIONS.items():
            if start.startswith(magic):
                file = stack.enter_context(reader(file))
                break
        limited: Any = _Limited(file, max_bytes)
        yield _tar_members(stack.enter_context(tarfile.open(fileobj=limited, mode="r:")))


class _Limited(io.RawIOBase):
    """A tar file that says no to what would take memory or time without end.

    tarfile reads long names and attributes whole, however large they say they are, and a small
    compressed file may be endless.
    """

    def __init__(self, file: Any, max_bytes: int) -> None:
        self._file = file
        # Beside the contents there are headers and what fills up the last block of each.
        self._end = 2 * max_bytes + 64 * 1024 * 1024

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise ArchiveError(f"a header of {size} bytes")
        data: bytes = self._file.read(size)
        self._check(self._file.tell())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def _check(self, position: int) -> None:
        if position > self._end:
            raise ArchiveError("it is larger than allowed")


def _tar_members(archive: tarfile.TarFile) -> Iterator[_Member]:
    end = 0
    for info in archive:
        # The standard library's own rules, where it has them (Python 3.11.4).
        if hasattr(tarfile, "data_filter"):
            try:
                tarfile.data_filter(info, "/nowhere")
            except tarfile.OutsideDestinationError as error:
                raise ArchiveError(f"member {info.name!r} leads out of the folder") from error
            except tarfile.FilterError as error:
                raise ArchiveError(f"member {info.name!r} is refused: {error}") from error
        if info.issym() or info.islnk():
            raise ArchiveError(f"member {info.name!r} is a link")
        if not info.isdir() and (not info.isreg() or info.sparse is not None):
            raise ArchiveError(f"member {info.name!r} is no plain file or folder")
        yield _Member(info.name, info.isdir(), info.size, lambda i=info: _content(archive, i))  # type: ignore[misc]
        end = info.offset_data + (-(-info.size // 512) * 512 if info.isreg() else 0)
    # tarfile takes a file that ends between two members for whole.
    file: Any = archive.fileobj
    file.seek(end)
    if file.read(512) != bytes(512):
        raise ArchiveError("the archive is damaged: it ends without a mark of its end")


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(info)
    assert content is not None, "a plain file has contents"
    return content


def _zip_members(archive: zipfile.ZipFile, links_as_text: bool) -> Iterator[_Member]:
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.flag_bits & 1:
            raise ArchiveError(f"member {info.filename!r} is encrypted")
        if kind == stat.S_IFLNK and not links_as_text:
            raise ArchiveError(f"member {info.filename!r} is a link")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise ArchiveError(f"member {info.filename!r} is no plain file or folder")
        yield _Member(
            info.orig_filename,  # before zipfile cuts it at a NUL
            info.is_dir(),
            info.file_size,
            lambda i=info: archive.open(i),  # type: ignore[misc]
        )


# ---- checking -----------------------------------------------------------------------------------


def _checked(members: Iterator[_Member], max_bytes: int, max_files: int) -> Iterator[_Member]:
    """The members with their names in plain form, unless something is wrong with one of them."""
    total = 0
    seen: dict[str, tuple[str, bool]] = {}
    for count, member in enumerate(members, 1):
        total += member.size
        if count > max_files:
            raise ArchiveError(f"it holds more than {max_files} files")
        if total > max_bytes:
            raise ArchiveError(f"it holds more than {max_bytes} bytes")
        parts = _parts(member.name)
        if not parts and not member.is_dir:
            raise ArchiveError(f"member {member.name!r} has no name")
        for depth in range(1, len(parts)):
            _enter(seen, "/".join(parts[:depth]), is_dir=True)
        if parts:
            _enter(seen, "/".join(parts), is_dir=member.is_dir)
            yield _Member("/".join(parts), member.is_dir, member.size, member.open)


def _parts(name: str) -> list[str]:
    if "\0" in name or "\\" in name:
        raise ArchiveError(f"member {name!r} has a NUL or a backslash in its name")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise ArchiveError(f"member {name!r} has an absolute name")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(f"member {name!r} leads out of the folder")
    if len(os.fsencode(name)) > _MAX_PATH or any(len(os.fsencode(p)) > _MAX_NAME for p in parts):
        raise ArchiveError(f"member {name[:40]!r}... has a name that is too long")
    return parts


def _enter(seen: dict[str, tuple[str, bool]], name: str, *, is_dir: bool) -> None:
    """Notes a name, unless some file system would put it where another one is."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
    known = seen.get(folded)
    if known is None:
        seen[folded] = (name, is_dir)
    elif known != (name, True) or not is_dir:
        raise ArchiveError(f"members {known[0]!r} and {name!r} would be one file")


# ---- writing ------------------------------------------------------------------------------------


def _unpack(members: list[_Member], directory: str) -> None:
    """Writes the members aside, and then puts them where they belong."""
    for member in members:
        _check_place(member, directory)
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=directory) as aside:
        for member in members:
            target = os.path.join(aside, member.name)
            os.makedirs(target if member.is_dir else os.path.dirname(target), exist_ok=True)
            if not member.is_dir:
                _write(member, target)
        _place(aside, directory)


def _check_place(member: _Member, directory: str) -> None:
    """Raises where something in the folder is in the way, above all a link that leads out of it."""
    place = directory
    parts = member.name.split("/")
    for depth, part in enumerate(parts, 1):
        place = os.path.join(place, part)
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return
        is_dir = member.is_dir or depth < len(parts)
        if not (stat.S_ISDIR(mode) if is_dir else stat.S_ISREG(mode)):
            raise ArchiveError(f"member {member.name!r}: {place} is there and of another kind")


def _write(member: _Member, target: str) -> None:
    left = member.size
    with member.open() as content, open(target, "xb") as file:
        while chunk := content.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            file.write(chunk)
    if left:
        raise ArchiveError(f"the archive is damaged: member {member.name!r} has another size")


def _place(source: str, target: str) -> None:
    """Renames what is in a folder into another, into folders that are there as well."""
    for name in os.listdir(source):
        old, new = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(old) and os.path.isdir(new):
            _place(old, new)
        else:
            os.replace(old, new)
