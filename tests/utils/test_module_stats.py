"""Counts of parameters, operations and activations. The numbers are what MegEngine 1.13 gives."""

from __future__ import annotations

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.utils import module_stats as stats


@pytest.mark.parametrize(
    ("module", "shape", "operations"),
    [
        (M.Conv2d(4, 6, 3, padding=1, groups=2), (1, 4, 8, 8), 7296),
        (M.Conv2d(4, 6, 3, bias=False), (1, 4, 8, 8), 7776),
        (M.Conv1d(4, 6, 3), (2, 4, 8), 936),
        (M.Conv3d(4, 6, 3), (2, 4, 8, 8, 8), 282528),
        (M.ConvTranspose2d(4, 6, 3), (2, 4, 8, 8), 28848),
        (M.ConvTranspose2d(4, 6, 3, bias=False), (2, 4, 8, 8), 27648),
        (M.LocalConv2d(4, 6, 8, 8, 3), (2, 4, 8, 8), 15552),
        (M.BatchNorm2d(4), (2, 4, 8, 8), 3584),
        (M.SyncBatchNorm(4), (2, 4, 8, 8), 3584),
        (M.GroupNorm(2, 4), (2, 4, 8, 8), 3584),
        (M.LayerNorm(8), (2, 4, 8, 8), 3584),
        (M.InstanceNorm(4), (2, 4, 8, 8), 3584),
        (M.AvgPool2d(2), (2, 4, 8, 8), 512),
        (M.MaxPool2d(3, 2), (2, 4, 8, 8), 648),
        (M.AdaptiveAvgPool2d(2), (2, 4, 8, 8), 32),
        (M.Linear(5, 7), (3, 5), 112),
        (M.Linear(5, 7, bias=False), (3, 5), 105),
        (M.BatchMatMulActivation(2, 3, 4), (2, 3, 5), None),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, M.Module) else "",
)
def test_operations(module, shape, operations):
    x = F.zeros(shape)
    row = stats.get_op_stats(module, [x], module(x))
    assert row["input_shapes"] == [shape]
    assert operations is None or row["flops_num"] == operations


def net() -> M.Module:
    return M.Sequential(M.Conv2d(3, 4, 3, padding=1), M.BatchNorm2d(4), M.ReLU(), M.MaxPool2d(2))


def test_a_module():
    model = net()
    total, rows = stats.module_stats(model, input_shapes=(1, 3, 8, 8), logging_to_stdout=False)
    assert tuple(total) == (480, 120, 9216, 2304, 576)
    assert [row["name"] for row in rows.params] == ["0-w", "0-b", "1-w", "1-b", "total"]
    assert [row["class_name"] for row in rows.flops[:-1]] == ["Conv2d", "BatchNorm2d", "MaxPool2d"]
    first = rows.flops[0]
    assert (first["flops"], first["percentage"], first["flops_cum"]) == (
        "7.168 KOPs",
        "77.78%",
        "7.168 KOPs",
    )
    assert rows.activations[0]["size"] == "1.000 KiB"
    # It leaves the module as it was.
    assert model.training
    assert not any(m._forward_hooks for m in model.modules())


def test_inputs_and_choices():
    total, rows = stats.module_stats(
        M.Linear(3, 4),
        inputs=np.ones((2, 3)),
        cal_params=False,
        cal_activations=False,
        logging_to_stdout=False,
    )
    assert tuple(total) == (0, 0, 28, 0, 0)
    assert "mean" in rows.activations[0]
    assert stats.module_stats(M.Linear(3, 4)) is None
    total, _ = stats.module_stats(
        M.Sequential(*[M.Linear(3, 3)] * 2), input_shapes=[(1, 3)], logging_to_stdout=False
    )
    assert (total.param_dims, total.flops) == (12, 24)


def test_tables_are_logged(caplog):
    stats.logger.propagate = True
    try:
        with caplog.at_level("INFO", logger=stats.logger.name):
            stats.module_stats(net(), inputs=[mge.tensor(np.ones((1, 3, 8, 8)))])
    finally:
        stats.logger.propagate = False
    text = caplog.text
    assert all(word in text for word in ("param stats", "flops stats", "summary", "9.216 KOPs"))


def test_rules_of_its_own():
    class Twice(M.Module):
        def forward(self, x):
            return x * 2

    try:

        @stats.register_flops(Twice)
        def flops_twice(module, inputs, outputs):
            return 77

        total, _ = stats.module_stats(Twice(), input_shapes=(1, 3), logging_to_stdout=False)
        assert total.flops == 77
    finally:
        del stats._calc_flops_dict[Twice]
    with pytest.raises(TypeError, match="expected classes of modules"):
        stats.register_flops(3)


def test_receptive_fields():
    try:
        stats.enable_receptive_field()

        @stats.register_receptive_field(M.Conv2d, M.MaxPool2d)
        def field_of(module, inputs, outputs):
            k = module.kernel_size if isinstance(module.kernel_size, int) else module.kernel_size[0]
            s = module.stride if isinstance(module.stride, int) else module.stride[0]
            fields = tuple(f + (k - 1) * t for f, t in zip(module._rf, module._stride, strict=True))
            return fields, tuple(t * s for t in module._stride)

        model = M.Sequential(M.Conv2d(3, 4, 3, padding=1), M.MaxPool2d(2), M.Conv2d(4, 4, 3))
        _, rows = stats.module_stats(model, input_shapes=(1, 3, 8, 8), logging_to_stdout=False)
        assert [row["receptive_field"] for row in rows.flops[:-1]] == [(3, 3), (4, 4), (8, 8)]
    finally:
        stats.disable_receptive_field()
        stats._calc_receptive_field_dict.clear()


def test_text():
    assert stats.sizeof_fmt(0) == "0.000 B"
    assert stats.sizeof_fmt(-5) == "-5.000 B"
    assert stats.sizeof_fmt(1e30).endswith("YB")
    x = mge.tensor([[1.0, 2.0]])
    row = stats.get_param_stats(x)
    assert (row["mean"], row["std"], row["size"]) == ("1.5", "0.5", 8)
    assert stats.get_activation_stats(x)["act_dim"] == 2
