"""Inverses, singular values, cross products, einsum and multinomial: what no record holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import device
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin

# ---- matinv -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], "it is singular"),
        (np.zeros((3, 3)), "it is singular"),
        (np.stack([np.eye(2), np.eye(2), np.zeros((2, 2))]), "number 2 is singular"),
        (np.ones((2, 3)), "expected square matrices"),
        (np.ones(3), "last two axes"),
        (1.0, "last two axes"),
    ],
)
def test_matinv_wants_invertible_square_matrices(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        F.matinv(mge.tensor(x))


def test_matinv_pivots() -> None:
    x = np.array([[0.0, 1.0, 0.0], [1e-20, 0.0, 1.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(F.matinv(mge.tensor(x)).numpy(), np.linalg.inv(x), atol=1e-6)


def test_matinv_of_nan_is_nan() -> None:
    x = mge.tensor([[[np.nan, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 2.0]]])
    out = F.matinv(x).numpy()
    assert np.isnan(out[0]).all()
    np.testing.assert_array_equal(out[1], np.eye(2) / 2)


def test_matinv_of_integers_is_float32() -> None:
    out = F.matinv(mge.tensor([[1, 1], [0, 2]]))
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out.numpy(), [[1, -0.5], [0, 0.5]])
    with pytest.raises(TypeError, match="expected a float dtype"):
        apply(builtin.MatrixInverse(), mge.tensor([[1, 1], [0, 2]]))


# ---- svd ----------------------------------------------------------------------------------------


def _check_svd(x: np.ndarray, dtype: str, full: bool) -> None:
    u, s, v = (
        t.numpy().astype(np.float64) for t in F.svd(mge.tensor(x, dtype=dtype), full_matrices=full)
    )
    m, n = x.shape[-2:]
    k = min(m, n)
    assert u.shape[-2:] == (m, m if full else k)
    assert v.shape[-2:] == (n if full else k, n)
    x = x.astype(dtype).astype(np.float64)
    size = max(float(np.abs(s).max()), 1e-300)
    near: dict[str, float] = {"rtol": 0, "atol": 60 * float(np.finfo(dtype).eps)}
    np.testing.assert_allclose(
        (u[..., :k] * s[..., None, :]) @ v[..., :k, :] / size, x / size, **near
    )
    np.testing.assert_allclose(np.swapaxes(u, -1, -2) @ u, _eyes(x, u.shape[-1]), **near)
    np.testing.assert_allclose(v @ np.swapaxes(v, -1, -2), _eyes(x, v.shape[-2]), **near)
    np.testing.assert_allclose(s / size, np.linalg.svd(x, compute_uv=False) / size, **near)
    assert (np.diff(s, axis=-1) <= 0).all()
    assert (s >= 0).all()


def _eyes(x: np.ndarray, n: int) -> np.ndarray:
    return np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n))


SHAPES = [
    (1, 1),
    (3, 3),
    (7, 2),
    (2, 7),
    (1, 5),
    (4, 6, 3),
    (40, 40),
    (41, 41),
    (100, 37),
    (37, 100),
]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd_decomposes(shape: tuple[int, ...], dtype: str, full: bool) -> None:
    _check_svd(np.random.default_rng(0).standard_normal(shape), dtype, full)


_RNG = np.random.default_rng(1)
SPECIAL = {
    "zero": np.zeros((5, 4)),
    "identity": np.eye(6),
    "equal columns": np.ones((8, 5)),
    "equal columns of many rows": np.ones((80, 50)),
    "rank 1": np.outer(_RNG.standard_normal(60), _RNG.standard_normal(50)),
    "zeros on the diagonal": np.diag([0.0, 3.0, 0.0, 1.0, 0.0]) + np.diag(np.ones(4), 1),
    "hilbert": 1 / (np.arange(60)[:, None] + np.arange(60) + 1.0),
    "graded down": np.diag(10.0 ** -np.arange(0, 30, 0.5)),
    "graded up": np.triu(np.ones((60, 60))) * 10.0 ** np.arange(-30, 0, 0.5)[:, None],
    "triangle": np.tril(np.ones((50, 50))),
    "nilpotent": np.eye(9, k=1),
    "large": _RNG.standard_normal((9, 9)) * 1e37,
    "small": _RNG.standard_normal((9, 9)) * 1e-37,
    "orthogonal": np.linalg.qr(_RNG.standard_normal((60, 60)))[0],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_svd_of_special_matrices(name: str, dtype: str) -> None:
    for full in (False, True):
        _check_svd(SPECIAL[name], dtype, full)
        _check_svd(SPECIAL[name].T.copy(), dtype, full)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_svd_wants_finite_values(bad: float) -> None:
    x = np.ones((3, 2, 2), "float32")
    x[2, 0, 1] = bad
    with pytest.raises(ValueError, match="finite values, got NaN or infinity in matrix 2"):
        F.svd(mge.tensor(x))


def test_svd_of_nothing() -> None:
    u, s, v = F.svd(F.zeros((3, 0)), full_matrices=True)
    np.testing.assert_array_equal(u.numpy(), np.eye(3))
    assert (s.shape, v.shape) == ((0,), (0, 0))
    assert [t.shape for t in F.svd(F.zeros((0, 2, 3)))] == [(0, 2, 2), (0, 2), (0, 2, 3)]
    with pytest.raises(ValueError, match="last two axes"):
        F.svd(F.zeros((3,)))


def test_svd_takes_16_bit_floats() -> None:
    x = np.random.default_rng(2).standard_normal((4, 3))
    for dtype in ("float16", "bfloat16"):
        u, s, v = F.svd(mge.tensor(x).astype(dtype))
        assert u.dtype == s.dtype == v.dtype == mge.tensor(x).astype(dtype).dtype
        back = (u.astype("float32") * s.astype("float32")) @ v.astype("float32")
        np.testing.assert_allclose(back.numpy(), x, atol=0.05)


def _gradient(f: Any, x: np.ndarray) -> np.ndarray:
    t = mge.tensor(x, dtype="float64")
    with GradManager().attach([t]) as gm:
        gm.backward(f(t))
    return np.asarray(t.grad.numpy())


def test_gradient_at_equal_singular_values() -> None:
    # u v is the orthogonal matrix nearest to x, which does not depend on how vectors turn.
    weights = np.arange(9.0).reshape(3, 3)

    def nearest(t: mge.Tensor) -> mge.Tensor:
        u, _, v = F.svd(t)
        return F.sum(F.matmul(u, v) * mge.tensor(weights, dtype="float64"))

    def slope(x: np.ndarray, direction: np.ndarray) -> float:
        h = 1e-6
        ends = [np.linalg.svd(x + sign * h * direction) for sign in (1, -1)]
        high, low = (float((u @ v * weights).sum()) for u, _, v in ends)
        return (high - low) / (2 * h)

    direction = np.random.default_rng(0).standard_normal((3, 3))
    for x in (np.eye(3), np.diag([2.0, 2.0, 1.0]), np.linalg.qr(SPECIAL["hilbert"][:3, :3])[0]):
        got = float((_gradient(nearest, x) * direction).sum())
        np.testing.assert_allclose(got, slope(x, direction), rtol=1e-6)
        for f in (lambda t: F.sum(F.svd(t)[0]), lambda t: F.sum(F.svd(t)[2])):
            assert np.isfinite(_gradient(f, x)).all()


def test_gradient_at_singular_values_of_0_is_finite() -> None:
    for x in (np.zeros((3, 2)), np.outer([1.0, 2.0, 3.0], [1.0, 1.0])):
        for f in (
            lambda t: F.sum(F.svd(t)[0]),
            lambda t: F.sum(F.svd(t)[2]),
            lambda t: F.sum(F.svd(t, compute_uv=False)),
        ):
            assert np.isfinite(_gradient(f, x)).all()


def test_gradient_of_full_matrices_says_what_to_do() -> None:
    x = np.random.default_rng(3).standard_normal((4, 2))
    np.testing.assert_allclose(
        _gradient(lambda t: F.sum(F.svd(t, full_matrices=True)[1]), x),
        _gradient(lambda t: F.sum(F.svd(t, compute_uv=False)), x),
    )
    with pytest.raises(ValueError, match="full_matrices=False"):
        _gradient(lambda t: F.sum(F.svd(t, full_matrices=True)[0]), x)


# ---- cross --------------------------------------------------------------------------------------


def test_cross_checks_its_vectors() -> None:
    with pytest.raises(ValueError, match="vectors of 2 or 3 numbers, got 4"):
        F.cross(F.ones((2, 4)), F.ones((2, 4)))
    with pytest.raises(ValueError, match="broadcast"):
        F.cross(F.ones((2, 3)), F.ones((4, 3)))
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        F.cross(F.ones((2, 3)), F.ones((2, 3)), axis=2)
    with pytest.raises(ValueError, match="axis -1 is out of range"):
        F.cross(mge.tensor(1.0), F.ones((3,)))
    with pytest.raises(TypeError, match="expected numbers"):
        F.cross(F.ones((3,), dtype="bool"), F.ones((3,), dtype="bool"))


# ---- einsum -------------------------------------------------------------------------------------

EQUATIONS: list[tuple[Any, ...]] = [
    ("ij,jk", (3, 4), (4, 5)),
    ("ii", (3, 3)),
    ("ba", (2, 3)),
    ("i...", (3, 4)),
    ("...", (3, 4)),
    ("...i->i...", (2, 3)),
    ("b...i,i...->b...", (2, 3, 4), (4, 3)),
    ("iji->j", (3, 2, 3)),
    ("aab,bcc->ac", (2, 2, 3), (3, 4, 4)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    (",->", (), ()),
    (" i j , j k -> i k ", (2, 3), (3, 2)),
    ("iii->i", (3, 3, 3)),
    ("ij,jj->i", (2, 3), (3, 3)),
    ("zA,Ab->bz", (2, 3), (3, 4)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,ij->ij", (3, 4), (1, 4)),
    ("ij,k->", (2, 3), (4,)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=str)
def test_einsum_is_numpys(case: tuple[Any, ...]) -> None:
    equation, *shapes = case
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(s) for s in shapes]
    out = F.einsum(equation, *(mge.tensor(x, dtype="float64") for x in arrays)).numpy()
    np.testing.assert_allclose(out, np.einsum(equation, *arrays), rtol=1e-11, atol=1e-12)


def test_einsum_with_lists_of_labels() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    a, b = mge.tensor(x), mge.tensor(y)
    np.testing.assert_array_equal(F.einsum(a, [0, 1], b, [1, 2], [0, 2]).numpy(), x @ y)
    np.testing.assert_array_equal(F.einsum(a, [0, ...], [..., 0]).numpy(), x.T)
    assert F.einsum(a, [0, 1], b, [1, 2]).shape == (2, 4)
    with pytest.raises(ValueError, match="expected labels"):
        F.einsum(a, [0, 99])
    with pytest.raises(TypeError, match="list of labels"):
        F.einsum(a, 3)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3)], "names 2 operands, got 1"),
        ("ij->k", [(2, 3)], "in no operand"),
        ("ij->ii", [(2, 3)], "appears twice in the result"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "axis 'j' has the sizes 3 and 4"),
        ("ii", [(2, 3)], "axis 'i' has the sizes 2 and 3"),
        ("i.j", [(2, 3)], "a lone"),
        ("......", [(2,)], "more than one ellipsis"),
        ("ijk", [(2, 3)], "names 3 axes"),
        ("ijk...", [(2, 3)], "names more axes"),
        ("i$", [(2,)], "unexpected"),
        ("i->i,i", [(2,)], "unexpected"),
        ("...i->i", [(2, 3)], "not in the result"),
    ],
)
def test_einsum_says_what_does_not_fit(
    equation: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        F.einsum(equation, *(F.zeros(s) for s in shapes))
    with pytest.raises(ValueError, match="einsum"):
        F.einsum("->")


# ---- multinomial --------------------------------------------------------------------------------


def test_multinomial_draws_in_proportion() -> None:
    mge.random.seed(5)
    weights = np.array([1.0, 2.0, 0.0, 7.0])
    drawn = mge.random.multinomial(mge.tensor(weights), 100000, replacement=True).numpy()
    assert drawn.dtype == np.int32
    shares = np.bincount(drawn, minlength=4) / 100000
    np.testing.assert_allclose(shares, weights / 10, atol=0.01)
    assert shares[2] == 0


def test_multinomial_without_replacement() -> None:
    mge.random.seed(6)
    p = np.array([0.1, 0.2, 0.0, 0.7])
    rows = mge.random.multinomial(F.broadcast_to(mge.tensor(p), (30000, 4)), 2).numpy()
    assert rows.shape == (30000, 2)
    assert (rows[:, 0] != rows[:, 1]).all()
    np.testing.assert_allclose(np.bincount(rows[:, 0], minlength=4) / 30000, p, atol=0.015)
    second = [sum(p[i] * p[j] / (1 - p[i]) for i in (0, 1, 3) if i != j) for j in range(4)]
    np.testing.assert_allclose(np.bincount(rows[:, 1], minlength=4) / 30000, second, atol=0.015)


def test_multinomial_does_not_depend_on_threads() -> None:
    weights = mge.tensor(np.random.default_rng(0).random((500, 300)))
    before = device.get_num_threads()
    for replacement in (False, True):
        out = []
        try:
            for threads in (1, 3):
                device.set_num_threads(threads)
                mge.random.seed(7)
                out.append(mge.random.multinomial(weights, 20, replacement).numpy())
        finally:
            device.set_num_threads(before)
        np.testing.assert_array_equal(*out)


@pytest.mark.parametrize(
    ("weights", "n", "message"),
    [
        ([1.0, 2.0, 0.0], 3, "3 or more positive weights, got 2"),
        ([0.0, 0.0], 1, "positive weights"),
        ([1.0], 2, "without replacement"),
        ([-1.0, 2.0], 1, "weights >= 0"),
        ([np.nan, 2.0], 1, "weights >= 0"),
        ([np.inf, 2.0], 1, "finite weights"),
        ([1.0], -1, "num_samples >= 0"),
        ([[[1.0]]], 1, "shape"),
    ],
)
def test_multinomial_checks_its_weights(weights: Any, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mge.random.multinomial(mge.tensor(weights), n)


def test_multinomial_of_a_generator_and_of_integers() -> None:
    a, b = mge.random.RNG(3), mge.random.RNG(3)
    weights = mge.tensor([1, 2, 3, 4])
    np.testing.assert_array_equal(
        a.multinomial(weights, 9, True).numpy(), b.multinomial(weights, 9, True).numpy()
    )
    assert mge.random.multinomial(weights, 0).shape == (0,)
    with pytest.raises(TypeError, match="expected a Tensor"):
        mge.random.multinomial([1.0], 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no weights"):
        mge.random.multinomial(F.zeros((0,)), 1, replacement=True)
