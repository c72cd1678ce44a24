"""Downloads: whole and right, or an error and no file."""

from __future__ import annotations

import hashlib
import io
import pathlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from megengine.utils import http_download
from megengine.utils.http_download import (
    Bar,
    HTTPDownloadError,
    download_from_url,
    file_digest,
)
from tests.server import Handler, Server, serve

DATA = bytes(range(256)) * 5000
MD5 = hashlib.md5(DATA).hexdigest()
SHA1 = hashlib.sha1(DATA).hexdigest()
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as server:
        server.answers["/file"] = DATA
        yield server


def fails(server: Server, folder: pathlib.Path, match: str, path: str = "/file", **how: Any) -> str:
    """The download raises, and the file that was there stays as it was, alone in its folder."""
    target = folder / "kept"
    target.write_bytes(b"before")
    with pytest.raises(HTTPDownloadError, match=match) as caught:
        download_from_url(server.url + path, target, **how)
    assert target.read_bytes() == b"before"
    assert [p.name for p in folder.iterdir()] == ["kept"]
    assert server.url + path in str(caught.value)
    return str(caught.value)


def test_a_file(server: Server, tmp_path: pathlib.Path):
    target = tmp_path / "new/folder/file"
    assert download_from_url(server.url + "/file", target) == MD5
    assert target.read_bytes() == DATA
    server.answers["/file"] = b"another"
    assert download_from_url(server.url + "/file", str(target)) == file_digest(target, "md5")
    assert target.read_bytes() == b"another"
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    server.answers["/file"] = b""
    download_from_url(server.url + "/file", target)
    assert target.read_bytes() == b""


def test_digests(server: Server, tmp_path: pathlib.Path):
    url, target = server.url + "/file", tmp_path / "file"
    download_from_url(url, target, md5=MD5, sha256=SHA256.upper())
    for digest in (MD5[:8], SHA1[:8], SHA256[:6], SHA256):
        download_from_url(url, target, digest_start=digest)
    target.unlink()
    text = fails(server, tmp_path, "another file than expected", md5="0" * 32)
    assert MD5 in text
    assert "0" * 32 in text
    fails(server, tmp_path, "another file than expected", md5=MD5, sha256="0" * 64)
    fails(server, tmp_path, "starts with 00000000", digest_start="00000000")
    for wrong in ({"md5": "xyz"}, {"sha256": SHA256[:63]}, {"digest_start": ""}, {"md5": SHA256}):
        asked = len(server.asked)
        with pytest.raises(ValueError, match="expected a digest in hexadecimal"):
            download_from_url(url, target, **wrong)
        assert len(server.asked) == asked


def test_answers_other_than_the_file(server: Server, tmp_path: pathlib.Path):
    fails(server, tmp_path, "answered 404", path="/nothing")
    server.answers["/broken"] = (500, {}, b"")
    fails(server, tmp_path, "answered 500", path="/broken")


def test_a_connection_that_breaks(server: Server, tmp_path: pathlib.Path):
    server.answers["/file"] = (200, {"Content-Length": "2000000"}, DATA)
    fails(server, tmp_path, "broke")

    def hang_up(handler: Handler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.answers["/file"] = hang_up
    fails(server, tmp_path, "broke|cannot be reached")
    server.answers["/file"] = lambda handler: (
        handler.wfile.write(b"this is not HTTP\r\n\r\n") and None
    )
    fails(server, tmp_path, "broke")


def test_nobody_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as server:
        pass
    fails(server, tmp_path, "cannot be reached")


def test_timeout(server: Server, tmp_path: pathlib.Path):
    done = threading.Event()

    def slow(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"some")
        done.wait(60)

    server.answers["/file"] = slow
    fails(server, tmp_path, "nothing came for 0.2 seconds", timeout=0.2)

    def silent(handler: Handler) -> None:
        done.wait(60)

    server.answers["/file"] = silent
    fails(server, tmp_path, "nothing came for 0.2 seconds", timeout=0.2)
    done.set()


def test_limit_of_size(server: Server, tmp_path: pathlib.Path):
    fails(server, tmp_path, f"has {len(DATA)} bytes, more than 1000", max_bytes=1000)

    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(bytes(1 << 16))

    server.answers["/file"] = endless
    fails(server, tmp_path, "more than 3000000 bytes", max_bytes=3_000_000)


def test_without_a_length(server: Server, tmp_path: pathlib.Path):
    def plain(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(DATA)

    server.answers["/file"] = plain
    assert download_from_url(server.url + "/file", tmp_path / "file") == MD5


def test_redirections(server: Server, tmp_path: pathlib.Path):
    server.answers["/old"] = (302, {"Location": "/file"}, b"")
    assert download_from_url(server.url + "/old", tmp_path / "new") == MD5
    (tmp_path / "new").unlink()
    server.answers["/loop"] = (302, {"Location": "/loop"}, b"")
    fails(server, tmp_path, r"answered 302 .*infinite loop", path="/loop")
    for address, match in (
        ("file:///etc/hostname", r"answered 302 .*not allowed"),
        ("ftp://127.0.0.1/x", r"from http to ftp:.* not followed"),
    ):
        server.answers["/old"] = (302, {"Location": address}, b"")
        fails(server, tmp_path, match, path="/old")


def test_no_way_from_https_to_http():
    request = http_download.urllib.request.Request("https://example.org/a")
    with pytest.raises(HTTPDownloadError, match=r"from https to http:.* not followed"):
        http_download._Redirect().redirect_request(
            request, io.BytesIO(), 302, "Found", {}, "http://example.org/a"
        )


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "data:,x", "/etc/passwd", ""])
def test_other_addresses(url: str, tmp_path: pathlib.Path):
    with pytest.raises(ValueError, match="expected an address of http"):
        download_from_url(url, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_bar_counts(capsys: pytest.CaptureFixture[str]):
    bar = Bar(10)
    bar(4)
    bar(6)
    bar.close()
    assert capsys.readouterr().err == ""  # no terminal: nothing is drawn
