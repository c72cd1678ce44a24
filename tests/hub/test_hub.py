"""The hub: repositories by archive, by git and from folders, what may run of them, and weights."""

from __future__ import annotations

import doctest
import hashlib
import io
import json
import os
import pathlib
import pickle
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine import hub
from megengine import module as M
from megengine.hub import fetcher, tools
from megengine.hub.exceptions import (
    FetcherError,
    GitCheckoutError,
    GitPullError,
    InvalidGitHost,
    InvalidProtocol,
    InvalidRepo,
    UntrustedRepo,
)
from megengine.hub.hub import _get_megengine_home
from megengine.utils.archive import ArchiveError
from megengine.utils.http_download import HTTPDownloadError, WrongDigestError
from tests.server import Server, serve

Folder = pathlib.Path
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"

HUBCONF = '''
dependencies = ["numpy", "megengine"]
import models.net
from models.net import answer

def twice(x, *, plus=0):
    """Twice a number."""
    return 2 * x + plus

class Net:
    """A net."""

def late():
    import models.late
    return models.late.value

def _hidden():
    pass

number = 3
'''


@pytest.fixture(autouse=True)
def _clean(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of its own for each test, and no modules of repositories left behind."""
    monkeypatch.setenv("MGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("MGE_HUB_TRUST", raising=False)
    monkeypatch.delenv("MGE_HUB_CHECK_HASH", raising=False)
    path = list(sys.path)
    yield
    assert sys.path == path
    for folder in list(tools._modules):
        tools.forget_modules(folder)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Stands in for GitHub."""
    with serve() as server:

        def link(cls: Any, host: str, owner: str, name: str, branch: str, commit: Any) -> str:
            return f"{server.url}/{host}/{owner}/{name}/{commit or branch}.zip"

        monkeypatch.setattr(fetcher.GitHTTPSFetcher, "_git_archive_link", classmethod(link))
        yield server


def archive(
    files: dict[str, str], commit: str | None = COMMIT, top: str = "models-master/"
) -> bytes:
    """What GitHub gives: one folder, and the commit as the comment."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        if top:
            file.writestr(top, "")
        for name, text in files.items():
            file.writestr(top + name, text)
        file.comment = (commit or "").encode()
    return data.getvalue()


def repository(**changes: str) -> dict[str, str]:
    files = {
        "hubconf.py": HUBCONF,
        "models/__init__.py": "",
        "models/net.py": "def answer():\n    'The answer.'\n    return 42\n",
        "models/late.py": "value = 'late'\n",
    }
    return {**files, **changes}


PLACE = "/github.com/megengine/models/master.zip"


def kept(folder: Folder) -> list[str]:
    """The names in the cache of repositories."""
    return sorted(p.name for p in (folder / "home/hub").iterdir() if p.name != "trusted.json")


# ---- repositories over HTTPS --------------------------------------------------------------------


def test_load(server: Server):
    server.answers[PLACE] = archive(repository())
    current = os.getcwd()
    assert hub.load("megengine/models", "twice", 4, plus=1, trust_repo=True) == 9
    assert os.getcwd() == current
    assert hub.load("megengine/models", "answer") == 42
    assert hub.load("megengine/models", "late") == "late"
    assert type(hub.load("megengine/models", "Net")).__name__ == "Net"
    assert hub.help("megengine/models", "twice") == "Twice a number."
    assert hub.help("megengine/models", "Net") == "A net."
    assert hub.list("megengine/models") == ["Net", "_hidden", "answer", "late", "twice"]
    module = hub.import_module("megengine/models", git_host="github.com")
    assert module.number == 3
    assert server.asked == [PLACE]  # fetched once
    for entry in ("nothing", "number"):
        with pytest.raises(RuntimeError, match=f"Cannot find callable {entry} in hubconf.py"):
            hub.load("megengine/models", entry)
    with pytest.raises(TypeError, match="expected the name of a callable, got 3"):
        hub.help("megengine/models", 3)  # type: ignore[arg-type]


def test_where_things_are_kept(server: Server, tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    server.answers[PLACE] = archive(repository())
    hub.list("megengine/models", trust_repo=True)
    (name,) = kept(tmp_path)
    assert name.startswith("megengine_models_master_")
    origin = json.loads((tmp_path / "home/hub" / name / "origin.json").read_text())
    assert origin == {"repo": "github.com/megengine/models", "revision": COMMIT}
    assert (tmp_path / "home/hub" / name / "source/hubconf.py").read_text() == HUBCONF
    monkeypatch.delenv("MGE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert _get_megengine_home() == str(tmp_path / "cache/megengine")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _get_megengine_home() == os.path.expanduser("~/.cache/megengine")


def test_branches_commits_hosts_and_owners_are_kept_apart(server: Server, tmp_path: Folder):
    names = {
        ("megengine/models", "github.com", None): "/github.com/megengine/models/master.zip",
        ("megengine/models:dev/x", "github.com", None): "/github.com/megengine/models/dev/x.zip",
        ("megengine/models", "github.com", COMMIT): f"/github.com/megengine/models/{COMMIT}.zip",
        ("megengine/models", "gitlab.com", None): "/gitlab.com/megengine/models/master.zip",
        ("other/models", "github.com", None): "/github.com/other/models/master.zip",
    }
    for number, place in enumerate(names.values()):
        text = f"import part\ndef which():\n    import part\n    return part.number, {number}\n"
        files = {"hubconf.py": text, "part.py": f"number = {number}\n"}
        server.answers[place] = archive(files)
    for _ in range(2):  # the second time from the cache; their modules have the same name
        for number, (repo, host, commit) in enumerate(names):
            found = hub.load(repo, "which", git_host=host, commit=commit, trust_repo=True)
            assert found == (number, number)
    assert server.asked == list(names.values())
    assert len(kept(tmp_path)) == 5


def test_fetching_anew(server: Server, tmp_path: Folder):
    server.answers[PLACE] = archive(repository())
    assert hub.load("megengine/models", "answer", trust_repo=True) == 42
    server.answers[PLACE] = archive(
        repository(**{"models/net.py": "def answer():\n    return 43\n"}), OTHER
    )
    assert hub.load("megengine/models", "answer") == 42
    assert hub.load("megengine/models", "answer", use_cache=False, trust_repo=True) == 43
    assert hub.load("megengine/models", "answer") == 43
    # What cannot be fetched leaves what is there.
    server.answers[PLACE] = b"no archive"
    with pytest.raises(ArchiveError):
        hub.load("megengine/models", "answer", use_cache=False)
    del server.answers[PLACE]
    with pytest.raises(HTTPDownloadError, match="404") as caught:
        hub.load("megengine/models", "answer", use_cache=False)
    assert "'megengine/models:main'" in caught.value.__notes__[0]
    assert hub.load("megengine/models", "answer") == 43
    assert len(kept(tmp_path)) == 1


def test_commits_are_checked(server: Server, tmp_path: Folder):
    place = f"/github.com/megengine/models/{COMMIT[:10]}.zip"
    server.answers[place] = archive(repository())
    hub.list("megengine/models", commit=COMMIT[:10].upper(), trust_repo=True)
    server.answers[place] = archive(repository(), OTHER)
    with pytest.raises(GitCheckoutError, match=f"is of commit {OTHER}, expected {COMMIT[:10]}"):
        hub.list("megengine/models", commit=COMMIT[:10], use_cache=False, trust_repo=True)
    assert hub.list("megengine/models", commit=COMMIT[:10])  # the one that is there
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize(
    "repo",
    [
        "models",
        "a/b/c",
        "../b",
        "a/..",
        "a/.",
        "a b/c",
        "a/b:",
        "a/b:../../x",
        "a/b:x/../y",
        "a/b:-x",
        "a/b:x//y",
        "a/b:x.lock",
        "a/b:x y",
        "a/b:x/",
        "a/b:x\n",
        "a/b\n",
        "-a/b",
        "https://x/y",
        "a\\b/c",
        "a/b%2f..",
        "",
    ],
)
def test_names_of_repositories(server: Server, repo: str):
    # One that starts with ../ is a folder, which is not there.
    match = "there is no folder" if repo.startswith("../") else "is invalid"
    with pytest.raises(InvalidRepo, match=match):
        hub.load(repo, "x", trust_repo=True)
    assert server.asked == []


@pytest.mark.parametrize(
    "host",
    ["", "a", "https://github.com", "github.com/..", "a@github.com", "github.com:x", "-a.com",
     "github.com:99999", "256.1.1.1", "git hub.com", "github.com\n", "--upload-pack=x"],
)  # fmt: skip
def test_names_of_hosts(server: Server, host: str):
    with pytest.raises(InvalidGitHost, match="is malformed"):
        hub.list("megengine/models", git_host=host, trust_repo=True)
    assert server.asked == []


def test_other_names(server: Server):
    for commit in ("abc", "../../x", "--help", "g" * 40, COMMIT + "\n", ""):
        with pytest.raises(InvalidRepo, match=r"commit: .* is malformed"):
            hub.list("megengine/models", commit=commit, trust_repo=True)
    with pytest.raises(InvalidProtocol, match="HTTPS, SSH: got 'FTP'"):
        hub.list("megengine/models", protocol="FTP")
    assert server.asked == []
    check = fetcher.RepoFetcherBase._check_git_host
    assert all(check(h) for h in ("github.com", "git.x-y.com", "127.0.0.1:8080", "10.0.0.1"))


def test_the_address():
    link = fetcher.GitHTTPSFetcher._git_archive_link
    assert (
        link("github.com", "megengine", "models", "master", None)
        == "https://github.com/megengine/models/archive/master.zip"
    )
    assert link("github.com", "a", "b", "master", COMMIT).endswith(f"/archive/{COMMIT}.zip")


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (None, HTTPDownloadError, "404"),
        (b"", ArchiveError, "no zip file"),
        (b"no zip file at all", ArchiveError, "no zip file"),
        (archive(repository())[:-100], ArchiveError, "no zip file"),
        ((200, {"Content-Length": "9999999"}, archive({})), HTTPDownloadError, "broke"),
        (archive({"../../evil.py": "1"}), ArchiveError, "leads out of the folder"),
        (archive({}, top="/etc/"), ArchiveError, "absolute name"),
        (archive({"a": "", "A": ""}), ArchiveError, "would be one file"),
        (archive({"a.py": ""}, top=""), FetcherError, "no archive of a repository"),
        (archive({"a.py": "x"}), FileNotFoundError, r"has no hubconf\.py"),
        (archive({"hubconf.py": "1 +"}), SyntaxError, "invalid syntax"),
        (archive({"hubconf.py": "1 / 0"}), ZeroDivisionError, "division"),
        (archive({"hubconf.py": "import no_such"}), ModuleNotFoundError, "no_such"),
        (
            archive({"hubconf.py": "import no_such\ndependencies = ['numpy', 'no_such']"}),
            RuntimeError,
            "needs packages that are not installed: no_such",
        ),
    ],
)
def test_repositories_that_are_none(
    server: Server, tmp_path: Folder, answer: Any, error: Any, match: str
):
    if answer is not None:
        server.answers[PLACE] = answer
    with pytest.raises(error, match=match):
        hub.list("megengine/models", trust_repo=True)
    hidden = [p for p in (tmp_path / "home/hub").iterdir() if p.name.startswith(".")]
    assert hidden == []
    assert not list(tmp_path.rglob("evil.py"))
    assert "hubconf" not in sys.modules
    # Nothing that is broken stays in the cache.
    if error in (HTTPDownloadError, ArchiveError, FetcherError):
        assert kept(tmp_path) == []


def test_links_in_archives_are_text(server: Server, tmp_path: Folder):
    data = io.BytesIO(archive(repository()))
    with zipfile.ZipFile(data, "a") as file:
        info = zipfile.ZipInfo("models-master/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/hostname")
        file.comment = COMMIT.encode()
    server.answers[PLACE] = data.getvalue()
    hub.list("megengine/models", trust_repo=True)
    link = tmp_path / "home/hub" / kept(tmp_path)[0] / "source/link"
    assert not link.is_symlink()
    assert link.read_text() == "/etc/hostname"


def test_a_damaged_note_of_the_origin(server: Server, tmp_path: Folder):
    server.answers[PLACE] = archive(repository())
    hub.list("megengine/models", trust_repo=True)
    (tmp_path / "home/hub" / kept(tmp_path)[0] / "origin.json").write_text("{")
    with pytest.raises(FetcherError, match=r"origin.json is damaged.* use_cache=False"):
        hub.list("megengine/models")
    assert hub.list("megengine/models", use_cache=False)


# ---- what may run -------------------------------------------------------------------------------


def test_nothing_runs_unasked(server: Server, tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))  # no terminal
    ran = tmp_path / "ran"
    text = f"import os\nos.makedirs({str(ran)!r}, exist_ok=True)\ndef f():\n    return 1\n"
    server.answers[PLACE] = archive({"hubconf.py": text})
    calls: list[Callable[[], Any]] = [
        lambda: hub.list("megengine/models"),
        lambda: hub.help("megengine/models", "f"),
        lambda: hub.load("megengine/models", "f"),
        lambda: hub.import_module("megengine/models"),
    ]
    for call in calls:
        with pytest.raises(UntrustedRepo) as caught:
            call()
        for part in (
            f"github.com/megengine/models at {COMMIT}",
            "trust_repo=True",
            "MGE_HUB_TRUST=megengine/models",
        ):
            assert part in str(caught.value)
    assert not ran.exists()
    assert hub.load("megengine/models", "f", trust_repo=True) == 1
    assert ran.exists()
    assert hub.load("megengine/models", "f") == 1  # noted
    # Another commit is another question.
    server.answers[PLACE] = archive({"hubconf.py": text}, OTHER)
    with pytest.raises(UntrustedRepo, match=OTHER):
        hub.load("megengine/models", "f", use_cache=False)
    # And so is the same commit of another owner, or from another host.
    server.answers["/github.com/other/models/master.zip"] = archive({"hubconf.py": text})
    server.answers["/gitlab.com/megengine/models/master.zip"] = archive({"hubconf.py": text})
    with pytest.raises(UntrustedRepo):
        hub.load("other/models", "f")
    with pytest.raises(UntrustedRepo):
        hub.load("megengine/models", "f", git_host="gitlab.com")


def test_archives_without_a_commit(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.answers[PLACE] = archive(repository(), None)
    with pytest.raises(UntrustedRepo, match=r"at sha256:[0-9a-f]{64} has not run"):
        hub.list("megengine/models")
    hub.list("megengine/models", trust_repo=True)
    server.answers[PLACE] = archive(repository(extra="x"), None)
    with pytest.raises(UntrustedRepo):
        hub.list("megengine/models", use_cache=False)


@pytest.mark.parametrize(
    ("value", "runs"),
    [
        ("megengine/models", True),
        ("github.com/megengine/models", True),
        ("x/y, megengine/models ,z/w", True),
        (f"megengine/models@{COMMIT}", True),
        (f"megengine/models@{COMMIT[:12]}", True),
        (f"megengine/models@{OTHER}", False),
        ("megengine/models@", True),
        ("megengine/models@0", False),
        ("megengine/model", False),
        ("gitlab.com/megengine/models", False),
        ("", False),
    ],
)
def test_the_variable(server: Server, monkeypatch: pytest.MonkeyPatch, value: str, runs: bool):
    server.answers[PLACE] = archive(repository())
    monkeypatch.setenv("MGE_HUB_TRUST", value)
    if runs:
        assert hub.load("megengine/models", "answer") == 42
    else:
        with pytest.raises(UntrustedRepo):
            hub.load("megengine/models", "answer")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "runs"), [("y", True), ("Yes", True), ("n", False), ("", False), ("sure", False)]
)
def test_the_question(server: Server, monkeypatch: pytest.MonkeyPatch, answer: str, runs: bool):
    server.answers[PLACE] = archive(repository())
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    monkeypatch.setattr(sys, "stderr", screen)
    if runs:
        assert hub.load("megengine/models", "answer") == 42
        monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
        assert hub.load("megengine/models", "answer") == 42  # asked once
    else:
        with pytest.raises(UntrustedRepo):
            hub.load("megengine/models", "answer")
    assert screen.getvalue().count("[y/N]") == 1
    assert f"github.com/megengine/models at {COMMIT}" in screen.getvalue()


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}'])
def test_damaged_answers(server: Server, tmp_path: Folder, text: str):
    server.answers[PLACE] = archive(repository())
    (tmp_path / "home/hub").mkdir(parents=True)
    (tmp_path / "home/hub/trusted.json").write_text(text)
    with pytest.raises(FetcherError, match=r"trusted.json is damaged.* remove it"):
        hub.load("megengine/models", "answer", trust_repo=True)


# ---- git and folders ----------------------------------------------------------------------------


def git(folder: Folder, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=master"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def write(folder: Folder, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def project(tmp_path: Folder) -> tuple[Folder, str]:
    """A git repository with two commits and a branch; and its first commit."""
    folder = tmp_path / "project"
    write(folder, repository())
    git(folder, "init", "-q")
    (folder / "link").symlink_to("/etc/hostname")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    first = git(folder, "rev-parse", "HEAD")
    git(folder, "branch", "old/one")
    write(folder, {"models/net.py": "def answer():\n    return 43\n"})
    git(folder, "commit", "-q", "-a", "-m", "two")
    return folder, first


@needs_git
def test_ssh(project: tuple[Folder, str], tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    folder, first = project

    def link(cls: Any, host: str, owner: str, name: str) -> str:
        assert (host, owner) == ("git.example.org", "me")
        return f"file://{folder.parent}/{name}"

    monkeypatch.setattr(fetcher.GitSSHFetcher, "_git_link", classmethod(link))
    how: dict[str, Any] = {"git_host": "git.example.org", "protocol": "SSH"}
    with pytest.raises(UntrustedRepo, match=r"git.example.org/me/project at [0-9a-f]{40}"):
        hub.load("me/project", "answer", **how)
    how["trust_repo"] = True
    assert hub.load("me/project", "answer", **how) == 43
    assert hub.load("me/project:old/one", "answer", **how) == 42
    assert hub.load("me/project", "answer", commit=first, **how) == 42
    assert hub.load("me/project", "answer", commit=first[:9], **how) == 42
    shutil.rmtree(folder / ".git")  # all of it is in the cache now
    assert hub.load("me/project", "answer", **how) == 43
    for name in kept(tmp_path):
        source = tmp_path / "home/hub" / name / "source"
        assert not (source / ".git").exists()
        assert not (source / "link").is_symlink()
    assert len(kept(tmp_path)) == 4
    with pytest.raises(GitPullError, match="Repo pull error"):
        hub.load("me/project", "answer", use_cache=False, **how)
    assert hub.load("me/project", "answer", **how) == 43


@needs_git
def test_what_git_cannot_find(
    project: tuple[Folder, str], tmp_path: Folder, monkeypatch: pytest.MonkeyPatch
):
    folder, _ = project
    monkeypatch.setattr(
        fetcher.GitSSHFetcher, "_git_link", classmethod(lambda *a: f"file://{folder}")
    )
    how: dict[str, Any] = {"protocol": "SSH", "trust_repo": True}
    with pytest.raises(GitPullError, match="Remote branch nothing not found"):
        hub.list("me/project:nothing", **how)
    with pytest.raises(GitCheckoutError, match="please check commit id 0123456"):
        hub.list("me/project", commit="0123456", **how)
    assert kept(tmp_path) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitPullError, match="git is not installed"):
        hub.list("me/project", **how)


def test_the_address_of_git():
    link = fetcher.GitSSHFetcher._git_link
    assert link("github.com", "a", "b") == "ssh://git@github.com/a/b.git"
    assert link("git.example.org:2222", "a", "b") == "ssh://git@git.example.org:2222/a/b.git"


@needs_git
def test_folders(project: tuple[Folder, str], tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    folder, first = project
    assert hub.load(str(folder), "answer") == 43  # your own: nothing is asked
    assert hub.load(f"file://{folder}", "twice", 3) == 6
    monkeypatch.chdir(folder.parent)
    assert hub.list("./project") == ["Net", "_hidden", "answer", "late", "twice"]
    assert kept(tmp_path) == []  # it is used where it is
    write(folder, {"models/net.py": "def answer():\n    return 'now'\n"})
    assert hub.load("./project", "answer", use_cache=False) == "now"
    assert hub.load("./project", "answer", commit=first) == 42
    assert hub.load("./project", "answer") == "now"
    assert len(kept(tmp_path)) == 1
    with pytest.raises(GitCheckoutError, match="please check commit id"):
        hub.load(str(folder), "answer", commit=OTHER)
    with pytest.raises(InvalidRepo, match=r"commit: '../x' is malformed"):
        hub.load(str(folder), "answer", commit="../x")
    with pytest.raises(InvalidRepo, match="there is no folder"):
        hub.load("./nothing", "answer")
    with pytest.raises(FileNotFoundError, match=r"has no hubconf\.py"):
        hub.list(str(tmp_path))


def test_the_programs_own_modules_stay(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "part", mge)  # the program has imported a "part" of its own
    text = "import part\ndef which():\n    return part.__name__\n"
    server.answers[PLACE] = archive({"hubconf.py": text, "part.py": ""})
    # As anywhere in Python, the module that is loaded already is the one that is imported.
    assert hub.load("megengine/models", "which", trust_repo=True) == "megengine"
    assert sys.modules["part"] is mge


# ---- weights ------------------------------------------------------------------------------------


def weights(**arrays: Any) -> bytes:
    file = io.BytesIO()
    mge.save(arrays, file)
    return file.getvalue()


WEIGHTS = weights(w=np.arange(3, dtype="float32"))
DIGESTS = {name: hashlib.new(name, WEIGHTS).hexdigest() for name in ("md5", "sha1", "sha256")}


def test_weights(server: Server, tmp_path: Folder):
    server.answers["/net.pkl"] = WEIGHTS
    url = server.url + "/net.pkl"
    for _ in range(2):
        assert hub.load_serialized_obj_from_url(url)["w"].tolist() == [0, 1, 2]
    assert server.asked == ["/net.pkl"]
    # The names are those of the reference, which so finds what is here, and the other way round.
    unique = hashlib.sha256(url.encode()).hexdigest()[:6]
    assert os.listdir(tmp_path / "home/serialized") == [f"{unique}_net.pkl"]
    hub.load_serialized_obj_from_url(url, model_dir=str(tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == [f"{unique}_net.pkl"]


def test_names_cannot_lead_out(server: Server, tmp_path: Folder):
    for path in ("/..%2f..%2fevil.pkl", "/a/%2e%2e", "/x%00y.pkl", "/", "/" + "n" * 300 + ".pkl"):
        server.answers[path] = WEIGHTS
        hub.load_serialized_obj_from_url(server.url + path, model_dir=str(tmp_path / "deep/mine"))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["mine"]
    assert len(os.listdir(tmp_path / "deep/mine")) == 5


def test_digests(server: Server, tmp_path: Folder):
    for name, digest in DIGESTS.items():
        for ending in (f"_{digest[:8]}", f"-{digest[:8]}", f"_{digest}"):
            path = f"/{name}{ending}.pkl"
            if digest[:8].isdecimal():
                continue
            server.answers[path] = WEIGHTS
            assert "w" in hub.load_serialized_obj_from_url(server.url + path)
    server.answers["/net_deadbeef.pkl"] = WEIGHTS
    url = server.url + "/net_deadbeef.pkl"
    before = os.listdir(tmp_path / "home/serialized")
    with pytest.raises(WrongDigestError, match="starts with deadbeef") as caught:
        hub.load_serialized_obj_from_url(url)
    assert "check_hash=False" in caught.value.__notes__[0]
    assert os.listdir(tmp_path / "home/serialized") == before
    assert "w" in hub.load_serialized_obj_from_url(url, check_hash=False)
    with pytest.raises(WrongDigestError, match=r"Remove it to have http.*downloaded again"):
        hub.load_serialized_obj_from_url(url)  # the cached file is checked, too
    for plain in ("/net_20211231.pkl", "/net_2c0de7.pkl", "/net_deadbeef_end.pkl"):
        server.answers[plain] = WEIGHTS
        assert "w" in hub.load_serialized_obj_from_url(server.url + plain)


def test_the_variable_for_digests(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.answers["/net_deadbeef.pkl"] = WEIGHTS
    monkeypatch.setenv("MGE_HUB_CHECK_HASH", "0")
    assert "w" in hub.load_serialized_obj_from_url(server.url + "/net_deadbeef.pkl")


def test_sha256(server: Server, tmp_path: Folder):
    server.answers["/net.pkl"] = WEIGHTS
    url = server.url + "/net.pkl"
    with pytest.raises(WrongDigestError, match="expected"):
        hub.load_serialized_obj_from_url(url, sha256="0" * 64)
    hub.load_serialized_obj_from_url(url, sha256=DIGESTS["sha256"])
    with pytest.raises(WrongDigestError, match="another file than expected, or damaged"):
        hub.load_serialized_obj_from_url(url, sha256="0" * 64)
    (path,) = (tmp_path / "home/serialized").iterdir()
    path.write_bytes(WEIGHTS[:-1])
    with pytest.raises(WrongDigestError, match="damaged"):
        hub.load_serialized_obj_from_url(url, sha256=DIGESTS["sha256"].upper())


class Evil:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (self.target,)


def test_weights_cannot_run(server: Server, tmp_path: Folder):
    server.answers["/evil.pkl"] = pickle.dumps(Evil(str(tmp_path / "owned")))
    with pytest.raises(pickle.UnpicklingError, match=r"names posix.mkdir"):
        hub.load_serialized_obj_from_url(server.url + "/evil.pkl")
    assert not (tmp_path / "owned").exists()


def test_weights_that_do_not_come(server: Server, tmp_path: Folder):
    with pytest.raises(HTTPDownloadError, match="404"):
        hub.load_serialized_obj_from_url(server.url + "/nothing.pkl")
    server.answers["/net.pkl"] = (200, {"Content-Length": "99999"}, WEIGHTS)
    with pytest.raises(HTTPDownloadError, match="broke"):
        hub.load_serialized_obj_from_url(server.url + "/net.pkl")
    assert os.listdir(tmp_path / "home/serialized") == []
    with pytest.raises(FileNotFoundError, match=r"a file of this machine, got 's3://a/b.pkl'"):
        hub.load_serialized_obj_from_url("s3://a/b.pkl")


def test_weights_of_this_machine(tmp_path: Folder):
    path = tmp_path / "net.pkl"
    path.write_bytes(WEIGHTS)
    assert "w" in hub.load_serialized_obj_from_url(str(path))
    assert "w" in hub.load_serialized_obj_from_url(f"file://{path}", sha256=DIGESTS["sha256"])
    with pytest.raises(WrongDigestError):
        hub.load_serialized_obj_from_url(f"file://{path}", sha256="0" * 64)


def test_pretrained(server: Server):
    server.answers["/fc.pkl"] = weights(weight=np.full((1, 2), 7, "float32"), bias=np.ones(1))
    asked: list[dict[str, Any]] = []

    @hub.pretrained(server.url + "/fc.pkl")
    def net(**kwargs: Any) -> M.Linear:
        """A layer."""
        asked.append(kwargs)
        return M.Linear(2, 1)

    assert (net.__name__, net.__doc__) == ("net", "A layer.")
    assert net(x=1).weight.numpy().tolist() != [[7, 7]]
    assert server.asked == []
    assert net(pretrained=True).weight.numpy().tolist() == [[7, 7]]
    assert net(True, x=2).bias.numpy().tolist() == [1]
    assert asked == [{"x": 1}, {}, {"x": 2}]
    with pytest.raises(WrongDigestError):
        hub.pretrained(server.url + "/fc.pkl", sha256="0" * 64)(net)(pretrained=True)
    server.answers["/part.pkl"] = weights(weight=np.full((1, 2), 7, "float32"))
    with pytest.raises(KeyError, match="bias"):
        hub.pretrained(server.url + "/part.pkl")(lambda: M.Linear(2, 1))(pretrained=True)


def test_the_examples_of_the_page(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(__file__).parents[2] / "docs/hub.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 3) == (0, True)
