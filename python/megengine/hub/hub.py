"""Models of other people's repositories, and their weights."""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import os
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from ..logger import get_logger
from ..serialization import load as _load_serialized
from ..utils.http_download import WrongDigestError, download_from_url, file_digest
from . import tools
from .const import (
    DEFAULT_CACHE_DIR,
    DEFAULT_GIT_HOST,
    DEFAULT_PROTOCOL,
    ENV_CHECK_HASH,
    ENV_MGE_HOME,
    ENV_XDG_CACHE_HOME,
    HTTP_READ_TIMEOUT,
    HUBCONF,
    HUBDEPENDENCY,
)
from .exceptions import InvalidProtocol
from .fetcher import GitHTTPSFetcher, GitSSHFetcher, LocalFetcher, RepoFetcherBase
from .trust import ensure_trusted

__all__ = [
    "help",
    "import_module",
    "list",
    "load",
    "load_serialized_obj_from_url",
    "pretrained",
]

logger = get_logger(__name__)

PROTOCOLS: dict[str, type[RepoFetcherBase]] = {"HTTPS": GitHTTPSFetcher, "SSH": GitSSHFetcher}

_DIGESTS = ("sha256", "md5", "sha1")  # the likely one first


def _get_megengine_home() -> str:
    """The folder of everything that is kept: MGE_HOME, or ``megengine`` in the user's cache."""
    cache = os.environ.get(ENV_XDG_CACHE_HOME) or DEFAULT_CACHE_DIR
    home = os.environ.get(ENV_MGE_HOME) or os.path.join(cache, "megengine")
    return os.path.abspath(os.path.expanduser(home))


# ---- repositories -------------------------------------------------------------------------------


def _get_repo(
    git_host: str,
    repo_info: str,
    use_cache: bool = False,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
) -> str:
    """The folder of a repository whose code may run."""
    if protocol not in PROTOCOLS:
        raise InvalidProtocol(
            f"Invalid protocol, the value should be one of {', '.join(PROTOCOLS)}: got {protocol!r}"
        )
    folder = os.path.join(_get_megengine_home(), "hub")
    os.makedirs(folder, exist_ok=True)
    if LocalFetcher.is_local(repo_info):
        repo_info = os.path.abspath(os.path.expanduser(repo_info.removeprefix("file://")))
        return LocalFetcher.fetch(repo_info, folder, use_cache, commit)
    fetcher = PROTOCOLS[protocol]
    with tools.cd(folder):
        source = fetcher.fetch(git_host, repo_info, use_cache, commit)
    ensure_trusted(fetcher.origin(source), trust_repo, folder)
    return source


def _check_dependencies(folder: str) -> None:
    """Raises for packages that a repository says it needs and that are not installed.

    The list is read without running the file, which would fail at the first import that fails.
    """
    with open(os.path.join(folder, HUBCONF), "rb") as file:
        tree = ast.parse(file.read(), HUBCONF)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == HUBDEPENDENCY
            for target in statement.targets
        ):
            names = ast.literal_eval(statement.value)
            missing = [name for name in names if not tools.check_module_exists(name)]
            if missing:
                raise RuntimeError(
                    f"hub: {folder} needs packages that are not installed: {', '.join(missing)}"
                )


def _init_hub(
    repo_info: str,
    git_host: str,
    use_cache: bool = True,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
) -> tuple[ModuleType, str]:
    """The module of a repository's hubconf.py, and its folder."""
    folder = _get_repo(git_host, repo_info, use_cache, commit, protocol, trust_repo)
    if not os.path.isfile(os.path.join(folder, HUBCONF)):
        raise FileNotFoundError(f"hub: {repo_info} has no {HUBCONF}: it is not made for the hub")
    _check_dependencies(folder)
    with tools.modules_of(folder):
        return tools.load_module("hubconf", os.path.join(folder, HUBCONF)), folder


def _find(module: ModuleType, entry: str) -> Callable[..., Any]:
    if not isinstance(entry, str):
        raise TypeError(f"hub: expected the name of a callable, got {entry!r}")
    found = getattr(module, entry, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {entry} in {HUBCONF}")
    return found


def import_module(
    repo_info: str,
    git_host: str = DEFAULT_GIT_HOST,
    use_cache: bool = True,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
) -> ModuleType:
    """The module of a repository's ``hubconf.py``.

    The repository's code runs: the first time for each commit, somebody has to say that it may.

    Args:
        repo_info: "owner/name" or "owner/name:branch" (or a tag; "master" without). A folder of
            this machine works too, as a path that starts with ``/``, ``./``, ``../``, ``~`` or
            ``file://``; its code runs without a question.
        git_host: the host; one that answers as GitHub or GitLab do.
        use_cache: takes what was fetched earlier; fetches anew otherwise.
        commit: a commit, 7 to 64 hexadecimal digits, which goes before the branch. Only a commit
            names the same code tomorrow.
        protocol: "HTTPS" fetches an archive, of a public repository; "SSH" clones with git.
        trust_repo: says that the code may run. Without it a question is asked on a terminal; else
            it must have run before at this commit, or the variable MGE_HUB_TRUST must name the
            repository.

    Raises:
        megengine.hub.exceptions.UntrustedRepo: nobody has said that the code may run.
        megengine.hub.exceptions.FetcherError: a name is malformed, or git cannot fetch.
        megengine.utils.http_download.HTTPDownloadError: the archive cannot be fetched.
        megengine.utils.archive.ArchiveError: the archive is damaged, or could do harm.
        FileNotFoundError: the repository has no ``hubconf.py``.
        RuntimeError: a package that it needs is not installed.

    >>> models = import_module("megengine/models", trust_repo=True)  # doctest: +SKIP
    """
    return _init_hub(repo_info, git_host, use_cache, commit, protocol, trust_repo)[0]


def list(
    repo_info: str,
    git_host: str = DEFAULT_GIT_HOST,
    use_cache: bool = True,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
) -> builtins.list[str]:
    """The names of what can be called in a repository's ``hubconf.py``.

    Arguments and errors are those of :func:`import_module`.

    >>> list("megengine/models", trust_repo=True)  # doctest: +SKIP
    ['resnet18', 'resnet34', ...]
    """
    module = import_module(repo_info, git_host, use_cache, commit, protocol, trust_repo)
    return [name for name in dir(module) if callable(getattr(module, name))]


def load(
    repo_info: str,
    entry: str,
    *args: Any,
    git_host: str = DEFAULT_GIT_HOST,
    use_cache: bool = True,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function or class of a repository's ``hubconf.py`` gives: mostly a model.

    Args:
        repo_info: as in :func:`import_module`, and so are the arguments not named here.
        entry: the name of the function or class.
        *args: its arguments.
        git_host: see :func:`import_module`.
        use_cache: see :func:`import_module`.
        commit: see :func:`import_module`.
        protocol: see :func:`import_module`.
        trust_repo: see :func:`import_module`.
        **kwargs: more of its arguments.

    Raises:
        RuntimeError: there is no such function; a package is not installed.
        megengine.hub.exceptions.FetcherError: as in :func:`import_module`, like the others.

    >>> model = load("megengine/models", "resnet18", pretrained=True,  # doctest: +SKIP
    ...              commit="9c5729ef412e38acede9fa1f1c479afb5d6d93be", trust_repo=True)
    """
    module, folder = _init_hub(repo_info, git_host, use_cache, commit, protocol, trust_repo)
    function = _find(module, entry)
    with tools.modules_of(folder):  # for what it imports when it is called
        return function(*args, **kwargs)


def help(
    repo_info: str,
    entry: str,
    git_host: str = DEFAULT_GIT_HOST,
    use_cache: bool = True,
    commit: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    trust_repo: bool = False,
) -> str | None:
    """The docstring of a function or class of a repository's ``hubconf.py``.

    Arguments and errors are those of :func:`load`.

    >>> print(help("megengine/models", "resnet18", trust_repo=True))  # doctest: +SKIP
    """
    module = import_module(repo_info, git_host, use_cache, commit, protocol, trust_repo)
    return _find(module, entry).__doc__


# ---- weights ------------------------------------------------------------------------------------


def load_serialized_obj_from_url(
    url: str, model_dir: str | None = None, *, sha256: str | None = None, check_hash: bool = True
) -> Any:
    """Loads what ``megengine.save`` wrote, from an address.

    It is fetched once, checked and kept. It is read by :func:`megengine.load`: as data, and nothing
    in it can run.

    Args:
        url: an address of http or https; or a path, or ``file://``, of this machine.
        model_dir: where to keep it; ``MGE_HOME/serialized`` without.
        sha256: the SHA-256 that the file must have.
        check_hash: checks the digits at the end of names such as ``resnet18_78a63ca6.pkl``: the
            file's MD5, SHA-1 or SHA-256 must begin with them. The variable MGE_HUB_CHECK_HASH=0
            turns this off for programs that do not pass it.

    Raises:
        megengine.utils.http_download.HTTPDownloadError: it cannot be fetched, or is another file.
        pickle.UnpicklingError: it holds more than data, or is damaged.

    >>> weights = load_serialized_obj_from_url(  # doctest: +SKIP
    ...     "https://data.megengine.org.cn/models/weights/resnet18_naiveaug_70312_78a63ca6.pkl")
    """
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https"):
        path = os.path.expanduser(url.removeprefix("file://"))
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"hub: expected http://..., https://..., or a file of this machine, got {url!r}"
            )
        _check(path, url, sha256, None)
        return _load_serialized(path)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(unquote(urlsplit(url).path))) or "file"
    start = _digits(name) if check_hash and os.environ.get(ENV_CHECK_HASH) != "0" else None
    folder = os.path.join(_get_megengine_home(), "serialized") if model_dir is None else model_dir
    # Two addresses may end in one name.
    unique = hashlib.sha256(url.encode()).hexdigest()[:6]
    path = os.path.join(os.path.expanduser(folder), f"{unique}_{name[-200:]}")
    if os.path.exists(path):
        _check(path, url, sha256, start)
    else:
        logger.info("downloading from %s to %s", url, path)
        try:
            download_from_url(
                url, path, sha256=sha256, digest_start=start, timeout=HTTP_READ_TIMEOUT
            )
        except WrongDigestError as error:
            if start is not None:
                error.add_note(
                    f"The digits {start} are from the name of the file. If they are no digest, "
                    f"pass check_hash=False or set the environment variable {ENV_CHECK_HASH}=0"
                )
            raise
    return _load_serialized(path)


def _digits(name: str) -> str | None:
    """The digits of a digest at the end of a file's name, if there are any.

    Eight decimal ones may be a date, and are not taken for a digest.
    """
    found = re.search(r"[-_]([0-9a-f]{8,64})\.[A-Za-z0-9.]+$", name)
    return None if found is None or found[1].isdecimal() else found[1]


def _check(path: str, url: str, sha256: str | None, start: str | None) -> None:
    """Raises where a file that is there is another one than expected."""
    if sha256 is not None:
        right = file_digest(path, "sha256") == sha256.lower()
    elif start is not None:
        right = any(file_digest(path, name).startswith(start) for name in _DIGESTS)
    else:
        return
    if not right:
        raise WrongDigestError(
            f"hub: {path} is another file than expected, or damaged: its digest is not "
            f"{sha256 or start}. Remove it to have {url} downloaded again"
        )


class pretrained:  # noqa: N801 - the reference's name
    """Decorates a function that makes a model: with ``pretrained=True`` it comes with weights.

    Args:
        url: the address of the weights, as in :func:`load_serialized_obj_from_url`.
        sha256: the SHA-256 that their file must have.

    >>> import megengine.module as M
    >>> @pretrained("https://example.org/linear_78a63ca6.pkl")
    ... def linear(**kwargs):
    ...     return M.Linear(2, 1, **kwargs)
    >>> linear(bias=False)  # with pretrained=True: fetches the weights
    Linear(in_features=2, out_features=1, bias=False)
    """

    def __init__(self, url: str, *, sha256: str | None = None) -> None:
        self.url = url
        self.sha256 = sha256

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function that takes ``pretrained`` as its first argument, and others by name."""

        @functools.wraps(func)
        def make(pretrained: bool = False, **kwargs: Any) -> Any:
            model = func(**kwargs)
            if pretrained:
                weights = load_serialized_obj_from_url(self.url, sha256=self.sha256)
                model.load_state_dict(weights)
            return model

        return make
