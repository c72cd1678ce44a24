"""The shared memory in which a worker puts large arrays.

Each worker has one anonymous file (memfd), which grows by blocks; both sides map the blocks that
they use. The file has no name and goes with the last process that has it open. It is not part of
/dev/shm, whose size containers limit. Blocks are reserved before they are mapped, so that a lack
of memory is an error here and not a signal at the first write.

A block belongs to the worker until it is sent, and then to the loader for as long as an array in
it is referred to. The next task that the worker gets names the blocks that it may use again.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..buffers import MIN_BUFFER, unused
from .channel import Channel

__all__ = ["Arena", "Block", "Mirror", "Piece"]

# Blocks of one worker that arrays of the loader's user may hold. Those who keep more get copies,
# so that neither descriptors nor shared memory run out.
MAX_HELD = 16

_ALIGNMENT = 64  # of arrays in a block: a cache line


def _map(fd: int, offset: int, size: int) -> np.ndarray:
    """The bytes of a block. Arrays in it refer to this array, never to one another."""
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    return np.frombuffer(mmap.mmap(fd, size, flags, offset=offset), np.uint8)


def _block_size(size: int) -> int:
    """A size to reserve: one of four for each power of two, so that blocks fit other batches."""
    step = max(mmap.ALLOCATIONGRANULARITY, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


@dataclass(frozen=True)
class Piece:
    """Where the bytes of an array lie: in which block, which is where in the file."""

    block: int
    offset: int
    capacity: int
    start: int
    size: int


@dataclass(eq=False)
class Block:
    """A part of the file, as the worker sees it."""

    number: int
    offset: int
    data: np.ndarray
    lent: bool = False

    @property
    def capacity(self) -> int:
        """Its size in bytes."""
        return self.data.size

    def is_free(self) -> bool:
        """Whether nobody has an array in it: not the loader, and not this process."""
        return not self.lent and unused(sys.getrefcount(self.data))


class Arena:
    """The blocks of a worker, on its side."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._fd: int | None = None
        self._size = 0
        self._blocks: list[Block] = []
        self._by_data: dict[int, Block] = {}
        self._current: Block | None = None
        self._used = 0  # of the current block
        self._total = 0  # what this batch has taken
        self._expected = 0  # what the last one took: the next is likely to fit into one block

    def begin_batch(self, freed: list[int]) -> None:
        """Takes back blocks from the loader, and starts with a block of its own for a batch."""
        for number in freed:
            self._blocks[number].lent = False
        self._current = None
        self._expected = self._total
        self._total = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array like that of ``np.empty``, in shared memory if it is large.

        Raises:
            MemoryError: there is no memory for another block.
        """
        size = math.prod(shape) * dtype.itemsize
        if size < MIN_BUFFER or dtype.hasobject:
            return np.empty(shape, dtype)
        start = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if self._current is None or start + size > self._current.capacity:
            self._current = self._take(max(size, self._expected - self._total))
            start = 0
        self._used = start + size
        self._total += size + _ALIGNMENT
        return np.ndarray(shape, dtype, self._current.data, start)

    def _take(self, size: int) -> Block:
        """The smallest free block of at least this size, or a new one."""
        fitting = [b for b in self._blocks if b.capacity >= size and b.is_free()]
        if fitting:
            return min(fitting, key=lambda block: block.capacity)
        return self._grow(_block_size(size))

    def _grow(self, size: int) -> Block:
        if self._fd is None:
            self._fd = os.memfd_create("megengine-dataloader")
            self._channel.send_memory(self._fd)
        try:
            os.posix_fallocate(self._fd, self._size, size)
            data = _map(self._fd, self._size, size)
        except OSError as error:
            raise MemoryError(
                f"DataLoader: there is no shared memory for another {size} bytes beside the "
                f"{self._size} in use ({errno.errorcode.get(error.errno or 0)}: {error.strerror}); "
                "use smaller batches or fewer workers, or allow more memory (cgroup, ulimit -f, "
                "ulimit -v)"
            ) from error
        block = Block(len(self._blocks), self._size, data)
        self._blocks.append(block)
        self._by_data[id(data)] = block
        self._size += size
        return block

    def piece(self, array: np.ndarray) -> Piece:
        """The place of an array in shared memory, which is copied there unless it is there."""
        block = self._by_data.get(id(array.base))
        if block is None or not array.flags.c_contiguous:
            copy = self.empty(array.shape, array.dtype)
            np.copyto(copy, array)
            array = copy
            block = self._by_data[id(array.base)]
        block.lent = True
        start = array.ctypes.data - block.data.ctypes.data
        return Piece(block.number, block.offset, block.capacity, start, array.nbytes)


class Mirror:
    """The blocks of a worker, on the loader's side."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._blocks: dict[int, np.ndarray] = {}
        self._held: dict[int, None] = {}  # in the order in which they came

    def view(self, piece: Piece) -> Any:
        """The bytes of an array: shared, or a copy if too many are held."""
        data = self._blocks.get(piece.block)
        if data is None:
            fd = self._channel.memory_fd
            assert fd is not None, "the worker sends its file before its first block"
            data = self._blocks[piece.block] = _map(fd, piece.offset, piece.capacity)
        self._held[piece.block] = None
        view = data[piece.start : piece.start + piece.size]
        return view.copy() if len(self._held) > MAX_HELD else view

    def collect(self) -> list[int]:
        """The blocks that nobody refers to any more; the worker may use them again."""
        blocks = self._blocks
        freed = [n for n in self._held if unused(sys.getrefcount(blocks[n]))]
        for number in freed:
            del self._held[number]
        return freed
