"""A batch as a message: its structure as a pickle, its arrays beside it.

Large arrays are named by their place in shared memory; small ones are part of the pickle. The
collator makes its arrays in shared memory from the start, so they are not copied at all.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from typing import Any

import numpy as np

from ..buffers import MIN_BUFFER
from .memory import Arena, Mirror, Piece

__all__ = ["Packer", "unpack"]

_COUNT = struct.Struct("<I")
_PIECE = struct.Struct("<5Q")

# Kinds of dtypes that their text says in full. That of bfloat16, for one, does not.
_NAMED_KINDS = frozenset("biufcSUmM")


def _array(buffer: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array over a buffer, which it keeps alive."""
    return np.ndarray(shape, dtype, buffer)


class Packer:
    """Makes messages of the batches of a worker."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._pieces: list[Piece] = []  # the arrays that are left out of the pickle, in order
        self._left_out = pickle.PickleBuffer(bytearray())  # stands for each of them
        self._file = io.BytesIO()
        self._pickler = pickle.Pickler(self._file, 5, buffer_callback=self._is_in_band)
        self._pickler.dispatch_table = copyreg.dispatch_table | {np.ndarray: self._reduce_array}

    def pack(self, batch: Any) -> list[bytes]:
        """The parts of a message.

        Raises:
            MemoryError: there is no shared memory for an array.
            Exception: what pickling raises for an object that cannot be sent.
        """
        self._pieces.clear()
        self._file.seek(0)
        self._file.truncate()
        try:
            self._pickler.dump(batch)
        finally:
            self._pickler.clear_memo()  # which keeps the arrays alive
        numbers = [
            _PIECE.pack(p.block, p.offset, p.capacity, p.start, p.size) for p in self._pieces
        ]
        return [_COUNT.pack(len(numbers)), *numbers, self._file.getvalue()]

    def _is_in_band(self, buffer: pickle.PickleBuffer) -> bool:
        return buffer is not self._left_out

    def _reduce_array(self, array: np.ndarray) -> Any:
        dtype = array.dtype
        if dtype.hasobject:
            return array.__reduce_ex__(4)
        name = dtype.str if dtype.kind in _NAMED_KINDS else dtype
        if array.nbytes < MIN_BUFFER:
            return _array, (bytearray(array.tobytes()), name, array.shape)
        self._pieces.append(self._arena.piece(array))
        return _array, (self._left_out, name, array.shape)


def unpack(message: memoryview, mirror: Mirror) -> Any:
    """The batch of a message. Its arrays can be written to, and are nobody else's."""
    (count,) = _COUNT.unpack_from(message)
    end = _COUNT.size + count * _PIECE.size
    pieces = [Piece(*numbers) for numbers in _PIECE.iter_unpack(message[_COUNT.size : end])]
    return pickle.loads(message[end:], buffers=map(mirror.view, pieces))
