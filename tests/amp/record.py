"""Records what the reference answers to the cases, into answers.json.

Run from the repository with a Python that has MegEngine 1.13:

    python -m tests.amp.record
"""

import json
import pathlib

import megengine as mge
from megengine.amp import autocast
from tests.amp.cases import CASES, run


def answer(name, dtype):
    """The dtypes of a case, or None where the reference fails."""
    try:
        with autocast():
            return run(name, dtype)
    except Exception:
        return None


def main():
    mge.config.async_level = 0
    answers = {n: {d: answer(n, d) for d in ("float32", "float16")} for n in CASES}
    path = pathlib.Path(__file__).with_name("answers.json")
    lines = [f"  {json.dumps(n)}: {json.dumps(a)}" for n, a in answers.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
