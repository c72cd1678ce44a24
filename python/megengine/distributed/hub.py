"""The meeting point of a job: a small server that all its processes talk to, by lines of JSON.

It runs as a program of its own, so that it answers whatever its owner computes. It

- holds values that processes leave for one another, and barriers (:class:`.Client`);
- hears from the watcher of each process (``watcher.py``) and tells all of them when one of them
  fails, ends or goes silent;
- hands out the addresses that an MPI library of the MPICH family asks for when it starts, by the
  PMI-1 protocol, so that processes which no ``mpiexec`` started can form a job.

A connection counts only after it has named the job's token; what arrives is read as JSON or as
the words of PMI-1, never unpickled. Only the standard library is imported, to start quickly.

``python -I -S hub.py`` reads a line from its standard input, {"host": ..., "port": ...,
"token": ..., "world_size": ...}, since the arguments of a process are no secret. It prints the port
on which it listens, or why it cannot, and ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import selectors
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

# Seconds. What counts are ticks that passed, not the clock: a machine that was asleep, or a job
# that was stopped as a whole, has missed nothing.
TICK = 0.5
SILENCE = float(os.environ.get("MGE_DIST_HEARTBEAT") or 4.0)
_LIMIT_BEFORE_TOKEN = 4096
_LIMIT = 1 << 28


class Connection:
    """One process on the other end: what it sent in part, and what it has not taken yet."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.kind = ""  # client, watcher or pmi, once the token was right
        self.rank = -1
        self.node = ""
        self.missed = 0  # ticks without a word
        self.ended = False
        self.status: list[Any] = []
        self.incoming = bytearray()
        self.outgoing = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Queues a message; what the socket takes goes at once."""
        self.send_line(json.dumps(message))

    def send_line(self, line: str) -> None:
        """Queues a line of text."""
        self.outgoing += line.encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Sends what the socket takes now."""
        with contextlib.suppress(BlockingIOError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def lines(self) -> list[bytes]:
        """The whole lines that have come; raises ConnectionError when the other end is gone."""
        with contextlib.suppress(BlockingIOError):
            data = self.sock.recv(1 << 20)
            if not data:
                raise ConnectionResetError("closed")
            self.incoming += data
        limit = _LIMIT if self.kind else _LIMIT_BEFORE_TOKEN
        if b"\n" not in self.incoming and len(self.incoming) > limit:
            raise ConnectionResetError(f"a line of more than {limit} bytes")
        *whole, rest = self.incoming.split(b"\n")
        self.incoming = bytearray(rest)
        return [bytes(line) for line in whole]


class Hub:
    """The server: see the head of this file."""

    def __init__(self, host: str, port: int, token: str, world_size: int):
        self.token = token
        self.world_size = world_size
        self.listener = socket.create_server((host, port), backlog=1024)
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.connections: set[Connection] = set()
        self.failure: dict[str, Any] | None = None
        self.gone: list[int] = []  # ranks that said goodbye
        self.values: dict[str, Any] = {}
        self.waiting: defaultdict[str, list[tuple[Connection, int, bool]]] = defaultdict(list)
        self.barriers: defaultdict[str, list[tuple[Connection, int]]] = defaultdict(list)
        self.name = f"mge_{secrets.token_hex(8)}"  # MPI names its shared memory after it
        self.names: dict[str, str] = {}  # what MPI's processes publish
        self.in_barrier: list[Connection] = []
        self.asked_mapping: list[Connection] = []

    # ---- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until the owner is gone, and then until the others have heard of it."""
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._owner_gone)
        self.owner_there = True
        last = time.monotonic()
        ticks_left = 10
        while self.owner_there or (ticks_left > 0 and self._waits_for_watchers()):
            wait = max(0.0, last + TICK - time.monotonic())
            for key, mask in self.selector.select(wait):
                key.data(key.fileobj, mask)
            if time.monotonic() - last >= TICK:
                last = time.monotonic()
                self._tick()
                ticks_left -= not self.owner_there
        for connection in self.connections:
            connection.flush()

    def _owner_gone(self, fileobj: Any, mask: int) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            self.selector.unregister(sys.stdin.fileno())
            self.owner_there = False

    def _watchers(self) -> list[Connection]:
        return [c for c in self.connections if c.kind == "watcher"]

    def _waits_for_watchers(self) -> bool:
        return any(not c.ended for c in self._watchers())

    def _tick(self) -> None:
        for c in self._watchers():
            c.missed += 1
            if not c.ended and c.missed * TICK >= SILENCE > 0:
                c.ended = True
                self._fail(c.rank, f"has not been heard of for {SILENCE:g} s (on {c.node})")
            self._try(c, partial(c.send, {"beat": 1}))

    def _accept(self, listener: Any, mask: int) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self.listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c = Connection(sock)
            self.connections.add(c)
            self.selector.register(sock, selectors.EVENT_READ, lambda _, mask: self._ready(c, mask))

    def _ready(self, c: Connection, mask: int) -> None:
        self._try(c, partial(self._read, c))

    def _read(self, c: Connection) -> None:
        c.flush()
        for line in c.lines():
            c.missed = 0
            if c.kind == "pmi":
                self._pmi(c, line.decode())
            elif c.kind:
                self._message(c, json.loads(line))
            else:
                self._hello(c, line)

    def _try(self, c: Connection, action: Callable[[], None]) -> None:
        if c not in self.connections:
            return
        try:
            action()
            if c not in self.connections:
                return  # dropped meanwhile
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if c.outgoing else 0)
            data = self.selector.get_key(c.sock).data
            self.selector.modify(c.sock, events, data)
        except (OSError, ValueError, KeyError, TypeError) as e:
            self._drop(c, e)

    def _drop(self, c: Connection, why: Exception) -> None:
        if c not in self.connections:
            return
        self.connections.discard(c)
        self.selector.unregister(c.sock)
        c.sock.close()
        if c.kind == "watcher" and not c.ended:
            self._fail(c.rank, f"lost its connection (on {c.node}): {why}")

    # ---- messages ------------------------------------------------------------------------------

    def _hello(self, c: Connection, line: bytes) -> None:
        hello = json.loads(line)
        if not hmac.compare_digest(str(hello["token"]).encode(), self.token.encode()):
            raise ConnectionResetError("a wrong token")
        kind = str(hello["kind"])
        if kind not in ("client", "watcher", "pmi"):
            raise ValueError(kind)
        c.rank, c.node = int(hello.get("rank", -1)), str(hello.get("node", ""))
        c.kind = kind
        c.send({"ok": True})
        if kind == "watcher":  # it may come late
            for rank in self.gone:
                c.send({"bye": rank})
            if self.failure:
                c.send({"failed": self.failure})
        if kind == "pmi":
            self._answer_mapping()

    def _message(self, c: Connection, message: dict[str, Any]) -> None:
        if c.kind == "watcher":
            if "beat" in message:
                c.status = message["beat"]
            if "failed" in message:
                c.ended = True
                self._fail(c.rank, str(message["failed"]), str(message.get("trace", "")))
            if "bye" in message:
                c.ended = True
                self.gone.append(c.rank)
                for other in self._watchers():
                    if other is not c:
                        self._try(other, partial(other.send, {"bye": c.rank}))
            return
        number, key = int(message["id"]), str(message.get("key", ""))
        do = message["do"]
        if do == "failure":
            c.send({"id": number, "value": self.failure})
        elif do == "fail":
            self._fail(int(message["rank"]), str(message["why"]), str(message.get("trace", "")))
            c.send({"id": number, "value": None})
        elif do == "table":
            c.send({"id": number, "value": {w.rank: w.status for w in self._watchers()}})
        elif do == "set":
            self.values[key] = message["value"]
            c.send({"id": number, "value": True})
            self._answer_values(key)
        elif do in ("get", "pop"):
            self.waiting[key].append((c, number, do == "pop"))
            self._answer_values(key)
        elif do == "barrier":
            self.barriers[key].append((c, number))
            if len(self.barriers[key]) >= int(message["size"]):
                for other, n in self.barriers.pop(key):
                    self._answer(other, n, None)
        else:
            raise ValueError(do)
        if self.failure and do in ("get", "pop", "barrier"):
            self._refuse_waiting()

    def _answer(self, c: Connection, number: int, value: Any) -> None:
        self._try(c, partial(c.send, {"id": number, "value": value}))

    def _answer_values(self, key: str) -> None:
        while key in self.values and self.waiting[key]:
            c, number, pops = self.waiting[key].pop(0)
            self._answer(c, number, self.values.pop(key) if pops else self.values[key])
        if not self.waiting[key]:
            del self.waiting[key]

    def _refuse_waiting(self) -> None:
        asked = [(c, n) for waiting in self.waiting.values() for c, n, _ in waiting]
        asked += [entry for entries in self.barriers.values() for entry in entries]
        self.waiting.clear()
        self.barriers.clear()
        for c, number in asked:
            self._try(c, partial(c.send, {"id": number, "failed": self.failure}))

    def _fail(self, rank: int, why: str, trace: str = "") -> None:
        if self.failure is None:
            self.failure = {"rank": rank, "why": why, "trace": trace}
            for c in self._watchers():
                self._try(c, partial(c.send, {"failed": self.failure}))
            self._refuse_waiting()

    # ---- PMI-1 ---------------------------------------------------------------------------------

    def _pmi(self, c: Connection, line: str) -> None:
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        cmd = words.get("cmd", "")
        if cmd == "init":
            c.send_line("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
        elif cmd == "get_maxes":
            c.send_line("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0")
        elif cmd == "get_appnum":
            c.send_line("cmd=appnum appnum=0 rc=0")
        elif cmd == "get_my_kvsname":
            c.send_line(f"cmd=my_kvsname kvsname={self.name} rc=0")
        elif cmd == "get_universe_size":
            c.send_line(f"cmd=universe_size size={self.world_size} rc=0")
        elif cmd == "put":
            self.names[words["key"]] = line.split("value=", 1)[1]
            c.send_line("cmd=put_result rc=0")
        elif cmd == "get":
            if words["key"] == "PMI_process_mapping":
                self.asked_mapping.append(c)
                self._answer_mapping()
            elif words["key"] in self.names:
                c.send_line(f"cmd=get_result rc=0 value={self.names[words['key']]}")
            else:
                c.send_line("cmd=get_result rc=-1 msg=unknown_key value=unknown")
        elif cmd == "barrier_in":
            self.in_barrier.append(c)
            if len(self.in_barrier) == self.world_size:
                done, self.in_barrier = self.in_barrier, []
                for other in done:
                    self._try(other, partial(other.send_line, "cmd=barrier_out rc=0"))
        elif cmd == "finalize":
            c.send_line("cmd=finalize_ack rc=0")
        elif cmd == "abort":
            self._fail(c.rank, f"called MPI_Abort: {line}")

    def _answer_mapping(self) -> None:
        """Which process is on which machine, once all have come: blocks of (node, nodes, size)."""
        nodes = {c.rank: c.node for c in self.connections if c.kind == "pmi"}
        if len(nodes) < self.world_size:
            return
        numbers: dict[str, int] = {}
        blocks: list[list[int]] = []
        for rank in range(self.world_size):
            number = numbers.setdefault(nodes[rank], len(numbers))
            if blocks and blocks[-1][0] == number:
                blocks[-1][1] += 1
            else:
                blocks.append([number, 1])
        text = ",".join(f"({number},1,{size})" for number, size in blocks)
        answer = f"cmd=get_result rc=0 value=(vector,{text})"
        asked, self.asked_mapping = self.asked_mapping, []
        for c in asked:
            self._try(c, partial(c.send_line, answer))


def main() -> None:
    """Starts the server that the first line describes."""
    try:
        hub = Hub(**json.loads(sys.stdin.readline()))
    except OSError as e:
        sys.exit(print(f"cannot listen: {e}"))
    print(hub.listener.getsockname()[1], flush=True)
    hub.run()


if __name__ == "__main__":
    main()
