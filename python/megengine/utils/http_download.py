"""Downloads: verified, and never half a file under the name that was asked for."""

from __future__ import annotations

import hashlib
import http.client
import os
import string
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import IO, Any

from ..logger import get_logger
from ..serialization import write_aside
from ..version import __version__

__all__ = [
    "CHUNK_SIZE",
    "HTTP_CONNECTION_TIMEOUT",
    "MAX_BYTES",
    "Bar",
    "HTTPDownloadError",
    "WrongDigestError",
    "download_from_url",
    "file_digest",
]

logger = get_logger(__name__)

CHUNK_SIZE = 1 << 20
HTTP_CONNECTION_TIMEOUT = 30
MAX_BYTES = 16 << 30
_DIGESTS = ("md5", "sha1", "sha256")


class HTTPDownloadError(RuntimeError):
    """A download that failed: no answer, another answer than the file, or a file that is wrong."""


class WrongDigestError(HTTPDownloadError):
    """What came is another file than its digest says."""


class Bar:
    """A bar of progress on standard error, where that is a terminal and tqdm is installed.

    Args:
        total: the number of bytes that will come; ``None`` if nobody knows.
    """

    def __init__(self, total: int | None = 100) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            self._bar: Any = None
        else:
            # disable=None asks for a terminal: a log file gets no bars.
            self._bar = tqdm(total=total, unit="iB", unit_scale=True, ncols=80, disable=None)

    def __call__(self, bytes_num: int) -> None:
        """Moves the bar on by a number of bytes."""
        if self._bar is not None:
            self._bar.update(bytes_num)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address, but not from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme != "https" and scheme != req.type:
            fp.close()
            raise HTTPDownloadError(
                f"download: {req.full_url} leads from {req.type} to {newurl}, which is not followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """What opens http and https, and nothing else: no ``file:``, ``ftp:`` or ``data:``."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirect(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _check_scheme(url: str) -> None:
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https"):
        raise ValueError(f"download: expected an address of http:// or https://, got {url!r}")


def _size_of(response: Any) -> int | None:
    text = response.headers.get("Content-Length")
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _chunks(response: Any, url: str, max_bytes: int) -> Iterator[bytes]:
    """The bytes of an answer, as many as it declares and no more than are allowed."""
    size = _size_of(response)
    if size is not None and size > max_bytes:
        raise HTTPDownloadError(f"download: {url} has {size} bytes, more than {max_bytes}")
    got = 0
    bar = Bar(size)
    try:
        while chunk := _read(response, url):
            got += len(chunk)
            if got > max_bytes:
                raise HTTPDownloadError(f"download: {url} has more than {max_bytes} bytes")
            bar(len(chunk))
            yield chunk
    finally:
        bar.close()
    if size is not None and got != size:
        raise HTTPDownloadError(f"download: {url} broke off after {got} of {size} bytes; try again")


def _read(response: Any, url: str) -> bytes:
    try:
        return bytes(response.read(CHUNK_SIZE))
    except TimeoutError:
        raise
    except (http.client.HTTPException, OSError) as error:
        raise HTTPDownloadError(f"download: {url}: the connection broke: {error!r}") from error


def _receive(
    url: str, file: IO[bytes], check: Callable[[dict[str, str]], None], timeout: float, most: int
) -> str:
    """Writes what an address gives into a file, has it checked, and returns its MD5."""
    request = urllib.request.Request(
        url, headers={"User-Agent": f"openmge/{__version__}", "Accept-Encoding": "identity"}
    )
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in _DIGESTS}
    try:
        with _opener().open(request, timeout=timeout) as response:
            for chunk in _chunks(response, url, most):
                file.write(chunk)
                for digest in hashes.values():
                    digest.update(chunk)
    except urllib.error.HTTPError as error:
        error.close()
        raise HTTPDownloadError(
            f"download: {url}: the server answered {error.code} {error.reason}"
        ) from error
    except (TimeoutError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)  # a URLError holds another error
        if isinstance(reason, TimeoutError):
            text = f"nothing came for {timeout:g} seconds"
        else:
            text = f"the server cannot be reached: {reason}"
        raise HTTPDownloadError(f"download: {url}: {text}") from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise HTTPDownloadError(f"download: {url}: the connection broke: {error!r}") from error
    check({name: digest.hexdigest() for name, digest in hashes.items()})
    return hashes["md5"].hexdigest()


def download_from_url(
    url: str,
    dst: str | os.PathLike[str],
    *,
    md5: str | None = None,
    sha256: str | None = None,
    digest_start: str | None = None,
    timeout: float = HTTP_CONNECTION_TIMEOUT,
    max_bytes: int = MAX_BYTES,
) -> str:
    """Downloads a file.

    It is written aside and takes its name when it is whole, has the digests that were asked for
    and is on disk: whenever the program ends, ``dst`` is what it was before or the new file.

    Args:
        url: an address of http or https. Redirections are followed, but not from https to http.
        dst: the name of the file; its folder is made.
        md5: the MD5 that the file must have, in hexadecimal.
        sha256: the SHA-256 that it must have.
        digest_start: the first digits of its MD5, SHA-1 or SHA-256, whichever it is, as names of
            files have them.
        timeout: how long to wait for the server, and for each further piece, in seconds.
        max_bytes: the most bytes to accept.

    Returns:
        the MD5 of the file, in hexadecimal.

    Raises:
        HTTPDownloadError: the server cannot be reached, does not answer with the file, or breaks
            off.
        WrongDigestError: this is another file than the digests say.
        ValueError: ``url`` or a digest is not one.

    >>> download_from_url("ftp://example.org/weights.pkl", "weights.pkl")
    Traceback (most recent call last):
    ...
    ValueError: download: expected an address of http:// or https://, got \
'ftp://example.org/weights.pkl'
    """
    _check_scheme(url)
    wanted = {
        name: _hexadecimal(digest, length)
        for name, digest, length in (("md5", md5, 32), ("sha256", sha256, 64))
        if digest is not None
    }
    start = None if digest_start is None else _hexadecimal(digest_start, None)

    def check(digests: dict[str, str]) -> None:
        if any(digests[name] != digest for name, digest in wanted.items()) or (
            start is not None and not any(d.startswith(start) for d in digests.values())
        ):
            expected = wanted if start is None else {**wanted, "one that starts with": start}
            raise WrongDigestError(
                f"download: {url}: this is another file than expected, and was not kept. "
                f"Expected {_listed(expected)}; got {_listed(digests)}"
            )

    result = ""

    def write(file: IO[bytes]) -> None:
        nonlocal result
        result = _receive(url, file, check, timeout, max_bytes)

    path = os.fspath(dst)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write_aside(path, write)
    return result


def _listed(digests: dict[str, str]) -> str:
    return ", ".join(f"{name} {digest}" for name, digest in digests.items())


def _hexadecimal(digest: str, length: int | None) -> str:
    digits = digest.lower()
    if not digits or len(digits) != (length or len(digits)) or set(digits) - set(string.hexdigits):
        raise ValueError(f"download: expected a digest in hexadecimal, got {digest!r}")
    return digits


def file_digest(path: str | os.PathLike[str], name: str) -> str:
    """The digest of a file in hexadecimal: ``name`` is "md5", "sha256", ...

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     file_digest(file.name, "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(name, usedforsecurity=False)
        ).hexdigest()
