"""Training that stops and goes on as if it had not: :class:`Checkpointer`.

An extension: the reference has ``save`` and ``load`` only. ``docs/checkpoints.md`` has more.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import pickle
import random
import re
import struct
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..data.seeds import get_random_state, set_random_state
from ..logger import get_logger
from ..random import RNG
from ..serialization import load, save
from ..serialization.files import sync_directory, write_aside
from ..tensor import Tensor

__all__ = ["Checkpoint", "CheckpointError", "Checkpointer", "Stateful"]


class CheckpointError(RuntimeError):
    """A checkpoint is damaged, or could not be written."""


@runtime_checkable
class Stateful(Protocol):
    """What can be saved and resumed: modules, optimizers, loaders, scalers, your own."""

    def state_dict(self) -> Mapping[str, Any]:
        """All that it needs to go on: numbers, text, arrays, and containers of them."""

    def load_state_dict(self, state: Any) -> Any:
        """Goes back to what :meth:`state_dict` gave."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was restored.

    Args:
        step: the number under which it was saved.
        path: its file.
        extra: what was saved with it by name.
    """

    step: int
    path: pathlib.Path
    extra: dict[str, Any] = field(default_factory=dict)


# ---- states --------------------------------------------------------------------------------------


class _Accessors(NamedTuple):
    get: Callable[[], Any]
    set: Callable[[Any], Any]


def _accessors(name: str, part: Any) -> _Accessors:
    """How the state of a part is taken and given back."""
    if isinstance(part, np.random.Generator):
        bits = part.bit_generator
        return _Accessors(lambda: bits.state, lambda state: setattr(bits, "state", state))
    if isinstance(part, np.random.RandomState):
        return _Accessors(lambda: part.get_state(legacy=False), part.set_state)
    if isinstance(part, random.Random):
        return _Accessors(part.getstate, part.setstate)
    if isinstance(part, RNG):
        return _Accessors(part.get_state, part.set_state)
    if isinstance(part, Stateful):
        return _Accessors(part.state_dict, part.load_state_dict)
    raise TypeError(
        f"Checkpointer: expected '{name}' to have state_dict and load_state_dict, or to be a "
        f"random generator, got {type(part).__name__}"
    )


_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _may_change(array: np.ndarray[Any, Any]) -> bool:
    """Whether someone can write to the memory of an array: to that of Tensors nobody can."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return False


def _snapshot(value: Any, label: str) -> Any:
    """A state that no longer changes. Contents of Tensors never do, so they are not copied."""
    if isinstance(value, Tensor):
        return value.detach()
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return value.copy() if _may_change(value) else value
    if type(value) in _PLAIN or isinstance(value, (np.generic, np.dtype)):
        return value
    if type(value) in (dict, defaultdict, OrderedDict):
        items = (
            (_snapshot(k, f"a key of {label}"), _snapshot(v, f"{label}[{k!r}]"))
            for k, v in value.items()
        )
        return OrderedDict(items) if type(value) is OrderedDict else dict(items)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_snapshot(v, f"{label}[{i}]") for i, v in enumerate(value))
    raise TypeError(
        f"Checkpointer.save: {label} is a {type(value).__name__}, which load would refuse; "
        "expected numbers, text, arrays, tensors, and lists, tuples, sets and dicts of them"
    )


# ---- files ---------------------------------------------------------------------------------------

# Behind the pickle, which `megengine.load` therefore reads too: magic, bytes, SHA-256 of them.
_TRAILER = struct.Struct("<8sQ32s")
_MAGIC = b"OMGECKPT"
_NAME = re.compile(r"step-(\d+)\.ckpt")


class _Hashing:
    """A file open for writing that keeps the checksum of what is written."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)


def _write(path: pathlib.Path, state: Any) -> None:
    def write(file: IO[bytes]) -> None:
        hashing = _Hashing(file)
        save(state, hashing)
        file.write(_TRAILER.pack(_MAGIC, hashing.size, hashing.digest.digest()))

    write_aside(os.fspath(path), write)


def _read(path: pathlib.Path) -> dict[str, Any]:
    """What a file holds, after its checksum was found right."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - _TRAILER.size
        if size < 0:
            raise CheckpointError(f"{path} is damaged: it has {size + _TRAILER.size} bytes")
        digest = hashlib.sha256()
        for start in range(0, size, 1 << 20):
            digest.update(file.read(min(1 << 20, size - start)))
        if file.read() != _TRAILER.pack(_MAGIC, size, digest.digest()):
            raise CheckpointError(f"{path} is damaged: its checksum is wrong")
        file.seek(0)
        state = load(file)
    if not isinstance(state, dict) or state.keys() != {"step", "parts", "random", "extra"}:
        raise CheckpointError(f"{path} is no checkpoint of a Checkpointer")
    return state


# ---- the checkpointer ----------------------------------------------------------------------------


class Checkpointer:
    """Saves the whole state of a training, and resumes it so that the rest comes out the same.

    A checkpoint holds the state of each part, and the states of the global random generators of
    megengine, NumPy and Python. A run that is resumed goes on to the same bits as one that was
    never stopped, where the parts are all that it depends on.

    The state is taken at once, and a thread writes it while training goes on: contents of Tensors
    never change, so no copy of them is made. Files are written aside and renamed when they are
    complete and on disk, and have a checksum. Whenever the program is killed, the newest complete
    checkpoint is there.

    Args:
        directory: where the files ``step-0000000100.ckpt`` are; it is made where it does not exist.
        keep: how many are kept; older ones are removed when a new one is complete. None keeps all.
        background: whether a thread writes. Its errors are logged, and raised by the next
            :meth:`save`, :meth:`wait` or :meth:`close`.
        parts: by name, what has ``state_dict`` and ``load_state_dict`` (modules, optimizers,
            schedulers, :class:`.GradScaler`, :class:`.DataLoader`, samplers, your own), or is a
            random generator of megengine, NumPy or Python.

    Raises:
        TypeError: a part is neither.
        ValueError: ``keep`` is less than 1.

    >>> import tempfile
    >>> import megengine as mge
    >>> import megengine.module as M
    >>> import megengine.optimizer as optim
    >>> directory = tempfile.mkdtemp()
    >>> net = M.Linear(2, 1)
    >>> optimizer = optim.Adam(net.parameters(), lr=0.1)
    >>> with Checkpointer(directory, model=net, optimizer=optimizer) as checkpointer:
    ...     checkpointer.restore()  # nothing is there yet
    ...     _ = checkpointer.save(100, loss=0.5)
    >>> with Checkpointer(directory, model=net, optimizer=optimizer) as checkpointer:
    ...     found = checkpointer.restore()
    >>> found.step, found.extra
    (100, {'loss': 0.5})
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int | None = 3,
        background: bool = True,
        **parts: Any,
    ):
        if keep is not None and keep < 1:
            raise ValueError(f"Checkpointer: expected keep of 1 or more, or None, got {keep}")
        self.directory = pathlib.Path(directory)
        self.keep = keep
        self.background = background
        self._parts = {name: _accessors(name, part) for name, part in parts.items()}
        self._writer: threading.Thread | None = None
        self._error: Exception | None = None
        self.directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except CheckpointError as other:
            error.add_note(str(other))

    # ---- files ---------------------------------------------------------------------------------

    def path(self, step: int) -> pathlib.Path:
        """The file of a step."""
        return self.directory / f"step-{step:010d}.ckpt"

    def steps(self) -> list[int]:
        """The steps of which there is a complete file, in order."""
        found = [_NAME.fullmatch(entry) for entry in os.listdir(self.directory)]
        return sorted(int(match[1]) for match in found if match)

    # ---- saving --------------------------------------------------------------------------------

    def save(self, step: int, **extra: Any) -> pathlib.Path:
        """Takes the state of all parts and writes it, in the background if so chosen.

        It waits for the one before, if that is still being written.

        Args:
            step: the number of the checkpoint, 0 or more: of the next step, say. One that is there
                under this number is replaced.
            extra: more to keep: numbers, text, arrays, and containers of them.

        Returns:
            The file, which is there when :meth:`wait` returns.

        Raises:
            TypeError: a state or ``extra`` holds something that
                :func:`megengine.serialization.load` would refuse.
            CheckpointError: the one before could not be written, or this one, where no thread
                writes.
        """
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0:
            raise ValueError(f"Checkpointer.save: expected a step of 0 or more, got {step!r}")
        state = {
            "step": int(step),
            "parts": {n: _snapshot(part.get(), n) for n, part in self._parts.items()},
            "random": _snapshot(get_random_state(), "random"),
            "extra": _snapshot(extra, "extra"),
        }
        self.wait()
        path = self.path(int(step))
        if self.background:
            # Not a daemon: a program that ends waits for its last checkpoint.
            self._writer = threading.Thread(
                target=self._write, args=(path, state), name="Checkpointer"
            )
            self._writer.start()
        else:
            self._write(path, state)
            self.wait()
        return path

    def _write(self, path: pathlib.Path, state: Any) -> None:
        try:
            _write(path, state)
            self._remove_old(state["step"])
        except Exception as error:
            get_logger().error("%s was not written: %s", path, error)
            self._error = error

    def _remove_old(self, newest: int) -> None:
        if self.keep is None:
            return
        others = [step for step in self.steps() if step != newest]
        for step in others[: max(0, len(others) + 1 - self.keep)]:
            self.path(step).unlink(missing_ok=True)
        sync_directory(self.directory)

    def wait(self) -> None:
        """Waits until what was saved is on disk.

        Raises:
            CheckpointError: it could not be written.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        error, self._error = self._error, None
        if error is not None:
            raise CheckpointError(f"a checkpoint was not written: {error}") from error

    def close(self) -> None:
        """:meth:`wait`; a ``with`` block does so at its end."""
        self.wait()

    # ---- restoring -----------------------------------------------------------------------------

    def restore(self, step: int | None = None, *, older: bool = False) -> Checkpoint | None:
        """Gives all parts, and the global random generators, the state of a checkpoint.

        If one part does not take its state, all parts keep what they had.

        Args:
            step: which one; the newest by default.
            older: whether to go on with the newest whole one, with a warning in the log, where
                newer ones are damaged.

        Returns:
            What was restored; None where there is no checkpoint at all and ``step`` is None.

        Raises:
            CheckpointError: the file is damaged.
            FileNotFoundError: there is none of this step.
            KeyError: it holds other parts than this checkpointer.
        """
        self.wait()
        for number in [step] if step is not None else reversed(self.steps()):
            try:
                return self._restore(self.path(number))
            except CheckpointError as error:
                if step is not None or not older:
                    whole = [n for n in self.steps() if n < number]
                    if whole:
                        error.add_note(
                            f"The one before is of step {whole[-1]}: restore({whole[-1]}), or "
                            "restore(older=True) for the newest that is whole"
                        )
                    raise
                get_logger().warning("%s; going on with an older one", error)
        if step is None and self.steps():
            raise CheckpointError(f"all checkpoints in {self.directory} are damaged")
        return None

    def _restore(self, path: pathlib.Path) -> Checkpoint:
        try:
            state = _read(path)
        except (pickle.UnpicklingError, EOFError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        own, saved = self._parts.keys(), state["parts"].keys()
        if own != saved:
            raise KeyError(
                f"{path} holds the parts {', '.join(sorted(saved))}; this checkpointer has "
                f"{', '.join(sorted(own))}"
            )
        before = {n: _snapshot(part.get(), n) for n, part in self._parts.items()}
        randomness = get_random_state()
        changed: list[str] = []
        try:
            for name, part in self._parts.items():
                changed.append(name)
                part.set(state["parts"][name])
        except Exception as error:
            error.add_note(f"It is the part '{changed[-1]}' of {path}. Nothing is restored")
            for name in changed:
                self._parts[name].set(before[name])
            set_random_state(randomness)
            raise
        set_random_state(state["random"])
        return Checkpoint(state["step"], path, state["extra"])
