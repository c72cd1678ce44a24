"""Loggers: levels, files, and the text of lines."""

from __future__ import annotations

import io
import logging
import pathlib
import re
from collections.abc import Iterator

import pytest

from megengine import logger


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    level = logger._default_level
    yield
    logger.set_log_level(level)
    handler = logger._file_handler
    if handler is not None:
        for each in logger._loggers:
            each.removeHandler(handler)
        handler.close()
        logger._file_handler = None


def test_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log = logger.get_logger("tests.a")
    assert logger.get_logger("tests.a") is log
    log.info("step %d", 3)
    log.warning("careful")
    log.debug("hidden")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"\d\d \d\d:\d\d:\d\d step 3", lines[0])
    assert re.fullmatch(r"\d\d \d\d:\d\d:\d\d WRN careful", lines[1])


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    log = logger.get_logger("tests.b")
    before = logger.set_log_level("ERROR")
    log.warning("hidden")
    assert logger.set_log_level(logging.DEBUG, update_existing=False) == "ERROR"
    log.warning("hidden")
    assert logger.get_logger("tests.c").level == logging.DEBUG
    logger.set_log_level(before)
    assert log.level == logging.getLevelName(before) or log.level == before
    with pytest.raises(ValueError, match="level"):
        logger.set_log_level("LOUD")
    assert capsys.readouterr().err == ""


def test_a_log_file_gets_lines_of_all_loggers(tmp_path: pathlib.Path) -> None:
    early = logger.get_logger("tests.d")
    path = tmp_path / "log.txt"
    logger.set_log_file(path, mode="w")
    late = logger.get_logger("tests.e")
    early.info("one")
    late.error("two")
    lines = path.read_text().splitlines()
    assert re.fullmatch(r"\[.* \d+@test_logger.py:tests.d\] one", lines[0])
    assert re.fullmatch(r"\[.* \d+@test_logger.py:tests.e\] ERR two", lines[1])

    file = io.StringIO()
    logger.set_log_file(file)
    early.info("three")
    assert file.getvalue().endswith("three\n")
    assert len(path.read_text().splitlines()) == 2


def test_colours() -> None:
    record = logging.LogRecord("n", logging.ERROR, "f.py", 3, "bad %d", (4,), None)
    text = logger.MegEngineLogFormatter(colours=True, place=False).format(record)
    assert "\x1b[1;4;31mERR bad 4\x1b[0m" in text
    assert "\x1b" not in logger.MegEngineLogFormatter().format(record)
    assert logger.MegEngineLogFormatter("%(message)s!").format(record) == "bad 4!"


def test_levels_of_the_core() -> None:
    before = logger.set_mgb_log_level(logging.ERROR)
    assert logger.set_mgb_log_level(before) == logging.ERROR
    with logger.replace_mgb_log_level(logging.DEBUG):
        assert logger.set_mgb_log_level(logging.DEBUG) == logging.DEBUG
    assert logger.set_mgb_log_level(before) == before
