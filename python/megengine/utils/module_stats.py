"""How many parameters, operations and activations a module has, layer by layer.

>>> import megengine.module as M
>>> model = M.Sequential(M.Conv2d(3, 4, 3, padding=1), M.MaxPool2d(2))
>>> total, _ = module_stats(model, input_shapes=(1, 3, 8, 8), logging_to_stdout=False)
>>> total
total_stats(param_size=448, param_dims=112, flops=7424, act_size=1280, act_dims=320)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import module as M
from ..core.tensor.dtype import get_dtype_bit
from ..logger import get_logger
from ..tensor import Tensor

__all__ = [
    "dict2table",
    "disable_receptive_field",
    "enable_receptive_field",
    "flops_adaptivePool",
    "flops_batchmatmul",
    "flops_convNd",
    "flops_convNdTranspose",
    "flops_linear",
    "flops_norm",
    "flops_pool",
    "get_activation_stats",
    "get_op_stats",
    "get_param_stats",
    "module_stats",
    "preprocess_receptive_field",
    "print_activations_stats",
    "print_op_stats",
    "print_param_stats",
    "print_summary",
    "register_flops",
    "register_hook_module",
    "register_receptive_field",
    "sizeof_fmt",
    "sum_activations_stats",
    "sum_op_stats",
    "sum_param_stats",
]

logger = get_logger(__name__)

Row = dict[str, Any]
Rule = Callable[[Any, Sequence[Any], Sequence[Any]], Any]


class total_stats(NamedTuple):  # noqa: N801 - the reference's name
    """Sums over a module. Sizes are in bytes, ``dims`` count numbers."""

    param_size: int
    param_dims: int
    flops: int
    act_size: int
    act_dims: int


class module_stats_rows(NamedTuple):  # noqa: N801
    """A row for each parameter, operation and activation, and one for their sum."""

    params: list[Row]
    flops: list[Row]
    activations: list[Row]


# ---- rules for kinds of modules -----------------------------------------------------------------

_calc_flops_dict: dict[type, Rule] = {}
_calc_receptive_field_dict: dict[type, Rule] = {}
_receptive_field_enabled = False

hook_modules: list[type] = [
    M.conv._ConvNd,
    M.Linear,
    M.BatchMatMulActivation,
    M.batchnorm._BatchNorm,
    M.LayerNorm,
    M.GroupNorm,
    M.InstanceNorm,
    M.pooling._PoolNd,
    M.adaptive_pooling._AdaptivePoolNd,
]


def register_flops(*modules: type) -> Callable[[Rule], Rule]:
    """Decorates the rule that counts the operations of some kinds of modules.

    The rule gets the module, the list of its inputs and that of its outputs. For kinds that are
    made of parts which are counted themselves, it is not asked unless
    :func:`register_hook_module` names them.

    >>> import megengine.module as M
    >>> class Twice(M.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> @register_flops(Twice)
    ... def flops_twice(module, inputs, outputs):
    ...     return outputs[0].size
    """
    return _registered(modules, _calc_flops_dict)


def register_receptive_field(*modules: type) -> Callable[[Rule], Rule]:
    """Decorates the rule that gives receptive field and stride of some kinds of modules."""
    return _registered(modules, _calc_receptive_field_dict)


def _registered(modules: Sequence[type], rules: dict[type, Rule]) -> Callable[[Rule], Rule]:
    for module in modules:
        if not isinstance(module, type):
            raise TypeError(f"expected classes of modules, got {module!r}")

    def register(rule: Rule) -> Rule:
        rules.update(dict.fromkeys(modules, rule))
        return rule

    return register


def register_hook_module(module: type | Iterable[type]) -> None:
    """Makes :func:`module_stats` look at modules of these kinds as wholes."""
    hook_modules.extend([module] if isinstance(module, type) else module)


def enable_receptive_field() -> None:
    """Makes :func:`module_stats` work out receptive fields, by the rules that are registered."""
    global _receptive_field_enabled
    _receptive_field_enabled = True


def disable_receptive_field() -> None:
    """Undoes :func:`enable_receptive_field`."""
    global _receptive_field_enabled
    _receptive_field_enabled = False


def _bias(module: Any) -> int:
    return 0 if getattr(module, "bias", None) is None else 1


@register_flops(M.Conv1d, M.Conv2d, M.Conv3d, M.LocalConv2d, M.DeformableConv2d)
def flops_convNd(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Multiply-adds of a convolution: those of each output number, and one for the bias."""
    sizes = module.kernel_size
    kernel = math.prod(sizes) if isinstance(sizes, (tuple, list)) else sizes
    each = module.in_channels // module.groups * kernel
    return float(math.prod(outputs[0].shape) * (each + _bias(module)))


@register_flops(M.ConvTranspose2d, M.ConvTranspose3d)
def flops_convNdTranspose(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Multiply-adds of a transposed convolution: those of each input number, and the bias."""
    each = math.prod(module.kernel_size) * module.out_channels // module.groups
    bias = math.prod(outputs[0].shape) if _bias(module) else 0
    return math.prod(inputs[0].shape) * each + bias


@register_flops(M.batchnorm._BatchNorm, M.SyncBatchNorm, M.GroupNorm, M.LayerNorm, M.InstanceNorm)
def flops_norm(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Seven operations for each number that is normalised."""
    return math.prod(inputs[0].shape) * 7


@register_flops(M.AvgPool2d, M.MaxPool2d)
def flops_pool(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """One operation for each number of each window."""
    sizes = module.kernel_size
    window = math.prod(sizes) if isinstance(sizes, (tuple, list)) else sizes * sizes
    return math.prod(outputs[0].shape) * window


@register_flops(M.AdaptiveAvgPool2d, M.AdaptiveMaxPool2d)
def flops_adaptivePool(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """One operation for each output number, as the reference counts."""
    return float(math.prod(outputs[0].shape))


@register_flops(M.Linear)
def flops_linear(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Multiply-adds of a linear layer, and its bias."""
    bias = module.out_features if _bias(module) else 0
    return math.prod(outputs[0].shape) * module.in_features + bias


@register_flops(M.BatchMatMulActivation)
def flops_batchmatmul(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Multiply-adds of a product of batches of matrices, and its bias."""
    inner = module.in_features
    bias = module.out_features if _bias(module) else 0
    return math.prod(outputs[0].shape) * inner + bias


def _rule(module: Any, rules: dict[type, Rule]) -> Rule | None:
    """The rule of the nearest class."""
    return next((rules[c] for c in type(module).__mro__ if c in rules), None)


# ---- rows ---------------------------------------------------------------------------------------


def _shapes(values: Any) -> list[tuple[int, ...]]:
    if isinstance(values, Tensor):
        return [tuple(values.shape)]
    if isinstance(values, (tuple, list)):
        return [shape for v in values for shape in _shapes(v)]
    if isinstance(values, dict):
        return [shape for v in values.values() for shape in _shapes(v)]
    return []


def _mean_and_deviation(tensor: Tensor) -> Row:
    values = np.asarray(tensor.numpy(), np.float64)
    return {"mean": f"{values.mean():.3g}", "std": f"{values.std():.3g}"}


def get_param_stats(param: Tensor) -> Row:
    """Dtype, shape, mean, deviation and size in bytes of a parameter."""
    bits = get_dtype_bit(np.dtype(param.dtype).name)
    count = math.prod(param.shape)
    return {
        "dtype": np.dtype(param.dtype),
        "shape": tuple(param.shape),
        **_mean_and_deviation(param),
        "param_dim": count,
        "nbits": bits,
        "size": count * bits // 8,
    }


def get_activation_stats(output: Tensor, has_input: bool = False) -> Row:
    """Dtype, shape and size in bytes of an activation; with mean and deviation on request."""
    bits = get_dtype_bit(np.dtype(output.dtype).name)
    count = math.prod(output.shape)
    row = {
        "dtype": np.dtype(output.dtype),
        "shape": tuple(output.shape),
        "act_dim": count,
        "nbits": bits,
        "size": count * bits // 8,
    }
    return {**row, **_mean_and_deviation(output)} if has_input else row


def preprocess_receptive_field(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Gives a module the receptive field and the stride with which its inputs come."""
    module._rf, module._stride = (
        tuple(max(pair) for pair in zip(*values, strict=True)) if values else (1, 1)
        for values in (
            [getattr(x, "_rf", (1, 1)) for x in inputs if isinstance(x, Tensor)],
            [getattr(x, "_stride", (1, 1)) for x in inputs if isinstance(x, Tensor)],
        )
    )


def get_op_stats(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Row | None:
    """Shapes and operations of a call of a module, None where no rule counts them.

    Args:
        module: the module.
        inputs: what it was called with.
        outputs: what it gave.
    """
    if not isinstance(outputs, (tuple, list)):
        outputs = [outputs]
    row: Row = {}
    rule = _rule(module, _calc_receptive_field_dict)
    if _receptive_field_enabled and rule is not None:
        preprocess_receptive_field(module, inputs, outputs)
        field, stride = rule(module, inputs, outputs)
        for y in outputs:
            y._rf, y._stride = field, stride
        row = {"receptive_field": field, "stride": stride}
    count = _rule(module, _calc_flops_dict)
    if count is None:
        return None
    return {
        "input_shapes": _shapes(inputs),
        "output_shapes": _shapes(outputs),
        "flops_num": count(module, inputs, outputs),
        **row,
    }


# ---- sums and tables ----------------------------------------------------------------------------


def sizeof_fmt(num: float, suffix: str = "B") -> str:
    """A number with a unit: powers of 1024 for bytes, of 1000 for all else.

    >>> sizeof_fmt(12345), sizeof_fmt(123456789, "OPs")
    ('12.056 KiB', '123.457 MOPs')
    """
    scale, units = (1024.0, "Ki Mi Gi Ti Pi Ei Zi") if suffix == "B" else (1000.0, "K M G T P E Z")
    value = float(num)
    for unit in ("", *units.split()):
        if abs(value) < scale:
            return f"{value:.3f} {unit}{suffix}"
        value /= scale
    return f"{value:.1f} Y{suffix}"


def dict2table(list_of_dict: Sequence[Row], header: Sequence[str]) -> list[list[Any]]:
    """Rows as lists, after the header.

    >>> dict2table([{"a": 1, "b": 2}, {"a": 3}], ["a", "b"])
    [['a', 'b'], [1, 2], [3, '']]
    """
    return [list(header), *([row.get(name, "") for name in header] for row in list_of_dict)]


def _add_shares(
    rows: list[Row], value: str, bar: str, cumulated: str, suffix: str, length: int
) -> float:
    """Adds to each row its share of the sum of `value`, as numbers, text and a bar; the sum."""
    total = sum(row[value] for row in rows)
    largest = max((row[value] for row in rows), default=0)
    running = 0
    for row in rows:
        running += row[value]
        share = row[value] / total if total else 0.0
        row[cumulated] = sizeof_fmt(running, suffix)
        row["ratio"] = share
        row["percentage"] = f"{share * 100:.2f}%"
        row[bar] = "#" * int(length * row[value] / largest) if largest else ""
    return total


def sum_param_stats(params: list[Row], bar_length_max: int = 20) -> tuple[int, int, list[Row]]:
    """Number of parameters, their bytes, and the rows with their shares and a row for the sum."""
    size = int(_add_shares(params, "size", "size_bar", "size_cum", "B", bar_length_max))
    for row in params:
        row["size"] = sizeof_fmt(row["size"])
    dims = sum(row["param_dim"] for row in params)
    params.append({"name": "total", "param_dim": dims, "size": sizeof_fmt(size)})
    return dims, size, params


def sum_op_stats(flops: list[Row], bar_length_max: int = 20) -> tuple[int, list[Row]]:
    """Number of operations, and the rows with their shares and a row for the sum."""
    total = int(_add_shares(flops, "flops_num", "bar", "flops_cum", "OPs", bar_length_max))
    for row in flops:
        row["flops"] = sizeof_fmt(row["flops_num"], "OPs")
    flops.append({"name": "total", "flops": sizeof_fmt(total, "OPs")})
    return total, flops


def sum_activations_stats(
    activations: list[Row], bar_length_max: int = 20
) -> tuple[int, int, list[Row]]:
    """Number of activations, their bytes, and the rows with shares and a row for the sum."""
    size = int(_add_shares(activations, "size", "size_bar", "size_cum", "B", bar_length_max))
    for row in activations:
        row["size"] = sizeof_fmt(row["size"])
    dims = sum(row["act_dim"] for row in activations)
    activations.append({"name": "total", "act_dim": dims, "size": sizeof_fmt(size)})
    return dims, size, activations


def _print(title: str, rows: Sequence[Row], header: Sequence[str]) -> None:
    table = [[str(cell) for cell in line] for line in dict2table(rows, header)]
    widths = [max(len(line[i]) for line in table) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in table]
    logger.info("%s\n%s", title, "\n".join(line.rstrip() for line in lines))


def print_param_stats(params: Sequence[Row]) -> None:
    """Logs the rows of parameters as a table."""
    header = "name dtype shape mean std param_dim nbits size size_cum percentage size_bar"
    _print("param stats:", params, header.split())


def print_op_stats(flops: Sequence[Row]) -> None:
    """Logs the rows of operations as a table."""
    header = [
        "name",
        "class_name",
        "input_shapes",
        "output_shapes",
        "flops",
        "flops_cum",
        "percentage",
        "bar",
    ]
    if _receptive_field_enabled:
        header[4:4] = ["receptive_field", "stride"]
    _print("flops stats:", flops, header)


def print_activations_stats(activations: Sequence[Row], has_input: bool = False) -> None:
    """Logs the rows of activations as a table."""
    header = [
        "name",
        "class_name",
        "dtype",
        "shape",
        "nbits",
        "act_dim",
        "size",
        "size_cum",
        "percentage",
        "size_bar",
    ]
    if has_input:
        header[4:4] = ["mean", "std"]
    _print("activations stats:", activations, header)


def print_summary(**kwargs: Any) -> None:
    """Logs names and values as a table."""
    _print("summary", [{"item": k, "value": v} for k, v in kwargs.items()], ["item", "value"])


# ---- a module -----------------------------------------------------------------------------------


class _Collector:
    """Hooks that write down what the modules below one are called with."""

    def __init__(self, has_input: bool) -> None:
        self.has_input = has_input
        self.params: list[Row] = []
        self.flops: list[Row] = []
        self.activations: list[Row] = []
        self.seen: set[str] = set()
        self.handles: list[Any] = []

    def attach(self, model: M.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, tuple(hook_modules)) or _rule(module, _calc_flops_dict):
                self.handles.append(module.register_forward_hook(self._hook(name)))

    def detach(self) -> None:
        for handle in self.handles:
            handle.remove()

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, outputs: Any) -> None:
            label = {"name": name, "class_name": type(module).__name__}
            row = get_op_stats(module, inputs, outputs)
            if row is not None:
                self.flops.append({**row, **label})
            if name not in self.seen:
                self.seen.add(name)
                for kind in ("weight", "bias"):
                    if isinstance(getattr(module, kind, None), Tensor):
                        stats = get_param_stats(getattr(module, kind))
                        self.params.append({**stats, "name": f"{name}-{kind[0]}"})
            first = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
            if isinstance(first, Tensor):
                self.activations.append({**get_activation_stats(first, self.has_input), **label})

        return hook


def _inputs(inputs: Any, input_shapes: Any) -> list[Tensor]:
    if inputs is not None:
        listed = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        return [x if isinstance(x, Tensor) else Tensor(x, dtype=np.float32) for x in listed]
    single = not input_shapes or isinstance(input_shapes[0], int)
    shapes = [input_shapes] if single else input_shapes
    return [Tensor(np.zeros(tuple(shape), np.float32)) for shape in shapes]


def module_stats(
    model: M.Module,
    inputs: Any = None,
    input_shapes: Any = None,
    cal_params: bool = True,
    cal_flops: bool = True,
    cal_activations: bool = True,
    logging_to_stdout: bool = True,
    bar_length_max: int = 20,
) -> tuple[total_stats, module_stats_rows] | None:
    """Counts parameters, operations and activations of a module by calling it.

    Args:
        model: the module; it is in evaluation mode during the call.
        inputs: what to call it with: an array or Tensor, or a list of them.
        input_shapes: instead of that, the shape of an input of zeros, or a list of shapes.
        cal_params: whether to count parameters.
        cal_flops: whether to count operations.
        cal_activations: whether to count activations.
        logging_to_stdout: whether to log tables.
        bar_length_max: the length of the longest bar in them.

    Returns:
        the sums, and the rows that they are made of; None, with a message in the log, where neither
        inputs nor shapes are given.

    >>> import megengine.module as M
    >>> total, rows = module_stats(M.Linear(3, 4), input_shapes=(2, 3), logging_to_stdout=False)
    >>> total.flops, [row["name"] for row in rows.flops]
    (28, ['', 'total'])
    """
    if inputs is None and input_shapes is None:
        logger.error("module_stats: expected inputs or input_shapes")
        return None
    collector = _Collector(has_input=inputs is not None)
    modes = [(m, m.training) for m in model.modules()]
    collector.attach(model)
    try:
        model.eval()
        model(*_inputs(inputs, input_shapes))
    finally:
        collector.detach()
        for module, training in modes:
            module.training = training
    param_dims = param_size = flops = act_dims = act_size = 0
    if cal_params:
        param_dims, param_size, _ = sum_param_stats(collector.params, bar_length_max)
    if cal_flops:
        flops, _ = sum_op_stats(collector.flops, bar_length_max)
    if cal_activations:
        act_dims, act_size, _ = sum_activations_stats(collector.activations, bar_length_max)
    if logging_to_stdout:
        if cal_params:
            print_param_stats(collector.params)
        if cal_flops:
            print_op_stats(collector.flops)
        if cal_activations:
            print_activations_stats(collector.activations, has_input=inputs is not None)
        print_summary(
            param_dims=sizeof_fmt(param_dims, ""),
            param_size=sizeof_fmt(param_size),
            flops=sizeof_fmt(flops, "OPs"),
            act_dims=sizeof_fmt(act_dims, ""),
            act_size=sizeof_fmt(act_size),
        )
    total = total_stats(param_size, param_dims, flops, act_size, act_dims)
    return total, module_stats_rows(collector.params, collector.flops, collector.activations)
