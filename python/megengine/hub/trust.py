"""Which repositories' code may run: those that somebody has said yes to, at that commit."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import IO

from ..serialization import write_aside
from .const import ENV_TRUST
from .exceptions import FetcherError, UntrustedRepo

__all__ = ["Origin", "ensure_trusted"]


@dataclass(frozen=True)
class Origin:
    """Where code comes from.

    Args:
        repo: the host, owner and name, such as "github.com/megengine/models".
        revision: the commit; "sha256:..." of the archive where the host does not tell it.
    """

    repo: str
    revision: str


def ensure_trusted(origin: Origin, trusted: bool, folder: str) -> None:
    """Raises unless the code may run; notes that it may, where that is new.

    Args:
        origin: where the code comes from.
        trusted: whether the program says that it may run.
        folder: where the answers are kept.

    Raises:
        UntrustedRepo: the code was not run here before, and nobody says that it may be.
    """
    path = os.path.join(folder, "trusted.json")
    known = _read(path)
    if origin.revision in known.get(origin.repo, []):
        return
    if not (trusted or _named_by_environment(origin) or _asked(origin)):
        name = origin.repo.split("/", 1)[1]
        raise UntrustedRepo(
            f"hub: the code of {origin.repo} at {origin.revision} has not run here before, and "
            "could do whatever you can. Look at it first. To run it, pass trust_repo=True, or set "
            f"the environment variable {ENV_TRUST}={name} (several with commas between them)"
        )
    known.setdefault(origin.repo, []).append(origin.revision)
    os.makedirs(folder, exist_ok=True)
    text = json.dumps(known, indent=2, sort_keys=True)

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_aside(path, write)


def _read(path: str) -> dict[str, list[str]]:
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FetcherError(
            f"hub: {path} is damaged: {error}; remove it to be asked again"
        ) from error
    if not isinstance(known, dict) or not all(isinstance(v, list) for v in known.values()):
        raise FetcherError(f"hub: {path} is damaged; remove it to be asked again")
    return known


def _named_by_environment(origin: Origin) -> bool:
    """Whether the variable names the repository, with or without its host, or with a commit."""
    names = [name.strip() for name in os.environ.get(ENV_TRUST, "").split(",")]
    for name in names:
        repo, _, revision = name.partition("@")
        fits = repo in (origin.repo, origin.repo.split("/", 1)[1])
        if fits and (not revision or (len(revision) >= 7 and origin.revision.startswith(revision))):
            return True
    return False


def _asked(origin: Origin) -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(
        f"hub: the code of {origin.repo} at {origin.revision} has not run here before, and could "
        "do whatever you can.\nRun it? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
