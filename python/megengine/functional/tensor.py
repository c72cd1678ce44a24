"""Making, reshaping, joining, cutting and indexing tensors."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from .. import _core
from ..core.errors import named
from ..core.ops import builtin
from ..tensor import Tensor
from .complex_numbers import complex, imag, polar, real

__all__ = [
    "arange",
    "broadcast_to",
    "complex",
    "concat",
    "cond_take",
    "copy",
    "cumsum",
    "diag",
    "expand_dims",
    "eye",
    "flatten",
    "full",
    "full_like",
    "gather",
    "imag",
    "indexing_one_hot",
    "linspace",
    "meshgrid",
    "non_zero",
    "one_hot",
    "ones",
    "ones_like",
    "polar",
    "real",
    "repeat",
    "reshape",
    "roll",
    "scatter",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "where",
    "zeros",
    "zeros_like",
]

_MAX_DIMS = 8


def _expect_tensor(op: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected {name} as a Tensor, got {type(value).__name__}")
    return value


def _axis(op: str, axis: SupportsIndex, ndim: int) -> int:
    try:
        i = axis.__index__()
    except AttributeError:
        raise TypeError(f"{op}: expected axis as an int, got {type(axis).__name__}") from None
    if not -ndim <= i < ndim:
        raise ValueError(f"{op}: axis {i} is out of range for {ndim} dimensions")
    return i % ndim


# ---- constants ----------------------------------------------------------------------------------


def full(
    shape: int | Sequence[int] | Tensor, value: Any, dtype: Any = None, device: Any = None
) -> Tensor:
    """A tensor in which every element is ``value``.

    Args:
        shape: the sizes: an int, a sequence of ints or a 1-d integer Tensor.
        value: a number, or a Tensor that broadcasts to the shape.
        dtype: of the result; without it, float32 for a float, int32 for an int, bool for a bool.
        device: where the result lives; the default device without it.

    Raises:
        ValueError: for a negative size.

    >>> import megengine.functional as F
    >>> F.full((2, 2), 1.5)
    Tensor([[1.5 1.5]
     [1.5 1.5]], device=xpux:0)
    """
    return _core.full(shape, value, dtype, device)


def ones(shape: int | Sequence[int] | Tensor, dtype: Any = "float32", device: Any = None) -> Tensor:
    """A tensor of ones.

    >>> import megengine.functional as F
    >>> F.ones((1, 2), dtype="int32")
    Tensor([[1 1]], dtype=int32, device=xpux:0)
    """
    return _core.full(shape, 1.0, dtype, device)


def zeros(
    shape: int | Sequence[int] | Tensor, dtype: Any = "float32", device: Any = None
) -> Tensor:
    """A tensor of zeros.

    >>> import megengine.functional as F
    >>> F.zeros(3)
    Tensor([0. 0. 0.], device=xpux:0)
    """
    return _core.full(shape, 0.0, dtype, device)


def full_like(inp: Tensor, value: Any) -> Tensor:
    """A tensor with the shape, dtype and device of ``inp`` in which every element is ``value``.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.full_like(mge.tensor([1, 2]), 7)
    Tensor([7 7], dtype=int32, device=xpux:0)
    """
    return _core.full_like(inp, value)


def ones_like(inp: Tensor) -> Tensor:
    """Ones with the shape, dtype and device of ``inp``.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.ones_like(mge.tensor([3.0, 4.0]))
    Tensor([1. 1.], device=xpux:0)
    """
    return _core.full_like(inp, 1.0)


def zeros_like(inp: Tensor) -> Tensor:
    """Zeros with the shape, dtype and device of ``inp``.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.zeros_like(mge.tensor([3, 4]))
    Tensor([0 0], dtype=int32, device=xpux:0)
    """
    return _core.full_like(inp, 0.0)


@named
def eye(
    N: int | Sequence[int],
    M: int | None = None,
    dtype: Any = "float32",
    device: Any = None,
) -> Tensor:
    """A matrix of shape (N, M), M = N without M, with ones on the main diagonal, zeros elsewhere.

    >>> import megengine.functional as F
    >>> F.eye(2, 3)
    Tensor([[1. 0. 0.]
     [0. 1. 0.]], device=xpux:0)
    """
    sizes = _core.make_shape(N if M is None else (N, M))
    if not 1 <= len(sizes) <= 2:
        raise ValueError(f"eye: expected one or two sizes, got {sizes}")
    return _core.eye(sizes[0], sizes[-1], dtype, device)


def _number(op: str, name: str, value: Any) -> int | float:
    """A Python number from a number, a NumPy scalar or a Tensor of one element.

    Python's own numbers stay what they are: a size may know where it comes from.
    """
    if isinstance(value, (Tensor, np.ndarray)):
        if value.size != 1:
            raise ValueError(f"{op}: expected {name} as one number, got shape {value.shape}")
        value = value.item()
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, np.integer):
        return int(value)
    try:
        number = value if isinstance(value, float) else float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{op}: expected {name} as a number, got {type(value).__name__}") from None
    if not math.isfinite(number):
        raise ValueError(f"{op}: expected a finite {name}, got {number}")
    return number


def _count(start: int | float, stop: int | float, step: int | float) -> int:
    if all(isinstance(v, int) for v in (start, stop, step)):
        return max(0, -((start - stop) // step))  # type: ignore[return-value]
    return max(0, math.ceil((stop - start) / step))


def arange(
    start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = "float32", device: Any = None
) -> Tensor:
    r"""The numbers :math:`start + i \cdot step` that lie before ``stop``, as a 1-d tensor.

    Args:
        start: the first number; with no ``stop`` given, it is the stop, and the first number is 0.
        stop: the numbers end before it.
        step: the distance between them; it may be negative.
        dtype: of the result. Integers are exact at any size.
        device: where the result lives.

    Numbers are ints, floats or Tensors of one element. The result is empty where ``stop`` does not
    come after ``start``.

    Raises:
        ValueError: for a step of 0, and for numbers that are not finite.

    >>> import megengine.functional as F
    >>> F.arange(5)
    Tensor([0. 1. 2. 3. 4.], device=xpux:0)
    >>> F.arange(5, 1, -2, dtype="int32")
    Tensor([5 3], dtype=int32, device=xpux:0)
    """
    if stop is None:
        start, stop = 0, start
    start, stop = _number("arange", "start", start), _number("arange", "stop", stop)
    step = _number("arange", "step", step)
    if step == 0:
        raise ValueError("arange: expected a step other than 0")
    num = _count(start, stop, step)
    last = start + num * step
    if isinstance(last, int) and max(abs(start), abs(last), abs(step)) >= 2**53:
        # Beyond what float64, in which the op takes its numbers, holds.
        if max(abs(start), abs(last)) >= 2**62:
            raise ValueError(f"arange: {start} to {stop} does not fit 64-bit integers")
        whole: Tensor = _core.arange(0, 1, num, "int64", device) * step + start
        return whole.astype(dtype)
    return _core.arange(start, step, num, dtype, device)


def linspace(start: Any, stop: Any, num: Any, dtype: Any = "float32", device: Any = None) -> Tensor:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, both included.

    Args:
        start: the first number: an int, a float or a Tensor of one element.
        stop: the last number.
        num: how many there are, at least 0.
        dtype: of the result; integers are truncated.
        device: where the result lives.

    Raises:
        TypeError: for a ``num`` that is not an integer.
        ValueError: for a negative ``num``.

    >>> import megengine.functional as F
    >>> F.linspace(3, 10, 5)
    Tensor([ 3.    4.75  6.5   8.25 10.  ], device=xpux:0)
    """
    count = _number("linspace", "num", num)
    if not isinstance(count, int):
        if not count.is_integer():
            raise TypeError(f"linspace: expected num as an integer, got {count}")
        count = int(count)
    first, last = _number("linspace", "start", start), _number("linspace", "stop", stop)
    return _core.linspace(first, last, count, dtype, device)


# ---- shapes -------------------------------------------------------------------------------------


def copy(inp: Tensor, device: Any = None) -> Tensor:
    """The same elements in memory of their own, on ``device`` where that is given.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.copy(mge.tensor([1.0, 2.0]), "cpu0")
    Tensor([1. 2.], device=cpu0:0)
    """
    return _core.copy(inp, device)


def reshape(inp: Tensor, target_shape: int | Sequence[int] | Tensor) -> Tensor:
    """The elements in row-major order under a new shape; one size may be -1 and takes what is left.

    Raises:
        ValueError: where the number of elements differs, or for more than one -1.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.reshape(mge.tensor([1, 2, 3, 4, 5, 6]), (2, -1))
    Tensor([[1 2 3]
     [4 5 6]], dtype=int32, device=xpux:0)
    """
    return _core.reshape(inp, target_shape)


@named
def flatten(inp: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Axes ``start_axis`` to ``end_axis``, both included, made one.

    >>> import megengine.functional as F
    >>> F.flatten(F.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = _expect_tensor("flatten", "inp", inp)._tuple_shape
    if not shape:
        return _core.reshape(inp, (1,))
    first = _axis("flatten", start_axis, len(shape))
    last = _axis("flatten", end_axis, len(shape))
    if last < first:
        raise ValueError(f"flatten: end_axis {end_axis} comes before start_axis {start_axis}")
    size = math.prod(shape[first : last + 1])
    return _core.reshape(inp, (*shape[:first], size, *shape[last + 1 :]))


@named
def transpose(inp: Tensor, pattern: Iterable[int | str]) -> Tensor:
    """The axes in another order: axis i of the result is axis ``pattern[i]`` of ``inp``.

    Args:
        inp: the input.
        pattern: each axis once; an ``"x"`` among them stands for a new axis of size 1.

    Raises:
        ValueError: where the pattern names an axis twice or leaves out one of a size other than 1.

    >>> import megengine.functional as F
    >>> F.transpose(F.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    >>> F.transpose(F.zeros((2, 3)), (1, "x", 0)).shape
    (3, 1, 2)
    """
    return _core.transpose(inp, pattern)


@named
def swapaxes(inp: Tensor, axis1: int, axis2: int) -> Tensor:
    """The tensor with two of its axes interchanged.

    >>> import megengine.functional as F
    >>> F.swapaxes(F.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    ndim = _expect_tensor("swapaxes", "inp", inp).ndim
    first, second = _axis("swapaxes", axis1, ndim), _axis("swapaxes", axis2, ndim)
    pattern = list(range(ndim))
    pattern[first], pattern[second] = second, first
    return _core.transpose(inp, pattern)


def broadcast_to(inp: Tensor, shape: int | Sequence[int | None] | Tensor) -> Tensor:
    """The tensor repeated along axes of size 1, and along new leading axes, to a shape.

    A size of None keeps that of ``inp``. No memory is taken: the result is a view.

    Raises:
        ValueError: where ``inp`` does not broadcast to the shape.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.broadcast_to(mge.tensor([1, 2]), (2, 2))
    Tensor([[1 2]
     [1 2]], dtype=int32, device=xpux:0)
    """
    if isinstance(shape, (list, tuple)) and None in [s if s is None else 0 for s in shape]:
        have = _expect_tensor("broadcast_to", "inp", inp)._tuple_shape
        lead = len(shape) - len(have)
        if any(s is None for s in shape[: max(lead, 0)]):
            raise ValueError("broadcast_to: a size of None needs an axis of inp")
        shape = [have[i - lead] if s is None else s for i, s in enumerate(shape)]
    return _core.broadcast_to(inp, shape)


def expand_dims(inp: Tensor, axis: int | Sequence[int]) -> Tensor:
    """The tensor with new axes of size 1 at the places ``axis`` of the result.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.expand_dims(mge.tensor([1, 2]), 0).shape
    (1, 2)
    >>> F.expand_dims(mge.tensor([1, 2]), (0, -1)).shape
    (1, 2, 1)
    """
    return _core.expand_dims(inp, axis)


def squeeze(inp: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """The tensor without axes of size 1: those in ``axis``, or all of them.

    Raises:
        ValueError: where an axis that is named has another size.

    >>> import megengine.functional as F
    >>> F.squeeze(F.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    return _core.squeeze(inp, axis)


# ---- joining and cutting ------------------------------------------------------------------------


def concat(inps: Iterable[Tensor], axis: int = 0, device: Any = None) -> Tensor:
    """Tensors joined along an axis that they have; one of no dimensions counts as a vector.

    Args:
        inps: tensors whose shapes agree but on ``axis``. Different dtypes promote.
        axis: the axis to join along.
        device: where the result lives; that of the inputs without it.

    Raises:
        ValueError: for no inputs, and for shapes that do not fit.
        TypeError: for dtypes that do not promote.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.concat([mge.tensor([[1, 2]]), mge.tensor([[3, 4]])], axis=1)
    Tensor([[1 2 3 4]], dtype=int32, device=xpux:0)
    """
    return _core.concat(inps, axis, device)


def stack(inps: Iterable[Tensor], axis: int = 0, device: Any = None) -> Tensor:
    """Tensors of one shape joined along a new axis.

    Args:
        inps: tensors of one shape. Different dtypes promote.
        axis: the place of the new axis in the result.
        device: where the result lives; that of the inputs without it.

    Raises:
        ValueError: for no inputs, and for different shapes.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.stack([mge.tensor([1, 2]), mge.tensor([3, 4])], axis=1)
    Tensor([[1 3]
     [2 4]], dtype=int32, device=xpux:0)
    """
    return _core.stack(inps, axis, device)


_MAX_EMPTY_PARTS = 1 << 16  # nothing can be cut into any number of parts, within reason


def _part_sizes(size: int, parts: Any) -> list[int]:
    if isinstance(parts, (int, np.integer)) or getattr(parts, "ndim", None) == 0:
        n = int(parts)
        if n < 1:
            raise ValueError(f"split: expected at least 1 part, got {n}")
        most = size or _MAX_EMPTY_PARTS
        if n > most:
            raise ValueError(f"split: expected at most {most} parts, got {n}")
        return [(size + n - 1 - i) // n for i in range(n)]
    ends = [int(end) for end in parts]
    bounds = [0, *ends, size]
    if sorted(bounds) != bounds:
        raise ValueError(f"split: expected rising indices within 0 to {size}, got {ends}")
    return [b - a for a, b in itertools.pairwise(bounds)]


@named
def split(
    inp: Tensor, nsplits_or_sections: int | Sequence[int] | Tensor, axis: int = 0
) -> tuple[Tensor, ...]:
    """The tensor cut into parts along an axis. The parts are views.

    Args:
        inp: the input.
        nsplits_or_sections: an int, the number of parts (where the size does not divide, the first
            ones are larger by one); or the rising indices at which parts end.
        axis: the axis to cut.

    Raises:
        ValueError: for less than one part, for more parts than elements, and for indices that fall
            or lie outside.

    >>> import megengine.functional as F
    >>> [part.shape for part in F.split(F.arange(7), 3)]
    [(3,), (2,), (2,)]
    >>> [part.numpy().tolist() for part in F.split(F.arange(6), [2, 3])]
    [[0.0, 1.0], [2.0], [3.0, 4.0, 5.0]]
    """
    shape = _expect_tensor("split", "inp", inp)._tuple_shape
    i = _axis("split", axis, len(shape))
    return tuple(_core.split(inp, _part_sizes(shape[i], nsplits_or_sections), i))


def _repeated(inp: Tensor, counts: Sequence[int], before: bool) -> Tensor:
    """Each axis repeated ``counts`` times: as a whole (tile), or else element by element."""
    shape = inp._tuple_shape
    wide: list[int] = []  # with an axis for each repetition
    new_axes = []
    for n, count in zip(shape, counts, strict=True):
        if count != 1:
            new_axes.append(len(wide) if before else len(wide) + 1)
        pair = (n,) if count == 1 else (count, n) if before else (n, count)
        wide.extend(pair)
    if len(wide) > _MAX_DIMS:
        # One axis at a time needs one more dimension only.
        for axis, count in enumerate(counts):
            if count != 1:
                once = [count if i == axis else 1 for i in range(len(counts))]
                inp = _repeated(inp, once, before)
        return inp
    out = tuple(n * count for n, count in zip(shape, counts, strict=True))
    return _core.reshape(_core.broadcast_to(_core.expand_dims(inp, new_axes), wide), out)


@named
def repeat(inp: Tensor, repeats: int | Sequence[int] | Tensor, axis: int | None = None) -> Tensor:
    """Every element repeated along an axis.

    Args:
        inp: the input.
        repeats: how often, one number for all or one for each element along the axis.
        axis: the axis; without one, the flattened input is repeated.

    Raises:
        ValueError: for a negative count, or where there is not one count for each element.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.repeat(mge.tensor([[1, 2], [3, 4]]), 2, axis=1)
    Tensor([[1 1 2 2]
     [3 3 4 4]], dtype=int32, device=xpux:0)
    """
    x = _expect_tensor("repeat", "inp", inp)
    if axis is None:
        x, axis = _core.reshape(x, (-1,) if x.size else (0,)), 0
    i = _axis("repeat", axis, x.ndim)
    counts = np.asarray(repeats.numpy() if isinstance(repeats, Tensor) else repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1:
        raise TypeError(f"repeat: expected integers, got {counts.dtype} of shape {counts.shape}")
    if counts.size and counts.min() < 0:
        raise ValueError(f"repeat: expected counts >= 0, got {counts.min()}")
    size = x._tuple_shape[i]
    if counts.size == 1:
        n = int(counts.reshape(())[()])
        return _repeated(x, [n if k == i else 1 for k in range(x.ndim)], before=False)
    if counts.size != size:
        raise ValueError(f"repeat: expected 1 or {size} counts, got {counts.size}")
    picked: Tensor = x[(slice(None),) * i + (np.repeat(np.arange(size), counts),)]
    return picked


@named
def tile(inp: Tensor, reps: int | Sequence[int] | Tensor) -> Tensor:
    """The tensor set side by side with itself ``reps[i]`` times along axis i.

    Args:
        inp: the input.
        reps: a number for each axis; missing ones are 1 for the leading axes, and more than there
            are axes add leading ones.

    Raises:
        ValueError: for a negative number.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.tile(mge.tensor([[1, 2]]), (2, 2))
    Tensor([[1 2 1 2]
     [1 2 1 2]], dtype=int32, device=xpux:0)
    """
    x = _expect_tensor("tile", "inp", inp)
    counts = tuple(_core.make_shape(reps))
    if any(n < 0 for n in counts):
        raise ValueError(f"tile: expected counts >= 0, got {counts}")
    counts = (1,) * (x.ndim - len(counts)) + counts
    if len(counts) > x.ndim:
        x = _core.reshape(x, (1,) * (len(counts) - x.ndim) + x._tuple_shape)
    return _repeated(x, counts, before=True)


@named
def roll(
    inp: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Tensor:
    """Elements moved along an axis; those that leave at the end come back at the start.

    Args:
        inp: the input.
        shift: by how many places, or how many for each axis.
        axis: the axis or axes; without one, the flattened input is rolled and its shape restored.

    Raises:
        ValueError: where there are not as many shifts as axes.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.roll(mge.tensor([[1, 2], [3, 4]]), 1)
    Tensor([[4 1]
     [2 3]], dtype=int32, device=xpux:0)
    """
    x = _expect_tensor("roll", "inp", inp)
    shifts = tuple(_core.make_shape(shift))
    if axis is None:
        if len(shifts) != 1:
            raise ValueError(f"roll: expected one shift where there is no axis, got {shifts}")
        flat = _core.reshape(x, (x.size,))
        return _core.reshape(roll(flat, shifts[0], 0), x._tuple_shape)
    axes = tuple(_core.make_shape(axis))
    if len(axes) != len(shifts):
        raise ValueError(f"roll: expected as many shifts as axes, got {shifts} and {axes}")
    for n, a in zip(shifts, axes, strict=True):
        i = _axis("roll", a, x.ndim)
        size = x._tuple_shape[i]
        cut = -n % size if size else 0
        if cut:
            head, tail = _core.split(x, [cut, size - cut], i)
            x = _core.concat([tail, head], i, None)
    return x if x is not inp else _core.reshape(x, x._tuple_shape)


def meshgrid(*inputs: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids from vectors of coordinates, as views.

    Args:
        *inputs: vectors (or scalars) of coordinates.
        indexing: ``"ij"``: axis i of every grid belongs to input i; ``"xy"``: the first two axes
            are interchanged.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> x, y = F.meshgrid(mge.tensor([1, 2]), mge.tensor([3, 4, 5]))
    >>> x
    Tensor([[1 2]
     [1 2]
     [1 2]], dtype=int32, device=xpux:0)
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: expected indexing 'xy' or 'ij', got {indexing!r}")
    vectors = [_core.reshape(_expect_tensor("meshgrid", "inputs", v), (v.size,)) for v in inputs]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    shape = [0] * len(axes)
    for v, axis in zip(vectors, axes, strict=True):
        shape[axis] = v.size
    out = []
    for v, axis in zip(vectors, axes, strict=True):
        place = [v.size if i == axis else 1 for i in range(len(axes))]
        out.append(_core.broadcast_to(_core.reshape(v, place), shape))
    return tuple(out)


@named
def diag(inp: Tensor, k: int = 0) -> Tensor:
    """The k-th diagonal of a matrix, or the square matrix with a vector on its k-th diagonal.

    Raises:
        ValueError: for an input of other than 1 or 2 dimensions.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.diag(mge.tensor([[1, 2], [3, 4]]))
    Tensor([1 4], dtype=int32, device=xpux:0)
    >>> F.diag(mge.tensor([1, 2]), 1)
    Tensor([[0 1 0]
     [0 0 2]
     [0 0 0]], dtype=int32, device=xpux:0)
    """
    _expect_tensor("diag", "inp", inp)
    return _core.call(builtin.Diag(k=operator.index(k)), inp)


# ---- picking elements ---------------------------------------------------------------------------


def where(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elements of ``x`` where ``mask`` is true and of ``y`` elsewhere; the three broadcast.

    Args:
        mask: a bool Tensor.
        x: a Tensor or a number. Different dtypes promote.
        y: a Tensor or a number.

    Raises:
        TypeError: where mask is not a Tensor.
        ValueError: where mask is not bool, and for shapes that do not broadcast.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.where(mge.tensor([True, False]), mge.tensor([1, 2]), mge.tensor([3, 4]))
    Tensor([1 4], dtype=int32, device=xpux:0)
    """
    return _core.where(mask, x, y)


def cond_take(mask: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The elements of ``x`` where ``mask`` is true, and their places in the flattened ``x``.

    Args:
        mask: a bool Tensor of the shape of ``x``.
        x: the input.

    Returns:
        Two vectors: the elements, and int32 indices.

    Raises:
        TypeError: where mask or x is not a Tensor.
        ValueError: where mask is not bool or has another shape.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.cond_take(mge.tensor([[True, False], [True, True]]), mge.tensor([[1, 2], [3, 4]]))
    (Tensor([1 3 4], dtype=int32, device=xpux:0), Tensor([0 2 3], dtype=int32, device=xpux:0))
    """
    return _core.cond_take(mask, x)


def non_zero(condition: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The positions of the elements that are not 0 (or are true), in row-major order.

    Args:
        condition: the input.
        as_tuple: whether to return a vector for each axis, fit to index ``condition`` with.

    Returns:
        an int32 tensor of shape (number of positions, number of axes), or a tuple of its columns.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.non_zero(mge.tensor([[1, 0], [2, 3]]))
    Tensor([[0 0]
     [1 0]
     [1 1]], dtype=int32, device=xpux:0)
    """
    mask = _expect_tensor("non_zero", "condition", condition)
    places = _core.nonzero(mask if mask.dtype == np.bool_ else mask != 0)
    if as_tuple:
        return tuple(places)
    if not places:
        return _core.full((int(mask.item() != 0), 0), 0, "int32", mask.device)
    return _core.stack(places, 1, None)


def gather(inp: Tensor, axis: int, index: Tensor) -> Tensor:
    r"""Elements along an axis at given positions.

    For three dimensions and axis 0: :math:`out_{ijk} = inp_{index_{ijk},j,k}`.

    Args:
        inp: the input.
        axis: the axis that the positions belong to.
        index: an integer Tensor of as many dimensions as ``inp``; but on ``axis`` its sizes are at
            most those of ``inp``. Negative positions count from the end.

    Returns:
        a tensor of the shape of ``index``.

    Raises:
        ValueError: for an index of another number of dimensions or of larger sizes.
        IndexError: for a position out of range.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.gather(mge.tensor([[1, 2], [3, 4], [5, 6]]), 0, mge.tensor([[0, 2], [1, 0]]))
    Tensor([[1 6]
     [3 2]], dtype=int32, device=xpux:0)
    """
    return _core.gather(inp, axis, index)


def scatter(inp: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    r"""Puts elements at given positions along an axis, in place.

    For three dimensions and axis 0: :math:`inp_{index_{ijk},j,k} = source_{ijk}`. Of several
    elements for one position the last one stays.

    Args:
        inp: the tensor that is written to.
        axis: the axis that the positions belong to.
        index: an integer Tensor as :func:`gather` takes it.
        source: a Tensor of the shape of ``index``; it is cast to the dtype of ``inp``.

    Returns:
        ``inp`` itself.

    Raises:
        ValueError: for shapes that do not fit.
        IndexError: for a position out of range; nothing is written then.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> x = F.zeros((2, 2))
    >>> F.scatter(x, 1, mge.tensor([[0], [1]]), mge.tensor([[5.0], [6.0]]))
    Tensor([[5. 0.]
     [0. 6.]], device=xpux:0)
    """
    shape = _expect_tensor("scatter", "source", source)._tuple_shape
    if shape != _expect_tensor("scatter", "index", index)._tuple_shape:
        raise ValueError(
            f"scatter: expected source in the shape of index {index._tuple_shape}, got {shape}"
        )
    return _core.scatter_(inp, axis, index, source)


def one_hot(inp: Tensor, num_classes: int) -> Tensor:
    """A vector of ``num_classes`` numbers for each label: 1 at the label's place, 0 elsewhere.

    Args:
        inp: integer labels in [0, num_classes).
        num_classes: the size of the new last axis.

    Returns:
        a tensor of the dtype of ``inp`` and of its shape and one more axis.

    Raises:
        TypeError: for labels that are not integers.
        IndexError: for a label out of range.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.one_hot(mge.tensor([0, 2]), 3)
    Tensor([[1 0 0]
     [0 0 1]], dtype=int32, device=xpux:0)
    """
    return _core.one_hot(inp, num_classes)


def indexing_one_hot(src: Tensor, index: Tensor, axis: int = 1, keepdims: bool = False) -> Tensor:
    """One element along an axis for each position of the others.

    Args:
        src: the input.
        index: integers in [0, size of the axis), of the shape of ``src`` without the axis.
        axis: the axis to pick along.
        keepdims: whether the axis stays, with size 1.

    Raises:
        ValueError: for an index of another shape.
        IndexError: for an index out of range.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.indexing_one_hot(mge.tensor([[1.0, 2.0], [3.0, 4.0]]), mge.tensor([0, 1]))
    Tensor([1. 4.], device=xpux:0)
    """
    return _core.indexing_one_hot(src, index, axis, keepdims)


# ---- sums along an axis -------------------------------------------------------------------------


@named
def cumsum(inp: Tensor, axis: SupportsIndex) -> Tensor:
    """Running sums along an axis: element i is the sum of the elements 0 to i.

    Args:
        inp: the input, of any dtype but bool.
        axis: the axis to sum along.

    Returns:
        A tensor of the shape and dtype of ``inp``. Floats accumulate in float64; integers wrap.

    Raises:
        ValueError: for an axis out of range.
        TypeError: for bool.

    >>> import megengine as mge
    >>> import megengine.functional as F
    >>> F.cumsum(mge.tensor([[1, 2, 3], [4, 5, 6]]), axis=1)
    Tensor([[ 1  3  6]
     [ 4  9 15]], dtype=int32, device=xpux:0)
    """
    return _core.call(builtin.Cumsum(axis=operator.index(axis)), inp)
