"""Convolutions and windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..builder import Arg, Builder, Call, is_float
from ..registry import RefusedError, exports
from ..sizes import AnySize, Shape

AXES = {2: "hw", 3: "dhw"}


def _per_axis(call: Call, field: str, spatial: int) -> list[int]:
    return [call[f"{field}_{axis}"] for axis in AXES[spatial]]


def _weight(g: Builder, call: Call, weight: Arg, spatial: int) -> tuple[Arg | str, Shape, AnySize]:
    """The kernel in ONNX's shape, (out, in / groups, kernel...); that shape; how many groups."""
    groups: AnySize = 1
    shape = weight.shape
    name: Arg | str = weight
    if weight.ndim == spatial + 3:
        groups = shape[0]
        shape = (shape[0] * shape[1], *shape[2:])
        name = g.reshape(weight, shape)
    if str(call["mode"]) == "CONVOLUTION":
        axes = list(range(len(shape) - spatial, len(shape)))
        last = [np.iinfo("int64").max] * spatial
        first = [np.iinfo("int64").min] * spatial
        name = g.slice(name, axes, last, first, [-1] * spatial)
    return name, shape, groups


def _bias(g: Builder, bias: Arg) -> str:
    """One number for each channel."""
    count: AnySize = 1
    for n in bias.shape:
        count = count * n
    return g.reshape(bias, (count,))


@exports("Convolution", "Convolution3D")
def convolution(g: Builder, call: Call) -> str:
    """Conv; a kernel that is an input stays one."""
    x, weight, *bias = call.inputs
    spatial = x.ndim - 2
    kernel, shape, groups = _weight(g, call, weight, spatial)
    if not is_float(call.dtype) or call.dtype != x.dtype:
        raise RefusedError("ONNX has convolutions of floats alone")
    pads = _per_axis(call, "pad", spatial)
    return g.emit(
        "Conv",
        x,
        kernel,
        *(_bias(g, b) for b in bias),
        kernel_shape=shape[2:],
        strides=_per_axis(call, "stride", spatial),
        pads=[*pads, *pads],
        dilations=_per_axis(call, "dilate", spatial),
        group=groups,
    )


@exports("ConvolutionBackwardData", "Convolution3DBackwardData")
def conv_transpose(g: Builder, call: Call) -> str:
    """ConvTranspose: the kernel is that of the convolution whose gradient it is, as in ONNX."""
    weight, dy = call.inputs
    spatial = dy.ndim - 2
    kernel, shape, groups = _weight(g, call, weight, spatial)
    stride = _per_axis(call, "stride", spatial)
    pad = _per_axis(call, "pad", spatial)
    dilate = _per_axis(call, "dilate", spatial)
    extra = [
        call.shape[2 + i]
        - ((dy.shape[2 + i] - 1) * stride[i] + dilate[i] * (shape[2 + i] - 1) + 1 - 2 * pad[i])
        for i in range(spatial)
    ]
    return g.emit(
        "ConvTranspose",
        dy,
        kernel,
        kernel_shape=shape[2:],
        strides=stride,
        pads=[*pad, *pad],
        dilations=dilate,
        output_padding=extra,
        group=groups,
    )


@exports("DeformableConv")
def deformable_conv(g: Builder, call: Call) -> str:
    """DeformConv; its offsets have the same order."""
    if g.opset < 19:
        raise RefusedError("deformable convolutions came with opset 19: export with that")
    x, weight, offset, mask = call.inputs
    kernel, shape, groups = _weight(g, call, weight, 2)
    pads = _per_axis(call, "pad", 2)
    taps = shape[2] * shape[3]
    zeros = g.expand(g.scalar(0, call.dtype), (shape[0],))
    return g.emit(
        "DeformConv",
        x,
        kernel,
        offset,
        zeros,
        mask,
        kernel_shape=shape[2:],
        strides=_per_axis(call, "stride", 2),
        pads=[*pads, *pads],
        dilations=_per_axis(call, "dilate", 2),
        group=groups,
        offset_group=mask.shape[1] // taps,
    )


def _window_kernel(g: Builder, call: Call, dtype: np.dtype) -> tuple[str, int, int]:
    """(kh kw, 1, kh, kw): the kernel whose output channels are the elements of a window."""
    h, w = int(call["window_h"]), int(call["window_w"])
    return g.constant(np.eye(h * w).reshape(h * w, 1, h, w).astype(dtype)), h, w


def _window_index(g: Builder, call: Call, axis: str, count: AnySize) -> str:
    """(positions, window): which pixels the windows along an axis hold."""
    stride, dilate = call[f"stride_{axis}"], call[f"dilate_{axis}"]
    inside = np.arange(int(call[f"window_{axis}"]), dtype="int64") * dilate
    if isinstance(count, int):
        return g.constant(np.arange(count, dtype="int64")[:, None] * stride + inside)
    end = g.squeeze(g.size(count), [0])
    numbers = g.emit("Range", g.scalar(0, "int64"), end, g.scalar(1, "int64"))
    begins = g.emit("Mul", g.unsqueeze(numbers, [1]), g.scalar(stride, "int64"))
    return g.emit("Add", begins, g.constant(inside))


def windows(g: Builder, call: Call, x: Arg, out_h: AnySize, out_w: AnySize) -> str:
    """(N, C, out_h, window_h, out_w, window_w): rows, then columns of windows."""
    h, w = _per_axis(call, "pad", 2)
    name: Arg | str = x
    if h or w:
        zero = g.scalar(0, x.dtype)
        name = g.emit("Pad", x, g.ints([0, 0, h, w, 0, 0, h, w]), zero, mode="constant")
    rows = g.emit("Gather", name, _window_index(g, call, "h", out_h), axis=2)
    return g.emit("Gather", rows, _window_index(g, call, "w", out_w), axis=4)


@exports("Images2Neibs")
def sliding_window(g: Builder, call: Call) -> str:
    """Rows and columns of windows, put in order."""
    found = windows(g, call, call.inputs[0], call.shape[2], call.shape[3])
    return g.transpose(found, [0, 1, 2, 4, 3, 5])


@exports("GroupLocal")
def local_conv(g: Builder, call: Call) -> str:
    """At each position a product of the window with a matrix of its own."""
    x, weight = call.inputs
    groups, out_h, out_w, per_group, kh, kw, out = (int(n) for n in weight.shape)
    kernel: Arg | str = weight
    if str(call["mode"]) == "CONVOLUTION":
        least, most = np.iinfo("int64").min, np.iinfo("int64").max
        kernel = g.slice(weight, [4, 5], [most, most], [least, least], [-1, -1])
    sized = replace(call, node=replace(call.node, fields={**call.node.fields}))
    sized.node.fields.update(window_h=kh, window_w=kw)
    found = windows(g, sized, x, out_h, out_w)
    n = x.shape[0]
    parts = g.reshape(found, (n, groups, per_group, out_h, kh, out_w, kw))
    rows = g.reshape(
        g.transpose(parts, [1, 3, 5, 0, 2, 4, 6]), (groups, out_h, out_w, n, per_group * kh * kw)
    )
    matrices = g.reshape(kernel, (groups, out_h, out_w, per_group * kh * kw, out))
    made = g.emit("MatMul", rows, matrices)  # (groups, out_h, out_w, n, out)
    return g.reshape(g.transpose(made, [3, 0, 4, 1, 2]), call.shape)


@exports("SlidingWindowTranspose")
def sliding_window_transpose(g: Builder, call: Call) -> str:
    """The transposed convolution of that."""
    x = call.inputs[0]
    if not is_float(x.dtype) or x.dtype != call.dtype:
        raise RefusedError("ONNX has convolutions, which this is written as, of floats alone")
    kernel, h, w = _window_kernel(g, call, x.dtype)
    n, c, rows, columns = x.shape[:4]
    pads, stride, dilate = (_per_axis(call, f, 2) for f in ("pad", "stride", "dilate"))
    channels = g.transpose(x, [0, 1, 4, 5, 2, 3])
    extra = [
        call.shape[2 + i]
        - (((rows, columns)[i] - 1) * stride[i] + dilate[i] * ((h, w)[i] - 1) + 1 - 2 * pads[i])
        for i in range(2)
    ]
    image = g.emit(
        "ConvTranspose",
        g.reshape(channels, (n * c, h * w, rows, columns)),
        kernel,
        strides=stride,
        pads=[*pads, *pads],
        dilations=dilate,
        output_padding=extra,
    )
    return g.reshape(image, call.shape)
