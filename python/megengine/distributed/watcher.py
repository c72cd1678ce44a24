"""Watches one process of a job, from a process beside it.

It tells the hub (``hub.py``) every half second that the process is there, and what it waits for;
and it says when the process died, was stopped or raised. When the hub tells of another one that
failed, it passes that on, and ends the process if that does not end by itself: a process that
hangs, that is stopped or that holds Python's lock for long could not do any of this itself.

Only the standard library is imported, to start quickly. ``python -I -S watcher.py FD`` reads what
it is to do from a socket to the process, {"rank": ..., "parent": ..., "memory": ..., ...}: the
arguments of a process are no secret.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

# As in hub.py, which this file cannot import: it runs without the package.
TICK = 0.5
SILENCE = float(os.environ.get("MGE_DIST_HEARTBEAT") or 4.0)
GRACE = 2.5  # seconds from the news that another process failed until this one is ended
STATUS = struct.Struct("<QQ48s")  # calls so far, whether in one, its name


class Watcher:
    """See the head of this file."""

    def __init__(
        self,
        rank: int,
        parent: int,
        pipe: socket.socket,
        memory: int,
        host: str,
        port: int,
        token: str,
        node: str,
    ):
        self.rank, self.parent = rank, parent
        self.pipe = pipe
        self.status = mmap.mmap(memory, STATUS.size, prot=mmap.PROT_READ)
        self.hub = socket.create_connection((host, port), timeout=5.0)
        self.hub.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = {"token": token, "kind": "watcher", "rank": rank, "node": node}
        self.hub.sendall(json.dumps(hello).encode() + b"\n")
        self.from_hub, self.from_pipe = b"", b""
        self.missed = self.stopped = 0
        self.ended = False  # the process said goodbye
        self.failure: dict[str, Any] | None = None
        self.grace = GRACE

    def run(self) -> None:
        """Watches until the process is gone."""
        last = time.monotonic()
        sockets = [self.pipe, self.hub]
        while True:
            wait = max(0.0, last + TICK - time.monotonic())
            ready, _, _ = select.select(sockets, [], [], wait)
            if self.pipe in ready and not self._read_pipe():
                return
            if self.hub in ready and not self._read_hub():
                sockets.remove(self.hub)
            if time.monotonic() - last >= TICK:
                last = time.monotonic()
                self._tick()

    def _read_pipe(self) -> bool:
        """Words of the process; False when it is gone."""
        try:
            data = self.pipe.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            if not self.ended:
                self._tell({"failed": f"died (process {self.parent})"})
            return False
        *lines, self.from_pipe = (self.from_pipe + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.ended |= "bye" in message or "failed" in message
            self._tell(message)
        return True

    def _read_hub(self) -> bool:
        """News from the hub; False when it is gone."""
        try:
            data = self.hub.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            if not self.ended:  # else it may have ended before this process
                self._failed({"rank": 0, "why": "or the server beside it is gone", "trace": ""})
            return False
        self.missed = 0
        *lines, self.from_hub = (self.from_hub + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "failed" in message:
                self._failed(message["failed"])
            elif "bye" in message:
                self._pass_on(message)
        return True

    def _tick(self) -> None:
        calls, inside, name = STATUS.unpack(self.status[: STATUS.size])
        self._tell({"beat": [calls, name.rstrip(b"\0").decode() if inside else ""]})
        self.missed += 1
        if self.missed * TICK >= SILENCE > 0 and not self.ended:
            why = f"(or the network to it) has not been heard of for {SILENCE:g} s"
            self._failed({"rank": 0, "why": why, "trace": ""})
        self.stopped = self.stopped + 1 if self._is_stopped() else 0
        if self.stopped * TICK >= SILENCE > 0:
            self.ended = True
            self._tell({"failed": f"has been stopped for {SILENCE:g} s (process {self.parent})"})
            self.stopped = 0
            self.grace = TICK  # it cannot hear of its own failure
        if self.failure:
            self.grace -= TICK
            if self.grace <= 0:
                self._end()

    def _is_stopped(self) -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{self.parent}/stat") as file:
            return file.read().rsplit(")", 1)[-1].split()[0] in "Tt"
        return False

    def _failed(self, failure: dict[str, Any]) -> None:
        if self.failure is None:
            self.failure = failure
            self._pass_on({"failed": failure})

    def _end(self) -> None:
        """Kills the process, which heard of a failure and goes on."""
        assert self.failure is not None
        print(
            f"megengine.distributed: ends rank {self.rank} (process {self.parent}), since rank "
            f"{self.failure['rank']} {self.failure['why']}",
            file=sys.stderr,
            flush=True,
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.parent, signal.SIGKILL)

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # _read_hub() hears that it is gone
            self.hub.sendall(json.dumps(message).encode() + b"\n")

    def _pass_on(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # _read_pipe() hears that it is gone
            self.pipe.sendall(json.dumps(message).encode() + b"\n", socket.MSG_DONTWAIT)


if __name__ == "__main__":
    pipe = socket.socket(fileno=int(sys.argv[1]))
    line = b""
    while not line.endswith(b"\n"):
        byte = pipe.recv(1)
        if not byte:
            sys.exit(0)
        line += byte
    Watcher(pipe=pipe, **json.loads(line)).run()
