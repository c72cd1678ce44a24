"""Resizing, sampling, warping, colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import megengine as mge
import megengine.functional as F
from megengine._core import call
from megengine.core.ops import builtin
from tests.ops.record import Array, Record

FULL = ("float32", "float64")
WIDE = {"float16": "float32", "bfloat16": "float32"}
# Positions that a matrix gives are rounded to float32 before pixels are weighed.
POSITIONS = {"float32": (2e-5, 2e-5)}

# ---- resizing ----------------------------------------------------------------------------------

# Each takes an array whose axis 0 is resized, and works out one output element after the other.


def positions(n: int, out: int, align: bool) -> Array:
    o = np.arange(out)
    if align:
        return o * (n - 1) / max(out - 1, 1)
    return (o + 0.5) * n / out - 0.5


def linear_axis(x: Array, out: int, align: bool) -> Array:
    at = np.clip(positions(len(x), out, align), 0, len(x) - 1)
    return np.stack([np.interp(at, np.arange(len(x)), c) for c in x.reshape(len(x), -1).T], 1)


def nearest_axis(x: Array, out: int, align: bool) -> Array:
    return np.stack([x[int(np.floor(o * len(x) / out + 1e-9))] for o in range(out)])


def filtered_axis(kernel: Callable[[float], float], reach: int, scaled: bool = False) -> Any:
    def run(x: Array, out: int, align: bool) -> Array:
        rows = []
        for at in positions(len(x), out, align):
            near = int(np.floor(at)) + np.arange(1 - reach, reach + 1)
            w = np.array([kernel(float(at - i)) for i in near])
            rows.append(np.tensordot(w / w.sum(), x[np.clip(near, 0, len(x) - 1)], 1))
        return np.stack(rows)

    return run


def keys(d: float, a: float = -0.75) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def lanczos4(d: float) -> float:
    return float(np.sinc(d) * np.sinc(d / 4)) if abs(d) < 4 else 0.0


def area_axis(x: Array, out: int, align: bool) -> Array:
    """Differences of the integral at the borders of the output elements."""
    total = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, 0)]).reshape(len(x) + 1, -1)
    borders = np.arange(out + 1) * len(x) / out
    at = np.stack([np.interp(borders, np.arange(len(x) + 1), c) for c in total.T], 1)
    return np.diff(at, axis=0) * out / len(x)


AXES = {
    "LINEAR": linear_axis,
    "NEAREST": nearest_axis,
    "AREA": area_axis,
    "CUBIC": filtered_axis(keys, 2),
    "LANCZOS4": filtered_axis(lanczos4, 4),
}


def interpolate_ref(x: Array, size: Sequence[int], mode: str, align: bool = False) -> Array:
    for k, out in enumerate(size):
        front = np.moveaxis(x, k + 2, 0)
        if front.size == 0:
            x = np.zeros((*x.shape[: k + 2], out, *x.shape[k + 3 :]))
            continue
        done = AXES[mode](front, out, align).reshape(out, *front.shape[1:])
        x = np.moveaxis(done, 0, k + 2)
    return x


def image(*shape: int) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(shape)]


def resized(
    name: str,
    shape: tuple[int, ...],
    size: tuple[int, ...],
    mode: str,
    align: bool = False,
    **more: Any,
) -> Record:
    op = builtin.Interpolate(size=size, mode=mode, align_corners=align)
    return Record(
        f"interpolate-{name}",
        fn=lambda x: call(op, x),
        ref=lambda x: interpolate_ref(x, size, mode, align),
        inputs=image(*shape),
        ops=("Interpolate", "InterpolateBackward"),
        **more,
    )


def interpolated(name: str, mode: str, size: Any = None, **kwargs: Any) -> Record:
    """By the Python function; 16-bit floats give float32."""
    kind = {"bilinear": "LINEAR", "bicubic": "CUBIC", "nearest": "NEAREST"}[mode]
    align = bool(kwargs.get("align_corners"))
    factor = kwargs.get("scale_factor")

    def ref(x: Array) -> Array:
        to = [int(n * factor) for n in x.shape[2:]] if factor else [size] * 2
        return interpolate_ref(x, to, kind, align)

    return Record(
        f"interpolate-python-{name}",
        fn=lambda x: F.vision.interpolate(x, size, mode=mode, **kwargs),
        ref=ref,
        inputs=image(2, 2, 4, 5),
        ops=("Interpolate",),
        out_dtype=WIDE,
    )


RESIZE = [
    resized("linear-up", (2, 3, 5, 4), (9, 11), "LINEAR", large=image(2, 17, 60, 70)),
    resized("linear-down", (2, 3, 9, 8), (4, 3), "LINEAR"),
    resized("linear-align", (2, 2, 5, 4), (7, 6), "LINEAR", True),
    resized("linear-align-one", (2, 2, 5, 4), (1, 6), "LINEAR", True),
    resized("linear-from-one", (2, 2, 1, 1), (3, 4), "LINEAR"),
    resized("linear-same", (2, 2, 3, 4), (3, 4), "LINEAR"),
    resized("linear-long", (1, 2, 2, 1), (90, 150), "LINEAR", order=1),
    resized("linear-channels", (1, 40, 3, 4), (5, 6), "LINEAR"),
    resized("linear-far", (1, 2, 3, 90), (2, 40), "LINEAR"),
    resized("linear-1d", (2, 3, 7), (16,), "LINEAR", large=image(3, 40, 700)),
    resized("linear-3d", (2, 2, 3, 4, 5), (5, 3, 7), "LINEAR", large=image(2, 8, 6, 20, 30)),
    resized("linear-3d-align", (1, 2, 3, 4, 5), (2, 6, 3), "LINEAR", True),
    resized("nearest", (2, 3, 5, 6), (7, 4), "NEAREST", large=image(2, 17, 60, 70)),
    resized("nearest-3d", (2, 2, 3, 4, 2), (5, 2, 4), "NEAREST"),
    resized("nearest-1d", (2, 2, 5), (12,), "NEAREST"),
    resized("cubic-up", (2, 3, 5, 4), (9, 11), "CUBIC", large=image(2, 17, 60, 70)),
    resized("cubic-down", (2, 3, 9, 8), (4, 3), "CUBIC"),
    resized("cubic-align", (2, 2, 5, 4), (7, 6), "CUBIC", True),
    resized("area", (2, 3, 9, 8), (4, 3), "AREA", large=image(2, 17, 60, 70)),
    resized("area-up", (2, 3, 4, 3), (9, 4), "AREA"),
    resized("lanczos4", (2, 3, 9, 8), (12, 3), "LANCZOS4"),
    interpolated("int-size", "bilinear", 7),
    interpolated("factor", "bilinear", scale_factor=1.7),
    interpolated("nearest", "nearest", 6),
    interpolated("bicubic", "bicubic", 6),
    interpolated("align", "bilinear", 6, align_corners=True),
    Record(
        "interpolate-tall",
        fn=lambda x: F.vision.interpolate(x, (2, 3), mode="bilinear"),
        ref=lambda x: interpolate_ref(x, (2, 3), "LINEAR"),
        inputs=image(1, 1, 80, 200),
        ops=("Interpolate", "InterpolateBackward"),
        out_dtype=WIDE,
    ),
    Record(
        "Resize",
        fn=lambda x: mge._core.apply(
            builtin.Resize(imode="CUBIC", format="NHWC"), x, mge.tensor([5, 3])
        )[0],
        ref=lambda x: np.moveaxis(interpolate_ref(np.moveaxis(x, 3, 1), (5, 3), "CUBIC"), 1, 3),
        inputs=image(2, 4, 6, 3),
        ops=("Resize",),
    ),
    Record(
        "Resize3D",
        fn=lambda x: mge._core.apply(
            builtin.Resize3D(format="NDHWC", align_corners=True), x, mge.tensor([2, 5, 3])
        )[0],
        ref=lambda x: np.moveaxis(
            interpolate_ref(np.moveaxis(x, 4, 1), (2, 5, 3), "LINEAR", True), 1, 4
        ),
        inputs=image(2, 3, 4, 6, 2),
        ops=("Resize3D",),
    ),
    Record(
        "vision-resize-area",
        fn=lambda x: F.vision.resize(x, (2, 3), format="NHWC", imode="area"),
        ref=lambda x: np.moveaxis(interpolate_ref(np.moveaxis(x, 3, 1), (2, 3), "AREA"), 1, 3),
        inputs=image(2, 5, 7, 3),
        ops=("Interpolate",),
        out_dtype=WIDE,
    ),
]

# ---- sampling ----------------------------------------------------------------------------------

PADDING = 60
BORDERS = {"replicate": "edge", "reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}
KERNELS: dict[str, tuple[Callable[[float], float], int]] = {
    "linear": (lambda d: max(0.0, 1 - abs(d)), 1),
    "cubic": (keys, 2),
    "lanczos4": (lanczos4, 4),
}


def sources(n: int, border: str) -> Array:
    """Which pixel stands at each position from -PADDING on; -1 for the border value."""
    if border == "constant":
        return np.pad(np.arange(n), PADDING, constant_values=-1)
    return np.pad(np.arange(n), PADDING, mode=BORDERS[border])  # type: ignore[call-overload]


def weights(at: float, n: int, border: str, mode: str) -> list[tuple[int, float]]:
    """(pixel, weight) of what is read along an axis."""
    source = sources(n, border)
    if mode == "nearest":
        return [(int(source[round(at) + PADDING]), 1.0)]
    kernel, reach = KERNELS[mode]
    near = int(np.floor(at)) + np.arange(1 - reach, reach + 1)
    w = np.array([kernel(float(at - i)) for i in near])
    return [(int(source[i + PADDING]), v) for i, v in zip(near, w / w.sum(), strict=True)]


def sample_ref(
    x: Array,
    at: Array,
    border: str = "replicate",
    mode: str = "linear",
    value: float = 0.0,
    image: Sequence[int] | None = None,
) -> Array:
    n, height, width, _ = at.shape
    out = np.zeros((n, x.shape[1], height, width))
    for m, i, j in np.ndindex(n, height, width):
        picture = x[m if image is None else image[m]]
        for row, wy in weights(float(at[m, i, j, 1]), x.shape[2], border, mode):
            for column, wx in weights(float(at[m, i, j, 0]), x.shape[3], border, mode):
                inside = row >= 0 and column >= 0
                out[m, :, i, j] += wx * wy * (picture[:, row, column] if inside else value)
    return out


def off_the_grid(rng: np.random.Generator, shape: Sequence[int], low: int, high: int) -> Array:
    """Positions that stay away from whole numbers and from halves, where slopes jump."""
    part = np.where(rng.random(shape) < 0.5, 0.1, 0.6) + 0.3 * rng.random(shape)
    return rng.integers(low, high, shape) + part


def remap_inputs(channels: int = 3, n: int = 2) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [
        rng.standard_normal((n, channels, 4, 5)),
        off_the_grid(rng, (n, 3, 4, 2), -6, 9),
    ]


def remapped(border: str, mode: str = "linear", value: float = 0.0, **more: Any) -> Record:
    name = "-".join(["remap", border, mode, str(more.pop("tag", ""))]).rstrip("-")
    inputs = more.pop("inputs", remap_inputs())
    return Record(
        name,
        fn=lambda x, at: F.vision.remap(x, at, border, value, mode),
        ref=lambda x, at: sample_ref(x, at, border, mode, value),
        inputs=inputs,
        ops=("Remap", "Sample", "SampleBackwardData", "SampleBackwardMap"),
        empty=lambda: [[np.zeros((0, 3, 4, 5)), np.zeros((0, 3, 4, 2))]],
        **more,
    )


def large_remap(rng: np.random.Generator) -> list[Array]:
    return [rng.standard_normal((2, 20, 31, 33)), off_the_grid(rng, (2, 30, 40, 2), -5, 40)]


REMAP = [
    remapped("replicate", large=large_remap),
    remapped("reflect", large=large_remap),
    remapped("reflect_101"),
    remapped("wrap"),
    remapped("constant", value=3.0, large=large_remap),
    remapped("replicate", tag="channels", inputs=remap_inputs(40)),
    remapped("constant", value=-2.0, tag="channels", inputs=remap_inputs(19)),
    remapped("replicate", "nearest", order=1),
    remapped("constant", "nearest", value=3.0, order=1),
    remapped("replicate", "cubic", large=large_remap),
    remapped("constant", "cubic", value=1.5),
    remapped("reflect_101", "cubic", tag="channels", inputs=remap_inputs(18)),
    remapped("replicate", "lanczos4", grad=(0,)),
    remapped("constant", "lanczos4", value=1.5, grad=(0,)),
    Record(
        "sample-numbered",
        fn=lambda x, at: call(
            builtin.Sample(border="WRAP"), x, at, mge.tensor([2, 0, 2, 1, 2], dtype="int32")
        ),
        ref=lambda x, at: sample_ref(x, at, "wrap", image=[2, 0, 2, 1, 2]),
        inputs=lambda rng: [
            rng.standard_normal((3, 2, 4, 5)),
            off_the_grid(rng, (5, 2, 3, 2), -6, 9),
        ],
        ops=("Sample", "SampleBackwardData", "SampleBackwardMap"),
        dtypes=FULL,
        empty=False,
    ),
    Record(
        "Remap-NHWC",
        fn=lambda x, at: mge._core.apply(builtin.Remap(format="NHWC"), x, at)[0],
        ref=lambda x, at: np.moveaxis(sample_ref(np.moveaxis(x, 3, 1), at), 1, 3),
        inputs=lambda rng: [
            rng.standard_normal((2, 4, 5, 3)),
            off_the_grid(rng, (2, 3, 4, 2), -6, 9),
        ],
        ops=("Remap",),
        empty=False,
    ),
]

# ---- warps -------------------------------------------------------------------------------------

# No pixel of a 3 x 4 output lies near a kink of these.
MATRICES = np.array(
    [
        [[1.13, 0.21, -0.37], [0.11, 0.93, -0.29], [0.023, 0.051, 1.0]],
        [[0.71, -0.33, 1.17], [0.17, 1.21, 0.23], [-0.031, 0.013, 1.1]],
    ]
)


def grid_ref(mat: Array, height: int, width: int) -> Array:
    j, i = np.meshgrid(np.arange(width), np.arange(height))
    p = np.einsum("nab,bij->naij", mat, np.stack([j, i, np.ones_like(i)]))
    return np.moveaxis(p[:, :2] / p[:, 2:], 1, 3)


def affine(mat: Array) -> Array:
    last = np.broadcast_to(np.array([0.0, 0.0, 1.0]), (len(mat), 1, 3))
    return np.concatenate([mat, last], 1)


def warp_ref(x: Array, mat: Array, **kwargs: Any) -> Array:
    return sample_ref(x, grid_ref(mat, 3, 4), **kwargs)


def warp_inputs(channels: int = 2) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal((2, channels, 5, 4)), MATRICES.copy()]


NO_IMAGES = [[np.zeros((0, 2, 5, 4)), np.zeros((0, 3, 3))]]
WARP_OPS = ("Sample", "SampleBackwardData", "SampleBackwardMap", "PerspectiveGrid")
WARP_OPS += ("PerspectiveGridBackward",)


def last_axis(f: Callable[..., Array]) -> Callable[..., Array]:
    """A reference for (N, C, H, W) on (N, H, W, C)."""
    return lambda x, *more: np.moveaxis(f(np.moveaxis(x, 3, 1), *more), 1, 3)


def perspective(name: str, kwargs: dict[str, Any], ref: dict[str, Any], **more: Any) -> Record:
    return Record(
        f"warp_perspective-{name}",
        fn=lambda x, m: F.vision.warp_perspective(x, m, (3, 4), **kwargs),
        ref=lambda x, m: warp_ref(x, m, **ref),
        inputs=more.pop("inputs", warp_inputs()),
        ops=WARP_OPS,
        dtypes=FULL,
        tol=POSITIONS,
        empty=lambda: NO_IMAGES,
        **more,
    )


WARP = [
    perspective(
        "replicate", {}, {}, large=lambda rng: [rng.standard_normal((2, 90, 50, 60)), MATRICES]
    ),
    perspective("reflect", {"border_mode": "REFLECT"}, {"border": "reflect"}),
    perspective(
        "constant",
        {"border_mode": "constant", "border_val": 2.0},
        {"border": "constant", "value": 2.0},
    ),
    perspective("nearest", {"interp_mode": "nearest"}, {"mode": "nearest"}, order=1),
    perspective("cubic", {"interp_mode": "cubic"}, {"mode": "cubic"}),
    Record(
        "warp_perspective-mat_idx",
        fn=lambda x, m: F.vision.warp_perspective(x, m, (3, 4), mat_idx=[2, 0]),
        ref=lambda x, m: warp_ref(x, m, image=[2, 0]),
        inputs=lambda rng: [rng.standard_normal((3, 2, 5, 4)), MATRICES.copy()],
        ops=WARP_OPS,
        dtypes=FULL,
        tol=POSITIONS,
        empty=False,
    ),
    Record(
        "warp_perspective-NHWC",
        fn=lambda x, m: F.vision.warp_perspective(x, m, (3, 4), format="NHWC"),
        ref=last_axis(warp_ref),
        inputs=lambda rng: [rng.standard_normal((2, 5, 4, 3)), MATRICES.copy()],
        ops=WARP_OPS,
        dtypes=FULL,
        tol=POSITIONS,
        empty=False,
    ),
    Record(
        "WarpPerspective",
        fn=lambda x, m: mge._core.apply(
            builtin.WarpPerspective(bmode="WRAP", format="NCHW"), x, m, mge.tensor([3, 4])
        )[0],
        ref=lambda x, m: warp_ref(x, m, border="wrap"),
        inputs=warp_inputs(),
        ops=("WarpPerspective", *WARP_OPS),
        dtypes=FULL,
        tol=POSITIONS,
        empty=lambda: NO_IMAGES,
    ),
    Record(
        "warp_affine",
        fn=lambda x, m: F.vision.warp_affine(x, m, (3, 4), format="NCHW"),
        ref=lambda x, m: warp_ref(x, affine(m)),
        inputs=lambda rng: [rng.standard_normal((2, 2, 5, 4)), MATRICES[:, :2].copy()],
        ops=("WarpAffine", *WARP_OPS),
        dtypes=FULL,
        tol=POSITIONS,
        empty=lambda: [[np.zeros((0, 2, 5, 4)), np.zeros((0, 2, 3))]],
    ),
    Record(
        "warp_affine-NHWC",
        fn=lambda x, m: F.vision.warp_affine(x, m, (3, 4), "constant", 1.5, interp_mode="linear"),
        ref=last_axis(lambda x, m: warp_ref(x, affine(m), border="constant", value=1.5)),
        inputs=lambda rng: [rng.standard_normal((2, 5, 4, 3)), MATRICES[:, :2].copy()],
        ops=("WarpAffine", *WARP_OPS),
        dtypes=FULL,
        tol=POSITIONS,
        empty=False,
    ),
    Record(
        "PerspectiveGrid",
        fn=lambda m: call(builtin.PerspectiveGrid(height=3, width=5), m),
        ref=lambda m: grid_ref(m, 3, 5),
        inputs=lambda rng: [MATRICES + 0.01 * rng.standard_normal(MATRICES.shape)],
        ops=("PerspectiveGrid", "PerspectiveGridBackward"),
        dtypes=FULL,
        large=lambda rng: [np.broadcast_to(MATRICES, (40, 2, 3, 3)).reshape(80, 3, 3)],
    ),
]

# ---- turning, colours --------------------------------------------------------------------------

GRAY = np.array([[0.299, 0.587, 0.114]])


def from_bgr(x: Array) -> Array:
    gray = x @ GRAY[0, ::-1]
    return np.stack([gray, 0.492 * (x[..., 0] - gray) + 0.5, 0.877 * (x[..., 2] - gray) + 0.5], -1)


def to_bgr(x: Array) -> Array:
    y, u, v = x[..., 0], x[..., 1] - 0.5, x[..., 2] - 0.5
    return np.stack([y + 2.032 * u, y - 0.395 * u - 0.581 * v, y + 1.14 * v], -1)


def colours(mode: str, channels: int, ref: Callable[[Array], Array]) -> Record:
    return Record(
        f"cvt_color-{mode}",
        fn=lambda x: F.vision.cvt_color(x, mode),
        ref=ref,
        inputs=image(2, 3, 5, channels),
        ops=("CvtColor",),
        large=image(2, 90, 120, channels),
    )


OTHERS = [
    colours("RGB2GRAY", 3, lambda x: x @ GRAY.T),
    colours("BGR2GRAY", 3, lambda x: x @ GRAY.T[::-1]),
    colours("RGBA2GRAY", 4, lambda x: x[..., :3] @ GRAY.T),
    colours("RGB2YUV", 3, from_bgr),
    colours("YUV2RGB", 3, to_bgr),
    colours("GRAY2RGB", 1, lambda x: np.repeat(x, 3, -1)),
    colours("RGBA2RGB", 4, lambda x: x[..., :3]),
    colours("RGBA2BGR", 4, lambda x: x[..., 2::-1]),
    colours("RGB2BGR", 3, lambda x: x[..., ::-1]),
    colours("BGR2RGB", 3, lambda x: x[..., ::-1]),
    Record(
        "vision-flip",
        fn=lambda x: (F.vision.flip(x), F.vision.flip(x, horizontal=False)),
        ref=lambda x: (x[..., ::-1, ::-1, :], x[..., ::-1, :, :]),
        inputs=image(2, 3, 4, 2),
    ),
    Record(
        "vision-rot90",
        fn=lambda x: (F.vision.rot90(x), F.vision.rot90(x, clockwise=False)),
        ref=lambda x: (np.rot90(x, -1, (-3, -2)), np.rot90(x, 1, (-3, -2))),
        inputs=image(2, 3, 4, 2),
    ),
    Record(
        "vision-rotate-right-angles",
        fn=lambda x: (F.vision.rotate(x, 90.0), F.vision.rotate(x, -180.0, interp_mode="nearest")),
        ref=lambda x: (np.rot90(x, 1, (2, 3)), x[..., ::-1, ::-1]),
        inputs=image(2, 3, 5, 5),
        order=1,
    ),
]

COVERED_ELSEWHERE = dict.fromkeys(
    ("WarpPerspectiveBackwardData", "WarpPerspectiveBackwardMat"), "ops/test_sampling.py"
)

RECORDS = [*RESIZE, *REMAP, *WARP, *OTHERS]
