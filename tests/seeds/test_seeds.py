"""The tutorials' programs print what the tutorials print.

basics.txt, concepts.txt and modules.txt hold what the reference release prints for the same
programs, which is what the documents show but for where these are of an older release: the dtype
(``float32``, once ``<class 'numpy.float32'>``) and gradients of scalars (``Tensor(1.0)``, once
``Tensor([1.])``). The one thing that the reference refuses and the document shows, a loss of NumPy
arrays, prints as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import megengine as mge
from tests.seeds import basics, concepts, modules


def expected(name: str) -> dict[str, str]:
    """The text that each program of a tutorial prints."""
    text = (Path(__file__).parent / f"{name}.txt").read_text()
    blocks = [block.split("\n", 1) for block in text.removeprefix("# ").split("\n# ")]
    return {title: body.rstrip("\n") for title, body in blocks}


def programs() -> Iterator[object]:
    for module in (basics, concepts, modules):
        name = module.__name__.rsplit(".", 1)[-1]
        texts = expected(name)
        assert list(texts) == [p.__name__ for p in module.PROGRAMS]
        for program in module.PROGRAMS:
            yield pytest.param(program, texts[program.__name__], id=f"{name}-{program.__name__}")


@pytest.fixture(autouse=True)
def _default_device() -> Iterator[None]:
    before = mge.get_default_device()
    mge.set_default_device("xpux")
    yield
    mge.set_default_device(before)


@pytest.mark.parametrize(("program", "text"), list(programs()))
def test_prints(program: Callable[[], None], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    program()
    assert capsys.readouterr().out.rstrip("\n") == text


def test_five_epochs_agree_with_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    concepts.regression_numpy()
    by_hand = capsys.readouterr().out.splitlines()
    concepts.regression()
    assert capsys.readouterr().out.splitlines()[:5] == by_hand


@pytest.mark.parametrize("device", ["cpux", "cpu0"])
def test_default_device_by_environment(device: str) -> None:
    import os
    import subprocess
    import sys

    code = "import megengine as mge; print(mge.get_default_device(), mge.tensor([1.0]))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, MGE_DEFAULT_DEVICE=device),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == f"{device} Tensor([1.], device={device}:0)"
