"""Attention where it is hard: dropout, hidden queries, extremes, memory, bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import _core, device
from megengine.autodiff import GradManager
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from tests.ops.avx2 import outer_run, run_under_avx2

T = mge.tensor
INF, NAN = np.inf, np.nan
attention = F.nn.scaled_dot_product_attention


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> mge.Tensor:
    return T(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


def grads(f: Callable[..., mge.Tensor], *xs: mge.Tensor, dy: mge.Tensor) -> list[np.ndarray]:
    gm = GradManager().attach(list(xs))
    with gm:
        gm.backward(f(*xs), dy)
    found = [x.grad.numpy() for x in xs]
    for x in xs:
        x.grad = None
    return found


# ---- dropout -------------------------------------------------------------------------------------


def dropped(p: float, **options: Any) -> Callable[..., mge.Tensor]:
    """Attention that drops the same weights at every call."""

    def f(q: mge.Tensor, k: mge.Tensor, v: mge.Tensor) -> mge.Tensor:
        mge.random.seed(11)
        return attention(q, k, v, drop_prob=p, **options)

    return f


def test_dropout_keeps_the_share_and_the_mean() -> None:
    mge.random.seed(3)
    n, keys, p = 64, 500, 0.3
    eye = T(np.eye(keys, dtype="float32")).reshape(1, 1, keys, keys)
    q, k = F.zeros((1, 1, n, 4)), F.zeros((1, 1, keys, 4))
    weights = attention(q, k, eye, drop_prob=p).numpy()  # the weights themselves
    values = np.unique(weights)
    np.testing.assert_allclose(values, [0, 1 / keys / (1 - p)], rtol=1e-6)
    kept = (weights > 0).mean()
    assert abs(kept - (1 - p)) < 4 * np.sqrt(p * (1 - p) / weights.size)
    again = attention(q, k, eye, drop_prob=p).numpy()
    assert (again != weights).any(), "every call draws anew"
    assert (attention(q, k, eye, drop_prob=p, training=False).numpy() > 0).all()


@pytest.mark.parametrize("keys", [5, 64, 300])
def test_what_is_dropped_is_what_the_mask_says(keys: int) -> None:
    shape, p = (2, 3, 7, keys), 0.4
    count = 2 * 3 * 7 * 16 * -(-keys // 64)
    state = apply(builtin.RandomCounters(count=count))[0]
    keep = apply(builtin.AttentionDropoutMask(shape=shape, drop_prob=p), state)[0].numpy()
    op = builtin.ScaledDotProductAttention(scale=1.0, drop_prob=p)
    eye = F.broadcast_to(T(np.eye(keys, dtype="float32")), (2, 3, keys, keys))
    q, k = F.zeros((2, 3, 7, 2)), F.zeros((2, 3, keys, 2))
    y = apply(op, q, k, eye, state)[0].numpy()
    np.testing.assert_array_equal(y > 0, keep)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_with_dropout(causal: bool) -> None:
    shapes = (2, 2, 7, 4), (2, 2, 70, 4), (2, 2, 70, 3)
    xs = [normal(*s, seed=i, dtype="float64") for i, s in enumerate(shapes)]
    dy = normal(2, 2, 7, 3, seed=9, dtype="float64")
    f = dropped(0.4, is_causal=causal)
    found = grads(f, *xs, dy=dy)
    for i, x in enumerate(xs):
        step = normal(*x.shape, seed=20 + i, dtype="float64")
        ends = []
        for sign in (1, -1):
            moved = [*xs]
            moved[i] = x + sign * 1e-6 * step
            ends.append((f(*moved) * dy).sum().item())
        slope = (ends[0] - ends[1]) / 2e-6
        assert np.sum(found[i] * step.numpy()) == pytest.approx(slope, rel=1e-6, abs=1e-7)
    _core.prefer_decompositions(True)
    try:
        plain = grads(f, *xs, dy=dy)
    finally:
        _core.prefer_decompositions(False)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_second_order_with_dropout() -> None:
    f = dropped(0.4)
    q, k, v = (normal(1, 2, 5, 3, seed=i, dtype="float64") for i in range(3))
    dy, u = (normal(1, 2, 5, 3, seed=i, dtype="float64") for i in (3, 4))

    def slope(x: mge.Tensor) -> float:
        return float(np.sum(grads(lambda y: f(y, k, v), x, dy=dy)[0] * u.numpy()))

    outer, inner = GradManager().attach([q]), GradManager().attach([q])
    with outer:
        with inner:
            inner.backward(f(q, k, v), dy)
        first = q.grad
        q.grad = None
        outer.backward((first * u).sum())
    second = q.grad.numpy()
    q.grad = None
    step = normal(1, 2, 5, 3, seed=5, dtype="float64")
    want = (slope(q + 1e-5 * step) - slope(q - 1e-5 * step)) / 2e-5
    assert np.sum(second * step.numpy()) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_dropout_does_not_depend_on_threads(heads: int) -> None:
    xs = [normal(1, heads, 400, 16, seed=i) for i in range(3)]
    dy = normal(1, heads, 400, 16, seed=4)
    before = device.get_num_threads()
    try:
        results = []
        for n in (1, 2, 5):
            device.set_num_threads(n)
            results.append(grads(dropped(0.2, is_causal=True), *xs, dy=dy))
    finally:
        device.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bool", "infinite", "causal window"])
def test_hidden_queries_give_zeros_and_finite_gradients(kind: str) -> None:
    q, k, v = (normal(1, 2, 5, 4, seed=i) for i in range(3))
    hidden = np.zeros((5, 5), bool)
    hidden[[1, 4]] = True
    if kind == "causal window":
        hidden[2, :3] = True  # what causality leaves to query 2
    mask = T(hidden) if kind != "infinite" else T(np.where(hidden, -INF, 0).astype("float32"))
    f = lambda q, k, v: attention(q, k, v, mask, is_causal=kind == "causal window")  # noqa: E731
    y = f(q, k, v).numpy()
    seen = [0, 3] if kind == "causal window" else [0, 2, 3]
    unseen = sorted({0, 1, 2, 3, 4} - set(seen))
    assert np.all(y[:, :, unseen] == 0)
    assert np.all(y[:, :, seen] != 0)
    for g in grads(f, q, k, v, dy=normal(1, 2, 5, 4, seed=3)):
        assert np.isfinite(g).all()
    assert np.all(grads(f, q, k, v, dy=F.ones((1, 2, 5, 4)))[0][:, :, unseen] == 0)


def test_huge_scores() -> None:
    q = T([[1e18, 0.0], [-1e18, 0.0]]).reshape(1, 1, 2, 2)
    k = T([[1e18, 0.0], [-1e18, 0.0], [0.0, 1.0]]).reshape(1, 1, 3, 2)
    v = T([[1.0], [2.0], [3.0]]).reshape(1, 1, 3, 1)
    np.testing.assert_array_equal(attention(q, k, v).numpy().ravel(), [1, 2])
    small = attention(q * 1e-30, k * 1e-30, v).numpy()
    np.testing.assert_allclose(small.ravel(), [2, 2], rtol=1e-6)


def test_nan_stays_in_its_row() -> None:
    q, k, v = (normal(1, 1, 4, 3, seed=i).numpy().copy() for i in range(3))
    q[0, 0, 1, 0] = NAN
    y = attention(T(q), T(k), T(v)).numpy()
    assert np.isnan(y[0, 0, 1]).all()
    assert np.isfinite(y[0, 0, [0, 2, 3]]).all()


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_low_precision_rounds_once(low: str) -> None:
    q, k, v = (normal(2, 3, 70, 24, seed=i).astype(low) for i in range(3))
    wide = attention(*(t.astype("float32") for t in (q, k, v))).astype(low).numpy()
    got = attention(q, k, v).numpy()
    np.testing.assert_array_equal(got, wide)


@pytest.mark.parametrize(("heads", "keys"), [(2, 1), (1, 2000)])
def test_one_query(heads: int, keys: int) -> None:
    q, k, v = normal(3, heads, 1, 16), normal(3, heads, keys, 16, seed=1), normal(3, heads, keys, 8)
    scores = np.einsum("bhqd,bhkd->bhqk", q.numpy(), k.numpy()) / 4
    p = np.exp(scores - scores.max(-1, keepdims=True))
    want = p @ v.numpy() / p.sum(-1, keepdims=True)
    np.testing.assert_allclose(attention(q, k, v).numpy(), want, rtol=1e-5, atol=1e-5)


def gradients_ref(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, causal: bool
) -> list[np.ndarray]:
    """The result and the gradients of queries, keys and values, in float64."""
    q, k, v, dy = (x.astype("float64") for x in (q, k, v, dy))
    scale = q.shape[-1] ** -0.5
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if causal:
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -INF
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = p @ v
    slopes = p * (np.einsum("bhqd,bhkd->bhqk", dy, v) - (dy * y).sum(-1, keepdims=True)) * scale
    turned = slopes.swapaxes(-1, -2)
    return [y, slopes @ k, turned @ q, p.swapaxes(-1, -2) @ dy]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [16, 20])  # whole vectors, and some numbers more
def test_any_number_of_keys_in_parts_of_one_projection(depth: int, causal: bool) -> None:
    for length in (*range(1, 50), 196, 205, 321):
        joined = normal(1, length, 3, 2, depth, seed=length)
        dy = normal(1, length, 2, depth, seed=1)
        parts = F.transpose(joined, (2, 0, 3, 1, 4))
        q, k, v = (parts[i] for i in range(3))
        turned = F.transpose(dy, (0, 2, 1, 3))
        f = lambda *x: attention(*x, is_causal=causal)  # noqa: E731
        got = [f(q, k, v).numpy(), *grads(f, q, k, v, dy=turned)]
        want = gradients_ref(*(x.numpy() for x in (q, k, v, turned)), causal)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=str(length))


@outer_run
def test_numbers_under_avx2() -> None:
    run_under_avx2(__file__, "-k", "any_number or threads or one_query or huge or nan")


def test_weights_are_never_held() -> None:
    length = 4096
    q, k, v = (normal(1, 2, length, 16, seed=i) for i in range(3))
    attention(q, k, v, is_causal=True)
    device.reset_max_memory_stats()
    before = device.get_allocated_memory()
    grads(lambda *x: attention(*x, is_causal=True), q, k, v, dy=q)
    more = device.get_max_allocated_memory() - before
    assert more < length * length * 4 / 4, f"{more >> 20} MB"


# ---- several heads -------------------------------------------------------------------------------


def test_module_trains_to_copy_a_position() -> None:
    mge.random.seed(0)
    net = M.MultiHeadAttention(8, 2)
    x = normal(4, 6, 8)
    want = F.broadcast_to(x[:, :1], (4, 6, 8))
    gm = GradManager().attach(net.parameters())
    opt = mge.optimizer.Adam(net.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        with gm:
            loss = F.nn.square_loss(net(x, x, x)[0], want)
            gm.backward(loss)
        opt.step().clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_dropout_of_the_module() -> None:
    net = M.MultiHeadAttention(8, 2, attn_dropout=0.5, out_dropout=0.25)
    x = normal(2, 50, 8)
    mge.random.seed(1)
    y, weights = net(x, x, x, need_weights=True)
    assert abs((y.numpy() == 0).mean() - 0.25) < 0.08
    assert abs((weights.numpy() == 0).mean() - 0.5) < 0.03
    assert (net(x, x, x)[0].numpy() != net(x, x, x)[0].numpy()).any()
    net.eval()
    a, b = net(x, x, x)[0].numpy(), net(x, x, x, need_weights=True)[0].numpy()
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_projections_start_as_glorot_says() -> None:
    net = M.MultiHeadAttention(64, 4, kdim=16)
    w = net.io_weight_bias.numpy().ravel()
    query, key = w[: 64 * 64], w[64 * 64 : 64 * 64 + 16 * 64]
    for part, fan in ((query, 128), (key, 80)):
        bound = np.sqrt(6 / fan)
        assert np.abs(part).max() <= bound
        assert part.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
    assert np.all(w[-4 * 64 :] == 0)


def test_learned_keys_are_parameters() -> None:
    net = M.MultiHeadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    assert [n for n, _ in net.named_parameters()] == ["bias_k", "bias_v", "io_weight_bias"]
    x = normal(2, 3, 8)
    _, weights = net(x, x, x, need_weights=True, is_causal=True)
    assert weights.shape == (4, 3, 5)
    assert np.all(weights.numpy()[:, 0, 1:3] == 0)
    assert np.all(weights.numpy()[:, :, 3:] > 0), "added keys are hidden from nobody"
    gm = GradManager().attach(net.parameters())
    with gm:
        gm.backward(net(x, x, x)[0].sum())
    assert all(np.isfinite(p.grad.numpy()).all() for p in net.parameters())


def test_inputs_of_two_axes() -> None:
    net = M.MultiHeadAttention(8, 2)
    x, y = normal(3, 8), normal(5, 8, seed=1)
    out, weights = net(x, y, y, key_padding_mask=T([False] * 4 + [True]), need_weights=True)
    assert out.shape == (3, 8)
    assert weights.shape == (2, 3, 5)
    _, mean = net(x, y, y, need_weights=True, average_attn_weights=True)
    assert mean.shape == (3, 5)
    whole = net(x[None], y[None], y[None])[0]
    np.testing.assert_allclose(net(x, y, y)[0].numpy(), whole[0].numpy(), rtol=1e-6, atol=1e-6)


# ---- bad input -----------------------------------------------------------------------------------

Q = normal(2, 3, 5, 4)


@pytest.mark.parametrize(
    ("args", "options", "error"),
    [
        ((Q, Q, Q[:, :, :4]), {}, ValueError),
        ((Q, Q[..., :3], Q), {}, ValueError),
        ((Q, Q[:1], Q[:1]), {}, ValueError),
        ((Q, Q[0], Q[0]), {}, ValueError),
        ((Q[0, 0, 0], Q[0, 0, 0], Q[0, 0, 0]), {}, ValueError),
        ((Q, Q.astype("float16"), Q), {}, TypeError),
        ((Q.astype("int32"), Q, Q), {}, TypeError),
        ((Q, Q, Q), {"attn_mask": F.zeros((4, 5))}, ValueError),
        ((Q, Q, Q), {"attn_mask": F.zeros((1, 1, 1, 5, 5))}, ValueError),
        ((Q, Q, Q), {"attn_mask": F.zeros((5, 5)).astype("int32")}, TypeError),
        ((Q, Q, Q), {"drop_prob": 1.0}, ValueError),
        ((Q, Q, Q), {"drop_prob": -0.1}, ValueError),
        ((Q, Q, Q), {"drop_prob": NAN}, ValueError),
        ((Q, Q, Q), {"scale": "a"}, ValueError),
        ((None, Q, Q), {}, TypeError),
    ],
)
def test_bad_attention(args: Any, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"scaled_dot_product_attention|ScaledDotProductAttention"):
        attention(*args, **options)


def heads_call(**changes: Any) -> Any:
    x = normal(2, 5, 8)
    call: dict[str, Any] = {
        "query": x, "key": x, "value": x, "embed_dim": 8, "num_heads": 2, "attn_drop": 0.0,
        "out_drop": 0.0, "io_weight_bias": normal(256),
    }  # fmt: skip
    return F.nn.multi_head_attention(**{**call, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"io_weight_bias": normal(255)}, ValueError),
        ({"io_weight_bias": None}, ValueError),
        ({"embed_dim": 7}, ValueError),
        ({"embed_dim": 2**40}, ValueError),
        ({"num_heads": 0}, ValueError),
        ({"num_heads": 3}, ValueError),
        ({"num_heads": 2.0}, ValueError),
        ({"qproj_size": -8}, ValueError),
        ({"qproj_size": 4, "io_weight_bias": normal(224)}, ValueError),
        ({"oproj_size": 2**22}, ValueError),
        ({"oproj_size": 2**21}, ValueError),
        ({"num_heads": 2**21}, ValueError),
        ({"key": normal(2, 4, 8)}, ValueError),
        ({"key": normal(5, 8)}, ValueError),
        ({"query": normal(1, 5, 8)}, ValueError),
        ({"query": normal(2, 5, 8).astype("int32")}, TypeError),
        ({"attn_drop": 1.0}, ValueError),
        ({"out_drop": -1.0}, ValueError),
        ({"attn_mask": normal(2, 5, 5)}, ValueError),
        ({"attn_mask": T(np.ones((5, 5), "int32"))}, TypeError),
        ({"key_padding_mask": normal(2, 4)}, ValueError),
        ({"key_padding_mask": T(np.ones((2, 5), "int32"))}, TypeError),
        ({"bias_k": normal(1, 1, 8)}, ValueError),
        ({"bias_k": normal(1, 1, 8), "bias_v": normal(1, 1, 7)}, ValueError),
        ({"reslink": True, "oproj_size": 4, "io_weight_bias": normal(224)}, ValueError),
        ({"maybe_cudnn_style_mask": True}, ValueError),
        (
            {
                "maybe_cudnn_style_mask": True,
                "attn_mask": normal(2, 5),
                "key_padding_mask": normal(2, 2),
            },
            TypeError,
        ),
    ],
)
def test_bad_heads(changes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"multi_head_attention|MultiHeadAttn"):
        heads_call(**changes)


@pytest.mark.parametrize(
    ("embed_dim", "num_heads", "options"),
    [
        (8, 3, {}),
        (0, 1, {}),
        (8, 0, {}),
        (8, 2, {"attn_dropout": 1.0}),
        (8, 2, {"out_dropout": -1}),
    ],
)
def test_bad_module(embed_dim: int, num_heads: int, options: Any) -> None:
    with pytest.raises(ValueError, match="MultiHeadAttention"):
        M.MultiHeadAttention(embed_dim, num_heads, **options)


def test_ops_check_what_they_get() -> None:
    op, back = builtin.ScaledDotProductAttention, builtin.ScaledDotProductAttentionBackward
    lse = F.zeros((2, 3, 5))
    masks = [F.zeros((1, 1, 1, 1))] * 4
    for bad, inputs in [
        (op(), [Q, Q]),
        (op(), [Q, Q, Q, *masks]),
        (op(drop_prob=0.5), [Q, Q, Q]),
        (op(drop_prob=0.5), [Q, Q, Q, F.zeros((2,))]),
        (op(), [Q[0], Q[0], Q[0]]),
        (back(), [Q, Q, lse, Q, Q]),
        (back(), [Q[..., :2], Q, lse, Q, Q, Q]),
        (back(), [Q, Q, lse[:1], Q, Q, Q]),
        (builtin.RandomCounters(count=-1), []),
        (builtin.RandomCounters(handle=12345), []),
        (builtin.AttentionDropoutMask(shape=(-1,)), [T([0, 0], dtype="int64")]),
        (builtin.AttentionDropoutMask(shape=()), [T([0, 0], dtype="int64")]),
        (
            builtin.MultiHeadAttn(input_order=1, embeding_size=4, k_size=4, v_size=4),
            [Q[0]] * 3 + [Q],
        ),
        (builtin.MultiHeadAttn(tensor_combination_type="ONLY_MASK"), [Q[0]] * 4),
    ]:
        with pytest.raises((ValueError, TypeError)):
            apply(bad, *inputs)
    huge = F.broadcast_to(F.zeros((1, 1, 1, 1)), (1, 1, 1, 2**50))
    with pytest.raises((MemoryError, ValueError)):
        attention(huge, huge, F.zeros((1, 1, 1, 1)))
