"""The server of a job, and its clients: values and barriers that processes share by name."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..tensor import Tensor
from .errors import RankError

__all__ = ["Client", "Server"]

TOKEN = "MGE_DIST_TOKEN"


def job_token() -> str:
    """The word that the connections of a job must name: that of the environment, or a new one.

    A new one goes into the environment, so that processes which this one starts know it.
    """
    return os.environ.setdefault(TOKEN, secrets.token_hex(16))


class Server:
    """Starts the server of a job; it runs while this object lives, in a process of its own.

    Processes that take part must know its address, and the token: the environment variable
    ``MGE_DIST_TOKEN``, which is set here where it is not yet, so that processes which this one
    starts have it. To start processes on other machines, set it there to the same secret.

    Args:
        port: on which to listen; 0 takes a free one, which ``py_server_port`` names.
        host: the address to listen on. By default only processes of this machine can connect; an
            extension.
        world_size: how many processes the job has, where it is used to start MPI; an extension.

    Raises:
        OSError: the port cannot be had.

    >>> server = Server()
    >>> client = Client("127.0.0.1", server.py_server_port)
    >>> client.user_set("answer", 42)
    True
    >>> client.user_get("answer")
    42
    >>> server.close()
    """

    def __init__(self, port: int = 0, *, host: str = "127.0.0.1", world_size: int = 0):
        config = {"host": host, "port": port, "token": job_token(), "world_size": world_size}
        self.proc = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("hub.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.proc.stdin is not None
        assert self.proc.stdout is not None
        self.proc.stdin.write(json.dumps(config) + "\n")
        self.proc.stdin.flush()
        first = self.proc.stdout.readline()
        if not first.strip().isdigit():
            self.close()
            raise OSError(f"Server: {host}:{port}: {first.strip() or 'ended at once'}")
        self.py_server_port = self.mm_server_port = int(first)

    def close(self) -> None:
        """Ends the server, once the processes that it watches are gone."""
        for pipe in (self.proc.stdin, self.proc.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.proc.wait(15)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()

    def __del__(self) -> None:
        proc = getattr(self, "proc", None)
        if proc is not None and proc.returncode is None and proc.stdin is not None:
            proc.stdin.close()


def connected(host: str, port: int, hello: dict[str, Any], patience: float = 0.0) -> socket.socket:
    """A connection to a server that has accepted the token.

    Args:
        host: where the server runs.
        port: on which it listens.
        hello: who connects.
        patience: seconds for which a server that is not there yet is waited for.

    Raises:
        ConnectionError: there is no server, or it knows another token.
    """
    token = os.environ.get(TOKEN)
    if not token:
        raise ConnectionError(
            f"expected the job's token in the environment variable {TOKEN}; Server and launcher "
            "set it for the processes that they start, other machines need the same value"
        )
    end = time.monotonic() + patience
    while True:
        try:
            sock = socket.create_connection((host, port), timeout=2.0)
            break
        except OSError as e:
            if time.monotonic() >= end:
                raise ConnectionError(f"no server of a job answers at {host}:{port}: {e}") from e
            time.sleep(0.1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.sendall(json.dumps({"token": token, **hello}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):  # byte by byte: what follows is not ours to read
            byte = sock.recv(1)
            if not byte:
                raise ConnectionError("it closed the connection")
            answer += byte
    except OSError as e:
        sock.close()
        raise ConnectionError(
            f"the server at {host}:{port} refused: {e}; is {TOKEN} the same there?"
        ) from e
    sock.settimeout(None)
    return sock


class Client:
    """Talks to a :class:`Server`: values, barriers and broadcasts by name.

    Values may be None, bools, numbers, strings, bytes, lists, tuples (which arrive as lists),
    dicts with strings as keys, NumPy arrays, and Tensors, which arrive as arrays.

    Args:
        master_ip: where the server runs.
        port: its ``py_server_port``.
        patience: seconds for which a server that is not there yet is waited for; an extension.

    Raises:
        ConnectionError: no server answers there, or the token is another one.
    """

    def __init__(self, master_ip: str, port: int, *, patience: float = 0.0):
        self._patience = patience
        self.master_ip = master_ip
        self.port = port
        self._lock = threading.Lock()
        self._number = 0
        self._rest = b""
        self.connect()

    def connect(self) -> bool:
        """Connects to the server, and says that it did."""
        self._socket = connected(self.master_ip, self.port, {"kind": "client"}, self._patience)
        return True

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def _ask(self, do: str, key: str = "", **more: Any) -> Any:
        with self._lock:
            self._number += 1
            message = {"id": self._number, "do": do, "key": key, **more}
            try:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
                while b"\n" not in self._rest:
                    data = self._socket.recv(1 << 20)
                    if not data:
                        raise ConnectionError("closed")
                    self._rest += data
            except OSError as e:
                raise ConnectionError(
                    f"the server of the job at {self.master_ip}:{self.port} is gone: {e}"
                ) from e
            line, self._rest = self._rest.split(b"\n", 1)
        answer = json.loads(line)
        if "failed" in answer:
            failure = answer["failed"]
            raise RankError(
                f"{do} {key!r}: rank {failure['rank']} {failure['why']}", failure["rank"]
            )
        return answer["value"]

    def get_mm_server_port(self) -> int:
        """The port of the server."""
        return self.port

    def _meet(self, key: str, size: int, patience: float) -> bool:
        """Waits at a barrier for some seconds at most; whether all have come."""
        self._socket.settimeout(patience)
        try:
            self._ask("barrier", key, size=size)
        except ConnectionError as e:
            if isinstance(e.__cause__, TimeoutError):
                return False
            raise
        finally:
            self._socket.settimeout(None)
        return True

    def user_set(self, key: str, val: Any) -> bool:
        """Sets a value that all processes can get.

        Raises:
            TypeError: the value, or a part of it, is of a kind that cannot be sent.
        """
        return bool(self._ask("set", f"user {key}", value=_pack(val)))

    def user_get(self, key: str) -> Any:
        """The value of a key; waits until a process sets it."""
        return _unpack(self._ask("get", f"user {key}"))

    def user_pop(self, key: str) -> Any:
        """The value of a key, which is removed; waits until a process sets it."""
        return _unpack(self._ask("pop", f"user {key}"))

    def group_barrier(self, key: str, size: int) -> None:
        """Waits until as many processes as ``size`` wait with this key."""
        self._ask("barrier", f"group {key}", size=size)

    def bcast_val(self, val: Any, key: str, size: int) -> Any:
        """Gives the value of one process to the others of a group.

        Args:
            val: the value where it comes from, None at the others.
            key: the same at all.
            size: how many processes there are.

        Returns:
            the value at the others; None where it comes from.
        """
        name = f"bcast {key}"
        if val is not None:
            self._ask("set", name, value=_pack(val))
            self._ask("barrier", name, size=size)
            return None
        got = _unpack(self._ask("get", name))
        self._ask("barrier", name, size=size)
        return got

    def set_is_grad(self, key: str, is_grad: bool) -> None:
        """Notes whether what is sent under a key needs a gradient."""
        self._ask("set", f"is_grad {key}", value=bool(is_grad))

    def check_is_grad(self, key: str) -> bool:
        """What :meth:`set_is_grad` noted for a key, once; waits for it."""
        return bool(self._ask("pop", f"is_grad {key}"))

    def set_remote_tracer(self, key: str, tracer_set: Any) -> None:
        """Leaves what describes tracers for a key."""
        self._ask("set", f"tracer {key}", value=_pack(tracer_set))

    def check_remote_tracer(self, key: str) -> Any:
        """What :meth:`set_remote_tracer` left for a key, once; waits for it."""
        return _unpack(self._ask("pop", f"tracer {key}"))


def _pack(value: Any) -> Any:
    """A value as JSON has it: what JSON lacks becomes a dict with one key, the name of its kind."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_pack(v) for v in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(
                    f"expected a dict with strings as keys, got a key {key!r} of type "
                    f"{type(key).__name__}"
                )
        return {"dict": {k: _pack(v) for k, v in value.items()}}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.generic):
        return _pack(value.item())
    if isinstance(value, np.ndarray) and value.dtype.name in _DTYPES:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), data]}
    raise TypeError(
        "expected None, bools, numbers, strings, bytes, arrays or lists and dicts of them, got "
        f"{type(value).__name__}"
    )


_DTYPES = frozenset(
    ["bool", "complex64", "complex128", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dict":
        return {k: _unpack(v) for k, v in content.items()}
    if kind == "bytes":
        return base64.b64decode(content)
    dtype, shape, data = content
    if kind != "array" or dtype not in _DTYPES:
        raise ValueError(f"expected an array, got {kind} {dtype}")
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()
