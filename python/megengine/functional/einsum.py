"""Sums of products in Einstein's notation.

Two operands at a time are brought to a batched matrix product; the order of three and more comes
from the planner of the opt_einsum package.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from .elemwise import mul
from .matrix import matmul
from .tensor import diag, reshape, transpose

__all__ = ["einsum"]

_LETTERS = string.ascii_letters


def _error(message: str) -> ValueError:
    return ValueError(f"einsum: {message}")


# ---- the equation -------------------------------------------------------------------------------


def _from_lists(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """The form einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    operands, terms = list(args[: len(args) // 2 * 2 : 2]), list(args[1 : len(args) // 2 * 2 : 2])

    def spelled(sublist: Any) -> str:
        if not isinstance(sublist, (list, tuple)):
            raise TypeError(f"einsum: expected a list of labels, got {type(sublist).__name__}")
        out = ""
        for label in sublist:
            if label is Ellipsis:
                out += "..."
            elif isinstance(label, int) and 0 <= label < len(_LETTERS):
                out += _LETTERS[label]
            else:
                raise _error(f"expected labels from 0 to {len(_LETTERS) - 1}, got {label!r}")
        return out

    equation = ",".join(spelled(t) for t in terms)
    if len(args) % 2:
        equation += "->" + spelled(args[-1])
    return equation, operands


def _spread(term: str, ndim: int, dots: str) -> str:
    """A term with its ellipsis spelled out by the last of the letters ``dots``."""
    if "..." not in term:
        if "." in term:
            raise _error(f"a lone '.' in {term!r}; an ellipsis is '...'")
        return term
    before, _, after = term.partition("...")
    if "." in before + after:
        raise _error(f"more than one ellipsis in {term!r}")
    n = ndim - len(before) - len(after)
    if n < 0:
        raise _error(f"{term!r} names more axes than the {ndim} of its operand")
    return before + dots[len(dots) - n :] + after


def _parse(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of each operand's axes, and of the result's."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise _error(f"{equation!r} names {len(terms)} operands, got {len(shapes)}")
    bad = set(left + right) - set(_LETTERS + ".,")
    if bad or "," in right:
        raise _error(f"unexpected {sorted(bad) or [',']} in {equation!r}")
    unused = [c for c in _LETTERS if c not in text]
    most = max(
        (len(s) - len(t.replace(".", "")) for t, s in zip(terms, shapes, strict=True) if "." in t),
        default=0,
    )
    if most > len(unused):
        raise _error("more axes than letters")
    dots = "".join(unused[: max(most, 0)])
    terms = [_spread(t, len(s), dots) for t, s in zip(terms, shapes, strict=True)]
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise _error(f"{term!r} names {len(term)} axes of an operand of shape {shape}")
    letters = "".join(terms)
    if arrow:
        if dots and "..." not in right:
            raise _error(f"the axes of '...' are not in the result of {equation!r}")
        out = _spread(right, len(right.replace(".", "")) + len(dots), dots)
    else:
        out = dots + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    for c in out:
        if out.count(c) > 1:
            raise _error(f"{c!r} appears twice in the result of {equation!r}")
        if c not in letters:
            raise _error(f"{c!r} of the result is in no operand of {equation!r}")
    return terms, out


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of each letter; 1 goes with any."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n not in (1, known):
                raise _error(f"axis {c!r} has the sizes {known} and {n}")
    return sizes


# ---- one operand, and two -----------------------------------------------------------------------


def _arrange(x: Tensor, term: str, want: str) -> Tensor:
    """Axes in the order ``want``, which names the same."""
    return x if term == want else transpose(x, [term.index(c) for c in want])


def _single(x: Tensor, term: str, sizes: dict[str, int]) -> tuple[Tensor, str]:
    """An operand without repeated letters (its diagonal) and without axes that only repeat."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise _error(f"axis {c!r} has the sizes {x.shape[i]} and {x.shape[j]}")
            rest = term[:i] + term[i + 1 : j] + term[j + 1 :]
            order = [k for k in range(len(term)) if k not in (i, j)]
            x, term = _diagonal(transpose(x, [*order, i, j])), rest + c
    keep = [i for i, c in enumerate(term) if x.shape[i] == sizes[c]]
    if len(keep) < len(term):
        x, term = reshape(x, tuple(x.shape[i] for i in keep)), "".join(term[i] for i in keep)
    return x, term


def _diagonal(x: Tensor) -> Tensor:
    """The diagonal of the last two axes, as the last axis: every (n + 1)-th of the n * n."""
    n = x.shape[-1]
    if n == 0:
        return reshape(x, (*x.shape[:-2], 0))
    if x.ndim == 2:
        return diag(x)
    return reshape(x, (*x.shape[:-2], n * n))[..., :: n + 1]


def _sum_out(x: Tensor, term: str, keep: str) -> tuple[Tensor, str]:
    gone = [i for i, c in enumerate(term) if c not in keep]
    if not gone:
        return x, term
    return x.sum(axis=gone), "".join(c for c in term if c in keep)


def _pair(
    a: Tensor, a_term: str, b: Tensor, b_term: str, keep: str, sizes: dict[str, int]
) -> tuple[Tensor, str]:
    """The product of two operands, summed over the axes that are not in ``keep``."""
    a, a_term = _sum_out(a, a_term, keep + b_term)
    b, b_term = _sum_out(b, b_term, keep + a_term)
    batch = "".join(c for c in a_term if c in b_term and c in keep)
    inner = "".join(c for c in a_term if c in b_term and c not in keep)
    rows = "".join(c for c in a_term if c not in b_term)
    cols = "".join(c for c in b_term if c not in a_term)
    out = batch + rows + cols

    def lengths(term: str) -> tuple[int, ...]:
        return tuple(sizes[c] for c in term)

    if not inner:  # nothing to sum: each axis stays, and the product broadcasts
        a = reshape(_arrange(a, a_term, batch + rows), lengths(batch + rows) + (1,) * len(cols))
        b = reshape(
            _arrange(b, b_term, batch + cols), lengths(batch) + (1,) * len(rows) + lengths(cols)
        )
        return mul(a, b), out
    n = {part: math.prod(lengths(part)) for part in (batch, inner, rows, cols)}
    lead = (n[batch],) if batch else ()
    a = reshape(_arrange(a, a_term, batch + rows + inner), (*lead, n[rows], n[inner]))
    b = reshape(_arrange(b, b_term, batch + inner + cols), (*lead, n[inner], n[cols]))
    return reshape(matmul(a, b), lengths(out)), out


def _plan(terms: Sequence[str], out: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """Which operands to take in each step; results go to the end of the list."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    from opt_einsum import contract_path

    shapes = [tuple(sizes[c] for c in t) for t in terms]
    path, _ = contract_path(",".join(terms) + "->" + out, *shapes, shapes=True)
    return [tuple(step) for step in path]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products of the elements of tensors, in Einstein's notation, as NumPy's ``einsum``.

    Each letter names an axis. Axes of one name go together and have one size, or 1, which
    broadcasts; those that the result does not name are summed over. A letter twice in one operand
    takes the diagonal.

    Args:
        equation: ``"ij,jk->ik"``; without ``->`` the result has the letters that appear once, in
            alphabetical order. ``...`` stands for any axes, which broadcast. Or, as NumPy has it
            too, operands and lists of labels in turn: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
        operands: tensors (or arrays) of numbers. Mixed dtypes promote.

    Returns:
        The result. Products of two operands are matrix products: 8- and 16-bit integers give int32.

    Raises:
        ValueError: if the equation does not read, or does not fit the operands.

    Example:
        >>> import megengine as mge
        >>> import megengine.functional as F
        >>> x = mge.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> F.einsum("ij,jk->ik", x, x)
        Tensor([[ 7. 10.]
         [15. 22.]], device=xpux:0)
        >>> F.einsum("ii", x)
        Tensor(5.0, device=xpux:0)
    """
    if isinstance(equation, str):
        given = list(operands)
    else:
        equation, given = _from_lists([equation, *operands])
    if not given:
        raise _error("expected at least one operand")
    tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in given]
    shapes = [tuple(x.shape) for x in tensors]
    terms, out = _parse(equation, shapes)
    sizes = _sizes(terms, shapes)
    left = [_single(x, t, sizes) for x, t in zip(tensors, terms, strict=True)]
    for step in _plan([t for _, t in left], out, sizes):
        taken = [left.pop(i) for i in sorted(step, reverse=True)][::-1]
        x, term = taken[0]
        for k, (y, y_term) in enumerate(taken[1:], 1):
            keep = out + "".join(t for _, t in left + taken[k + 1 :])
            x, term = _pair(x, term, y, y_term, keep, sizes)
        left.append((x, term))
    x, term = _sum_out(*left[0], out)
    return _arrange(x, term, out)
