"""Names below the public modules that programs import, and what they do."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.core import _config
from megengine.core._imperative_rt import core2
from megengine.core.tensor import array_method, dtype, utils

T = mge.tensor

NAMES = {
    "core._imperative_rt": "CompNode VarNode common core2 ops pybfloat16",
    "core._imperative_rt.common": "CompNode bfloat16 get_scale is_quantize",
    "core._imperative_rt.core2": "apply Tensor config_async_level get_option set_option push_scope "
    "pop_scope full_sync",
    "core._imperative_rt.ops": "Elemwise BatchNorm FakeQuant",
    "core._config": "async_level _override _compute_mode",
    "core._trace_option": "use_symbolic_shape",
    "core.ops.builtin": "Subtensor AddAxis Elemwise.Mode FakeQuant",
    "core.tensor.array_method": "_elwise ArrayMethodMixin",
    "core.tensor.dtype": "QuantDtypeMeta",
    "core.tensor.megbrain_graph": "Graph",
    "core.tensor.utils": "subgraph subgraph_fn astensor1d make_shape_tuple",
    "data.dataset.vision.meta_vision": "VisionDataset",
    "data.transform.vision.transform": "Compose VisionTransform",
    "distributed.helper": "get_device_count_by_fork",
    "functional": "distributed.all_reduce_sum elemwise._elwise nn.interpolate nn.ctc_loss "
    "nn.cvt_color",
    "functional.distributed": "all_gather all_reduce_sum broadcast",
    "functional.inplace": "_inplace_add_",
    "module.batchnorm": "_BatchNorm",
    "module.module": "_expand_structure _is_parameter",
    "module.pooling": "_PoolNd",
    "optimizer": "Optimizer._add_state Optimizer._create_state Optimizer._updates",
    "serialization": "dmap max_recursion_limit",
    "tensor": "Tensor._reset",
    "utils.comp_graph_tools": "GraphInference",
    "utils.module_stats": "register_flops",
    "utils.tuple_function": "_single _pair _triple _quadruple _pair_nonzero",
}


@pytest.mark.parametrize(
    ("module", "name"), [(m, n) for m, names in NAMES.items() for n in names.split()]
)
def test_name_is_there(module, name):
    found = importlib.import_module(f"megengine.{module}")
    for part in name.split("."):
        found = getattr(found, part)


def test_full_sync_and_checks():
    assert mge._full_sync() is None
    assert mge.check_misc() is None
    assert core2.full_sync() is None


def test_config():
    config = mge.config
    assert (config.async_level, config.benchmark_kernel, config._compute_mode) == (
        0,
        False,
        "default",
    )
    with config._override(async_level=2, deterministic_kernel=True, compute_mode="float32"):
        assert (config.async_level, config.deterministic_kernel) == (2, True)
        assert core2.get_option("async_level") == 2
        assert config._compute_mode == "float32"
    assert config.async_level == 0
    assert not config.deterministic_kernel
    for level in (3, -1, "2", None, True):
        with pytest.raises(ValueError, match="async_level should be 0, 1 or 2"):
            config.async_level = level
    with pytest.raises(ValueError, match="compute mode"):
        config._compute_mode = "float16"
    assert isinstance(_config.async_level, property)
    with pytest.raises(AttributeError):
        _ = _config.nothing


def test_execution_strategy():
    param = F.debug_param
    assert param.get_execution_strategy() == param.Strategy.HEURISTIC
    try:
        param.set_execution_strategy("PROFILE_REPRODUCIBLE")
        strategy = param.get_conv_execution_strategy()
        assert strategy == param.Strategy.PROFILE | param.Strategy.REPRODUCIBLE
        assert strategy.dump() == "PROFILE + REPRODUCIBLE"
        assert mge.config.benchmark_kernel
        assert mge.config.deterministic_kernel
    finally:
        param.set_conv_execution_strategy(param.Strategy.HEURISTIC)
    assert not mge.config.benchmark_kernel
    with pytest.raises(ValueError, match="Valid option"):
        param.set_execution_strategy("foo")
    with pytest.raises(TypeError, match="expected a Strategy"):
        param.set_execution_strategy(3)


def test_options_and_scopes():
    core2.set_option("enable_drop", 1)
    assert core2.get_option("enable_drop") == 1
    core2.set_option("enable_drop", 0)
    for call in (lambda: core2.get_option("foo"), lambda: core2.set_option("foo", 1)):
        with pytest.raises(KeyError, match="no option 'foo'"):
            call()
    with core2.record_scope("a"), pytest.raises(RuntimeError, match="'a' was entered last"):
        core2.pop_scope("b")
    with pytest.raises(RuntimeError, match="none was entered"):
        core2.pop_scope("a")


def test_elementwise_by_mode():
    x = T([1.0, 2.0])
    mode = mge.core.ops.builtin.Elemwise.Mode
    assert array_method._elwise(x, T([3.0, 4.0]), mode="add").tolist() == [4.0, 6.0]
    assert array_method._elwise(x, 3, mode=mode.ADD).tolist() == [4.0, 5.0]
    assert array_method._elwise(2, 3, mode="add").tolist() == 5
    assert array_method._elwise_apply(([0.0], 1.0), mode.ADD).tolist() == [1.0]
    assert array_method._elemwise_multi_type(x, x, mode="eq", dtype="bool").tolist() == [True, True]
    assert array_method._matmul(T([[2.0]]), T([[3.0]])).tolist() == [[6.0]]
    assert array_method._expand_args((1, 2)) == array_method._expand_args(((1, 2),)) == (1, 2)


def test_a_class_of_its_own_with_the_array_methods():
    class Ones(array_method.ArrayMethodMixin):
        shape = (2, 3)

        def numpy(self) -> np.ndarray:
            return np.ones(self.shape)

    ones = Ones()
    assert (ones.ndim, ones.size, ones.item(0), ones.tolist()) == (2, 6, 1.0, [[1.0] * 3] * 2)
    with pytest.raises(NotImplementedError, match="Ones does not define dtype"):
        _ = ones.dtype
    for call in (lambda x: x.shape, lambda x: x.numpy()):
        with pytest.raises(NotImplementedError):
            call(array_method.ArrayMethodMixin())


def test_item_at_an_index():
    x = T([[1, 2], [3, 4]])
    assert (x.item(3), x.item(1, 0), x.item((0, 1))) == (4, 3, 2)
    assert T(5.0).item() == 5.0
    assert T([7]).item() == 7
    with pytest.raises(IndexError):
        x.item(4)
    with pytest.raises(ValueError, match="item"):
        x.item()


def test_conversions():
    assert utils.get_convert_inputs()
    assert utils.set_convert_inputs(False)
    x = T([1.0])
    assert utils.convert_inputs(x, 3) == (x, 3)
    assert not utils.set_convert_inputs(True)
    assert [y.tolist() for y in utils.convert_inputs_cpp(x, 3, None)] == [[1.0], 3.0]
    assert utils.convert_single_value_cpp([1, 2], "float32", "cpu0").tolist() == [1.0, 2.0]
    assert utils.astype_cpp(T([1.5]), "int32").tolist() == [1]
    assert utils.astensor1d_cpp((T(1), 2), "int32", None, (x,)).tolist() == [1, 2]
    assert (
        str(utils.dtype_promotion([x, T([1])]))
        == "float32"
        == str(utils.dtype_promotion(x, T([1])))
    )
    assert utils.get_device([x]) == utils.get_device(x, T([2.0])) == x.device
    assert utils._normalize_axis(4, -1) == 3
    assert utils._normalize_axis(4, [0, -1], reverse=True) == [3, 0]
    for axis in (5, [1, 1]):
        with pytest.raises(AssertionError):
            utils._normalize_axis(4, axis)
    with pytest.raises(NotImplementedError, match="Const"):
        utils.make_const(None, np.ones(1), None, None)


def test_comp_node():
    x = mge.tensor(np.ones(1 << 20), device="cpu1")
    node = x.device
    assert node.physical_locator == ["cpu", 1, 0]
    event = node.create_event()
    assert isinstance(event, type(node).Event)
    assert event.record() is None
    assert event.wait() is None
    node.reset_max_memory_stats()
    assert (
        0 < node.get_used_memory() <= node.get_max_used_memory() <= node.get_max_reserved_memory()
    )
    assert node.get_reserved_memory() > 0
    assert len(node.get_mem_status_bytes()) == 2


def test_format_type_and_symbolic_shape():
    from megengine.core import _trace_option
    from megengine.tensor import FormatType, set_py_tensor_type, use_symbolic_shape

    assert FormatType.NHWC.name == "NHWC"
    assert FormatType("nhwc") == FormatType.NHWC
    assert len({FormatType.NHWC, FormatType("NHWC"), FormatType.DEFAULT}) == 2
    with pytest.raises(ValueError, match="FormatType"):
        FormatType("foo")
    assert not use_symbolic_shape()
    assert not _trace_option.set_symbolic_shape(True)
    assert _trace_option.set_symbolic_shape(False)
    for bad in (int, 3):
        with pytest.raises(TypeError, match="subclass of megengine"):
            set_py_tensor_type(bad)
    x = T([1.0])
    reference = core2.TensorWeakRef(x)
    assert reference() is x
    del x
    assert reference() is None


def test_qparams():
    import copy

    x = T([1.0])
    text = "QParams(mode=QuantMode.SYMMERTIC, dtype_meta=None, scale=None, zero_point=None)"
    assert repr(x.qparams) == text
    assert x.qparams is x.qparams
    x.qparams.scale = T(2.0)
    other = copy.deepcopy(x)
    assert other.qparams == x.qparams
    assert other.qparams is not x.qparams
    assert T([1.0]).qparams != x.qparams
    assert x.qparams != 3
    fresh = T([1.0]).qparams
    fresh.update(x.qparams)
    assert fresh == x.qparams
    with pytest.raises(AttributeError):
        x.qparams = 3


def test_graph_names_say_what_to_do():
    from megengine.core.tensor import megbrain_graph

    for kind in (megbrain_graph.Graph, megbrain_graph.InputNode, megbrain_graph.OutputNode):
        with pytest.raises(NotImplementedError, match="static graphs"):
            kind()


def test_limit_of_recursion():
    import sys

    from megengine.utils.max_recursion_limit import max_recursion_limit

    before = sys.getrecursionlimit()
    with max_recursion_limit():
        assert sys.getrecursionlimit() >= 10_000
    assert sys.getrecursionlimit() == before


def test_dmap(tmp_path):
    from megengine.serialization import _get_callable_map_location, dmap

    mge.save({"x": T([1.0], device="cpu0")}, tmp_path / "x")
    with dmap({"cpu0": "cpu1"}):
        assert str(mge.load(tmp_path / "x")["x"].device) == "cpu1:0"
        assert str(mge.load(tmp_path / "x", map_location="cpu2")["x"].device) == "cpu2:0"
        assert str(mge.load(tmp_path / "x", pickle_module=pickle)["x"].device) == "cpu1:0"
    assert str(mge.load(tmp_path / "x")["x"].device) == "cpu0:0"
    assert _get_callable_map_location({"cpu0": "cpu1"})("cpu5") == "cpu5"
    with pytest.raises(TypeError, match="map_location"):
        dmap(3)


class TestQuantisedDtypes:
    def test_parameters(self):
        q = dtype.quint8(0.5, 128)
        assert (q.name, dtype.get_scale(q), dtype.get_zero_point(q)) == ("uint8", 0.5, 128)
        meta = q.metadata["mgb_dtype"]
        assert meta == {"name": "Quantized8Asymm", "scale": 0.5, "zero_point": 128}
        assert dtype.is_quantize(q)
        assert not dtype.is_quantize("uint8")
        assert not dtype.is_lowbit(q)
        assert dtype.is_dtype_equal(dtype.qint8(0.5), dtype.qint8(0.5))
        assert not dtype.is_dtype_equal(dtype.qint8(0.5), "int8")
        assert [dtype.get_dtype_bit(n) for n in ("quint4", "bfloat16", "bool")] == [4, 16, 1]

    # The values are what MegEngine 1.13 gives.
    @pytest.mark.parametrize(
        ("name", "q", "integers", "floats"),
        [
            ("qint8", dtype.qint8(0.02), [-128, 0, 112, 127], [-2.56, 0, 2.24, 2.54]),
            ("quint8", dtype.quint8(0.1, 12), [0, 12, 34, 42], [-1.2, 0, 2.2, 3]),
            ("qint4", dtype.qint4(0.5), [-6, 0, 4, 6], [-3, 0, 2, 3]),
            ("quint4", dtype.quint4(0.1, 8), [0, 8, 15, 15], [-0.8, 0, 0.7, 0.7]),
            ("qint32", dtype.qint32(0.25), [-12, 0, 9, 12], [-3, 0, 2.25, 3]),
            ("qint1", dtype.qint1(1.0), [0, 0, 1, 1], [0, 0, 1, 1]),
        ],
    )
    def test_conversions(self, name, q, integers, floats):
        array = getattr(dtype, f"convert_to_{name}")(np.array([-3, 0, 2.25, 3], np.float32), q)
        assert array.tolist() == integers
        assert dtype.is_dtype_equal(array.dtype, q)
        back = getattr(dtype, f"convert_from_{name}")(array)
        assert back.dtype == np.float32
        np.testing.assert_allclose(back, floats, rtol=1e-6)

    def test_extremes(self):
        values = np.array([1, np.nan, np.inf, -np.inf, 3e38], np.float32)
        array = dtype.convert_to_qint8(values, dtype.qint8(0.1))
        assert array.tolist() == [10, 0, 127, -128, 127]
        wide = dtype.convert_to_qint32(values, dtype.qint32(1e-3))
        assert wide.tolist() == [1000, 0, 2**31 - 1, -(2**31), 2**31 - 1]

    def test_bad_input(self):
        for call in (
            lambda: dtype.quint8(0.1, 300),
            lambda: dtype.quint8(0.1, 1.5),
            lambda: dtype.quint4(0.1, 16),
            lambda: dtype.create_quantized_dtype(dtype._builtin_quant_dtypes["qint8"], 0.1, 3),
            lambda: dtype.convert_to_qint8([1.0], dtype.qint8(0.1)),
            lambda: dtype.convert_to_qint8(np.ones(1), "int8"),
            lambda: dtype.convert_to_qint8(np.ones(1), dtype.quint8(0.1, 3)),
            lambda: dtype.convert_from_qint8(np.ones(1, "int8")),
            lambda: dtype.convert_from_qint8([1]),
            lambda: dtype.get_dtype_bit("complex"),
        ):
            with pytest.raises(ValueError, match=r"zero_point|arr|dtype"):
                call()
        for call in (lambda: dtype.get_scale("int8"), lambda: dtype.get_zero_point(dtype.qint8(1))):
            with pytest.raises(TypeError):
                call()

    def test_tensors_are_not_quantised_yet(self):
        q = dtype.qint8(0.1)
        array = dtype.convert_to_qint8(np.ones(2, np.float32), q)
        for call in (lambda: T([1.0], dtype=q), lambda: T([1.0]).astype(q), lambda: T(array)):
            with pytest.raises(NotImplementedError, match="quantised tensors are not supported"):
                call()
        assert T(array.view("int8")).tolist() == [10, 10]


def test_modules_and_optimizers():
    conv = M.Conv2d(3, 4, 3)
    assert conv._infer_bias_shape() == (1, 4, 1, 1)
    assert len(conv._forward_pre_hooks) == 0
    assert issubclass(M.SyncBatchNorm, M.batchnorm._BatchNorm)
    optimizer = mge.optimizer.SGD(conv.parameters(), lr=1.0)
    assert optimizer._state == {}
    assert isinstance(optimizer._disable_type_convert, bool)
