"""A small HTTP server on this machine, which stands in for the ones of the world."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

Handler = http.server.BaseHTTPRequestHandler
Answer = bytes | tuple[int, dict[str, str], bytes] | Callable[[Handler], None]


class Server:
    """Gives what ``answers`` holds for a path, and notes the paths that were asked for.

    An answer is the contents of a file; or a status, headers and contents; or a function that
    writes whatever it likes to the connection.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.url = ""

    def answer(self, handler: Handler) -> None:
        self.asked.append(handler.path)
        found = self.answers.get(handler.path, (404, {}, b"not here"))
        if callable(found):
            found(handler)
            return
        status, headers, body = (200, {}, found) if isinstance(found, bytes) else found
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        # Whoever has seen enough hangs up.
        with contextlib.suppress(ConnectionError):
            handler.wfile.write(body)


@contextlib.contextmanager
def serve() -> Iterator[Server]:
    server = Server()

    class _Handler(Handler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        server.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            running.shutdown()
            thread.join()
