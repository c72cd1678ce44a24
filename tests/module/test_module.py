"""The base class: what is found under which name, state dicts, hooks, modes, text."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import megengine as mge
import megengine.module as M
from megengine import Parameter, Tensor


class Leaf(M.Module):
    """One parameter and one buffer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.w = Parameter([1.0, 2.0])
        self.b = Tensor([3.0])

    def forward(self, x, k=1):
        return x * k + self.w


class Net(M.Module):
    """Modules and tensors in every place that counts."""

    def __init__(self):
        super().__init__()
        self.z = Leaf()
        self.a = Leaf(name="named")
        self.listed = [Leaf(), Leaf(), [Leaf(), 3]]
        self.mapped = {"k": Leaf(), "j": M.ReLU()}
        self.tupled = (M.ReLU(), Leaf())
        self.tensors_listed = [Parameter([1.0]), Parameter([2.0])]
        self.tensors_mapped = {"x": Parameter([1.0])}
        self.shared = self.z
        self.buffer = Tensor([1.0])
        self.number = 3

    def forward(self, x):
        return self.a(self.z(x))


LEAVES = ["a", "listed.0", "listed.1", "listed.2.0", "mapped.k", "shared", "tupled.1"]
OWN = ["tensors_listed.0", "tensors_listed.1", "tensors_mapped.x"]


def names(pairs) -> list[str]:
    return [name for name, *_ in pairs]


# ---- names --------------------------------------------------------------------------------------


def test_names_come_sorted_and_each_object_once() -> None:
    net = Net()
    assert names(net.named_parameters()) == sorted([f"{x}.w" for x in LEAVES] + OWN)
    assert names(net.named_buffers()) == sorted([f"{x}.b" for x in LEAVES] + ["buffer"])
    assert names(net.named_modules()) == ["", *sorted([*LEAVES, "mapped.j", "tupled.0"])]
    assert names(net.named_children()) == sorted([*LEAVES, "mapped.j", "tupled.0"])
    assert len(list(net.tensors())) == len(names(net.named_tensors())) == 2 * 7 + 3 + 1
    assert len(list(net.parameters())) == 10
    assert len(list(net.buffers())) == 8
    assert next(iter(net.modules())) is net
    assert net.z in list(net.children())


def test_prefix_and_depth() -> None:
    net = Net()
    assert names(net.named_parameters(prefix="p", recursive=False)) == [f"p.{x}" for x in OWN]
    assert names(net.named_buffers(recursive=False)) == ["buffer"]
    assert names(net.named_modules(prefix="p"))[:2] == ["p", "p.a"]
    assert names(net.named_children(prefix="p"))[0] == "p.a"


def test_parents() -> None:
    leaf = Leaf()
    assert list(leaf.named_modules(with_parent=True)) == [("", leaf, None)]
    assert list(leaf.named_parameters(with_parent=True)) == [("w", leaf.w, leaf)]
    assert list(leaf.modules(with_parent=True)) == [(leaf, None)]


def test_long_lists_keep_their_order() -> None:
    class Holder(M.Module):
        def forward(self): ...

    holder = Holder()
    holder.layers = [M.ReLU() for _ in range(12)]
    assert names(holder.named_children()) == [f"layers.{i}" for i in range(12)]
    holder.layers.append(M.Sigmoid())
    assert names(holder.named_children())[-1] == "layers.12"
    point = namedtuple("point", "x y")
    holder.layers = point(M.ReLU(), Leaf())
    assert names(holder.named_tensors()) == ["layers.1.b", "layers.1.w"]
    holder.layers = {1: 2, "a": 3}  # numbers as keys are fine where nothing is found under them
    assert names(holder.named_children()) == []
    with pytest.raises(AssertionError, match="must be str"):
        holder.layers = {1: M.ReLU()}


def test_assignment_and_deletion() -> None:
    net = Net()
    net.z = M.ReLU()
    assert "z" in names(net.named_modules())
    del net.a
    net.tupled = 5
    assert {"a", "tupled.0"}.isdisjoint(names(net.named_modules()))
    with pytest.raises(AttributeError):
        del net.nothing
    leaf = Leaf()
    leaf.w = Tensor([1.0])  # a parameter replaced by a plain Tensor becomes a buffer
    assert names(leaf.named_parameters()) == []
    assert names(leaf.named_buffers()) == ["b", "w"]


def test_cycles_end() -> None:
    net = Leaf()
    net.me = net
    assert names(net.named_modules()) == [""]
    assert names(net.named_parameters()) == ["w"]
    net.eval()
    assert list(net.state_dict()) == ["b", "w"]


def test_construction() -> None:
    with pytest.raises(TypeError, match="abstract"):
        M.Module()
    for name in (3, "", "  "):
        with pytest.raises(AssertionError, match="non-empty"):
            M.ReLU(name=name)
    assert Leaf(name="x").name == "x"
    assert Leaf().name is None

    class Hasty(M.Module):
        def __init__(self):
            self.layer = M.ReLU()

        def forward(self): ...

    with pytest.raises(AttributeError, match=r"Module.__init__"):
        Hasty()


# ---- calls and hooks ----------------------------------------------------------------------------


def test_hooks_run_in_order_and_may_replace() -> None:
    leaf, seen = Leaf(), []
    x = Tensor([1.0, 1.0])
    handles = [
        leaf.register_forward_pre_hook(lambda m, i: seen.append((m, len(i)))),
        leaf.register_forward_pre_hook(lambda m, i: (i[0] + 100,)),
        leaf.register_forward_hook(lambda m, i, o: seen.append((i[0].numpy()[0], o.numpy()[0]))),
        leaf.register_forward_hook(lambda m, i, o: o * 2),
    ]
    assert leaf(x).numpy().tolist() == [204.0, 206.0]
    assert seen == [(leaf, 1), (101.0, 102.0)]
    assert leaf(x, k=2).numpy().tolist() == [406.0, 408.0]
    for handle in handles:
        handle.remove()
        handle.remove()
    assert leaf(x).numpy().tolist() == [2.0, 3.0]
    assert not leaf._forward_pre_hooks
    assert not leaf._forward_hooks


def test_what_hooks_return() -> None:
    leaf = Leaf()
    x = Tensor([1.0, 1.0])
    handle = leaf.register_forward_pre_hook(lambda m, i: i[0] + 1)  # not a tuple: one input
    assert leaf(x).numpy().tolist() == [3.0, 4.0]
    handle.remove()
    leaf.register_forward_hook(lambda m, i, o: (o, 1))
    assert leaf(x)[1] == 1


def test_a_hook_may_remove_itself() -> None:
    leaf = Leaf()
    handle = leaf.register_forward_hook(lambda m, i, o: handle.remove())
    leaf(Tensor([1.0, 1.0]))
    assert not leaf._forward_hooks


# ---- modes --------------------------------------------------------------------------------------


def test_modes() -> None:
    net = Net()
    assert net.eval() is None
    assert not any(m.training for m in net.modules())
    assert net.train() is None
    assert all(m.training for m in net.modules())
    net.train(False, recursive=False)
    assert not net.training
    assert net.listed[2][0].training
    net.disable_quantize()
    assert all(m.quantize_disabled for m in net.modules())
    net.disable_quantize(False)
    assert not net.a.quantize_disabled


def test_apply_visits_every_module_once() -> None:
    net, seen = Net(), []
    assert net.apply(seen.append) is None
    assert seen == list(net.modules())


def test_zero_grad_is_deprecated() -> None:
    leaf = Leaf()
    leaf.w.grad = Tensor([1.0, 1.0])
    with pytest.warns(DeprecationWarning, match="clear_grad"):
        leaf.zero_grad()
    assert leaf.w.grad.numpy().tolist() == [0.0, 0.0]


def test_replace_param() -> None:
    net = M.Sequential(M.Linear(2, 2), M.ReLU())
    new = {4: Parameter(np.ones((2, 2), "float32")), 3: Parameter([5.0, 6.0])}
    assert net.replace_param(new, 3) == 2
    assert net[0].bias.numpy().tolist() == [5.0, 6.0]
    with pytest.raises(AssertionError, match="shape"):
        net.replace_param({0: Parameter([1.0])}, 0)


# ---- state dicts --------------------------------------------------------------------------------


def test_state_dict() -> None:
    net = Net()
    state = net.state_dict()
    assert isinstance(state, OrderedDict)
    assert list(state)[:4] == ["buffer", *OWN]
    assert set(state) == set(names(net.named_tensors()))
    assert all(isinstance(v, np.ndarray) and not v.flags.writeable for v in state.values())
    assert next(iter(net.state_dict(prefix="p."))) == "p.buffer"
    variables = net.state_dict(keep_var=True)
    assert variables["a.w"] is net.a.w
    # A module under two names appears under the first of them.
    assert variables["shared.w"] is net.z.w
    net.a.w[...] = 7.0
    assert state["a.w"].tolist() == [1.0, 2.0]


def test_shared_parameters_are_saved_for_each_module() -> None:
    class Tied(M.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = M.Linear(2, 2), M.Linear(2, 2)
            self.b.weight = self.a.weight

        def forward(self): ...

    tied = Tied()
    assert names(tied.named_parameters()) == ["a.bias", "a.weight", "b.bias"]
    assert list(tied.state_dict()) == ["a.bias", "a.weight", "b.bias", "b.weight"]
    tied.load_state_dict({k: v * 0 + 3 for k, v in tied.state_dict().items()})
    assert tied.a.weight is tied.b.weight
    assert (tied.a.weight.numpy() == 3).all()


def test_shared_modules_are_saved_for_each_parent() -> None:
    class Tied(M.Module):
        def __init__(self):
            super().__init__()
            self.layers = [M.Linear(1, 1), M.ReLU()]
            self.net = M.Sequential(*self.layers)

        def forward(self): ...

    tied = Tied()
    assert names(tied.named_parameters()) == ["layers.0.bias", "layers.0.weight"]
    want = ["layers.0.bias", "layers.0.weight", "net.0.bias", "net.0.weight"]
    assert list(tied.state_dict()) == want
    tied.load_state_dict(tied.state_dict())
    tied.net.back = tied  # a cycle ends
    assert list(tied.state_dict()) == want


def test_load_state_dict() -> None:
    net, other = Net(), Net()
    for i, tensor in enumerate(net.tensors()):
        tensor[...] = float(i)
    before = other.a.w
    assert other.load_state_dict(net.state_dict()) is None
    assert other.a.w is before
    for x, y in zip(net.tensors(), other.tensors(), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    other.load_state_dict(net.state_dict(keep_var=True))


def test_strict() -> None:
    net = Net()
    state = dict(net.state_dict())
    state["a.w"] = np.array([8.0, 9.0], "float32")
    del state["buffer"]
    state["extra"] = np.zeros(1)
    before = net.a.w.numpy()
    with pytest.raises(KeyError, match=r"Unused params violate `strict=True`, unused=\{'extra'\}"):
        net.load_state_dict(state)
    del state["extra"]
    with pytest.raises(KeyError, match=r"Missing params .*missing=\{'buffer'\}"):
        net.load_state_dict(state)
    np.testing.assert_array_equal(net.a.w.numpy(), before)  # nothing was loaded
    state["extra"] = np.zeros(1)
    state["z.w"] = None
    net.load_state_dict(state, strict=False)
    assert net.a.w.numpy().tolist() == [8.0, 9.0]


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    net = M.Sequential(M.Linear(2, 3), M.BatchNorm1d(3))
    before = {name: value.copy() for name, value in net.state_dict().items()}
    state = {
        **before,
        "0.weight": np.zeros((2, 3), "float32"),
        "0.bias": np.array(["a", "b", "c"]),
        "1.weight": [1.0, 2.0, 3.0],
        "more": np.zeros(3),
        "other": np.zeros(3),
    }
    del state["1.bias"], state["1.running_mean"]
    with pytest.raises(KeyError) as raised:
        net.load_state_dict(state)
    for part in (
        "Unused params violate `strict=True`, unused={'more', 'other'}",
        "Missing params violate `strict=True`, missing={'1.bias', '1.running_mean'}",
        "param `0.weight` shape mismatch, should be (3, 2), get (2, 3)",
        "param `0.bias` has no dtype of tensors",
        "param `1.weight` must be a numpy.ndarray, got list",
    ):
        assert part in raised.value.args[0]
    with pytest.raises(TypeError) as raised_type:
        net.load_state_dict(state, strict=False)
    assert "0.weight" in str(raised_type.value)
    assert "unused" not in str(raised_type.value)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_loaded_tensors_are_values_of_their_own() -> None:
    net, weight = M.Linear(2, 1, bias=False), mge.Tensor([[1.0, 2.0]])
    net.load_state_dict({"weight": weight})
    weight[0] = 7.0
    assert net.weight.numpy().tolist() == [[1.0, 2.0]]
    net.weight[0] = 9.0
    assert weight.numpy().tolist() == [[7.0, 7.0]]
    assert type(net.weight) is mge.Parameter


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.zeros(3, "float32"), ValueError),
        (np.zeros((1, 2), "float32"), ValueError),
        ([7.0, 8.0], TypeError),
        ("text", TypeError),
    ],
)
def test_values_that_do_not_fit(value, error: type[Exception]) -> None:
    leaf = Leaf()
    with pytest.raises(error, match="`w`"):
        leaf.load_state_dict({"b": np.zeros(1, "float32"), "w": value})
    assert leaf.b.item() == 3.0
    for wrong in ([1, 2], 3):
        with pytest.raises(ValueError, match="dict or callable"):
            leaf.load_state_dict(wrong)


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        ("float16", "float16"),
        ("int32", "int32"),
        ("float64", "float32"),
        ("int64", "int32"),
    ],
)
def test_dtypes_of_what_is_loaded(saved: str, loaded: str) -> None:
    leaf = Leaf()
    leaf.load_state_dict({"b": np.zeros(1, "float32"), "w": np.array([1, 2], saved)})
    assert leaf.w.dtype == loaded
    leaf.w = Parameter([1.0, 2.0], dtype="float64")
    leaf.load_state_dict({"b": np.zeros(1, "float32"), "w": np.array([1 / 3, 2], "float64")})
    assert leaf.w.dtype == np.float64
    assert leaf.w.numpy()[0] == 1 / 3


def test_loading_by_a_function() -> None:
    leaf, seen = Leaf(), []

    def closure(name, tensor):
        seen.append((name, tensor.shape))
        return np.full(tensor.shape, 9.0, "float32")

    leaf.load_state_dict(closure)
    assert seen == [("b", (1,)), ("w", (2,))]
    assert leaf.w.numpy().tolist() == [9.0, 9.0]
    with pytest.raises(KeyError, match="Missing"):
        leaf.load_state_dict(lambda name, tensor: None)
    leaf.load_state_dict(lambda name, tensor: None, strict=False)


@pytest.mark.parametrize("shape", [(2,), (1, 2, 1, 1), (2, 1), (1, 2)])
def test_norms_take_both_layouts(shape: tuple[int, ...]) -> None:
    norm = M.BatchNorm2d(2)
    assert {v.shape for v in norm.state_dict().values()} == {(2,)}
    norm.load_state_dict({name: np.full(shape, 4.0, "float32") for name in norm.state_dict()})
    assert norm.weight.shape == norm.running_var.shape == (1, 2, 1, 1)
    group = M.GroupNorm(1, 2)
    group.load_state_dict({name: np.full(shape, 4.0, "float32") for name in group.state_dict()})
    assert group.weight.shape == (2,)
    with pytest.raises(ValueError, match="shape"):
        norm.load_state_dict({name: np.zeros(3, "float32") for name in norm.state_dict()})


# ---- copies -------------------------------------------------------------------------------------


def test_copies_and_pickles() -> None:
    leaf = Leaf(name="x")
    for other in (copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert other.w is not leaf.w
        assert type(other.w) is Parameter
        assert other.name == "x"
        other.w[...] = 0.0
        assert leaf.w.numpy().tolist() == [1.0, 2.0]
        assert other(Tensor([1.0, 1.0])).numpy().tolist() == [1.0, 1.0]


# ---- text ---------------------------------------------------------------------------------------


def test_repr() -> None:
    assert repr(Leaf()) == "Leaf()"
    net = Net()
    net.seq = M.Sequential(M.Conv2d(3, 4, 3), M.BatchNorm2d(4), M.ReLU())
    assert (
        repr(net)
        == """Net(
  (z): Leaf()
  (a): Leaf()
  (listed.0): Leaf()
  (listed.1): Leaf()
  (listed.2.0): Leaf()
  (mapped.j): ReLU()
  (mapped.k): Leaf()
  (tupled.0): ReLU()
  (tupled.1): Leaf()
  (shared): Leaf()
  (seq): Sequential(
    (0): Conv2d(3, 4, kernel_size=(3, 3))
    (1): BatchNorm2d(4, eps=1e-05, momentum=0.9, affine=True, track_running_stats=True)
    (2): ReLU()
  )
)"""
    )


def test_repr_with_information_of_its_own() -> None:
    class Sized(M.Module):
        def __init__(self, inner=None):
            super().__init__()
            self.inner = inner

        def forward(self): ...

        def _module_info_string(self):
            return "size=3"

    assert repr(Sized()) == "Sized(size=3)"
    assert repr(Sized(M.ReLU())) == "Sized(\n  size=3\n  (inner): ReLU()\n)"


def test_training_a_module_in_containers() -> None:
    """Parameters found in lists and dicts get gradients and steps like any others."""

    class Sum(M.Module):
        def __init__(self):
            super().__init__()
            self.parts = [Leaf(), {"x": Leaf()}]

        def forward(self, x):
            return self.parts[0](x) + self.parts[1]["x"](x)

    net = Sum()
    gm = mge.autodiff.GradManager().attach(net.parameters())
    optimizer = mge.optimizer.SGD(net.parameters(), lr=1.0)
    with gm:
        gm.backward(net(Tensor([1.0, 1.0])).sum())
    optimizer.step().clear_grad()
    for parameter in net.parameters():
        assert parameter.numpy().tolist() == [0.0, 1.0]
        assert parameter.grad is None
