"""A test record: one function, an independent reference, and how to make inputs for it.

Write one per function (and per interesting choice of its parameters) in ``cases/<family>.py``, in a
module level list ``RECORDS``::

    from tests.ops.record import Record
    import megengine.functional as F
    import numpy as np

    RECORDS = [
        Record(
            "exp",
            fn=F.exp,                                       # Tensors -> Tensor, or a tuple of them
            ref=np.exp,                                     # the same on float64 arrays
            inputs=lambda rng: [rng.standard_normal((3, 4))],
            ops=("Elemwise",),                              # registry names that it covers
            scalar=True,
        ),
        Record(
            "gather-axis1",
            fn=lambda x, i: F.gather(x, 1, i),
            ref=lambda x, i: np.take_along_axis(x, i, 1),
            inputs=lambda rng: [rng.standard_normal((3, 4)), rng.integers(0, 4, (3, 2))],
            ops=("Gather",),
        ),
    ]

The dtype of a generated array is the role of that input:

* floating: data. Cast to the dtype under test (for an integer dtype under test: rounded first);
  differentiable where ``grad`` says so.
* integer: an index or a label. Given as int32 whatever the dtype under test, never differentiated.
  Where the data itself is integer (bitwise operators), set ``int_data=True``: then integer arrays
  are cast to the dtype under test.
* bool: a mask, given as bool.

What the checks in ``test_records.py`` do with it:

* values: for each of ``dtypes``, against ``ref`` on the float64 (int64 for integer dtypes) values
  that the inputs have after the cast. 16-bit results may be off by half a unit in the last place of
  the exact result plus the float32 tolerance: compute in float32, round once. Loosen with ``tol``
  where a function is a chain of several ops.
* the dtype of the result: that of the data for float results, bool for bool, int32 for integers;
  else ``out_dtype``.
* gradients, float64: a directional difference of ``ref`` against the gradient, with a random
  upstream gradient; order 2 likewise, on the gradient itself (``order=1`` turns it off).
* layouts: transposed, sliced, reversed and broadcast inputs give what their contiguous copies give,
  values and gradients.
* channels-last, where an input has four dimensions.
* size 0: axis 0 of every input cut to nothing (where they agree on its size), or ``empty``'s own
  lists of inputs; where ``ref`` raises, ``fn`` must raise too. scalars: 0-d inputs, where
  ``scalar`` is set.
* fused ops against their decompositions; one thread against two, bit for bit (on ``large`` where
  given); and the values once more under ``MGE_CPU_ISA=avx2``.

Inputs should keep clear of kinks (ties of max, 0 for relu, integers for floor) by much more than
1e-4: a difference taken across a kink is no derivative. Values at such points belong into plain
tests.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# (relative, absolute) tolerance of a single op, per dtype of the result. For the 16-bit types these
# are added to half a unit in the last place.
DEFAULT_TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-12, 1e-12),
    "float32": (2e-6, 2e-6),
    "float16": (2e-6, 2e-6),
    "bfloat16": (2e-6, 2e-6),
}
UNIT_ROUNDOFF = {"float64": 0.0, "float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST_SUBNORMAL = {"float64": 0.0, "float32": 0.0, "float16": 2.0**-24, "bfloat16": 0.0}


@dataclass(frozen=True)
class Record:
    """How to test one function. See the text of this module.

    Args:
        name: unique; may hold letters, digits and ``-_.``.
        fn: takes Tensors, returns a Tensor or a tuple or list of them.
        ref: takes float64 (or int64, bool) arrays, returns an array or a tuple. Must not use
            megengine.
        inputs: takes a ``numpy.random.Generator``, returns a list of arrays.
        ops: names of the registered ops that the record exercises, forward and backward.
        dtypes: dtypes of the data inputs to test values in.
        tol: dtype -> (rtol, atol), over the defaults. A 16-bit entry replaces the rounding rule as
            well.
        out_dtype: dtype under test -> dtype expected of the (first) result.
        grad: indices of the inputs to differentiate; None means every floating input, () none.
        order: 0, 1 or 2: the highest order of derivative to check.
        grad_tol: (rtol, atol) of the gradient checks.
        int_data: integer inputs are data (see above).
        layouts: run the layout checks.
        channels_last: run the channels-last check where an input has four dimensions.
        empty: True for the automatic size-0 variant, False for none, or a function that returns
            lists of inputs.
        scalar: also run on 0-d inputs.
        large: a second generator whose inputs are big enough to be cut among threads.
        exact_threads: False where the number of threads may change the last bits: a library's sums.
    """

    name: str
    fn: Callable[..., Any]
    ref: Callable[..., Any]
    inputs: Callable[[np.random.Generator], Sequence[Array]]
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    tol: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    out_dtype: Mapping[str, str] | None = None
    grad: tuple[int, ...] | None = None
    order: int = 2
    grad_tol: tuple[float, float] = (1e-6, 1e-7)
    int_data: bool = False
    layouts: bool = True
    channels_last: bool = True
    empty: bool | Callable[[], Sequence[Sequence[Array]]] = True
    scalar: bool = False
    large: Callable[[np.random.Generator], Sequence[Array]] | None = None
    exact_threads: bool = True

    def generator(self, salt: int = 0) -> np.random.Generator:
        """The random generator of this record: fixed by its name and the session's seed."""
        return np.random.default_rng([zlib.crc32(self.name.encode()), SEED, salt])

    def arrays(self, salt: int = 0) -> list[Array]:
        """A fresh list of inputs."""
        return [np.asarray(a) for a in self.inputs(self.generator(salt))]

    def differentiable(self, arrays: Sequence[Array]) -> tuple[int, ...]:
        """Indices of the inputs that gradients are taken of."""
        if self.order == 0:
            return ()
        if self.grad is not None:
            return self.grad
        return tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")

    def is_data(self, array: Array) -> bool:
        """True where this input takes the dtype under test."""
        return array.dtype.kind == "f" or (self.int_data and array.dtype.kind in "iu")

    def tolerance(self, dtype: str, exact: Array) -> Array:
        """The largest allowed difference from each element of the exact result."""
        magnitude = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        if dtype in self.tol:
            rtol, atol = self.tol[dtype]
            return rtol * magnitude + atol
        base = (
            self.tol.get("float32", DEFAULT_TOLERANCE["float32"]) if UNIT_ROUNDOFF[dtype] else None
        )
        rtol, atol = base or DEFAULT_TOLERANCE[dtype]
        return (rtol + 1.01 * UNIT_ROUNDOFF[dtype]) * magnitude + atol + SMALLEST_SUBNORMAL[dtype]


SEED = 0  # set by conftest.py from --seed


def in_range(a: Array, dtype: str) -> Array:
    """Input for a dtype. Negative numbers wrap in narrow unsigned ones; in the wide ones they would
    be too large for the references, which compute in int64.
    """
    return np.abs(a) if dtype in ("uint32", "uint64") else a


def round_to(a: Array, dtype: str) -> Array:
    """The values of `a` after a cast to `dtype`, as float64 (int64 for integers, bool for bool)."""
    if dtype == "bool":
        return a.astype(bool)
    if dtype in INTS:
        return in_range(np.rint(a), dtype).astype(dtype).astype(np.int64)
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(a, np.float32).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
        out = rounded.astype(np.uint32).view(np.float32).astype(np.float64).reshape(a.shape)
        return np.where(np.isnan(a), np.nan, out)
    with np.errstate(over="ignore"):
        return a.astype(dtype).astype(np.float64)


def all_records() -> list[Record]:
    """The records of every module of tests.ops.cases, in order of module and list; names are
    unique.
    """
    package = importlib.import_module("tests.ops.cases")
    records: list[Record] = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        records += module.RECORDS
    names = [r.name for r in records]
    twice = sorted({n for n in names if names.count(n) > 1})
    assert not twice, f"records with the same name: {twice}"
    return records


def covered_elsewhere() -> dict[str, str]:
    """Ops that no record can hold (random ones, in-place steps): name -> the test file that covers
    it, relative to tests/.

    A case module lists its own in a dict ``COVERED_ELSEWHERE``.
    """
    package = importlib.import_module("tests.ops.cases")
    out: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        out.update(getattr(module, "COVERED_ELSEWHERE", {}))
    return out
