"""The ops that are made of others in Python, mesh indexing, and what needs what is not there."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import megengine as mge
from megengine import functional as F
from megengine._core import apply, call
from megengine.autodiff import GradManager
from megengine.core.ops import builtin

T = mge.tensor


def run(op: Any, *inputs: Any) -> list[Any]:
    return [y.numpy().tolist() for y in apply(op, *inputs)]


def test_fields_equality_and_text():
    assert repr(builtin.MaskedFill(value=1.5)) == "MaskedFill(value=1.5)"
    assert builtin.MaskedFill(1.5) == builtin.MaskedFill(value=1.5) != builtin.MaskedFill(2.5)
    assert hash(builtin.MaskedFill(1.5)) == hash(builtin.MaskedFill(1.5))
    assert builtin.MaskedFill() != builtin.MeshGrid()
    assert builtin.MaskedFill() != 3
    assert isinstance(builtin.MaskedFill(), builtin.OpDef)
    assert builtin.Copy() == builtin.Copy()
    assert builtin.Copy() != builtin.FastpathCopy()
    assert builtin.FastpathCopy() != builtin.Copy()
    for bad in ({"foo": 1}, {"value": 1, "scale": 2}):
        with pytest.raises(TypeError, match="MaskedFill: has no field"):
            builtin.MaskedFill(**bad)
    with pytest.raises(TypeError, match="at most 1"):
        builtin.MaskedFill(1, 2)
    with pytest.raises(TypeError, match="given twice"):
        builtin.MaskedFill(1, value=2)


def test_an_op_without_apply():
    with pytest.raises(NotImplementedError, match="PyOpBase does not define _apply"):
        apply(builtin.PyOpBase(), T([1.0]))
    with pytest.raises(TypeError):
        builtin.OpDef.__repr__(builtin.PyOpBase())
    with pytest.raises(TypeError):
        builtin.OpDef.__hash__(builtin.PyOpBase())
    with pytest.raises(TypeError):
        builtin.OpDef._set_field(builtin.PyOpBase(), "mode", 1)
    with pytest.raises(AttributeError):
        _ = builtin.PyOpBase().mode


def test_an_op_of_ones_own():
    class Both(builtin.PyOpBase):
        _fields: ClassVar[dict[str, Any]] = {"out": None}

        def _apply(self, *inputs: Any) -> Any:
            return inputs if self.out is None else self.out

    x = T([1.0])
    assert [y is x for y in apply(Both(), x, x)] == [True, True]
    assert call(Both(), x) is x
    for bad, message in [(3, "return a list of Tensors, got int"), ([3], "Tensor")]:
        with pytest.raises(TypeError, match=f"Both: .*{message}"):
            apply(Both(out=bad), x)
    with pytest.raises(ValueError, match="one output"):
        call(Both(), x, x)


def test_copies_and_shapes():
    x = T([[1.0, 2.0, 3.0]])
    for op in (builtin.Borrow(), builtin.FastpathCopy(), builtin.Copy()):
        gm = GradManager().attach([x])
        x.grad = None
        with gm:
            (y,) = apply(op, x)
            gm.backward((y * y).sum())
        assert y.tolist() == x.tolist()
        assert x.grad.tolist() == [[2.0, 4.0, 6.0]]
    assert str(apply(builtin.Borrow(comp_node="cpu1"), x)[0].device) == "cpu1:0"
    (shape,) = apply(builtin.GetVarShape(), x)
    assert shape.dtype == np.int32
    assert shape.tolist() == [1, 3]
    assert run(builtin.GetVarShape(axis=-1), x) == [[3]]
    assert run(builtin.GetVarShape(), x, F.zeros((2, 1))) == [[2, 3]]
    assert run(builtin.GetVarShape(), T(1.0)) == [[]]
    with pytest.raises(ValueError, match="GetVarShape"):
        apply(builtin.GetVarShape(axis=2), x)
    with pytest.raises(ValueError, match="do not broadcast"):
        apply(builtin.GetVarShape(), x, F.zeros((2, 2)))


def test_assert_equal():
    a, b = T([1.0, 2.0]), T([1.05, 2.0])
    assert run(builtin.AssertEqual(maxerr=0.1), a, b) == [[1.0, 2.0]]
    with pytest.raises(RuntimeError, match=r"at most 0.01, got 0.05; expected \[1.0, 2.0\]"):
        apply(builtin.AssertEqual(maxerr=0.01, verbose=True), a, b)
    with pytest.raises(RuntimeError, match="AssertEqual"):
        apply(builtin.AssertEqual(), a, T([np.nan, 2.0]))
    assert F.utils._assert_equal(a, b, maxerr=0.1).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="AssertEqual"):
        F.utils._assert_equal(a, b)


def test_inplace_add():
    x = T([1.0, 2.0])
    held = x.detach()
    y = F.inplace._inplace_add_(x, T([3.0, 4.0]), alpha=T(2.0), beta=T(10.0))
    assert y is x
    assert x.tolist() == [32.0, 44.0]
    assert held.tolist() == [1.0, 2.0]
    F.inplace._inplace_add_(x, T(1.0), 1, 2)
    assert x.tolist() == [34.0, 46.0]
    half = T([1.0], dtype="float16")
    assert F.inplace._inplace_add_(half, T([1.0]), T(1.0), T(1.0)).dtype == np.float16
    whole = T([1, 2])
    assert F.inplace._inplace_add_(whole, T([3, 4]), T(2), T(1)).tolist() == [5, 8]
    place = x.numpy().__array_interface__["data"]
    F.inplace._inplace_add_(x, T([1.0, 1.0]), 1, 0)
    assert x.numpy().__array_interface__["data"] == place
    gm = GradManager().attach([x])
    with gm:
        y = F.copy(x)
        F.inplace._inplace_add_(y, x, T(2.0), T(3.0))
        gm.backward(y.sum())
    assert x.grad.tolist() == [5.0, 5.0]
    with pytest.raises(TypeError, match="dest as a Tensor"):
        F.inplace._inplace_add_(3, x, 1, 1)
    with pytest.raises(ValueError, match="InplaceAdd: expected delta of the shape"):
        F.inplace._inplace_add_(x, T([1.0]), T(1.0), T(1.0))
    with pytest.raises(ValueError, match="one number"):
        F.inplace._inplace_add_(x, T(1.0), T([1.0, 2.0]), T(1.0))
    assert x.tolist() == [34.0, 46.0]


def test_masked_fill():
    x = T([[1.0, 2.0], [3.0, 4.0]])
    assert run(builtin.MaskedFill(value=7.0), x, T([True, False])) == [[[7.0, 7.0], [3.0, 4.0]]]
    assert run(builtin.MaskedFill(value=1.5), T([1, 2]), T([True, False])) == [[1, 2]]
    gm = GradManager().attach([x])
    with gm:
        gm.backward(
            (apply(builtin.MaskedFill(), x, x > 2.5)[0] * T([[1.0, 2.0], [3.0, 4.0]])).sum()
        )
    assert x.grad.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    with pytest.raises(TypeError, match="bool mask"):
        apply(builtin.MaskedFill(), x, T([1, 0]))
    with pytest.raises(ValueError, match="first sizes"):
        apply(builtin.MaskedFill(), x, T([True, False, True]))


def test_mesh_grid():
    xy = run(builtin.MeshGrid(), T([1.0, 2.0, 3.0]), T([4.0, 5.0]))
    assert xy == [[[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]]]
    ij = run(builtin.MeshGrid(indexing="ij"), T([1.0, 2.0]), T([4.0, 5.0]))
    assert ij == [[[1, 1], [2, 2]], [[4, 5], [4, 5]]]


def test_param_pack():
    a, b = T([1.0, 2.0]), T([[3.0, 4.0], [5.0, 6.0]])
    offsets = T([0, 2, 2, 6])
    assert run(builtin.ParamPackConcat(offsets=[0, 2, 2, 6]), a, b, offsets) == [[1, 2, 3, 4, 5, 6]]
    assert run(builtin.ParamPackConcat([0, 2, 4, 8]), a, b) == [[1, 2, 0, 0, 3, 4, 5, 6]]
    packed = F.arange(8)
    gm = GradManager().attach([packed])
    with gm:
        parts = apply(builtin.ParamPackSplit([0, 2, 4, 8], [[2], [2, 2]]), packed)
        gm.backward(parts[1].sum())
    assert [p.tolist() for p in parts] == [[0, 1], [[4, 5], [6, 7]]]
    assert packed.grad.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    many = builtin.ParamPackSplit(list(np.repeat(range(21), 2)[1:-1]), [[1]] * 20)
    assert len(apply(many, F.arange(20))) == 20
    for op in (builtin.ParamPackConcat([0, 3, 3, 6]), builtin.ParamPackConcat([2, 0, 2, 6])):
        with pytest.raises(ValueError, match="ParamPackConcat"):
            apply(op, a, b)
    with pytest.raises(ValueError, match="ParamPackSplit: expected 9 elements"):
        apply(builtin.ParamPackSplit([0, 9], [[9]]), packed)


def test_elemwise_multi_type():
    def mode(name: str, **fields: Any) -> Any:
        return builtin.ElemwiseMultiType(mode=name, **fields)

    i8, i16, f32 = (lambda v, d=d: T(v).astype(d) for d in ("int8", "int16", "float32"))
    assert run(mode("EQ", dtype="bool"), T([1.0, 2.0]), T([1.0, 3.0])) == [[True, False]]
    assert run(mode("ISNAN"), T([1.0, np.nan])) == [[False, True]]
    out = apply(mode("FUSE_MUL_ADD3_INT16x32x32x32"), i16([1, 2]), T([1, 3]), T([5, 6]))[0]
    assert out.tolist() == [6, 12]
    assert out.dtype == np.int32
    assert run(mode("MUL_INT16xF32xF32"), i16([1, 2]), f32([1.5, 3.0])) == [[1.5, 6.0]]
    args = i16([1, 2]), T([1.5, 3.0]), T([5.0, 6.0])
    assert run(mode("FUSE_MUL_ADD3_INT16xF32xF32xF32"), *args) == [[6.5, 12.0]]
    factors = [1.5, 2.5, 3.5, -1.5, -2.5, -0.6, 300.0]
    out = apply(mode("FUSE_MUL_ADD3_IXxF32xF32xI8"), T([1] * 7), T(factors), T([0.0] * 7))[0]
    assert out.tolist() == [2, 2, 4, -2, -2, -1, 127]
    assert out.dtype == np.int8
    values = [1, 2, 3, 5, 6, 7, -1, -2, -3, -5, -6, -7, 2000, -2000]
    want = [0, 1, 1, 1, 2, 2, 0, -1, -1, -1, -2, -2, 127, -128]
    assert run(mode("ROUND_SHR_SATURATE_IXxI8xI8"), T(values), i8(2)) == [want]
    assert run(mode("ROUND_SHR_SATURATE_IXxI8xI16"), T([400000, -7]), i8(2)) == [[32767, -2]]
    name = "FUSE_ADD_RMULH_ROUND_SHR_SATURATE_INT32x32x32x8"
    numbers = T([1, 20000000, -7, 2000, -2000, 400000])
    args = (numbers, T(5), T(1 << 30), i8(3), i8(-128), i8(127))
    assert run(mode(name), *args) == [[0, 127, 0, 125, -125, 127]]
    with pytest.raises(ValueError, match="unknown mode 'FOO'"):
        mode("FOO")
    with pytest.raises(NotImplementedError, match="quantised tensors"):
        apply(mode("QADD"), i8([1]), i8([1]))


def item(axis: int, *flags: str) -> tuple[int, bool, bool, bool, bool]:
    return (axis, *(name in flags for name in ("start", "stop", "step", "index")))  # type: ignore[return-value]


def test_mesh_indexing_by_items():
    m = T(np.arange(12, dtype="float32").reshape(3, 4))
    op = builtin.MeshIndexing(items=[item(0, "start", "step"), item(1, "index")])
    assert run(op, m, T(2), T(-1), T([3, 1, 0])) == [[[11, 9, 8], [7, 5, 4], [3, 1, 0]]]
    assert run(builtin.MeshIndexing(items=[item(0, "start", "step")]), m, T(2), T(-1)) == [
        [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]
    ]
    assert run(builtin.MeshIndexing(items=[item(0, "index")]), m, T(1)) == [[[4, 5, 6, 7]]]
    both = [item(0, "index"), item(1, "index")]
    for op, error in [
        (builtin.MeshIndexing(items=both), IndexError),
        (builtin.SetMeshIndexing(items=both), IndexError),
    ]:
        head = [m] if "get" in repr(op) else [m, F.zeros((1, 1))]
        with pytest.raises(error):
            apply(op, *head, T([0]), T([4]))
    assert m.tolist() == np.arange(12).reshape(3, 4).tolist()
    with pytest.raises(ValueError, match="twice"):
        apply(builtin.MeshIndexing(items=[item(1, "index")] * 2), m, T([0]), T([0]))
    with pytest.raises(IndexError):
        apply(builtin.MeshIndexing(items=[item(2, "index")]), m, T([0]))
    with pytest.raises(ValueError, match="vectors"):
        apply(builtin.MeshIndexing(items=[item(0, "index")]), m, T([[0, 1]]))
    with pytest.raises(TypeError, match="an input for each bound"):
        apply(builtin.MeshIndexing(items=[item(0, "index")]), m)


def test_batched_mesh_indexing_by_items():
    x = T(np.arange(24, dtype="float32").reshape(2, 3, 4))
    op = builtin.BatchedMeshIndexing(items=[item(0, "start", "stop"), item(2, "index")])
    assert run(op, x, T(0), T(1), T([[0, 2]])) == [[[[0, 2], [4, 6], [8, 10]]]]
    one = builtin.BatchedMeshIndexing(items=[item(1, "index")])
    with pytest.raises(ValueError, match=r"shape \(2, n\)"):
        apply(one, x, T([0, 2]))
    with pytest.raises(ValueError, match="axis 0 is the batch"):
        apply(builtin.BatchedMeshIndexing(items=[item(0, "index")]), x, T([[0], [1]]))
    with pytest.raises(ValueError, match="batch axis"):
        apply(one, T(1.0), T([[0]]))


def test_barrier_of_one_process():
    out = apply(builtin.Barrier(comp_node="cpu0", nr_outputs=2), T([1.0]))
    assert [(y.shape, str(y.dtype), str(y.device)) for y in out] == [((0,), "int32", "cpu0:0")] * 2


@pytest.mark.parametrize(
    ("op", "advice"),
    [
        (builtin.RemoteSend(key="a", rank_to=1), "Train in one process"),
        (builtin.RemoteRecv(key="a", rank_from=1), "Train in one process"),
        (builtin.CollectiveComm(mode="ALL_REDUCE_SUM"), "Train in one process"),
        (builtin.TensorRTRuntime(), "run the model that"),
        (builtin.AtlasRuntime(), "run the model that"),
        (builtin.CambriconRuntime(), "run the model that"),
        (builtin.MagicMindRuntime(), "run the model that"),
        (builtin.ExternOpr(), "write the op in Python"),
        (builtin.NvOf(), "compute the flow with"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else "",
)
def test_what_is_not_here_says_what_to_do(op, advice):
    with pytest.raises(RuntimeError, match=f"{type(op).__name__}: .*{advice}"):
        apply(op, T([1.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.external.tensorrt_runtime_opr([x], data=b""),
        lambda x: F.external.cambricon_runtime_opr([x], b"", "s", False),
        lambda x: F.external.atlas_runtime_opr([x], b""),
        lambda x: F.external.magicmind_runtime_opr([x], b""),
        lambda x: F.external.extern_opr_subgraph([x], [(1,)], "op", b"", ["float32"]),
    ],
)
def test_external_models(call):
    with pytest.raises(RuntimeError, match=r"Runtime: |ExternOpr: "):
        call(T([1.0]))
