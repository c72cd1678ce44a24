"""Records what the reference release computes for the models of cases/.

Run from the root of the repository, by a Python that has the reference release:

    python tests/reference/models/record.py [NAME ...]

writes answers/NAME.json for the cases named, or for all.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, ROOT)


def record(stem):
    """Writes answers/`stem`.json."""
    import megengine

    megengine.config.async_level = 0
    from tests.reference.models import harness

    lines = []
    for name, case in harness.load(stem).items():
        print(name, flush=True)
        entry = {"judge": case.judge}
        if case.why:
            entry["why"] = case.why
        if case.judge != "float64":
            outputs, grads, buffers = harness.run(case)
            digest = harness.digest
            entry["outputs"] = [digest(f"output {i}", y) for i, y in enumerate(outputs)]
            entry["buffers"] = {n: digest(n, b) for n, b in buffers.items()}
            if case.judge == "reference":
                entry["gradients"] = {n: digest(n, g) for n, g in grads.items()}
        lines.append(json.dumps(name) + ": " + lay_out(entry))
    with open(os.path.join(HERE, "answers", stem + ".json"), "w") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


def lay_out(entry):
    """JSON with a line for each array."""
    parts = []
    for key, value in entry.items():
        if isinstance(value, dict):
            rows = [json.dumps(k) + ": " + json.dumps(v) for k, v in value.items()]
            parts.append(json.dumps(key) + ": {\n" + ",\n".join(rows) + "\n}")
        else:
            parts.append(json.dumps(key) + ": " + json.dumps(value))
    return "{" + ",\n".join(parts) + "}"


def main():
    """Each file of cases in a process of its own."""
    names = sys.argv[1:]
    if names[:1] == ["--one"]:
        record(names[1])
        return
    if not names:
        found = sorted(os.listdir(os.path.join(HERE, "cases")))
        names = [n[:-3] for n in found if n.endswith(".py") and not n.startswith("_")]
    for name in names:
        subprocess.check_call([sys.executable, os.path.abspath(__file__), "--one", name])


if __name__ == "__main__":
    main()
