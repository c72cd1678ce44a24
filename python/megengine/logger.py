"""Loggers with one look: on standard error, and in a file where :func:`set_log_file` names one."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, ClassVar

__all__ = [
    "MegBrainLogFormatter",
    "MegEngineLogFormatter",
    "enable_debug_log",
    "get_logger",
    "replace_mgb_log_level",
    "set_log_file",
    "set_log_level",
    "set_mgb_log_level",
]

_loggers: list[logging.Logger] = []
_file_handler: logging.Handler | None = None
_default_level: int | str = os.environ.get("MEGENGINE_LOGGING_LEVEL") or "INFO"


class MegEngineLogFormatter(logging.Formatter):
    """Time, level and message; in colours on a terminal, with the place in the code elsewhere."""

    date_full = "[%(asctime)s %(lineno)d@%(filename)s:%(name)s] "
    date = "%(asctime)s "
    msg = "%(message)s"
    labels: ClassVar[dict[int, tuple[str, str]]] = {
        logging.DEBUG: ("DBG", "36"),
        logging.WARNING: ("WRN", "1;31"),
        logging.ERROR: ("ERR", "1;4;31"),
    }

    def __init__(
        self,
        fmt: str | None = None,
        datefmt: str | None = "%d %H:%M:%S",
        style: Any = "%",
        validate: bool = True,
        *,
        colours: bool = False,
        place: bool = True,
    ):
        super().__init__(fmt or (self.date_full if place else self.date) + self.msg, datefmt, style)
        self._colours = colours
        self._prefix = self.date_full if place else self.date
        self._given = fmt

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        if self._given is not None:
            return super().format(record)
        label, colour = self.labels.get(record.levelno, ("", ""))
        prefix, message = self._prefix, f"{label} {self.msg}" if label else self.msg
        if self._colours:
            prefix = f"\x1b[32m{prefix}\x1b[0m"
            message = f"\x1b[{colour}m{message}\x1b[0m" if label else message
        self._style._fmt = prefix + message
        return super().format(record)


class MegBrainLogFormatter(MegEngineLogFormatter):
    """The look of what the core says; the same, under the name [mgb]."""

    date = "%(asctime)s[mgb] "


class _StderrHandler(logging.StreamHandler[Any]):
    """Writes to what sys.stderr is at the time, so that a redirection later on counts."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> IO[str]:
        return sys.stderr


def get_logger(
    name: str | None = None, formatter: type[logging.Formatter] = MegEngineLogFormatter
) -> logging.Logger:
    """A logger that writes to standard error, and to the file of :func:`set_log_file`.

    Args:
        name: its name in :mod:`logging`; None means the root logger.
        formatter: the class that makes text of records.

    The level at first is that of the environment variable MEGENGINE_LOGGING_LEVEL, or INFO.

    >>> get_logger("train").name
    'train'
    """
    logger = logging.getLogger(name)
    if logger in _loggers:
        return logger
    logger.propagate = False
    logger.setLevel(_default_level)
    handler = _StderrHandler()
    if issubclass(formatter, MegEngineLogFormatter):
        terminal = hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
        handler.setFormatter(formatter(colours=terminal, place=False))
    else:
        handler.setFormatter(formatter(datefmt="%d %H:%M:%S"))
    handler.setLevel(logging.NOTSET)
    logger.handlers[:] = [handler]
    if _file_handler is not None:
        logger.addHandler(_file_handler)
    _loggers.append(logger)
    return logger


def set_log_file(fout: str | os.PathLike[str] | IO[str], mode: str = "a") -> None:
    """Has all loggers write to a file too, with the place in the code before each message.

    Args:
        fout: the name of a file, or a file open for writing text. It takes the place of the one
            that was set before.
        mode: how a file given by name is opened.
    """
    global _file_handler
    handler: logging.StreamHandler[Any]
    if isinstance(fout, (str, os.PathLike)):
        handler = logging.FileHandler(fout, mode, encoding="utf-8")
    else:
        handler = logging.StreamHandler(fout)
    handler.setFormatter(MegEngineLogFormatter())
    for logger in _loggers:
        if _file_handler is not None:
            logger.removeHandler(_file_handler)
        logger.addHandler(handler)
    if _file_handler is not None:
        _file_handler.close()
    _file_handler = handler


def set_log_level(level: int | str, update_existing: bool = True) -> int | str:
    """Sets from which level on loggers write.

    Args:
        level: a number or name of :mod:`logging`, such as "DEBUG".
        update_existing: whether this holds for loggers that there are already.

    Returns:
        the level before.

    Raises:
        ValueError: there is no such level.

    >>> before = set_log_level("ERROR")
    >>> set_log_level(before)
    'ERROR'
    """
    global _default_level
    logging.Handler(level)  # raises for a level that is none
    before, _default_level = _default_level, level
    if update_existing:
        for logger in _loggers:
            logger.setLevel(level)
    return before


_core_logger = get_logger("megbrain", MegBrainLogFormatter)
_core_logger.setLevel(logging.WARNING)


def set_mgb_log_level(level: int | str) -> int:
    """Sets from which level on messages of the core are written.

    Returns:
        the level before.
    """
    before = _core_logger.level
    _core_logger.setLevel(level)
    return before


@contextlib.contextmanager
def replace_mgb_log_level(level: int | str) -> Iterator[None]:
    """Sets the level of the core's messages inside a ``with`` block."""
    before = set_mgb_log_level(level)
    try:
        yield
    finally:
        set_mgb_log_level(before)


def enable_debug_log() -> None:
    """Has all loggers write everything."""
    set_log_level(logging.DEBUG)
    set_mgb_log_level(logging.DEBUG)
