"""Kills processes that save, at random moments, and looks at what they leave.

Each child saves larger and larger numbers to one name, as a pickle, as safetensors and by a
Checkpointer, and says which save has returned. After each kill the file must load, be whole, and be
as new as what was said; a resumed Checkpointer must find its newest checkpoint.

    PYTHONPATH=python python tools/kill_saves.py --kills 200
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from typing import Any

import numpy as np

import megengine as mge
from megengine.utils.checkpoint import Checkpointer

LENGTH = 200_000  # numbers in a file, 1.6 MB: some milliseconds of writing


class Part:
    """A part of a training whose state shows whether it is whole."""

    n = 0

    def state_dict(self) -> dict[str, Any]:
        """A number, and an array full of it."""
        return {"n": self.n, "array": np.full(LENGTH, float(self.n))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a number, where the array is full of it."""
        np.testing.assert_array_equal(state["array"], state["n"])
        self.n = state["n"]


def child(kind: str, place: pathlib.Path, start: int, pipe: int) -> None:
    """Saves without end."""
    part = Part()
    checkpointer = Checkpointer(place / "run", keep=2, part=part)
    for n in range(start, 1 << 40):
        array = np.full(LENGTH, float(n))
        if kind == "pickle":
            mge.save({"n": n, "array": array}, place / "a.pkl")
        elif kind == "safetensors":
            mge.save({"n": np.array(n), "array": array}, place / "a.safetensors")
        else:
            part.n = n
            checkpointer.save(n)
            checkpointer.wait()
        os.write(pipe, struct.pack("<q", n))


def found(kind: str, place: pathlib.Path) -> int:
    """The number in the file, which has to be whole."""
    if kind == "checkpointer":
        part = Part()
        checkpointer = Checkpointer(place / "run", keep=2, part=part)
        restored = checkpointer.restore()
        assert restored is not None
        assert restored.step == part.n
        return part.n
    got = mge.load(place / ("a.pkl" if kind == "pickle" else "a.safetensors"))
    n = int(got["n"].item() if kind == "safetensors" else got["n"])
    array = got["array"].numpy() if kind == "safetensors" else got["array"]
    assert array.shape == (LENGTH,)
    np.testing.assert_array_equal(array, n)
    return n


def main() -> None:
    """Kills as often as asked, and says how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        newest = dict.fromkeys(("pickle", "safetensors", "checkpointer"), 0)
        for _ in range(options.kills):
            kind = rng.choice(list(newest))
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                child(kind, place, newest[kind] + 1, writing)
            os.close(writing)
            os.read(reading, 8)  # a first save has returned
            said = newest[kind] + 1
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            while data := os.read(reading, 8):
                (said,) = struct.unpack("<q", data)
            os.close(reading)
            n = found(kind, place)
            assert n in (said, said + 1), f"{kind}: {said} was saved, and {n} is there"
            newest[kind] = n
            counts[kind] += 1
            counts["in the middle of a save"] += any(
                f".{pid}." in p.name for p in place.rglob(".*.tmp")
            )
            for leftover in place.rglob(
                ".*.tmp"
            ):  # the next save removes those that are a minute old
                os.utime(leftover, (0, 0))
    for key, count in counts.items():
        sys.stdout.write(f"{count:6d} {key}\n")
    sys.stdout.write(f"{options.kills} kills: every file was whole, and as new as was said\n")


if __name__ == "__main__":
    main()
