"""One process that :class:`.launcher` started: joins the job and calls the function.

Results, and what was raised, are files in the launcher's directory, which only its user can open.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import pickle
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from . import runtime
from .group import init_process_group
from .launcher import cloudpickle, launcher

_PR_SET_PDEATHSIG = 1


def _end_with_parent(parent: int) -> None:
    """Has the kernel end this process when the launcher is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the launcher is gone")


def _function(found: Any) -> Any:
    if not isinstance(found, tuple):
        return found
    module, name = found
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value.func if isinstance(value, launcher) else value


def _write(path: Path, data: bytes) -> None:
    aside = path.with_suffix(".aside")
    aside.write_bytes(data)
    aside.replace(path)


def _failed(directory: Path, rank: int, error: BaseException) -> NoReturn:
    """Leaves word of what was raised, tells the others, and ends."""
    trace = "".join(traceback.format_exception(error))
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    word = {"text": text, "trace": trace, "rank": getattr(error, "rank", rank)}
    _write(directory / f"error-{rank}.json", json.dumps(word).encode())
    with contextlib.suppress(Exception):  # an exception that cannot be pickled is told by its text
        _write(directory / f"error-{rank}.pkl", cloudpickle().dumps(error.with_traceback(None)))
    if runtime.current is None:
        sys.exit(f"rank {rank} could not join the job: {trace}")
    runtime.current.report(error, trace)
    runtime.current.abandon()


def main(config: dict[str, Any]) -> None:
    """Runs one rank."""
    _end_with_parent(config["parent"])
    faulthandler.enable()  # says where, if the process crashes
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = config["argv"]
    directory, rank = Path(config["directory"]), int(config["rank"])
    try:
        names = ("master_ip", "port", "world_size", "rank", "device", "backend", "device_type")
        init_process_group(**{name: config[name] for name in names})
        (directory / f"joined-{rank}").touch()
        with (directory / "call.pkl").open("rb") as file:
            function, args, kwargs = pickle.load(file)
        try:
            result = _function(function)(*args, **kwargs)
        except SystemExit as e:
            if e.code not in (None, 0):
                raise
            result = None
        _write(directory / f"result-{rank}.pkl", cloudpickle().dumps(result))
    except BaseException as e:
        _failed(directory, rank, e)
    assert runtime.current is not None
    runtime.current.leave()
