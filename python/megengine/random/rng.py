"""Generators, and the functions of the global one."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from .. import _core
from .._core import apply as _apply
from .._core import call as _call
from ..core.errors import named
from ..core.ops import builtin
from ..core.tensor.dtype import is_bfloat16
from ..device import as_device
from ..functional import broadcast_to
from ..tensor import Tensor

__all__ = [
    "RNG",
    "beta",
    "exponential",
    "gamma",
    "get_rng_state",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "seed",
    "set_rng_state",
    "shuffle",
    "uniform",
]

Size: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | Tensor | None"
Parameter: TypeAlias = "Tensor | float"

_GLOBAL = 0  # the handle of the global generator


def _seed_word(seed: SupportsIndex) -> int:
    """A seed as 64 bits."""
    value = operator.index(seed)
    if value < 0:
        raise ValueError(f"seed: expected a non-negative integer, got {value}")
    return value & (2**64 - 1)


def _shape(size: Size) -> tuple[int, ...]:
    return (1,) if size is None else _core.make_shape(size)


def _device(device: Any) -> _core.CompNode:
    return _core.default_device() if device is None else as_device(device)


def _is_float(x: Tensor) -> bool:
    return bool(x.dtype.kind == "f" or is_bfloat16(x.dtype))


def _parameters(
    op: str, size: Size, names: Sequence[str], values: Sequence[Any], device: Any
) -> list[Tensor]:
    """Distribution parameters brought to the shape of the result: size, then their own shape."""
    if not any(isinstance(v, Tensor) for v in values):
        for name, value in zip(names, values, strict=True):
            if not value > 0:
                raise ValueError(f"{op}: expected {name} > 0, got {value}")
        return [broadcast_to(Tensor(float(v), device=device), _shape(size)) for v in values]
    tensors = [v if isinstance(v, Tensor) else Tensor(float(v), device=device) for v in values]
    dtype = tensors[0].dtype if all(t.dtype == tensors[0].dtype for t in tensors) else None
    if dtype is None or not _is_float(tensors[0]):
        dtype = np.dtype("float32")
    own = np.broadcast_shapes(*(t.shape for t in tensors))
    shape = (() if size is None else _core.make_shape(size)) + own
    return [broadcast_to(t.astype(dtype), shape) for t in tensors]


class RNG:
    """A random generator with a state of its own.

    Args:
        seed: a non-negative integer; without one, it is drawn from the global generator.
        device: where results live; the default device without it.

    Raises:
        ValueError: for a negative seed.

    Its methods take the arguments of the functions of the same names.

    >>> import megengine as mge
    >>> rng = mge.random.RNG(seed=3)
    >>> rng.uniform(size=(2, 2)).shape
    (2, 2)
    """

    def __init__(self, seed: SupportsIndex | None = None, device: Any = None) -> None:
        self._device = device
        self._handle = _core.new_generator(None if seed is None else _seed_word(seed))
        weakref.finalize(self, _core.delete_generator, self._handle)

    def uniform(self, low: float = 0, high: float = 1, size: Size = None) -> Tensor:
        """See :func:`megengine.random.uniform`."""
        return _call(
            builtin.UniformRNG(
                shape=_shape(size),
                device=_device(self._device),
                handle=self._handle,
                low=float(low),
                high=float(high),
            )
        )

    def normal(self, mean: float = 0, std: float = 1, size: Size = None) -> Tensor:
        """See :func:`megengine.random.normal`."""
        return _call(
            builtin.GaussianRNG(
                shape=_shape(size),
                device=_device(self._device),
                handle=self._handle,
                mean=float(mean),
                std=float(std),
            )
        )

    def gamma(self, shape: Parameter, scale: Parameter = 1, size: Size = None) -> Tensor:
        """See :func:`megengine.random.gamma`."""
        inputs = _parameters("gamma", size, ("shape", "scale"), (shape, scale), self._device)
        return _call(builtin.GammaRNG(handle=self._handle), *inputs)

    def beta(self, alpha: Parameter, beta: Parameter, size: Size = None) -> Tensor:
        """See :func:`megengine.random.beta`."""
        inputs = _parameters("beta", size, ("alpha", "beta"), (alpha, beta), self._device)
        return _call(builtin.BetaRNG(handle=self._handle), *inputs)

    def poisson(self, lam: Parameter, size: Size = None) -> Tensor:
        """See :func:`megengine.random.poisson`."""
        inputs = _parameters("poisson", size, ("lam",), (lam,), self._device)
        return _call(builtin.PoissonRNG(handle=self._handle), *inputs)

    def exponential(self, rate: Parameter = 1.0, size: Size = None) -> Tensor:
        """See :func:`megengine.random.exponential`."""
        (rates,) = _parameters("exponential", size, ("rate",), (rate,), self._device)
        return _call(builtin.GammaRNG(handle=self._handle), rates * 0 + 1, 1 / rates)

    def multinomial(
        self, input: Tensor, num_samples: SupportsIndex, replacement: bool = False
    ) -> Tensor:
        """See :func:`megengine.random.multinomial`."""
        if not isinstance(input, Tensor):
            raise TypeError(f"multinomial: expected a Tensor, got {type(input).__name__}")
        weights = input if _is_float(input) else input.astype("float32")
        return _call(
            builtin.MultinomialRNG(
                num_samples=operator.index(num_samples),
                replacement=bool(replacement),
                handle=self._handle,
            ),
            weights,
        )

    def permutation(self, n: SupportsIndex | Tensor, dtype: Any = "int32") -> Tensor:
        """See :func:`megengine.random.permutation`."""
        if isinstance(n, Tensor) and n.ndim > 0:
            return _apply(builtin.ShuffleRNG(handle=self._handle), n)[0]
        return _call(
            builtin.PermutationRNG(
                n=operator.index(n),
                dtype=dtype,
                device=_device(self._device),
                handle=self._handle,
            )
        )

    def shuffle(self, inp: Tensor) -> None:
        """See :func:`megengine.random.shuffle`."""
        if not isinstance(inp, Tensor):
            raise TypeError(f"shuffle: expected a Tensor, got {type(inp).__name__}")
        inp._reset(_apply(builtin.ShuffleRNG(handle=self._handle), inp)[0])

    def get_state(self) -> tuple[int, int]:
        """The seed, and how many counters have been used."""
        return _core.generator_state(self._handle)

    def set_state(self, state: tuple[int, int]) -> None:
        """Goes back to what :meth:`get_state` gave."""
        seed, offset = state
        _core.set_generator_state(self._handle, _seed_word(seed), _seed_word(offset))


class _GlobalRNG(RNG):
    """The generator of the functions, and of ops that are told of no other."""

    def __init__(self) -> None:
        self._device = None
        self._handle = _GLOBAL


_global = _GlobalRNG()


@named
def seed(seed: SupportsIndex) -> None:
    """Starts the global generator anew.

    Args:
        seed: a non-negative integer.

    Raises:
        ValueError: for a negative seed.
        TypeError: for a seed that is no integer.

    >>> import megengine as mge
    >>> mge.random.seed(1)
    """
    _global.set_state((_seed_word(seed), 0))


def get_rng_state() -> tuple[int, int]:
    """The state of the global generator, to be kept and given to :func:`set_rng_state`.

    >>> import megengine as mge
    >>> state = mge.random.get_rng_state()
    >>> a = mge.random.normal(size=(3,))
    >>> mge.random.set_rng_state(state)
    >>> bool((a == mge.random.normal(size=(3,))).numpy().all())
    True
    """
    return _global.get_state()


def set_rng_state(state: tuple[int, int]) -> None:
    """Takes the global generator back to a state that :func:`get_rng_state` gave."""
    _global.set_state(state)


@named
def uniform(low: float = 0, high: float = 1, size: Size = None) -> Tensor:
    """Numbers from the uniform distribution on [low, high), as float32.

    Args:
        low: the lower end, included.
        high: the upper end, excluded.
        size: the shape of the result, which may be a Tensor; (1,) without it.

    Raises:
        ValueError: unless low < high, and for a negative size.

    >>> import megengine as mge
    >>> mge.random.uniform(size=(2, 3)).shape
    (2, 3)
    """
    return _global.uniform(low, high, size)


@named
def normal(mean: float = 0, std: float = 1, size: Size = None) -> Tensor:
    """Numbers from the normal distribution, as float32.

    Args:
        mean: its mean.
        std: its standard deviation.
        size: the shape of the result, which may be a Tensor; (1,) without it.

    Raises:
        ValueError: for a negative size.

    >>> import megengine as mge
    >>> mge.random.normal(0, 1, size=(2, 3)).shape
    (2, 3)
    """
    return _global.normal(mean, std, size)


@named
def gamma(shape: Parameter, scale: Parameter = 1, size: Size = None) -> Tensor:
    r"""Numbers from the gamma distribution.

    Its density is :math:`x^{k-1} e^{-x/\theta} / (\Gamma(k) \theta^k)`.

    Args:
        shape: k > 0, a number or a Tensor.
        scale: theta > 0, a number or a Tensor.
        size: how many for each parameter: the shape of the result is size followed by the shape of
            the parameters. For numbers, (1,) without it.

    Raises:
        ValueError: for parameters that are not positive.

    >>> import megengine as mge
    >>> mge.random.gamma(2.0, 3.0, size=(2, 3)).shape
    (2, 3)
    """
    return _global.gamma(shape, scale, size)


@named
def beta(alpha: Parameter, beta: Parameter, size: Size = None) -> Tensor:
    r"""Numbers from the beta distribution.

    Its density is proportional to :math:`x^{\alpha-1} (1-x)^{\beta-1}`.

    Args:
        alpha: its first parameter, > 0, a number or a Tensor.
        beta: its second parameter, > 0, a number or a Tensor.
        size: as for :func:`gamma`.

    Raises:
        ValueError: for parameters that are not positive.

    >>> import megengine as mge
    >>> mge.random.beta(2.0, 1.0, size=(2, 3)).shape
    (2, 3)
    """
    return _global.beta(alpha, beta, size)


@named
def poisson(lam: Parameter, size: Size = None) -> Tensor:
    """Numbers from the Poisson distribution, as floats.

    Args:
        lam: its mean, a number > 0, or a Tensor of numbers >= 0.
        size: as for :func:`gamma`.

    Raises:
        ValueError: for a mean that is not positive.

    >>> import megengine as mge
    >>> mge.random.poisson(3.0, size=(2, 3)).shape
    (2, 3)
    """
    return _global.poisson(lam, size)


@named
def exponential(rate: Parameter = 1.0, size: Size = None) -> Tensor:
    """Numbers from the exponential distribution, whose mean is 1 / rate.

    Args:
        rate: > 0, a number or a Tensor.
        size: as for :func:`gamma`.

    Raises:
        ValueError: for a rate that is not positive.

    >>> import megengine as mge
    >>> mge.random.exponential(2.0, size=(2, 3)).shape
    (2, 3)
    """
    return _global.exponential(rate, size)


@named
def multinomial(input: Tensor, num_samples: SupportsIndex, replacement: bool = False) -> Tensor:
    """Positions drawn with probabilities in proportion to given weights.

    Args:
        input: the weights: ``(n,)``, or ``(m, n)`` for a distribution in each row. They are finite
            and not negative, and need not sum to 1.
        num_samples: k, how many to draw of each distribution.
        replacement: whether a position may come more than once. Without, each draw is from what
            the draws before it left.

    Returns:
        int32 positions, ``(k,)`` or ``(m, k)``, in the order of the draws.

    Raises:
        ValueError: for weights that are negative, not finite or all 0; and for more samples than
            positive weights without replacement.

    >>> import megengine as mge
    >>> mge.random.multinomial(mge.tensor([0.0, 3.0, 0.0]), 2, replacement=True)
    Tensor([1 1], dtype=int32, device=xpux:0)
    >>> sorted(mge.random.multinomial(mge.tensor([1.0, 1.0, 8.0]), 3).numpy().tolist())
    [0, 1, 2]
    """
    return _global.multinomial(input, num_samples, replacement)


@named
def permutation(n: SupportsIndex | Tensor, dtype: Any = "int32") -> Tensor:
    """The integers from 0 to n - 1 in a random order, or the rows of a tensor.

    Args:
        n: how many; or a Tensor, whose rows along axis 0 come back in a random order.
        dtype: of the integers.

    Raises:
        ValueError: for a negative n, and for one whose integers the dtype does not hold.

    >>> import megengine as mge
    >>> sorted(mge.random.permutation(4).numpy().tolist())
    [0, 1, 2, 3]
    """
    return _global.permutation(n, dtype)


@named
def shuffle(inp: Tensor) -> None:
    """Puts the rows of a tensor along axis 0 into a random order, in place.

    Raises:
        ValueError: for a scalar.

    >>> import megengine as mge
    >>> x = mge.tensor([1, 2, 3])
    >>> mge.random.shuffle(x)
    >>> sorted(x.numpy().tolist())
    [1, 2, 3]
    """
    _global.shuffle(inp)
