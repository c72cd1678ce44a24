"""Prints a list of requirements from pyproject.toml: `build`, or the name of an extra."""

import sys
import tomllib
from pathlib import Path


def main() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    wanted = sys.argv[1]
    if wanted == "build":
        tools = project["dependency-groups"]["build-tools"]
        print(*project["build-system"]["requires"], *tools, sep="\n")
    else:
        print(*project["project"]["optional-dependencies"][wanted], sep="\n")


if __name__ == "__main__":
    main()
