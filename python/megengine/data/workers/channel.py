"""Messages between the loader and one worker: whole ones, in order, both ways.

A channel is one end of a pair of sockets that keep the bounds of messages (SOCK_SEQPACKET): a
message is one system call on each side. What is too long for the buffer of a socket goes through
an anonymous file, whose descriptor is sent. Neither has a name, so nothing can stay behind.
"""

from __future__ import annotations

import os
import socket

__all__ = ["Channel"]

# Two tasks or results of this size, and what the system adds, fit into the buffer of a socket
# (208 KB on Linux), so that nobody waits for the other side to read.
MAX_INLINE = 32 * 1024

_LONG = b"L"  # a descriptor comes with it: the file holds the message
_MEMORY = b"M"  # a descriptor comes with it: the file is the worker's shared memory
_PLAIN = b"P"  # the message follows


class Channel:
    """One end of a connection. It can be given to a process that starts, whatever the method.

    Attributes:
        memory_fd: the descriptor of the file that :meth:`send_memory` of the other side sent.
    """

    def __init__(self, end: socket.socket):
        self._socket = end
        self._buffer = bytearray(MAX_INLINE + 1)
        self.memory_fd: int | None = None

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(left), cls(right)

    def fileno(self) -> int:
        """The descriptor, for polling."""
        return self._socket.fileno()

    def send(self, *parts: bytes) -> None:
        """Sends the parts as one message.

        Raises:
            OSError: the other side is gone (:class:`ConnectionError`), or there is no memory for a
                long message.
        """
        if sum(map(len, parts)) <= MAX_INLINE:
            self._socket.sendmsg((_PLAIN, *parts))
            return
        fd = os.memfd_create("megengine-message")
        try:
            with os.fdopen(os.dup(fd), "wb") as file:
                file.writelines(parts)
            socket.send_fds(self._socket, [_LONG], [fd])
        finally:
            os.close(fd)

    def send_memory(self, fd: int) -> None:
        """Shares a file with the other side."""
        socket.send_fds(self._socket, [_MEMORY], [fd])

    def receive(self, wait: bool = True) -> memoryview | None:
        """The next message, valid until the next call; None if there is none yet.

        Args:
            wait: whether to wait for one.

        Raises:
            EOFError: the other side is gone, and all that it sent was received.
        """
        flags = 0 if wait else socket.MSG_DONTWAIT
        while True:
            try:
                # A descriptor may come with the message, so recv() is not enough.
                size, fds = self._receive(flags)
            except BlockingIOError:
                return None
            except ConnectionError:
                size, fds = 0, []
            if size == 0:
                raise EOFError
            kind = self._buffer[:1]
            if kind == _PLAIN:
                return memoryview(self._buffer)[1:size]
            if kind == _MEMORY:
                self.memory_fd = fds[0]
                continue
            with os.fdopen(fds[0], "rb") as file:
                file.seek(0)
                return memoryview(file.read())

    def _receive(self, flags: int) -> tuple[int, list[int]]:
        size, ancillary, _, _ = self._socket.recvmsg_into(
            [self._buffer], socket.CMSG_LEN(4), flags | socket.MSG_CMSG_CLOEXEC
        )
        fds = [
            int.from_bytes(data[:4], "little")
            for level, kind, data in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        ]
        return size, fds

    def close(self) -> None:
        """Ends the connection: the other side sees the end of its messages."""
        self._socket.close()
        if self.memory_fd is not None:
            os.close(self.memory_fd)
            self.memory_fd = None

    def __reduce__(self) -> tuple[type[Channel], tuple[socket.socket]]:
        return Channel, (self._socket,)
