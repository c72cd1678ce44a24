"""Calls under autocast whose dtypes are compared with those that the reference gives.

Each case takes a function ``t(*shape)`` that makes a Tensor of the dtype under test, and one that
makes float32 Tensors, for parameters beside such inputs.
"""

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.random as R
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin


def ints(*values):
    return mge.tensor(np.array(values, "int32"))


def image(t, n=1):
    return t(n, 4, 6, 6)


def labels():
    return ints(0, 1, 2)


CASES = {
    "conv1d": lambda t, f: F.conv1d(t(2, 4, 6), f(3, 4, 3)),
    "conv2d": lambda t, f: F.conv2d(image(t), f(3, 4, 3, 3)),
    "conv2d-bias": lambda t, f: F.conv2d(image(t), f(3, 4, 3, 3), f(1, 3, 1, 1)),
    "conv3d": lambda t, f: F.conv3d(t(1, 2, 4, 4, 4), f(3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda t, f: F.conv_transpose2d(t(1, 3, 4, 4), f(3, 4, 3, 3)),
    "conv_transpose3d": lambda t, f: F.conv_transpose3d(t(1, 3, 4, 4, 4), f(3, 4, 3, 3, 3)),
    "local_conv2d": lambda t, f: F.local_conv2d(f(1, 2, 4, 4), f(1, 2, 2, 2, 3, 3, 2)),
    "matmul": lambda t, f: F.matmul(t(3, 4), f(4, 5)),
    "matmul-batched": lambda t, f: F.matmul(t(2, 3, 4), f(2, 4, 5)),
    "matmul-vector": lambda t, f: F.matmul(t(3, 4), f(4)),
    "matmul-operator": lambda t, f: t(3, 4) @ f(4, 5),
    "dot": lambda t, f: F.dot(f(4), f(4)),
    "linear": lambda t, f: F.linear(t(3, 4), f(5, 4), f(5)),
    "linear-no-bias": lambda t, f: F.linear(t(3, 4), f(5, 4)),
    "svd": lambda t, f: F.svd(f(3, 3)),
    "matinv": lambda t, f: F.matinv(t(3, 3) + t(3, 3)),
    "add": lambda t, f: t(3) + t(3),
    "add-mixed": lambda t, f: t(3) + f(3),
    "add-number": lambda t, f: t(3) + 1.5,
    "mul": lambda t, f: t(3) * t(3),
    "div": lambda t, f: t(3) / t(3),
    "div-number": lambda t, f: t(3) / 2,
    "floor_div": lambda t, f: t(3) // t(3),
    "mod": lambda t, f: t(3) % t(3),
    "pow": lambda t, f: F.pow(t(3), t(3)),
    "pow-number": lambda t, f: t(3) ** 2,
    "maximum": lambda t, f: F.maximum(t(3), t(3)),
    "clip": lambda t, f: F.clip(t(3), 0, 1),
    "where": lambda t, f: F.where(t(3) > 0, t(3), t(3)),
    "where-mixed": lambda t, f: F.where(t(3) > 0, t(3), f(3)),
    "concat": lambda t, f: F.concat([t(3), t(3)]),
    "concat-mixed": lambda t, f: F.concat([t(3), f(3)]),
    "stack-mixed": lambda t, f: F.stack([t(3), f(3)]),
    "compare": lambda t, f: t(3) > t(3),
    "softmax": lambda t, f: F.softmax(t(3, 4)),
    "logsoftmax": lambda t, f: F.logsoftmax(t(3, 4), 1),
    "logsumexp": lambda t, f: F.logsumexp(t(3, 4), 1),
    "prelu": lambda t, f: F.prelu(t(2, 3), f(1)),
    "leaky_relu": lambda t, f: F.leaky_relu(t(3)),
    "cross_entropy": lambda t, f: F.loss.cross_entropy(t(3, 4), labels()),
    "binary_cross_entropy": lambda t, f: F.loss.binary_cross_entropy(t(3), t(3)),
    "square_loss": lambda t, f: F.loss.square_loss(t(3), t(3)),
    "l1_loss": lambda t, f: F.loss.l1_loss(t(3), t(3)),
    "hinge_loss": lambda t, f: F.loss.hinge_loss(t(3, 4), t(3, 4)),
    "ctc_loss": lambda t, f: F.loss.ctc_loss(
        F.softmax(f(5, 2, 4), axis=2), ints(5, 5), ints(1, 2, 3), ints(2, 1)
    ),
    "batch_norm": lambda t, f: F.batch_norm(image(t), *(f(1, 4, 1, 1) for _ in range(4))),
    "batch_norm-training": lambda t, f: F.batch_norm(
        image(t), *(f(1, 4, 1, 1) for _ in range(4)), training=True
    ),
    "layer_norm": lambda t, f: F.layer_norm(t(3, 4), (4,), True, f(4), f(4)),
    "group_norm": lambda t, f: F.nn.group_norm(image(t), 2, True, f(4), f(4)),
    "instance_norm": lambda t, f: F.nn.instance_norm(image(f), True, f(4), f(4)),
    "local_response_norm": lambda t, f: F.nn.local_response_norm(image(f)),
    "max_pool2d": lambda t, f: F.max_pool2d(image(t), 2),
    "avg_pool2d": lambda t, f: F.avg_pool2d(image(t), 2),
    "adaptive_avg_pool2d": lambda t, f: F.adaptive_avg_pool2d(image(t), 2),
    "sum": lambda t, f: F.sum(t(3, 4), 1),
    "mean": lambda t, f: F.mean(t(3, 4), 1),
    "prod": lambda t, f: F.prod(t(3, 4), 1),
    "max": lambda t, f: F.max(t(3, 4), 1),
    "var": lambda t, f: F.var(t(3, 4), 1),
    "std": lambda t, f: F.std(t(3, 4), 1),
    "norm": lambda t, f: F.norm(t(3, 4), 2, 1),
    "norm-1": lambda t, f: F.norm(t(3, 4), 1, 1),
    "normalize": lambda t, f: F.normalize(t(3, 4), axis=1),
    "cumsum": lambda t, f: F.cumsum(t(3, 4), 1),
    "interpolate": lambda t, f: F.vision.interpolate(image(t), (12, 12)),
    "interpolate-nearest": lambda t, f: F.vision.interpolate(image(t), (12, 12), mode="nearest"),
    "remap": lambda t, f: F.vision.remap(image(f), f(1, 3, 3, 2)),
    "warp_affine": lambda t, f: F.vision.warp_affine(image(f), f(1, 2, 3), (4, 4)),
    "roi_align": lambda t, f: F.vision.roi_align(
        image(t), mge.tensor(np.array([[0, 0, 0, 3, 3]], "float32")), (2, 2)
    ),
    "correlation": lambda t, f: F.vision.correlation(image(t), image(t)),
    "embedding": lambda t, f: F.embedding(labels(), t(5, 4)),
    "dropout": lambda t, f: F.dropout(t(3, 4), 0.5),
    "topk": lambda t, f: F.topk(t(3, 4), 2),
    "sort": lambda t, f: F.sort(t(3, 4)),
    "argmax": lambda t, f: F.argmax(t(3, 4)),
    "gather": lambda t, f: F.gather(t(3, 4), 1, mge.tensor(np.zeros((3, 4), "int32"))),
    "reshape": lambda t, f: t(3, 4).reshape(-1),
    "transpose": lambda t, f: t(3, 4).transpose(1, 0),
    "index": lambda t, f: t(3, 4)[1],
    "set-index": lambda t, f: _set_first(t(3), f(3)),
    "astype": lambda t, f: t(3).astype("float32"),
    "pixel_shuffle": lambda t, f: F.pixel_shuffle(image(t), 2),
    "pad": lambda t, f: F.nn.pad(t(3, 4), ((1, 1), (0, 0))),
    "sliding_window": lambda t, f: F.sliding_window(image(t), 3),
    "repeat": lambda t, f: F.repeat(t(3, 4), 2, axis=0),
    "roll": lambda t, f: F.roll(t(3, 4), 1, 0),
    "ones_like": lambda t, f: F.ones_like(t(3)),
    "full": lambda t, f: F.full((2,), 1.5),
    "exp-int": lambda t, f: F.exp(labels()),
    "mul-int": lambda t, f: labels() * t(3),
    "gamma": lambda t, f: R.gamma(t(3), t(3)),
    "poisson": lambda t, f: R.poisson(t(3)),
    "RNN": lambda t, f: M.RNN(4, 3)(f(5, 2, 4)),
    "LSTM": lambda t, f: M.LSTM(4, 3)(f(5, 2, 4)),
    "RNNCell": lambda t, f: M.RNNCell(4, 3)(f(2, 4), f(2, 3)),
    "LSTMCell": lambda t, f: M.LSTMCell(4, 3)(f(2, 4)),
    "MultiHeadAttention": lambda t, f: M.MultiHeadAttention(4, 2)(
        f(2, 3, 4), f(2, 3, 4), f(2, 3, 4)
    ),
    "Conv2d": lambda t, f: M.Conv2d(4, 3, 3)(image(t)),
    "Linear": lambda t, f: M.Linear(4, 5)(t(3, 4)),
    "LayerNorm": lambda t, f: M.LayerNorm(4)(t(3, 4)),
    "GroupNorm": lambda t, f: M.GroupNorm(2, 4)(image(t)),
    "BatchNorm2d": lambda t, f: _with_statistics(M.BatchNorm2d(4), image(t, 2)),
    "BatchNorm2d-eval": lambda t, f: _with_statistics(M.BatchNorm2d(4), image(t, 2), False),
    "BatchNorm1d": lambda t, f: _with_statistics(M.BatchNorm1d(4), t(3, 4)),
}

# Elementwise modes by the number of their operands.
MODES = {
    1: "ABS ACOS ACOSH ASIN ASINH ATANH CEIL COS COSH ERF ERFC ERFCINV ERFINV EXP EXPM1 FAST_TANH "
    "FLOOR GELU HSIGMOID H_SWISH LOG LOG1P LOGSIGMOID NEGATE RELU RELU6 ROUND SIGMOID SIGN SILU "
    "SIN SINH SOFTPLUS SQRT SQUARE TAN TANH",
    2: "ADD ATAN2 FLOOR_DIV FUSE_ADD_H_SWISH FUSE_ADD_RELU FUSE_ADD_SIGMOID FUSE_ADD_TANH "
    "LOG_SUM_EXP MAX MIN MOD MUL POW PRELU SUB SWITCH_GT0 TRUE_DIV",
    3: "CLIP COND_LEQ_MOV COND_LT_MOV FUSE_MUL_ADD3",
    4: "FUSE_MUL_ADD4",
}


def _mode(name, arity):
    return lambda t, f: apply(builtin.Elemwise(name), *(t(3) for _ in range(arity)))[0]


for _arity, _names in MODES.items():
    CASES.update({f"Elemwise-{n}": _mode(n, _arity) for n in _names.split()})


def _set_first(x, y):
    x[0] = y[0]
    return x


def _with_statistics(norm, x, training=True):
    if not training:
        norm.eval()
    y = norm(x)
    return y, norm.running_mean, norm.weight


def dtypes_of(result):
    """The names of the dtypes of a result, with the structure that it has."""
    if isinstance(result, (tuple, list)):
        return [dtypes_of(r) for r in result]
    return None if result is None else str(result.dtype)


def run(name, dtype):
    """The dtypes that a case gives for inputs of `dtype`."""
    rng = np.random.RandomState(0)

    def make(wanted):
        def t(*shape):
            return mge.tensor((rng.rand(*shape) * 0.5 + 0.25).astype("float32")).astype(wanted)

        return t

    return dtypes_of(CASES[name](make(dtype), make("float32")))
