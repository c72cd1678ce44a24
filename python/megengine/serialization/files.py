"""Writing a file so that its name always holds a whole one."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from collections.abc import Callable
from typing import IO

__all__ = ["sync_directory", "write_aside"]

_numbers = itertools.count()  # threads of one process write to files of their own


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Has the renames in a directory on disk: they are in its own contents."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:  # one that may be written to and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of file systems that cannot do it
            raise
    finally:
        os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _stem(name: str) -> str:
    """How the files that are written aside for a name begin: it may be as long as names can be."""
    return f".{name[:60]}."


def _remove_stale(directory: str, name: str) -> None:
    """Removes what saves to the same name left aside when they were killed."""
    pattern = re.compile(re.escape(_stem(name)) + r"(\d+)(\.\d+)?\.tmp")
    try:
        entries = os.listdir(directory)
    except PermissionError:
        return
    for entry in entries:
        found = pattern.fullmatch(entry)
        if found is None or _alive(int(found[1])):
            continue
        path = os.path.join(directory, entry)
        with contextlib.suppress(FileNotFoundError):
            # A process of another machine that shares the disk still writes to its file.
            if time.time() - os.stat(path).st_mtime > 60:
                os.remove(path)


def _take_after(descriptor: int, old: os.stat_result) -> None:
    """Gives a file the owner, as far as we may, and the permissions of the one that it replaces."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o7777)


def write_aside(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """Has a file written aside and renamed when it is complete and on disk.

    Whenever the program is killed, the name holds the old file or the new one. The new one has the
    permissions and the owner of the old one.
    """
    path = os.path.realpath(path)  # a link stays a link, and what it names is replaced
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        with open(path, "wb") as file:
            write(file)
        return
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f"{_stem(name)}{os.getpid()}.{next(_numbers)}.tmp")
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    # Nobody reads the new file who could not read the old one, not even while it is written.
    mode = 0o666 if old is None else old.st_mode & 0o700
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            write(file)
            file.flush()
            if old is not None:
                _take_after(descriptor, old)
            os.fsync(descriptor)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside)
        raise
    sync_directory(directory)
    _remove_stale(directory, name)
