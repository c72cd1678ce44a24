"""One valid call of each public function, method, operator and module: what the sweep bends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.core._imperative_rt.core2 import apply
from megengine.core.ops import builtin
from megengine.core.tensor import dtype as dtypes
from megengine.core.tensor.utils import subgraph_fn

T = mge.tensor


@dataclass(frozen=True)
class Sample:
    """A call that works: a name, the callable, and a function that makes its arguments."""

    name: str
    call: Callable[..., Any]
    args: Callable[[], list[Any]]
    kwargs: dict[str, Any] = field(default_factory=dict)


def data(*shape: int) -> mge.Tensor:
    """Floats in [0.1, 0.9), none equal."""
    n = int(np.prod(shape))
    return T((0.1 + 0.8 * np.arange(n) / max(n, 1)).reshape(shape).astype("float32"))


def ints(*values: int) -> mge.Tensor:
    return T(np.array(values, "int32"))


def rois() -> mge.Tensor:
    """Three boxes in two images."""
    return T([[0.0, 1, 1, 4, 4], [1.0, 0, 2, 5, 5], [1.0, 2, 0, 3, 5]])


def deformable() -> list[Any]:
    """Input, weight, offset and mask of a deformable convolution."""
    return [data(2, 4, 6, 6), data(8, 4, 3, 3), data(2, 18, 6, 6), data(2, 9, 6, 6)]


def regions(*shape: int) -> mge.Tensor:
    """Some numbers of regions."""
    return T((np.arange(np.prod(shape)) % 3).reshape(shape).astype("int32"))


def functional() -> list[Sample]:
    """Functions of megengine.functional, by name."""
    x, w = (lambda: data(2, 3)), (lambda: data(2, 3))
    image = lambda: data(2, 4, 6, 6)  # noqa: E731
    unary = "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp expm1 floor log"
    unary += " log1p logsigmoid neg relu relu6 round sigmoid silu sin sinh sqrt square tan tanh"
    unary += " gelu hsigmoid hswish softplus sign isnan isinf rsqrt cbrt mish selu celu logical_not"
    unary += " zeros_like ones_like copy identity flatten norm"
    binary = "add sub mul div floor_div mod pow maximum minimum atan2 logaddexp equal not_equal"
    binary += " less less_equal greater greater_equal"
    reductions = "sum mean prod max min var std argmax argmin"
    out = [Sample(n, getattr(F, n), lambda: [x()]) for n in unary.split() if hasattr(F, n)]
    out += [Sample(n, getattr(F, n), lambda: [x(), w()]) for n in binary.split() if hasattr(F, n)]
    for n in ("left_shift", "right_shift"):
        out.append(Sample(n, getattr(F, n), lambda: [ints(1, 2), 1]))
    for n in ("logical_and", "logical_or", "logical_xor"):
        out.append(Sample(n, getattr(F, n), lambda: [T([True, False]), T([True, True])]))
    for n in reductions.split():
        out.append(Sample(n, getattr(F, n), lambda: [x(), 1, False]))
    more: list[tuple[str, Any, Callable[[], list[Any]]]] = [
        ("leaky_relu", None, lambda: [x(), 0.1]),
        ("prelu", None, lambda: [x(), data(1)]),
        ("elu", None, lambda: [x(), 1.0]),
        ("clip", None, lambda: [x(), 0.2, 0.8]),
        ("norm", None, lambda: [x(), 2.0, 1, False]),
        ("softmax", None, lambda: [x(), 1]),
        ("logsoftmax", None, lambda: [x(), 1]),
        ("logsumexp", None, lambda: [x(), 1, False]),
        ("normalize", None, lambda: [x(), 2.0, 1]),
        ("sort", None, lambda: [x(), False]),
        ("argsort", None, lambda: [x(), False]),
        ("topk", None, lambda: [x(), 2, True, False, False]),
        ("cumsum", None, lambda: [x(), 1]),
        ("matmul", None, lambda: [data(2, 3), data(3, 4), False, False]),
        ("dot", None, lambda: [data(3), data(3)]),
        ("linear", None, lambda: [data(2, 3), data(4, 3), data(4)]),
        ("reshape", None, lambda: [x(), (3, 2)]),
        ("transpose", None, lambda: [x(), (1, 0)]),
        ("swapaxes", None, lambda: [x(), 0, 1]),
        ("expand_dims", None, lambda: [x(), 1]),
        ("squeeze", None, lambda: [data(1, 3), 0]),
        ("flatten", None, lambda: [data(2, 3, 4), 1, 2]),
        ("broadcast_to", None, lambda: [data(1, 3), (2, 3)]),
        ("concat", None, lambda: [[x(), w()], 1]),
        ("stack", None, lambda: [[x(), w()], 1]),
        ("split", None, lambda: [data(4, 4), 2, 1]),
        ("split", None, lambda: [data(4, 4), [1, 3], 1]),
        ("tile", None, lambda: [x(), (2, 1)]),
        ("repeat", None, lambda: [x(), 2, 1]),
        ("roll", None, lambda: [x(), 1, 1]),
        ("gather", None, lambda: [x(), 1, T([[0, 1], [1, 2]])]),
        ("scatter", None, lambda: [x(), 1, T([[0, 1], [1, 2]]), data(2, 2)]),
        ("where", None, lambda: [x() > 0.5, x(), w()]),
        ("cond_take", None, lambda: [x() > 0.5, x()]),
        ("one_hot", None, lambda: [ints(0, 2), 3]),
        ("indexing_one_hot", None, lambda: [x(), ints(0, 2), 1]),
        ("arange", None, lambda: [0, 10, 2]),
        ("linspace", None, lambda: [0, 10, 5]),
        ("zeros", None, lambda: [(2, 3)]),
        ("ones", None, lambda: [(2, 3)]),
        ("full", None, lambda: [(2, 3), 1.5]),
        ("full_like", None, lambda: [x(), 1.5]),
        ("eye", None, lambda: [3, 4]),
        ("diag", None, lambda: [x(), 0]),
        ("pad", getattr(F.nn, "pad", None), lambda: [x(), ((0, 1), (1, 0)), "constant"]),
        ("conv2d", None, lambda: [image(), data(8, 4, 3, 3), data(1, 8, 1, 1), 1, 1, 1, 1]),
        ("conv2d", None, lambda: [image(), data(2, 4, 2, 3, 3), None, (1, 2), (1, 0), 2, 2]),
        ("conv_transpose2d", None, lambda: [image(), data(4, 5, 3, 3), data(1, 5, 1, 1), 2, 1]),
        ("conv1d", None, lambda: [data(2, 4, 9), data(6, 4, 3), data(1, 6, 1), 2, 1, 1]),
        ("conv2d", None, lambda: [image(), data(8, 4, 3, 3), None, 1, 1, 1, 1, "convolution"]),
        ("conv3d", None, lambda: [data(2, 3, 4, 4, 4), data(5, 3, 2, 2, 2), None, 1, 1, 1, 1]),
        ("conv_transpose3d", None, lambda: [data(1, 3, 3, 3, 3), data(3, 2, 2, 2, 2), None, 2, 1]),
        (
            "local_conv2d",
            None,
            lambda: [image(), data(2, 3, 3, 2, 3, 3, 4), data(1, 8, 1, 1), 2, 1],
        ),
        (
            "region_restricted_conv",
            None,
            lambda: [image(), data(4, 1, 1, 3, 3), *(regions(2, 6, 6),) * 2, None, 1, 1, 1, 4],
        ),
        (
            "region_restricted_conv",
            None,
            lambda: [
                image(),
                data(2, 3, 2, 3, 3),
                regions(2, 6, 6),
                regions(2, 4, 4),
                None,
                1,
                0,
                1,
                2,
            ],
        ),
        ("sliding_window", None, lambda: [image(), (3, 2), (1, 0), (2, 1), (1, 2)]),
        ("sliding_window_transpose", None, lambda: [data(2, 4, 3, 3, 2, 2), (6, 6), 2, 0, 2, 1]),
        ("pixel_shuffle", None, lambda: [image(), 2]),
        ("local_response_norm", None, lambda: [image(), 3, 2.0, 1e-4, 0.75]),
        ("pad", F.nn.pad, lambda: [image(), ((0, 0), (1, 0), (2, 1), (0, 2)), "reflect"]),
        ("pad", F.nn.pad, lambda: [image(), ((0, 0), (1, 0), (2, 1)), "replicate", 1.0]),
        (
            "conv_bias_activation",
            F.quantized.conv_bias_activation,
            lambda: [image(), data(8, 4, 3, 3), data(1, 8, 1, 1), None, 1, 1, 1, 1, "relu"],
        ),
        (
            "batch_conv_bias_activation",
            F.quantized.batch_conv_bias_activation,
            lambda: [image(), data(2, 8, 4, 3, 3), data(1, 8, 1, 1), None, 1, 1, 1, 1, "relu"],
        ),
        (
            "conv_transpose2d",
            F.quantized.conv_transpose2d,
            lambda: [image(), data(4, 5, 3, 3), data(1, 5, 1, 1), None, 2, 1],
        ),
        ("max_pool2d", None, lambda: [image(), 2, 2, 1]),
        ("avg_pool2d", None, lambda: [image(), 2, 2, 1, "average"]),
        ("adaptive_avg_pool2d", None, lambda: [image(), (2, 3)]),
        ("adaptive_max_pool2d", None, lambda: [image(), 2]),
        (
            "batch_norm",
            None,
            lambda: [
                image(),
                *(data(1, 4, 1, 1) for _ in range(4)),
            ],
        ),
        ("layer_norm", None, lambda: [x(), (3,), True, data(3), data(3), 1e-5]),
        ("group_norm", None, lambda: [image(), 2, True, data(4), data(4), 1e-5]),
        ("instance_norm", None, lambda: [image(), True, data(4), data(4), 1e-5]),
        ("embedding", None, lambda: [ints(0, 1), data(4, 3)]),
        ("dropout", None, lambda: [x(), 0.5, True]),
        ("roi_align", F.vision.roi_align, lambda: [image(), rois(), (2, 3), "max", 1.0, 2, True]),
        ("roi_align", F.vision.roi_align, lambda: [image(), rois(), 2, "average", 0.5, 0, False]),
        ("roi_pooling", F.vision.roi_pooling, lambda: [image(), rois(), (2, 3), "max", 1.0]),
        ("roi_pooling", F.vision.roi_pooling, lambda: [image(), rois(), 2, "average", 0.5]),
        ("nms", F.vision.nms, lambda: [rois()[:, 1:], data(3), 0.5, 2]),
        ("correlation", F.vision.correlation, lambda: [image(), image(), 3, 2, 1, 1, 2, True]),
        ("correlation", F.vision.correlation, lambda: [image(), image(), 1, 2, 2, 2, 1, False]),
        ("deformable_conv2d", None, lambda: [*deformable(), data(1, 8, 1, 1), 1, 1, 1, 1]),
        ("deformable_conv2d", None, lambda: [*deformable(), None, (1, 1), (1, 1), (1, 1)]),
        (
            "deformable_psroi_pooling",
            None,
            lambda: [image(), rois(), data(3, 2, 2, 2), False, 2, 2, 2, 2, 1.0, 0.1],
        ),
        (
            "multi_head_attention",
            None,
            lambda: [data(2, 3, 4), data(2, 3, 4), data(2, 3, 4), 4, 2, 0.1, 0.1, data(64)],
        ),
        (
            "scaled_dot_product_attention",
            None,
            lambda: [data(2, 3, 4), data(2, 5, 4), data(2, 5, 4), data(3, 5), 0.1, True, 0.5],
        ),
        ("cross_entropy", F.nn.cross_entropy, lambda: [x(), ints(0, 2), 1, True, 0.1, "mean"]),
        ("square_loss", F.nn.square_loss, lambda: [x(), w(), "mean"]),
        ("l1_loss", F.nn.l1_loss, lambda: [x(), w(), "mean"]),
        ("binary_cross_entropy", F.nn.binary_cross_entropy, lambda: [x(), w(), True, "mean"]),
    ]
    out += [Sample(n, f or getattr(F, n), a) for n, f, a in more if f or hasattr(F, n)]
    out += vision()
    out += linear_algebra()
    uniform, normal = mge.random.uniform, mge.random.normal
    out += [
        Sample("uniform", uniform, lambda: [0.0, 1.0, (2, 3)]),
        Sample("normal", normal, lambda: [0.0, 1.0, (2, 3)]),
        Sample("permutation", mge.random.permutation, lambda: [5]),
        Sample("multinomial", mge.random.multinomial, lambda: [data(2, 3), 2, False]),
        Sample("multinomial", mge.random.multinomial, lambda: [data(3), 5, True]),
        Sample("seed", mge.random.seed, lambda: [3]),
    ]
    return out


def linear_algebra() -> list[Sample]:
    """Matrices, sums of products, complex numbers, distributions."""
    square = lambda: T([[[2.0, 1.0], [0.5, 3.0]], [[1.0, 0.0], [4.0, 1.0]]])  # noqa: E731
    z = lambda: F.complex(data(2, 3), data(2, 3))  # noqa: E731
    names = "add sub mul div neg abs exp log equal where sum mean max matmul softmax cumsum reshape"
    calls: dict[str, Callable[[], list[Any]]] = {
        "equal": lambda: [z(), z()],
        "where": lambda: [T([True, False, True]), z(), z()],
        "matmul": lambda: [z(), F.complex(data(3, 2), data(3, 2))],
        "cumsum": lambda: [z(), 1],
        "reshape": lambda: [z(), (3, 2)],
    }
    calls |= dict.fromkeys(("add", "sub", "mul", "div"), lambda: [z(), z()])
    out = [Sample(n, getattr(F, n), calls.get(n, lambda: [z()])) for n in names.split()]
    exponential = mge.distributions.Exponential
    more: list[tuple[str, Any, Callable[[], list[Any]]]] = [
        ("matinv", F.matinv, lambda: [square()]),
        ("svd", F.svd, lambda: [data(2, 3, 2), False, True]),
        ("svd", F.svd, lambda: [data(3, 4), True, True]),
        ("cross", F.cross, lambda: [data(2, 3), data(2, 3), -1, -1, -1]),
        ("einsum", F.einsum, lambda: ["ij,jk->ik", data(2, 3), data(3, 4)]),
        ("einsum", F.einsum, lambda: ["...i,...i->...", data(2, 3), data(3)]),
        ("einsum", F.einsum, lambda: [data(2, 3), [0, 1], data(3, 4), [1, 2], [0, 2]]),
        ("complex", F.complex, lambda: [data(2, 3), data(2, 3)]),
        ("polar", F.polar, lambda: [data(2, 3), data(2, 3)]),
        ("real", F.real, lambda: [z()]),
        ("imag", F.imag, lambda: [z()]),
        ("Exponential", exponential, lambda: [data(3)]),
        ("sample", exponential(data(3)).sample, lambda: [(2,)]),
        ("log_prob", exponential(data(3)).log_prob, lambda: [data(2, 3)]),
        ("cdf", exponential(data(3)).cdf, lambda: [data(2, 3)]),
        ("icdf", exponential(data(3)).icdf, lambda: [data(2, 3)]),
        ("MatrixInverse", lambda x: apply(builtin.MatrixInverse(), x), lambda: [square()]),
        ("SVD", lambda x: apply(builtin.SVD(), x), lambda: [data(3, 2)]),
        ("CrossProduct", lambda *x: apply(builtin.CrossProduct(), *x), lambda: [data(3), data(3)]),
        ("Complex", lambda *x: apply(builtin.Complex(), *x), lambda: [data(3), data(3)]),
        ("RealPart", lambda x: apply(builtin.RealPart(), x), lambda: [z()]),
        ("ImagPart", lambda x: apply(builtin.ImagPart(), x), lambda: [z()]),
    ]
    for mode in ("ADD", "SUB", "MUL", "TRUE_DIV", "CONJ", "ABS"):
        op = builtin.ComplexElemwise(mode=mode)
        n = 1 if mode in ("CONJ", "ABS") else 2
        more.append(
            (
                f"complex {mode}",
                lambda *x, op=op: apply(op, *x),
                lambda n=n: [z() for _ in range(n)],
            )
        )
    return out + [Sample(name, call, args) for name, call, args in more]


def vision() -> list[Sample]:
    """Resizing, warping, colours."""
    v = F.vision
    eye = lambda *shape: T(np.broadcast_to(np.eye(shape[-2], shape[-1]), shape).astype("float32"))  # noqa: E731
    images, nhwc = (lambda: data(2, 3, 4, 5)), (lambda: data(2, 4, 5, 3))
    planes = lambda: T(np.arange(48, dtype="uint8").reshape(1, 6, 8, 1))  # noqa: E731
    more: list[tuple[str, Callable[[], list[Any]]]] = [
        ("interpolate", lambda: [images(), (3, 7), None, "bilinear", False]),
        ("interpolate", lambda: [images(), None, 1.5, "nearest"]),
        ("interpolate", lambda: [images(), None, (1.5, 0.5), "bicubic", True]),
        ("interpolate", lambda: [data(1, 2, 3, 4, 2), 3, None, "trilinear", True]),
        ("interpolate", lambda: [data(2, 3, 5), 4, None, "linear"]),
        ("resize", lambda: [images(), 3, "NCHW", "area", 6]),
        ("resize", lambda: [nhwc(), (3, 6), "NHWC", "bicubic"]),
        ("remap", lambda: [images(), data(2, 3, 3, 2), "replicate", 0.5, "linear"]),
        ("remap", lambda: [images(), data(2, 3, 3, 2), "wrap", 0.5, "cubic"]),
        ("warp_affine", lambda: [nhwc(), eye(2, 2, 3), (3, 4), "reflect", 1.0, "NHWC", "linear"]),
        (
            "warp_perspective",
            lambda: [images(), eye(3, 3, 3), (3, 4), [0, 1, 1], "constant", 1.0, "NCHW", "linear"],
        ),
        ("flip", lambda: [nhwc(), True, False]),
        ("rot90", lambda: [nhwc(), True]),
        ("rotate", lambda: [images(), 30.0, "NCHW", "bilinear"]),
        ("cvt_color", lambda: [nhwc(), "RGB2YUV"]),
        ("cvt_color", lambda: [planes(), "YUV2RGB_NV12"]),
        ("nvof", lambda: [data(1, 2, 4, 4, 4), 1]),
    ]
    return [Sample(n, getattr(v, n), a) for n, a in more]


def tensors() -> list[Sample]:
    """The constructor, methods and operators of Tensor."""
    import operator

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any) -> Any:
            return getattr(self, name)(*args) if isinstance(self, mge.Tensor) else None

        return call

    x = lambda: data(2, 3)  # noqa: E731
    methods: list[tuple[str, list[Any]]] = [
        ("reshape", [(3, 2)]),
        ("transpose", [(1, 0)]),
        ("astype", ["float16"]),
        ("to", ["cpu0"]),
        ("sum", [1]),
        ("mean", [1]),
        ("max", [1]),
        ("min", [1]),
        ("prod", [1]),
        ("flatten", []),
        ("_reset", [data(2, 3)]),
    ]
    out = [Sample(n, method(n), lambda a=a: [x(), *a]) for n, a in methods]
    out.append(Sample("tensor", mge.tensor, lambda: [[[1.0, 2.0]], "float32", "cpu0"]))
    out.append(Sample("Parameter", mge.Parameter, lambda: [[[1.0, 2.0]]]))
    names = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor matmul eq lt"
    for n in names.split():
        out.append(Sample(n, getattr(operator, n), lambda: [x(), x()]))
        out.append(Sample(n, getattr(operator, n), lambda: [ints(1, 2), ints(3, 4)]))
    for n in ("neg", "invert", "pos", "abs"):
        out.append(Sample(n, getattr(operator, n), lambda: [x()]))
    return out


HOSTILE_KEYS: list[Any] = [
    0,
    -1,
    5,
    -5,
    2**31,
    2**63,
    2**100,
    -(2**63),
    1.5,
    np.nan,
    "a",
    None,
    ...,
    True,
    False,
    object(),
    slice(None),
    slice(5, 1),
    slice(None, None, -1),
    slice(None, None, 0),
    slice(2**62, None, -(2**62)),
    slice(-(2**63), 2**63 - 1, 2**63 - 1),
    slice("a", None),
    slice(1.5, None),
    slice(None, None, -(2**63)),
    [],
    [0, 1],
    [0, 9],
    [[0, 1], [1, 0]],
    [2**40],
    [1.5],
    ["a"],
    [None],
    [True, False],
    [True],
    [[True]],
    np.array([0, 1]),
    np.array([], "int32"),
    np.array([0, 7]),
    np.array([-3, 0]),
    np.array([0.5]),
    np.array([True, False, True]),
    np.array([[True, False, True]] * 2),
    np.array("a"),
    np.zeros((0, 3), bool),
    (0, 0),
    (0, 0, 0),
    (..., ...),
    (0, slice(None, None, -1)),
    ([0, 1], [0, 1, 2]),
    (None,) * 5,
    (None,) * 9,
    ([0, 1], slice(None), [0]),
    (slice(None), [0, 5]),
    (0, [2**31]),
    ((0, 1), (0, 1)),
    {},
    {0},
    b"a",
]


def indexing() -> list[Sample]:
    """Reading and writing at each hostile key."""
    keys = [*HOSTILE_KEYS]

    def tensor_keys() -> list[Any]:
        return [
            ints(0, 1),
            ints(0, 9),
            ints(-9),
            T(1),
            T(9),
            T([0.5]),
            T([True, False]),
            T([True] * 3),
            T(np.zeros((0,), "int32")),
            T(np.zeros((2, 3), "bool")),
            T(np.zeros((3, 2), "bool")),
            T(True),
            (ints(0, 1), ints(0, 9)),
            (ints(0, 1), ints(0, 1, 2)),
            (T(1), T(7)),
            (slice(T(0), T(1)),),
            (slice(None), ints(2**31 - 1)),
            (ints(-(2**31)),),
        ]

    out = []
    for i, key in enumerate([*keys, *range(len(tensor_keys()))]):
        made = (lambda key=key: key) if i < len(keys) else (lambda k=key: tensor_keys()[k])
        get = Sample("getitem", lambda x, k=made: x[k()], lambda: [data(2, 3)])
        out.append(get)
        for value in (1.0, data(2, 3), data(7), "a", None, T([1, 2, 3]), np.nan, data(0)):

            def put(x: mge.Tensor, k: Any = made, v: Any = value) -> mge.Tensor:
                x[k()] = v
                return x

            out.append(Sample("setitem", put, lambda: [data(2, 3)]))
    return out


def recurrent() -> list[Sample]:
    """The ops of recurrent networks, modules with a state, and CTC."""

    def state(net: Any) -> Callable[..., Any]:
        return lambda x, h, c: net(x, (h, c))

    def op(kind: Any) -> Callable[..., Any]:
        return lambda fields, *inputs: apply(kind(**fields), *inputs)

    fields = {"hidden_size": 4, "num_layers": 2}
    return [
        Sample(
            "ctc_loss",
            F.loss.ctc_loss,
            lambda: [data(5, 2, 4), ints(5, 4), ints(1, 2, 3), ints(1, 2), 0, "mean"],
        ),
        Sample(
            "ctc_loss",
            F.loss.ctc_loss,
            lambda: [data(5, 2, 4), ints(5, 4), T([[1, 2], [3, 1]]), ints(1, 2), 0, "none"],
        ),
        Sample(
            "LSTM-state",
            state(M.LSTM(3, 4, 2)),
            lambda: [data(5, 2, 3), data(2, 2, 4), data(2, 2, 4)],
        ),
        Sample("LSTMCell-state", state(M.LSTMCell(3, 4)), lambda: [data(2, 3)] + [data(2, 4)] * 2),
        Sample(
            "builtin.LSTM",
            op(builtin.LSTM),
            lambda: [fields, data(5, 2, 3), data(2, 2, 4), data(2, 2, 4), data(16, 19)],
        ),
        Sample(
            "builtin.RNN",
            op(builtin.RNN),
            lambda: [fields, data(5, 2, 3), data(2, 2, 4), data(4, 19)],
        ),
    ]


def modules() -> list[Sample]:
    """Constructors of modules and optimizers followed by a call, all arguments open to bending."""

    def build(cls: Any, inputs: int = 1) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return cls(*args[inputs:])(*args[:inputs])

        return call

    image = lambda: data(2, 4, 6, 6)  # noqa: E731
    table: list[tuple[str, Any, Callable[[], list[Any]]]] = [
        ("Conv2d", M.Conv2d, lambda: [image(), 4, 8, 3, 1, 1, 1, 1]),
        ("ConvTranspose2d", M.ConvTranspose2d, lambda: [image(), 4, 8, 3, 1, 1]),
        ("LSTM", M.LSTM, lambda: [data(5, 2, 3), 3, 4, 2, True, False, 0.1, True]),
        ("LSTMCell", M.LSTMCell, lambda: [data(2, 3), 3, 4]),
        ("Conv1d", M.Conv1d, lambda: [data(2, 4, 9), 4, 8, 3, 1, 1, 1, 1]),
        ("Conv3d", M.Conv3d, lambda: [data(1, 2, 4, 4, 4), 2, 4, 3, 1, 1, 1, 1]),
        ("ConvTranspose3d", M.ConvTranspose3d, lambda: [data(1, 2, 3, 3, 3), 2, 4, 3, 2, 1, 1]),
        ("LocalConv2d", M.LocalConv2d, lambda: [image(), 4, 8, 6, 6, 3, 1, 1, 1, 2]),
        (
            "RegionRestrictedConv",
            lambda *a: lambda x: M.RegionRestrictedConv(*a)(x, *(regions(2, 6, 6),) * 2),
            lambda: [image(), 4, 4, 3, 4, True, 1, 1],
        ),
        (
            "BatchMatMulActivation",
            M.BatchMatMulActivation,
            lambda: [data(2, 3, 5), 2, 3, 4, True, "relu"],
        ),
        ("SlidingWindow", M.SlidingWindow, lambda: [image(), 3, 1, 2, 1]),
        (
            "SlidingWindowTranspose",
            M.SlidingWindowTranspose,
            lambda: [data(2, 4, 3, 3, 2, 2), (6, 6), 2, 0, 2, 1],
        ),
        ("PixelShuffle", M.PixelShuffle, lambda: [image(), 2]),
        ("LocalResponseNorm", M.LocalResponseNorm, lambda: [image(), 3, 2.0, 1e-4, 0.75]),
        ("Pad", M.Pad, lambda: [data(2, 3), ((1, 0), (0, 2)), "reflect", 1.0]),
        ("Linear", M.Linear, lambda: [data(2, 3), 3, 4]),
        ("RNN", M.RNN, lambda: [data(5, 2, 3), 3, 4, 2, True, True, 0.1, True]),
        ("RNNCell", M.RNNCell, lambda: [data(2, 3), 3, 4, True, "relu"]),
        ("BatchNorm2d", M.BatchNorm2d, lambda: [image(), 4, 1e-5, 0.9]),
        ("BatchNorm1d", M.BatchNorm1d, lambda: [data(2, 3), 3]),
        ("SyncBatchNorm", M.SyncBatchNorm, lambda: [image(), 4, 1e-5, 0.9, True, True, False]),
        ("LayerNorm", M.LayerNorm, lambda: [data(2, 3), 3, 1e-5]),
        ("GroupNorm", M.GroupNorm, lambda: [image(), 2, 4]),
        ("InstanceNorm", M.InstanceNorm, lambda: [image(), 4]),
        ("MaxPool2d", M.MaxPool2d, lambda: [image(), 2, 2, 0]),
        ("AvgPool2d", M.AvgPool2d, lambda: [image(), 2, 2, 0]),
        ("AdaptiveAvgPool2d", M.AdaptiveAvgPool2d, lambda: [image(), 2]),
        (
            "MultiHeadAttention",
            lambda *a: lambda x: M.MultiHeadAttention(*a)(x, x, x),
            lambda: [data(2, 3, 4), 4, 2, 0.1, 0.1, True, True, True],
        ),
        ("Dropout", M.Dropout, lambda: [data(2, 3), 0.5]),
        ("Embedding", M.Embedding, lambda: [ints(0, 1), 4, 3]),
        ("Softmax", M.Softmax, lambda: [data(2, 3), 1]),
        ("LeakyReLU", M.LeakyReLU, lambda: [data(2, 3), 0.1]),
    ]
    out = [Sample(n, build(c), a) for n, c, a in table]
    out += [
        Sample(
            "DeformableConv2d",
            build(M.DeformableConv2d, 3),
            lambda: [image(), data(2, 18, 6, 6), data(2, 9, 6, 6), 4, 8, 3, 1, 1, 1, 1],
        ),
        Sample(
            "DeformablePSROIPooling",
            build(M.DeformablePSROIPooling, 3),
            lambda: [image(), rois(), data(3, 2, 2, 2), False, 2, 2, 2, 2, 1.0, 0.1],
        ),
    ]
    out += recurrent()

    def step(cls: Any) -> Callable[..., Any]:
        def call(grad: Any, *args: Any) -> Any:
            p = mge.Parameter([1.0, 2.0])
            p.grad = grad
            cls([p], *args).step()
            return p

        return call

    out += [
        Sample("SGD", step(optim.SGD), lambda: [T([1.0, 2.0]), 0.1, 0.9, 0.1]),
        Sample("Adam", step(optim.Adam), lambda: [T([1.0, 2.0]), 0.1, (0.9, 0.99), 1e-8, 0.1]),
        Sample("AdamW", step(optim.AdamW), lambda: [T([1.0, 2.0]), 0.1, (0.9, 0.99), 1e-8, 0.1]),
        Sample("Adagrad", step(optim.Adagrad), lambda: [T([1.0, 2.0]), 0.1, 0.1, 1e-8, 0.1]),
        Sample("Adadelta", step(optim.Adadelta), lambda: [T([1.0, 2.0]), 0.1, 0.9, 1e-8, 0.1]),
        Sample(
            "LAMB", step(optim.LAMB), lambda: [T([1.0, 2.0]), 0.1, (0.9, 0.99), 1e-8, True, 0.1]
        ),
        Sample(
            "LAMBFp16",
            step(optim.LAMBFp16),
            lambda: [T([1.0, 2.0]), 0.1, (0.9, 0.99), 1e-8, True, 0.1],
        ),
    ]
    return out


def below() -> list[Sample]:
    """What lies below the public modules: ops made of others, subgraphs, dtypes."""

    def op(name: str, count: int, *fields: str) -> Callable[..., Any]:
        """Applies an op to `count` inputs; what follows them are its fields."""
        kind = getattr(builtin, name)
        return lambda *a: apply(kind(**dict(zip(fields, a[count:], strict=True))), *a[:count])

    @subgraph_fn("subgraph", "float32", None, 2)
    def graph(inputs: Any, f: Any, c: Any) -> Any:
        return (f("fma3", *inputs, c(1)), f("max", *inputs)), (True, False)

    grid, picked = (lambda: data(3, 4)), [(0, False, False, False, True)]
    three = (lambda: data(2, 3), lambda: T(0.5), lambda: T(0.0))
    table: list[tuple[str, Callable[..., Any], Callable[[], list[Any]]]] = [
        ("FakeQuant", op("FakeQuant", 3, "qmin", "qmax"), lambda: [f() for f in three] + [-8, 7]),
        ("TQT", op("TQT", 2, "qmin", "qmax"), lambda: [data(2, 3), T(-2.0), -8, 7]),
        ("LSQ", op("LSQ", 4, "qmin", "qmax"), lambda: [f() for f in three] + [T(1.0), -8, 7]),
        ("CheckNonFinite", op("CheckNonFinite", 2, "scale"), lambda: [data(2, 3), data(4), 0.5]),
        ("MeshIndexing", op("MeshIndexing", 2, "items"), lambda: [grid(), ints(0, 2), picked]),
        ("SetMeshIndexing", op("SetMeshIndexing", 3, "items"),
         lambda: [grid(), data(2, 4), ints(0, 2), picked]),
        ("MaskedFill", op("MaskedFill", 2, "value"), lambda: [data(2, 3), T([True, False]), 1.5]),
        ("MeshGrid", op("MeshGrid", 2, "indexing"), lambda: [data(2), data(3), "xy"]),
        ("GetVarShape", op("GetVarShape", 2, "axis"), lambda: [data(2, 3), data(1, 3), 1]),
        ("InplaceAdd", op("InplaceAdd", 4), lambda: [data(2, 3), data(2, 3), T(1.0), T(0.5)]),
        ("_inplace_add_", F.inplace._inplace_add_, lambda: [data(2), data(2), T(1.0), T(0.5)]),
        ("AssertEqual", op("AssertEqual", 2, "maxerr"), lambda: [data(2, 3), data(2, 3), 0.1]),
        ("_assert_equal", F.utils._assert_equal, lambda: [data(2, 3), data(2, 3)]),
        ("ParamPackConcat", op("ParamPackConcat", 2, "offsets"),
         lambda: [data(2), data(2, 3), [0, 2, 4, 10]]),
        ("ParamPackSplit", op("ParamPackSplit", 1, "offsets", "shapes"),
         lambda: [data(10), [0, 2, 4, 10], [[2], [2, 3]]]),
        ("ElemwiseMultiType", op("ElemwiseMultiType", 2, "mode", "dtype"),
         lambda: [ints(5, -7), ints(2, 1), "ROUND_SHR_SATURATE_IXxI8xI8", "int8"]),
        ("Borrow", op("Borrow", 1, "comp_node"), lambda: [data(2, 3), "cpu1"]),
        ("Barrier", op("Barrier", 1, "comp_node", "nr_outputs"), lambda: [data(2, 3), "cpu0", 2]),
        ("subgraph", graph, lambda: [data(2, 3), data(3)]),
        ("qint8", dtypes.qint8, lambda: [0.5]),
        ("quint8", dtypes.quint8, lambda: [0.5, 128]),
        ("convert_to_qint8", dtypes.convert_to_qint8, lambda: [np.ones(3), dtypes.qint8(0.5)]),
        ("sync_batch_norm", F.sync_batch_norm,
         lambda: [data(2, 3, 2, 2), data(3), data(3), data(3), data(3), True, 0.9, 1e-5, "max"]),
    ]  # fmt: skip
    return [Sample(name, call, args) for name, call, args in table]
