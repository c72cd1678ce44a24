"""Autocast in traced calls, recorded functions and compiled ones gives what eager calls give."""

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.amp import autocast
from megengine.autodiff import GradManager
from megengine.jit import trace
from megengine.jit.recording import record


class Net(M.Module):
    """A bit of everything, with a weight that is used twice."""

    def __init__(self):
        super().__init__()
        self.conv = M.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = M.BatchNorm2d(8)
        self.a = M.Linear(8, 8)
        self.ln = M.LayerNorm(8)
        self.fc = M.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.mean(F.max_pool2d(x, 2), (2, 3))
        x = x + F.gelu(self.a(self.ln(x)))
        x = x + self.a(x)
        return self.fc(x)


def fill(net):
    rng = np.random.default_rng(0)
    for p in net.parameters():
        p[...] = mge.tensor((rng.standard_normal(p.shape) * 0.3).astype(np.float32))


def batches(n):
    rng = np.random.default_rng(1)
    for _ in range(n):
        x = rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
        yield mge.tensor(x), mge.tensor(rng.integers(0, 5, 4).astype(np.int32))


def train(wrap, scope, steps=5):
    net = Net()
    fill(net)
    gm = GradManager().attach(net.parameters())
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        with gm:
            if scope == "inside":
                with autocast():
                    out = net(x)
            else:
                out = net(x)
            loss = F.loss.cross_entropy(out, y)
            gm.backward(loss)
        opt.step().clear_grad()
        return loss

    step = wrap(step)
    if scope == "around":
        step = autocast()(step)
    losses = [float(step(x, y).numpy()) for x, y in batches(steps)]
    return losses, {k: v.numpy() for k, v in net.state_dict(keep_var=True).items()}


@pytest.mark.parametrize("scope", ["inside", "around"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_traced_training_is_eager_training(scope, symbolic):
    want, weights = train(lambda f: f, scope)
    got, traced_weights = train(lambda f: trace(f, symbolic=symbolic), scope)
    np.testing.assert_allclose(got, want, rtol=1e-3)
    for name, w in weights.items():
        np.testing.assert_allclose(traced_weights[name], w, rtol=1e-2, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("scope", ["inside", "around"])
def test_later_calls_replay(scope):
    """The casts do not depend on what other calls have left in the cache."""
    net = Net()
    net.eval()

    @trace(symbolic=True)
    def run(x):
        if scope == "inside":
            with autocast():
                return net(x)
        return net(x)

    x = next(batches(1))[0]
    with autocast(enabled=scope == "around"):
        net(x)
        results = [run(x).numpy() for _ in range(4)]
        net(x)
        results += [run(x).numpy()]
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])
    assert len(run.graphs()) == 1


def test_recorded_functions():
    net = Net()
    fill(net)
    net.eval()
    x = next(batches(1))[0]

    @autocast()
    def run(x):
        return net(x)

    want = run(x)
    (got,) = record(run, x).compile()(x)
    assert str(got.dtype) == str(want.dtype) == "bfloat16"
    np.testing.assert_allclose(
        got.astype("float32").numpy(), want.astype("float32").numpy(), rtol=2e-2, atol=2e-2
    )


def test_autocast_may_change_from_call_to_call():
    w = mge.Parameter(np.ones((2, 2), np.float32))

    @trace(symbolic=True)
    def run(x):
        return F.matmul(x, w)

    x = mge.tensor(np.ones((2, 2), np.float32))
    for _ in range(3):
        assert str(run(x).dtype) == "float32"
        with autocast():
            assert str(run(x).dtype) == "bfloat16"
