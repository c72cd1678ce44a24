"""Fetching repositories: over HTTPS as archives, or over SSH with git."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..logger import get_logger
from ..utils.archive import ArchiveError, extract
from ..utils.http_download import HTTPDownloadError, download_from_url, file_digest
from . import tools
from .const import (
    DEFAULT_BRANCH_NAME,
    GIT_TIMEOUT,
    HTTP_READ_TIMEOUT,
    MAX_BYTES,
    MAX_FILES,
)
from .exceptions import (
    FetcherError,
    GitCheckoutError,
    GitPullError,
    InvalidGitHost,
    InvalidRepo,
)
from .trust import Origin

__all__ = ["GitHTTPSFetcher", "GitSSHFetcher", "LocalFetcher", "RepoFetcherBase"]

logger = get_logger(__name__)

_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_-])?")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}|\.[A-Za-z0-9_-][A-Za-z0-9_.-]{0,98}")
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/@-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]{2,63}")


class RepoFetcherBase:
    """What the ways of fetching share: names are checked; a repository is kept when it is whole.

    A fetched repository is a folder in the cache with ``origin.json``, which says where it comes
    from, and ``source``, the files.
    """

    @classmethod
    def fetch(
        cls,
        git_host: str,
        repo_info: str,
        use_cache: bool = False,
        commit: str | None = None,
        silent: bool = True,
    ) -> str:
        """Fetches a repository into the current folder, unless it is there.

        Args:
            git_host: the host, such as "github.com".
            repo_info: "owner/name" or "owner/name:branch", where a tag may stand for the branch.
            use_cache: takes what was fetched earlier.
            commit: a commit, which goes before the branch.
            silent: does not log what is done.

        Returns:
            the folder of the files.

        Raises:
            InvalidGitHost, InvalidRepo: a name is none.
            FetcherError: the repository cannot be fetched.
        """
        owner, name, branch = cls._parse_repo_info(repo_info)
        if not cls._check_git_host(git_host):
            raise InvalidGitHost(f"git_host: '{git_host}' is malformed.")
        commit = None if commit is None else _checked_commit(commit)
        revision = branch if commit is None else commit
        key = f"{cls.__name__} {git_host} {owner}/{name} {branch} {commit}"
        readable = re.sub(r"[^A-Za-z0-9.-]", "_", f"{owner}_{name}_{revision}")[:80]
        folder = os.path.join(os.getcwd(), f"{readable}_{cls._gen_repo_dir(key)}")
        if use_cache and os.path.exists(folder):
            return os.path.join(folder, "source")
        if not silent:
            logger.info("fetching %s/%s/%s at %s", git_host, owner, name, revision)
        with _aside(folder) as new:
            found = cls._fetch_to(new, git_host, owner, name, branch, commit)
            origin = asdict(Origin(f"{git_host}/{owner}/{name}", found))
            with open(os.path.join(new, "origin.json"), "w", encoding="utf-8") as file:
                json.dump(origin, file)
        return os.path.join(folder, "source")

    @classmethod
    def origin(cls, source: str) -> Origin:
        """Where a folder that :meth:`fetch` returned comes from."""
        path = os.path.join(os.path.dirname(source), "origin.json")
        try:
            with open(path, encoding="utf-8") as file:
                return Origin(**json.load(file))
        except (OSError, ValueError, TypeError) as error:
            raise FetcherError(
                f"hub: {path} is damaged: {error}; fetch it again with use_cache=False"
            ) from error

    @classmethod
    def _fetch_to(
        cls, new: str, git_host: str, owner: str, name: str, branch: str, commit: str | None
    ) -> str:
        """Makes ``new/source`` and returns the commit."""
        raise NotImplementedError

    @classmethod
    def _parse_repo_info(cls, repo_info: str) -> tuple[str, str, str]:
        """The owner, the name and the branch."""
        repo, colon, branch = repo_info.partition(":")
        owner, slash, name = repo.partition("/")
        branch = branch if colon else DEFAULT_BRANCH_NAME
        # What git allows in names of branches, without what a file system or a shell could mistake.
        odd = re.search(r"\.\.|//|/\.|@\{|\.lock$|[/.]$", branch)
        if not (
            slash
            and _OWNER.fullmatch(owner)
            and _NAME.fullmatch(name)
            and _BRANCH.fullmatch(branch)
            and not odd
        ):
            raise InvalidRepo(
                f"repo_info: '{repo_info}' is invalid: expected 'owner/name' or 'owner/name:branch'"
            )
        return owner, name, branch

    @classmethod
    def _check_git_host(cls, git_host: str) -> bool:
        host, colon, port = git_host.partition(":")
        if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            return False
        return cls._is_valid_host(host) or cls._is_valid_domain(host)

    @classmethod
    def _is_valid_domain(cls, s: str) -> bool:
        return len(s) <= 253 and _DOMAIN.fullmatch(s) is not None

    @classmethod
    def _is_valid_host(cls, s: str) -> bool:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(s).version == 4
        return False

    @classmethod
    def _gen_repo_dir(cls, repo_dir: str) -> str:
        return hashlib.sha256(repo_dir.encode()).hexdigest()[:16]


class GitHTTPSFetcher(RepoFetcherBase):
    """Fetches the archive that GitHub and GitLab make of a branch or commit."""

    @classmethod
    def _fetch_to(
        cls, new: str, git_host: str, owner: str, name: str, branch: str, commit: str | None
    ) -> str:
        url = cls._git_archive_link(git_host, owner, name, branch, commit)
        try:
            return cls._download_zip_and_extract(url, new, commit)
        except HTTPDownloadError as error:
            if commit is None:
                error.add_note(
                    f"Is {branch!r} a branch of this repository? Another one is named with a "
                    f"colon: '{owner}/{name}:main'"
                )
            raise

    @classmethod
    def _git_archive_link(
        cls, git_host: str, repo_owner: str, repo_name: str, branch_info: str, commit: str | None
    ) -> str:
        revision = branch_info if commit is None else commit
        return f"https://{git_host}/{repo_owner}/{repo_name}/archive/{revision}.zip"

    @classmethod
    def _download_zip_and_extract(cls, url: str, target_dir: str, commit: str | None = None) -> str:
        archive = os.path.join(target_dir, "archive.zip")
        download_from_url(url, archive, timeout=HTTP_READ_TIMEOUT, max_bytes=MAX_BYTES)
        revision = _commit_of_archive(archive)
        if commit is not None and not revision.startswith(("sha256:", commit)):
            raise GitCheckoutError(f"hub: {url} is of commit {revision}, expected {commit}")
        unpacked = os.path.join(target_dir, "unpacked")
        extract(archive, unpacked, max_bytes=MAX_BYTES, max_files=MAX_FILES, links_as_text=True)
        tops = os.listdir(unpacked)
        if len(tops) != 1 or not os.path.isdir(os.path.join(unpacked, tops[0])):
            raise FetcherError(f"hub: {url} is no archive of a repository, which is one folder")
        os.rename(os.path.join(unpacked, tops[0]), os.path.join(target_dir, "source"))
        os.rmdir(unpacked)
        os.remove(archive)
        return revision


def _commit_of_archive(path: str) -> str:
    """The commit that git notes in archives that it makes; the archive's digest without."""
    try:
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment.decode("ascii", "replace")
    except zipfile.BadZipFile as error:
        raise ArchiveError(f"{path} is no zip file: {error}") from error
    return comment if _COMMIT.fullmatch(comment) else f"sha256:{file_digest(path, 'sha256')}"


class GitSSHFetcher(RepoFetcherBase):
    """Fetches with git, over SSH: for repositories that are not public."""

    @classmethod
    def _fetch_to(
        cls, new: str, git_host: str, owner: str, name: str, branch: str, commit: str | None
    ) -> str:
        return _clone(cls._git_link(git_host, owner, name), new, branch, commit)

    @classmethod
    def _git_link(cls, git_host: str, owner: str, name: str) -> str:
        host, _, port = git_host.partition(":")
        return f"ssh://git@{host}{':' + port if port else ''}/{owner}/{name}.git"


class LocalFetcher:
    """Repositories on this machine: a folder is used where it is, a commit from a copy of it."""

    @classmethod
    def is_local(cls, repo_info: str) -> bool:
        """Whether a name is one of a folder."""
        return repo_info.startswith(("/", "./", "../", "~", "file://"))

    @classmethod
    def fetch(cls, path: str, folder: str, use_cache: bool, commit: str | None) -> str:
        """The folder of the files.

        Args:
            path: the folder of the repository.
            folder: where copies are kept.
            use_cache: takes a copy that was made earlier, and modules that are loaded.
            commit: the commit; what is in the folder without.
        """
        if not os.path.isdir(path):
            raise InvalidRepo(f"hub: there is no folder {path}")
        if commit is None:
            if not use_cache:
                tools.forget_modules(path)
            return path
        commit = _checked_commit(commit)
        key = hashlib.sha256(f"{path} {commit}".encode()).hexdigest()[:16]
        copy = os.path.join(folder, f"local_{commit[:12]}_{key}")
        if not use_cache or not os.path.exists(copy):
            with _aside(copy) as new:
                _clone(f"file://{path}", new, None, commit)
        return os.path.join(copy, "source")


def _checked_commit(commit: str) -> str:
    if not _COMMIT.fullmatch(commit.lower()):
        raise InvalidRepo(f"commit: {commit!r} is malformed: expected 7 to 64 hexadecimal digits")
    return commit.lower()


@contextlib.contextmanager
def _aside(folder: str) -> Iterator[str]:
    """A block that fills another folder, which takes the place of ``folder`` when it is whole."""
    parent = os.path.dirname(folder)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=parent) as aside:
        new = os.path.join(aside, "new")
        os.mkdir(new)
        yield new
        if os.path.exists(folder):
            tools.forget_modules(os.path.join(folder, "source"))
            os.rename(folder, os.path.join(aside, "old"))
        try:
            os.rename(new, folder)
        except OSError:
            if not os.path.exists(folder):  # another process may have put its own there
                raise


def _clone(url: str, new: str, branch: str | None, commit: str | None) -> str:
    """Clones with git into ``new/source``, without what git keeps itself; returns the commit."""
    source = os.path.join(new, "source")
    how = ["clone", "--quiet", "--no-checkout", "--no-recurse-submodules"]
    if commit is None and branch is not None:
        how += ["--depth", "1", "--branch", branch]
    _git([*how, "--", url, source], new, GitPullError, "Repo pull error, please check repo info.")
    revision = "HEAD" if commit is None else commit
    _git(
        ["checkout", "--quiet", "--detach", revision, "--"],
        source,
        GitCheckoutError,
        f"Git checkout error, please check commit id {revision}.",
    )
    found = _git(["rev-parse", "HEAD"], source, GitCheckoutError, "There is no commit.")
    shutil.rmtree(os.path.join(source, ".git"))
    return found.strip()


def _git(arguments: list[str], folder: str, kind: type[FetcherError], text: str) -> str:
    """Runs git and returns what it prints."""
    # Links become files with the name they lead to, as in archives; nobody is asked for passwords.
    options = ["-c", "core.symlinks=false", "-c", "core.protectHFS=true"]
    environment: dict[str, Any] = {
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
    }
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # of a hook that runs this program
        environment.pop(name, None)
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT,
            check=False,
        )
    except FileNotFoundError as error:
        raise kind(f"{text} git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise kind(f"{text} git took more than {GIT_TIMEOUT} seconds") from error
    if done.returncode:
        raise kind(f"{text}\n{done.stderr.strip()}")
    return done.stdout
